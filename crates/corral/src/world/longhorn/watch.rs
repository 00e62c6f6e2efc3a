//! From changes to the volumes and managers that they concern, and looking at these.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::longhorn::NAMESPACE;
use drover_api::longhorn::engine::Engine;
use drover_api::longhorn::instance_manager::InstanceManager;
use drover_api::longhorn::node::Node as LonghornNode;
use drover_api::longhorn::replica::Replica;
use drover_api::longhorn::setting::{Setting, names};
use drover_api::longhorn::volume::Volume;
use drover_api::longhorn::volume_attachment::VolumeAttachment;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::volume::Host;
use super::{Settings, manager, volume};
use crate::apiserver::{Answer, Kind};
use crate::world::agenda::{Key, Look};
use crate::world::look::Wake;
use crate::world::notes::PodNote;
use crate::world::{Part, World};

const PART: Part = Part::Longhorn;
const REPLENISHMENT: Duration = Duration::from_secs(600);

impl World {
    pub(in crate::world) fn notice_longhorn(&mut self, plural: &str, (namespace, name): &Key) {
        if !self.has(PART) || namespace != NAMESPACE {
            return;
        }
        match plural {
            "volumes" => {
                let volume = self.read_longhorn::<Volume>(name);
                self.index.longhorn.note_volume(name, volume.as_ref());
                self.soon(Look::Volume(name.clone()));
            }
            "volumeattachments" => self.soon(Look::Volume(name.clone())),
            "engines" => {
                let engine = self.read_longhorn::<Engine>(name);
                let before = self.index.longhorn.note_engine(name, engine.as_ref());
                let after = engine.and_then(|engine| Some((engine.spec?.node_id, engine.metadata.labels)));
                let nodes = before.iter().map(|note| note.node.clone()).chain(after.and_then(|(node, _)| node));
                nodes.collect::<Vec<String>>().into_iter().for_each(|node| self.soon(Look::InstanceManager(node)));
                if let Some(volume) = name.strip_suffix("-e-0") {
                    self.soon(Look::Volume(volume.into()));
                }
            }
            "replicas" => {
                let replica = self.read_longhorn::<Replica>(name);
                let before = self.index.longhorn.note_replica(name, replica.as_ref());
                let after = replica.and_then(|replica| replica.spec);
                let volumes = before.iter().map(|note| note.volume.clone());
                let volumes = volumes.chain(after.as_ref().and_then(|spec| spec.volume_name.clone()));
                let volumes: Vec<String> = volumes.collect();
                // Whether a manager may go depends on the replicas of its volumes elsewhere, too.
                for volume in volumes {
                    let nodes: Vec<String> =
                        self.index.longhorn.replicas_of(&volume).map(|note| note.node.clone()).collect();
                    nodes.into_iter().for_each(|node| self.soon(Look::InstanceManager(node)));
                    self.soon(Look::Volume(volume));
                }
            }
            "instancemanagers" => {
                let manager = self.read_longhorn::<InstanceManager>(name);
                if let Some(node) = self.index.longhorn.note_manager(name, manager.as_ref()) {
                    self.notice_manager(&node);
                }
            }
            "nodes" => {
                let known = self.read_longhorn::<LonghornNode>(name).is_some();
                if known {
                    self.index.longhorn.nodes.insert(name.clone())
                } else {
                    self.index.longhorn.nodes.remove(name)
                };
                self.soon(Look::InstanceManager(name.clone()));
            }
            "settings" => {
                let nodes: Vec<String> = self.index.longhorn.nodes.iter().cloned().collect();
                nodes.iter().for_each(|node| self.notice_manager(node));
            }
            _ => {}
        }
    }

    /// A node, its manager, or the pod or budget of that has changed.
    pub(in crate::world) fn notice_manager(&mut self, node: &str) {
        if !self.has(PART) || !self.index.longhorn.nodes.contains(node) {
            return;
        }
        self.soon(Look::InstanceManager(node.into()));
        let mut volumes = self.index.longhorn.volumes_on(node);
        // Those that have found no place for a replica may have one here now.
        volumes.extend(self.index.longhorn.short_of_replicas());
        volumes.into_iter().for_each(|volume| self.soon(Look::Volume(volume)));
    }

    /// Pods that use a claim want its volume to be where they are.
    pub(in crate::world) fn notice_users(&mut self, key: &Key, before: Option<&PodNote>, after: Option<&PodNote>) {
        if !self.has(PART) {
            return;
        }
        let claims = before.into_iter().chain(after).flat_map(|note| &note.claims);
        let volumes: Vec<String> =
            claims.flat_map(|claim| self.index.longhorn.volumes_of(&(key.0.clone(), claim.clone()))).collect();
        volumes.into_iter().for_each(|volume| self.soon(Look::Volume(volume)));
    }

