//! Scenarios from files, and those that are built in.

use std::path::Path;

use drover_operator::objects;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Scenario;

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read the scenario {path}: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("the scenario {path} is not valid: {cause}")]
    Parse { path: String, cause: String },
}

/// In a file, objects can stand elsewhere.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used: a path is resolved before the file is read as a scenario")]
pub(super) enum Manifests {
    /// A file or a folder, from where the scenario is.
    Path(String),
    Objects(Vec<Value>),
}

macro_rules! built_in_files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".yaml")))),*]
    };
}

/// The files of the folder `scenarios`, in the order in which they are listed.
const BUILT_IN: &[(&str, &str)] = built_in_files![
    "three-nodes",
    "ten-at-a-time",
    "hundred-nodes",
    "with-reboot",
    "reboots-twice",
    "long-reboot",
    "without-cordon",
    "hostname-differs",
    "servers-and-agents",
    "drain",
    "budget-forbids",
    "eviction-refused",
    "slow-pod",
    "drain-times-out",
    "volume-stays",
    "overlapping-plans",
    "exclusive-plans",
    "paused",
    "gate",
    "channel",
    "window-closes",
    "window-closed",
    "missing-secret",
    "bad-plans",
    "failing-job",
    "hanging-job",
    "stalled-node",
    "goes-on-without",
    "too-many-failed",
    "old-version",
    "never-returns",
    "plan-deleted",
    "selector-narrowed",
    "operator-replaced",
    "harvester-three-nodes",
    "harvester-one-node",
    "harvester-one-node-deleted",
    "harvester-paused",
    "harvester-paused-by-hand",
    "harvester-one-node-paused",
    "harvester-stock-paused",
    "harvester-started-over",
    "harvester-deleted-at-once",
    "harvester-deleted-among-nodes",
    "harvester-aborted",
    "harvester-aborted-at-once",
    "harvester-skipped",
    "harvester-old-system-skipped",
    "harvester-two-drivers",
    "harvester-comes-back",
    "harvester-refused",
    "harvester-stock",
    "harvester-stock-plan-fails",
    "harvester-stock-retried",
    "harvester-stock-started-over",
    "harvester-stock-unmanaged-node",
    "harvester-stock-vms",
    "harvester-stock-volumes",
    "harvester-unknown-release",
    "harvester-repository-vm",
    "harvester-repository-hangs",
    "harvester-retried",
    "harvester-services-retried",
    "harvester-one-after-another",
    "harvester-planner-paused",
    "harvester-node-promoted",
    "harvester-volume-never-heals",
    "harvester-chart-freezes",
    "harvester-rancher-raised",
    "harvester-manifests",
    "harvester-products-follow",
    "harvester-chart-repository",
    "harvester-addon-stuck",
    "harvester-fleet-agent-gone",
    "harvester-unmanaged-node",
    "harvester-voter-lost",
    "harvester-planner-by-jobs",
    "harvester-planner-errs",
    "harvester-planner-silent",
    "harvester-own-planner",
    "harvester-own-planner-one-server",
    "harvester-own-planner-paused",
    "harvester-own-planner-aborted",
    "harvester-own-planner-plan-fails",
    "harvester-own-planner-two-nodes",
    "harvester-own-planner-server-dies",
    "harvester-own-status",
    "harvester-meddled",
    "harvester-download-stalls",
    "harvester-witness",
    "harvester-two-nodes",
    "harvester-taint-lost",
    "harvester-boots-old-system",
    "harvester-node-stays-down",
    "harvester-agent-silent",
    "harvester-kubelet-stays-old",
    "harvester-planner-stalls",
    "harvester-planner-stands-still",
    "harvester-tunnels-refused",
    "harvester-machine-stale",
    "harvester-plan-secret-missing",
    "harvester-plan-not-applied",
    "harvester-preload-fails",
    "harvester-migration-hangs",
    "harvester-server-dies",
    "harvester-server-dies-meanwhile",
    "harvester-paused-node-leaves",
    "harvester-webhook-stays",
    "harvester-vms",
    "harvester-volumes-unused",
    "harvester-images-collected",
    "harvester-checksum-differs",
    "harvester-config-garbled",
    "harvester-node-leaves",
    "harvester-node-leaves-at-work",
    "harvester-five-troubles",
    "harvester-five-nodes",
    "harvester-hundred-nodes",
    "guest-three-machines",
    "guest-one-machine",
    "guest-five-machines",
    "guest-new-class",
    "guest-cut-off",
    "guest-machine-never-comes",
    "guest-member-stays",
    "guest-join-dies",
    "guest-machine-stays",
    "guest-tkc",
    "guest-tkc-workers-never-come",
    "guest-tkc-workers-return",
    "guest-v1beta1",
    "guest-workers-follow",
    "guest-two-follow",
    "guest-left-mistakes",
    "guest-mistakes",
    "guest-refused",
    "guest-member-off",
    "guest-worker-follows",
    "guest-begun-long-ago",
    "guest-tkc-worker-stays",
    "guest-tkc-addons",
    "guest-tkc-addon-fails",
    "guest-tkc-addons-kept",
    "guest-tkc-addons-cut-off",
    "guest-tkc-many",
    "guest-tkc-paused",
    "guest-tkc-flags",
    "guest-tkc-scaled",
    "guest-tkc-shrunk",
    "guest-tkc-deleted",
    "guest-tkc-deleted-at-rest",
    "guest-tkc-created",
    "guest-tkc-creation-fails",
    "guest-tkc-creation-ended",
    "guest-tkc-job-fails",
    "guest-tkc-job-pending",
    "guest-tkc-class-missing",
    "guest-tkc-meddled",
    "guest-tkc-mistakes",
    "guest-tkc-config-lost",
    "guest-tkc-called-off",
    "guest-tkc-taken-over",
    "beside-the-original",
    "no-permission",
];

