//! From a change to what has to be looked at.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::agenda::{Key, Look};
use super::garbage::Header;
use super::index::NodeNote;
use super::kubelet::lease;
use super::notes::PodNote;
use super::workloads::{WorkloadKind, WorkloadNote};
use super::{Part, World, pod_garbage, pods};
use crate::apiserver::{Change, Direct, Kind};

impl World {
    /// Every object counts as changed: whatever was going on is taken up again.
    pub(super) fn notice_everything(&mut self) {
        let direct = self.server.direct("world");
        for resource in direct.resources() {
            for (namespace, name) in direct.names(&resource) {
                self.notice(&Change { resource: resource.clone(), namespace, name });
            }
        }
    }

    pub(super) fn notice(&mut self, change: &Change) {
        let direct = self.server.direct("world");
        let key: Key = (change.namespace.clone(), change.name.clone());
        match (change.resource.group.as_str(), change.resource.plural.as_str()) {
            ("", "pods") => self.notice_pod(&key, read(&direct, &key).as_ref()),
            ("", "nodes") => self.notice_node(&change.name, read(&direct, &key).as_ref()),
            ("batch", "jobs") => {
                self.notice_job(&key, read(&direct, &key).as_ref());
                self.notice_helm("jobs", &key);
            }
            ("coordination.k8s.io", "leases") => self.notice_lease(&key),
            ("", "services") => {
                let service = read(&direct, &key);
                self.index.note_service(&key, service.as_ref());
                if service.is_some() {
                    self.soon(Look::Service(key.clone()));
                }
            }
            ("policy", "poddisruptionbudgets") => self.notice_budget(&key, read(&direct, &key).as_ref()),
            ("apps", "deployments") => {
                let note = read(&direct, &key).as_ref().and_then(WorkloadNote::of_deployment);
                self.notice_workload(WorkloadKind::Deployment, &key, note);
                self.notice_helm("deployments", &key);
                self.notice_fleet(&direct, "deployments", &key);
            }
            ("apps", "replicasets") => {
                let note = read(&direct, &key).as_ref().and_then(WorkloadNote::of_replica_set);
                self.notice_workload(WorkloadKind::ReplicaSet, &key, note);
            }
            ("apps", "statefulsets") => {
                let note = read(&direct, &key).as_ref().and_then(WorkloadNote::of_stateful_set);
                self.notice_workload(WorkloadKind::StatefulSet, &key, note);
            }
            ("apps", "daemonsets") => {
                let note = read(&direct, &key).as_ref().and_then(WorkloadNote::of_daemon_set);
                self.notice_workload(WorkloadKind::DaemonSet, &key, note);
            }
            ("", "persistentvolumeclaims") => {
                self.notice_claim(&key);
                self.notice_image(&key);
            }
            ("management.cattle.io", plural @ "managedcharts")
            | ("fleet.cattle.io", plural @ "bundles")
            | ("harvesterhci.io", plural @ "addons") => self.notice_chart(plural, &key),
            ("catalog.cattle.io", "clusterrepos") => self.notice_cluster_repo(&direct, &key.1),
            ("fleet.cattle.io", plural) => self.notice_fleet(&direct, plural, &key),
            ("harvesterhci.io", "virtualmachineimages") => self.notice_image(&key),
            ("helm.cattle.io", "helmcharts") => self.notice_helm("helmcharts", &key),
            ("", "secrets") => {
                self.notice_secret(&key);
                self.notice_helm("secrets", &key);
            }
            (
                group @ ("cluster.x-k8s.io" | "provisioning.cattle.io" | "rke.cattle.io" | "management.cattle.io"),
                plural,
            ) => self.notice_rancher(group, plural, &key),
            ("longhorn.io", plural) => self.notice_longhorn(plural, &key),
            ("kubevirt.io", plural) => self.notice_virtual(plural, &key),
            _ => {}
        }
        self.notice_guest(&change.resource.group, &change.resource.plural, &key);
        self.notice_ties(&direct, change, &key);
    }

