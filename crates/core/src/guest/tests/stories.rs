//! A whole update of a control plane, each deed and each wait of it.

use super::*;
use crate::stories::hold;

/// A control plane, and what was decided on it so far.
struct Story {
    scene: Scene,
    text: String,
}

impl Story {
    fn of(scene: Scene) -> Self {
        Story { scene, text: String::new() }
    }

    /// Something happens; then what comes next is done until nothing is left but to wait.
    fn then(&mut self, what: &str, happens: impl FnOnce(&mut Scene)) {
        happens(&mut self.scene);
        self.text.push_str(&format!("== {what}\n"));
        for _ in 0..40 {
            match self.scene.next() {
                Next::Act(deeds) => deeds.iter().for_each(|deed| self.does(deed)),
                Next::Wait { waits, look_again } => {
                    for wait in &waits {
                        self.text.push_str(&format!("waits, {}, {}: {}\n", wait.reason, wait.object, wait.sentence));
                        self.text.push_str(&format!("    since {}, until {}\n", wait.since, wait.deadline));
                        self.text.push_str(&format!("    {}\n", wait.remedy));
                    }
                    self.text.extend(look_again.iter().map(|at| format!("looks again at {at}\n")));
                    self.scene.told = waits;
                    return;
                }
                Next::Fail(failure) => {
                    self.text.push_str(&format!("fails, {}: {}\n", failure.reason, failure.sentence));
                    self.text.push_str(&format!("    {}\n", failure.remedy));
                    if let Some(note) = failure.note {
                        self.does(&Deed::Write(note));
                    }
                    return;
                }
                Next::Done => return self.text.push_str("done\n"),
                Next::AskEtcd => return self.text.push_str("asks etcd\n"),
            }
        }
        panic!("it does not come to an end: {}", self.text);
    }

    fn does(&mut self, deed: &Deed) {
        let text = match deed {
            Deed::Write(write) => {
                let act = match &write.act {
                    Act::Create(object) => format!("create {object}"),
                    Act::Patch(patch) => format!("patch {patch}"),
                    other => format!("{other:?}"),
                };
                format!("{}, {}: {act}\n", write.purpose, write.object)
            }
            other => format!("{other:?}\n"),
        };
        self.text.push_str(&text);
        self.scene.carry_out(deed);
    }
}

fn changed(scene: &mut Scene, collection: Collection, name: &str, change: impl FnOnce(&mut Value)) {
    let mut object = scene.get(collection, name);
    change(&mut object);
    scene.put(collection, object);
}

#[test]
fn the_story_of_an_update_of_a_control_plane() {
    let mut scene = settled();
    scene.order.replicas = Some(3);
    let mut story = Story::of(scene);
    story.then("a version is asked for", |_| {});
    story.then("what the first new machine boots with could not be made", |scene| {
        changed(scene, Collection::Configs, "a-7", |config| {
            config["status"] =
                json!({ "conditions": [{ "type": "Ready", "status": "False", "message": "* no\n* token" }] });
        });
    });
    story.then("it is made", |scene| {
        changed(scene, Collection::Configs, "a-7", |config| config["status"] = json!({ "ready": true }));
    });
    story.then("it runs and is no Node", |scene| {
        scene.now = noon() + SignedDuration::from_mins(5);
        changed(scene, Collection::Machines, "a-7", |machine| machine["spec"]["providerID"] = json!("vsphere://a-7"));
    });
    story.then("it is a Node, without its components", |scene| {
        scene.comes_up("a-7");
        for component in ["etcd", "kube-scheduler"] {
            scene.seen.forget(Collection::Pods, &format!("{component}-a-7"));
        }
        changed(scene, Collection::Nodes, "a-7", |node| {
            node["metadata"]["labels"] = json!({});
            node["status"]["conditions"][0]["status"] = json!("False");
        });
        scene.members.last_mut().unwrap().learner = true;
    });
    story.then("its components run, and it is not marked", |scene| {
        for component in ["etcd", "kube-scheduler"] {
            let mut pod = scene.get(Collection::Pods, "kube-apiserver-a-7");
            pod["metadata"]["name"] = json!(format!("{component}-a-7"));
            scene.put(Collection::Pods, pod);
        }
    });
    story.then("it is marked, and not ready", |scene| {
        changed(scene, Collection::Nodes, "a-7", |node| {
            node["metadata"]["labels"] = json!({ "node-role.kubernetes.io/control-plane": "" });
        });
    });
    story.then("it is ready, and does not vote", |scene| {
        changed(scene, Collection::Nodes, "a-7", |node| node["status"]["conditions"][0]["status"] = json!("True"));
    });
    story.then("it votes: the old one goes, and the next one comes", |scene| {
        scene.members.last_mut().unwrap().learner = false;
    });
    story.then("the second one says that it has failed", |scene| {
        changed(scene, Collection::Machines, "b-7", |machine| {
            machine["status"] = json!({ "errorReason": "CreateError", "errorMessage": "no room" });
        });
    });
    story.then("it is tried again with another one", |scene| scene.order.id = "8".into());
    story.then("that takes too long", |scene| scene.now = noon() + SignedDuration::from_mins(21));
    story.then("it comes all the same", |scene| scene.comes_up("b-8"));
    story.then("and the third", |scene| {
        scene.now = noon() + SignedDuration::from_mins(22);
        scene.comes_up("c-8");
    });
    story.then("one machine is enough", |scene| scene.order.replicas = Some(1));
    story.then("three are wanted again", |scene| scene.order.replicas = Some(3));
    hold("update-of-a-control-plane", &story.text);
}
