//! From changes to the machines that they concern, and looking at these.

use std::collections::BTreeMap;

use drover_api::cluster_api::cluster::v1alpha2::Cluster;
use drover_api::cluster_api::kubeadm_config::LOCK_SUFFIX;
use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfig;
use drover_api::cluster_api::labels;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::vm_operator::virtual_machine::VirtualMachine;
use drover_api::vm_operator::virtual_machine_class::VirtualMachineClass;
use drover_api::vm_operator::virtual_machine_image::VirtualMachineImage;
use drover_api::wcp::wcp_machine::WCPMachine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ResourceQuota, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::infrastructure::{self, Course};
use super::join::{Joining, join, refuses};
use super::{CERTIFICATES, Steps, bootstrap, is_of_control_plane, is_reachable, machine, virtual_machine};
use crate::apiserver::{Answer, Direct};
use crate::world::agenda::{Key, Look};
use crate::world::annotations::{AWAY, DIES, JOIN, SILENT, WORKLOAD_API};
use crate::world::look::Wake;
use crate::world::outcome::Action;
use crate::world::{Part, World, act, pods};

const MACHINES: Part = Part::ClusterApi;
const BOOTSTRAP: Part = Part::KubeadmBootstrap;
const INFRASTRUCTURE: Part = Part::GuestMachines;

/// What a ResourceQuota counts virtual machines by.
const COUNTED: &str = "count/virtualmachines.vmoperator.vmware.com";

/// In the status of a virtual machine: what boots on it has come to its end once.
pub(super) const JOINED: &str = "joined";
/// The last words of a kubeadm that has given up.
pub(super) const CONSOLE: &str = "console";

impl World {
    /// A Machine of a control plane, its config and its infrastructure have one name; those of workers do not, and name each other.
    pub(in crate::world) fn notice_guest(&mut self, group: &str, plural: &str, key: &Key) {
        let is_one = matches!(
            (group, plural),
            ("cluster.x-k8s.io", "machines")
                | ("bootstrap.cluster.x-k8s.io", "kubeadmconfigs")
                | ("infrastructure.cluster.vmware.com", "wcpmachines")
        );
        if is_one && self.has(MACHINES) {
            self.soon(Look::GuestMachine(key.clone()));
            self.soon(Look::Bootstrap(key.clone()));
            self.soon(Look::Infrastructure(key.clone()));
            self.notice_relatives(plural, key);
        }
        if (group, plural) == ("vmoperator.vmware.com", "virtualmachines") && self.has(INFRASTRUCTURE) {
            let machine = self.direct(INFRASTRUCTURE).get::<Machine>(Some(&key.0), &key.1).ok().flatten();
            if let Some(machine) = machine {
                self.soon(Look::Infrastructure((key.0.clone(), parts_of(&machine).1)));
            }
        }
        if group == "cluster.x-k8s.io" && self.has(MACHINES) {
            self.notice_workers(plural, key);
        }
        if self.has(MACHINES) {
            self.notice_clusters(group, plural, key);
        }
    }

    fn notice_relatives(&mut self, plural: &str, key: &Key) {
        let direct = self.direct(MACHINES);
        let named = |name: &String| (key.0.clone(), name.clone());
        match (direct.get::<Machine>(Some(&key.0), &key.1).ok().flatten(), plural) {
            (Some(machine), "machines") => {
                let (config, infrastructure) = parts_of(&machine);
                self.soon(Look::Bootstrap(named(&config)));
                self.soon(Look::Infrastructure(named(&infrastructure)));
            }
            // A part of another name than its Machine's.
            (None, "kubeadmconfigs" | "wcpmachines") => {
                for machine in direct.list::<Machine>().unwrap_or_default() {
                    let (config, infrastructure) = parts_of(&machine);
                    if pods::namespace(&machine.metadata) == key.0 && [config, infrastructure].contains(&key.1) {
                        self.soon(Look::GuestMachine((key.0.clone(), pods::name(&machine.metadata).to_owned())));
                    }
                }
            }
            _ => {}
        }
    }

