//! What is read of Harvester's kinds, and of those of Rancher and Fleet that it is made of.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::helm::release::labels;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::shelf::projections;
use super::wire::{seen, shelves};
use super::{Condition, Meta};

/// What every file of gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A Secret holds at most 1 MiB: what unpacks to more than this was not packed by Helm.
const LONGEST_RELEASE: u64 = 64 * 1024 * 1024;

seen! {
    Upgrade {
        metadata: Meta,
        spec: UpgradeSpec,
        status: UpgradeStatus,
    }
    UpgradeSpec {
        version: String,
        image: String,
        /// Absent means true.
        log_enabled: Option<bool>,
        upgrade_image: String,
    }
    UpgradeStatus {
        previous_version: String,
        #[serde(rename = "imageID")]
        image_id: String,
        repo_info: String,
        single_node: String,
        upgrade_log: String,
        node_statuses: BTreeMap<String, NodeStatus>,
        conditions: Vec<Condition>,
    }
    NodeStatus {
        state: String,
        reason: String,
        message: String,
    }

    /// The collected logs of an Upgrade.
    UpgradeLog {
        metadata: Meta,
        spec: UpgradeLogSpec,
        status: UpgradeLogStatus,
    }
    UpgradeLogStatus {
        conditions: Vec<Condition>,
    }
    UpgradeLogSpec {
        upgrade_name: String,
    }

    Version {
        metadata: Meta,
        spec: VersionSpec,
    }
    VersionSpec {
        #[serde(rename = "isoURL")]
        iso_url: String,
        iso_checksum: String,
        min_upgradable_version: String,
        tags: Vec<String>,
    }

    /// One option, of Harvester or of Rancher.
    Setting {
        metadata: Meta,
        value: String,
        default: String,
    }

    Addon {
        metadata: Meta,
        spec: AddonSpec,
        status: AddonStatus,
    }
    AddonSpec {
        enabled: bool,
        version: String,
    }
    AddonStatus {
        status: String,
        conditions: Vec<AddonCondition>,
    }
    AddonCondition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
        message: String,
        last_update_time: String,
    }

    VirtualMachineBackup {
        metadata: Meta,
        status: VirtualMachineBackupStatus,
    }
    VirtualMachineBackupStatus {
        ready_to_use: Option<bool>,
        error: Option<BackupError>,
    }
    BackupError {
        message: String,
    }

    /// Backups or snapshots of a VM, again and again.
    ScheduledBackup {
        metadata: Meta,
        spec: ScheduledBackupSpec,
    }
    ScheduledBackupSpec {
        suspend: bool,
    }

    ManagedChart {
        metadata: Meta,
        spec: ManagedChartSpec,
        status: ManagedChartStatus,
    }
    ManagedChartSpec {
        paused: bool,
        version: String,
        values: Value,
    }
    ManagedChartStatus {
        observed_generation: i64,
        conditions: Vec<Condition>,
    }

    /// What Fleet deploys.
    Bundle {
        metadata: Meta,
        status: BundleStatus,
    }
    BundleStatus {
        conditions: Vec<Condition>,
        display: Display,
    }
    Display {
        state: String,
    }

    /// A cluster that Fleet deploys to.
    FleetCluster {
        metadata: Meta,
        status: FleetClusterStatus,
    }
    FleetClusterStatus {
        agent_deployed_generation: i64,
        conditions: Vec<Condition>,
    }

    /// A cluster that Rancher provisions.
    ProvisionedCluster {
        metadata: Meta,
        spec: ProvisionedClusterSpec,
        status: ProvisionedClusterStatus,
    }
    ProvisionedClusterSpec {
        kubernetes_version: String,
        rke_config: RkeConfig,
    }
    RkeConfig {
        provision_generation: i64,
        upgrade_strategy: serde_json::Value,
    }
    ProvisionedClusterStatus {
        ready: bool,
        conditions: Vec<Condition>,
    }

    /// What Rancher's planner works on.
    ControlPlane {
        metadata: Meta,
        spec: ControlPlaneSpec,
        status: ControlPlaneStatus,
    }
    ControlPlaneSpec {
        kubernetes_version: String,
    }
    ControlPlaneStatus {
        conditions: Vec<Condition>,
    }
}

seen! {
    /// What a release is downloaded into.
    VirtualMachineImage {
        metadata: Meta,
        status: VirtualMachineImageStatus,
    }
    VirtualMachineImageStatus {
        progress: i32,
        conditions: Vec<Condition>,
    }

    /// That it is there is all that is asked.
    Service {
        metadata: Meta,
    }

    ConfigMap {
        metadata: Meta,
        data: BTreeMap<String, String>,
    }

    RancherSetting {
        metadata: Meta,
        value: String,
        default: String,
    }

    /// What the Helm controller of RKE2 installs.
    HelmChart {
        metadata: Meta,
        spec: HelmChartSpec,
        status: HelmChartStatus,
    }
    HelmChartSpec {
        chart: String,
    }
    HelmChartStatus {
        conditions: Vec<Condition>,
    }

    /// Where Rancher takes charts from.
    ClusterRepo {
        metadata: Meta,
        spec: ClusterRepoSpec,
        status: ClusterRepoStatus,
    }
    ClusterRepoSpec {
        force_update: String,
    }
    ClusterRepoStatus {
        download_time: String,
        conditions: Vec<Condition>,
    }

    /// A Secret in which Helm keeps a release.
    HelmRelease {
        metadata: Meta,
        data: HelmReleaseData,
    }
    HelmReleaseData {
        release: String,
    }
}

