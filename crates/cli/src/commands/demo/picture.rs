//! The upgrade as it looks from outside: how each node is, and what is waited for.
//!
//! It is put together from what is written to the cluster and from what the operator reports; nothing of it reaches
//! into the operator.

use std::collections::BTreeMap;

use drover_api::plan::labels::plan_hash;
use drover_clock::between;
use drover_core::claims::ClaimId;
use drover_core::decision::{Kind, Wait};
use drover_core::seen::{NodeSeen, Outcome, PlanSeen, Seen};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a node is, in the order in which an upgrade goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    Waiting,
    /// Claimed, but not to be cordoned.
    Claimed,
    Cordoned,
    JobRunning,
    JobFailed,
    /// The Job is done; the node is about to be given back.
    JobComplete,
    NotReady,
    Upgraded,
}

impl State {
    pub fn words(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Claimed => "claimed",
            State::Cordoned => "cordoned",
            State::JobRunning => "job running",
            State::JobFailed => "job failed",
            State::JobComplete => "job complete",
            State::NotReady => "not ready",
            State::Upgraded => "upgraded",
        }
    }
}

/// One object as it was written, or that it is gone.
#[derive(Debug)]
pub struct Sight {
    pub at: Timestamp,
    pub kind: Kind,
    pub name: String,
    pub json: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub struct NodePicture {
    pub state: State,
    /// Since when it is in this state.
    pub since: Timestamp,
    pub version: String,
    /// When it was claimed last.
    pub taken: Option<Timestamp>,
    pub upgraded: Option<Timestamp>,
    seen: NodeSeen,
    is_ready: bool,
}

#[derive(Debug)]
struct JobPicture {
    claim: Option<ClaimId>,
    outcome: Option<Outcome>,
}

/// A wait that is over, or not yet.
#[derive(Debug, Clone)]
pub struct Waited {
    pub wait: Wait,
    pub until: Option<Timestamp>,
}

/// A node that has come to another state.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    pub at: Timestamp,
    pub node: String,
    pub state: State,
    pub version: String,
}

#[derive(Debug)]
pub struct Picture {
    pub plan_name: String,
    pub nodes: BTreeMap<String, NodePicture>,
    jobs: BTreeMap<String, JobPicture>,
    pub plan: Option<PlanSeen>,
    pub waits: Vec<Waited>,
}

