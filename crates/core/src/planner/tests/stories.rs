//! Whole ways of clusters, each write and each wait of them.

use super::*;
use crate::stories::hold;

/// A cluster, and what was decided on it so far.
struct Story {
    world: World,
    text: String,
}

impl Story {
    fn of(world: World) -> Self {
        Story { world, text: String::new() }
    }

    /// Something happens; then it is decided and written until nothing is left to be written.
    fn then(&mut self, what: &str, happens: impl FnOnce(&mut World)) {
        happens(&mut self.world);
        self.text.push_str(&format!("== {what}\n"));
        for _ in 0..60 {
            let decision = self.world.decide();
            for write in &decision.writes {
                let act = match &write.act {
                    Act::Patch(patch) => format!("patch {}", readable(patch)),
                    Act::Create(object) => format!("create {object}"),
                    Act::Delete { uid } => format!("delete {uid}"),
                };
                self.text.push_str(&format!("{:?}, {:?}: {act}\n", write.purpose, write.target));
                self.world.write(write);
            }
            for (node, order) in &decision.drains {
                let is_new = !self.world.drains.contains_key(node);
                self.world.drains.entry(node.clone()).or_insert(Drained { token: order.token.clone(), result: None });
                if is_new || decision.writes.is_empty() {
                    self.text.push_str(&format!("drains {node}: {:?}\n", order.options));
                }
            }
            if decision.writes.is_empty() {
                self.text.push_str(&format!("waits for: {}\n", decision.waits_for.as_deref().unwrap_or("nothing")));
                return;
            }
        }
        panic!("it does not come to rest: {}", self.text);
    }
}

/// What stands in the data of a Secret, as text.
fn readable(patch: &Value) -> Value {
    let mut patch = patch.clone();
    if let Some(data) = patch.get_mut("data").and_then(Value::as_object_mut) {
        for value in data.values_mut().filter(|value| value.is_string()) {
            let secret: SecretSeen = serde_json::from_value(json!({ "data": { "x": value } })).unwrap();
            *value = json!(secret.datum("x"));
        }
    }
    patch
}

fn pause(world: &mut World, node: &str, is_paused: bool) {
    let annotations = &mut world.nodes.get_mut(node).unwrap()["metadata"]["annotations"];
    match is_paused {
        true => annotations["harvesterhci.io/node-upgrade-pause"] = json!("up"),
        false => drop(annotations.as_object_mut().unwrap().remove("harvesterhci.io/node-upgrade-pause")),
    }
}

fn ready_again(world: &mut World, node: &str, status: &str) {
    world.nodes.get_mut(node).unwrap()["status"]["conditions"][0]["status"] = json!(status);
}