impl Addon {
    pub fn condition(&self, kind: &str) -> Option<&AddonCondition> {
        self.status.conditions.iter().find(|one| one.kind == kind)
    }
}

impl RancherSetting {
    pub fn effective(&self) -> &str {
        if self.value.is_empty() { &self.default } else { &self.value }
    }
}

impl Setting {
    /// What holds: the value, or the default where that is empty.
    pub fn effective(&self) -> &str {
        if self.value.is_empty() { &self.default } else { &self.value }
    }
}

impl HelmRelease {
    pub fn status(&self) -> &str {
        self.label(labels::STATUS)
    }

    /// How many times it was changed; the newest of a name has the highest.
    pub fn revision(&self) -> u64 {
        self.label(labels::VERSION).parse().unwrap_or(0)
    }

    fn label(&self, key: &str) -> &str {
        self.metadata.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    /// The values that somebody has set, without the defaults of the chart.
    pub fn values(&self) -> Result<serde_json::Value, String> {
        #[derive(serde::Deserialize)]
        struct Release {
            #[serde(default)]
            config: Option<serde_json::Value>,
        }
        // The API server has a form of its own for bytes, and Helm one of its own within.
        let unpacked = |text: &[u8]| STANDARD.decode(text).map_err(|_| "it is not base64".to_owned());
        let packed = unpacked(&unpacked(self.data.release.as_bytes())?)?;
        let mut json = Vec::new();
        match packed.starts_with(&GZIP) {
            true => {
                let unpacked = GzDecoder::new(packed.as_slice()).take(LONGEST_RELEASE).read_to_end(&mut json);
                unpacked.map_err(|_| "it is not packed as Helm does".to_owned())?;
            }
            false => json = packed,
        }
        let release: Release = serde_json::from_slice(&json).map_err(|_| "it holds no release".to_owned())?;
        Ok(release.config.filter(|values| !values.is_null()).unwrap_or_else(|| serde_json::json!({})))
    }
}

impl VirtualMachineBackup {
    pub fn is_under_way(&self) -> bool {
        self.status.ready_to_use != Some(true) && self.status.error.is_none()
    }
}

projections! {
    Upgrade => "Upgrade",
    UpgradeLog => "UpgradeLog",
    Version => "Version",
    Setting => "Setting",
    Addon => "Addon",
    VirtualMachineBackup => "VirtualMachineBackup",
    ScheduledBackup => "ScheduleVMBackup",
    ManagedChart => "ManagedChart",
    Bundle => "Bundle",
    FleetCluster => "Cluster.fleet.cattle.io",
    ProvisionedCluster => "Cluster.provisioning.cattle.io",
    ControlPlane => "RKEControlPlane",
    VirtualMachineImage => "VirtualMachineImage",
    Service => "Service",
    ConfigMap => "ConfigMap",
    RancherSetting => "Setting.management.cattle.io",
    HelmChart => "HelmChart",
    ClusterRepo => "ClusterRepo",
    HelmRelease => "HelmRelease",
}

shelves! {
    Harvester {
        upgrades: Upgrade = ("harvesterhci.io", "Upgrade"),
        upgrade_logs: UpgradeLog = ("harvesterhci.io", "UpgradeLog"),
        versions: Version = ("harvesterhci.io", "Version"),
        settings: Setting = ("harvesterhci.io", "Setting"),
        addons: Addon = ("harvesterhci.io", "Addon"),
        backups: VirtualMachineBackup = ("harvesterhci.io", "VirtualMachineBackup"),
        schedules: ScheduledBackup = ("harvesterhci.io", "ScheduleVMBackup"),
        charts: ManagedChart = ("management.cattle.io", "ManagedChart"),
        bundles: Bundle = ("fleet.cattle.io", "Bundle"),
        fleet_clusters: FleetCluster = ("fleet.cattle.io", "Cluster"),
        clusters: ProvisionedCluster = ("provisioning.cattle.io", "Cluster"),
        control_planes: ControlPlane = ("rke.cattle.io", "RKEControlPlane"),
        images: VirtualMachineImage = ("harvesterhci.io", "VirtualMachineImage"),
        services: Service = ("", "Service"),
        config_maps: ConfigMap = ("", "ConfigMap"),
        rancher_settings: RancherSetting = ("management.cattle.io", "Setting"),
        cluster_repos: ClusterRepo = ("catalog.cattle.io", "ClusterRepo"),
        helm_charts: HelmChart = ("helm.cattle.io", "HelmChart"),
        helm_releases: HelmRelease = ("", "HelmRelease"),
    }
}
