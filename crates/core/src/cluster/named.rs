//! Objects as they are named on the command line: `plan/NAMESPACE/NAME`, `upgrade/NAME`, `cluster/NAMESPACE/NAME`, `node/NAME`.

use super::ObjectRef;

/// A text that names no object whose kind is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot explain {0}: give upgrade/NAME, plan/NAMESPACE/NAME, tkc/NAMESPACE/NAME, cluster/NAMESPACE/NAME, \
     machine/NAMESPACE/NAME, node/NAME, pod/NAMESPACE/NAME or vm/NAMESPACE/NAME"
)]
pub struct Unnamed(String);

/// The kinds that can be named, with every name that kubectl takes for them.
const KINDS: [(&str, &[&str]); 14] = [
    ("Plan", &["plan", "plans", "plan.upgrade.cattle.io", "plans.upgrade.cattle.io"]),
    ("Node", &["node", "nodes", "no"]),
    ("Pod", &["pod", "pods", "po"]),
    ("Upgrade", &["upgrade", "upgrades", "upgrade.harvesterhci.io", "upgrades.harvesterhci.io"]),
    ("UpgradeLog", &["upgradelog", "upgradelogs", "upgradelogs.harvesterhci.io"]),
    (
        "VirtualMachineImage",
        &["vmimage", "virtualmachineimage", "virtualmachineimages", "virtualmachineimages.harvesterhci.io"],
    ),
    ("VirtualMachine", &["vm", "vms", "virtualmachine", "virtualmachines"]),
    ("VirtualMachineInstance", &["vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances"]),
    (
        "VirtualMachineInstanceMigration",
        &["vmim", "vmims", "virtualmachineinstancemigration", "virtualmachineinstancemigrations"],
    ),
    ("Volume.longhorn.io", &["volume", "volumes", "volumes.longhorn.io"]),
    (
        "TanzuKubernetesCluster",
        &["tkc", "tanzukubernetescluster", "tanzukubernetesclusters", "tanzukubernetesclusters.run.tanzu.vmware.com"],
    ),
    ("Cluster", &["cluster", "clusters", "cl", "clusters.cluster.x-k8s.io"]),
    ("Machine", &["machine", "machines", "ma", "machines.cluster.x-k8s.io"]),
    ("ManagedChart", &["managedchart", "managedcharts", "managedcharts.management.cattle.io"]),
];
/// Where Upgrades are: nobody names it.
const UPGRADES: &str = "harvester-system";

impl ObjectRef {
    /// Whether it stands for a guest cluster.
    pub fn is_guest(&self) -> bool {
        ["TanzuKubernetesCluster", "Cluster"].contains(&self.kind.as_str())
    }

    /// By the name that people give it.
    pub fn named(text: &str) -> Result<ObjectRef, Unnamed> {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = KINDS.iter().find(|(_, names)| names.contains(&parts[0])).map(|(kind, _)| *kind);
        let is_whole = parts.iter().all(|part| !part.is_empty());
        match (kind, parts.as_slice()) {
            (Some("Node"), [_, name]) if is_whole => Ok(ObjectRef::new("Node", "", name)),
            (Some("Upgrade"), [_, name]) if is_whole => Ok(ObjectRef::new("Upgrade", UPGRADES, name)),
            (Some(kind), [_, namespace, name]) if is_whole && kind != "Node" => {
                Ok(ObjectRef::new(kind, namespace, name))
            }
            _ => Err(Unnamed(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_names_their_kinds() {
        for (text, object) in [
            ("plan/ns/up", "Plan/ns/up"),
            ("plans.upgrade.cattle.io/ns/up", "Plan/ns/up"),
            ("no/n1", "Node/n1"),
            ("pod/shop/cart-0", "Pod/shop/cart-0"),
            ("upgrade/hvst-upgrade-9gmg2", "Upgrade/harvester-system/hvst-upgrade-9gmg2"),
            ("vm/shop/ledger", "VirtualMachine/shop/ledger"),
            ("tkc/team/web", "TanzuKubernetesCluster/team/web"),
            ("cluster/team/web", "Cluster/team/web"),
            ("machines.cluster.x-k8s.io/team/web-1", "Machine/team/web-1"),
            ("volumes.longhorn.io/longhorn-system/pvc-1", "Volume.longhorn.io/longhorn-system/pvc-1"),
        ] {
            assert_eq!(ObjectRef::named(text).unwrap().to_string(), object);
        }
    }

    #[test]
    fn half_a_name_is_refused() {
        for text in ["plan/up", "node/a/b", "pod//x", "service/a/b", "vm/x", "cluster/web", ""] {
            assert!(ObjectRef::named(text).is_err(), "{text}");
        }
    }
}
