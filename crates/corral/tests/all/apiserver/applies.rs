//! Server-side apply, and who manages which field.

use serde_json::{Value, json};

use super::support::*;

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(server: &impl Http, path: &str, query: &str, config: Value) -> Answer {
    server.ask("PATCH", &format!("{path}?{query}"), APPLY, config.to_string()).await
}

fn config(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

/// `manager operation fields` of each entry.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let shown = |entry: &Value| {
        format!("{} {} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap(), entry["fieldsV1"])
    };
    entries.iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_an_object_and_manages_what_it_states() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");

    let made = apply(&server, &path, "fieldManager=one", config(json!({ "x": "1" }))).await;

    assert_eq!(made.code, 201);
    assert_eq!(managers(&made.body), ["one Apply {\"f:data\":{\"f:x\":{}}}"]);
}

#[tokio::test(start_paused = true)]
async fn a_field_of_somebody_else_is_a_conflict_unless_it_is_forced() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    apply(&server, &path, "fieldManager=one", config(json!({ "x": "1", "y": "1" }))).await.ok();

    let refused = apply(&server, &path, "fieldManager=two", config(json!({ "x": "2" }))).await;
    assert_eq!(refused.code, 409);
    assert_eq!(refused.message(), "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    assert_eq!(refused.body["details"]["causes"][0]["field"], ".data.x");

    let forced = apply(&server, &path, "fieldManager=two&force=true", config(json!({ "x": "2" }))).await.ok();
    assert_eq!(forced["data"], json!({ "x": "2", "y": "1" }));
    assert_eq!(managers(&forced), ["one Apply {\"f:data\":{\"f:y\":{}}}", "two Apply {\"f:data\":{\"f:x\":{}}}"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_applied_goes_unless_somebody_else_manages_it() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    apply(&server, &path, "fieldManager=one", config(json!({ "x": "1", "y": "1" }))).await.ok();
    apply(&server, &path, "fieldManager=two", config(json!({ "y": "1" }))).await.ok();

    let left = apply(&server, &path, "fieldManager=one", config(json!({}))).await.ok();

    assert_eq!(left["data"], json!({ "y": "1" }));
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_writes_nothing() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    let first = apply(&server, &path, "fieldManager=one", config(json!({ "x": "1" }))).await.ok();
    tokio::time::advance(std::time::Duration::from_secs(60)).await;

    let second = apply(&server, &path, "fieldManager=one", config(json!({ "x": "1" }))).await.ok();

    assert_eq!(second, first);
}

#[tokio::test(start_paused = true)]
async fn an_update_takes_the_fields_that_it_changes() {
    let server = server();
    server.make(&format!("{CONFIG_MAPS}?fieldManager=maker"), config(json!({ "x": "1", "y": "1" }))).await.ok();

    let changed = server.merge(&format!("{CONFIG_MAPS}/a?fieldManager=other"), json!({ "data": { "x": "2" } })).await;

    assert_eq!(
        managers(&changed.ok()),
        ["maker Update {\"f:data\":{\".\":{},\"f:y\":{}}}", "other Update {\"f:data\":{\"f:x\":{}}}"]
    );
}

#[tokio::test(start_paused = true)]
async fn managers_are_forgotten_on_request_and_come_back_with_the_first_apply() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    server.make(CONFIG_MAPS, config(json!({ "x": "1" }))).await.ok();

    let reset = server.merge(&path, json!({ "metadata": { "managedFields": [] } })).await.ok();
    assert!(reset["metadata"].get("managedFields").is_none());

    let applied = apply(&server, &path, "fieldManager=one", config(json!({ "x": "2" }))).await;
    assert_eq!(
        applied.message(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_of_custom_kinds_are_merged_as_their_schema_says() {
    let server = server();
    let mut definition = plan_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": { "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string" }, "size": { "type": "integer" },
            } },
        },
        "upgrade": { "type": "object" },
    });
    server.make(DEFINITIONS, definition).await.ok();
    let path = format!("{PLANS}/p");
    let plan = |parts: Value| {
        json!({ "apiVersion": "example.com/v1", "kind": "Plan", "metadata": { "name": "p" },
                "spec": { "upgrade": {}, "parts": parts } })
    };
    apply(&server, &path, "fieldManager=one", plan(json!([{ "name": "a", "size": 1 }]))).await.ok();

    let both = apply(&server, &path, "fieldManager=two", plan(json!([{ "name": "b", "size": 2 }]))).await.ok();
    let twice = apply(&server, &path, "fieldManager=two", plan(json!([{ "name": "b" }, { "name": "b" }]))).await;

    assert_eq!(both["spec"]["parts"], json!([{ "name": "a", "size": 1 }, { "name": "b", "size": 2 }]));
    assert_eq!(twice.code, 500);
    assert!(twice.message().ends_with(".spec.parts: duplicate entries for key [name=\"b\"]"), "{}", twice.message());
}

#[tokio::test(start_paused = true)]
async fn fields_that_stand_twice_are_refused_if_the_client_insists() {
    let server = server();
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;

    let strict = server.ask("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), JSON, body).await;
    let lenient = server.ask("POST", CONFIG_MAPS, JSON, body).await;

    assert_eq!(strict.code, 400);
    assert!(strict.message().ends_with("strict decoding error: duplicate field \"data.k\""), "{}", strict.message());
    assert_eq!(lenient.ok()["data"]["k"], "2");
}
