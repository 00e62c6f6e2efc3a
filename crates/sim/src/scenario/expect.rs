//! What must be true in the end.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern::{ObjectName, agrees, is_like};
use super::{NAMESPACE, Scenario};
use crate::invariants::selector;
use crate::known::Known;

/// What must be true in the end. Without a word every Plan is complete and every node that it selects is upgraded.
/// Always: no mark, claim or cordon of ours is left on a node that is not `out`, and every wait that is published is true.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Expect {
    /// The Plans that are complete, by name; the others are not. Not given: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<Vec<String>>,
    /// The nodes that are upgraded; the others are not. Not given: all that a Plan selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgraded: Option<BTreeSet<String>>,
    /// The nodes that are still out of service: marked as claimed, or as failed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub out: BTreeSet<String>,
    /// The nodes that somebody has removed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<String>,
    /// What is waited for, and published in the status of a Plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<ExpectedWait>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ExpectedObjects>,
    /// The same on the guest cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guest_objects: Vec<ExpectedObjects>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedWait {
    pub reason: String,
    /// Such as `Node/node-2`; `*` stands for any text.
    #[serde(default = "anything")]
    pub subject: String,
}

fn anything() -> String {
    "*".to_owned()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedObjects {
    pub object: ObjectName,
    /// As in the moment of a fault.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub matches: Value,
    /// How many fit; not given: at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

impl Scenario {
    /// What is still wrong when it should have ended, in sentences; nothing if all is well. `cordoned` are the nodes that
    /// others than Drover have cordoned.
    pub fn unmet(&self, known: &Known, cordoned: &BTreeSet<String>) -> Vec<String> {
        let mut unmet = Vec::new();
        for name in self.plan_names() {
            unmet.extend(self.unmet_of_plan(known, &name));
        }
        unmet.extend(self.unmet_of_upgrade(known));
        for (_, name, node) in known.named("Node").filter(|(namespace, ..)| namespace.is_empty()) {
            unmet.extend(self.unmet_on(known, name, node, cordoned));
        }
        for name in self.node_names() {
            match (known.node(&name).is_some(), self.expect.gone.contains(&name)) {
                (false, false) => unmet.push(format!("{name} is gone")),
                (true, true) => unmet.push(format!("{name} is still there")),
                _ => {}
            }
        }
        let published: Vec<&Value> =
            known.all("Plan").filter_map(|plan| plan["status"]["waits"].as_array()).flatten().collect();
        for wait in &self.expect.waits {
            let is_it = |published: &&&Value| {
                published["reason"] == wait.reason.as_str()
                    && published["subject"].as_str().is_some_and(|subject| is_like(&wait.subject, subject))
            };
            if !published.iter().any(|published| is_it(&published)) {
                unmet.push(format!("no wait of {} for {} is published", wait.subject, wait.reason));
            }
        }
        unmet.extend(self.expect.objects.iter().filter_map(|objects| objects.unmet(known)));
        unmet
    }

    fn unmet_of_plan(&self, known: &Known, name: &str) -> Vec<String> {
        let wanted = self.expect.complete.as_ref().is_none_or(|names| names.iter().any(|complete| complete == name));
        let Some(plan) = known.get("Plan", NAMESPACE, name) else {
            return if wanted { vec![format!("the Plan {name} is gone")] } else { Vec::new() };
        };
        let mut unmet = Vec::new();
        let complete = is_complete(plan);
        if complete != wanted {
            unmet.push(format!("the Plan {name} is {}complete", if complete { "" } else { "not " }));
        }
        if wanted && plan["status"]["applying"].as_array().is_some_and(|applying| !applying.is_empty()) {
            unmet.push(format!("the Plan {name} still names {} as applying", plan["status"]["applying"]));
        }
        if wanted && plan["status"]["latestHash"].as_str().unwrap_or_default().is_empty() {
            unmet.push(format!("the Plan {name} has no latestHash"));
        }
        let claims = plan["metadata"]["annotations"]["drover.dev/claims"].as_str().unwrap_or("{}");
        let claims: Value = serde_json::from_str(claims).unwrap_or_default();
        for node in claims["nodes"].as_object().into_iter().flatten().map(|(node, _)| node) {
            if !self.expect.out.contains(node) {
                unmet.push(format!("the Plan {name} still claims {node}"));
            }
        }
        unmet
    }

    /// An Upgrade that is to be complete has succeeded and was cleaned up, and every node runs the release.
    fn unmet_of_upgrade(&self, known: &Known) -> Vec<String> {
        let Some((upgrade, release)) = self.upgrade().zip(self.release()) else { return Vec::new() };
        let name = upgrade.name.as_str();
        if !self.expect.complete.as_ref().is_none_or(|names| names.iter().any(|complete| complete == name)) {
            return Vec::new();
        }
        let Some(upgrade_object) = known.get("Upgrade", "harvester-system", name) else {
            return vec![format!("the Upgrade {name} is gone")];
        };
        let mut unmet = Vec::new();
        for (label, wanted) in [("upgradeState", "Succeeded"), ("upgradeCleanup", "Succeeded")] {
            let is = &upgrade_object["metadata"]["labels"][format!("harvesterhci.io/{label}")];
            if is != wanted {
                unmet.push(format!("the {label} of the Upgrade {name} is {is}, not {wanted}"));
            }
        }
        let of_planes = known
            .all("RKEControlPlane")
            .filter_map(|plane| plane["metadata"]["annotations"]["drover.dev/claims"].as_str());
        let claims = of_planes.map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
        if claims.into_iter().any(|claims| claims["nodes"].as_object().is_some_and(|nodes| !nodes.is_empty())) {
            unmet.push("the control plane still claims nodes".to_owned());
        }
        // Nodes of others take no part.
        let own = self.node_names();
        let is_own = |node: &str| own.iter().any(|name| name == node);
        for (_, node, object) in known.named("Node").filter(|(namespace, node, _)| namespace.is_empty() && is_own(node))
        {
            let info = &object["status"]["nodeInfo"];
            if info["osImage"] != release["os"] || info["kubeletVersion"] != release["kubernetes"] {
                unmet.push(format!("{node} does not run the release"));
            }
            let marks = ["harvesterhci.io/pendingOSImage", "harvesterhci.io/node-upgrade-pause"];
            let marked = marks.iter().find(|mark| object["metadata"]["annotations"][**mark].is_string());
            unmet.extend(marked.map(|mark| format!("{node} still carries {mark}")));
            let taints = object["spec"]["taints"].as_array().into_iter().flatten();
            if taints.into_iter().any(|taint| taint["key"] == "kubevirt.io/drain") {
                unmet.push(format!("{node} still sends its VMs away"));
            }
            if upgrade_object["status"]["nodeStatuses"][node]["state"] != "Succeeded" {
                unmet.push(format!("the Upgrade {name} does not say that {node} has succeeded"));
            }
        }
        unmet
    }

    fn unmet_on(&self, known: &Known, name: &str, node: &Value, cordoned: &BTreeSet<String>) -> Vec<String> {
        let mut unmet = Vec::new();
        // The Plans of an Upgrade raise no version.
        if let Some(sentence) = self.unmet_upgrade(known, name, node).filter(|_| self.upgrade().is_none()) {
            unmet.push(sentence);
        }
        let out = self.expect.out.contains(name);
        let is_ours = |(key, _): &(&String, &Value)| ["drover.dev/claim", "drover.dev/failed"].contains(&key.as_str());
        let mark = ["labels", "annotations"]
            .iter()
            .find_map(|marks| node["metadata"][*marks].as_object().into_iter().flatten().find(is_ours));
        match mark {
            Some((key, _)) if !out => unmet.push(format!("{name} still carries {key}")),
            None if out => unmet.push(format!("{name} is not out")),
            _ => {}
        }
        let is_cordoned = node["spec"]["unschedulable"] == true;
        if !out && is_cordoned != cordoned.contains(name) {
            unmet.push(format!("{name} is {}cordoned", if is_cordoned { "" } else { "no longer " }));
        }
        unmet
    }

    /// A node is upgraded if it carries the result of every complete Plan that selects it, and runs one's version.
    fn unmet_upgrade(&self, known: &Known, name: &str, node: &Value) -> Option<String> {
        let selecting: Vec<(&str, &Value)> = known
            .named("Plan")
            .filter(|(_, _, plan)| is_complete(plan) && selector::selects(&plan["spec"]["nodeSelector"], node))
            .map(|(_, plan, object)| (plan, object))
            .collect();
        let carries = |(plan, object): &(&str, &Value)| {
            let label = &node["metadata"]["labels"][format!("plan.upgrade.cattle.io/{plan}")];
            label.is_string() && *label == object["status"]["latestHash"]
        };
        let plain = |version: &Value| version.as_str().unwrap_or_default().replace('+', "-");
        let runs = |object: &Value| {
            plain(&object["status"]["latestVersion"]) == plain(&node["status"]["nodeInfo"]["kubeletVersion"])
        };
        match &self.expect.upgraded {
            Some(names) if !names.contains(name) => {
                let upgraded = selecting.iter().any(&carries);
                upgraded.then(|| format!("{name} is upgraded"))
            }
            Some(_) if selecting.is_empty() => {
                let upgraded = known.all("Plan").any(runs);
                (!upgraded).then(|| format!("{name} is not upgraded"))
            }
            _ => {
                let lacking = selecting.iter().find(|plan| !carries(plan));
                if let Some((plan, _)) = lacking {
                    return Some(format!("{name} does not carry the result of the Plan {plan}"));
                }
                // A real lab has no machines whose version changes, and some are told not to change theirs.
                let told = &node["metadata"]["annotations"];
                let simulated = told["corral.drover.dev/kubelet"] == "simulated"
                    && told["corral.drover.dev/keeps-version"] != "true";
                let old = simulated && !selecting.is_empty() && !selecting.iter().any(|(_, plan)| runs(plan));
                old.then(|| format!("{name} runs none of the versions that it was upgraded to"))
            }
        }
    }
}

impl ExpectedObjects {
    pub(super) fn unmet(&self, known: &Known) -> Option<String> {
        let object = &self.object;
        let fitting = known
            .named(&object.kind)
            .filter(|(namespace, name, value)| {
                object.covers(&object.kind, namespace, name) && agrees(&self.matches, value)
            })
            .count();
        match self.count {
            Some(count) if count != fitting => Some(format!("{fitting} of {object} are as expected, not {count}")),
            None if fitting == 0 => Some(format!("no {object} is as expected")),
            _ => None,
        }
    }
}

pub(crate) fn is_complete(plan: &Value) -> bool {
    let conditions = plan["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}
