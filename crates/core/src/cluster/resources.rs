//! What a survey looks for: every kind that some check or explanation reads, and where an API server has it.

/// One kind, as an API server serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// As [`crate::cluster::Projection::KIND`] names it.
    pub kind: &'static str,
    pub group: &'static str,
    /// Those that can be read, the best first.
    pub versions: &'static [&'static str],
    pub plural: &'static str,
    /// Where alone it is looked for; empty: everywhere.
    pub namespace: &'static str,
}

impl Resource {
    /// As kubectl takes it: `volumes.longhorn.io`.
    pub fn name(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The kind as objects spell it.
    pub fn bare_kind(&self) -> &'static str {
        self.kind.split_once('.').map_or(self.kind, |(kind, _)| kind)
    }

    /// Every cluster serves it; the other kinds come with a product.
    pub fn is_built_in(&self) -> bool {
        self.group.is_empty() || !self.group.contains('.') || self.group.ends_with(".k8s.io") && !self.is_cluster_api()
    }

    fn is_cluster_api(&self) -> bool {
        self.group.ends_with("cluster.x-k8s.io")
    }
}

/// The kind of a resource by the group and kind of an object; none if nobody reads it.
pub fn resource_of(group: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.group == group && resource.bare_kind() == kind)
}

const V1: &[&str] = &["v1"];
/// Servers before Kubernetes 1.21 have the second one only.
const POLICY: &[&str] = &["v1", "v1beta1"];
const CLUSTER_API: &[&str] = &["v1beta2", "v1beta1", "v1alpha4", "v1alpha3", "v1alpha2"];

const fn of(
    kind: &'static str,
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
) -> Resource {
    Resource { kind, group, versions, plural, namespace: "" }
}