    pub(in crate::world) fn look_at_guest_machine(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(machine) = self.read_for::<Machine>(MACHINES, &key.0, &key.1)? else { return Ok(None) };
        let cluster = cluster_of(&machine.metadata);
        let owner = self.read_for::<Cluster>(MACHINES, &key.0, &cluster)?;
        let (config, infrastructure) = parts_of(&machine);
        let config = self.read_for::<KubeadmConfig>(MACHINES, &key.0, &config)?;
        let infrastructure = self.read_for::<WCPMachine>(MACHINES, &key.0, &infrastructure)?;
        let guest = self.guest(MACHINES, &key.0, &cluster)?;
        let reachable = guest.as_ref().filter(|guest| is_reachable(guest));
        let nodes = reachable.map(|guest| guest.list::<Node>()).transpose()?;
        let node = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()?.name.clone());
        // Pods matter only to a drain.
        let drained = reachable.filter(|_| machine.metadata.deletion_timestamp.is_some());
        let mut on_node = drained.map(|guest| guest.list::<Pod>()).transpose()?.unwrap_or_default();
        on_node.retain(|pod| node.is_some() && pods::node(pod) == node.as_deref());
        let others = self.direct(MACHINES).list::<Machine>()?;
        let is_other = |other: &Machine| {
            cluster_of(&other.metadata) == cluster
                && is_of_control_plane(other)
                && other.metadata.name != machine.metadata.name
        };
        let scene = machine::Scene {
            machine: &machine,
            cluster: owner.as_ref(),
            config: config.as_ref(),
            infrastructure: infrastructure.as_ref(),
            nodes: nodes.as_deref(),
            pods: &on_node,
            is_last: is_of_control_plane(&machine) && !others.iter().any(is_other),
        };
        self.take_steps(MACHINES, guest.as_ref(), machine::reconcile(&scene, now), now)
    }

    pub(in crate::world) fn look_at_bootstrap(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(config) = self.read_for::<KubeadmConfig>(BOOTSTRAP, &key.0, &key.1)? else { return Ok(None) };
        let cluster = cluster_of(&config.metadata);
        let mut certificates = BTreeMap::new();
        for end in CERTIFICATES {
            if let Some(secret) = self.read_for::<Secret>(BOOTSTRAP, &key.0, &format!("{cluster}{end}"))? {
                certificates.insert(end, secret);
            }
        }
        let mut owners = config.metadata.owner_references.iter().flatten();
        let machine = match owners.find(|owner| owner.kind == "Machine") {
            Some(owner) => self.read_for::<Machine>(BOOTSTRAP, &key.0, &owner.name)?,
            None => None,
        };
        let own = self.read_for::<Cluster>(BOOTSTRAP, &key.0, &cluster)?;
        let lock = self.read_for::<ConfigMap>(BOOTSTRAP, &key.0, &format!("{cluster}{LOCK_SUFFIX}"))?;
        // Whoever holds it and is gone holds it no longer.
        let holder = lock.as_ref().and_then(bootstrap::holder);
        let is_gone = match &holder {
            Some(holder) => self.read_for::<Machine>(BOOTSTRAP, &key.0, holder)?.is_none(),
            None => false,
        };
        if let Some(lock) = lock.filter(|_| is_gone) {
            let unlock = Steps { wake: Some(now), ..Steps::own(vec![Action::delete(&lock)]) };
            return self.take_steps(BOOTSTRAP, None, unlock, now);
        }
        let scene = bootstrap::Scene {
            config: &config,
            machine: machine.as_ref(),
            cluster: own.as_ref(),
            certificates: &certificates,
            locked_by: holder.as_deref(),
        };
        self.take_steps(BOOTSTRAP, None, bootstrap::reconcile(&scene, now), now)
    }

    pub(in crate::world) fn look_at_infrastructure(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(own) = self.read_for::<WCPMachine>(INFRASTRUCTURE, &key.0, &key.1)? else { return Ok(None) };
        let owners = own.metadata.owner_references.iter().flatten();
        let owner = owners.filter(|owner| owner.kind == "Machine").map(|owner| owner.name.clone()).next();
        let machine = match &owner {
            Some(owner) => self.read_for::<Machine>(INFRASTRUCTURE, &key.0, owner)?,
            None => None,
        };
        let guest = self.guest(INFRASTRUCTURE, &key.0, &cluster_of(&own.metadata))?;
        let image = own.spec.as_ref().and_then(|spec| spec.image_name.clone()).unwrap_or_default();
        let image = self.read_for::<VirtualMachineImage>(INFRASTRUCTURE, "", &image)?;
        let lacks = self.lacking(&own)?;
        let name = owner.as_ref().unwrap_or(&key.1);
        let vm = self.read_for::<VirtualMachine>(INFRASTRUCTURE, &key.0, name)?;
        let scene = infrastructure::Scene {
            machine: machine.as_ref(),
            image: image.as_ref(),
            virtual_machine: vm.as_ref(),
            lacks,
        };
        let node = guest.as_ref().map(|guest| guest.get::<Node>(None, name)).transpose()?.flatten();
        let switched = |is_on: bool| node.as_ref().and_then(|node| virtual_machine::switched(node, is_on, now));
        let steps = match infrastructure::reconcile(&own, &scene, now) {
            Course::Steps(steps) => steps,
            Course::Lost => Steps {
                own: infrastructure::lost(&own).into_iter().chain(vm.iter().map(virtual_machine::released)).collect(),
                guest: switched(false).into_iter().collect(),
                wake: None,
            },
            Course::Off => {
                let stopped = guest.as_ref().map(|guest| switched_off(guest, name)).transpose()?.unwrap_or_default();
                let released = vm.iter().map(virtual_machine::released).chain([infrastructure::released(&own)]);
                Steps { own: released.collect(), guest: stopped, wake: None }
            }
            Course::Runs(since) => {
                let is_on = vm.as_ref().is_some_and(virtual_machine::is_on);
                let mut told: Vec<Action> = infrastructure::powered(&own, is_on).into_iter().collect();
                told.extend(vm.as_ref().and_then(|vm| virtual_machine::described(vm, true)));
                match (told.is_empty(), switched(is_on)) {
                    (true, None) if is_on => self.boot(&own, machine.as_ref(), guest.as_ref(), since, now),
                    (_, switched) => {
                        // What is changed in the guest alone is noticed by nobody here.
                        let wake = is_on.then_some(now).filter(|_| switched.is_some());
                        Steps { own: told, guest: switched.into_iter().collect(), wake }
                    }
                }
            }
        };
        self.take_steps(INFRASTRUCTURE, guest.as_ref(), steps, now)
    }

    /// What a virtual machine is to be made by and is not there. A world in which there is none of a kind does not ask for it.
    fn lacking(&self, own: &WCPMachine) -> Answer<Option<String>> {
        let spec = own.spec.clone().unwrap_or_default();
        let direct = self.direct(INFRASTRUCTURE);
        let is_named = |metadata: &ObjectMeta, name: &Option<String>| metadata.name == *name;
        let classes = direct.list::<VirtualMachineClass>().unwrap_or_default();
        if !classes.is_empty() && !classes.iter().any(|one| is_named(&one.metadata, &spec.class_name)) {
            let name = spec.class_name.unwrap_or_default();
            return Ok(Some(format!("virtualmachineclasses.vmoperator.vmware.com \"{name}\" not found")));
        }
        let storage = direct.list::<StorageClass>()?;
        if !storage.is_empty() && !storage.iter().any(|one| is_named(&one.metadata, &spec.storage_class)) {
            let name = spec.storage_class.unwrap_or_default();
            return Ok(Some(format!("storageclasses.storage.k8s.io \"{name}\" not found")));
        }
        self.quota_exceeded(own)
    }

    /// A ResourceQuota that counts virtual machines has no room for this one. Those that are there already count.
    fn quota_exceeded(&self, own: &WCPMachine) -> Answer<Option<String>> {
        let direct = self.direct(INFRASTRUCTURE);
        let namespace = pods::namespace(&own.metadata);
        for quota in
            direct.list::<ResourceQuota>()?.iter().filter(|quota| pods::namespace(&quota.metadata) == namespace)
        {
            let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref()?.get(COUNTED));
            let Some(limit) = hard.and_then(|hard| hard.0.parse::<usize>().ok()) else { continue };
            let is_made = |one: &&WCPMachine| {
                let made = one.status.as_ref().is_some_and(|status| {
                    status.ready == Some(true) || status.rest.contains_key(infrastructure::SINCE)
                });
                made && pods::namespace(&one.metadata) == namespace && one.metadata.name != own.metadata.name
            };
            let used = direct.list::<WCPMachine>()?.iter().filter(is_made).count();
            if used >= limit {
                let name = pods::name(&quota.metadata);
                return Ok(Some(format!(
                    "exceeded quota: {name}, requested: {COUNTED}=1, used: {COUNTED}={used}, limited: {COUNTED}={limit}"
                )));
            }
        }
        Ok(None)
    }

    fn boot(
        &self,
        own: &WCPMachine,
        machine: Option<&Machine>,
        guest: Option<&Direct>,
        since: Timestamp,
        now: Timestamp,
    ) -> Steps {
        let is_done = own.status.as_ref().is_some_and(|status| status.rest.get(JOINED) == Some(&json!(true)));
        let (Some(machine), Some(guest)) = (machine, guest) else { return Steps::default() };
        if is_done || machine.metadata.deletion_timestamp.is_some() {
            return Steps::default();
        }
        let provider_id = own.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        let version = machine.spec.as_ref().and_then(|spec| spec.version.clone()).unwrap_or_default();
        let version = version.trim_start_matches('v');
        let config =
            self.read_for::<KubeadmConfig>(INFRASTRUCTURE, pods::namespace(&own.metadata), &parts_of(machine).0);
        let config = config.ok().flatten();
        let labels = config.as_ref().map(node_labels).unwrap_or_default();
        let configuration = config.and_then(|config| config.spec?.cluster_configuration);
        let joining = Joining {
            name: pods::name(&machine.metadata),
            version,
            provider_id: &provider_id,
            labels: &labels,
            is_worker: !is_of_control_plane(machine),
            begins: configuration.as_ref().filter(|_| bootstrap::begins(machine)),
            since,
            dies: own.metadata.annotations.as_ref().is_some_and(|told| told.get(JOIN).is_some_and(|how| how == DIES)),
        };
        let said = own.status.as_ref().is_some_and(|status| status.rest.contains_key(CONSOLE));
        if let Some(words) = refuses(&joining, guest, now).filter(|_| !said) {
            let mut after = own.clone();
            after.status.get_or_insert_default().rest.insert(CONSOLE.into(), json!(words));
            return Steps::own(Action::change(own, &after).into_iter().collect());
        }
        if said {
            return Steps::default();
        }
        join(&joining, guest, now).unwrap_or_else(|| {
            let mut after = own.clone();
            after.status.get_or_insert_default().rest.insert(JOINED.into(), json!(true));
            Steps::own(Action::change(own, &after).into_iter().collect())
        })
    }

    pub(super) fn take_steps(&self, part: Part, guest: Option<&Direct>, steps: Steps, now: Timestamp) -> Answer<Wake> {
        let direct = self.direct(part);
        for action in &steps.own {
            act::perform(&direct, action, now)?;
        }
        for (action, guest) in steps.guest.iter().filter_map(|action| Some((action, guest?))) {
            match act::perform(guest, action, now) {
                // A budget lets the pod not go: the drain tries again.
                Err(status) if status.code == 429 => {}
                answer => answer?,
            }
        }
        Ok(steps.wake)
    }

    /// The API of a guest cluster, unless it is cut off from the controllers of the management cluster. Machines reach it all the same.
    pub(super) fn guest(&self, part: Part, namespace: &str, cluster: &str) -> Answer<Option<Direct>> {
        let key = (namespace.to_owned(), cluster.to_owned());
        let Some(server) = self.options.guests.get(&key).filter(|_| self.has(part)) else { return Ok(None) };
        let object = self.read_for::<Cluster>(part, namespace, cluster)?;
        let told = object.and_then(|object| object.metadata.annotations?.remove(WORKLOAD_API));
        let is_cut_off = part == MACHINES && matches!(told.as_deref(), Some(AWAY | SILENT));
        Ok((!is_cut_off).then(|| server.direct(part.actor())))
    }
}

