//! Decisions as sentences. A test states a cluster, and compares what is decided for it.

mod between;
mod channels;
mod failures;
mod pace;
mod statuses;
mod way;

use std::collections::{BTreeMap, BTreeSet};

use drover_api::plan::{PlanStatus, conditions};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::hash::LatestHash;
use super::job::JobSettings;
use super::{GateSeen, Heard, Target, Trouble, View, decide, undo_orphaned_marks};
use crate::claims::Claims;
use crate::decision::{Act, Decision, Kind, Purpose, Reason, Wait};
use crate::seen::{JobSeen, NodeSeen, PlanSeen, PodSeen, SecretSeen, Seen};

const ME: &str = "operator-1";

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A cluster that tests change by name.
#[derive(Clone)]
struct Cluster {
    plan: Value,
    nodes: BTreeMap<String, Value>,
    jobs: Vec<Value>,
    pods: Vec<Value>,
    secrets: Vec<Value>,
    /// Secrets that are there and must not be read.
    unread: Vec<&'static str>,
    trouble: Vec<Trouble>,
    status_written: Option<Timestamp>,
    /// Other Plans of the namespace.
    others: Vec<Value>,
    claiming: BTreeSet<String>,
    heard: Option<Heard>,
    settings: JobSettings,
    gates: BTreeMap<Target, GateSeen>,
}

/// Three Ready nodes, none upgraded; a valid Plan to v2, one node at a time, with a cordon. This operator holds the
/// epoch, and the status has been published.
fn three_nodes() -> Cluster {
    let node = |name: &str| {
        json!({
            "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "10",
                          "labels": { "kubernetes.io/hostname": format!("host-{name}"), "pool": "a" } },
            "spec": {},
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "nodeInfo": { "bootID": "boot-1" } },
        })
    };
    let plan = json!({
        "metadata": { "name": "up", "namespace": "system-upgrade", "uid": "uid-up", "resourceVersion": "20", "annotations": {} },
        "spec": { "concurrency": 1, "cordon": true, "version": "v2",
                  "nodeSelector": { "matchLabels": { "pool": "a" } }, "upgrade": { "image": "img" } },
    });
    let cluster = Cluster {
        plan,
        nodes: ["n1", "n2", "n3"].iter().map(|name| ((*name).to_owned(), node(name))).collect(),
        jobs: Vec::new(),
        pods: Vec::new(),
        secrets: Vec::new(),
        unread: Vec::new(),
        trouble: Vec::new(),
        status_written: None,
        others: Vec::new(),
        claiming: BTreeSet::new(),
        heard: None,
        settings: JobSettings::default(),
        gates: BTreeMap::new(),
    };
    cluster.held_by(ME)
}

impl Cluster {
    fn held_by(mut self, holder: &str) -> Self {
        let mut claims = self.claims();
        (claims.epoch, claims.holder) = (1, holder.to_owned());
        self.plan["metadata"]["annotations"]["drover.dev/claims"] = json!(claims.write());
        self
    }

    fn claims(&self) -> Claims {
        Claims::read(self.plan["metadata"]["annotations"]["drover.dev/claims"].as_str())
    }

