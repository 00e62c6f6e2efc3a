//! A Node whose machine goes is cordoned for a reason that it tells, and not for ever.

use super::super::cordon::failed;
use super::*;

const LARGE: &str = r#"[{"op":"replace","path":"/spec/className","value":"large"}]"#;
const SMALL: &str = r#"[{"op":"replace","path":"/spec/className","value":"small"}]"#;

/// Machines of another class are asked for, and the new one of `a` is there.
fn half_way() -> Scene {
    let mut scene = settled();
    scene.order = order("v1.15.5");
    scene.order.patches.infrastructure = Patches::parse("x", LARGE).unwrap();
    assert_eq!(scene.goes().1, "MachineProvisioning");
    scene.comes_up("a-7");
    scene.members.iter_mut().for_each(|member| member.leader = member.name == "a-7");
    scene
}

/// Carries out what comes next, up to and with the first deed that `is_last`.
fn until(scene: &mut Scene, is_last: &str) -> Vec<String> {
    let mut done = Vec::new();
    while done.last().is_none_or(|last: &String| last != is_last) {
        let Next::Act(deeds) = scene.next() else { panic!("{is_last} does not come: {done:?}") };
        done.push(scene.carry_out(&deeds[0]));
    }
    done
}

fn cordon(scene: &Scene, name: &str) -> (bool, Value) {
    let node = scene.get(Collection::Nodes, name);
    (node["spec"]["unschedulable"] == true, node["metadata"]["annotations"]["drover.dev/leaves"].clone())
}

#[test]
fn a_node_is_cordoned_with_the_reason_before_it_is_drained() {
    let mut scene = half_way();

    let done = until(&mut scene, "drain a");

    assert_eq!(done[done.len() - 2..], ["change Node a", "drain a"]);
    assert_eq!(cordon(&scene, "a"), (true, json!("Machine/default/a goes with update 7")));
}

#[test]
fn the_cordon_of_somebody_else_is_not_called_ours() {
    let mut scene = half_way();
    let mut node = scene.get(Collection::Nodes, "a");
    node["spec"]["unschedulable"] = json!(true);
    scene.put(Collection::Nodes, node);

    let done = until(&mut scene, "drain a");

    assert!(!done.contains(&"change Node a".to_owned()), "{done:?}");
    assert_eq!(cordon(&scene, "a"), (true, Value::Null));
}

#[test]
fn a_machine_that_is_to_stay_after_all_takes_pods_again_and_the_cordon_of_somebody_else_stays() {
    let mut scene = half_way();
    until(&mut scene, "drain a");
    let mut others = scene.get(Collection::Nodes, "b");
    others["spec"]["unschedulable"] = json!(true);
    scene.put(Collection::Nodes, others);

    // What was asked for before is asked for again.
    scene.order.id = "8".into();
    scene.order.patches.infrastructure = Patches::parse("x", SMALL).unwrap();
    scene.drained.clear();
    let (done, end) = scene.goes();

    assert_eq!(end, "done");
    assert_eq!(Scene::machines(done), ["lead a", "drain a-7", "remove a-7", "delete Machine a-7"]);
    assert_eq!((cordon(&scene, "a"), cordon(&scene, "b")), ((false, Value::Null), (true, Value::Null)));
}

#[test]
fn a_machine_that_is_too_many_stays_cordoned_until_it_is_gone() {
    let mut scene = settled();
    scene.order = Order { replicas: Some(1), ..order("v1.15.5") };
    scene.members.iter_mut().for_each(|member| member.leader = member.name == "a");

    let done = until(&mut scene, "remove c");

    let about_c: Vec<&String> = done.iter().filter(|deed| deed.ends_with(" c")).collect();
    assert_eq!(about_c, ["change Node c", "drain c", "remove c"]);
    assert_eq!(cordon(&scene, "c"), (true, json!("Machine/default/c goes with update 7")));
}

#[test]
fn what_a_failed_try_leaves_cordoned_says_what_it_failed_for_once() {
    let mut scene = half_way();
    until(&mut scene, "drain a");

    let notes = scene.look(|view| failed(view, "time is up: cannot remove the member a of etcd"));
    let said: Vec<String> = notes.iter().map(|note| scene.write(note)).collect();

    assert_eq!(said, ["change Node a"]);
    let why = "Machine/default/a goes with update 7: time is up: cannot remove the member a of etcd";
    assert_eq!(cordon(&scene, "a"), (true, json!(why)));
    assert_eq!(scene.look(|view| failed(view, "time is up: cannot remove the member a of etcd")), []);
}

#[test]
fn a_machine_of_an_update_that_was_broken_off_goes_before_another_is_made() {
    let mut scene = half_way();
    scene.order.id = "8".into();
    let huge = LARGE.replace("large", "huge");
    scene.order.patches.infrastructure = Patches::parse("x", &huge).unwrap();

    let (done, end) = scene.goes();

    assert_eq!(end, "MachineProvisioning");
    let expected = ["lead a", "drain a-7", "remove a-7", "delete Machine a-7", "make Machine a-8"];
    assert_eq!(Scene::machines(done), expected, "never more than one too many");
}

#[test]
fn of_two_machines_that_are_both_to_be_replaced_the_one_that_does_not_vote_goes_first() {
    let mut scene = half_way();
    scene.members.retain(|member| member.name != "a");
    scene.order.id = "8".into();
    scene.order.patches.infrastructure = Patches::parse("x", &LARGE.replace("large", "huge")).unwrap();

    let done = Scene::machines(scene.goes().0);

    assert_eq!(done, ["delete Machine a", "make Machine a-8"]);
}