/// The names of its config and its infrastructure.
fn parts_of(machine: &Machine) -> (String, String) {
    let spec = machine.spec.clone().unwrap_or_default();
    let config = spec.bootstrap.and_then(|bootstrap| bootstrap.config_ref?.name).unwrap_or_default();
    (config, spec.infrastructure_ref.and_then(|reference| reference.name).unwrap_or_default())
}

/// What the kubelet is told to label its Node with, as `key=value`.
fn node_labels(config: &KubeadmConfig) -> Vec<(String, String)> {
    let spec = config.spec.clone().unwrap_or_default();
    let documents = [spec.init_configuration, spec.join_configuration];
    let said = documents.iter().flatten().find_map(|document| {
        document["nodeRegistration"]["kubeletExtraArgs"]["node-labels"].as_str().map(str::to_owned)
    });
    let pairs = said.as_deref().unwrap_or_default().split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub(super) fn cluster_of(metadata: &ObjectMeta) -> String {
    metadata.labels.as_ref().and_then(|labels| labels.get(labels::CLUSTER_NAME)).cloned().unwrap_or_default()
}

/// Nothing runs any more on a machine that is gone.
fn switched_off(guest: &Direct, node: &str) -> Answer<Vec<Action>> {
    let there = guest.list::<Pod>()?.into_iter().filter(|pod| pods::node(pod) == Some(node));
    Ok(there
        .map(|pod| Action::RemovePod {
            namespace: pods::namespace(&pod.metadata).into(),
            name: pods::name(&pod.metadata).into(),
            uid: pods::uid(&pod.metadata).into(),
        })
        .collect())
}
