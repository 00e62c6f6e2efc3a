//! Webhooks and policies have a say in writes.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
};

use super::support::*;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A server that waits for real: webhooks are called over sockets.
fn waiting_server() -> ApiServer {
    ApiServer::new(Options { clock: Clock::real(), ..options() })
}

/// A webhook on a socket, what it was asked, and the authority of its certificate.
struct Hook {
    url: String,
    authority: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    /// Answers every request with what `answer` makes of it, beside the uid.
    async fn answering(answer: impl Fn(&Value) -> Value + Send + Sync + Clone + 'static) -> Hook {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/review", listener.local_addr().unwrap().port());
        let asked = Arc::new(Mutex::new(vec![]));
        let seen = asked.clone();
        tokio::spawn(async move {
            let tls = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = tls.accept(stream).await else { continue };
                let (answer, seen) = (answer.clone(), seen.clone());
                let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let (answer, seen) = (answer.clone(), seen.clone());
                    async move {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let review: Value = serde_json::from_slice(&body).unwrap();
                        let mut response = answer(&review["request"]);
                        response["uid"] = review["request"]["uid"].clone();
                        seen.lock().unwrap().push(review["request"].clone());
                        let answer = json!({
                            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
                        });
                        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(answer.to_string()))))
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Hook { url, authority: certified.cert.pem(), asked }
    }

    fn configuration(&self, kind: &str, more: Value) -> Value {
        let mut webhook = json!({
            "name": "hook.example.com",
            "clientConfig": { "url": self.url, "caBundle": STANDARD.encode(&self.authority) },
            "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        json_patch_merge(&mut webhook, more);
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": "hook" },
            "webhooks": [webhook],
        })
    }

    async fn validates(&self, server: &ApiServer, more: Value) {
        let configuration = self.configuration("ValidatingWebhookConfiguration", more);
        server.make(&format!("{GROUP}/validatingwebhookconfigurations"), configuration).await.ok();
    }

    async fn mutates(&self, server: &ApiServer, more: Value) {
        let configuration = self.configuration("MutatingWebhookConfiguration", more);
        server.make(&format!("{GROUP}/mutatingwebhookconfigurations"), configuration).await.ok();
    }
}

/// Lays fields over an object.
fn json_patch_merge(object: &mut Value, more: Value) {
    for (name, value) in more.as_object().unwrap() {
        object[name] = value.clone();
    }
}

fn patched(patch: Value) -> Value {
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
}

#[tokio::test]
async fn a_webhook_refuses_in_its_own_words_and_nothing_is_stored() {
    let server = waiting_server();
    let status = json!({ "code": 403, "message": "not on Sundays", "reason": "Forbidden" });
    let hook = Hook::answering(move |_| json!({ "allowed": false, "status": status })).await;
    hook.validates(&server, json!({})).await;
    let before = server.digest();

    let refused = server.make(CONFIG_MAPS, config_map("a")).await;

    assert_eq!(refused.code, 403);
    assert_eq!(refused.message(), "admission webhook \"hook.example.com\" denied the request: not on Sundays");
    assert_eq!(server.digest(), before);
    let asked = hook.asked.lock().unwrap()[0].clone();
    assert_eq!(asked["operation"], "CREATE");
    assert_eq!(asked["kind"], json!({ "group": "", "version": "v1", "kind": "ConfigMap" }));
    assert_eq!(asked["object"]["data"]["key"], "value");
    assert_eq!(asked["oldObject"], Value::Null);
    assert_eq!((&asked["namespace"], &asked["name"]), (&json!("default"), &json!("a")));
}

#[tokio::test]
async fn a_mutating_webhook_changes_what_is_stored() {
    let server = waiting_server();
    let hook = Hook::answering(|_| patched(json!([{ "op": "add", "path": "/data/added", "value": "by hook" }]))).await;
    hook.mutates(&server, json!({})).await;

    let made = server.make(CONFIG_MAPS, config_map("a")).await.ok();

    assert_eq!(made["data"], json!({ "key": "value", "added": "by hook" }));
    assert_eq!(server.read(&format!("{CONFIG_MAPS}/a")).await.ok()["data"], made["data"]);
}

