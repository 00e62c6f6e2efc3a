//! Definitions of the kinds of other products that the world knows: their names, scopes and parts, as the products install
//! them, without their schemas. For clusters that are made up; a captured one brings its own.

use serde_json::{Value, json};

use super::guest::Contract;

const NAMESPACED: bool = true;
const CLUSTER: bool = false;
/// The status is a part of its own.
const STATUS: bool = true;
const PLAIN: bool = false;

type Lines = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], bool, bool);

/// Group, version, kind, plural, short names, scope, and whether the status is written apart.
const KINDS: &[Lines] = &[
    ("kubevirt.io", "v1", "KubeVirt", "kubevirts", &["kv", "kvs"], NAMESPACED, STATUS),
    ("kubevirt.io", "v1", "VirtualMachine", "virtualmachines", &["vm", "vms"], NAMESPACED, STATUS),
    ("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", &["vmi", "vmis"], NAMESPACED, PLAIN),
    (
        "kubevirt.io",
        "v1",
        "VirtualMachineInstanceMigration",
        "virtualmachineinstancemigrations",
        &["vmim", "vmims"],
        NAMESPACED,
        STATUS,
    ),
    ("longhorn.io", "v1beta2", "Volume", "volumes", &["lhv"], NAMESPACED, STATUS),
    ("longhorn.io", "v1beta2", "VolumeAttachment", "volumeattachments", &["lhva"], NAMESPACED, STATUS),
    ("longhorn.io", "v1beta2", "Engine", "engines", &["lhe"], NAMESPACED, STATUS),
    ("longhorn.io", "v1beta2", "Replica", "replicas", &["lhr"], NAMESPACED, STATUS),
    ("longhorn.io", "v1beta2", "InstanceManager", "instancemanagers", &["lhim"], NAMESPACED, STATUS),
    ("longhorn.io", "v1beta2", "Node", "nodes", &["lhn"], NAMESPACED, STATUS),
    ("longhorn.io", "v1beta2", "Setting", "settings", &["lhs"], NAMESPACED, STATUS),
    ("provisioning.cattle.io", "v1", "Cluster", "clusters", &[], NAMESPACED, STATUS),
    ("rke.cattle.io", "v1", "RKEControlPlane", "rkecontrolplanes", &[], NAMESPACED, STATUS),
    ("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters", &["cl"], NAMESPACED, STATUS),
    ("cluster.x-k8s.io", "v1beta1", "Machine", "machines", &["ma"], NAMESPACED, STATUS),
    ("management.cattle.io", "v3", "ManagedChart", "managedcharts", &[], NAMESPACED, STATUS),
    ("management.cattle.io", "v3", "Setting", "settings", &[], CLUSTER, PLAIN),
    ("management.cattle.io", "v3", "Cluster", "clusters", &[], CLUSTER, STATUS),
    ("fleet.cattle.io", "v1alpha1", "Bundle", "bundles", &[], NAMESPACED, STATUS),
    ("fleet.cattle.io", "v1alpha1", "Cluster", "clusters", &[], NAMESPACED, STATUS),
    ("catalog.cattle.io", "v1", "ClusterRepo", "clusterrepos", &[], CLUSTER, STATUS),
    ("helm.cattle.io", "v1", "HelmChart", "helmcharts", &["hc"], NAMESPACED, STATUS),
    ("helm.cattle.io", "v1", "HelmChartConfig", "helmchartconfigs", &[], NAMESPACED, PLAIN),
    ("harvesterhci.io", "v1beta1", "Setting", "settings", &[], CLUSTER, PLAIN),
    ("harvesterhci.io", "v1beta1", "Addon", "addons", &[], NAMESPACED, STATUS),
    (
        "harvesterhci.io",
        "v1beta1",
        "VirtualMachineImage",
        "virtualmachineimages",
        &["vmimage", "vmimages"],
        NAMESPACED,
        PLAIN,
    ),
];

/// The same of guest clusters, whose Cluster API is an older one.
const GUEST_KINDS: &[Lines] = &[
    ("cluster.x-k8s.io", "v1alpha2", "Cluster", "clusters", &["cl"], NAMESPACED, STATUS),
    ("cluster.x-k8s.io", "v1alpha2", "Machine", "machines", &["ma"], NAMESPACED, STATUS),
    ("cluster.x-k8s.io", "v1alpha2", "MachineSet", "machinesets", &["ms"], NAMESPACED, STATUS),
    ("cluster.x-k8s.io", "v1alpha2", "MachineDeployment", "machinedeployments", &["md"], NAMESPACED, STATUS),
    ("bootstrap.cluster.x-k8s.io", "v1alpha2", "KubeadmConfig", "kubeadmconfigs", &[], NAMESPACED, STATUS),
    (
        "bootstrap.cluster.x-k8s.io",
        "v1alpha2",
        "KubeadmConfigTemplate",
        "kubeadmconfigtemplates",
        &[],
        NAMESPACED,
        PLAIN,
    ),
    ("infrastructure.cluster.vmware.com", "v1alpha2", "WCPCluster", "wcpclusters", &[], NAMESPACED, STATUS),
    ("infrastructure.cluster.vmware.com", "v1alpha2", "WCPMachine", "wcpmachines", &[], NAMESPACED, STATUS),
    (
        "infrastructure.cluster.vmware.com",
        "v1alpha2",
        "WCPMachineTemplate",
        "wcpmachinetemplates",
        &[],
        NAMESPACED,
        PLAIN,
    ),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachine", "virtualmachines", &["vm"], NAMESPACED, STATUS),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachineImage", "virtualmachineimages", &["vmimage"], CLUSTER, STATUS),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachineClass", "virtualmachineclasses", &["vmclass"], CLUSTER, PLAIN),
];

/// Those of guest clusters, with Cluster API in the version that describes them.
pub fn guest(contract: Contract) -> Vec<Value> {
    let versioned = |lines: &Lines| {
        let (group, version, kind, plural, short, scope, status) = *lines;
        let is_its_own = group.ends_with("cluster.x-k8s.io");
        let version = if is_its_own { contract.version() } else { version };
        definition(&(group, version, kind, plural, short, scope, status))
    };
    GUEST_KINDS.iter().map(versioned).collect()
}

/// Those of the products that a Harvester cluster is made of.
pub fn harvester() -> Vec<Value> {
    KINDS.iter().map(definition).collect()
}

fn definition((group, version, kind, plural, short, namespaced, status): &Lines) -> Value {
    let object = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut served = json!({
        "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": object },
    });
    if *status {
        served["subresources"] = json!({ "status": {} });
    }
    if let Some(columns) = columns(group, kind) {
        served["additionalPrinterColumns"] = columns;
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
                "shortNames": short,
            },
            "versions": [served],
        },
    })
}

/// What kubectl shows beside the name, where people read it: as KubeVirt 1.6 and VM Operator have it.
fn columns(group: &str, kind: &str) -> Option<Value> {
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let age = column("Age", "date", ".metadata.creationTimestamp");
    let ready = column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status");
    match (group, kind) {
        ("kubevirt.io", "VirtualMachine") => {
            Some(json!([age, column("Status", "string", ".status.printableStatus"), ready]))
        }
        ("kubevirt.io", "VirtualMachineInstance") => Some(json!([
            age,
            column("Phase", "string", ".status.phase"),
            column("IP", "string", ".status.interfaces[0].ipAddress"),
            column("NodeName", "string", ".status.nodeName"),
            ready,
        ])),
        ("vmoperator.vmware.com", "VirtualMachine") => {
            Some(json!([column("Power-State", "string", ".status.powerState"), age]))
        }
        _ => None,
    }
}