#[test]
fn the_story_of_a_cluster_of_servers_and_workers() {
    let mut world = World::new(&["e", "c", "w", "w", "w"], hooks());
    world.cluster["spec"]["rkeConfig"]["upgradeStrategy"]["workerConcurrency"] = json!("2");
    let mut story = Story::of(world);
    story.then("it is taken over", |_| {});
    story.then("a version is asked for", |world| world.ask(TO));
    story.then("the hook before the drain answers", |world| {
        let token = world.note(1, PRE).unwrap();
        world.set_note(1, "x/pre", &token);
    });
    story.then("the drain fails", |world| {
        world.drains.get_mut("node-1").unwrap().result = Some(Err("a budget".to_owned()));
    });
    story.then("the drain is done", |world| world.drained("node-1"));
    story.then("the agent has failed to apply the plan", |world| {
        let secret: SecretSeen = serde_json::from_value(world.secret(1).clone()).unwrap();
        world.secret(1)["data"]["failed-checksum"] = encoded(&checksum(&secret.datum("plan").unwrap()));
        world.secret(1)["data"]["plan-state"] = encoded("failed");
    });
    story.then("its user wants another try", |world| {
        world.nodes.get_mut("node-1").unwrap()["metadata"]["annotations"]["drover.dev/retry"] = json!("now");
    });
    story.then("the plan is applied, and the probe is not well", |world| {
        world.applied(1);
        world.secret(1)["data"]["probe-statuses"] = encoded(r#"{"kubelet":{"healthy":false}}"#);
    });
    story.then("the probe is well", |world| world.applied(1));
    story.then("the hook after the drain answers, and the node reboots", |world| {
        let token = world.note(1, POST).unwrap();
        world.set_note(1, "x/post", &token);
        ready_again(world, "node-1", "False");
    });
    story.then("the node is back; the next one pauses", |world| {
        ready_again(world, "node-1", "True");
        pause(world, "node-2", true);
    });
    story.then("the pause is over", |world| pause(world, "node-2", false));
    story.then("its hook answers", |world| {
        let token = world.note(2, PRE).unwrap();
        world.set_note(2, "x/pre", &token);
    });
    story.then("it is drained", |world| world.drained("node-2"));
    story.then("it has its plan", |world| world.applied(2));
    story.then("its last hook answers: two workers go at once", |world| {
        let token = world.note(2, POST).unwrap();
        world.set_note(2, "x/post", &token);
    });
    story.then("the Node of a worker that is out is gone", |world| {
        world.nodes.remove("node-3");
    });
    story.then("the machine of another one goes, and the plan of the third is lost", |world| {
        world.machines.get_mut("custom-4").unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        world.secret(5)["data"].as_object_mut().unwrap().remove("plan");
    });
    hold("planner-of-servers-and-workers", &story.text);
}

#[test]
fn the_story_of_a_cluster_whose_first_node_is_elected() {
    let mut world = World::new(&["cw", "ew", "ew"], json!({}));
    world.secrets.get_mut("custom-3-machine-plan").unwrap()["metadata"]["annotations"] =
        json!({ "rke.cattle.io/join-url": "https://10.0.0.3:9345" });
    let mut story = Story::of(world);
    story.then("one that others have joined is elected", |_| {});
    story.then("another one says that it is elected, too", |world| {
        world.secret(2)["metadata"]["labels"]["rke.cattle.io/init-node"] = json!("true");
    });
    story.then("the one that is elected goes", |world| {
        world.machines.get_mut("custom-2").unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        for at in [2, 3] {
            world.secret(at)["metadata"]["labels"].as_object_mut().unwrap().remove("rke.cattle.io/init-node");
        }
    });
    story.then("no server is left", |world| {
        world.machines.get_mut("custom-1").unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    });
    story.then("it is paused", |world| world.capi["spec"]["paused"] = json!(true));
    story.then("a version is asked for, and all is back", |world| {
        world.capi["spec"]["paused"] = json!(false);
        for at in [1, 2] {
            let machine = world.machines.get_mut(&format!("custom-{at}")).unwrap();
            machine["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        }
        world.ask(TO);
    });
    story.then("a machine is not known as a Node yet", |world| {
        world.applied(3);
        world.machines.get_mut("custom-2").unwrap()["status"] = json!({});
    });
    hold("planner-of-an-election", &story.text);
}

#[test]
fn the_story_of_a_job_that_carries_out_a_plan() {
    let mut world = World::new(&["ecw"], json!({}));
    world.cluster["metadata"]["annotations"] = json!({ "drover.dev/executor": "job" });
    let mut story = Story::of(world);
    story.then("it is taken over", |_| {});
    story.then("a version is asked for", |world| world.ask(TO));
    story.then("the Job has failed", |world| {
        let job = world.jobs.values_mut().next().unwrap();
        job["status"] = json!({ "conditions": [{ "type": "Failed", "status": "True", "message": "often enough" }] });
    });
    story.then("its user wants another try", |world| {
        world.nodes.get_mut("node-1").unwrap()["metadata"]["annotations"]["drover.dev/retry"] = json!("now");
    });
    story.then("the Job is being deleted by somebody", |world| {
        world.jobs.values_mut().next().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    });
    story.then("the Job is done", |world| {
        let job = world.jobs.values_mut().next().unwrap();
        job["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        job["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
        world.nodes.get_mut("node-1").unwrap()["status"]["nodeInfo"]["kubeletVersion"] = json!(TO);
    });
    hold("planner-of-a-job", &story.text);
}

#[test]
fn a_machine_without_etcd_or_on_its_way_out_is_not_elected() {
    let mut world = World::new(&["cw", "ew", "ew"], json!({}));
    world.machines.get_mut("custom-2").unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    assert_eq!(world.settle(), None);
    let elected = |at: usize| {
        world.secrets[&format!("custom-{at}-machine-plan")]["metadata"]["labels"]["rke.cattle.io/init-node"].clone()
    };
    assert_eq!([1, 2, 3].map(elected), [Value::Null, Value::Null, json!("true")]);
}
