//! Copies of etcd, as k3s, RKE2 and Rancher record them.

use jiff::Timestamp;

use super::Meta;
use super::shelf::projections;
use super::wire::{seen, shelves};

seen! {
    /// An `ETCDSnapshotFile` (k3s.cattle.io) or an `ETCDSnapshot` (rke.cattle.io).
    EtcdSnapshot {
        metadata: Meta,
        status: SnapshotStatus,
        /// Where Rancher has it.
        snapshot_file: SnapshotFile,
    }
    SnapshotStatus {
        creation_time: Option<Timestamp>,
        ready_to_use: Option<bool>,
    }
    SnapshotFile {
        created_at: Option<Timestamp>,
        status: String,
    }
}

impl EtcdSnapshot {
    /// When it was taken; none if it did not succeed.
    pub fn taken_at(&self) -> Option<Timestamp> {
        let failed = self.status.ready_to_use == Some(false) || self.snapshot_file.status == "failed";
        self.status.creation_time.or(self.snapshot_file.created_at).filter(|_| !failed)
    }
}

projections! { EtcdSnapshot => "ETCDSnapshotFile" }

shelves! {
    Snapshots {
        etcd: EtcdSnapshot = ("k3s.cattle.io" | "rke.cattle.io", "ETCDSnapshotFile" | "ETCDSnapshot"),
    }
}