    fn notice_pod(&mut self, key: &Key, pod: Option<&Pod>) {
        let before = self.index.note_pod(key, pod);
        let after = self.index.pod(key).cloned();
        for owner in [&before, &after].into_iter().flatten().filter_map(|note| note.owner.as_ref()) {
            let of = (key.0.clone(), owner.name.clone());
            match look_of(&owner.kind, of.clone()) {
                Some(look) => self.soon(look),
                None if owner.kind == "VirtualMachineInstance" => self.notice_instance(&of),
                None if owner.kind == "InstanceManager" => {
                    let node = before.iter().chain(&after).find_map(|note| note.node.clone());
                    node.into_iter().for_each(|node| self.notice_manager(&node));
                }
                None => {}
            }
        }
        if let Some(lone) = after.as_ref().filter(|note| note.owner.is_none() && note.is_active()) {
            for (kind, key) in self.index.workloads.selecting(&key.0, &lone.labels) {
                self.soon(kind.look(key));
            }
        }
        self.notice_covered(key, before.as_ref(), after.as_ref());
        self.notice_served(key, before.as_ref(), after.as_ref());
        self.notice_users(key, before.as_ref(), after.as_ref());
        let has_left = |before: &&PodNote| after.as_ref().and_then(PodNote::occupies) != before.occupies();
        if let Some(freed) = before.as_ref().filter(|before| before.occupies().is_some()).filter(has_left) {
            self.notice_freed(freed);
        }
        if let Some(node) = before.as_ref().filter(|_| after.is_none()).and_then(|before| before.node.as_deref()) {
            self.notice_drained(node);
        }
        self.notice_disk(before.as_ref(), after.as_ref());
        let Some(after) = after else { return };
        let asked = before.as_ref().and_then(|before| before.request.as_ref());
        if after.request.is_some() && after.request.as_ref() != asked {
            self.soon(Look::Waiting(key.clone()));
        }
        if after.tracked && after.owner.as_ref().is_none_or(|job| !self.index.has_job(&job.uid)) {
            self.soon(Look::Orphan(key.clone()));
        }
        let arrived = before.as_ref().is_none_or(|before| before.node != after.node);
        let Some(name) = &after.node else { return };
        let Some(node) = self.index.node(name) else {
            return self.after(pod_garbage::QUARANTINE, Look::Stranded(key.clone()));
        };
        let (simulated, lost, evicts) = (node.machine.is_some(), !node.ready, !node.evicting.is_empty());
        if simulated {
            self.soon(Look::Pod(key.clone()));
        }
        if lost && after.ready {
            self.soon(Look::Readiness(key.clone()));
        }
        if evicts && arrived {
            self.soon(Look::Eviction(key.clone()));
        }
    }

    /// Where a disk is simulated, pods that come and go count on it.
    fn notice_disk(&mut self, before: Option<&PodNote>, after: Option<&PodNote>) {
        let Some(node) = before.or(after).and_then(|note| note.node.as_ref()) else { return };
        let machine = self.index.node(node).and_then(|note| note.machine.as_ref());
        if machine.is_some_and(|machine| machine.has_disk)
            && before.map(|note| note.phase) != after.map(|note| note.phase)
        {
            let look = Look::Disk(node.clone());
            self.soon(look);
        }
    }

    /// A pod counts for the budgets that cover it, and for those that did.
    fn notice_covered(&mut self, key: &Key, before: Option<&PodNote>, after: Option<&PodNote>) {
        let counts = |note: &PodNote| (note.ready, note.leaving, note.owner.clone(), note.labels.clone());
        if before.map(counts) == after.map(counts) {
            return;
        }
        let covering = before.into_iter().chain(after).flat_map(|note| self.index.budgets_over(&key.0, &note.labels));
        let covering: Vec<Look> = covering.cloned().map(Look::Budget).collect();
        covering.into_iter().for_each(|look| self.soon(look));
    }

