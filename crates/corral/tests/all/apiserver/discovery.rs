//! What clients can find out before they act.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Discovery};

use super::support::*;

#[tokio::test(start_paused = true)]
async fn the_server_says_that_it_is_well_and_which_release_it_is_like() {
    let server = server();
    for path in ["/readyz", "/healthz", "/livez", "/readyz?verbose"] {
        assert_eq!(server.read(path).await.body, "ok");
    }
    assert_eq!(server.read("/version").await.ok()["gitVersion"], "v1.34.4");
    assert_eq!(server.ask("POST", "/version", JSON, "{}").await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn groups_and_resources_are_listed() {
    let server = server();
    let groups = server.read("/apis").await.ok();
    let names: Vec<_> = groups["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);

    let core = server.read("/api/v1").await.ok();
    let resource = |name: &str| core["resources"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(resource("pods").unwrap()["shortNames"][0], "po");
    assert_eq!(resource("pods/eviction").unwrap()["kind"], "Eviction");
    assert_eq!(resource("nodes").unwrap()["namespaced"], false);
    assert!(resource("nodes/status").is_some() && resource("configmaps/status").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_discovery_of_kube_finds_custom_kinds() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let found = Discovery::new(server.client("test")).run().await.unwrap();
    let (plan, _) = found.get("example.com").unwrap().recommended_kind("Plan").unwrap();
    assert_eq!((plan.plural.as_str(), plan.version.as_str()), ("plans", "v1"));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_not_found() {
    let server = server();
    for path in ["/nowhere", "/apis/nowhere.io", "/apis/nowhere.io/v1", "/apis/nowhere.io/v1/things"] {
        let answer = server.read(path).await;
        assert_eq!((answer.code, answer.body.as_str()), (404, Some("404 page not found\n")), "{path}");
    }
    for path in
        ["/api/v2", "/api/v1/things", "/apis/batch/v2", "/api/v1/configmaps/a", "/api/v1/namespaces/default/nodes"]
    {
        let answer = server.read(path).await;
        let expected = (404, "the server could not find the requested resource");
        assert_eq!((answer.code, answer.message()), expected, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_of_kube_takes_a_not_found_for_what_it_is() {
    let nodes: Api<Node> = Api::all(server().client("test"));
    assert!(nodes.get_opt("none").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn kubectl_can_learn_that_fields_are_checked_here() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let index = server.read("/openapi/v3").await.ok();
    let path = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_string();

    let document = server.read(&path).await.ok();

    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/plans/{name}"]["patch"];
    let parameters: Vec<_> = patch["parameters"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(parameters.iter().any(|name| *name == "fieldValidation"), "{parameters:?}");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Plan");
    assert!(index["paths"].get("api/v1").is_some());
}

#[tokio::test(start_paused = true)]
async fn schemas_describe_built_in_and_custom_kinds() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();

    let custom = server.read("/openapi/v3/apis/example.com/v1").await.ok();
    let plan = &custom["components"]["schemas"]["com.example.v1.Plan"];
    assert_eq!(plan["properties"]["spec"]["properties"]["concurrency"]["type"], "integer");
    assert_eq!(plan["x-kubernetes-group-version-kind"][0]["kind"], "Plan");
    let built_in = server.read("/openapi/v3/apis/apps/v1").await.ok();
    assert!(built_in["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let older = server.read("/openapi/v2").await.ok();
    let spec = &older["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(older["definitions"]["com.example.v1.Plan"].is_object());
    assert_eq!(
        server.read_as("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "/openapi/v2").await.code,
        406
    );
}

#[tokio::test(start_paused = true)]
async fn a_document_that_has_not_changed_is_not_sent_again() {
    let server = server();
    let response = server.open("/openapi/v3").await;
    let tag = response.headers()["etag"].to_str().unwrap().to_string();
    assert_eq!(server.open_with(&[("if-none-match", &tag)], "/openapi/v3").await.status(), 304);

    server.make(DEFINITIONS, plan_definition()).await.ok();

    assert_eq!(server.open_with(&[("if-none-match", &tag)], "/openapi/v3").await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn all_groups_come_in_one_document_to_those_who_ask() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

    let response = server.open_as(accept, "/apis").await;
    assert!(response.headers()["content-type"].to_str().unwrap().ends_with("as=APIGroupDiscoveryList"));
    let groups = server.read_as(accept, "/apis").await.ok();
    let group =
        |name: &str| groups["items"].as_array().unwrap().iter().find(|one| one["metadata"]["name"] == name).cloned();
    let apps = group("apps").unwrap();
    let deployments =
        apps["versions"][0]["resources"].as_array().unwrap().iter().find(|one| one["resource"] == "deployments");
    assert_eq!(deployments.unwrap()["subresources"][0]["subresource"], "scale");
    let plans = &group("example.com").unwrap()["versions"][0]["resources"][0];
    assert_eq!(plans["responseKind"], serde_json::json!({ "group": "example.com", "version": "v1", "kind": "Plan" }));

    let core = server.read_as(accept, "/api").await.ok();
    assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
    let older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    assert_eq!(server.read_as(older, "/apis").await.ok()["kind"], "APIGroupList");
}