    /// A budget of a manager has come or gone: on another node one may be able to go now.
    pub(in crate::world) fn notice_manager_budget(&mut self, key: &Key) {
        if self.has(PART) && key.0 == NAMESPACE {
            let nodes: Vec<String> = self.index.longhorn.nodes.iter().cloned().collect();
            nodes.into_iter().for_each(|node| self.soon(Look::InstanceManager(node)));
        }
    }

    pub(in crate::world) fn look_at_volume(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let Some(volume) = self.read_for::<Volume>(PART, NAMESPACE, name)? else { return Ok(None) };
        let attachment = self.read_for::<VolumeAttachment>(PART, NAMESPACE, name)?;
        let engine = self.read_for::<Engine>(PART, NAMESPACE, &volume::engine_name(name))?;
        let replicas = self.owned_by::<Replica, _>(&volume)?;
        let notes = &self.index.longhorn;
        let load = notes.load();
        let hosts: BTreeMap<String, Host> = notes
            .nodes
            .iter()
            .map(|node| {
                let place = self.place(node);
                let running = place.ready && notes.manager_on(node).is_some_and(|manager| manager.running);
                let replicas = load.get(node.as_str()).copied().unwrap_or_default();
                (node.clone(), Host { running, schedulable: !place.cordoned, cordoned: place.cordoned, replicas })
            })
            .collect();
        let scene = volume::Scene {
            volume: &volume,
            attachment: attachment.as_ref(),
            engine: engine.as_ref(),
            replicas: &replicas,
            users: &self.users_of(name),
            hosts: &hosts,
            settings: &self.longhorn_settings()?,
        };
        self.perform(PART, &volume::reconcile(&scene, now), now)
    }

    /// The nodes of the pods that use a volume, those first that came first.
    fn users_of(&self, volume: &str) -> Vec<String> {
        let Some((namespace, claim)) = self.index.longhorn.claim_of(volume) else { return Vec::new() };
        let mut users: Vec<(Timestamp, &Key, &str)> = self
            .index
            .users_of(namespace, claim)
            .filter(|(_, pod)| !pod.has_ended())
            .filter_map(|(key, pod)| Some((pod.created, key, pod.node.as_deref()?)))
            .collect();
        users.sort_unstable();
        let mut nodes: Vec<String> = Vec::new();
        for (_, _, node) in users {
            if !nodes.iter().any(|known| known == node) {
                nodes.push(node.into());
            }
        }
        nodes
    }

    pub(in crate::world) fn look_at_instance_manager(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let Some(node) = self.read_for::<LonghornNode>(PART, NAMESPACE, name)? else { return Ok(None) };
        let known = self.index.longhorn.manager_on(name).map(|note| note.name.clone());
        let (mut manager, mut pod, mut budget) = (None, None, None);
        if let Some(known) = &known {
            manager = self.read_for::<InstanceManager>(PART, NAMESPACE, known)?;
            pod = self.read_for::<Pod>(PART, NAMESPACE, known)?;
            budget = self.read_for::<PodDisruptionBudget>(PART, NAMESPACE, known)?;
        }
        let scene = manager::Scene {
            node: &node,
            place: self.place(name),
            manager: manager.as_ref(),
            pod: pod.as_ref(),
            budget: budget.as_ref(),
            drain_policy: &self.longhorn_settings()?.drain_policy,
            notes: &self.index.longhorn,
            is_guarded: &|name| self.index.has_budget(&(NAMESPACE.into(), name.into())),
        };
        self.perform(PART, &manager::reconcile(&scene, now), now)
    }

    fn place(&self, name: &str) -> manager::Place {
        let note = self.index.node(name);
        manager::Place {
            ready: note.is_some_and(|note| note.ready),
            cordoned: note.is_some_and(|note| note.place.unschedulable),
        }
    }

    fn longhorn_settings(&self) -> Answer<Settings> {
        let value = |name: &str| -> Answer<Option<String>> {
            Ok(self.read_for::<Setting>(PART, NAMESPACE, name)?.and_then(|setting| setting.value))
        };
        let seconds = value(names::REPLENISHMENT_INTERVAL)?.and_then(|text| text.parse().ok());
        Ok(Settings {
            drain_policy: value(names::NODE_DRAIN_POLICY)?.unwrap_or_else(|| names::BLOCK_IF_LAST_REPLICA.into()),
            replenishment: seconds.map_or(REPLENISHMENT, Duration::from_secs),
            detach_when_cordoned: value(names::DETACH_WHEN_CORDONED)?.is_some_and(|text| text == "true"),
        })
    }

    fn read_longhorn<K: Kind>(&self, name: &str) -> Option<K> {
        self.direct(PART).get(Some(NAMESPACE), name).ok().flatten()
    }
}
