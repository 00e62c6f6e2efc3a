//! Objects as tables and as bare metadata.

use serde_json::{Value, json};

use super::support::*;

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

fn names(columns: &Value) -> Vec<&str> {
    columns.as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nodes_becomes_the_table_that_kubectl_prints() {
    let server = server();
    server.make("/api/v1/nodes", json!({ "metadata": { "name": "node-1" } })).await.ok();

    let table = server.read_as(TABLE, "/api/v1/nodes").await.ok();

    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(names(&table["columnDefinitions"])[..5], ["Name", "Status", "Roles", "Age", "Version"]);
    let row = &table["rows"][0];
    assert_eq!(
        row["cells"],
        json!(["node-1", "Unknown", "<none>", "0s", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"])
    );
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "node-1");
}

#[tokio::test(start_paused = true)]
async fn a_row_comes_with_as_much_of_its_object_as_is_asked_for() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();

    let none = server.read_as(TABLE, &format!("{CONFIG_MAPS}/a?includeObject=None")).await.ok();
    assert_eq!(none["rows"][0], json!({ "cells": ["a", 1, "0s"], "object": null }));
    let whole = server.read_as(TABLE, &format!("{CONFIG_MAPS}?includeObject=Object")).await.ok();
    assert_eq!(whole["rows"][0]["object"]["data"], json!({ "key": "value" }));
    let wrong = server.read_as(TABLE, &format!("{CONFIG_MAPS}?includeObject=Half")).await;
    assert_eq!(wrong.code, 400);
    assert_eq!(
        wrong.message(),
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Half\": must be 'Metadata', 'Object', 'None', or empty"
    );
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_has_the_columns_that_its_definition_declares() {
    let server = server();
    let mut definition = plan_definition();
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        { "name": "Image", "type": "string", "jsonPath": ".spec.upgrade.image" },
        { "name": "Concurrency", "type": "integer", "jsonPath": ".spec.concurrency", "priority": 1 },
    ]);
    server.make(DEFINITIONS, definition).await.ok();
    server.make(PLANS, plan("a")).await.ok();

    let table = server.read_as(TABLE, PLANS).await.ok();

    assert_eq!(names(&table["columnDefinitions"]), ["Name", "Image", "Concurrency"]);
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "upgrade", 1]));
    assert_eq!(table["metadata"], json!({ "resourceVersion": table["metadata"]["resourceVersion"] }));
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_the_columns_once() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!(
        "{CONFIG_MAPS}?watch=true&includeObject=None&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );

    let mut events = Lines::as_form(&server, TABLE, &path).await;

    let first = events.next().await.unwrap();
    assert_eq!(names(&first["object"]["columnDefinitions"]), ["Name", "Data", "Age"]);
    assert_eq!(first["object"]["rows"][0]["cells"], json!(["a", 1, "0s"]));
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["columnDefinitions"], Value::Null);
    let row = &bookmark["object"]["rows"][0];
    assert_eq!(row["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(row["object"]["metadata"]["annotations"], json!({ "k8s.io/initial-events-end": "true" }));
}

#[tokio::test(start_paused = true)]
async fn clients_can_have_the_metadata_alone() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

    let object = server.read_as(one, &format!("{CONFIG_MAPS}/a")).await.ok();
    assert_eq!((&object["kind"], &object["data"]), (&json!("PartialObjectMetadata"), &Value::Null));
    let objects = server.read_as(list, CONFIG_MAPS).await.ok();
    assert_eq!(objects["items"][0]["metadata"]["name"], "a");
    let refused = server.read_as(one, CONFIG_MAPS).await;
    assert_eq!(refused.code, 406);
    assert_eq!(
        refused.message(),
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
}

#[tokio::test(start_paused = true)]
async fn yaml_is_spoken_where_it_is_asked_for() {
    let server = server();
    let answer = server.read_as("application/yaml", "/api/v1/namespaces/default").await;
    assert_eq!(answer.code, 200);
    assert!(answer.body.as_str().unwrap().contains("kind: Namespace"), "{}", answer.body);
}
