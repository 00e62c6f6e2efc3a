//! What an owner chooses in `spec.settings` and is kept in the guest: storage classes, the network; and what CoreDNS reads.

use serde_json::json;

use super::super::addons::State;
use super::super::*;
use super::paper::{INVENTORY, Paper, error_of, inline, names};
use super::{CALICO, NEW, OLD, Scene, settled};

const GOLD: &str = "StorageClass/gold";

/// Classes are asked for, of which the management cluster has `gold` and `silver`.
fn asks_for_classes(classes: Value) -> Scene {
    let mut scene = settled();
    for name in ["gold", "silver"] {
        scene.put(
            Collection::StorageClasses,
            json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name } }),
        );
    }
    scene.tkc["spec"]["settings"]["storage"] = classes;
    scene
}

fn standing(scene: &Scene, guest: &mut Paper) -> State {
    guest.follows(&scene.order()).1.standing["storage-classes"].state.clone()
}

#[test]
fn storage_classes_that_are_asked_for_lead_to_those_of_the_same_name_and_one_is_the_default() {
    let scene = asks_for_classes(json!({ "classes": ["silver"], "defaultClass": "gold" }));
    let mut guest = Paper::of(OLD);

    assert_eq!(standing(&scene, &mut guest), State::Applied);

    let gold = guest.get(GOLD);
    assert_eq!(gold["provisioner"], "csi.vsphere.vmware.com");
    assert_eq!(gold["parameters"], json!({ "svStorageClass": "gold" }));
    let default = "storageclass.kubernetes.io/is-default-class";
    assert_eq!(gold["metadata"]["annotations"][default], "true");
    assert_eq!(guest.get("StorageClass/silver")["metadata"]["annotations"][default], Value::Null);
    assert_eq!(guest.follows(&scene.order()).0, [""; 0], "a second time there is nothing to do");
}

#[test]
fn a_storage_class_that_somebody_else_has_made_stays_as_it_is() {
    let scene = asks_for_classes(json!({ "classes": ["gold"] }));
    let mut guest = Paper::of(OLD);
    let theirs = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "gold" }, "provisioner": "theirs" });
    guest.put(theirs);

    assert_eq!(standing(&scene, &mut guest), State::Applied);

    assert_eq!(guest.get(GOLD)["provisioner"], "theirs");
}

#[test]
fn a_storage_class_that_is_not_there_is_named_with_the_field_and_stops_no_add_on() {
    for (asked, field) in
        [(json!({ "classes": ["lead"] }), "classes"), (json!({ "defaultClass": "lead" }), "defaultClass")]
    {
        let scene = asks_for_classes(asked);
        let mut guest = Paper::of(OLD);

        let (done, told) = guest.follows(&scene.order());

        let why = error_of(&told, "storage-classes");
        assert!(why.starts_with(&format!("spec.settings.storage.{field} names \"lead\"")), "{why}");
        assert!(done.contains(&"apply ConfigMap/kube-system/calico".to_owned()), "{done:?}");
    }
    let blind = {
        let mut scene = settled();
        scene.tkc["spec"]["settings"]["storage"] = json!({ "classes": ["lead"] });
        scene
    };
    assert_eq!(
        standing(&blind, &mut Paper::of(OLD)),
        State::Applied,
        "where nobody may look, nothing is said against it"
    );
}

#[test]
fn other_storage_classes_are_news_for_the_guest_and_none_are_none() {
    let mut scene = asks_for_classes(json!({ "classes": ["gold"] }));
    scene.told = Some(super::all_applied(&scene.order()));
    assert!(!scene.decide().asks_guest);

    scene.tkc["spec"]["settings"]["storage"]["classes"] = json!(["gold", "silver"]);

    assert!(scene.decide().asks_guest);
    scene.tkc["spec"]["settings"]["storage"] = Value::Null;
    assert!(scene.order().addons.iter().all(|addon| addon.id != "storage-classes"));
}

#[test]
fn another_network_under_running_pods_is_refused_with_the_field_and_nothing_of_it_is_applied() {
    let mut scene = settled();
    let mut guest = Paper::of(OLD);
    guest.follows(&scene.order());
    scene.brings(OLD, "antrea", &inline(&CALICO.replace("calico", "antrea")));
    scene.tkc["spec"]["settings"] = json!({ "network": { "cni": { "name": "antrea" } } });

    let (done, told) = guest.follows(&scene.order());

    let why = error_of(&told, "cni");
    assert!(why.starts_with("spec.settings.network.cni.name asks for antrea"), "{why}");
    assert!(why.ends_with("set spec.settings.network.cni.name to calico"), "{why}");
    assert!(!done.iter().any(|done| done.contains("antrea")) && !guest.has("ConfigMap/kube-system/antrea"), "{done:?}");
    assert!(!told.again, "nothing passes by itself");
}

#[test]
fn what_core_dns_would_not_understand_is_changed_before_its_image_is() {
    let scene = settled().asks_for(NEW);
    let mut guest = Paper::of(OLD);
    guest.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "coredns", "namespace": "kube-system" },
        "spec": { "template": { "spec": { "containers": [{ "name": "coredns", "image": "old" }] } } },
    }));
    let corefile = |text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "coredns", "namespace": "kube-system" },
            "data": { "Corefile": text },
        })
    };
    guest.put(corefile(".:53 {\n    proxy . /etc/resolv.conf\n}\n"));

    let (done, told) = guest.follows(&scene.order());

    let of_dns: Vec<String> = done.into_iter().filter(|done| done.ends_with("/coredns")).collect();
    let expected = names(&["apply ConfigMap/kube-system/coredns", "apply Deployment/kube-system/coredns"]);
    assert_eq!((of_dns, &told.standing["dns"].state), (expected, &State::Applied));
    let map = guest.get("ConfigMap/kube-system/coredns");
    assert_eq!(map["data"]["Corefile"], ".:53 {\n    forward . /etc/resolv.conf\n}\n");

    guest.put(corefile(".:53 {\n    proxy a.org 10.0.0.1\n    proxy . /etc/resolv.conf\n}\n"));
    let (done, told) = guest.follows(&scene.order());
    assert!(error_of(&told, "dns").starts_with("data.Corefile of ConfigMap/kube-system/coredns: "));
    assert_eq!(done, [""; 0], "the image stays, and {INVENTORY} with it");
}
