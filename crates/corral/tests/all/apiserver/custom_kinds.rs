//! Kinds that a definition declares.

use serde_json::{Value, json};

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_kind_is_served_as_soon_as_its_definition_is_stored() {
    let server = server();
    assert_eq!(server.read(PLANS).await.code, 404);

    let definition = server.make(DEFINITIONS, plan_definition()).await.ok();

    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let held: Vec<_> =
        conditions.iter().map(|one| (one["type"].as_str().unwrap(), one["status"].as_str().unwrap())).collect();
    assert_eq!(held, [("NamesAccepted", "True"), ("Established", "True")]);
    assert_eq!(definition["status"]["acceptedNames"]["listKind"], "PlanList");
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(server.read(PLANS).await.ok()["kind"], "PlanList");
    let resources = server.read("/apis/example.com/v1").await.ok();
    let names: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["plans", "plans/status"]);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["pl"]));
}

#[tokio::test(start_paused = true)]
async fn objects_are_pruned_completed_and_checked_by_the_schema() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let mut unknown = plan("a");
    unknown["spec"]["colour"] = json!("red");
    unknown["extra"] = json!(1);
    let mut wrong = plan("b");
    wrong["spec"] = json!({ "concurrency": 0 });

    let made = server.make(PLANS, unknown).await.ok();
    let refused = server.make(PLANS, wrong).await;

    assert_eq!(made["spec"], json!({ "concurrency": 1, "upgrade": { "image": "upgrade" } }));
    assert!(made.get("extra").is_none());
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message(),
        "Plan.example.com \"b\" is invalid: [spec.concurrency: Invalid value: 0: spec.concurrency in body should be \
         greater than or equal to 1, spec.upgrade: Required value]"
    );
    let details = &refused.body["details"];
    assert_eq!((details["group"].as_str(), details["kind"].as_str()), (Some("example.com"), Some("Plan")));
}

