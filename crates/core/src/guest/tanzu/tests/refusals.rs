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
    let distribution = |full: &str| json!({ "distribution": { "fullVersion": full } });
    let cases = [
        (distribution("v1.16.9+vmware.1-guest.1"), Reason::VersionUnknown, "spec.distribution.fullVersion is v1.16.9"),
        (distribution(further), Reason::VersionRefused, "more than one minor version further"),
        (distribution(lower), Reason::VersionRefused, "which is lower than v1.15.5"),
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
    ];
    for (change, reason, sentence) in cases {
        let mut scene = settled();
        scene.image(further);
        scene.image(lower);
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
fn a_control_plane_does_not_leave_its_workers_too_far_behind() {
    let mut scene = settled().asks_for(NEW);
    scene.change(Collection::Machines, "worker-2", |one| one["spec"]["version"] = json!("1.13.4"));

    assert_eq!(scene.reasons()[0], Reason::WorkersTooOld);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
}
