//! What newer add-ons no longer contain goes, but not before the last Node that may need it.

use serde_json::json;

use super::super::addons::Told;
use super::super::*;
use super::paper::{INVENTORY, PREFIX, Paper, error_of, inline, names};
use super::{CALICO, NEW, OLD, Scene, image_name, noon, settled};

/// What the old distribution brings of calico, and the new one does not.
const BOTH: &str = "apiVersion: v1
kind: ConfigMap
metadata: { name: calico, namespace: kube-system }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: of-old, namespace: kube-system }
";

/// The old distribution is applied, and the new one is asked for; none of its Nodes is there yet.
fn between() -> (Scene, Paper) {
    let mut scene = settled();
    scene.brings(OLD, "calico", &inline(BOTH));
    let mut guest = Paper::of(OLD);
    guest.follows(&scene.order());
    (scene.asks_for(NEW), guest)
}

const PRUNED: &str = "delete ConfigMap/kube-system/of-old";

#[test]
fn what_a_newer_manifest_no_longer_contains_stays_until_the_last_old_node_is_gone() {
    let (mut scene, mut guest) = between();

    let (done, told) = guest.follows(&scene.settled_order());
    assert!(!done.contains(&PRUNED.to_owned()));
    assert_eq!(
        told.left,
        [format!(
            "add-on calico: ConfigMap/kube-system/of-old of {OLD} is no longer contained, and goes when no Node of {OLD} is left"
        )]
    );
    assert_eq!(told.holder.as_ref().map(ToString::to_string).as_deref(), Some("Node/cp-1"));
    scene.told = Some(told.clone());
    scene.goes_on();
    scene.goes_on();
    assert!(scene.tkc["status"]["differences"].to_string().contains("of-old"), "it is said before it is done");

    guest.nodes.insert("cp-1".into(), Some(NEW.replace('+', "_")));
    assert!(!guest.follows(&scene.settled_order()).0.contains(&PRUNED.to_owned()), "a worker is old");
    guest.nodes.insert("worker-1".into(), None);
    assert!(!guest.follows(&scene.settled_order()).0.contains(&PRUNED.to_owned()), "nobody knows what it is of");
    guest.nodes.insert("worker-1".into(), Some(NEW.replace('+', "_")));
    let (done, told) = guest.follows(&scene.settled_order());
    assert_eq!(done, names(&[PRUNED, &format!("apply {INVENTORY}")]));
    assert_eq!(told.left, [""; 0]);
    assert!(!guest.has("ConfigMap/kube-system/of-old") && guest.has("ConfigMap/kube-system/calico"));
    assert_eq!(guest.follows(&scene.settled_order()).0, [""; 0]);
}

#[test]
fn a_machine_of_the_old_distribution_that_may_still_become_a_node_keeps_it_as_well() {
    let (scene, mut guest) = between();
    guest.nodes = Paper::of(NEW).nodes;
    assert_eq!(scene.order().old.unwrap().to_string(), "Machine/default/cp-1");

    let (done, told) = guest.follows(&scene.order());

    assert!(!done.contains(&PRUNED.to_owned()));
    assert!(!told.left.is_empty() && told.holder.is_none() && !told.again, "its end is watched");
}

#[test]
fn nothing_is_deleted_while_anything_is_unclear() {
    type Change = fn(&mut Scene, &mut Paper);
    let cases: [(&str, Change); 6] = [
        ("another manifest cannot be read, and might contain it", |scene, _| scene.brings(NEW, "pvcsi", "{")),
        ("its own manifest cannot be read", |scene, _| scene.brings(NEW, "calico", "{")),
        ("the new one is not applied", |scene, guest| {
            scene.brings(NEW, "calico", &inline(&CALICO.replace("metadata:", "data: { a: b }, metadata:")));
            guest.refuses.insert("ConfigMap/kube-system/calico".into());
        }),
        ("another add-on contains it now", |scene, _| {
            scene.brings(NEW, "pvcsi", &inline(&CALICO.replace("calico", "of-old")));
        }),
        ("somebody else has made another in its place", |_, guest| {
            guest.put(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "of-old", "namespace": "kube-system" },
            }));
        }),
        ("nobody remembers it", |_, guest| guest.objects.retain(|object, _| object.name != "drover-addons")),
    ];
    for (why, change) in cases {
        let (mut scene, mut guest) = between();
        guest.nodes = Paper::of(NEW).nodes;
        change(&mut scene, &mut guest);

        let (done, _) = guest.follows(&scene.settled_order());

        assert!(!done.iter().any(|done| done.starts_with("delete")), "{why}: {done:?}");
        assert!(guest.has("ConfigMap/kube-system/of-old"), "{why}");
    }
}