#[tokio::test]
async fn a_webhook_is_asked_again_if_a_later_one_has_changed_the_object() {
    let server = waiting_server();
    let first = Hook::answering(|_| json!({ "allowed": true })).await;
    let second = Hook::answering(|_| patched(json!([{ "op": "add", "path": "/data/b", "value": "2" }]))).await;
    let mut configuration =
        first.configuration("MutatingWebhookConfiguration", json!({ "reinvocationPolicy": "IfNeeded" }));
    let other = second.configuration("MutatingWebhookConfiguration", json!({ "name": "second.example.com" }));
    configuration["webhooks"].as_array_mut().unwrap().push(other["webhooks"][0].clone());
    server.make(&format!("{GROUP}/mutatingwebhookconfigurations"), configuration).await.ok();

    server.make(CONFIG_MAPS, config_map("a")).await.ok();

    let asked = first.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1]["object"]["data"]["b"], "2");
    assert_eq!(second.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_webhook_that_cannot_be_reached_refuses_unless_it_may_be_ignored() {
    let server = waiting_server();
    let hook = Hook::answering(|_| json!({ "allowed": true })).await;
    let nowhere = json!({ "url": "https://127.0.0.1:1/", "caBundle": STANDARD.encode(&hook.authority) });
    hook.validates(&server, json!({ "clientConfig": nowhere })).await;

    let refused = server.make(CONFIG_MAPS, config_map("a")).await;

    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \
         \"https://127.0.0.1:1/?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    let path = format!("{GROUP}/validatingwebhookconfigurations/hook");
    let ignore = json!([{ "op": "add", "path": "/webhooks/0/failurePolicy", "value": "Ignore" }]);
    server.ask("PATCH", &path, JSON_PATCH, ignore.to_string()).await.ok();
    assert_eq!(server.make(CONFIG_MAPS, config_map("a")).await.code, 201);
}

#[tokio::test]
async fn a_webhook_is_asked_only_about_what_it_selects() {
    let server = waiting_server();
    let hook = Hook::answering(|_| json!({ "allowed": false })).await;
    hook.validates(
        &server,
        json!({
            "objectSelector": { "matchLabels": { "guarded": "yes" } },
            "matchConditions": [{ "name": "named", "expression": "object.metadata.name != 'free'" }],
        }),
    )
    .await;

    assert_eq!(server.make(CONFIG_MAPS, config_map("plain")).await.code, 201);
    assert_eq!(server.make(CONFIG_MAPS, labelled("free", json!({ "guarded": "yes" }))).await.code, 201);
    let refused = server.make(CONFIG_MAPS, labelled("kept", json!({ "guarded": "yes" }))).await;
    assert_eq!(refused.code, 400);
    assert!(refused.message().ends_with("denied the request without explanation"), "{}", refused.message());
    assert_eq!(hook.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_webhook_that_would_act_on_a_dry_run_is_not_taken() {
    let server = waiting_server();
    let hook = Hook::answering(|_| json!({ "allowed": true })).await;
    let acting = hook.configuration("ValidatingWebhookConfiguration", json!({ "sideEffects": "Some" }));

    let refused = server.make(&format!("{GROUP}/validatingwebhookconfigurations"), acting).await;

    assert_eq!(refused.code, 422);
    let why = "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"";
    assert!(refused.message().ends_with(why), "{}", refused.message());
}

fn policy(spec: Value) -> Value {
    let mut whole = json!({
        "matchConstraints": { "resourceRules": [
            { "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] },
        ] },
    });
    json_patch_merge(&mut whole, spec);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "limits" },
        "spec": whole,
    })
}

fn bound(spec: Value) -> Value {
    let mut whole = json!({ "policyName": "limits", "validationActions": ["Deny"] });
    json_patch_merge(&mut whole, spec);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "everywhere" },
        "spec": whole,
    })
}

async fn enforce(server: &ApiServer, policy: Value, binding: Value) {
    server.make(&format!("{GROUP}/validatingadmissionpolicies"), policy).await.ok();
    server.make(&format!("{GROUP}/validatingadmissionpolicybindings"), binding).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_policy_refuses_what_its_expressions_do_not_allow() {
    let server = server();
    let validations = json!([
        { "expression": "object.data.size() <= variables.limit" },
        { "expression": "request.operation == 'CREATE' || object.data.key == oldObject.data.key",
          "messageExpression": "'key was ' + oldObject.data.key", "reason": "Forbidden" },
    ]);
    let variables = json!([{ "name": "limit", "expression": "2" }]);
    enforce(&server, policy(json!({ "variables": variables, "validations": validations })), bound(json!({}))).await;

    let mut large = config_map("a");
    large["data"] = json!({ "a": "1", "b": "2", "c": "3" });
    let refused = server.make(CONFIG_MAPS, large).await;
    assert_eq!((refused.code, refused.body["reason"].as_str()), (422, Some("Invalid")));
    assert_eq!(
        refused.message(),
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'everywhere' denied request: \
         failed expression: object.data.size() <= variables.limit"
    );

    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let refused = server.merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "key": "other" } })).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().ends_with("denied request: key was value"), "{}", refused.message());
}

#[tokio::test(start_paused = true)]
async fn a_policy_takes_its_limits_from_its_parameters() {
    let server = server();
    let mut params = config_map("limits");
    params["data"] = json!({ "max": "1" });
    server.make(CONFIG_MAPS, params).await.ok();
    let validations = json!([{ "expression": "object.data.size() <= int(params.data.max)" }]);
    let kind = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    let reference = json!({ "name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny" });
    enforce(
        &server,
        policy(json!({ "paramKind": kind, "validations": validations })),
        bound(json!({ "paramRef": reference })),
    )
    .await;

    assert_eq!(server.make(CONFIG_MAPS, config_map("a")).await.code, 201);
    let mut large = config_map("b");
    large["data"] = json!({ "a": "1", "b": "2" });
    assert_eq!(server.make(CONFIG_MAPS, large).await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_fails_refuses_unless_it_may_be_ignored() {
    let server = server();
    let failing = json!([{ "expression": "object.missing.field == 1" }]);
    enforce(&server, policy(json!({ "validations": failing })), bound(json!({}))).await;

    let refused = server.make(CONFIG_MAPS, config_map("a")).await;
    let why = "expression 'object.missing.field == 1' resulted in error: no such key: missing";
    assert!(refused.message().ends_with(why), "{}", refused.message());

    let path = format!("{GROUP}/validatingadmissionpolicies/limits");
    server.merge(&path, json!({ "spec": { "failurePolicy": "Ignore" } })).await.ok();
    assert_eq!(server.make(CONFIG_MAPS, config_map("a")).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_binding_may_only_warn() {
    let server = server();
    let validations = json!([{ "expression": "false", "message": "think again" }]);
    enforce(&server, policy(json!({ "validations": validations })), bound(json!({ "validationActions": ["Warn"] })))
        .await;

    let request = http::Request::post(CONFIG_MAPS).header("content-type", JSON);
    let body = kube::client::Body::from(config_map("a").to_string().into_bytes());
    let response = tower::Service::call(&mut server.service("test"), request.body(body).unwrap()).await.unwrap();

    assert_eq!(response.status(), 201);
    assert_eq!(
        response.headers()["warning"],
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'limits' with binding 'everywhere': think again\""
    );
}
