//! Rancher is raised by the Helm controller, look by look.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const JOB: &str = "helm-install-rancher";

fn runs(version: &str) -> Value {
    json!({
        "apiVersion": "management.cattle.io/v3", "kind": "Setting", "metadata": { "name": "server-version" }, "value": version,
    })
}

/// As Helm keeps it: packed, and as text; the API server makes text of that once more.
fn packed(release: &Value) -> String {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(release.to_string().as_bytes()).unwrap();
    STANDARD.encode(STANDARD.encode(packed.finish().unwrap()))
}

fn release(revision: u32, status: &str, values: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "HelmRelease",
        "metadata": {
            "name": format!("sh.helm.release.v1.rancher.v{revision}"), "namespace": "cattle-system",
            "labels": { "owner": "helm", "name": "rancher", "status": status, "version": revision.to_string() },
        },
        "data": { "release": packed(&json!({ "name": "rancher", "config": values })) },
    })
}

fn chart(more: Value) -> Value {
    let mut chart = json!({
        "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {
            "name": "rancher", "namespace": "kube-system", "resourceVersion": "8", "uid": "uid-chart",
            "labels": { "harvesterhci.io/upgrade": "u" },
            "finalizers": ["wrangler.cattle.io/on-helm-chart-remove", "somebody/else"],
        },
        "spec": { "chart": "http://upgrade-repo-u.harvester-system/harvester-iso/charts/rancher.tgz" },
    });
    json_patch::merge(&mut chart, &more);
    chart
}

fn job(condition: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": JOB, "namespace": "kube-system", "uid": "uid-job" },
        "status": { "conditions": [{ "type": condition, "status": "True", "message": "it has tried often enough" }] },
    })
}

fn pod(exit_code: i32, message: &str, finished: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{JOB}-{finished}"), "namespace": "kube-system",
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": "uid-job", "controller": true }],
        },
        "status": { "containerStatuses": [{ "name": "helm", "lastState": { "terminated": {
            "exitCode": exit_code, "message": message, "finishedAt": format!("2026-01-01T11:{finished}:00Z"),
        }}}]},
    })
}

fn deployment(updated: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "rancher", "namespace": "cattle-system", "generation": 2 },
        "spec": { "replicas": 3 },
        "status": { "observedGeneration": 2, "replicas": 3, "updatedReplicas": updated, "availableReplicas": 3 },
    })
}

/// What is written to anything but the book of components, in words and as it is sent.
fn written(objects: &[Value]) -> Vec<(String, Act)> {
    let next = look(objects, Kind::Manifests, "");
    let of_rancher = writes(&next).iter().filter(|write| write.subject.kind != decision::Kind::ConfigMap);
    of_rancher.map(|write| (write.subject.to_string(), write.act.clone())).collect()
}

fn waited(objects: &[Value]) -> Vec<String> {
    waits(&look(objects, Kind::Manifests, "")).into_iter().map(|(_, sentence)| sentence.to_owned()).collect()
}

#[test]
fn a_rancher_that_is_at_its_version_is_left_alone() {
    assert_eq!(written(&[runs("v2.13.1")]), []);
    assert_eq!(waited(&[runs("v2.13.1")]), [""; 0]);
    assert_eq!(written(&[]), [], "nothing is known of a Rancher");
}

#[test]
fn the_helm_controller_is_asked_with_the_values_of_the_newest_release_that_is_deployed() {
    let values =
        json!({ "hostname": "rancher.local", "rancherImageTag": "v2.12.3", "image": { "tag": "v2.12.3", "pull": 1 } });
    let objects = [
        runs("v2.12.3"),
        release(9, "superseded", json!({ "hostname": "old" })),
        release(10, "deployed", values),
        release(11, "failed", json!({ "hostname": "never" })),
    ];
    let [(subject, Act::Create(chart))] = &written(&objects)[..] else { panic!("{:?}", written(&objects)) };

    assert_eq!(subject, "HelmChart/kube-system/rancher");
    assert_eq!(chart["metadata"]["labels"], json!({ "harvesterhci.io/upgrade": "u" }));
    let spec = &chart["spec"];
    assert_eq!(spec["targetNamespace"], "cattle-system");
    assert_eq!(spec["chart"], "http://upgrade-repo-u.harvester-system/harvester-iso/charts/rancher.tgz");
    assert_eq!(spec["failurePolicy"], "abort", "a change that fails must not uninstall Rancher");
    let values: Value = serde_json::from_str(spec["valuesContent"].as_str().unwrap()).unwrap();
    let image = json!({ "tag": "v2.13.1", "pull": 1 });
    assert_eq!(values, json!({ "hostname": "rancher.local", "rancherImageTag": "v2.13.1", "image": image }));
}

#[test]
fn without_a_release_whose_values_can_be_read_nothing_is_touched() {
    let none = waited(&[runs("v2.12.3"), release(1, "pending-upgrade", json!({}))]);
    assert_eq!(none, ["there is no Helm release cattle-system/rancher that is deployed"]);

    let mut garbled = release(1, "deployed", json!({}));
    garbled["data"]["release"] = json!("@");
    let objects = [runs("v2.12.3"), garbled];
    assert_eq!(written(&objects), []);
    let secret = "Secret/cattle-system/sh.helm.release.v1.rancher.v1";
    let sentence =
        format!("the values of the Helm release cattle-system/rancher cannot be read from {secret}: it is not base64");
    assert_eq!(waited(&objects), [sentence]);
}