    /// A pod can be reached through the Services that select it.
    fn notice_served(&mut self, key: &Key, before: Option<&PodNote>, after: Option<&PodNote>) {
        let reached =
            |note: &PodNote| (note.ready, note.leaving, note.ip.clone(), note.has_ended(), note.labels.clone());
        if before.map(reached) == after.map(reached) {
            return;
        }
        let serving = before.into_iter().chain(after).flat_map(|note| self.index.services_over(&key.0, &note.labels));
        let serving: Vec<Look> = serving.cloned().map(Look::Service).collect();
        serving.into_iter().for_each(|look| self.soon(look));
    }

    /// A pod has left its place: others that had to keep away may have a chance now, there and nearby.
    fn notice_freed(&mut self, freed: &PodNote) {
        let Some(node) = freed.node.as_deref().filter(|_| self.index.waiting().next().is_some()) else { return };
        let rooms: Vec<Look> = self.index.near(node, freed).into_iter().map(Look::Room).collect();
        rooms.into_iter().for_each(|look| self.soon(look));
    }

    fn notice_node(&mut self, name: &str, node: Option<&Node>) {
        let before = self.index.note_node(name, node);
        let Some(after) = self.index.node(name).cloned() else {
            let stranded: Vec<Key> = self.index.pods_on(name).map(|(key, _)| key.clone()).collect();
            stranded.into_iter().for_each(|key| self.after(pod_garbage::QUARANTINE, Look::Stranded(key)));
            return self.notice_daemons();
        };
        self.soon(Look::Taints(name.into()));
        self.notice_virtual_node(name);
        self.notice_provisioned_node(name);
        self.notice_member(name);
        let shows = |note: &NodeNote| (note.ready, note.place.unschedulable);
        if before.as_ref().map(shows) != Some(shows(&after)) {
            self.notice_manager(name);
        }
        if after.machine.is_some() {
            self.soon(Look::Machine(name.into()));
            if before.as_ref().is_none_or(|before| before.machine.is_none()) {
                self.soon(Look::Lease(name.into()));
                self.soon(Look::Silence(name.into()));
            }
            if after.machine.as_ref().is_some_and(|machine| machine.has_disk) {
                self.soon(Look::Disk(name.into()));
            }
        }
        let same = |what: fn(&NodeNote, &NodeNote) -> bool| before.as_ref().is_some_and(|before| what(before, &after));
        if !same(|before, after| before.place == after.place) {
            self.soon(Look::Room(name.into()));
        }
        let concerns_daemons = |before: &NodeNote, after: &NodeNote| {
            (&before.place.labels, &before.place.taints) == (&after.place.labels, &after.place.taints)
        };
        if !same(concerns_daemons) {
            self.notice_daemons();
        }
        let pods: Vec<Key> = self.index.pods_on(name).map(|(key, _)| key.clone()).collect();
        if !same(|before, after| before.machine == after.machine) && after.machine.is_some() {
            pods.iter().cloned().for_each(|key| self.soon(Look::Pod(key)));
        }
        if !same(|before, after| before.ready == after.ready) && !after.ready {
            pods.iter().cloned().for_each(|key| self.soon(Look::Readiness(key)));
        }
        if !same(|before, after| before.evicting == after.evicting) && !after.evicting.is_empty() {
            pods.into_iter().for_each(|key| self.soon(Look::Eviction(key)));
        }
    }

    fn notice_job(&mut self, key: &Key, job: Option<&Job>) {
        let gone = self.index.note_job(key, job);
        let orphans: Vec<Look> =
            gone.iter().flat_map(|uid| self.index.pods_of(uid)).map(|(key, _)| Look::Orphan(key.clone())).collect();
        orphans.into_iter().for_each(|look| self.soon(look));
        if job.is_some() {
            self.soon(Look::Job(key.clone()));
        }
    }

