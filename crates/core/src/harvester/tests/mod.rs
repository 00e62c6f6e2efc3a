//! Upgrades of small clusters, decided on without a server: what is decided is written into a map of objects, and the next
//! decision rests on that.

mod abort;
mod around;
mod bad_input;
mod meanwhile;
mod pausing;
mod planner;
mod quorum;
mod skip;
mod stock;
mod stories;
mod way;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::admission::{User, Verdict, upgrade_log};
use super::{Admission, Fetched, Release, Served, Settings, View, decide};
use crate::cluster::Cluster;
use crate::decision::{Act, Decision, Purpose, Reason, Wait, Write};
use crate::plan::Trouble;

const NOON: &str = "2026-01-01T12:00:00Z";
const U: &str = "hvst-upgrade-9gmg2";
const TOKEN: &str = "{\"enabled\":true}";

type Key = (String, String, String);

/// A cluster as JSON, and what its repository answers.
#[derive(Clone)]
struct Ground {
    objects: BTreeMap<Key, Value>,
    version: u64,
    served: Option<Served>,
    /// Why nobody can read what the repository answers.
    garbled: Option<&'static str>,
    verdict: Option<Verdict>,
    last: Decision,
    /// When this process last wrote the status.
    status_written: Option<&'static str>,
    /// When the repository was asked, and whether it is being asked again.
    asked: (&'static str, bool),
    /// What the operator met.
    trouble: Vec<Trouble>,
    now: Timestamp,
    /// What was waited for in the last decision.
    told: Vec<Wait>,
    /// All that was written, a line each.
    written: String,
}

fn release() -> Served {
    let release = Release {
        harvester: "v1.8.0".into(),
        harvester_chart: "1.8.0".into(),
        os: "Harvester v1.8.0".into(),
        kubernetes: "v1.34.1+rke2r1".into(),
        drover: Some(json!({})),
        ..Release::default()
    };
    Served { release, ..Served::default() }
}

/// A release that brings its own steps.
fn stock_release() -> Served {
    let version = || "1.0.0".to_owned();
    let both = json!({ "chart": "1.0.0", "app": "1.0.0" });
    let release = Release {
        rancher: version(),
        monitoring_chart: version(),
        logging_chart: version(),
        logging_chart_harvester_event_router: version(),
        rancher_dependencies: json!({ "fleet": both, "fleet-crd": both, "rancher-webhook": both }),
        kubevirt: version(),
        drover: None,
        ..release().release
    };
    let images = Some("docker.io/rancher/harvester-upgrade:v1.8.0".to_owned());
    Served { release, images, ..Served::default() }
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "harvesterhci.io/managed": "true", "kubernetes.io/hostname": name } },
        "spec": {},
        "status": {
            "nodeInfo": { "kubeletVersion": "v1.33.5+rke2r1", "osImage": "Harvester v1.7.0" },
            "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" },
            ],
        },
    })
}

