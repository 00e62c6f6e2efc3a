//! Whatever triggers an update is said, field by field, before a machine is touched; and what is said of machines and Nodes.

use serde_json::json;

use super::super::*;
use super::{NEW, OLD, Scene, image_name, settled};
use crate::decision::Act;

/// Until something is written that is not of the TanzuKubernetesCluster itself; what was said by then.
fn said_before_acting(scene: &mut Scene) -> Vec<String> {
    for _ in 0..5 {
        let decision = scene.decide();
        let acts = decision.writes.iter().position(|write| write.object.kind != "TanzuKubernetesCluster");
        let status = decision.writes.iter().position(|write| matches!(write.act, Act::PatchStatus(_)));
        if let Some(acts) = acts {
            let is_said = status.is_some_and(|status| status < acts) || scene.tkc["status"]["differences"].is_array();
            assert!(is_said, "acted on before it is said: {:?}", decision.writes);
            decision.writes[..acts].iter().for_each(|write| scene.perform(write));
            let said = scene.tkc["status"]["differences"].as_array().unwrap();
            return said.iter().map(|one| text(one).to_owned()).collect();
        }
        scene.goes_on();
    }
    panic!("nothing is done about it: {:?}", scene.decide());
}

#[test]
fn another_image_of_the_version_replaces_no_machine_while_theirs_is_there() {
    let mut scene = settled();
    let mut twin = scene.global.get(Collection::Images, &image_name(OLD)).unwrap().clone();
    twin["metadata"]["name"] = json!("another");
    scene.put(Collection::Images, twin);

    scene.goes_on();
    assert_eq!(scene.tkc["status"]["differences"], Value::Null);

    scene.global.forget(Collection::Images, &image_name(OLD));
    scene.goes_on();
    assert!(scene.tkc["status"]["differences"].to_string().contains("→ another"), "{}", scene.tkc["status"]);
}

#[test]
fn every_trigger_is_said_field_by_field_before_anything_is_done_about_it() {
    type Change = fn(&mut Scene);
    let renamed: Change = |scene| {
        let mut image = scene.global.get(Collection::Images, &image_name(OLD)).unwrap().clone();
        scene.global.forget(Collection::Images, &image_name(OLD));
        image["metadata"]["name"] = json!("photon-renamed");
        scene.put(Collection::Images, image);
    };
    let cases: [(&str, Change, &[&str]); 8] = [
        (
            "the distribution",
            |scene| scene.tkc["spec"]["distribution"]["fullVersion"] = json!(NEW),
            &[
                "Machine cp-1: version: v1.15.5+vmware.1 → v1.16.7+vmware.1",
                "MachineDeployment workers: version: 1.15.5+vmware.1 → 1.16.7+vmware.1",
            ],
        ),
        (
            "the class of the control plane",
            |scene| scene.tkc["spec"]["topology"]["controlPlane"]["class"] = json!("large"),
            &["Machine cp-1: className: small → large"],
        ),
        (
            "the class of workers",
            |scene| scene.tkc["spec"]["topology"]["workers"]["class"] = json!("large"),
            &["MachineDeployment workers: className: small → large"],
        ),
        (
            "the storage class of the control plane",
            |scene| scene.tkc["spec"]["topology"]["controlPlane"]["storageClass"] = json!("silver"),
            &["Machine cp-1: storageClass: gold → silver"],
        ),
        (
            "the storage class of workers",
            |scene| scene.tkc["spec"]["topology"]["workers"]["storageClass"] = json!("silver"),
            &["MachineDeployment workers: storageClass: gold → silver"],
        ),
        (
            "another name of the image",
            renamed,
            &[
                "Machine cp-1: imageName: photon-v1.15.5-vmware.1-guest.1 → photon-renamed",
                "MachineDeployment workers: imageName: photon-v1.15.5-vmware.1-guest.1 → photon-renamed",
            ],
        ),
        (
            "defaults of the installation",
            |scene| {
                scene.put(
                    Collection::Defaults,
                    json!({
                        "metadata": { "name": "drover-guest-defaults", "namespace": "vmware-system-tkg" },
                        "data": { "machine": "{ volumes: [{ name: etcd }] }" },
                    }),
                );
            },
            &[
                "Machine cp-1: volumes: none → [{\"name\":\"etcd\"}]",
                "MachineDeployment workers: volumes: none → [{\"name\":\"etcd\"}]",
            ],
        ),
        (
            "the number of machines",
            |scene| scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(3),
            &["control plane: 1 machines → 3"],
        ),
    ];
    for (trigger, change, expected) in cases {
        let mut scene = settled();
        change(&mut scene);

        let said = said_before_acting(&mut scene);

        // Labels of Nodes follow the distribution, and stand beside it.
        let said: Vec<&str> = said.iter().map(String::as_str).filter(|one| !one.contains("node-labels")).collect();
        let of_images = |one: &&&str| one.contains("imageName") && trigger == "the distribution";
        let said: Vec<&str> = said.iter().filter(|one| !of_images(one)).copied().collect();
        assert_eq!(said, expected, "{trigger}");
    }
}

