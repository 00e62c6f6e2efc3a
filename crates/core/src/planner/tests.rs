use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::seen::checksum;
use super::*;

mod executor;
mod stories;

const FROM: &str = "v1.33.5+rke2r1";
const TO: &str = "v1.34.1+rke2r1";

/// A cluster in memory: writes are applied as an API server would.
#[derive(Default)]
struct World {
    cluster: Value,
    plane: Value,
    capi: Value,
    machines: BTreeMap<String, Value>,
    secrets: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    drains: BTreeMap<String, Drained>,
    version: u64,
    purposes: Vec<String>,
}

fn encoded(text: &str) -> Value {
    plan::data(&[("x", text)])["x"].clone()
}

fn plan_of(version: &str) -> String {
    json!({
        "files": [], "probes": { "kubelet": {} },
        "instructions": [{ "name": "install", "image": format!("rancher/rke2:{}", version.replace('+', "-")), "env": ["RESTART_STAMP=a"] }],
    })
    .to_string()
}

impl World {
    fn new(roles: &[&str], options: Value) -> Self {
        let strategy = json!({ "controlPlaneDrainOptions": options, "workerDrainOptions": options });
        let spec = json!({ "kubernetesVersion": FROM, "rkeConfig": { "provisionGeneration": 1, "upgradeStrategy": strategy } });
        let meta =
            |name: &str| json!({ "name": name, "namespace": "fleet-local", "uid": name, "resourceVersion": "1" });
        let mut world = World {
            cluster: json!({ "metadata": meta("local"), "spec": spec }),
            plane: json!({ "metadata": meta("local"), "spec": {} }),
            capi: json!({ "metadata": meta("local"), "spec": {} }),
            version: 1,
            ..World::default()
        };
        for (at, roles) in roles.iter().enumerate() {
            let (machine, node) = (format!("custom-{}", at + 1), format!("node-{}", at + 1));
            let mut labels = json!({ "rke.cattle.io/machine-name": machine });
            for (letter, role) in [('e', "etcd"), ('c', "control-plane"), ('w', "worker")] {
                if roles.contains(letter) {
                    labels[format!("rke.cattle.io/{role}-role")] = json!("true");
                }
            }
            let mut metadata = meta(&format!("{machine}-machine-plan"));
            metadata["labels"] = labels;
            let plan = plan_of(FROM);
            let data = json!({
                "plan": encoded(&plan), "appliedPlan": encoded(&plan), "applied-checksum": encoded(&checksum(&plan)),
                "probe-statuses": encoded(r#"{"kubelet":{"healthy":true}}"#),
            });
            world.secrets.insert(format!("{machine}-machine-plan"), json!({ "metadata": metadata, "data": data }));
            let status = json!({ "nodeRef": { "name": node } });
            world.machines.insert(machine.clone(), json!({ "metadata": meta(&machine), "status": status }));
            let mut conditions = vec![json!({ "type": "Ready", "status": "True" })];
            if roles.contains('e') {
                conditions.push(json!({ "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" }));
            }
            let status = json!({ "nodeInfo": { "kubeletVersion": FROM }, "conditions": conditions });
            world.nodes.insert(node.clone(), json!({ "metadata": meta(&node), "spec": {}, "status": status }));
        }
        world
    }

    fn ask(&mut self, version: &str) {
        let generation = self.cluster["spec"]["rkeConfig"]["provisionGeneration"].as_i64().unwrap();
        self.cluster["spec"]["kubernetesVersion"] = json!(version);
        self.cluster["spec"]["rkeConfig"]["provisionGeneration"] = json!(generation + 1);
    }

    fn decide(&self) -> Decision {
        fn typed<T: serde::de::DeserializeOwned>(objects: &BTreeMap<String, Value>) -> BTreeMap<String, T> {
            let read =
                |(name, object): (&String, &Value)| (name.clone(), serde_json::from_value(object.clone()).unwrap());
            objects.iter().map(read).collect()
        }
        let (cluster, plane) = (
            serde_json::from_value(self.cluster.clone()).unwrap(),
            serde_json::from_value(self.plane.clone()).unwrap(),
        );
        let capi = serde_json::from_value(self.capi.clone()).unwrap();
        let (machines, secrets, nodes) = (typed(&self.machines), typed(&self.secrets), typed(&self.nodes));
        let (jobs, pods) = (typed(&self.jobs), typed(&self.pods));
        let view = View {
            identity: "me",
            cluster: &cluster,
            control_plane: &plane,
            capi: Some(&capi),
            machines: &machines,
            secrets: &secrets,
            nodes: &nodes,
            jobs: &jobs,
            pods: &pods,
            image: "drover",
            drains: &self.drains,
        };
        decide(&view, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    /// Decides and writes until nothing is written any more; says what is waited for then.
    fn settle(&mut self) -> Option<String> {
        for _ in 0..200 {
            let decision = self.decide();
            for node in decision.drains.keys() {
                let token = decision.drains[node].token.clone();
                self.drains.entry(node.clone()).or_insert(Drained { token, result: None });
            }
            if decision.writes.is_empty() {
                return decision.waits_for;
            }
            decision.writes.iter().for_each(|write| self.write(write));
        }
        panic!("it does not settle: {:?}", self.purposes);
    }

    fn write(&mut self, write: &Write) {
        if write.purpose != Purpose::PublishStatus {
            self.purposes.push(format!("{:?}", write.purpose));
        }
        let patch = match (&write.act, &write.target) {
            (Act::Patch(patch), _) => patch,
            (Act::Create(object), Target::Job(name)) => {
                let mut object = object.clone();
                self.version += 1;
                object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
                self.jobs.insert(name.clone(), object);
                return;
            }
            (Act::Delete { uid }, Target::Job(name)) => {
                assert_eq!(self.jobs.remove(name).unwrap()["metadata"]["uid"], json!(uid));
                return;
            }
            other => panic!("{other:?}"),
        };
        let object = match &write.target {
            Target::Secret(name) => self.secrets.get_mut(name).unwrap(),
            Target::Node(name) => self.nodes.get_mut(name).unwrap(),
            Target::Job(name) => self.jobs.get_mut(name).unwrap(),
            Target::ControlPlane | Target::ControlPlaneStatus => &mut self.plane,
            Target::ClusterStatus => &mut self.cluster,
            Target::CapiClusterStatus => &mut self.capi,
        };
        // One that was decided on an older version is refused, and decided anew.
        if object["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"] {
            return;
        }
        merge(object, patch);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    fn secret(&mut self, at: usize) -> &mut Value {
        self.secrets.get_mut(&format!("custom-{at}-machine-plan")).unwrap()
    }

    fn note(&mut self, at: usize, key: &str) -> Option<String> {
        self.secret(at)["metadata"]["annotations"][key].as_str().map(str::to_owned)
    }

    fn set_note(&mut self, at: usize, key: &str, value: &str) {
        self.secret(at)["metadata"]["annotations"][key] = json!(value);
    }

    fn drained(&mut self, node: &str) {
        self.drains.get_mut(node).unwrap().result = Some(Ok(()));
    }

    /// The agent carries out the plan, and its probes are well.
    fn applied(&mut self, at: usize) {
        let seen: SecretSeen = serde_json::from_value(self.secret(at).clone()).unwrap();
        let plan = seen.datum("plan").unwrap();
        let version = plan::version(&plan).unwrap();
        self.secret(at)["data"]["applied-checksum"] = encoded(&checksum(&plan));
        self.secret(at)["data"]["probe-statuses"] = encoded(r#"{"kubelet":{"healthy":true}}"#);
        self.nodes.get_mut(&format!("node-{at}")).unwrap()["status"]["nodeInfo"]["kubeletVersion"] = json!(version);
    }

    fn cordoned(&self) -> Vec<&str> {
        let out = self.nodes.iter().filter(|(_, node)| node["spec"]["unschedulable"] == true);
        out.map(|(name, _)| name.as_str()).collect()
    }
}

/// As RFC 7386 has it.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(key)),
            value => merge(&mut object[key.as_str()], value),
        }
    }
}

fn drains() -> Value {
    json!({ "enabled": true, "force": true })
}

fn hooks() -> Value {
    json!({ "enabled": true, "preDrainHooks": [{ "annotation": "x/pre" }], "postDrainHooks": [{ "annotation": "x/post" }] })
}

const PRE: &str = "rke.cattle.io/pre-drain";
const POST: &str = "rke.cattle.io/post-drain";
const SERVERS: [&str; 3] = ["ecw", "ecw", "ecw"];

fn ready(options: Value, roles: &[&str]) -> World {
    let mut world = World::new(roles, options);
    assert_eq!(world.settle(), None);
    world.purposes.clear();
    world
}

#[test]
fn a_cluster_that_has_what_it_asks_for_is_adopted_and_left_alone() {
    let mut world = World::new(&SERVERS, drains());
    assert_eq!(world.settle(), None);
    assert_eq!(world.purposes[..3], ["TakeSpec", "RaiseEpoch", "ElectInitNode"]);
    assert_eq!(world.purposes.iter().filter(|purpose| *purpose == "AdoptPlan").count(), 3);
    assert_eq!(world.purposes.len(), 6, "{:?}", world.purposes);
    assert_eq!(world.capi["status"]["phase"], "Provisioned");
}

#[test]
fn a_plan_that_nobody_can_read_is_named_and_no_node_is_drained_for_it() {
    let install = json!({ "name": "install", "image": "registry:5000/rancher/rke2", "env": [] });
    for instructions in [json!([]), json!([install])] {
        for is_adopted in [true, false] {
            let mut world = if is_adopted { ready(drains(), &SERVERS) } else { World::new(&SERVERS, drains()) };
            let put = |world: &mut World, plan: &str| {
                world.secret(1)["data"]["plan"] = encoded(plan);
                world.secret(1)["data"]["applied-checksum"] = encoded(&checksum(plan));
            };
            put(&mut world, &json!({ "files": [], "probes": {}, "instructions": instructions }).to_string());
            world.ask(TO);

            let said = world.settle().unwrap();

            let named = "configuring bootstrap node(s) custom-1: the plan in Secret fleet-local/custom-1-machine-plan cannot be raised";
            assert!(said.starts_with(named), "{said}");
            assert_eq!(world.note(1, marks::PLANNED).is_some(), is_adopted);
            assert_eq!(world.cordoned(), Vec::<&str>::new());

            put(&mut world, &plan_of(FROM));
            assert_eq!(world.settle().as_deref(), Some("draining bootstrap node(s) custom-1: draining node"));
        }
    }
}

#[test]
fn a_node_goes_its_way_step_by_step() {
    let mut world = ready(hooks(), &["ecw"]);
    world.ask(TO);
    assert_eq!(world.settle().as_deref(), Some("draining bootstrap node(s) custom-1: draining node"));
    assert_eq!(world.cordoned(), ["node-1"]);
    let token = world.note(1, PRE).unwrap();
    world.set_note(1, "x/pre", &token);
    // The only machine of a cluster is not drained, though its hooks are called.
    assert_eq!(
        world.settle().as_deref(),
        Some("configuring bootstrap node(s) custom-1: waiting for plan to be applied")
    );
    world.applied(1);
    assert_eq!(
        world.settle().as_deref(),
        Some("uncordoning bootstrap node(s) custom-1: waiting for uncordon to finish")
    );
    assert_eq!(world.note(1, POST).as_deref(), Some(token.as_str()));
    world.set_note(1, "x/post", &token);
    assert_eq!(world.settle(), None);
    assert_eq!(world.cordoned(), Vec::<&str>::new());
    assert_eq!((world.note(1, PRE), world.note(1, "x/pre"), world.note(1, "x/post")), (None, None, None));
    assert_eq!(
        world.purposes,
        [
            "TakeSpec",
            "ClaimNodes",
            "TakeNode",
            "AskForDrain",
            "CallPreHooks",
            "NoteDrainDone",
            "DeliverPlan",
            "KeepAppliedPlan",
            "AskForUncordon",
            "CallPostHooks",
            "ClearMarks",
            "GiveNodeBack",
            "ReleaseNode",
        ]
    );
}

#[test]
fn a_second_server_waits_while_the_first_is_out() {
    let mut world = ready(drains(), &SERVERS);
    world.ask(TO);
    world.settle();
    assert_eq!(world.cordoned(), ["node-1"]);
    world.drained("node-1");
    world.settle();
    world.applied(1);
    let said = world.settle();
    assert_eq!(said.as_deref(), Some("draining etcd node(s) custom-2: draining node"));
    assert_eq!(world.cordoned(), ["node-2"]);
}

#[test]
fn a_server_whose_claim_somebody_has_taken_away_takes_up_its_slot_and_comes_back_when_it_is_ready() {
    let mut world = ready(drains(), &SERVERS);
    world.ask(TO);
    for (at, node) in [(1, "node-1"), (2, "node-2")] {
        world.settle();
        world.drained(node);
        world.settle();
        world.applied(at);
        world.purposes.clear();
        while !world.purposes.iter().any(|purpose| purpose == "ClearMarks") {
            world.decide().writes.iter().for_each(|write| world.write(write));
        }
    }
    let ready = |world: &mut World, status: &str| {
        world.nodes.get_mut("node-2").unwrap()["status"]["conditions"][0]["status"] = json!(status);
    };
    ready(&mut world, "False");
    world.plane["metadata"]["annotations"].as_object_mut().unwrap().remove("drover.dev/claims");

    let said = world.settle().unwrap();

    assert!(said.contains("waiting for Node node-2 to be ready"), "{said}");
    assert_eq!(world.cordoned(), ["node-2"]);
    ready(&mut world, "True");
    world.settle();
    assert_eq!(world.cordoned(), ["node-3"]);
}

#[test]
fn a_worker_that_is_out_by_itself_takes_up_the_slot_and_goes_before_one_in_service() {
    let mut world = ready(drains(), &["ec", "w", "w"]);
    world.secret(3)["data"]["probe-statuses"] = encoded("{}");
    world.ask(TO);
    world.settle();
    world.drained("node-1");
    world.settle();
    world.applied(1);
    world.settle();
    assert_eq!(world.cordoned(), ["node-3"]);
}

#[test]
fn a_node_that_is_out_comes_back_while_one_of_an_earlier_tier_waits_for_that() {
    let mut world = ready(hooks(), &SERVERS);
    let mark = "harvesterhci.io/node-upgrade-pause";
    world.nodes.get_mut("node-1").unwrap()["metadata"]["annotations"][mark] = json!("up");
    world.ask(TO);
    world.settle();
    assert_eq!(world.cordoned(), ["node-2"], "the first one pauses");
    world.nodes.get_mut("node-1").unwrap()["metadata"]["annotations"].as_object_mut().unwrap().remove(mark);
    let token = world.note(2, PRE).unwrap();
    world.set_note(2, "x/pre", &token);
    let said = world.settle().unwrap();
    assert!(said.starts_with("configuring bootstrap node(s) custom-1: etcd needs 2 of 3 voters"), "{said}");
    world.drained("node-2");
    world.settle();
    world.applied(2);
    world.settle();
    world.set_note(2, "x/post", &token);

    world.settle();

    assert_eq!(world.cordoned(), ["node-1"]);
}

#[test]
fn a_mark_that_was_lost_is_written_again() {
    let mut world = ready(hooks(), &SERVERS);
    world.ask(TO);
    world.settle();
    let token = world.note(1, PRE).unwrap();
    world.secret(1)["metadata"]["annotations"].as_object_mut().unwrap().remove(PRE);
    world.nodes.get_mut("node-1").unwrap()["spec"] = json!({});
    world.settle();
    assert_eq!(world.note(1, PRE), Some(token));
    assert_eq!(world.cordoned(), ["node-1"]);
}

#[test]
fn an_answer_to_another_token_is_no_answer() {
    let mut world = ready(hooks(), &SERVERS);
    world.ask(TO);
    world.settle();
    world.set_note(1, "x/pre", "an older token");
    assert_eq!(world.settle().as_deref(), Some("draining bootstrap node(s) custom-1: draining node"));
    assert!(world.drains.is_empty());
}

#[test]
fn options_that_change_on_the_way_begin_the_handshake_anew() {
    let mut world = ready(hooks(), &SERVERS);
    world.ask(TO);
    world.settle();
    let before = world.note(1, PRE).unwrap();
    world.set_note(1, "x/pre", &before);
    world.settle();
    world.cluster["spec"]["rkeConfig"]["upgradeStrategy"]["controlPlaneDrainOptions"]["timeout"] = json!(60);
    world.settle();
    assert_ne!(world.note(1, PRE), Some(before));
    assert_eq!(world.note(1, "x/pre"), None);
}

#[test]
fn options_that_are_taken_away_are_gone() {
    let mut world = ready(hooks(), &SERVERS);
    world.cluster["spec"]["rkeConfig"]["upgradeStrategy"] = json!({ "workerConcurrency": "2" });
    assert_eq!(world.settle(), None);
    assert_eq!(world.plane["spec"]["upgradeStrategy"], json!({ "workerConcurrency": "2" }));
}

#[test]
fn no_voter_goes_while_another_is_out() {
    for reason in ["NotAMember", "NotReady"] {
        let mut world = ready(drains(), &SERVERS);
        let conditions = match reason {
            "NotAMember" => {
                json!([{ "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "False", "reason": reason }])
            }
            _ => json!([{ "type": "Ready", "status": "False" }, { "type": "EtcdIsVoter", "status": "True" }]),
        };
        world.nodes.get_mut("node-3").unwrap()["status"]["conditions"] = conditions;
        world.ask(TO);
        let said = world.settle().unwrap();
        assert!(said.contains("node-3 is out: node-1 must not be taken out as well"), "{said}");
        assert_eq!(world.cordoned(), Vec::<&str>::new());
    }
}

#[test]
fn a_worker_that_was_promoted_to_a_voter_does_not_go_while_another_is_out() {
    let mut world = ready(drains(), &["ecw", "ecw", "w"]);
    // Its Secret does not say yet what it has become.
    let votes = json!([{ "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "True" }]);
    world.nodes.get_mut("node-3").unwrap()["status"]["conditions"] = votes;
    world.ask(TO);
    for (at, node) in [(1, "node-1"), (2, "node-2")] {
        world.settle();
        world.drained(node);
        world.settle();
        world.applied(at);
    }
    let lost = json!([{ "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "False", "reason": "NotAMember" }]);
    world.nodes.get_mut("node-2").unwrap()["status"]["conditions"] = lost;

    let said = world.settle().unwrap();

    assert!(said.contains("node-2 is out: node-3 must not be taken out as well"), "{said}");
    assert_eq!(world.cordoned(), Vec::<&str>::new());
}

#[test]
fn a_voter_that_is_claimed_is_neither_drained_nor_given_its_plan_while_another_is_out() {
    let [well, lost] = [true, false].map(|is_ready| {
        let ready = if is_ready { "True" } else { "False" };
        json!([{ "type": "Ready", "status": ready }, { "type": "EtcdIsVoter", "status": "True" }])
    });
    for is_drained in [false, true] {
        let mut world = ready(drains(), &SERVERS);
        world.ask(TO);
        world.settle();
        world.nodes.get_mut("node-3").unwrap()["status"]["conditions"] = lost.clone();
        if is_drained {
            world.drained("node-1");
        }

        let said = world.settle().unwrap();

        assert_eq!(
            said,
            "configuring bootstrap node(s) custom-1: etcd needs 2 of 3 voters, and node-3 is out: node-1 must not be taken out as well"
        );
        assert!(world.decide().drains.is_empty() && !world.purposes.contains(&"DeliverPlan".to_owned()));
        world.nodes.get_mut("node-3").unwrap()["status"]["conditions"] = well.clone();
        world.settle();
        world.drained("node-1");
        world.settle();
        assert!(world.purposes.contains(&"DeliverPlan".to_owned()));
    }
}

#[test]
fn of_two_workers_that_have_become_voters_while_they_were_drained_one_goes_first() {
    let mut world = ready(drains(), &["ecw", "w", "w"]);
    world.cluster["spec"]["rkeConfig"]["upgradeStrategy"]["workerConcurrency"] = json!("2");
    world.ask(TO);
    world.settle();
    world.drained("node-1");
    world.settle();
    world.applied(1);
    world.settle();
    assert_eq!(world.cordoned(), ["node-2", "node-3"]);
    let votes = json!([{ "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "True" }]);
    for node in ["node-2", "node-3"] {
        world.nodes.get_mut(node).unwrap()["status"]["conditions"] = votes.clone();
        world.drained(node);
    }

    let said = world.settle().unwrap();

    assert!(said.contains("node-2 is out: node-3 must not be taken out as well"), "{said}");
    world.applied(2);
    world.settle();
    world.applied(3);
    assert_eq!(world.settle(), None);
    assert_eq!(world.cordoned(), Vec::<&str>::new());
}

#[test]
fn one_of_two_voters_goes_only_where_that_is_accepted() {
    // By its user, or on the Upgrade that asks.
    for accepts in ["drover.dev/accept", "drover.dev/accepted"] {
        let mut world = ready(drains(), &["ecw", "ecw"]);
        world.ask(TO);
        let said = world.settle().unwrap();
        assert!(said.contains("unless DRV-ETCD-001 is accepted"), "{said}");
        world.cluster["metadata"]["annotations"] = json!({ accepts: "DRV-ETCD-001" });
        world.settle();
        assert_eq!(world.cordoned(), ["node-1"]);
    }
}

#[test]
fn a_plan_that_fails_holds_its_tier_up_and_says_so() {
    let mut world = ready(drains(), &["ec", "w"]);
    world.ask(TO);
    world.settle();
    world.drained("node-1");
    world.settle();
    let plan: SecretSeen = serde_json::from_value(world.secret(1).clone()).unwrap();
    world.secret(1)["data"]["failed-checksum"] = encoded(&checksum(&plan.datum("plan").unwrap()));
    assert_eq!(world.settle().as_deref(), Some("configuring bootstrap node(s) custom-1: failure while applying plan"));
    assert_eq!(world.cordoned(), ["node-1"]);
}

#[test]
fn a_plan_that_has_failed_is_tried_again_when_a_user_says_so() {
    let mut world = ready(drains(), &["ec", "w"]);
    world.ask(TO);
    world.settle();
    world.drained("node-1");
    world.settle();
    world.secret(1)["data"]["plan-state"] = encoded("failed");
    world.settle();
    world.purposes.clear();
    world.nodes.get_mut("node-1").unwrap()["metadata"]["annotations"]["drover.dev/retry"] = json!("now");

    let said = world.settle();

    assert_eq!(said.as_deref(), Some("configuring bootstrap node(s) custom-1: waiting for plan to be applied"));
    assert_eq!(world.secret(1)["data"]["plan-state"], encoded("pending"));
    assert_eq!(world.nodes["node-1"]["metadata"]["annotations"]["drover.dev/retry"], Value::Null);
    assert_eq!(world.purposes, ["RetryPlan", "NoteRetry"]);
}

#[test]
fn a_drain_that_another_planner_has_begun_is_taken_over_with_its_cordon() {
    let mut world = World::new(&["ec", "w"], drains());
    world.ask(TO);
    world.set_note(1, "rke.cattle.io/drain-options", "another token");
    world.nodes.get_mut("node-1").unwrap()["spec"] = json!({ "unschedulable": true });
    world.settle();
    world.drained("node-1");
    world.settle();
    world.applied(1);
    world.settle();
    assert_eq!(world.cordoned(), ["node-2"]);
}

#[test]
fn probes_and_the_kubelet_are_waited_for() {
    let mut world = ready(drains(), &["ec", "w"]);
    world.ask(TO);
    world.settle();
    world.drained("node-1");
    world.settle();
    world.applied(1);
    world.secret(1)["data"]["probe-statuses"] = encoded("{}");
    assert_eq!(world.settle().as_deref(), Some("configuring bootstrap node(s) custom-1: waiting for probes: kubelet"));
    world.applied(1);
    world.nodes.get_mut("node-1").unwrap()["status"]["nodeInfo"]["kubeletVersion"] = json!(FROM);
    assert_eq!(
        world.settle().as_deref(),
        Some("configuring bootstrap node(s) custom-1: waiting for kubelet to update")
    );
}

#[test]
fn what_another_planner_has_left_in_the_middle_of_a_drain_is_cleared_away() {
    let mut world = World::new(&["ec", "w"], drains());
    let token = token::of(&serde_json::from_value(drains()).unwrap(), false);
    for key in ["rke.cattle.io/drain-options", "rke.cattle.io/drain-done", "rke.cattle.io/uncordon"] {
        world.set_note(2, key, &token);
    }
    world.nodes.get_mut("node-2").unwrap()["spec"] = json!({ "unschedulable": true });
    assert_eq!(world.settle(), None);
    assert_eq!(world.cordoned(), Vec::<&str>::new());
    assert_eq!(world.note(2, "rke.cattle.io/drain-options"), None);
}

#[test]
fn a_cluster_that_is_paused_is_left_alone() {
    let mut world = ready(drains(), &SERVERS);
    world.capi["spec"]["paused"] = json!(true);
    world.ask(TO);
    assert_eq!(world.settle().as_deref(), Some("CAPI cluster or RKEControlPlane is paused"));
    assert_eq!(world.cordoned(), Vec::<&str>::new());
}

#[test]
fn a_pause_gives_back_what_was_taken_and_nobody_is_asked_about() {
    let mut world = ready(hooks(), &SERVERS);
    world.ask(TO);
    world.settle();
    assert_eq!(world.cordoned(), ["node-1"]);
    world.capi["spec"]["paused"] = json!(true);
    world.settle();
    assert_eq!(world.cordoned(), ["node-1"], "its hooks are at work");

    for key in ["rke.cattle.io/drain-options", PRE] {
        world.set_note(1, key, "");
    }
    world.settle();

    assert_eq!(world.cordoned(), Vec::<&str>::new());
    assert_eq!(world.nodes["node-1"]["metadata"]["labels"]["drover.dev/claim"], Value::Null);
    assert!(world.plane["metadata"]["annotations"]["drover.dev/claims"].as_str().unwrap().contains(r#""nodes":{}"#));
}

#[test]
fn a_machine_without_its_secret_is_named() {
    let mut world = ready(drains(), &["ec", "w", "w"]);
    world.secrets.remove("custom-3-machine-plan");
    assert_eq!(world.settle().as_deref(), Some("waiting for the machine-plan Secret of custom-3"));
}

#[test]
fn a_control_plane_says_what_is_asked_for_and_what_all_machines_had_last() {
    let plane: ControlPlaneSeen = serde_json::from_value(json!({
        "metadata": { "name": "local" }, "spec": { "kubernetesVersion": TO, "provisionGeneration": 7 },
        "status": { "appliedSpec": { "kubernetesVersion": FROM, "provisionGeneration": 6 } },
    }))
    .unwrap();
    assert_eq!((plane.version(), plane.generation()), (TO, 7));
    assert_eq!(plane.asked(), format!("{TO} 7"));
    assert_eq!(plane.applied(), Some(format!("{FROM} 6")));
}
