//! What is read of Longhorn's kinds.

use std::collections::BTreeMap;

use super::Meta;
use super::shelf::projections;
use super::wire::{seen, shelves};

seen! {
    Volume {
        metadata: Meta,
        spec: VolumeSpec,
        status: VolumeStatus,
    }
    VolumeSpec {
        number_of_replicas: i64,
    }
    VolumeStatus {
        robustness: String,
        state: String,
        #[serde(rename = "currentNodeID")]
        current_node_id: String,
        kubernetes_status: KubernetesStatus,
    }
    KubernetesStatus {
        namespace: String,
        pvc_name: String,
        workloads_status: Vec<WorkloadStatus>,
    }
    WorkloadStatus {
        pod_name: String,
        pod_status: String,
    }

    Replica {
        metadata: Meta,
        spec: ReplicaSpec,
        status: ReplicaStatus,
    }
    ReplicaSpec {
        volume_name: String,
        #[serde(rename = "nodeID")]
        node_id: String,
        failed_at: String,
        healthy_at: String,
    }
    ReplicaStatus {
        current_state: String,
    }

    Engine {
        metadata: Meta,
        spec: EngineSpec,
        status: EngineStatus,
    }
    EngineSpec {
        volume_name: String,
        #[serde(rename = "nodeID")]
        node_id: String,
        desire_state: String,
    }
    EngineStatus {
        current_state: String,
        replica_mode_map: BTreeMap<String, String>,
        instance_manager_name: String,
    }

    VolumeAttachment {
        metadata: Meta,
        spec: VolumeAttachmentSpec,
    }
    VolumeAttachmentSpec {
        /// Who wants the volume to be attached, and where.
        attachment_tickets: BTreeMap<String, Ticket>,
    }
    Ticket {
        r#type: String,
        #[serde(rename = "nodeID")]
        node_id: String,
    }

    InstanceManager {
        metadata: Meta,
        spec: InstanceManagerSpec,
        status: InstanceManagerStatus,
    }
    InstanceManagerSpec {
        #[serde(rename = "nodeID")]
        node_id: String,
        image: String,
    }
    InstanceManagerStatus {
        current_state: String,
        /// The processes of engines, by their names.
        instance_engines: BTreeMap<String, serde::de::IgnoredAny>,
    }

    Setting {
        metadata: Meta,
        value: String,
    }

    Backup {
        metadata: Meta,
        status: BackupStatus,
    }
    BackupStatus {
        state: String,
        volume_name: String,
    }

    RecurringJob {
        metadata: Meta,
        spec: RecurringJobSpec,
    }
    RecurringJobSpec {
        task: String,
        cron: String,
        /// Volumes are given to a job by groups; one without belongs to those that name it.
        groups: Vec<String>,
    }

    /// A node with disks.
    StorageNode {
        metadata: Meta,
        spec: StorageNodeSpec,
    }
    StorageNodeSpec {
        allow_scheduling: bool,
        eviction_requested: bool,
    }
}

impl Volume {
    /// As its users know it: the claim, or the volume itself where nobody has claimed it.
    pub fn claim(&self) -> String {
        let KubernetesStatus { namespace, pvc_name, .. } = &self.status.kubernetes_status;
        if pvc_name.is_empty() { self.metadata.name.clone() } else { format!("{namespace}/{pvc_name}") }
    }

    pub fn is_attached(&self) -> bool {
        self.status.state == "attached"
    }
}

impl Longhorn {
    /// Of volumes that have but one sound replica, that one, by namespace and name of the volume.
    pub fn last_replicas(&self) -> BTreeMap<(&str, &str), &Replica> {
        let mut sound: BTreeMap<_, Vec<&Replica>> = BTreeMap::new();
        for replica in self.replicas.iter().filter(|replica| replica.is_sound()) {
            let volume = (replica.metadata.namespace.as_str(), replica.spec.volume_name.as_str());
            sound.entry(volume).or_default().push(replica);
        }
        let last = sound.into_iter().filter_map(|(volume, replicas)| match replicas[..] {
            [last] => Some((volume, last)),
            _ => None,
        });
        last.collect()
    }
}

impl Replica {
    /// Holds the volume's data as they are now.
    pub fn is_sound(&self) -> bool {
        self.status.current_state == "running" && self.spec.failed_at.is_empty() && !self.spec.healthy_at.is_empty()
    }
}

projections! {
    Volume => "Volume.longhorn.io",
    Replica => "Replica.longhorn.io",
    Engine => "Engine.longhorn.io",
    VolumeAttachment => "VolumeAttachment.longhorn.io",
    InstanceManager => "InstanceManager.longhorn.io",
    Setting => "Setting.longhorn.io",
    Backup => "Backup.longhorn.io",
    RecurringJob => "RecurringJob.longhorn.io",
    StorageNode => "Node.longhorn.io",
}

shelves! {
    Longhorn {
        volumes: Volume = ("longhorn.io", "Volume"),
        replicas: Replica = ("longhorn.io", "Replica"),
        engines: Engine = ("longhorn.io", "Engine"),
        attachments: VolumeAttachment = ("longhorn.io", "VolumeAttachment"),
        instance_managers: InstanceManager = ("longhorn.io", "InstanceManager"),
        settings: Setting = ("longhorn.io", "Setting"),
        backups: Backup = ("longhorn.io", "Backup"),
        recurring_jobs: RecurringJob = ("longhorn.io", "RecurringJob"),
        nodes: StorageNode = ("longhorn.io", "Node"),
    }
}
