//! Looking at one thing: read what is needed, let the part decide, do what it says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PropagationPolicy;

use super::agenda::{Key, Look};
use super::garbage::{self, Fate, Header, Owner};
use super::outcome::Outcome;
use super::scheduler::fit::{fit, fit_in};
use super::scheduler::{self, Verdict};
use super::{Part, World, act, budget, job, kubelet, lifecycle, pod_garbage, pods};
use crate::apiserver::Answer;

pub(super) type Wake = Option<Timestamp>;

impl World {
    /// Says when to look again if nothing changes.
    pub(super) fn look(&mut self, look: &Look, now: Timestamp) -> Answer<Wake> {
        match look {
            Look::Machine(name) => self.look_at_machine(name, now),
            Look::Lease(name) => self.look_at_lease(name, now),
            Look::Disk(name) => self.look_at_disk(name, now),
            Look::Silence(name) => self.look_at_silence(name, now),
            Look::Taints(name) => self.look_at_taints(name, now),
            Look::Readiness(key) => self.look_at_readiness(key, now),
            Look::Eviction(key) => self.look_at_eviction(key, now),
            Look::Stranded(key) => self.look_at_stranded(key, now),
            Look::Pod(key) => self.look_at_pod(key, now),
            Look::Job(key) => self.look_at_job(key, now),
            Look::Orphan(key) => self.look_at_orphan(key, now),
            Look::Deployment(key) => self.look_at_deployment(key, now),
            Look::ReplicaSet(key) => self.look_at_replica_set(key, now),
            Look::StatefulSet(key) => self.look_at_stateful_set(key, now),
            Look::DaemonSet(key) => self.look_at_daemon_set(key, now),
            Look::Service(key) => self.look_at_service(key, now),
            Look::Waiting(key) => self.look_at_waiting(key, now),
            Look::Room(node) => self.look_at_room(node, now),
            Look::Budget(key) => self.look_at_budget(key, now),
            Look::Garbage(uid) => self.look_at_garbage(uid),
            Look::Namespace(name) => self.look_at_namespace(name),
            Look::KubeVirt(key) => self.look_at_kubevirt(key, now),
            Look::VirtualMachine(key) => self.look_at_virtual_machine(key, now),
            Look::Instance(key) => self.look_at_instance(key, now),
            Look::Migration(key) => self.look_at_migration(key, now),
            Look::Evacuation(name) => self.look_at_evacuation(name, now),
            Look::Planner(key) => self.look_at_planner(key, now),
            Look::MachineDrain(key) => self.look_at_machine_drain(key, now),
            Look::SystemAgent(key) => self.look_at_system_agent(key, now),
            Look::CapiMachine(key) => self.look_at_capi_machine(key, now),
            Look::Member(name) => self.look_at_member(name, now),
            Look::Chart(key) => self.look_at_chart(key, now),
            Look::Bundle(key) => self.look_at_bundle(key, now),
            Look::ClusterRepo(name) => self.look_at_cluster_repo(name, now),
            Look::FleetCluster(key) => self.look_at_fleet_cluster(key, now),
            Look::Addon(key) => self.look_at_addon(key, now),
            Look::HelmChart(key) => self.look_at_helm_chart(key, now),
            Look::Rancher(key) => self.look_at_rancher(key, now),
            Look::Image(key) => self.look_at_image(key, now),
            Look::GuestMachine(key) => self.look_at_guest_machine(key, now),
            Look::Bootstrap(key) => self.look_at_bootstrap(key, now),
            Look::Infrastructure(key) => self.look_at_infrastructure(key, now),
            Look::GuestCluster(key) => self.look_at_guest_cluster(key, now),
            Look::Balancer(key) => self.look_at_balancer(key, now),
            Look::MachineSet(key) => self.look_at_machine_set(key, now),
            Look::MachineDeployment(key) => self.look_at_machine_deployment(key, now),
            Look::Volume(name) => self.look_at_volume(name, now),
            Look::InstanceManager(name) => self.look_at_instance_manager(name, now),
        }
    }

    pub(super) fn perform(&self, part: Part, outcome: &Outcome, now: Timestamp) -> Answer<Wake> {
        let direct = self.direct(part);
        for action in &outcome.actions {
            act::perform(&direct, action, now)?;
        }
        Ok(outcome.wake)
    }

    fn look_at_machine(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let Some(node) = self.read_for::<Node>(Part::Kubelets, "", name)? else { return Ok(None) };
        let outcome = kubelet::node::post_status(&node, &self.options.kubelet.version, now);
        self.perform(Part::Kubelets, &outcome, now)
    }