#[test]
fn a_job_of_the_helm_controller_that_fails_is_told_with_its_last_words() {
    let objects = [runs("v2.12.3"), chart(json!({})), job("Suspended")];
    assert_eq!(waited(&objects), [format!("Job kube-system/{JOB} raises Rancher to v2.13.1")]);

    let pods = [pod(1, "first", "10"), pod(1, "UPGRADE FAILED: no room", "20"), pod(0, "well", "30")];
    let fails: Vec<Value> = objects.into_iter().chain(pods.clone()).collect();
    let sentence = format!("Job kube-system/{JOB} fails to raise Rancher to v2.13.1: UPGRADE FAILED: no room");
    assert_eq!(waited(&fails), [sentence]);

    let given_up: Vec<Value> = [runs("v2.12.3"), chart(json!({})), job("Failed")].into_iter().chain(pods).collect();
    let sentence = format!("Job kube-system/{JOB} has failed to raise Rancher to v2.13.1: UPGRADE FAILED: no room");
    assert_eq!(waited(&given_up), [sentence]);
    let mute = waited(&[runs("v2.12.3"), chart(json!({})), job("Failed")]);
    assert_eq!(
        mute,
        [format!("Job kube-system/{JOB} has failed to raise Rancher to v2.13.1: it has tried often enough")]
    );
}

#[test]
fn a_controller_that_does_not_begin_is_told_with_what_it_says() {
    let idle = waited(&[runs("v2.12.3"), chart(json!({}))]);
    assert_eq!(idle, ["the Helm controller has not begun to raise Rancher to v2.13.1"]);
    let refused =
        json!({ "status": { "conditions": [{ "type": "Failed", "status": "True", "message": "no such chart" }] } });
    let refused = waited(&[runs("v2.12.3"), chart(refused)]);
    assert_eq!(refused, ["the Helm controller has not begun to raise Rancher to v2.13.1: no such chart"]);
}

#[test]
fn the_rollout_and_the_word_of_rancher_are_waited_for() {
    let with = |updated: i64, says: &str| {
        let objects = [runs(says), chart(json!({})), job("Complete"), deployment(updated)];
        (waited(&objects), written(&objects).len())
    };
    let rolls = "Deployment cattle-system/rancher is not rolled out at v2.13.1".to_owned();
    assert_eq!(with(2, "v2.13.1"), (vec![rolls], 0));
    let silent = format!(
        "Rancher does not say that it is v2.13.1 (setting server-version), after Job kube-system/{JOB} has ended"
    );
    assert_eq!(with(3, "v2.12.3"), (vec![silent], 0));
    assert_eq!(with(3, "v2.13.1"), (vec![], 1));
}

#[test]
fn what_has_done_its_work_is_nobodys_before_it_goes() {
    let done = |chart: Value| vec![runs("v2.13.1"), chart, deployment(3)];
    let managed: Vec<Value> = done(chart(json!({}))).into_iter().chain([job("Complete")]).collect();
    let freed = Act::Patch(json!({ "metadata": {
        "resourceVersion": "8", "annotations": { "helmcharts.helm.cattle.io/unmanaged": "true" },
        "finalizers": ["somebody/else"],
    }}));
    assert_eq!(written(&managed), [("HelmChart/kube-system/rancher".to_owned(), freed)]);

    let unmanaged = chart(json!({ "metadata": { "annotations": { "helmcharts.helm.cattle.io/unmanaged": "true" } } }));
    let with_job: Vec<Value> = done(unmanaged.clone()).into_iter().chain([job("Complete")]).collect();
    let job_gone = (format!("Job/kube-system/{JOB}"), Act::Delete { uid: "uid-job".into() });
    assert_eq!(written(&with_job), [job_gone], "nobody else takes it away");
    let chart_gone = ("HelmChart/kube-system/rancher".to_owned(), Act::Delete { uid: "uid-chart".into() });
    assert_eq!(written(&done(unmanaged)), [chart_gone]);

    let going = chart(json!({ "metadata": { "deletionTimestamp": "2026-01-01T12:00:00Z" } }));
    assert_eq!(waited(&done(going)), ["HelmChart kube-system/rancher is being deleted"]);
}

#[test]
fn a_helm_chart_of_an_earlier_upgrade_is_taken_over_and_that_of_somebody_else_is_not() {
    let deployed = || release(1, "deployed", json!({}));
    let earlier = chart(json!({
        "metadata": { "labels": { "harvesterhci.io/upgrade": "before" } }, "spec": { "chart": "http://before/rancher.tgz" },
    }));
    let written_there = written(&[runs("v2.12.3"), deployed(), earlier]);
    let [(_, Act::Patch(patch))] = &written_there[..] else { panic!("{written_there:?}") };
    assert_eq!(
        (&patch["metadata"]["resourceVersion"], &patch["metadata"]["labels"]["harvesterhci.io/upgrade"]),
        (&json!("8"), &json!("u"))
    );

    let foreign = || chart(json!({ "metadata": { "labels": null } }));
    let objects = [runs("v2.12.3"), deployed(), foreign()];
    assert_eq!(written(&objects), []);
    let sentence = "HelmChart kube-system/rancher is somebody else's, and the Helm controller follows only one";
    assert_eq!(waited(&objects), [sentence]);
    assert_eq!(waited(&[runs("v2.13.1"), foreign()]), [""; 0], "nothing is wanted of it");
}

#[test]
fn a_job_that_is_left_from_an_earlier_try_goes_first() {
    let objects = [runs("v2.12.3"), release(1, "deployed", json!({})), job("Failed")];
    assert_eq!(written(&objects), [(format!("Job/kube-system/{JOB}"), Act::Delete { uid: "uid-job".into() })]);
}
