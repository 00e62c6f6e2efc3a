//! What clients are told beside their answer.

use drover_corral::apiserver::ApiServer;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service;

use super::support::*;

/// The warnings that a request brings, whatever else comes of it.
async fn warnings(server: &ApiServer, method: &str, path: &str, content_type: &str, body: &str) -> Vec<String> {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
    let response = server.service("test").call(request).await.unwrap();
    let texts = response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap());
    let said = |text: &str| text.strip_prefix("299 - \"")?.strip_suffix('"').map(|text| text.replace("\\\"", "\""));
    texts.filter_map(said).collect()
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_unknown_or_stand_twice_are_warned_of_or_refused() {
    let server = server();
    let body = r#"{"metadata":{"name":"a"},"data":{"a":"1","a":"2"},"zzz":1}"#;

    let said = warnings(&server, "POST", &format!("{CONFIG_MAPS}?dryRun=All"), JSON, body).await;
    assert_eq!(said, ["duplicate field \"data.a\"", "unknown field \"zzz\""]);
    let ignored = format!("{CONFIG_MAPS}?dryRun=All&fieldValidation=Ignore");
    assert!(warnings(&server, "POST", &ignored, JSON, body).await.is_empty());
    let refused = server.ask("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), JSON, body).await;
    assert_eq!(
        refused.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data.a\", \
         unknown field \"zzz\""
    );
}

#[tokio::test(start_paused = true)]
async fn outdated_versions_and_kinds_say_so() {
    let server = server();
    let mut definition = plan_definition();
    let mut old: Value = definition["spec"]["versions"][0].clone();
    old["name"] = json!("v1beta1");
    old["storage"] = json!(false);
    old["deprecated"] = json!(true);
    definition["spec"]["versions"].as_array_mut().unwrap().push(old);
    server.make(DEFINITIONS, definition).await.ok();

    let path = "/apis/example.com/v1beta1/namespaces/default/plans";
    let said = warnings(&server, "GET", path, "", "").await;
    assert_eq!(said, ["example.com/v1beta1 Plan is deprecated; use example.com/v1 Plan"]);
    assert!(warnings(&server, "GET", PLANS, "", "").await.is_empty());
    let said = warnings(&server, "GET", "/api/v1/endpoints", "", "").await;
    assert_eq!(said, ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]);
}

#[tokio::test(start_paused = true)]
async fn what_surprises_in_an_object_is_warned_of_when_it_is_written() {
    let server = server();
    let mut plan = plan("a");
    plan["metadata"]["finalizers"] = json!(["mine"]);
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let said = warnings(&server, "POST", PLANS, JSON, &plan.to_string()).await;
    assert_eq!(
        said,
        [
            "metadata.finalizers: \"mine\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
          finalizer writers"
        ]
    );
    let mut dotted = pod("a.b");
    dotted["spec"]["nodeSelector"] = json!({ "beta.kubernetes.io/os": "linux" });
    let said = warnings(&server, "POST", PODS, JSON, &dotted.to_string()).await;
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(
        said[1],
        "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"
    );
    let changes = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    assert!(warnings(&server, "PATCH", &format!("{PODS}/a.b"), MERGE, changes).await.is_empty());
}
