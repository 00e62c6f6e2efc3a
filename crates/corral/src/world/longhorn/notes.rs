//! What the world remembers of volumes, engines, replicas and managers.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::longhorn::engine::{self, Engine};
use drover_api::longhorn::instance_manager::InstanceManager;
use drover_api::longhorn::replica::Replica;
use drover_api::longhorn::volume::Volume;

use crate::world::agenda::Key;
use crate::world::pods;

#[derive(Clone, Debug, PartialEq)]
pub struct EngineNote {
    pub volume: String,
    pub node: String,
    pub running: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaNote {
    pub volume: String,
    pub node: String,
    pub stopped: bool,
    /// It has run, and was not lost since.
    pub healthy: bool,
    /// It holds no data.
    pub unused: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ManagerNote {
    pub name: String,
    pub running: bool,
}

#[derive(Debug, Default)]
pub struct Notes {
    claims: BTreeMap<String, Key>,
    by_claim: BTreeMap<Key, BTreeSet<String>>,
    /// How many replicas a volume is to have.
    wanted: BTreeMap<String, usize>,
    engines: BTreeMap<String, EngineNote>,
    replicas: BTreeMap<String, ReplicaNote>,
    managers: BTreeMap<String, ManagerNote>,
    /// The nodes that volumes are kept on.
    pub nodes: BTreeSet<String>,
}

impl Notes {
    pub fn note_volume(&mut self, name: &str, volume: Option<&Volume>) {
        if let Some(claim) = self.claims.remove(name)
            && let Some(volumes) = self.by_claim.get_mut(&claim)
        {
            volumes.remove(name);
        }
        let wanted = volume.and_then(|volume| volume.spec.as_ref()?.number_of_replicas);
        replace(&mut self.wanted, name, wanted.and_then(|number| usize::try_from(number).ok()));
        let bound = volume.and_then(|volume| volume.status.as_ref()?.kubernetes_status.as_ref());
        if let Some((namespace, claim)) = bound.and_then(|bound| bound.namespace.clone().zip(bound.pvc_name.clone())) {
            self.by_claim.entry((namespace.clone(), claim.clone())).or_default().insert(name.into());
            self.claims.insert(name.into(), (namespace, claim));
        }
    }

    /// Answers with what was known of it.
    pub fn note_engine(&mut self, name: &str, engine: Option<&Engine>) -> Option<EngineNote> {
        let note = engine.map(|engine| {
            let spec = engine.spec.clone().unwrap_or_default();
            let label = engine.metadata.labels.as_ref().and_then(|labels| labels.get(engine::VOLUME)).cloned();
            let state = engine.status.as_ref().and_then(|status| status.current_state.as_deref());
            EngineNote {
                volume: spec.volume_name.or(label).unwrap_or_default(),
                node: spec.node_id.unwrap_or_default(),
                running: state == Some(engine::states::RUNNING),
            }
        });
        replace(&mut self.engines, name, note)
    }

    pub fn note_replica(&mut self, name: &str, replica: Option<&Replica>) -> Option<ReplicaNote> {
        let note = replica.map(|replica| {
            let spec = replica.spec.clone().unwrap_or_default();
            let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
            let state = replica.status.as_ref().and_then(|status| status.current_state.as_deref());
            ReplicaNote {
                healthy: has(&spec.healthy_at) && !has(&spec.failed_at),
                unused: !has(&spec.healthy_at) && !has(&spec.failed_at),
                stopped: state != Some(engine::states::RUNNING),
                volume: spec.volume_name.unwrap_or_default(),
                node: spec.node_id.unwrap_or_default(),
            }
        });
        replace(&mut self.replicas, name, note)
    }

    pub fn note_manager(&mut self, name: &str, manager: Option<&InstanceManager>) -> Option<String> {
        let known = self.managers.iter().find(|(_, note)| note.name == name).map(|(node, _)| node.clone());
        if let Some(node) = &known {
            self.managers.remove(node);
        }
        let Some(manager) = manager else { return known };
        let node = manager.spec.as_ref().and_then(|spec| spec.node_id.clone())?;
        let running = super::manager::is_running(manager);
        self.managers.insert(node.clone(), ManagerNote { name: pods::name(&manager.metadata).into(), running });
        Some(node)
    }

    pub fn claim_of(&self, volume: &str) -> Option<&Key> {
        self.claims.get(volume)
    }

    pub fn volumes_of(&self, claim: &Key) -> BTreeSet<String> {
        self.by_claim.get(claim).cloned().unwrap_or_default()
    }

    pub fn engines_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a String, &'a EngineNote)> {
        self.engines.iter().filter(move |(_, note)| note.node == node && note.running)
    }

    pub fn replicas_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a String, &'a ReplicaNote)> {
        self.replicas.iter().filter(move |(_, note)| note.node == node)
    }

    pub fn replicas_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = &'a ReplicaNote> {
        self.replicas.values().filter(move |note| note.volume == volume)
    }

    pub fn manager_on(&self, node: &str) -> Option<&ManagerNote> {
        self.managers.get(node)
    }

    /// The volumes with something on a node.
    pub fn volumes_on(&self, node: &str) -> BTreeSet<String> {
        let engines = self.engines.values().filter(|note| note.node == node).map(|note| note.volume.clone());
        engines.chain(self.replicas_on(node).map(|(_, note)| note.volume.clone())).collect()
    }

    /// The volumes that have fewer replicas than they are to have.
    pub fn short_of_replicas(&self) -> BTreeSet<String> {
        let mut there: BTreeMap<&str, usize> = BTreeMap::new();
        for note in self.replicas.values() {
            *there.entry(note.volume.as_str()).or_default() += 1;
        }
        let is_short = |name: &&String, wanted: &usize| there.get(name.as_str()).copied().unwrap_or_default() < *wanted;
        self.wanted.iter().filter(|(name, wanted)| is_short(name, wanted)).map(|(name, _)| name.clone()).collect()
    }

    /// How many replicas each node has.
    pub fn load(&self) -> BTreeMap<&str, usize> {
        let mut load = BTreeMap::new();
        for note in self.replicas.values() {
            *load.entry(note.node.as_str()).or_default() += 1;
        }
        load
    }
}

fn replace<N>(notes: &mut BTreeMap<String, N>, name: &str, note: Option<N>) -> Option<N> {
    match note {
        Some(note) => notes.insert(name.into(), note),
        None => notes.remove(name),
    }
}