    fn look_at_lease(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let machine = self.index.node(name).and_then(|node| node.machine.as_ref());
        let (Some(machine), Some(period), true) =
            (machine, self.options.kubelet.lease_period, self.has(Part::Kubelets))
        else {
            return Ok(None);
        };
        let lease = self.direct(Part::Kubelets).get::<Lease>(Some(kubelet::lease::NAMESPACE), name)?;
        self.perform(Part::Kubelets, &kubelet::lease::renew(machine, lease.as_ref(), period, now), now)
    }

    fn look_at_pod(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(pod) = self.read_for::<Pod>(Part::Kubelets, &key.0, &key.1)? else { return Ok(None) };
        let node = pods::node(&pod).and_then(|node| self.index.node(node));
        let Some(machine) = node.and_then(|node| node.machine.as_ref()) else { return Ok(None) };
        self.perform(Part::Kubelets, &kubelet::pod::run(&pod, machine, &self.options.kubelet, now), now)
    }

    fn look_at_disk(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let has_disk =
            self.index.node(name).and_then(|node| node.machine.as_ref()).is_some_and(|machine| machine.has_disk);
        let Some(node) = self.read_for::<Node>(Part::Kubelets, "", name)?.filter(|_| has_disk) else { return Ok(None) };
        let pods = self.read_pods(Part::Kubelets, self.index.pods_on(name).map(|(key, _)| key))?;
        self.perform(Part::Kubelets, &kubelet::disk::keep_house(&node, &pods, now), now)
    }

    fn look_at_silence(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let simulated = self.index.node(name).is_some_and(|node| node.machine.is_some());
        let Some(node) = self.read_for::<Node>(Part::NodeLifecycle, "", name)?.filter(|_| simulated) else {
            return Ok(None);
        };
        let lease = self.direct(Part::NodeLifecycle).get::<Lease>(Some(kubelet::lease::NAMESPACE), name)?;
        let Some(lease) = lease else { return Ok(None) };
        self.perform(Part::NodeLifecycle, &lifecycle::watch_over(&node, &lease, now), now)
    }

    fn look_at_eviction(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(pod) = self.read_for::<Pod>(Part::TaintEviction, &key.0, &key.1)? else { return Ok(None) };
        let Some(node) = pods::node(&pod).and_then(|node| self.index.node(node)) else { return Ok(None) };
        let outcome = lifecycle::drive_out(&pod, &node.evicting, now);
        self.perform(Part::TaintEviction, &outcome, now)
    }

    fn look_at_stranded(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let node = self.index.pod(key).and_then(|pod| pod.node.as_ref());
        if node.is_none_or(|node| self.index.node(node).is_some()) {
            return Ok(None);
        }
        let Some(pod) = self.read_for::<Pod>(Part::PodGarbage, &key.0, &key.1)? else { return Ok(None) };
        self.perform(Part::PodGarbage, &pod_garbage::collect(&pod, now), now)
    }

    fn look_at_taints(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let Some(node) = self.read_for::<Node>(Part::NodeLifecycle, "", name)? else { return Ok(None) };
        self.perform(Part::NodeLifecycle, &lifecycle::taint(&node, now), now)
    }

    fn look_at_readiness(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(pod) = self.read_for::<Pod>(Part::NodeLifecycle, &key.0, &key.1)? else { return Ok(None) };
        let node = pods::node(&pod).and_then(|node| self.index.node(node));
        if node.is_none_or(|node| node.ready) {
            return Ok(None);
        }
        self.perform(Part::NodeLifecycle, &lifecycle::mark_not_ready(&pod, now), now)
    }

    fn look_at_job(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(job) = self.read_for::<Job>(Part::Jobs, &key.0, &key.1)? else { return Ok(None) };
        let own = self.read_pods(Part::Jobs, self.index.pods_of(pods::uid(&job.metadata)).map(|(key, _)| key))?;
        let outcome = job::reconcile(&job, &own, now);
        let expiry = job::ttl::expire(&job, now);
        let wake = self.perform(Part::Jobs, &outcome, now)?;
        Ok(wake.or(self.perform(Part::Jobs, &expiry, now)?))
    }

    fn look_at_orphan(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(pod) = self.read_for::<Pod>(Part::Jobs, &key.0, &key.1)? else { return Ok(None) };
        let job = pods::controller(&pod.metadata);
        let exists = job.is_some_and(|job| self.index.has_job(&job.uid));
        self.perform(Part::Jobs, &job::release_orphan(&pod, exists), now)
    }

    fn look_at_waiting(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(pod) = self.read_for::<Pod>(Part::Scheduler, &key.0, &key.1)? else { return Ok(None) };
        let Some(request) = scheduler::Request::of(&pod) else { return Ok(None) };
        let around = self.index.surroundings_of(&request);
        let named = request.named_nodes().unwrap_or_default();
        let mut named = named.into_iter().filter_map(|name| self.index.node(name)).map(|note| &note.place);
        let verdict = match named.find(|place| fit_in(&request, place, &around).is_ok()) {
            Some(place) => Verdict::Bind(place.name.clone()),
            None => scheduler::choose(&request, self.index.places(), &around),
        };
        self.perform(Part::Scheduler, &scheduler::settle(&pod, verdict, now), now)
    }