    /// Which nodes suit a DaemonSet may have changed.
    fn notice_daemons(&mut self) {
        let sets: Vec<Look> = self.index.workloads.all(WorkloadKind::DaemonSet).cloned().map(Look::DaemonSet).collect();
        sets.into_iter().for_each(|look| self.soon(look));
    }

    fn notice_workload(&mut self, kind: WorkloadKind, key: &Key, note: Option<WorkloadNote>) {
        let after = note.clone();
        let before = self.index.workloads.note(kind, key, note);
        if after.is_some() {
            self.soon(kind.look(key.clone()));
        }
        for owner in before.iter().chain(&after).filter_map(|note| note.owner.as_ref()) {
            if let Some(look) = look_of(&owner.kind, (key.0.clone(), owner.name.clone())) {
                self.soon(look);
            }
        }
        if let Some(lone) = after.as_ref().filter(|note| kind == WorkloadKind::ReplicaSet && note.owner.is_none()) {
            for (kind, key) in self.index.workloads.selecting(&key.0, &lone.labels) {
                if kind == WorkloadKind::Deployment {
                    self.soon(kind.look(key));
                }
            }
        }
        if before.as_ref().and_then(|note| note.replicas) != after.as_ref().and_then(|note| note.replicas) {
            let labels = before.iter().chain(&after).map(|note| &note.labels);
            let covering: Vec<Look> =
                labels.flat_map(|labels| self.index.budgets_over(&key.0, labels)).cloned().map(Look::Budget).collect();
            covering.into_iter().for_each(|look| self.soon(look));
        }
    }

    /// The first Lease of a machine: from now on it may lapse. Later ones are seen when the last one would have.
    fn notice_lease(&mut self, (namespace, name): &Key) {
        if namespace == lease::NAMESPACE && !self.agenda.has(&Look::Silence(name.clone())) {
            self.soon(Look::Silence(name.clone()));
        }
    }

    fn notice_budget(&mut self, key: &Key, budget: Option<&PodDisruptionBudget>) {
        let known = self.index.has_budget(key);
        self.index.note_budget(key, budget);
        if known != budget.is_some() {
            self.notice_manager_budget(key);
        }
        let owner = budget.and_then(|budget| pods::controller(&budget.metadata));
        if let Some(owner) = owner.filter(|owner| owner.kind == "VirtualMachineInstance") {
            self.notice_instance(&(key.0.clone(), owner.name.clone()));
        }
        if budget.is_some() {
            self.soon(Look::Budget(key.clone()));
        }
    }

    fn notice_ties(&mut self, direct: &Direct, change: &Change, key: &Key) {
        let header: Option<Header> = direct.metadata(&change.resource, &change.namespace, &change.name);
        let gone = header.is_none();
        let concerned = self.owners.note(&change.resource, key, header);
        if !self.has(Part::Garbage) {
            return;
        }
        for uid in concerned {
            self.soon(Look::Garbage(uid));
        }
        if change.resource.group.is_empty() && change.resource.plural == "namespaces" {
            self.soon(Look::Namespace(change.name.clone()));
        } else if gone && !change.namespace.is_empty() {
            self.soon(Look::Namespace(change.namespace.clone()));
        }
    }
}

/// The look at the controller of a pod or ReplicaSet; none for kinds that this world does not have.
fn look_of(kind: &str, key: Key) -> Option<Look> {
    match kind {
        "Job" => Some(Look::Job(key)),
        kind => Some(WorkloadKind::named(kind)?.look(key)),
    }
}

/// The object as it is now. One that cannot be read as what it should be is left alone.
fn read<K: Kind>(direct: &Direct, (namespace, name): &Key) -> Option<K> {
    let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
    direct.get(namespace, name).unwrap_or_else(|status| {
        tracing::warn!("the world cannot read {} {name}: {}", K::kind(&()), status.message);
        None
    })
}