impl Picture {
    pub fn of_plan(name: &str) -> Self {
        Picture {
            plan_name: name.to_owned(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            plan: None,
            waits: Vec::new(),
        }
    }

    /// Takes in one write; tells which nodes look different now.
    pub fn see(&mut self, sight: &Sight) -> Vec<Transition> {
        match (sight.kind, &sight.json) {
            (Kind::Node, None) => drop(self.nodes.remove(&sight.name)),
            (Kind::Job, None) => drop(self.jobs.remove(&sight.name)),
            (_, None) => {}
            (kind, Some(json)) => {
                // What cannot be read stays as it was seen last.
                let Ok(Some(seen)) = Seen::decode(kind, json) else { return Vec::new() };
                self.take(seen, json, sight.at);
            }
        }
        self.update(sight.at)
    }

    fn take(&mut self, seen: Seen, json: &[u8], at: Timestamp) {
        match seen {
            Seen::Plan(plan) if plan.meta.name == self.plan_name => self.plan = Some(*plan),
            Seen::Node(node) => {
                let (version, is_ready) = machine(json);
                let picture = NodePicture {
                    state: State::Waiting,
                    since: at,
                    version: version.clone(),
                    taken: None,
                    upgraded: None,
                    seen: node.clone(),
                    is_ready,
                };
                let known = self.nodes.entry(node.meta.name.clone()).or_insert(picture);
                (known.seen, known.version, known.is_ready) = (node, version, is_ready);
            }
            Seen::Job(job) => {
                self.jobs.insert(job.meta.name.clone(), JobPicture { claim: job.claim, outcome: job.outcome });
            }
            Seen::Plan(_) | Seen::Pod(_) | Seen::Secret(_) => {}
        }
    }

    fn update(&mut self, at: Timestamp) -> Vec<Transition> {
        let hash = self.plan.as_ref().map(|plan| plan.status.latest_hash.clone()).filter(|hash| !hash.is_empty());
        let label = plan_hash(&self.plan_name);
        let mut transitions = Vec::new();
        for (name, node) in &mut self.nodes {
            let state = state(node, &self.jobs, hash.as_deref(), &label);
            if state == node.state {
                continue;
            }
            if matches!(node.state, State::Waiting | State::Upgraded) {
                node.taken = Some(at);
            }
            node.upgraded = (state == State::Upgraded).then_some(at);
            (node.state, node.since) = (state, at);
            transitions.push(Transition { at, node: name.clone(), state, version: node.version.clone() });
        }
        transitions
    }

    /// Takes in what is waited for now; tells what was not said before. A wait goes on for as long as its subject waits
    /// for the same reason, also if its sentence changes.
    pub fn hear(&mut self, at: Timestamp, waits: &[Wait]) -> Vec<Wait> {
        let same = |one: &Wait, other: &Wait| (&one.subject, one.reason) == (&other.subject, other.reason);
        let mut said = Vec::new();
        for open in self.waits.iter_mut().filter(|waited| waited.until.is_none()) {
            match waits.iter().find(|wait| same(wait, &open.wait)) {
                None => open.until = Some(at),
                Some(wait) if wait.sentence != open.wait.sentence => {
                    open.wait = wait.clone();
                    said.push(wait.clone());
                }
                Some(_) => {}
            }
        }
        for wait in waits {
            if !self.open_waits().any(|open| same(open, wait)) {
                said.push(wait.clone());
                self.waits.push(Waited { wait: wait.clone(), until: None });
            }
        }
        said
    }

    pub fn open_waits(&self) -> impl Iterator<Item = &Wait> {
        self.waits.iter().filter(|waited| waited.until.is_none()).map(|waited| &waited.wait)
    }

    pub fn upgraded(&self) -> usize {
        self.nodes.values().filter(|node| node.state == State::Upgraded).count()
    }
}

impl NodePicture {
    /// How long it was out of service.
    pub fn took(&self) -> Option<std::time::Duration> {
        Some(between(self.taken?, self.upgraded?))
    }
}

fn state(node: &NodePicture, jobs: &BTreeMap<String, JobPicture>, hash: Option<&str>, label: &str) -> State {
    let seen = &node.seen;
    let upgraded = hash.is_some() && seen.meta.labels.get(label).map(String::as_str) == hash;
    if upgraded && seen.claim.is_none() {
        return State::Upgraded;
    }
    if !node.is_ready {
        return State::NotReady;
    }
    if seen.claim.is_none() {
        return State::Waiting;
    }
    match jobs.values().find(|job| job.claim == seen.claim).map(|job| &job.outcome) {
        Some(None) => State::JobRunning,
        Some(Some(Outcome::Complete)) => State::JobComplete,
        Some(Some(Outcome::Failed { .. })) => State::JobFailed,
        None if seen.unschedulable => State::Cordoned,
        None => State::Claimed,
    }
}

/// The version that a machine runs, and whether it is Ready; one that has not said so yet is given time.
fn machine(json: &[u8]) -> (String, bool) {
    #[derive(Deserialize, Default)]
    struct Node {
        #[serde(default)]
        status: Status,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Status {
        node_info: System,
        conditions: Vec<Condition>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct System {
        kubelet_version: String,
    }
    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
    }
    let node: Node = serde_json::from_slice(json).unwrap_or_default();
    let ready = node.status.conditions.iter().find(|condition| condition.kind == "Ready");
    (node.status.node_info.kubelet_version, ready.is_none_or(|condition| condition.status == "True"))
}

#[cfg(test)]
mod tests {
    use drover_core::decision::{Reason, Subject};
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn see(picture: &mut Picture, kind: Kind, json: Value) -> Vec<State> {
        let name = json["metadata"]["name"].as_str().unwrap().to_owned();
        let sight = Sight { at: at(0), kind, name, json: Some(json.to_string().into_bytes()) };
        picture.see(&sight).into_iter().map(|transition| transition.state).collect()
    }

    fn node(version: &str, labels: Value, cordoned: bool, ready: &str) -> Value {
        json!({
            "metadata": { "name": "n1", "resourceVersion": "1", "labels": labels },
            "spec": { "unschedulable": cordoned },
            "status": { "nodeInfo": { "kubeletVersion": version }, "conditions": [{ "type": "Ready", "status": ready }] },
        })
    }

    fn job(conditions: Value) -> Value {
        json!({ "metadata": { "name": "j", "labels": { "drover.dev/claim": "c" } }, "status": { "conditions": conditions } })
    }

    fn picture() -> Picture {
        let mut picture = Picture::of_plan("up");
        see(
            &mut picture,
            Kind::Plan,
            json!({ "metadata": { "name": "up" }, "spec": {}, "status": { "latestHash": "h" } }),
        );
        picture
    }

    #[test]
    fn a_node_goes_through_all_states_of_an_upgrade() {
        let mut picture = picture();
        let claimed = json!({ "drover.dev/claim": "c" });

        assert_eq!(see(&mut picture, Kind::Node, node("v1", json!({}), false, "True")), []);
        assert_eq!(see(&mut picture, Kind::Node, node("v1", claimed.clone(), true, "True")), [State::Cordoned]);
        assert_eq!(see(&mut picture, Kind::Job, job(json!([]))), [State::JobRunning]);
        assert_eq!(see(&mut picture, Kind::Node, node("v2", claimed.clone(), true, "False")), [State::NotReady]);
        assert_eq!(see(&mut picture, Kind::Job, job(json!([{ "type": "Complete", "status": "True" }]))), []);
        assert_eq!(see(&mut picture, Kind::Node, node("v2", claimed, true, "True")), [State::JobComplete]);
        let released = node("v2", json!({ "plan.upgrade.cattle.io/up": "h" }), false, "True");
        assert_eq!(see(&mut picture, Kind::Node, released), [State::Upgraded]);

        assert_eq!(picture.nodes["n1"].version, "v2");
        assert_eq!(picture.upgraded(), 1);
    }

    #[test]
    fn a_failed_job_shows_on_its_node() {
        let mut picture = picture();
        see(&mut picture, Kind::Node, node("v1", json!({ "drover.dev/claim": "c" }), false, "True"));
        assert_eq!(
            see(&mut picture, Kind::Job, job(json!([{ "type": "Failed", "status": "True" }]))),
            [State::JobFailed]
        );
    }

    #[test]
    fn the_result_of_an_earlier_version_does_not_count_as_upgraded() {
        let mut picture = picture();
        see(&mut picture, Kind::Node, node("v1", json!({ "plan.upgrade.cattle.io/up": "old" }), false, "True"));
        assert_eq!(picture.nodes["n1"].state, State::Waiting);
    }

    #[test]
    fn a_wait_lasts_until_it_is_no_longer_reported() {
        let mut picture = picture();
        let wait = Wait::new(Subject::node("n1"), Reason::JobRunning, "it runs", at(1));

        assert_eq!(picture.hear(at(1), std::slice::from_ref(&wait)).len(), 1);
        assert_eq!(picture.hear(at(2), std::slice::from_ref(&wait)).len(), 0);
        let reworded = Wait { sentence: "it still runs".to_owned(), ..wait };
        assert_eq!(picture.hear(at(3), std::slice::from_ref(&reworded)), [reworded]);
        assert_eq!(picture.open_waits().count(), 1);
        picture.hear(at(5), &[]);
        assert_eq!(picture.open_waits().count(), 0);
        assert_eq!(picture.waits[0].until, Some(at(5)));
    }
}