    /// Binds at most one pod: where the next one may go depends on it.
    fn look_at_room(&mut self, node: &str, now: Timestamp) -> Answer<Wake> {
        let Some(place) = self.index.node(node).map(|note| &note.place).filter(|_| self.has(Part::Scheduler)) else {
            return Ok(None);
        };
        let suits = |request: &scheduler::Request| {
            // Most pods fail at labels and taints already; the neighbours are looked at only for the others.
            fit(request, place).is_ok() && self.index.surroundings_of(request).admit(place).is_ok()
        };
        let Some((key, _)) = self.index.waiting().find(|(_, request)| suits(request)) else { return Ok(None) };
        let Some(pod) = self.read_for::<Pod>(Part::Scheduler, &key.0, &key.1)? else { return Ok(Some(now)) };
        self.perform(Part::Scheduler, &scheduler::settle(&pod, Verdict::Bind(node.into()), now), now)?;
        Ok(Some(now))
    }

    fn look_at_budget(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(budget) = self.read_for::<PodDisruptionBudget>(Part::Budgets, &key.0, &key.1)? else {
            return Ok(None);
        };
        self.perform(Part::Budgets, &budget::assess(&budget, &self.index.covered_by(key), now), now)
    }

    fn look_at_garbage(&self, uid: &str) -> Answer<Wake> {
        let Some(entry) = self.owners.get(uid) else { return Ok(None) };
        let owners: BTreeMap<String, Fate> = entry
            .header
            .owner_references
            .iter()
            .map(|owner| (owner.uid.clone(), self.fate(&entry.header, owner)))
            .collect();
        let dependents: Vec<&Header> = self.owners.dependents(uid).map(|entry| &entry.header).collect();
        let direct = self.direct(Part::Garbage);
        match garbage::judge(&entry.header, &owners, &dependents) {
            garbage::Verdict::ForgetIn(owned) => {
                for dependent in owned.iter().filter_map(|uid| self.owners.get(uid)) {
                    let forget = garbage::Verdict::DropOwners([uid.to_string()].into());
                    act::collect(&direct, &dependent.resource, &dependent.header, &forget)?;
                }
            }
            verdict => act::collect(&direct, &entry.resource, &entry.header, &verdict)?,
        }
        Ok(None)
    }

    /// An owner counts only in the same namespace, or outside of all.
    fn fate(&self, item: &Header, owner: &Owner) -> Fate {
        let found = self.owners.get(&owner.uid).map(|entry| &entry.header);
        let found = found.filter(|found| found.namespace.is_empty() || found.namespace == item.namespace);
        if found.is_none() && !self.serves(&owner.api_version, &owner.kind) {
            return Fate::Unknown;
        }
        garbage::fate(owner, found)
    }

    fn serves(&self, api_version: &str, kind: &str) -> bool {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let served = self.direct(Part::Garbage).resources();
        served.iter().any(|resource| resource.group == group && resource.kind == kind)
    }

    /// A namespace on its way out is emptied first. Models `pkg/controller/namespace` of Kubernetes 1.34.
    fn look_at_namespace(&self, name: &str) -> Answer<Wake> {
        let Some(namespace) = self.read_for::<Namespace>(Part::Garbage, "", name)? else { return Ok(None) };
        if namespace.metadata.deletion_timestamp.is_none() {
            return Ok(None);
        }
        let direct = self.direct(Part::Garbage);
        let mut empty = true;
        for entry in self.owners.in_namespace(name) {
            empty = false;
            if entry.header.deletion_timestamp.is_none() {
                let away = garbage::Verdict::Delete(PropagationPolicy::Background);
                act::collect(&direct, &entry.resource, &entry.header, &away)?;
            }
        }
        if empty {
            direct.finalize_namespace(name)?;
        }
        Ok(None)
    }

    pub(super) fn read_pods<'a>(&self, part: Part, keys: impl Iterator<Item = &'a Key>) -> Answer<Vec<Pod>> {
        let direct = self.direct(part);
        let mut found = Vec::new();
        for (namespace, name) in keys {
            found.extend(direct.get::<Pod>(Some(namespace), name)?);
        }
        Ok(found)
    }

    /// Reads for a part of the world; nothing, if that part is left out.
    pub(super) fn read_for<K: crate::apiserver::Kind>(
        &self,
        part: Part,
        namespace: &str,
        name: &str,
    ) -> Answer<Option<K>> {
        if !self.has(part) {
            return Ok(None);
        }
        self.direct(part).get(Some(namespace).filter(|namespace| !namespace.is_empty()), name)
    }
}
