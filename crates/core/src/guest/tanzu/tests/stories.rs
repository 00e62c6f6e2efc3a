//! Whole creations and updates, each write and each wait of them.

use super::*;
use crate::stories::hold;

/// A cluster, and what was decided on it so far.
struct Story {
    scene: Scene,
    text: String,
}

impl Story {
    fn of(scene: Scene) -> Self {
        Story { scene, text: String::new() }
    }

    /// Something happens; then it is decided and written until nothing is left to be written.
    fn then(&mut self, what: &str, happens: impl FnOnce(&mut Scene)) {
        happens(&mut self.scene);
        self.text.push_str(&format!("== {what}\n"));
        for _ in 0..30 {
            let decision = self.scene.decide();
            for write in &decision.writes {
                let act = match &write.act {
                    Act::Create(object) => format!("create {object}"),
                    Act::Patch(patch) | Act::PatchStatus(patch) => format!("patch {patch}"),
                    other => format!("{other:?}"),
                };
                self.text.push_str(&format!("{}, {}: {act}\n", write.purpose, write.object));
                self.scene.perform(write);
            }
            let is_done = decision.writes.is_empty();
            if is_done {
                for wait in &decision.waits {
                    self.text.push_str(&format!("waits, {}, {}: {}\n", wait.reason, wait.subject, wait.sentence));
                    self.text.extend(wait.deadline.iter().map(|at| format!("    until {at}\n")));
                    self.text.extend(wait.remedy.iter().map(|remedy| format!("    {remedy}\n")));
                }
                self.text.extend(decision.look_again.iter().map(|at| format!("looks again at {at}\n")));
                self.text.push_str(&format!("asks the guest: {} {}\n", decision.asks_guest, decision.asks_again));
            }
            self.scene.watched = decision.watched;
            if is_done {
                return;
            }
        }
        panic!("it does not come to rest: {}", self.text);
    }
}

#[test]
fn the_story_of_a_new_cluster() {
    let mut scene = settled();
    scene.own = Seen::default();
    scene.tkc["metadata"]["finalizers"] = Value::Null;
    for addon in ["pvcsi", "vmware-guest-cluster"] {
        scene.brings(OLD, addon, &super::paper::inline(&CALICO.replace("calico", addon)));
    }
    scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(3);
    scene.tkc["status"] = Value::Null;
    let mut story = Story::of(scene);
    story.then("it is asked for", |_| {});
    story.then("its infrastructure is ready", |scene| {
        scene.change(Collection::Clusters, "my-tkc", |one| one["status"] = json!({ "infrastructureReady": true }));
    });
    story.then("the virtual machine of its first machine runs", |scene| {
        let name = scene.masters().remove(0);
        scene.change(Collection::Machines, &name, |one| one["spec"]["providerID"] = json!("vsphere://first"));
    });
    story.then("ten minutes pass", |scene| scene.passes(10));
    story.then("its first machine has taken too long", |scene| scene.passes(10));
    story.then("its first machine is a Node that is not ready", |scene| scene.masters_join(false));
    story.then("its first machine is ready", |scene| scene.masters_join(true));
    story.then("its second machine is on its way out", |scene| {
        let names = scene.masters();
        let first: Vec<String> = scene.nodes.clone().unwrap_or_default().into_keys().collect();
        let name = names.iter().find(|name| !first.contains(name)).unwrap();
        let at = scene.now.to_string();
        scene.change(Collection::Machines, name, |one| one["metadata"]["deletionTimestamp"] = json!(at));
    });
    story.then("its second machine says that it has failed", |scene| {
        let names = scene.masters();
        let first: Vec<String> = scene.nodes.clone().unwrap_or_default().into_keys().collect();
        let name = names.iter().find(|name| !first.contains(name)).unwrap();
        scene.change(Collection::Machines, name, |one| {
            one["metadata"]["deletionTimestamp"] = Value::Null;
            one["status"] = json!({ "errorReason": "CreateError", "errorMessage": "no room" });
        });
    });
    story.then("its second machine is ready", |scene| scene.masters_join(true));
    story.then("its third machine is ready", |scene| scene.masters_join(true));
    story.then("its workers are ready", Scene::workers_join);
    hold("creation-of-a-guest", &story.text);
}

#[test]
fn the_story_of_an_update() {
    let mut story = Story::of(settled());
    story.then("nothing is asked for", |_| {});
    story.then("another version is asked for", |scene| {
        scene.tkc["spec"]["distribution"]["fullVersion"] = json!(NEW);
    });
    story.then("the Job has replaced the control plane", |scene| {
        scene.job_ends("Complete");
        scene.control_plane_machine("cp-1", NEW);
    });
    story.then("the first new worker is made", Scene::rolls);
    story.then("ten minutes pass", |scene| scene.passes(10));
    story.then("the new worker has taken too long", |scene| scene.passes(10));
    story.then("its user takes the mark away", |scene| {
        scene.change(Collection::Deployments, "workers", |one| {
            one["metadata"]["annotations"].as_object_mut().unwrap().remove("drover.dev/failed");
        });
    });
    story.then("the new worker is a Node", |scene| {
        scene.worker("worker-3", "new", true);
        scene.change(Collection::Sets, "new", |set| set["status"] = json!({ "replicas": 1, "availableReplicas": 1 }));
    });
    story.then("an old worker goes", |scene| {
        let at = scene.now.to_string();
        scene.change(Collection::Machines, "worker-1", |one| one["metadata"]["deletionTimestamp"] = json!(at));
    });
    story.then("all workers are new", |scene| {
        for old in ["worker-1", "worker-2"] {
            scene.own.forget(Collection::Machines, old);
        }
        scene.worker("worker-4", "new", true);
        let all = json!({ "replicas": 2, "availableReplicas": 2 });
        scene.change(Collection::Sets, "new", |set| set["status"] = all);
        scene.change(Collection::Sets, "old", |set| {
            set["spec"]["replicas"] = json!(0);
            set["status"] = json!({ "replicas": 0 });
        });
        scene.change(Collection::Deployments, "workers", |one| {
            one["status"] = json!({ "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 });
        });
    });
    hold("update-of-a-guest", &story.text);
}

#[test]
fn the_story_of_a_job_that_fails_and_of_workers_that_go_back() {
    let mut story = Story::of(settled().asks_for(NEW));
    story.then("another version is asked for", |_| {});
    story.then("the Job has failed", |scene| scene.job_ends("Failed"));
    story.then("the Job is deleted, and another one does it", |scene| {
        let name = text(&scene.job()["metadata"]["name"]).to_owned();
        scene.system.forget(Collection::Jobs, &name);
        scene.goes_on();
        scene.job_ends("Complete");
        scene.control_plane_machine("cp-1", NEW);
    });
    story.then("the new worker has failed", |scene| {
        scene.rolls();
        scene.change(Collection::Machines, "worker-3", |one| {
            one["status"] = json!({ "errorReason": "CreateError", "errorMessage": "no room" });
        });
    });
    story.then("its user has it go back", |scene| {
        scene.tkc["metadata"]["annotations"]["drover.dev/on-failure"] = json!("return");
    });
    story.then("it is deleted", |scene| scene.tkc["metadata"]["deletionTimestamp"] = json!(noon().to_string()));
    hold("update-of-a-guest-that-fails", &story.text);
}
