//! A cluster that is kept up by watches for as long as somebody looks, instead of being looked at once.

use super::{Cluster, OF_UPGRADES, RESOURCES};

/// The kinds that are worth a watch, as [`super::Resource::kind`] names them: what explanations and forecasts read.
pub const FOLLOWED: [&str; 44] = [
    "Node",
    "Lease",
    "Pod",
    "PodDisruptionBudget",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "Secret",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "VolumeAttachment",
    "Event",
    "Plan",
    "VirtualMachine",
    "VirtualMachineInstance",
    "VirtualMachineInstanceMigration",
    "Volume.longhorn.io",
    "Replica.longhorn.io",
    "Engine.longhorn.io",
    "VolumeAttachment.longhorn.io",
    "InstanceManager.longhorn.io",
    "Setting.longhorn.io",
    "Upgrade",
    "UpgradeLog",
    "VirtualMachineImage",
    "Setting",
    "Addon",
    "ManagedChart",
    "Bundle",
    "Cluster.provisioning.cattle.io",
    "RKEControlPlane",
    "Cluster",
    "Machine",
    "MachineDeployment",
    "MachineSet",
    "KubeadmControlPlane",
    "TanzuKubernetesCluster",
    "TanzuKubernetesRelease",
    "VirtualMachineImage.vmoperator.vmware.com",
    "VirtualMachineClass",
    "ResourceQuota",
];

impl Cluster {
    /// An object is gone.
    pub fn forget(&mut self, kind: &str, namespace: &str, name: &str) {
        self.reckon_anew();
        match kind {
            "Node" => {
                self.nodes.remove(namespace, name);
                self.engine.nodes.remove(name);
            }
            "Lease" => self.leases.remove(namespace, name),
            "Pod" => self.pods.remove(namespace, name),
            "PodDisruptionBudget" => self.budgets.remove(namespace, name),
            "Deployment" => self.deployments.remove(namespace, name),
            "ReplicaSet" => self.replica_sets.remove(namespace, name),
            "StatefulSet" => self.stateful_sets.remove(namespace, name),
            "DaemonSet" => self.daemon_sets.remove(namespace, name),
            "Job" => self.jobs.remove(namespace, name),
            "Secret" => {
                self.secrets.remove(namespace, name);
                self.contents.remove(&(namespace.to_owned(), name.to_owned()));
            }
            "PersistentVolumeClaim" => self.claims.remove(namespace, name),
            "PersistentVolume" => self.volumes.remove(namespace, name),
            "StorageClass" => self.storage_classes.remove(namespace, name),
            "VolumeAttachment" => self.attachments.remove(namespace, name),
            "Event" => self.events.remove(namespace, name),
            _ => {
                // A kind of another product, whose shelf is known by its group.
                let of = |resource: &&super::Resource| resource.kind == kind;
                let known = RESOURCES.iter().find(of).or_else(|| OF_UPGRADES.iter().find(of));
                if let Some(resource) = known {
                    let (group, kind) = (resource.group, resource.bare_kind());
                    self.admission.remove(group, kind, namespace, name);
                    self.snapshots.remove(group, kind, namespace, name);
                    self.tanzu.remove(group, kind, namespace, name);
                    self.looks.remove(group, kind, namespace, name);
                    self.kubevirt.remove(group, kind, namespace, name);
                    self.longhorn.remove(group, kind, namespace, name);
                    self.harvester.remove(group, kind, namespace, name);
                    self.cluster_api.remove(group, kind, namespace, name);
                }
            }
        }
        self.forget_for_engine(kind, namespace, name);
        self.unseen.retain(|unseen| {
            let object = unseen.object.as_ref().filter(|_| unseen.kind == kind);
            object.is_none_or(|object| object.namespace != namespace || object.name != name)
        });
    }

    fn forget_for_engine(&mut self, kind: &str, namespace: &str, name: &str) {
        let Some(room) = self.engine.namespaces.get_mut(namespace) else { return };
        match kind {
            "Plan" => drop(room.plans.remove(name)),
            "Job" => drop(room.jobs.remove(name)),
            "Secret" => drop(room.secrets.remove(name)),
            "Pod" => drop(room.pods.remove(name)),
            _ => {}
        }
        if room.plans.is_empty() && room.jobs.is_empty() && room.secrets.is_empty() && room.pods.is_empty() {
            self.engine.namespaces.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_that_is_followed_can_be_forgotten() {
        for kind in FOLLOWED {
            let resource = RESOURCES.iter().find(|resource| resource.kind == kind).unwrap();
            let api_version = match resource.group {
                "" => resource.versions[0].to_owned(),
                group => format!("{group}/{}", resource.versions[0]),
            };
            let labels = json!({ "upgrade.cattle.io/plan": "up" });
            let metadata =
                json!({ "name": "x", "namespace": "shop", "uid": "u", "labels": labels, "resourceVersion": "1" });
            let object = json!({ "apiVersion": api_version, "kind": resource.bare_kind(), "metadata": metadata });
            let none = Cluster::default();
            let mut cluster = none.clone();
            cluster.take(object.to_string().as_bytes());
            assert_ne!(format!("{cluster:?}"), format!("{none:?}"), "{kind} is taken");

            cluster.forget(kind, "shop", "x");

            assert_eq!(format!("{cluster:?}"), format!("{none:?}"), "{kind} is forgotten");
        }
    }
}
