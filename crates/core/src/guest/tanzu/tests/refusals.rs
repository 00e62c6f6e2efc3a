//! What is asked for and cannot be done, or not yet.

use serde_json::json;

use super::super::*;
use super::{NEW, image_name, settled};

#[test]
fn the_beginning_of_a_version_stands_for_the_newest_that_there_is() {
    let mut scene = settled();
    for version in ["v1.16.7+vmware.2-guest.1", "v1.16.7+vmware.10-guest.1", "v1.16.70+vmware.1-guest.1"] {
        scene.image(version);
    }
    scene.tkc["spec"]["distribution"] = json!({ "version": "v1.16.7" });

    assert_eq!(scene.goes_on(), ["write down the version that is meant"]);
    assert_eq!(scene.tkc["spec"]["distribution"]["fullVersion"], "v1.16.7+vmware.10-guest.1");
}

#[test]
fn what_cannot_be_done_is_refused_with_the_field_and_a_remedy() {
    let further = "v1.17.2+vmware.1-guest.1";
    let lower = "v1.15.1+vmware.1-guest.1";
    let (lower_build, lower_guest) = ("v1.15.5+vmware.0-guest.1", "v1.15.5+vmware.1-guest.0");
    let another_major = "v2.16.0+vmware.1-guest.1";
    let distribution = |full: &str| json!({ "distribution": { "fullVersion": full } });
    let cases = [
        (distribution("v1.16.9+vmware.1-guest.1"), Reason::VersionUnknown, "spec.distribution.fullVersion is v1.16.9"),
        (distribution(further), Reason::VersionRefused, "more than one minor version further"),
        (distribution(lower), Reason::VersionRefused, "which is lower than v1.15.5"),
        (distribution(lower_build), Reason::VersionRefused, "which is lower than v1.15.5+vmware.1-guest.1"),
        (distribution(lower_guest), Reason::VersionRefused, "which is lower than v1.15.5+vmware.1-guest.1"),
        (distribution(another_major), Reason::VersionRefused, "more than one minor version further"),
        (
            json!({ "distribution": { "fullVersion": NEW, "version": "v1.15.5" } }),
            Reason::VersionUnknown,
            "spec.distribution.version is v1.15.5",
        ),
        (
            json!({ "distribution": { "fullVersion": null, "version": "v1.99" } }),
            Reason::VersionUnknown,
            "no image is of a version like it",
        ),
        (json!({ "distribution": { "fullVersion": null } }), Reason::VersionUnknown, "neither"),
        (
            json!({ "topology": { "controlPlane": { "count": 2 } } }),
            Reason::CountRefused,
            "spec.topology.controlPlane.count is 2",
        ),
        (
            json!({ "topology": { "controlPlane": { "count": 0 } } }),
            Reason::CountRefused,
            "spec.topology.controlPlane.count is 0",
        ),
        (
            json!({ "topology": { "controlPlane": { "count": -1 } } }),
            Reason::CountRefused,
            "spec.topology.controlPlane.count is -1",
        ),
    ];
    for (change, reason, sentence) in cases {
        let mut scene = settled();
        for version in [further, lower, lower_build, lower_guest, another_major] {
            scene.image(version);
        }
        json_patch::merge(&mut scene.tkc["spec"], &change);

        let wait = scene.decide().waits.remove(0);
        assert_eq!(wait.reason, reason, "{change}");
        assert!(wait.sentence.contains(sentence), "{}", wait.sentence);
        assert!(wait.remedy.is_some(), "{change}");
        assert_eq!(scene.goes_on(), ["publish how far a cluster is"], "{change}");
        assert_eq!(scene.phase(), "updateFailed", "{change}");
    }
}

#[test]
fn an_image_that_does_not_tell_what_it_holds_is_named() {
    let mut scene = settled().asks_for(NEW);
    let mut image = scene.global.get(Collection::Images, &image_name(NEW)).unwrap().clone();
    image["metadata"]["annotations"]["vmware-system.guest.kubernetes.distribution.image.version"] = json!("{ broken");
    scene.put(Collection::Images, image);

    let wait = scene.decide().waits.remove(0);

    assert_eq!((wait.reason, wait.subject.name.as_str()), (Reason::ImageInvalid, "photon-v1.16.7-vmware.1-guest.1"));
}

#[test]
fn a_class_that_is_not_there_is_refused_before_a_machine_is_made_by_it_and_only_where_one_is() {
    let class = |name: &str| json!({ "kind": "VirtualMachineClass", "metadata": { "name": name } });
    let storage = |name: &str| json!({ "kind": "StorageClass", "metadata": { "name": name } });
    let mut scene = settled();
    scene.put(Collection::Classes, class("large"));
    scene.put(Collection::StorageClasses, storage("gold"));
    assert_eq!(scene.reasons(), [], "what runs stays");

    scene.tkc["spec"]["topology"]["workers"]["storageClass"] = json!("silver");
    scene.tkc["spec"]["topology"]["controlPlane"]["class"] = json!("large");
    let said = |scene: &super::Scene| scene.decide().waits.remove(0);
    assert_eq!(said(&scene).reason, Reason::ClassMissing);
    assert!(said(&scene).sentence.starts_with("spec.topology.workers.class is \"small\""));
    assert!(said(&scene).remedy.unwrap().contains("kubectl get virtualmachineclasses"));
    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    assert_eq!(scene.phase(), "updateFailed");

    scene.put(Collection::Classes, class("small"));
    assert!(said(&scene).sentence.contains("there is no StorageClass of that name"));
    scene.put(Collection::StorageClasses, storage("silver"));
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}

