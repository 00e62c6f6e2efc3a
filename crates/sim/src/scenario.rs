//! A cluster and its upgrade, in a few lines, and what must be true of them in the end.

use std::collections::BTreeSet;
use std::path::Path;

use drover_api::plan::{Plan, conditions, labels};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is run; every field has a default, so that a file states only what matters to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    pub name: String,
    pub nodes: usize,
    /// What the nodes run before.
    pub from: String,
    pub to: String,
    pub concurrency: i64,
    pub cordon: bool,
    /// Nodes that somebody has cordoned before: they stay so.
    pub cordoned: BTreeSet<String>,
    /// How long an upgrade takes on a node.
    pub job_seconds: u64,
    /// How long a node is away after its upgrade; 0: it does not reboot.
    pub reboot_seconds: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            name: "three-nodes".to_owned(),
            nodes: 3,
            from: "v1.33.0".to_owned(),
            to: "v1.34.0".to_owned(),
            concurrency: 1,
            cordon: true,
            cordoned: BTreeSet::new(),
            job_seconds: 4,
            reboot_seconds: 0,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read the scenario {path}: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("the scenario {path} is not valid: {cause}")]
    Parse { path: String, cause: String },
}

pub const NAMESPACE: &str = "system-upgrade";
pub const PLAN: &str = "upgrade";

impl Scenario {
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| ScenarioError::Read { path: shown(), cause })?;
        let invalid = |cause: String| ScenarioError::Parse { path: shown(), cause };
        let scenario: Scenario = serde_saphyr::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let strangers: Vec<&String> =
            scenario.cordoned.iter().filter(|name| !scenario.node_names().contains(name)).collect();
        match strangers.first() {
            Some(name) => {
                Err(invalid(format!("cordoned names {name}, but the nodes are node-1 to node-{}", scenario.nodes)))
            }
            None => Ok(scenario),
        }
    }

    pub fn node_names(&self) -> Vec<String> {
        (1..=self.nodes).map(|number| format!("node-{number}")).collect()
    }

    /// The Plan that a user would write.
    pub fn plan(&self) -> Value {
        json!({
            "apiVersion": "upgrade.cattle.io/v1",
            "kind": "Plan",
            "metadata": { "name": PLAN, "namespace": NAMESPACE },
            "spec": {
                "concurrency": self.concurrency,
                "cordon": self.cordon,
                "version": self.to,
                "nodeSelector": { "matchExpressions": [{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }] },
                "upgrade": { "image": "rancher/k3s-upgrade" },
            },
        })
    }

    /// What is still wrong when the upgrade should have ended: nothing, in the words of sentences. Works on the objects
    /// of any cluster, embedded or real.
    pub fn unmet(&self, plan: &Value, nodes: &[Value]) -> Vec<String> {
        let mut unmet = Vec::new();
        let typed: Plan = match serde_json::from_value(plan.clone()) {
            Ok(plan) => plan,
            Err(error) => return vec![format!("the Plan cannot be read: {error}")],
        };
        let status = typed.status.unwrap_or_default();
        let complete = status.conditions.iter().find(|condition| condition.type_ == conditions::COMPLETE);
        if complete.is_none_or(|condition| condition.status != conditions::TRUE) {
            unmet.push("the Plan is not complete".to_owned());
        }
        if !status.applying.is_empty() {
            unmet.push(format!("the Plan still names {} as applying", status.applying.join(", ")));
        }
        if status.latest_hash.is_empty() {
            unmet.push("the Plan has no latestHash".to_owned());
        }
        let claims = plan["metadata"]["annotations"]["drover.dev/claims"].as_str().unwrap_or("{}");
        let claims: Value = serde_json::from_str(claims).unwrap_or_default();
        if claims["nodes"].as_object().is_some_and(|nodes| !nodes.is_empty()) {
            unmet.push(format!("claims are left: {}", claims["nodes"]));
        }
        if nodes.len() != self.nodes {
            unmet.push(format!("{} nodes are there instead of {}", nodes.len(), self.nodes));
        }
        for node in nodes {
            unmet.extend(self.unmet_on(node, &status.latest_hash));
        }
        unmet
    }

    fn unmet_on(&self, node: &Value, hash: &str) -> Vec<String> {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let mut unmet = Vec::new();
        if node["metadata"]["labels"][labels::plan_hash(PLAN)] != hash {
            unmet.push(format!("{name} does not carry the result label"));
        }
        for marks in ["labels", "annotations"] {
            let ours = node["metadata"][marks]
                .as_object()
                .into_iter()
                .flatten()
                .find(|(key, _)| key.starts_with("drover.dev/"));
            if let Some((key, _)) = ours {
                unmet.push(format!("{name} still carries {key}"));
            }
        }
        let cordoned = node["spec"]["unschedulable"] == true;
        if cordoned != self.cordoned.contains(name) {
            unmet.push(format!("{name} is {}cordoned", if cordoned { "" } else { "no longer " }));
        }
        unmet
    }
}