    /// An annotation of the Plan.
    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.plan["metadata"]["annotations"][key] = json!(value);
        self
    }

    fn spec(mut self, field: &str, value: Value) -> Self {
        self.plan["spec"][field] = value;
        self
    }

    /// The node stands in the Plan's claims.
    fn claimed(mut self, node: &str) -> Self {
        let mut claims = self.claims();
        let claim = json!({ "id": format!("claim-{node}"), "owner": "uid-up", "since": "2026-01-01T11:00:00Z" });
        claims.nodes.insert(node.to_owned(), serde_json::from_value(claim).unwrap());
        self.plan["metadata"]["annotations"]["drover.dev/claims"] = json!(claims.write());
        self
    }

    /// The node is claimed, marked and cordoned by us.
    fn taken(self, node: &str) -> Self {
        let mut cluster = self.claimed(node).marked(node, "uid-up", true);
        cluster.nodes.get_mut(node).unwrap()["spec"] = json!({ "unschedulable": true });
        cluster
    }

    fn marked(mut self, node: &str, owner: &str, cordoned: bool) -> Self {
        let object = self.nodes.get_mut(node).unwrap();
        object["metadata"]["labels"]["drover.dev/claim"] = json!(format!("claim-{node}"));
        let owner = json!({ "kind": "Plan", "namespace": "system-upgrade", "name": "up", "uid": owner });
        let mark = json!({ "owner": owner, "cordoned": cordoned });
        object["metadata"]["annotations"] = json!({ "drover.dev/claim": mark.to_string() });
        self
    }

    fn job_end_noted(mut self, node: &str, boot: &str) -> Self {
        let annotation = &mut self.nodes.get_mut(node).unwrap()["metadata"]["annotations"]["drover.dev/claim"];
        let mut mark: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
        mark["done"] = json!({
            "hash": hash(), "version": "v2", "boot": boot,
            "began": "2026-01-01T11:50:00Z", "ended": "2026-01-01T11:55:00Z",
        });
        *annotation = json!(mark.to_string());
        self
    }

    fn label(mut self, node: &str, key: &str, value: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["metadata"]["labels"][key] = json!(value);
        self
    }

    fn updated(self, node: &str) -> Self {
        let hash = hash();
        self.label(node, "plan.upgrade.cattle.io/up", &hash)
    }

    fn cordoned_by_somebody(mut self, node: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["spec"] = json!({ "unschedulable": true });
        self
    }

    fn tainted(mut self, node: &str, taints: &[&Value]) -> Self {
        self.nodes.get_mut(node).unwrap()["spec"]["taints"] = json!(taints);
        self
    }

    fn not_ready(mut self, node: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["status"]["conditions"][0]["status"] = json!("Unknown");
        self
    }

    fn rebooted(mut self, node: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["status"]["nodeInfo"]["bootID"] = json!("boot-2");
        self
    }

    /// A Job of the current version and hash under the claim `claim-<node>`.
    fn job(self, node: &str, condition: &str) -> Self {
        let claim = format!("claim-{node}");
        self.job_under(Some(&claim), node, "v2", condition)
    }

    fn job_under(mut self, claim: Option<&str>, node: &str, version: &str, condition: &str) -> Self {
        let mut labels = json!({
            "upgrade.cattle.io/plan": "up", "upgrade.cattle.io/node": node, "upgrade.cattle.io/version": version,
            "plan.upgrade.cattle.io/up": if version == "v2" { hash() } else { format!("hash-of-{version}") },
        });
        if let Some(claim) = claim {
            labels["drover.dev/claim"] = json!(claim);
        }
        let conditions = match condition {
            "" => json!([]),
            kind => {
                json!([{ "type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "too often",
                         "lastTransitionTime": "2026-01-01T11:55:00Z" }])
            }
        };
        let name = super::names::job(
            "up",
            node,
            false,
            &LatestHash::of_test(labels["plan.upgrade.cattle.io/up"].as_str().unwrap()),
        );
        self.jobs.push(json!({
            "metadata": { "name": name, "namespace": "system-upgrade", "uid": format!("uid-job-{node}-{version}"),
                          "resourceVersion": "30", "labels": labels,
                          "annotations": { "drover.dev/template": self.template(version) } },
            "spec": { "ttlSecondsAfterFinished": 900 },
            "status": { "conditions": conditions, "startTime": "2026-01-01T11:50:00Z" },
        }));
        if condition == "Complete" {
            self.jobs.last_mut().unwrap()["status"]["completionTime"] = json!("2026-01-01T11:55:00Z");
        }
        self
    }

    /// Writes the annotation of a Node.
    fn node_annotation(mut self, node: &str, key: &str, value: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// What the decision's patches and deletes leave, as the API server would merge them.
    fn after(mut self, decision: &Decision) -> Self {
        for write in decision.writes() {
            match (&write.act, write.subject.kind) {
                (Act::Patch(patch), Kind::Node) => merge(self.nodes.get_mut(&write.subject.name).unwrap(), patch),
                (Act::Patch(patch), Kind::Plan) => merge(&mut self.plan, patch),
                (Act::Delete { uid }, Kind::Job) => self.jobs.retain(|job| job["metadata"]["uid"] != uid.as_str()),
                _ => {}
            }
        }
        self
    }

    /// What the Plan asks for now.
    fn template(&self, version: &str) -> String {
        match Seen::decode(Kind::Plan, self.plan.to_string().as_bytes()).unwrap().unwrap() {
            Seen::Plan(plan) => plan.spec.map(|spec| super::job::template(&spec, version)).unwrap_or_default(),
            _ => unreachable!(),
        }
    }

    fn published(mut self) -> Self {
        for _ in 0..2 {
            let decision = self.decide();
            let status = decision.writes().find_map(|write| match &write.act {
                Act::PatchStatus(patch) => Some(patch["status"].clone()),
                _ => None,
            });
            if let Some(mut status) = status {
                status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                self.plan["status"] = status;
            }
        }
        self
    }

    fn decide(&self) -> Decision {
        self.decide_at(noon())
    }

    fn decide_at(&self, now: Timestamp) -> Decision {
        self.view(|view| decide(view, now))
    }

    fn view<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        let decode = |kind: Kind, json: &Value| Seen::decode(kind, json.to_string().as_bytes()).unwrap().unwrap();
        let plan: PlanSeen = match decode(Kind::Plan, &self.plan) {
            Seen::Plan(plan) => *plan,
            _ => unreachable!(),
        };
        let nodes: BTreeMap<String, NodeSeen> = self
            .nodes
            .iter()
            .map(|(name, json)| match decode(Kind::Node, json) {
                Seen::Node(node) => (name.clone(), node),
                _ => unreachable!(),
            })
            .collect();
        let jobs: Vec<JobSeen> = self
            .jobs
            .iter()
            .map(|json| match decode(Kind::Job, json) {
                Seen::Job(job) => job,
                _ => unreachable!(),
            })
            .collect();
        let read = self.secrets.iter().map(|json| match decode(Kind::Secret, json) {
            Seen::Secret(secret) => secret,
            _ => unreachable!(),
        });
        let unread = self.unread.iter().map(|name| SecretSeen::unread(name));
        let secrets: BTreeMap<String, SecretSeen> =
            read.chain(unread).map(|secret| (secret.meta.name.clone(), secret)).collect();
        let pods: Vec<PodSeen> = self
            .pods
            .iter()
            .map(|json| match decode(Kind::Pod, json) {
                Seen::Pod(pod) => pod,
                _ => unreachable!(),
            })
            .collect();
        let mut plans: BTreeMap<String, PlanSeen> = BTreeMap::new();
        for json in self.others.iter().chain([&self.plan]) {
            if let Seen::Plan(plan) = decode(Kind::Plan, json) {
                plans.insert(plan.meta.name.clone(), *plan);
            }
        }
        let channels = self.heard.iter().map(|heard| ("up".to_owned(), heard.clone())).collect();
        look(&View {
            me: ME,
            plan: &plan,
            nodes: &nodes,
            jobs: jobs.iter().collect(),
            pods: pods.iter().collect(),
            secrets: &secrets,
            settings: &self.settings,
            plans: &plans,
            claiming: self.claiming.clone(),
            channels: &channels,
            gates: &self.gates,
            poll_interval: SignedDuration::from_mins(15),
            status_written: self.status_written,
            trouble: self.trouble.clone(),
        })
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// Only the version counts: no service account, no digest, no Secrets.
fn hash() -> String {
    sha2::Sha224::digest("v2").iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is done to nodes and Jobs: purpose and object.
fn acts(decision: &Decision) -> Vec<(Purpose, String)> {
    let told = [Purpose::PublishStatus, Purpose::Announce];
    let acts = decision.writes().filter(|write| !told.contains(&write.purpose));
    acts.map(|write| (write.purpose, write.subject.name.clone())).collect()
}

fn purposes(decision: &Decision) -> Vec<Purpose> {
    acts(decision).into_iter().map(|(purpose, _)| purpose).collect()
}

/// The reasons of the Events.
fn told(decision: &Decision) -> Vec<String> {
    let events = decision.writes().filter(|write| write.purpose == Purpose::Announce);
    events
        .map(|write| match &write.act {
            Act::Create(event) => event["reason"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn patch(decision: &Decision, purpose: Purpose) -> Value {
    let write = decision.writes().find(|write| write.purpose == purpose).expect("the write");
    match &write.act {
        Act::Patch(patch) | Act::PatchStatus(patch) => patch.clone(),
        other => panic!("{other:?} is no patch"),
    }
}

fn claimed_nodes(decision: &Decision) -> Vec<String> {
    let text = patch(decision, Purpose::ClaimNodes)["metadata"]["annotations"]["drover.dev/claims"].clone();
    Claims::read(text.as_str()).nodes.into_keys().collect()
}

fn reasons(decision: &Decision) -> Vec<Reason> {
    decision.waits.iter().map(|wait| wait.reason).collect()
}

fn new_status(decision: &Decision) -> PlanStatus {
    let mut status = patch(decision, Purpose::PublishStatus)["status"].clone();
    status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    serde_json::from_value(status).unwrap()
}

fn condition(status: &PlanStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).expect("the condition");
    (found.status.clone(), found.reason.clone(), found.message.clone())
}