/// What the annotation says reaches every machine of every cluster.
#[test]
fn an_image_that_tells_what_no_machine_could_run_is_refused_with_the_field() {
    let cases = [
        (
            "/distribution/version",
            json!("v1.16.8+vmware.1-guest.1"),
            "distribution.version is \"v1.16.8+vmware.1-guest.1\", and spec.productInfo says v1.16.7+vmware.1-guest.1",
        ),
        ("/kubernetes/version", json!("newest"), "kubernetes.version is \"newest\", which is no version of Kubernetes"),
        ("/kubernetes/version", json!(""), "kubernetes.version is \"\""),
        (
            "/kubernetes/imageRepository",
            json!(""),
            "kubernetes.imageRepository is \"\", which is no repository of images",
        ),
        ("/etcd/imageRepository", json!("vmware/"), "etcd.imageRepository is \"vmware/\""),
        ("/etcd/imageRepository", json!("Registry.Example/vmware"), "etcd.imageRepository is"),
        ("/coredns/imageRepository", json!("registry.example:/vmware"), "coredns.imageRepository is"),
        ("/coredns/imageRepository", json!("vmware images"), "coredns.imageRepository is"),
        (
            "/etcd/version",
            json!("v3.3.15+vmware.6"),
            "etcd.version is \"v3.3.15+vmware.6\", which is no tag of an image: tags have _ instead of +",
        ),
        ("/etcd/version", json!(""), "etcd.version is \"\", which is no tag of an image"),
        ("/coredns/version", json!("-1.6"), "coredns.version is \"-1.6\", which is no tag of an image"),
        ("/coredns", json!({ "version": "v1.6.2" }), "missing field `imageRepository`"),
        ("/etcd", json!(null), "invalid type: null"),
    ];
    for (field, value, said) in cases {
        let mut scene = settled().asks_for(NEW);
        scene.tells(NEW, |parts| *parts.pointer_mut(field).unwrap() = value.clone());

        let wait = scene.decide().waits.remove(0);
        assert_eq!(wait.reason, Reason::ImageInvalid, "{field}: {value}");
        assert!(wait.sentence.contains(said), "{}", wait.sentence);
        assert_eq!(scene.goes_on(), ["publish how far a cluster is"], "{field}: {value}");
    }
}

#[test]
fn what_registries_call_repositories_and_tags_is_taken() {
    for repository in ["vmware", "localhost:5000/vmware.io", "registry.example/a/b_c", "registry.example:443"] {
        let mut scene = settled().asks_for(NEW);
        scene.tells(NEW, |parts| {
            parts["etcd"]["imageRepository"] = json!(repository);
            // Not everybody says which distribution it is.
            parts.as_object_mut().unwrap().remove("distribution");
        });
        assert!(scene.decide().waits.iter().all(|wait| wait.reason != Reason::ImageInvalid), "{repository}");
    }
}

#[test]
fn what_workers_are_made_of_is_named_where_it_is_missing_with_what_to_do() {
    let gone =
        |collection: Collection, name: &'static str| move |scene: &mut super::Scene| scene.own.forget(collection, name);
    type Change = Box<dyn Fn(&mut super::Scene)>;
    let cases: [(Change, Reason, &str); 4] = [
        (
            Box::new(gone(Collection::MachineTemplates, "machines-1")),
            Reason::MachineIncomplete,
            "bring WCPMachineTemplate machines-1 back",
        ),
        (
            Box::new(gone(Collection::ConfigTemplates, "joins-1")),
            Reason::MachineIncomplete,
            "bring KubeadmConfigTemplate joins-1 back",
        ),
        (
            Box::new(gone(Collection::Deployments, "workers")),
            Reason::WorkersUnclear,
            "carries the label cluster.x-k8s.io/cluster-name=my-tkc",
        ),
        (
            Box::new(|scene: &mut super::Scene| {
                scene.change(Collection::MachineTemplates, "machines-1", |one| {
                    one["spec"]["template"]["spec"] = json!("none")
                });
            }),
            Reason::MachineIncomplete,
            "point the MachineDeployment at a template",
        ),
    ];
    for (change, reason, remedy) in cases {
        let mut scene = settled().asks_for(NEW);
        change(&mut scene);
        scene.goes_on();
        let waits = scene.decide().waits;
        let wait = waits.iter().find(|wait| wait.reason == reason).unwrap_or_else(|| panic!("{reason}: {waits:?}"));
        assert!(wait.remedy.as_ref().unwrap().contains(remedy), "{wait:?}");
    }
}

#[test]
fn a_control_plane_does_not_leave_its_workers_too_far_behind() {
    let mut scene = settled().asks_for(NEW);
    scene.change(Collection::Machines, "worker-2", |one| one["spec"]["version"] = json!("1.13.4"));

    assert_eq!(scene.reasons()[0], Reason::WorkersTooOld);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
}
