//! A server on a virtual clock, and requests that show the whole answer.

use std::time::Duration;

use bytes::Bytes;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiBody, ApiServer, Options};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

pub fn options() -> Options {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
    Options { clock, seed: 7, latency: Duration::from_millis(1), watch_window: 100 }
}

pub fn server() -> ApiServer {
    ApiServer::new(options())
}

/// An answer: its code, and its body as JSON or, failing that, as text.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    async fn of(response: Response<ApiBody>) -> Answer {
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { code, body }
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn version(&self) -> String {
        self.body["metadata"]["resourceVersion"].as_str().unwrap().to_string()
    }

    /// The object, of an answer that has to be one.
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {}", self.code, self.body);
        self.body
    }
}

/// Requests to one server.
pub trait Http {
    async fn ask(&self, method: &str, path: &str, content_type: &str, body: impl AsRef<str>) -> Answer;
    async fn open(&self, path: &str) -> Response<ApiBody> {
        self.open_as("", path).await
    }

    /// Opens what a path leads to, in the form that `accept` asks for.
    async fn open_as(&self, accept: &str, path: &str) -> Response<ApiBody> {
        self.open_with(&[("accept", accept)], path).await
    }

    async fn open_with(&self, headers: &[(&str, &str)], path: &str) -> Response<ApiBody>;

    /// Reads in the form that `accept` asks for.
    async fn read_as(&self, accept: &str, path: &str) -> Answer {
        Answer::of(self.open_as(accept, path).await).await
    }

    async fn read(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "").await
    }

    async fn make(&self, path: &str, object: Value) -> Answer {
        self.ask("POST", path, JSON, object.to_string()).await
    }

    async fn put(&self, path: &str, object: Value) -> Answer {
        self.ask("PUT", path, JSON, object.to_string()).await
    }

    async fn merge(&self, path: &str, changes: Value) -> Answer {
        self.ask("PATCH", path, MERGE, changes.to_string()).await
    }

    async fn remove(&self, path: &str) -> Answer {
        self.ask("DELETE", path, "", "").await
    }

    async fn remove_with(&self, path: &str, options: Value) -> Answer {
        self.ask("DELETE", path, JSON, options.to_string()).await
    }
}

impl Http for ApiServer {
    async fn ask(&self, method: &str, path: &str, content_type: &str, body: impl AsRef<str>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let body = Body::from(body.as_ref().as_bytes().to_vec());
        let response = self.service("test").call(request.body(body).unwrap()).await.unwrap();
        Answer::of(response).await
    }

    async fn open_with(&self, headers: &[(&str, &str)], path: &str) -> Response<ApiBody> {
        let start = Request::get(path);
        let request = headers.iter().fold(start, |request, (name, value)| request.header(*name, *value));
        self.service("watcher").call(request.body(Body::empty()).unwrap()).await.unwrap()
    }
}

/// A stream of lines, read one at a time.
pub struct Lines {
    body: ApiBody,
    rest: Vec<u8>,
}

impl Lines {
    pub async fn of(server: &ApiServer, path: &str) -> Lines {
        Lines::as_form(server, "", path).await
    }

    pub async fn as_form(server: &ApiServer, accept: &str, path: &str) -> Lines {
        let response = server.open_as(accept, path).await;
        assert_eq!(response.status(), 200);
        Lines { body: response.into_body(), rest: vec![] }
    }

    /// The next line; none at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|letter| *letter == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame: Bytes = self.body.frame().await?.unwrap().into_data().unwrap();
            self.rest.extend_from_slice(&frame);
        }
    }

    /// The next event as `TYPE name`.
    pub async fn event(&mut self) -> String {
        match self.next().await {
            Some(event) => {
                format!(
                    "{} {}",
                    event["type"].as_str().unwrap(),
                    event["object"]["metadata"]["name"].as_str().unwrap_or("-")
                )
            }
            None => "end".into(),
        }
    }

    /// Whether nothing comes for a while.
    pub async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(5), self.next()).await.is_err()
    }
}

pub fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "key": "value" } })
}

pub fn labelled(name: &str, labels: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": labels } })
}

pub fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "web:v1" }] } })
}

/// A node that pods can be bound to.
pub fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

pub fn job(name: &str) -> Value {
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": { "template": { "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "main", "image": "upgrade:v1" }],
    } } } })
}

/// The definition of a kind `Plan` with a status subresource, in one version.
pub fn plan_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "plans.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "plans", "kind": "Plan", "shortNames": ["pl"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "required": ["upgrade"], "properties": {
                        "concurrency": { "type": "integer", "minimum": 1, "default": 1 },
                        "upgrade": { "type": "object", "properties": { "image": { "type": "string" } } },
                    } },
                    "status": { "type": "object", "properties": { "applied": { "type": "integer" } } },
                } } },
            }],
        },
    })
}

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const PLANS: &str = "/apis/example.com/v1/namespaces/default/plans";

pub fn plan(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Plan", "metadata": { "name": name },
            "spec": { "upgrade": { "image": "upgrade" } } })
}