/// Those that need no file.
pub fn built_in() -> Result<Vec<Scenario>, ScenarioError> {
    BUILT_IN.iter().map(|(name, text)| Scenario::parse(name, text, Path::new("."))).collect()
}

impl Scenario {
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| ScenarioError::Read { path: shown.clone(), cause })?;
        Scenario::parse(&shown, &text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Paths inside a scenario start at `folder`.
    pub fn parse(shown: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        let invalid = |cause: String| ScenarioError::Parse { path: shown.to_owned(), cause };
        let mut document: Value =
            serde_saphyr::from_str(text).map_err(|error| invalid(error.without_snippet().to_string()))?;
        if let Some(path) = document["manifests"].as_str() {
            let objects = objects::read_all(&[folder.join(path)]).map_err(|error| invalid(error.to_string()))?;
            document["manifests"] = serde_json::to_value(objects).map_err(|error| invalid(error.to_string()))?;
        }
        let document = if document.is_null() { serde_json::json!({}) } else { document };
        let scenario: Scenario = serde_json::from_value(document).map_err(|error| invalid(error.to_string()))?;
        scenario.check().map_err(invalid)?;
        Ok(scenario)
    }

    /// What the types cannot say.
    fn check(&self) -> Result<(), String> {
        let names = self.node_names();
        let expected = self.expect.out.iter().chain(&self.expect.gone).chain(self.expect.upgraded.iter().flatten());
        for (field, name) in (self.cordoned.iter().map(|name| ("cordoned", name)))
            .chain(self.machines.keys().map(|name| ("machines", name)))
            .chain(expected.map(|name| ("expect", name)))
        {
            if !names.contains(name) && !self.brings_node(name) {
                return Err(format!("{field} names {name}, but the nodes are node-1 to node-{}", self.nodes));
            }
        }
        let complete = self.expect.complete.iter().flatten();
        let is_known =
            |name: &&String| self.plan_names().contains(name) || self.guests().any(|guest| guest.name == **name);
        match complete.into_iter().find(|name| !is_known(name)) {
            Some(name) => {
                Err(format!("expect.complete names {name}, which is no Plan or guest cluster of the scenario"))
            }
            None if self.sampled == Some(0) => Err("sampled is at least 1".to_owned()),
            None => Ok(()),
        }
    }

    fn brings_node(&self, name: &str) -> bool {
        self.manifests.iter().any(|object| object["kind"] == "Node" && object["metadata"]["name"] == name)
    }
}