#[test]
fn what_an_image_stops_bringing_in_place_stays_until_the_next_distribution() {
    let mut scene = settled();
    scene.brings(OLD, "calico", &inline(BOTH));
    let mut guest = Paper::of(OLD);
    guest.follows(&scene.order());
    scene.brings(OLD, "calico", &inline(CALICO));

    let (done, told) = guest.follows(&scene.settled_order());
    assert!(!done.iter().any(|done| done.starts_with("delete")), "its pods may still run: {done:?}");
    assert_eq!(told.left, [""; 0]);

    guest.nodes = Paper::of(NEW).nodes;
    let scene = scene.asks_for(NEW);
    assert!(guest.follows(&scene.settled_order()).0.contains(&PRUNED.to_owned()));
}

#[test]
fn namespaces_and_definitions_are_never_deleted() {
    let mut scene = settled();
    let value = format!("{CALICO}\n---\n{{ apiVersion: v1, kind: Namespace, metadata: {{ name: calico-system }} }}");
    scene.brings(OLD, "calico", &inline(&value));
    let mut guest = Paper::of(OLD);
    guest.follows(&scene.order());
    guest.nodes = Paper::of(NEW).nodes;

    let (done, told) = guest.follows(&scene.asks_for(NEW).settled_order());

    assert!(guest.has("Namespace/calico-system"), "{done:?}");
    assert_eq!(told.left, [""; 0]);
}

#[test]
fn an_image_that_stops_bringing_what_machines_need_is_not_rolled_out() {
    let (mut scene, mut guest) = between();
    let mut image = scene.global.get(Collection::Images, &image_name(NEW)).unwrap().clone();
    image["metadata"]["annotations"].as_object_mut().unwrap().remove(&format!("{PREFIX}calico"));
    scene.put(Collection::Images, image);

    let (done, told) = guest.follows(&scene.settled_order());

    assert_eq!(done, [""; 0]);
    assert!(error_of(&told, "cni").contains("ask for a version that brings it"));
}

/// Others have applied it there: nothing of it is remembered.
#[test]
fn an_image_that_lacks_what_that_of_the_machines_brings_is_not_rolled_out_either() {
    let mut scene = settled();
    scene.brings(OLD, "pvcsi", &inline(&CALICO.replace("calico", "pvcsi")));
    let scene = scene.asks_for(NEW);

    let (_, told) = Paper::of(OLD).follows(&scene.order());

    assert!(error_of(&told, "csi").ends_with("ask for a version that brings it"));
}

#[test]
fn an_old_node_without_a_machine_is_named_when_nothing_else_is_waited_for() {
    let mut scene = settled();
    let order = scene.order();
    let holder = Object {
        side: Side::Guest,
        api_version: "v1".into(),
        kind: "Node".into(),
        namespace: String::new(),
        name: "stray".into(),
    };
    scene.told = Some(Told { left: vec!["something".into()], holder: Some(holder), ..super::all_applied(&order) });

    let decision = scene.decide();

    assert_eq!(decision.waits.len(), 1);
    assert_eq!((decision.waits[0].reason, decision.waits[0].subject.name.as_str()), (Reason::OldNodesLeft, "stray"));
    assert_eq!(decision.waits[0].since, noon());
}
