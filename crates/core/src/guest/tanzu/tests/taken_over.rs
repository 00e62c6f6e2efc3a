//! Add-ons that others have applied: what newer ones no longer contain goes as well, if it is certain whose it was.

use serde_json::json;

use super::super::*;
use super::paper::{INVENTORY, Paper, inline, names};
use super::{NEW, OLD, Scene, image_name, settled};

const BOTH: &str = "apiVersion: v1
kind: ConfigMap
metadata: { name: calico, namespace: kube-system }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: of-old, namespace: kube-system }
data: { mtu: '1440' }
";
const LEFT: &str = "ConfigMap/kube-system/of-old";

fn of_old() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "of-old", "namespace": "kube-system" },
        "data": { "mtu": "1440" },
    })
}

/// The new distribution is asked for when Drover comes; the old one was applied by others.
fn come_to() -> (Scene, Paper) {
    let mut scene = settled();
    scene.brings(OLD, "calico", &inline(BOTH));
    let mut guest = Paper::of(OLD);
    guest.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "calico", "namespace": "kube-system" },
    }));
    guest.put(of_old());
    (scene.asks_for(NEW), guest)
}

#[test]
fn what_others_applied_and_a_newer_manifest_no_longer_contains_goes_after_the_last_old_node() {
    let (scene, mut guest) = come_to();

    let (done, told) = guest.follows(&scene.order());

    assert_eq!(done, names(&[&format!("apply {INVENTORY}"), "apply ConfigMap/kube-system/calico"]));
    assert!(told.left[0].starts_with(&format!("add-on calico: {LEFT} of {OLD} is no longer contained")), "{told:?}");
    assert!(guest.has(LEFT));

    guest.nodes = Paper::of(NEW).nodes;
    let (done, told) = guest.follows(&scene.settled_order());
    assert_eq!(done, names(&[&format!("delete {LEFT}"), &format!("apply {INVENTORY}")]));
    assert_eq!(told.left, [""; 0]);
}

/// Kubernetes 1.15 knows no server-side apply, and 1.16 takes what is there from before for what others have set.
#[test]
fn what_nobody_noted_the_managers_of_is_written_whole_and_keeps_what_others_have_set() {
    for cannot_apply in [true, false] {
        writes_whole(cannot_apply);
    }
}

fn writes_whole(cannot_apply: bool) {
    let (mut scene, mut guest) = come_to();
    let manifest = |data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: calico, namespace: kube-system }}\ndata: {data}\n")
    };
    scene.brings(OLD, "calico", &inline(&manifest("{ mtu: '1440', typha: none }")));
    scene.brings(NEW, "calico", &inline(&manifest("{ mtu: '1500' }")));
    guest.cannot_apply = cannot_apply;
    let mut live = guest.get("ConfigMap/kube-system/calico").clone();
    live["data"] = json!({ "mtu": "1440", "typha": "none", "theirs": "x" });
    guest.put(live);

    let (done, told) = guest.follows(&scene.order());

    assert_eq!(done, names(&[&format!("apply {INVENTORY}"), "apply ConfigMap/kube-system/calico"]));
    assert_eq!(told.standing["cni"].state, super::super::addons::State::Applied);
    assert_eq!(guest.get("ConfigMap/kube-system/calico")["data"], json!({ "mtu": "1500", "theirs": "x" }));
    assert_eq!(guest.follows(&scene.order()).0, [""; 0]);
}

/// Machines of the old distribution are gone by then: what was noted of them is enough.
#[test]
fn it_is_remembered_while_the_old_image_can_still_be_told() {
    let (mut scene, mut guest) = come_to();
    guest.follows(&scene.order());
    scene.global.forget(Collection::Images, &image_name(OLD));
    guest.nodes = Paper::of(NEW).nodes;

    assert!(guest.follows(&scene.settled_order()).0.contains(&format!("delete {LEFT}")));
}

#[test]
fn what_is_not_as_the_old_image_brings_it_or_was_made_anew_is_nobodys_to_delete() {
    type Change = fn(&mut Scene, &mut Paper);
    let cases: [(&str, Change, Change); 4] = [
        (
            "somebody has changed it",
            |_, guest| {
                let mut changed = of_old();
                changed["data"]["mtu"] = json!("9000");
                guest.put(changed);
            },
            |_, _| {},
        ),
        ("it is another one by now", |_, _| {}, |_, guest| guest.put(of_old())),
        (
            "the old image is not there any more",
            |scene, _| scene.global.forget(Collection::Images, &image_name(OLD)),
            |_, _| {},
        ),
        ("the old image cannot be read", |scene, _| scene.brings(OLD, "calico", "{"), |_, _| {}),
    ];
    for (why, before, after) in cases {
        let (mut scene, mut guest) = come_to();
        before(&mut scene, &mut guest);
        guest.follows(&scene.order());
        after(&mut scene, &mut guest);
        guest.nodes = Paper::of(NEW).nodes;

        let (done, told) = guest.follows(&scene.settled_order());

        assert!(guest.has(LEFT), "{why}: {done:?}");
        assert_eq!(told.left, [""; 0], "{why}");
    }
}

/// As the original applies them, whatever the manifest says of how pods are replaced.
#[test]
fn a_daemon_set_that_the_original_applied_is_known_although_its_strategy_is_another() {
    let mut scene = settled();
    let agent = "{ apiVersion: apps/v1, kind: DaemonSet, metadata: { name: agent, namespace: kube-system }, spec: { updateStrategy: { type: RollingUpdate } } }";
    scene.brings(OLD, "calico", &inline(&format!("{}\n---\n{agent}", super::CALICO)));
    let mut guest = Paper::of(OLD);
    guest.put(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": "kube-system" },
        "spec": { "updateStrategy": { "type": "OnDelete" } },
    }));
    let scene = scene.asks_for(NEW);

    guest.follows(&scene.order());
    guest.nodes = Paper::of(NEW).nodes;

    assert!(guest.follows(&scene.settled_order()).0.contains(&"delete DaemonSet/kube-system/agent".to_owned()));
}
