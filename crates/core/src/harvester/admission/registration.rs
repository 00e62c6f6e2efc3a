//! How the API server is told whom to ask: the two webhook configurations, as they should be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{COMPONENT, components};
use drover_api::harvester::node::{PROMOTE_STATUS, PROMOTING};
use drover_api::harvester::setting::names::UPGRADE_CONFIG;
use drover_api::harvester::upgrade::annotations::PAUSE_MAP;
use drover_api::marks::WEBHOOK;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Question;
use crate::cluster::{Cluster, Meta};

/// The name of both configurations.
pub const NAME: &str = "drover-harvester";
/// The API server waits for so long; answers come well before.
pub const TIMEOUT_SECONDS: u64 = 10;

/// Where the API server finds the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Service {
        namespace: String,
        name: String,
    },
    /// For a process outside of the cluster: `https://host:port`.
    Url(String),
}

impl Place {
    /// The names that a certificate has to be for.
    pub fn hosts(&self) -> Vec<String> {
        match self {
            Place::Service { namespace, name } => {
                vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}.svc.cluster.local")]
            }
            Place::Url(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let host = rest.split('/').next().unwrap_or_default();
                let bare = match host.strip_prefix('[') {
                    Some(address) => address.split(']').next().unwrap_or_default(),
                    None => host.rsplit_once(':').map_or(host, |(host, _)| host),
                };
                vec![bare.to_owned()]
            }
        }
    }

    fn client_config(&self, path: &str, authorities: &str) -> Value {
        let bundle = STANDARD.encode(authorities);
        match self {
            Place::Service { namespace, name } => json!({
                "service": { "namespace": namespace, "name": name, "path": path, "port": 443 }, "caBundle": bundle,
            }),
            Place::Url(url) => json!({ "url": format!("{}{path}", url.trim_end_matches('/')), "caBundle": bundle }),
        }
    }
}

/// The path under which a question is answered.
pub fn path(question: Question) -> &'static str {
    match question {
        Question::Mutation => "/v1/webhook/mutation",
        Question::Validation => "/v1/webhook/validation",
    }
}

pub fn plural(question: Question) -> &'static str {
    match question {
        Question::Mutation => "mutatingwebhookconfigurations",
        Question::Validation => "validatingwebhookconfigurations",
    }
}

/// The configuration as it should be. `authorities` are the certificates that sign ours, as PEM.
pub fn configuration(question: Question, place: &Place, authorities: &str) -> Value {
    let (kind, webhooks) = match question {
        Question::Mutation => ("MutatingWebhookConfiguration", mutating()),
        Question::Validation => ("ValidatingWebhookConfiguration", validating()),
    };
    let with_place = |mut webhook: Value| {
        webhook["clientConfig"] = place.client_config(path(question), authorities);
        webhook["admissionReviewVersions"] = json!(["v1"]);
        webhook["sideEffects"] = json!("None");
        webhook["timeoutSeconds"] = json!(TIMEOUT_SECONDS);
        webhook["matchPolicy"] = json!("Equivalent");
        webhook
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": NAME, "labels": { WEBHOOK: "harvester" } },
        "webhooks": webhooks.into_iter().map(with_place).collect::<Vec<Value>>(),
    })
}

fn rule(group: &str, version: &str, plural: &str, operations: &[&str]) -> Value {
    json!({ "apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": operations, "scope": "*" })
}

/// An expression for an annotation, empty where there is none.
fn note(object: &str, key: &str) -> String {
    let all = format!("{object}.metadata.annotations");
    format!("(has({all}) && '{key}' in {all} ? {all}['{key}'] : '')")
}

/// A node that joins while nobody can be asked, or a Deployment that goes, is survived: these are let through then. An Upgrade
/// is not taken unasked.
fn validating() -> Vec<Value> {
    // Controllers write Upgrades all the time: they are asked about only where the map of nodes that pause changes.
    let changed =
        format!("request.operation != 'UPDATE' || {} != {}", note("object", PAUSE_MAP), note("oldObject", PAUSE_MAP));
    let promoting = |object: &str| format!("{} == '{PROMOTING}'", note(object, PROMOTE_STATUS));
    let begins = format!("request.operation != 'UPDATE' || ({} && !({}))", promoting("object"), promoting("oldObject"));
    vec![
        json!({
            "name": "upgrades.harvester.drover.dev",
            "failurePolicy": "Fail",
            "rules": [rule("harvesterhci.io", "v1beta1", "upgrades", &["CREATE", "UPDATE", "DELETE"])],
            "matchConditions": [{ "name": "pause-map-changes", "expression": changed }],
        }),
        json!({
            "name": "versions.harvester.drover.dev",
            "failurePolicy": "Fail",
            "rules": [
                rule("harvesterhci.io", "v1beta1", "versions", &["CREATE", "UPDATE"]),
                rule("harvesterhci.io", "v1beta1", "upgradelogs", &["CREATE", "UPDATE"]),
            ],
        }),
        json!({
            "name": "settings.harvester.drover.dev",
            "failurePolicy": "Fail",
            "rules": [rule("harvesterhci.io", "v1beta1", "settings", &["CREATE", "UPDATE"])],
            "matchConditions": [{ "name": "upgrade-config", "expression": format!("request.name == '{UPGRADE_CONFIG}'") }],
        }),
        json!({
            "name": "nodes.harvester.drover.dev",
            "failurePolicy": "Ignore",
            "rules": [rule("", "v1", "nodes", &["CREATE", "UPDATE"])],
            "matchConditions": [{ "name": "joins-or-is-promoted", "expression": begins }],
        }),
        json!({
            "name": "repositories.harvester.drover.dev",
            "failurePolicy": "Ignore",
            "rules": [rule("apps", "v1", "deployments", &["DELETE"])],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": NAMESPACE } },
            "objectSelector": { "matchLabels": { COMPONENT: components::REPO } },
        }),
    ]
}

/// The controller reads the setting itself where this was not asked, so nobody has to wait for it.
fn mutating() -> Vec<Value> {
    vec![json!({
        "name": "pauses.harvester.drover.dev",
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "rules": [rule("harvesterhci.io", "v1beta1", "upgrades", &["CREATE"])],
    })]
}

/// Whether a configuration that is there now was there when an object was created, so that the webhooks were asked about it. What was
/// created in the same second may have come before it.
pub fn was_asked(configuration: &[u8], created: Option<Timestamp>) -> bool {
    let Ok(there) = serde_json::from_slice::<PartialObject>(configuration) else { return false };
    there.metadata.creation_timestamp.zip(created).is_some_and(|(there, created)| there < created)
}

#[derive(Deserialize)]
struct PartialObject {
    metadata: Meta,
}

/// Does the configuration that is there differ from the one that should be? What the server fills in does not count.
pub fn differs(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().any(|(key, value)| there.get(key).is_none_or(|there| differs(there, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() != wanted.len() || there.iter().zip(wanted).any(|(there, wanted)| differs(there, wanted))
        }
        _ => there != wanted,
    }
}

/// The Deployment of Harvester itself, whose binary holds its upgrade controllers and its webhook.
pub const INCUMBENT: &str = "harvester";

/// Who answers for Upgrades already: where Harvester's own controllers are at work, no webhook of ours is registered, and no Upgrade is
/// begun. It counts what is wanted: one that only restarts is back in a moment.
pub fn incumbent(cluster: &Cluster) -> Option<String> {
    let deployment = cluster.deployments.get(NAMESPACE, INCUMBENT)?;
    (deployment.spec.wanted() > 0).then(|| format!("Deployment {NAMESPACE}/{INCUMBENT}"))
}
