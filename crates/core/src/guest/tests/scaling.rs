//! A control plane that is made larger or smaller, one machine at a time.

use super::*;

/// As it is asked for, but for the number.
fn asked_for(count: usize) -> Scene {
    let mut scene = settled();
    scene.order = Order { replicas: Some(count), ..order("v1.15.5") };
    scene
}

fn made(done: Vec<String>) -> String {
    let done = Scene::machines(done);
    let [only] = done.as_slice() else { panic!("one machine at a time: {done:?}") };
    only.strip_prefix("make Machine ").unwrap().to_owned()
}

#[test]
fn one_machine_after_another_comes_and_each_has_to_be_well_before_the_next() {
    let mut scene = asked_for(5);

    let (done, waits) = scene.goes();
    let fourth = made(done);
    assert!(fourth.starts_with("my-tkc-control-plane-"), "{fourth}");
    assert_eq!(waits, "MachineProvisioning");
    scene.comes_up(&fourth);
    let (done, _) = scene.goes();
    let fifth = made(done);
    scene.comes_up(&fifth);

    assert_eq!(scene.goes().1, "done");
    assert_eq!(scene.members.len(), 5);
    for name in [fourth, fifth] {
        let machine = scene.get(Collection::Machines, &name);
        let annotations = &machine["metadata"]["annotations"];
        assert_eq!(annotations["upgrade.cluster-api.vmware.com/machine-name-base"], name.as_str());
        assert_eq!(annotations["upgrade.cluster-api.vmware.com/id"], Value::Null, "the mark is gone in the end");
        assert_eq!(scene.get(Collection::Configs, &name)["spec"]["initConfiguration"], Value::Null, "it joins");
    }
}

#[test]
fn whoever_begins_anew_makes_no_machine_twice() {
    let mut scene = asked_for(5);
    let fourth = made(scene.goes().0);

    assert_eq!(scene.goes(), (Vec::new(), "MachineProvisioning".into()));
    assert_eq!(scene.seen.all(Collection::Machines).count(), 4);
    assert!(scene.has(Collection::Machines, &fourth));
}

#[test]
fn one_machine_after_another_goes_leadership_first_and_the_certificates_stay() {
    let mut scene = asked_for(1);
    scene.members.iter_mut().for_each(|member| member.leader = member.name == "c");

    let (done, end) = scene.goes();

    assert_eq!(
        Scene::machines(done),
        ["lead a", "drain c", "remove c", "delete Machine c", "drain b", "remove b", "delete Machine b"]
    );
    assert_eq!(end, "done");
    let owners = scene.get(Collection::Secrets, "my-tkc-ca")["metadata"]["ownerReferences"].clone();
    assert_eq!((&owners[0]["uid"], &owners[1]["name"]), (&json!("cluster"), &json!("a")));
}

#[test]
fn a_machine_that_goes_need_not_be_well() {
    let mut scene = asked_for(5);
    let fourth = made(scene.goes().0);
    scene.order.replicas = Some(3);

    assert_eq!(Scene::machines(scene.goes().0), [format!("delete Machine {fourth}")]);
    assert_eq!(scene.goes().1, "done");
}

#[test]
fn machines_that_others_made_and_that_joined_with_what_is_asked_for_stay() {
    let mut scene = asked_for(1);
    let set = |path: &str, value: &str| json!({ "op": "replace", "path": path, "value": value });
    scene.order.patches.kubeadm = vec![set("/unknown", "kept"), set("/kubernetesVersion", "v1.15.5")];

    let (done, end) = scene.goes();

    assert_eq!((Scene::machines(done).iter().filter(|one| one.starts_with("make")).count(), end.as_str()), (0, "done"));
    let mut scene = asked_for(3);
    scene.order.patches.kubeadm = vec![set("/unknown", "another")];
    assert_eq!(made(scene.goes().0), "a-7");
}

#[test]
fn a_machine_goes_only_if_etcd_can_do_without_it() {
    let mut scene = asked_for(1);
    scene.members[1].healthy = false;

    assert_eq!(scene.goes().1, "QuorumAtRisk");
    assert_eq!(scene.members.len(), 3);
}

#[test]
fn machines_are_replaced_before_their_number_changes() {
    let mut scene = settled();
    scene.order = Order { replicas: Some(5), ..order("v1.16.7") };

    assert_eq!(made(scene.goes().0), "a-7");
}

#[test]
fn an_even_number_is_refused() {
    let even = Order { replicas: Some(2), ..order("v1.15.5") };

    assert_eq!(even.check(), Err(OrderError::Replicas(2)));
}
