//! What must hold after every single write.
//!
//! This code reads the objects as they are stored and shares nothing with the engines: not a type, not a constant.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One change of one object, as the store commits it.
#[derive(Debug)]
pub struct Change<'a> {
    pub actor: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub before: Option<&'a Value>,
    pub after: Option<&'a Value>,
}

/// Watches all changes of a run and notes what should not have happened.
#[derive(Debug)]
pub struct Checker {
    /// The user's limit of nodes at once.
    limit: usize,
    cordoned_before: BTreeSet<String>,
    nodes: BTreeMap<String, Value>,
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    /// Nodes by the number of upgrades that succeeded on them.
    upgrades: BTreeMap<String, usize>,
    violations: Vec<String>,
}

impl Checker {
    pub fn new(limit: usize, cordoned_before: &BTreeSet<String>) -> Self {
        Checker {
            limit,
            cordoned_before: cordoned_before.clone(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            upgrades: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// How often an upgrade succeeded on each node.
    pub fn upgrades(&self) -> &BTreeMap<String, usize> {
        &self.upgrades
    }

    pub fn see(&mut self, change: &Change<'_>) {
        let known = match change.kind {
            "Node" => &mut self.nodes,
            "Job" => &mut self.jobs,
            "Pod" => &mut self.pods,
            _ => return,
        };
        match change.after {
            Some(after) => drop(known.insert(change.name.to_owned(), after.clone())),
            None => drop(known.remove(change.name)),
        }
        match change.kind {
            "Node" => self.check_node(change),
            "Pod" => self.check_pod(change),
            _ => {}
        }
    }

    fn check_node(&mut self, change: &Change<'_>) {
        if !change.actor.starts_with("operator") {
            return;
        }
        let (Some(before), Some(after)) = (change.before, change.after) else {
            self.violation(format!("{} made or deleted {}", change.actor, change.name));
            return;
        };
        let claimed = self.nodes.values().filter(|node| claim(node).is_some()).count();
        if claim(before).is_none() && claim(after).is_some() && claimed > self.limit {
            self.violation(format!("{} claimed {} as number {claimed} of {}", change.actor, change.name, self.limit));
        }
        let out =
            self.nodes.iter().filter(|(name, node)| is_cordoned(node) && !self.cordoned_before.contains(*name)).count();
        if !is_cordoned(before) && is_cordoned(after) && out > self.limit {
            self.violation(format!("{} cordoned {} as number {out} of {}", change.actor, change.name, self.limit));
        }
        if self.cordoned_before.contains(change.name) && !is_cordoned(after) {
            self.violation(format!("{} uncordoned {}, which somebody else had cordoned", change.actor, change.name));
        }
        let result = |node: &Value| {
            labels(node).find(|(key, _)| key.starts_with("plan.upgrade.cattle.io/")).map(|(_, value)| value.clone())
        };
        if result(before) != result(after) {
            self.check_release(change, after);
        }
    }

    /// A node that gets its result is Ready, its upgrade has succeeded, and nothing of it runs any more.
    fn check_release(&mut self, change: &Change<'_>, node: &Value) {
        if !is_ready(node) {
            self.violation(format!("{} released {} while it was not Ready", change.actor, change.name));
        }
        if self.upgrades.get(change.name).is_none_or(|count| *count == 0) {
            self.violation(format!("{} released {}, on which no upgrade has succeeded", change.actor, change.name));
        }
        if self.pods.values().any(|pod| is_at_work(pod) && node_of(pod) == Some(change.name)) {
            self.violation(format!("{} released {} while its upgrade still ran", change.actor, change.name));
        }
    }

    fn check_pod(&mut self, change: &Change<'_>) {
        let Some(pod) = change.after.filter(|pod| job_of(pod).is_some()) else { return };
        let Some(node) = node_of(pod) else { return };
        let newly_bound = change.before.is_none_or(|before| node_of(before).is_none());
        if newly_bound {
            let at_work: BTreeSet<&str> =
                self.pods.values().filter(|pod| is_at_work(pod)).filter_map(node_of).collect();
            if at_work.len() > self.limit {
                self.violation(format!("upgrades are at work on {at_work:?}, the limit is {}", self.limit));
            }
            let job_claim = job_of(pod).and_then(|job| self.jobs.get(job)).and_then(claim).map(str::to_owned);
            let node_claim = self.nodes.get(node).and_then(claim).map(str::to_owned);
            if job_claim.is_none() || job_claim != node_claim {
                self.violation(format!(
                    "pod {} of claim {job_claim:?} came to {node}, which is under {node_claim:?}",
                    change.name
                ));
            }
        }
        let succeeded = |pod: &Value| pod["status"]["phase"] == "Succeeded";
        if succeeded(pod) && !change.before.is_some_and(succeeded) {
            *self.upgrades.entry(node.to_owned()).or_default() += 1;
        }
    }

    fn violation(&mut self, sentence: String) {
        self.violations.push(sentence);
    }
}

fn labels(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object["metadata"]["labels"].as_object().into_iter().flatten()
}

fn claim(object: &Value) -> Option<&str> {
    object["metadata"]["labels"]["drover.dev/claim"].as_str()
}

fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

fn job_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"].as_str()
}

fn is_at_work(pod: &Value) -> bool {
    job_of(pod).is_some()
        && node_of(pod).is_some()
        && pod["status"]["phase"] != "Succeeded"
        && pod["status"]["phase"] != "Failed"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, claim: Option<&str>, cordoned: bool) -> Value {
        let mut node = json!({ "metadata": { "name": name, "labels": {} }, "spec": {}, "status": {} });
        if let Some(claim) = claim {
            node["metadata"]["labels"]["drover.dev/claim"] = json!(claim);
        }
        if cordoned {
            node["spec"]["unschedulable"] = json!(true);
        }
        node
    }

    fn patched(checker: &mut Checker, actor: &str, name: &str, before: &Value, after: &Value) {
        let change = Change { actor, kind: "Node", name, before: Some(before), after: Some(after) };
        checker.see(&change);
    }

    fn checker(cordoned_before: &[&str]) -> Checker {
        Checker::new(1, &cordoned_before.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_second_node_taken_out_is_seen() {
        let mut checker = checker(&[]);
        patched(&mut checker, "operator-1", "n1", &node("n1", None, false), &node("n1", Some("c1"), true));
        assert_eq!(checker.violations(), [""; 0]);
        patched(&mut checker, "operator-1", "n2", &node("n2", None, false), &node("n2", Some("c2"), true));
        assert_eq!(checker.violations().len(), 2);
    }

    #[test]
    fn undoing_somebody_elses_cordon_is_seen() {
        let mut checker = checker(&["n1"]);
        patched(&mut checker, "operator-1", "n1", &node("n1", Some("c1"), true), &node("n1", None, false));
        assert!(checker.violations()[0].contains("somebody else had cordoned"));
    }

    #[test]
    fn what_a_user_does_is_no_violation() {
        let mut checker = checker(&[]);
        for name in ["n1", "n2"] {
            patched(&mut checker, "user", name, &node(name, None, false), &node(name, None, true));
        }
        assert_eq!(checker.violations(), [""; 0]);
    }

    #[test]
    fn a_result_without_an_upgrade_is_seen() {
        let mut checker = checker(&[]);
        let mut after = node("n1", None, false);
        after["metadata"]["labels"]["plan.upgrade.cattle.io/up"] = json!("hash");
        after["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
        patched(&mut checker, "operator-1", "n1", &node("n1", Some("c1"), true), &after);
        assert_eq!(checker.violations(), ["operator-1 released n1, on which no upgrade has succeeded"]);
    }

    #[test]
    fn a_pod_on_a_node_that_its_claim_does_not_hold_is_seen() {
        let mut checker = checker(&[]);
        let job = json!({ "metadata": { "labels": { "drover.dev/claim": "c1" } } });
        checker.see(&Change { actor: "operator-1", kind: "Job", name: "j", before: None, after: Some(&job) });
        let pod =
            json!({ "metadata": { "labels": { "batch.kubernetes.io/job-name": "j" } }, "spec": { "nodeName": "n1" } });
        checker.see(&Change { actor: "world", kind: "Pod", name: "p", before: None, after: Some(&pod) });
        assert_eq!(checker.violations().len(), 1);
    }
}
