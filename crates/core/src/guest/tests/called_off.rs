//! An update that is called off replaces what it has made, and nothing else.

use super::*;

const IMAGE: &str = r#"{"op":"replace","path":"/dns/imageTag","value":"v1"}"#;
const FLAG: &str = r#"{"op":"replace","path":"/apiServer/profiling","value":"false"}"#;
const NO_FLAG: &str = r#"{"op":"remove","path":"/apiServer/profiling"}"#;

fn asks(scene: &mut Scene, id: &str, class: &str, kubeadm: &[&str]) {
    let class = json!([{ "op": "replace", "path": "/spec/className", "value": class }]);
    scene.order = Order { id: id.into(), ..order("v1.15.5") };
    scene.order.patches.infrastructure = Patches::parse("x", &class.to_string()).unwrap();
    scene.order.patches.kubeadm = Patches::parse("x", &format!("[{}]", kubeadm.join(","))).unwrap();
    scene.drained.clear();
}

fn configuration(scene: &Scene) -> Value {
    cluster_configuration(&scene.get(Collection::ConfigMaps, "kubeadm-config")).unwrap()
}

/// Small machines, which have joined with this image of CoreDNS.
fn small() -> Scene {
    let mut scene = settled();
    let mut map = scene.get(Collection::ConfigMaps, "kubeadm-config");
    let text = map["data"]["ClusterConfiguration"].as_str().unwrap();
    map["data"]["ClusterConfiguration"] = json!(format!("{text}dns:\n  imageTag: v1\n"));
    scene.put(Collection::ConfigMaps, map);
    asks(&mut scene, "6", "small", &[IMAGE]);
    assert_eq!(Scene::machines(scene.goes().0), [""; 0], "they are as they are asked for");
    scene
}

#[test]
fn machines_that_are_as_they_are_asked_for_again_stay() {
    let mut scene = small();
    asks(&mut scene, "7", "large", &[IMAGE]);
    assert_eq!(scene.goes().1, "MachineProvisioning");
    scene.comes_up("a-7");
    scene.goes();
    scene.comes_up("b-7");

    asks(&mut scene, "8", "small", &[IMAGE]);
    let (done, waits) = scene.goes();

    assert_eq!(
        Scene::machines(done),
        ["drain b-7", "remove b-7", "delete Machine b-7", "make Machine a-8"],
        "b and c have not been replaced"
    );
    assert_eq!(waits, "MachineProvisioning");
    scene.comes_up("a-8");
    let (done, end) = scene.goes();
    assert_eq!(Scene::machines(done), ["lead a-8", "drain a-7", "remove a-7", "delete Machine a-7"]);
    assert_eq!(end, "done");
    for name in ["a-8", "b", "c"] {
        let marks = scene.get(Collection::Machines, name)["metadata"]["annotations"].clone();
        assert_eq!(marks["upgrade.cluster-api.vmware.com/id"], Value::Null, "{name}");
    }
}

#[test]
fn what_the_guest_was_told_is_put_right_although_no_machine_differs() {
    let mut scene = small();
    asks(&mut scene, "7", "small", &[IMAGE, r#"{"op":"add","path":"/apiServer","value":{}}"#, FLAG]);
    let Next::Act(marks) = scene.next() else { panic!("it does not begin") };
    marks.iter().for_each(|mark| drop(scene.carry_out(mark)));
    let Next::Act(told) = scene.next() else { panic!("it does not tell the guest") };
    scene.carry_out(&told[0]);
    assert_eq!(configuration(&scene)["apiServer"]["profiling"], "false");

    asks(&mut scene, "8", "small", &[IMAGE, NO_FLAG]);
    let (done, end) = scene.goes();

    assert_eq!((Scene::machines(done), end.as_str()), (Vec::new(), "done"));
    assert_eq!(configuration(&scene)["apiServer"], json!({}));
    let marks = scene.get(Collection::Machines, "a")["metadata"]["annotations"].clone();
    let remembered: Value = serde_json::from_str(marks["drover.dev/generated"].as_str().unwrap()).unwrap();
    assert_eq!(remembered["cluster"], json!({ "/dns/imageTag": "v1" }), "a flag that was never there is forgotten");
    assert_eq!(scene.goes(), (Vec::new(), "done".into()));
}

#[test]
fn a_machine_whose_member_of_etcd_was_removed_does_not_stay() {
    let mut scene = small();
    asks(&mut scene, "7", "large", &[IMAGE]);
    scene.goes();
    scene.comes_up("a-7");
    scene.members.iter_mut().for_each(|member| member.leader = member.name == "a-7");
    // It dies before the Machine is deleted.
    while scene.members.iter().any(|member| member.name == "a") {
        let Next::Act(deeds) = scene.next() else { panic!("a does not go") };
        scene.carry_out(&deeds[0]);
    }

    asks(&mut scene, "8", "small", &[IMAGE]);
    let (done, waits) = scene.goes();

    assert_eq!(Scene::machines(done), ["delete Machine a", "make Machine a-8"]);
    assert_eq!(waits, "MachineProvisioning");
}

#[test]
fn where_another_tool_has_begun_and_nothing_is_remembered_every_machine_is_replaced() {
    let mut scene = small();
    for name in ["a", "b", "c"] {
        let mut machine = scene.get(Collection::Machines, name);
        machine["metadata"]["annotations"] = json!({ "upgrade.cluster-api.vmware.com/id": "5" });
        scene.put(Collection::Machines, machine);
    }

    for name in ["a-6", "b-6", "c-6"] {
        assert_eq!(scene.goes().1, "MachineProvisioning", "it may have told the guest of another configuration");
        scene.comes_up(name);
    }
    assert_eq!(scene.goes().1, "done");
}
