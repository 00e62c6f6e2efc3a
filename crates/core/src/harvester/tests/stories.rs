//! Whole Upgrades, each write and each wait of them.

use super::*;
use crate::stories::hold;

impl Ground {
    /// From here on a story is told.
    fn begins(mut self) -> Self {
        self.written.clear();
        self
    }

    /// Something happens; then it is decided and written until nothing is left to be written.
    fn then(&mut self, what: &str, happens: impl FnOnce(&mut Ground)) {
        self.written.push_str(&format!("== {what}\n"));
        happens(self);
        self.settle();
        let told = self.told();
        self.written.push_str(&told);
    }

    fn told(&self) -> String {
        let mut text = String::new();
        for wait in &self.last.waits {
            text.push_str(&format!("waits, {:?}, {}: {}\n", wait.reason, wait.subject, wait.sentence));
            text.extend(wait.remedy.iter().map(|remedy| format!("    {remedy}\n")));
        }
        text.extend(self.last.ask.iter().map(|ask| format!("asks {} ({})\n", ask.url, ask.latest_version)));
        text.extend(self.last.look_again.iter().map(|at| format!("looks again at {at}\n")));
        let status = &self.upgrade()["status"];
        for said in status["conditions"].as_array().into_iter().flatten() {
            let word = |key: &str| said[key].as_str().unwrap_or_default();
            let words = [word("status"), word("reason"), word("message")].join(" ");
            text.push_str(&format!("{}: {}\n", word("type"), words.trim()));
        }
        for (node, state) in status["nodeStatuses"].as_object().into_iter().flatten() {
            text.push_str(&format!("{node}: {state}\n"));
        }
        text.push_str(&format!("labels {}\n", self.upgrade()["metadata"]["labels"]));
        text
    }
}

/// A write in a line.
pub fn line(write: &Write) -> String {
    // How it stands is told at the end of each step.
    if write.purpose == Purpose::PublishStatus {
        return String::new();
    }
    format!("{:?} {}: {}\n", write.purpose, write.subject, act(&write.act))
}

fn act(act: &Act) -> String {
    match act {
        Act::Create(object) => format!("create {object}"),
        Act::Patch(patch) => format!("patch {patch}"),
        Act::PatchStatus(patch) => format!("patch status {patch}"),
        Act::Delete { uid } => format!("delete {uid}"),
        Act::Call { part } => format!("call {part}"),
    }
}

fn preloads(ground: &mut Ground, node: &str) {
    ground.put(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("apply-prepare-on-{node}"), "namespace": "cattle-system",
            "labels": { "upgrade.cattle.io/plan": format!("{U}-prepare"), "upgrade.cattle.io/node": node },
        },
        "status": { "active": 1 },
    }));
}

