//! The Job that updates a control plane is the original's, but for its image and what is said more.

use serde_json::{Value, json};

use super::super::*;
use super::{NEW, image_name, settled};

/// What our Job says beside the original: how many machines there are to be, and how long each may take.
const MORE: [&str; 2] = ["--replicas=", "--machine-timeout="];

fn original() -> Value {
    serde_saphyr::from_str(include_str!("../../../../testdata/original-job.yaml")).unwrap()
}

#[test]
fn the_job_is_the_originals_but_for_its_image() {
    let mut scene = settled().asks_for(NEW);
    let pool = json!({ "class": "best-effort-xlarge", "storageClass": "gc-storage-profile" });
    json_patch::merge(&mut scene.tkc["spec"]["topology"]["controlPlane"], &pool);
    scene.goes_on();
    scene.goes_on();

    let mut ours = scene.job().clone();
    let container = &mut ours["spec"]["template"]["spec"]["containers"][0];
    container["args"].as_array_mut().unwrap().retain(|one| !MORE.iter().any(|more| text(one).starts_with(more)));
    let id = text(&ours["metadata"]["annotations"]["upgrade-id"]).to_owned();
    ours["metadata"]["annotations"].as_object_mut().unwrap().remove(drover_api::marks::GUEST);
    for field in ["uid", "resourceVersion"] {
        ours["metadata"].as_object_mut().unwrap().remove(field);
    }
    let pod = ours["spec"]["template"]["spec"].as_object_mut().unwrap();
    pod.remove("serviceAccountName");
    // Nodes of a control plane are found by either label that they have had.
    let affinity = pod.remove("affinity").unwrap();
    let terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].clone();
    let labels: Vec<&str> =
        terms.as_array().unwrap().iter().map(|term| text(&term["matchExpressions"][0]["key"])).collect();
    assert_eq!(labels, ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"]);
    pod["tolerations"].as_array_mut().unwrap().retain(|one| one["key"] != labels[1]);

    // The id and the names of images are of their installation.
    let theirs = original()
        .to_string()
        .replace("1280807", &id)
        .replace("photon-k8sd-v1.16.7-vmware.1-guest.1", &image_name(NEW));
    let mut theirs: Value = serde_json::from_str(&theirs).unwrap();
    theirs["spec"]["template"]["spec"]["containers"][0]["image"] = json!(scene.settings.image);
    // The API server says these where nobody does; the selector is in the affinity.
    for default in ["dnsPolicy", "schedulerName", "nodeSelector"] {
        theirs["spec"]["template"]["spec"].as_object_mut().unwrap().remove(default);
    }
    for default in ["resources", "terminationMessagePath", "terminationMessagePolicy"] {
        theirs["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove(default);
    }
    similar(&ours, &theirs, "");
}

/// Field by field, so that whoever breaks it sees where.
fn similar(ours: &Value, theirs: &Value, at: &str) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                similar(&ours[key], &theirs[key], &format!("{at}.{key}"));
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).enumerate().for_each(|(n, (one, other))| similar(one, other, &format!("{at}[{n}]")));
        }
        _ => assert_eq!(ours, theirs, "{at}"),
    }
}

#[test]
fn a_job_of_the_originals_is_known_as_one_that_is_at_work_and_nothing_is_begun_beside_it() {
    let mut scene = settled().asks_for(NEW);
    scene.put(Collection::Jobs, original());

    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating);
    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
}