#[tokio::test(start_paused = true)]
async fn with_a_status_subresource_the_generation_counts_changes_of_the_spec() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let mut with_status = plan("a");
    with_status["status"] = json!({ "applied": 1 });
    let path = format!("{PLANS}/a");

    let made = server.make(PLANS, with_status).await.ok();
    let ignored = server.merge(&path, json!({ "status": { "applied": 2 } })).await.ok();
    let everything = json!({
        "status": { "applied": 3 }, "spec": { "concurrency": 9 }, "metadata": { "labels": { "x": "y" } },
    });
    let status = server.merge(&format!("{path}/status"), everything).await.ok();
    let labelled = server.merge(&path, json!({ "metadata": { "labels": { "x": "y" } } })).await.ok();
    let changed = server.merge(&path, json!({ "spec": { "concurrency": 2 } })).await.ok();

    assert!(made.get("status").is_none());
    assert_eq!(ignored, made);
    assert_eq!(status["status"], json!({ "applied": 3 }));
    assert_eq!(status["spec"]["concurrency"], 1);
    assert!(status["metadata"].get("labels").is_none(), "the status endpoint changes nothing but the status");
    let generations = [&made, &status, &labelled, &changed].map(|object| object["metadata"]["generation"].as_i64());
    assert_eq!(generations, [Some(1), Some(1), Some(1), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn without_a_status_subresource_every_change_outside_metadata_counts() {
    let server = server();
    let mut definition = plan_definition();
    definition["spec"]["versions"][0].as_object_mut().unwrap().remove("subresources");
    server.make(DEFINITIONS, definition).await.ok();
    let mut with_status = plan("a");
    with_status["status"] = json!({ "applied": 1 });
    let path = format!("{PLANS}/a");

    let made = server.make(PLANS, with_status).await.ok();
    let status = server.merge(&path, json!({ "status": { "applied": 2 } })).await.ok();
    let labelled = server.merge(&path, json!({ "metadata": { "labels": { "x": "y" } } })).await.ok();
    let nowhere = server.merge(&format!("{path}/status"), json!({ "status": {} })).await;

    assert_eq!(made["status"], json!({ "applied": 1 }));
    let generations = [&made, &status, &labelled].map(|object| object["metadata"]["generation"].as_i64());
    assert_eq!(generations, [Some(1), Some(2), Some(2)]);
    assert_eq!((nowhere.code, nowhere.message()), (404, "plans.example.com \"a\" not found"));
}

#[tokio::test(start_paused = true)]
async fn every_served_version_shows_the_same_objects_under_its_own_name() {
    let server = server();
    let mut definition = plan_definition();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    definition["spec"]["versions"].as_array_mut().unwrap().push(beta);
    server.make(DEFINITIONS, definition).await.ok();
    let beta = PLANS.replace("/v1/", "/v1beta1/");
    let mut object = plan("a");
    object["apiVersion"] = json!("example.com/v1beta1");
    let mut watch = Lines::of(&server, &format!("{beta}?watch=true")).await;

    server.make(&beta, object).await.ok();
    let patched = server.merge(&format!("{beta}/a"), json!({ "spec": { "concurrency": 5 } })).await.ok();

    assert_eq!(patched["apiVersion"], "example.com/v1beta1");
    assert_eq!(server.read(&format!("{PLANS}/a")).await.ok()["apiVersion"], "example.com/v1");
    assert_eq!(server.read(&beta).await.ok()["items"][0]["apiVersion"], "example.com/v1beta1");
    assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], "example.com/v1beta1");
    let group = server.read("/apis/example.com").await.ok();
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_its_objects_with_it() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    server.make(PLANS, plan("a")).await.ok();
    let mut watch = Lines::of(&server, &format!("{PLANS}?watch=true")).await;
    assert_eq!(watch.event().await, "ADDED a");
    let path = format!("{DEFINITIONS}/plans.example.com");

    server.remove(&path).await.ok();

    assert_eq!(server.read(&path).await.code, 404);
    assert_eq!(server.read(PLANS).await.code, 404);
    assert_eq!(watch.event().await, "end");
    server.make(DEFINITIONS, plan_definition()).await.ok();
    assert_eq!(server.read(PLANS).await.ok()["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_waits_for_objects_that_something_keeps() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let mut kept = plan("a");
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    server.make(PLANS, kept).await.ok();
    let path = format!("{DEFINITIONS}/plans.example.com");

    let going = server.remove(&path).await.ok();
    assert_eq!(server.read(&path).await.code, 200);
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    server.merge(&format!("{PLANS}/a"), json!({ "metadata": { "finalizers": null } })).await.ok();

    assert_eq!(server.read(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_is_followed_at_once() {
    let server = server();
    let made = server.make(DEFINITIONS, plan_definition()).await.ok();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour";
    let patch = json!([{ "op": "add", "path": schema, "value": { "type": "string" } }]).to_string();
    let changed = server.ask("PATCH", &format!("{DEFINITIONS}/plans.example.com"), JSON_PATCH, patch).await.ok();
    let mut coloured = plan("a");
    coloured["spec"]["colour"] = json!("red");

    let object = server.make(PLANS, coloured).await.ok();

    assert_eq!(object["spec"]["colour"], "red");
    assert_eq!((&made["metadata"]["generation"], &changed["metadata"]["generation"]), (&json!(1), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_be_served_is_refused() {
    let server = server();
    let mut misnamed = plan_definition();
    misnamed["metadata"]["name"] = json!("plans");
    let mut unstored = plan_definition();
    unstored["spec"]["versions"][0]["storage"] = json!(false);
    let mut schemaless = plan_definition();
    schemaless["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");

    for (definition, why) in [
        (misnamed, "metadata.name: Invalid value: \"plans\": must be spec.names.plural+\".\"+spec.group"),
        (unstored, "must have exactly one version marked as storage version"),
        (schemaless, "spec.versions[0].schema.openAPIV3Schema: Required value"),
    ] {
        let answer = server.make(DEFINITIONS, definition).await;
        assert_eq!(answer.code, 422);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_cannot_take_the_place_of_a_built_in_kind() {
    let server = server();
    let mut definition = plan_definition();
    definition["metadata"]["annotations"] = json!({ "api-approved.kubernetes.io": "by this test" });
    let text = definition.to_string().replace("example.com", "coordination.k8s.io").replace("plans", "leases");
    server.ask("POST", DEFINITIONS, JSON, text.replace("\"Plan\"", "\"Lease\"")).await.ok();
    let lease = json!({ "metadata": { "name": "a" }, "spec": { "holderIdentity": "me" } });
    server.make("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).await.ok();

    server.remove(&format!("{DEFINITIONS}/leases.coordination.k8s.io")).await.ok();

    let kept = server.read("/apis/coordination.k8s.io/v1/namespaces/default/leases/a").await.ok();
    assert_eq!(kept["spec"]["holderIdentity"], "me");
}

#[tokio::test(start_paused = true)]
async fn every_definition_that_drover_brings_is_served() {
    let server = server();
    for definition in drover_api::crds::all() {
        let name = definition.metadata.name.clone().unwrap();
        let stored = server.make(DEFINITIONS, json!(definition)).await.ok();
        let conditions = stored["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().all(|one| one["status"] == "True"), "{name}: {conditions:?}");
    }
    let upgrade = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": { "name": "hvst-upgrade-1" },
        "spec": { "version": "v1.7.0" }, "status": { "previousVersion": "v1.6.0" },
    });
    let made = server.make("/apis/harvesterhci.io/v1beta1/namespaces/default/upgrades", upgrade).await.ok();
    assert_eq!(made["spec"]["logEnabled"], true);
    assert_eq!(made["status"], Value::Null, "its status is written apart from the rest");
}