/// How far an Upgrade is, in words, and how it comes to that.
type Stage = (&'static str, fn() -> Ground);

fn serves_again(ground: &mut Ground) {
    ground.import();
    ground.settle();
    ground.serve();
}

#[test]
fn the_story_of_an_upgrade_of_three_nodes() {
    let mut ground = Ground::of(3);
    ground.change("Upgrade", "harvester-system", U, &json!({ "spec": { "logEnabled": null } }));
    let mut story = ground.begins();
    story.then("it is asked for", |_| {});
    story.then("the image is on its way", |ground| {
        let said = json!([{ "type": "Imported", "status": "Unknown", "reason": "Importing", "message": "40 %" }]);
        ground.change("VirtualMachineImage", "harvester-system", U, &json!({ "status": { "conditions": said } }));
    });
    story.then("the image is there", Ground::import);
    story.then("the repository runs", |ground| {
        let up = json!({ "status": { "availableReplicas": 1 } });
        ground.change("Deployment", "harvester-system", &format!("upgrade-repo-{U}"), &up);
    });
    story.then("the repository answers with something else", |ground| {
        ground.served = Some(release());
        ground.garbled = Some("404 Not Found");
    });
    story.then("the repository tells the release", |ground| ground.garbled = None);
    story.then("a node gets its images", |ground| preloads(ground, "node-2"));
    story.then("all have their images", Ground::preload);
    story.then("the system services are raised", |ground| ground.finish("apply-manifests"));
    story.then("the planner begins with a node", |ground| {
        ground.change("Node", "", "node-1", &json!({ "spec": { "unschedulable": true } }));
        ground.asks(1, "drain-options");
        ground.asks(1, "pre-drain");
    });
    story.then("it asks for the next as well", |ground| ground.asks(2, "pre-drain"));
    story.then("the node is emptied", |ground| ground.finish("pre-drain-node-1"));
    story.then("the planner has raised it", |ground| {
        ground.restart_kubelet(1);
        ["drain-done", "uncordon", "post-drain"].into_iter().for_each(|key| ground.asks(1, key));
    });
    story.then("its new system is written", |ground| ground.finish("post-drain-node-1"));
    story.then("it is down", |ground| {
        let down = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
        ground.change("Node", "", "node-1", &down);
    });
    story.then("it comes back with its new system", |ground| {
        let up = json!([{ "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "True" }]);
        ground.change("Node", "", "node-1", &json!({ "status": { "conditions": up } }));
        ground.reboot(1);
    });
    story.then("the planner takes its questions back", |ground| ground.gives_back(1));
    story.then("the others follow", |ground| {
        for number in 2..=3 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
    });
    hold("upgrade-of-three-nodes", &story.written);
}

#[test]
fn the_story_of_a_node_that_fails_is_tried_again_and_skipped() {
    let mut story = Ground::of(3).until_nodes().begins();
    story.then("the planner begins with a node", |ground| ground.begins_with(1));
    story.then("that fails", |ground| ground.fail("pre-drain-node-1"));
    story.then("its user has it tried again", |ground| ground.annotate("drover.dev/retry", "node-1"));
    story.then("the release is served again", serves_again);
    story.then("the planner asks again", |ground| ground.begins_with(1));
    story.then("it fails again", |ground| ground.fail("pre-drain-node-1"));
    story.then("its user goes on without it", |ground| ground.annotate("drover.dev/skip", "node-1"));
    story.then("the planner has raised it", |ground| ground.raises(1));
    story.then("the planner takes its questions back", |ground| ground.gives_back(1));
    story.then("the others follow", |ground| {
        for number in 2..=3 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
    });
    hold("upgrade-with-a-failed-node", &story.written);
}

#[test]
fn the_stories_of_upgrades_that_are_called_off() {
    let mut text = String::new();
    let stages: [Stage; 6] = [
        ("before anything is there", || Ground::of(3)),
        ("while its image is imported", || {
            let mut ground = Ground::of(3);
            ground.settle();
            ground
        }),
        ("while its services are raised", || Ground::of(3).until_services()),
        ("before its first node", || Ground::of(3).until_nodes()),
        ("while a node is emptied", || {
            let mut ground = Ground::of(3).until_nodes();
            ground.begins_with(1);
            ground
        }),
        ("while a node is raised", || {
            let mut ground = Ground::of(3).until_nodes();
            ground.begins_with(1);
            ground.finish("pre-drain-node-1");
            ground.settle();
            ground.raises(1);
            ground
        }),
    ];
    for (stage, ground) in stages {
        let mut story = ground().begins();
        story.then(&format!("it is called off {stage}"), |ground| {
            let word = json!({ "metadata": { "annotations": { "drover.dev/abort": "" } } });
            ground.change("Upgrade", "harvester-system", U, &word);
        });
        text.push_str(&story.written);
        let mut story = ground().begins();
        story.then(&format!("it is deleted {stage}"), |ground| {
            let gone = json!({ "metadata": { "deletionTimestamp": NOON, "finalizers": ["drover.dev/upgrade"] } });
            ground.change("Upgrade", "harvester-system", U, &gone);
        });
        text.push_str(&story.written);
    }
    hold("upgrades-that-are-called-off", &text);
}

#[test]
fn the_story_of_a_single_node() {
    let mut story = Ground::of(1).until_nodes().begins();
    story.then("its Job is at work", |_| {});
    story.then("its Job is done", |ground| ground.finish("single-node-upgrade-node-1"));
    story.then("it comes back with its new system", |ground| ground.reboot(1));
    hold("upgrade-of-a-single-node", &story.written);
}

#[test]
fn the_story_of_nodes_that_pause_and_of_services_that_fail() {
    let config = json!({
        "nodeUpgradeOption": { "mode": "manual" }, "imagePreloadOption": { "strategy": { "type": "parallel", "concurrency": 2 } },
    });
    let mut story = Ground::configured(3, config);
    story.then("it is asked for", |_| {});
    story.then("the image is there", Ground::import);
    story.then("the release is told", Ground::serve);
    story.then("all have their images", Ground::preload);
    story.then("the system services fail", |ground| {
        let failed = json!([{ "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no" }]);
        let job = format!("{U}-apply-manifests");
        ground.change("Job", "harvester-system", &job, &json!({ "status": { "conditions": failed } }));
    });
    story.then("its user has it tried again", |ground| ground.annotate("drover.dev/retry", ""));
    story.then("the release is served again", serves_again);
    story.then("the system services are raised", |ground| ground.finish("apply-manifests"));
    story.then("the planner asks for a node that pauses", |ground| ground.begins_with(1));
    hold("upgrade-whose-nodes-pause", &story.written);
}