#[test]
fn machines_and_nodes_are_said_by_the_words_of_the_original() {
    let mut scene = settled();
    scene.nodes = Some([("cp-1".to_owned(), true), ("worker-1".to_owned(), false)].into());
    scene.worker("worker-3", "old", false);
    let vm = |scene: &mut Scene, status: Value| {
        scene.change(Collection::Infrastructure, "WCPMachine/cp-1", |one| one["status"] = status);
    };
    scene.goes_on();
    let status = &scene.tkc["status"];
    assert_eq!(
        status["nodeStatus"],
        json!({ "cp-1": "ready", "worker-1": "notready", "worker-2": "unknown", "worker-3": "pending" })
    );
    assert_eq!(status["vmStatus"]["cp-1"], "ready");
    assert_eq!(status["vmStatus"]["worker-1"], "notfound", "nothing stands behind it");

    vm(&mut scene, json!({}));
    scene.goes_on();
    assert_eq!(scene.tkc["status"]["vmStatus"]["cp-1"], "pending");
    vm(&mut scene, json!({ "vmstatus": "poweredon" }));
    scene.goes_on();
    assert_eq!(scene.tkc["status"]["vmStatus"]["cp-1"], "poweredon");
    scene.change(Collection::Infrastructure, "WCPMachine/cp-1", |one| {
        one["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    });
    scene.goes_on();
    assert_eq!(scene.tkc["status"]["vmStatus"]["cp-1"], "deleting");

    scene.nodes = None;
    scene.goes_on();
    assert_eq!(scene.tkc["status"]["nodeStatus"]["cp-1"], "unknown", "nobody has asked, or the guest does not answer");
}

#[test]
fn conditions_say_which_part_is_not_ready_and_why() {
    let condition = |scene: &Scene, kind: &str| {
        let all = scene.tkc["status"]["conditions"].as_array().unwrap();
        let one = all.iter().find(|one| one["type"] == kind).unwrap();
        (text(&one["status"]).to_owned(), one["reason"].as_str().map(str::to_owned))
    };
    let held = |reason: &str| ("False".to_owned(), Some(reason.to_owned()));
    let ready = ("True".to_owned(), None);
    let mut scene = settled();
    scene.goes_on();
    for kind in ["Ready", "ControlPlaneReady", "NodePoolsReady", "AddonsReady"] {
        assert_eq!(condition(&scene, kind), ready, "{kind}");
    }
    assert_eq!(condition(&scene, "Progressing"), held("UpToDate"));

    let mut scene = scene.asks_for(NEW);
    (0..4).for_each(|_| drop(scene.goes_on()));
    assert_eq!(condition(&scene, "ControlPlaneReady"), held("ControlPlaneUpdating"));
    assert_eq!(condition(&scene, "NodePoolsReady"), held("ControlPlaneFirst"));
    assert_eq!(condition(&scene, "AddonsReady"), ready);
    assert_eq!(condition(&scene, "Ready"), held("ControlPlaneUpdating"));
    assert_eq!(condition(&scene, "Progressing"), ("True".to_owned(), Some("ControlPlaneUpdating".to_owned())));

    scene.job_ends("Failed");
    scene.goes_on();
    assert_eq!(condition(&scene, "ControlPlaneReady"), held("ControlPlaneUpdateFailed"));
    assert_eq!(condition(&scene, "Progressing"), held("ControlPlaneUpdateFailed"));
}
