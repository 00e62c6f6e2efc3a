//! What the server fills in, checks and keeps apart in built-in kinds.

use serde_json::{Value, json};

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_job_is_completed_with_defaults_and_a_selector_of_its_own() {
    let made = server().make(JOBS, job("upgrade")).await.ok();

    let spec = &made["spec"];
    let uid = &made["metadata"]["uid"];
    for (field, value) in [
        ("parallelism", json!(1)),
        ("completions", json!(1)),
        ("backoffLimit", json!(6)),
        ("suspend", json!(false)),
        ("completionMode", json!("NonIndexed")),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    assert_eq!(spec["selector"], json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } }));
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "upgrade",
        "controller-uid": uid, "job-name": "upgrade",
    });
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    assert_eq!(made["metadata"]["labels"], labels, "a Job without labels has those of its template");
    assert_eq!(spec["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_template_of_a_job_cannot_be_changed_and_its_limit_can() {
    let server = server();
    server.make(JOBS, job("a")).await.ok();
    let path = format!("{JOBS}/a");

    let template = json!({ "spec": { "template": { "spec": { "hostNetwork": true } } } });
    let template = server.merge(&path, template).await;
    let selector = server.merge(&path, json!({ "spec": { "selector": { "matchLabels": { "x": "y" } } } })).await;
    let limit = server.merge(&path, json!({ "spec": { "backoffLimit": 2 } })).await.ok();

    assert_eq!(template.code, 422);
    assert_eq!(template.body["details"]["causes"][0]["field"], "spec.template");
    assert!(template.message().ends_with("field is immutable"));
    assert_eq!(selector.code, 422);
    assert_eq!(limit["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_could_never_run_is_refused() {
    let server = server();
    let mut always = job("a");
    always["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let mut empty = job("a");
    empty["spec"]["template"]["spec"]["containers"] = json!([]);

    let always = server.make(JOBS, always).await;
    let empty = server.make(JOBS, empty).await;

    assert_eq!(always.code, 422);
    assert!(
        always
            .message()
            .contains("spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"")
    );
    assert_eq!(empty.message(), "Job.batch \"a\" is invalid: spec.template.spec.containers: Required value");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_completed_with_defaults() {
    let made = server().make(PODS, pod("a")).await.ok();

    assert_eq!(made["status"], json!({ "phase": "Pending", "qosClass": "BestEffort" }));
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("enableServiceLinks", json!(true)),
    ] {
        assert_eq!(made["spec"][field], value, "{field}");
    }
    let tolerations: Vec<_> = made["spec"]["tolerations"].as_array().unwrap().iter().map(|one| &one["key"]).collect();
    assert_eq!(tolerations, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    assert_eq!(made["spec"]["tolerations"][0]["tolerationSeconds"], 300);
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
}

#[tokio::test(start_paused = true)]
async fn the_spec_of_a_pod_stays_but_for_its_images() {
    let server = server();
    server.make(PODS, pod("a")).await.ok();
    let path = format!("{PODS}/a");
    let image = json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "web:v2" }]).to_string();

    let node = server.merge(&path, json!({ "spec": { "nodeName": "node-1" } })).await;
    let image = server.ask("PATCH", &path, JSON_PATCH, image).await;

    assert_eq!(node.code, 422);
    assert!(node.message().contains("pod updates may not change fields other than"));
    assert_eq!(image.code, 200);
}

#[tokio::test(start_paused = true)]
async fn status_and_the_rest_are_kept_apart() {
    let server = server();
    // With labels of its own: without, its first update is kept even if it changes nothing.
    let mut labelled = job("job");
    labelled["metadata"]["labels"] = json!({ "app": "a" });
    server.make(JOBS, labelled).await.ok();
    server.make(PODS, pod("pod")).await.ok();
    let budget = json!({ "metadata": { "name": "budget" }, "spec": { "maxUnavailable": 1, "selector": {} } });
    server.make("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await.ok();
    let node = json!({ "metadata": { "name": "node" }, "status": { "phase": "Running" } });
    let node = server.make("/api/v1/nodes", node).await.ok();
    assert_eq!(node["status"]["phase"], "Running", "whoever registers a node states its status, too");

    for (path, status) in [
        (format!("{JOBS}/job"), json!({ "active": 1 })),
        (format!("{PODS}/pod"), json!({ "phase": "Running" })),
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets/budget".into(), json!({ "expectedPods": 1 })),
        ("/api/v1/nodes/node".into(), json!({ "phase": "Pending" })),
        ("/api/v1/namespaces/default".into(), json!({ "phase": "Active" })),
    ] {
        let before = server.read(&path).await.ok();
        let ignored = server.merge(&path, json!({ "status": status })).await.ok();
        assert_eq!(ignored, before, "{path}: the main endpoint ignores the status");

        let both = json!({ "status": status, "spec": { "paused": true, "suspend": true, "unschedulable": true } });
        let changed = server.merge(&format!("{path}/status"), both).await.ok();
        assert_eq!(changed["spec"], before["spec"], "{path}: the status endpoint ignores the spec");
        for (field, value) in status.as_object().unwrap() {
            assert_eq!(&changed["status"][field], value, "{path}");
        }
        assert_eq!(changed["metadata"]["generation"], before["metadata"]["generation"], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_kept_encoded_and_keeps_its_type() {
    let server = server();
    let secrets = "/api/v1/namespaces/default/secrets";
    let made = json!({ "metadata": { "name": "a" }, "stringData": { "password": "hi" }, "data": { "other": "aGk=" } });

    let made = server.make(secrets, made).await.ok();
    let retyped = server.merge(&format!("{secrets}/a"), json!({ "type": "example.com/x" })).await;
    let broken = server.make(secrets, json!({ "metadata": { "name": "b" }, "data": { "x": "!" } })).await;

    assert_eq!((made["type"].as_str(), &made["data"]["password"]), (Some("Opaque"), &json!("aGk=")));
    assert!(made.get("stringData").is_none());
    assert_eq!(retyped.code, 422);
    assert_eq!(broken.code, 400);
    assert!(broken.message().ends_with("illegal base64 data at input byte 0"), "{}", broken.message());
}

#[tokio::test(start_paused = true)]
async fn a_budget_cannot_be_stated_twice() {
    let budget = json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": 1, "maxUnavailable": 1 } });
    let answer = server().make("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().ends_with("minAvailable and maxUnavailable cannot be both set"));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_active_and_labelled_with_its_name() {
    let made = server().make("/api/v1/namespaces", json!({ "metadata": { "name": "shop" } })).await.ok();
    assert_eq!(made["status"], json!({ "phase": "Active" }));
    assert_eq!(made["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(made["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "shop" }));
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_and_nulls_of_built_in_kinds_are_dropped() {
    let mut object = config_map("a");
    object["colour"] = json!("red");
    object["binaryData"] = Value::Null;
    let made = server().make(CONFIG_MAPS, object).await.ok();
    assert!(made.get("colour").is_none() && made.get("binaryData").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_is_cordoned_and_uncordoned_without_a_trace() {
    let server = server();
    let before = server.make("/api/v1/nodes", json!({ "metadata": { "name": "n" } })).await.ok();
    let path = "/api/v1/nodes/n";
    let cordon = |on: bool| json!({ "spec": { "unschedulable": on } }).to_string();

    let cordoned = server.ask("PATCH", path, STRATEGIC, cordon(true)).await.ok();
    let uncordoned = server.ask("PATCH", path, STRATEGIC, cordon(false)).await.ok();

    assert_eq!(cordoned["spec"]["unschedulable"], true);
    assert_eq!(uncordoned["spec"], before["spec"]);
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_they_were_last_written() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name },
                "involvedObject": { "kind": "Pod", "name": "a", "namespace": "default" } })
    };
    let server = server();
    server.make(EVENTS, event("old")).await.ok();
    server.make(EVENTS, event("renewed")).await.ok();
    tokio::time::sleep(std::time::Duration::from_secs(1_800)).await;
    server.merge(&format!("{EVENTS}/renewed"), json!({ "count": 2 })).await.ok();
    tokio::time::sleep(std::time::Duration::from_secs(1_801)).await;
    server.make(EVENTS, event("new")).await.ok();

    let listed = server.read(EVENTS).await.ok();
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|event| &event["metadata"]["name"]).collect();
    assert_eq!(names, ["new", "renewed"]);
}