pub const RESOURCES: &[Resource] = &[
    of("Node", "", V1, "nodes"),
    Resource { namespace: "kube-node-lease", ..of("Lease", "coordination.k8s.io", V1, "leases") },
    of("Pod", "", V1, "pods"),
    of("PodDisruptionBudget", "policy", POLICY, "poddisruptionbudgets"),
    of("Deployment", "apps", V1, "deployments"),
    of("ReplicaSet", "apps", V1, "replicasets"),
    of("StatefulSet", "apps", V1, "statefulsets"),
    of("DaemonSet", "apps", V1, "daemonsets"),
    of("Job", "batch", V1, "jobs"),
    of("Secret", "", V1, "secrets"),
    of("PersistentVolumeClaim", "", V1, "persistentvolumeclaims"),
    of("PersistentVolume", "", V1, "persistentvolumes"),
    of("StorageClass", "storage.k8s.io", V1, "storageclasses"),
    of("VolumeAttachment", "storage.k8s.io", V1, "volumeattachments"),
    of("Event", "", V1, "events"),
    of("ResourceQuota", "", V1, "resourcequotas"),
    of("ServiceAccount", "", V1, "serviceaccounts"),
    of("EndpointSlice", "discovery.k8s.io", V1, "endpointslices"),
    of("ValidatingWebhookConfiguration", "admissionregistration.k8s.io", V1, "validatingwebhookconfigurations"),
    of("MutatingWebhookConfiguration", "admissionregistration.k8s.io", V1, "mutatingwebhookconfigurations"),
    of("APIService", "apiregistration.k8s.io", V1, "apiservices"),
    of("CustomResourceDefinition", "apiextensions.k8s.io", V1, "customresourcedefinitions"),
    of("Plan", "upgrade.cattle.io", V1, "plans"),
    of("VirtualMachine", "kubevirt.io", V1, "virtualmachines"),
    of("VirtualMachineInstance", "kubevirt.io", V1, "virtualmachineinstances"),
    of("VirtualMachineInstanceMigration", "kubevirt.io", V1, "virtualmachineinstancemigrations"),
    of("KubeVirt", "kubevirt.io", V1, "kubevirts"),
    of("Volume.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "volumes"),
    of("Replica.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "replicas"),
    of("Engine.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "engines"),
    of("VolumeAttachment.longhorn.io", "longhorn.io", &["v1beta2"], "volumeattachments"),
    of("InstanceManager.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "instancemanagers"),
    of("Setting.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "settings"),
    of("Backup.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "backups"),
    of("RecurringJob.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "recurringjobs"),
    of("Node.longhorn.io", "longhorn.io", &["v1beta2", "v1beta1"], "nodes"),
    of("Upgrade", "harvesterhci.io", &["v1beta1"], "upgrades"),
    of("UpgradeLog", "harvesterhci.io", &["v1beta1"], "upgradelogs"),
    of("Version", "harvesterhci.io", &["v1beta1"], "versions"),
    of("Setting", "harvesterhci.io", &["v1beta1"], "settings"),
    of("Addon", "harvesterhci.io", &["v1beta1"], "addons"),
    of("VirtualMachineImage", "harvesterhci.io", &["v1beta1"], "virtualmachineimages"),
    of("VirtualMachineBackup", "harvesterhci.io", &["v1beta1"], "virtualmachinebackups"),
    of("ScheduleVMBackup", "harvesterhci.io", &["v1beta1"], "schedulevmbackups"),
    of("ManagedChart", "management.cattle.io", &["v3"], "managedcharts"),
    of("Bundle", "fleet.cattle.io", &["v1alpha1"], "bundles"),
    of("Cluster.provisioning.cattle.io", "provisioning.cattle.io", V1, "clusters"),
    of("RKEControlPlane", "rke.cattle.io", V1, "rkecontrolplanes"),
    of("ETCDSnapshotFile", "k3s.cattle.io", V1, "etcdsnapshotfiles"),
    of("ETCDSnapshot", "rke.cattle.io", V1, "etcdsnapshots"),
    of("Cluster", "cluster.x-k8s.io", CLUSTER_API, "clusters"),
    of("Machine", "cluster.x-k8s.io", CLUSTER_API, "machines"),
    of("MachineDeployment", "cluster.x-k8s.io", CLUSTER_API, "machinedeployments"),
    of("MachineSet", "cluster.x-k8s.io", CLUSTER_API, "machinesets"),
    of("KubeadmControlPlane", "controlplane.cluster.x-k8s.io", CLUSTER_API, "kubeadmcontrolplanes"),
    of("TanzuKubernetesCluster", "run.tanzu.vmware.com", &["v1alpha1"], "tanzukubernetesclusters"),
    of("TanzuKubernetesRelease", "run.tanzu.vmware.com", &["v1alpha1"], "tanzukubernetesreleases"),
    of("VirtualMachineImage.vmoperator.vmware.com", "vmoperator.vmware.com", &["v1alpha1"], "virtualmachineimages"),
    of("VirtualMachineClass", "vmoperator.vmware.com", &["v1alpha1"], "virtualmachineclasses"),
];

/// What only those read who drive Upgrades: no survey asks for these.
pub const OF_UPGRADES: &[Resource] = &[
    of("Service", "", V1, "services"),
    of("ConfigMap", "", V1, "configmaps"),
    of("Setting.management.cattle.io", "management.cattle.io", &["v3"], "settings"),
    of("HelmChart", "helm.cattle.io", V1, "helmcharts"),
    of("ClusterRepo", "catalog.cattle.io", V1, "clusterrepos"),
    of("Cluster.fleet.cattle.io", "fleet.cattle.io", &["v1alpha1"], "clusters"),
    // With its contents, which of other Secrets nobody asks for.
    of("HelmRelease", "", V1, "secrets"),
];

/// What is asked for beside objects; see [`crate::cluster::looks`].
pub const LOOKS: &[&str] =
    &["Kubelet", "ServerCertificate", "KubeletCertificate", "DeprecatedRequest", "SecretContents", "MachineTemplate"];
