//! No request makes the server panic, and one that is refused leaves the store as it was.

use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use tower::Service as _;

/// One request, as bytes on a wire would state it.
#[derive(Clone, Debug)]
struct Sent {
    method: &'static str,
    target: String,
    content_type: String,
    accept: String,
    body: Vec<u8>,
}

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];

const CONTENT_TYPES: [&str; 9] = [
    "",
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain; charset=\"",
];

const ACCEPTS: [&str; 5] = [
    "",
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/vnd.kubernetes.protobuf",
    "*/*;q=x",
];

const PLACES: [&str; 22] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/a",
    "/api/v1/namespaces/default/pods/a/status",
    "/api/v1/namespaces/default/pods/a/eviction",
    "/api/v1/namespaces/default/pods/a/binding",
    "/api/v1/namespaces/default/pods/a/log",
    "/api/v1/namespaces/default/pods/a/exec",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/finalize",
    "/api/v1/nodes/a",
    "/api/v1/nodes/a/proxy/stats/summary",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/batch/v1/namespaces/default/jobs/a",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com",
    "/apis/example.com/v1/namespaces/default/things",
    "/apis/example.com/v1/namespaces/default/things/a",
    "/apis/example.com/v1/namespaces/default/things/a/scale",
    "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/a/start",
];

const QUERIES: [&str; 14] = [
    "",
    "?dryRun=All",
    "?fieldValidation=Strict",
    "?fieldManager=me&force=true",
    "?limit=1",
    "?limit=-1&continue=x",
    "?labelSelector=a+in+(b,,",
    "?fieldSelector=metadata.name%3Da,x",
    "?resourceVersion=99999999",
    "?resourceVersionMatch=Exact&resourceVersion=1",
    "?gracePeriodSeconds=0&propagationPolicy=Foreground",
    "?tailLines=1&limitBytes=3&sinceSeconds=0",
    "?command=%00&container=%F0",
    "?pretty=true&watch=maybe%",
];

fn objects() -> Vec<Value> {
    let container = json!({ "name": "main", "image": "web:v1" });
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [container] } });
    vec![
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "key": "value" } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "labels": { "app": "web" } },
                "spec": { "containers": [container] } }),
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" }, "spec": { "unschedulable": true } }),
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "a" }, "spec": { "template": template } }),
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "a" },
                "spec": { "minAvailable": "50%", "selector": { "matchLabels": { "app": "web" } } } }),
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "a" } }),
        json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" }, "spec": { "replicas": 2 } }),
        definition(),
        json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": { "size": 3 } }),
        json!([{ "op": "replace", "path": "/metadata/labels", "value": { "a": "b" } }, { "op": "copy", "from": "/", "path": "/-" }]),
        json!({ "metadata": { "finalizers": ["example.com/x"], "labels": { "a": null } }, "$patch": "replace" }),
        json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": "x" }, "dryRun": ["All"] }),
    ]
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" } },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                    "type": "object",
                    "x-kubernetes-validations": [{ "rule": "!has(self.size) || self.size < 10 || self.list.all(x, x > 0)" }],
                    "properties": {
                        "size": { "type": "integer", "default": 1 },
                        "list": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "integer" } },
                    },
                } } } },
            }],
        },
    })
}

/// Any JSON, small.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        select(vec!["v1", "Pod", "a", "default", "5%", "-1", "self.("]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z$/~.]{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A valid object with one place in it replaced by something else, or as it is.
fn almost_valid() -> impl Strategy<Value = Value> {
    (select(objects()), any::<prop::sample::Index>(), prop::option::of(any_json())).prop_map(
        |(mut object, place, other)| {
            if let Some(other) = other {
                let mut pointers = vec![];
                collect_pointers(&object, String::new(), &mut pointers);
                let pointer = &pointers[place.index(pointers.len())];
                if let Some(found) = object.pointer_mut(pointer) {
                    *found = other;
                }
            }
            object
        },
    )
}

fn collect_pointers(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            collect_pointers(inner, format!("{at}/{name}"), pointers);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(place, inner)| {
            collect_pointers(inner, format!("{at}/{place}"), pointers);
        }),
        _ => {}
    }
    pointers.push(at);
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => almost_valid().prop_map(|object| object.to_string().into_bytes()),
        1 => any_json().prop_map(|object| object.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(|bytes| [b"k8s\0".to_vec(), bytes].concat()),
        1 => Just(vec![]),
    ]
}

fn target() -> impl Strategy<Value = String> {
    let known =
        (select(PLACES.to_vec()), select(QUERIES.to_vec())).prop_map(|(place, query)| format!("{place}{query}"));
    let strange = prop::collection::vec("[a-z0-9.%~-]{0,10}", 0..8).prop_map(|parts| format!("/{}", parts.join("/")));
    prop_oneof![5 => known, 1 => strange]
}

fn sent() -> impl Strategy<Value = Sent> {
    let content_type = select(CONTENT_TYPES.to_vec());
    (select(METHODS.to_vec()), target(), content_type, select(ACCEPTS.to_vec()), body()).prop_map(
        |(method, target, content_type, accept, body)| Sent {
            method,
            target,
            content_type: content_type.into(),
            accept: accept.into(),
            body,
        },
    )
}

async fn answer(server: &ApiServer, sent: &Sent) -> Option<(u16, String)> {
    let request = Request::builder()
        .method(Method::from_bytes(sent.method.as_bytes()).ok()?)
        .uri(&sent.target)
        .header("content-type", &sent.content_type)
        .header("accept", &sent.accept)
        .body(Body::from(sent.body.clone()))
        .ok()?;
    let response = server.service("fuzz").call(request).await.unwrap();
    let code = response.status().as_u16();
    // Watches and followed logs have no end.
    let body = tokio::time::timeout(Duration::from_secs(1), response.into_body().collect()).await;
    let text = body.map(|body| String::from_utf8_lossy(&body.unwrap().to_bytes()).into_owned()).unwrap_or_default();
    Some((code, text))
}

/// As many cases as `PROPTEST_CASES` says, or else few enough for every test run.
fn config(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { usual };
    ProptestConfig { cases, ..config }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn a_refused_request_changes_nothing_and_none_panics(all in prop::collection::vec(sent(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
            let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 100 });
            for sent in &all {
                let before = server.digest();
                let Some((code, text)) = answer(&server, sent).await else { continue };
                prop_assert!(!text.contains("panicked"), "{sent:?} {text}");
                if !(200..300).contains(&code) {
                    prop_assert_eq!(server.digest(), before, "{:?} {} {}", sent, code, text);
                }
            }
            Ok(())
        })?;
    }
}