impl Ground {
    /// So many servers, an Upgrade to v1.8.0, and nothing that speaks against it.
    fn of(nodes: usize) -> Self {
        let mut ground = Ground {
            objects: BTreeMap::new(),
            version: 0,
            served: None,
            garbled: None,
            verdict: None,
            status_written: None,
            asked: (NOON, false),
            trouble: Vec::new(),
            now: NOON.parse().unwrap(),
            told: Vec::new(),
            written: String::new(),
            last: Decision::default(),
        };
        for number in 1..=nodes {
            let (name, machine) = (format!("node-{number}"), format!("custom-{number}"));
            ground.put(node(&name));
            ground.put(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                "metadata": { "name": machine, "namespace": "fleet-local" }, "status": { "nodeRef": { "name": name } },
            }));
            ground.put(json!({
                "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
                "metadata": {
                    "name": format!("{machine}-machine-plan"), "namespace": "fleet-local",
                    "labels": { "rke.cattle.io/machine-name": machine },
                },
            }));
        }
        ground.put(json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": { "name": "local", "namespace": "fleet-local" },
            "spec": { "kubernetesVersion": "v1.33.5+rke2r1", "rkeConfig": { "provisionGeneration": 4 } },
        }));
        ground.put(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": { "name": "local", "namespace": "fleet-local" }, "status": { "phase": "Provisioned" },
        }));
        ground.put(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
            "metadata": { "name": "server-version" }, "value": "v1.7.0",
        }));
        ground.put(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Version",
            "metadata": { "name": "v1.8.0", "namespace": "harvester-system" }, "spec": { "isoURL": "http://example.com/iso" },
        }));
        ground.put(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
            "metadata": { "name": U, "namespace": "harvester-system" }, "spec": { "version": "v1.8.0", "logEnabled": false },
        }));
        ground
    }

    fn configured(nodes: usize, config: Value) -> Self {
        let mut ground = Ground::of(nodes);
        ground.put(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
            "metadata": { "name": "upgrade-config" }, "value": config.to_string(),
        }));
        ground
    }

    fn put(&mut self, mut object: Value) {
        self.version += 1;
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let metadata = object["metadata"].clone();
        // Two products have a Cluster.
        let is_capi = object["apiVersion"] == "cluster.x-k8s.io/v1beta1" && object["kind"] == "Cluster";
        let kind = if is_capi { "CapiCluster".to_owned() } else { text(&object["kind"]) };
        let key = (kind, text(&metadata["namespace"]), text(&metadata["name"]));
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if metadata["uid"].is_null() {
            // A Job that is made again is another one.
            let again = if key.0 == "Job" { format!("-{}", self.version) } else { String::new() };
            object["metadata"]["uid"] = json!(format!("uid-{}{again}", key.2));
        }
        self.objects.insert(key, object);
    }

    fn get(&self, kind: &str, namespace: &str, name: &str) -> &Value {
        static NONE: Value = Value::Null;
        self.objects.get(&(kind.to_owned(), namespace.to_owned(), name.to_owned())).unwrap_or(&NONE)
    }

    fn change(&mut self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let mut object = self.get(kind, namespace, name).clone();
        assert!(object.is_object(), "there is no {kind} {namespace}/{name}");
        merge(&mut object, patch);
        self.put(object);
    }

    fn upgrade(&self) -> &Value {
        self.get("Upgrade", "harvester-system", U)
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::new(NOON.parse().unwrap());
        self.objects.values().for_each(|object| cluster.take(object.to_string().as_bytes()));
        cluster
    }

    fn decide(&mut self) -> Decision {
        self.decide_for(U)
    }

    fn decide_for(&mut self, name: &str) -> Decision {
        let cluster = self.cluster();
        let answer = |served: Served| self.garbled.map_or(Ok(served), |why| Err(why.to_owned()));
        let fetched = self.served.clone().map(|served| Fetched {
            at: self.asked.0.parse().unwrap(),
            pending: self.asked.1,
            answer: answer(served),
        });
        let settings = Settings { image: "drover".to_owned() };
        let upgrade = cluster.harvester.upgrades.get("harvester-system", name).unwrap();
        let view = View {
            cluster: &cluster,
            upgrade,
            settings: &settings,
            repository: fetched.as_ref(),
            admission: match &self.verdict {
                Some(verdict) => Admission::Judged { at: NOON.parse().unwrap(), verdict },
                None => Admission::Waived,
            },
            status_written: self.status_written.map(|at| at.parse().unwrap()),
            trouble: self.trouble.clone(),
            told: &self.told,
        };
        let decision = decide(&view, self.now);
        self.last = decision.clone();
        self.told.clone_from(&decision.waits);
        decision
    }

    /// Time passes, and everything is looked at again.
    fn pass(&mut self, minutes: i64) {
        self.now = self.now.checked_add(SignedDuration::from_mins(minutes)).unwrap();
        self.settle();
    }

    /// Type and message of the Events of a reason.
    fn events(&self, reason: &str) -> Vec<(String, String)> {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let own = self.objects.values().filter(|object| object["kind"] == "Event" && object["reason"] == reason);
        own.map(|event| (text(&event["type"]), text(&event["message"]))).collect()
    }

    /// Decides and writes until nothing is left to be written.
    fn settle(&mut self) {
        for _ in 0..30 {
            let decision = self.decide();
            let mut writes: Vec<Write> = decision.writes().cloned().collect();
            writes.retain(|write| !self.was_told(write));
            if writes.is_empty() {
                return;
            }
            writes.iter().for_each(|write| self.carry_out(write));
        }
        panic!("it does not come to rest: {:#?}", self.last);
    }

    /// The first that changes something; Events go before it.
    fn first_write(&mut self) -> Write {
        self.decide().writes().find(|write| write.purpose != Purpose::Announce).cloned().unwrap()
    }

    /// An Event of this name is there.
    fn was_told(&self, write: &Write) -> bool {
        let key = ("Event".to_owned(), write.subject.namespace.clone(), write.subject.name.clone());
        write.purpose == Purpose::Announce && self.objects.contains_key(&key)
    }

    fn carry_out(&mut self, write: &Write) {
        self.written.push_str(&stories::line(write));
        let subject = &write.subject;
        let (kind, namespace, name) = (format!("{:?}", subject.kind), subject.namespace.clone(), subject.name.clone());
        match &write.act {
            Act::Create(object) => {
                if kind == "UpgradeLog" {
                    self.admit_log(object);
                }
                self.put(object.clone());
            }
            Act::Patch(patch) | Act::PatchStatus(patch) => {
                let mut patch = patch.clone();
                patch["metadata"]["resourceVersion"] = json!("0");
                self.change(&kind, &namespace, &name, &patch);
                if kind == "Upgrade" {
                    self.admit_map(&name);
                }
            }
            Act::Delete { .. } if kind == "Deployment" => {
                self.admit_no_repository(&name);
                self.objects.remove(&(kind, namespace, name));
            }
            Act::Delete { .. } => drop(self.objects.remove(&(kind, namespace, name))),
            Act::Call { .. } => {}
        }
    }

    /// As the webhooks do, Harvester's and Drover's: one that they refuse would hold up its Upgrade for ever.
    fn admit_log(&self, log: &Value) {
        let (log, user) = (serde_json::from_value(log.clone()).unwrap(), User { is_controller: true });
        assert_eq!(upgrade_log(&log, &user, &self.cluster()).message(), "");
    }

    /// As Harvester's webhook does with whatever is written on an Upgrade.
    fn admit_map(&self, upgrade: &str) {
        let upgrade = self.get("Upgrade", "harvester-system", upgrade);
        let text = upgrade["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause-map"].as_str();
        let map: Value = text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_default());
        for node in map.as_object().into_iter().flatten().map(|(node, _)| node) {
            assert!(self.get("Node", "", node).is_object(), "node {node} does not exist");
        }
    }

    /// As Harvester's webhook does, for which Drover is not Harvester.
    fn admit_no_repository(&self, name: &str) {
        let upgrade = self.get("Upgrade", "harvester-system", name.trim_start_matches("upgrade-repo-"));
        let conditions = upgrade["status"]["conditions"].as_array().into_iter().flatten();
        let ended = conditions.filter(|said| said["type"] == "Completed").any(|said| said["status"] != "Unknown");
        assert!(ended, "cannot delete deployment harvester-system/{name}: its upgrade is still in progress");
    }

    fn condition(&self, kind: &str) -> (String, String, String) {
        let all = self.upgrade()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    fn label(&self, name: &str) -> &str {
        self.upgrade()["metadata"]["labels"][format!("harvesterhci.io/{name}")].as_str().unwrap_or_default()
    }

    fn node_state(&self, node: &str) -> &str {
        self.upgrade()["status"]["nodeStatuses"][node]["state"].as_str().unwrap_or_default()
    }

    fn reasons(&self) -> Vec<Reason> {
        self.last.waits.iter().map(|wait| wait.reason).collect()
    }

    fn import(&mut self) {
        let done = json!({ "status": { "conditions": [{ "type": "Imported", "status": "True" }] } });
        self.change("VirtualMachineImage", "harvester-system", U, &done);
    }

    fn serve(&mut self) {
        let up = json!({ "status": { "availableReplicas": 1 } });
        self.change("Deployment", "harvester-system", &format!("upgrade-repo-{U}"), &up);
        self.served = Some(release());
    }

    fn preload(&mut self) {
        self.run_plan("prepare");
    }

    /// A Plan of the Upgrade runs on every node.
    fn run_plan(&mut self, suffix: &str) {
        let plan = format!("{U}-{suffix}");
        self.change("Plan", "cattle-system", &plan, &json!({ "status": { "latestHash": "h1" } }));
        let names: Vec<String> = self.objects.keys().filter(|key| key.0 == "Node").map(|key| key.2.clone()).collect();
        for name in names {
            let label = json!({ "metadata": { "labels": { format!("plan.upgrade.cattle.io/{plan}"): "h1" } } });
            self.change("Node", "", &name, &label);
        }
    }

    fn finish(&mut self, job: &str) {
        let done = json!({ "status": { "conditions": [{ "type": "Complete", "status": "True" }] } });
        self.change("Job", "harvester-system", &format!("{U}-{job}"), &done);
    }

    /// Up to the moment at which the planner may ask for nodes.
    fn until_nodes(self) -> Self {
        let mut ground = self.until_services();
        ground.finish("apply-manifests");
        ground.settle();
        ground
    }

    /// Up to the moment at which a Job raises the system services.
    fn until_services(mut self) -> Self {
        self.settle();
        self.import();
        self.settle();
        self.serve();
        self.settle();
        if self.get("Plan", "cattle-system", &format!("{U}-prepare")).is_object() {
            self.preload();
            self.settle();
        }
        self
    }

    /// The planner asks by an annotation.
    fn asks(&mut self, number: usize, key: &str) {
        let patch = json!({ "metadata": { "annotations": { format!("rke.cattle.io/{key}"): TOKEN } } });
        self.change("Secret", "fleet-local", &format!("custom-{number}-machine-plan"), &patch);
    }

    /// The planner begins with a node: it is cordoned, and asked about.
    fn begins_with(&mut self, number: usize) {
        self.change("Node", "", &format!("node-{number}"), &json!({ "spec": { "unschedulable": true } }));
        self.asks(number, "drain-options");
        self.asks(number, "pre-drain");
        self.settle();
    }

    /// The planner has drained a node, raised Kubernetes there, and asks again.
    fn raises(&mut self, number: usize) {
        self.restart_kubelet(number);
        for key in ["drain-done", "uncordon", "post-drain"] {
            self.asks(number, key);
        }
        self.settle();
    }

    fn restart_kubelet(&mut self, number: usize) {
        let new = json!({ "status": { "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1" } } });
        self.change("Node", "", &format!("node-{number}"), &new);
    }

    fn fail(&mut self, job: &str) {
        let failed = json!({ "status": { "conditions": [
            { "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it did not work" },
        ] } });
        self.change("Job", "harvester-system", &format!("{U}-{job}"), &failed);
        self.settle();
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "annotations": { key: value } } }));
        self.settle();
    }

    fn plan_of(&self, number: usize) -> &Value {
        self.get("Secret", "fleet-local", &format!("custom-{number}-machine-plan"))
    }

    fn answer(&self, number: usize, hook: &str) -> &Value {
        let secret = self.get("Secret", "fleet-local", &format!("custom-{number}-machine-plan"));
        &secret["metadata"]["annotations"][format!("harvesterhci.io/{hook}")]
    }

    fn has_job(&self, job: &str) -> bool {
        self.get("Job", "harvester-system", &format!("{U}-{job}")).is_object()
    }

    fn reboot(&mut self, number: usize) {
        let new =
            json!({ "status": { "nodeInfo": { "osImage": "Harvester v1.8.0", "kubeletVersion": "v1.34.1+rke2r1" } } });
        self.change("Node", "", &format!("node-{number}"), &new);
    }

    /// A node from the planner's first question to its last.
    fn bring_over(&mut self, number: usize) {
        self.asks(number, "pre-drain");
        self.settle();
        self.finish(&format!("pre-drain-node-{number}"));
        self.settle();
        self.restart_kubelet(number);
        self.asks(number, "post-drain");
        self.settle();
        self.finish(&format!("post-drain-node-{number}"));
        self.settle();
        self.reboot(number);
        self.settle();
    }

    /// The planner is done with a node and takes its questions back.
    fn gives_back(&mut self, number: usize) {
        let mut none = serde_json::Map::new();
        for key in [
            "rke.cattle.io/drain-options",
            "rke.cattle.io/pre-drain",
            "rke.cattle.io/drain-done",
            "rke.cattle.io/uncordon",
            "rke.cattle.io/post-drain",
            "harvesterhci.io/pre-hook",
            "harvesterhci.io/post-hook",
        ] {
            none.insert(key.to_owned(), Value::Null);
        }
        let patch = json!({ "metadata": { "annotations": none } });
        self.change("Secret", "fleet-local", &format!("custom-{number}-machine-plan"), &patch);
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        let fields = target.as_object_mut().unwrap();
        match value {
            Value::Null => drop(fields.remove(key)),
            value => merge(fields.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}
