//! `latestHash`: does a node already have what the Plan asks for?
//!
//! The value is compared with labels that system-upgrade-controller wrote, so it is computed byte for byte as there:
//! SHA-224 over version, service account, the fields that the Plan's digest annotation names, and the digests of its
//! Secrets. Nothing separates them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drover_api::plan::{PlanSpec, conditions, labels};
use drover_api::{marks, quantity};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha224, Sha256};

use super::duration::GoDuration;
use super::names::hex;

/// The hash that a node of the Plan is to carry. It is never empty: without one, no Job can be named.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LatestHash(String);

impl LatestHash {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a Plan's status tells it; none for an empty one.
    pub(super) fn published(hash: &str) -> Option<Self> {
        (!hash.is_empty()).then(|| Self(hash.to_owned()))
    }

    #[cfg(test)]
    pub(crate) fn of_test(hash: &str) -> Self {
        Self(hash.to_owned())
    }
}

impl std::fmt::Display for LatestHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// All Secrets that the hash needs and that are not there. A hash over the others would be of another Plan.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", conditions::secrets_not_found(names.iter().map(String::as_str)))]
pub struct MissingSecrets {
    pub names: Vec<String>,
}

/// `raw` is the whole Plan as it is stored; `secret` gives the [`secret_digest`] of a Secret of the Plan's namespace.
pub fn latest_hash(
    version: &str,
    spec: &PlanSpec,
    raw: &Value,
    secret: impl Fn(&str) -> Option<String>,
) -> Result<LatestHash, MissingSecrets> {
    let mut hash = Sha224::new();
    hash.update(version);
    hash.update(&spec.service_account_name);
    if let Some(paths) = raw["metadata"]["annotations"][labels::DIGEST].as_str().filter(|paths| !paths.is_empty()) {
        let plan = as_go_writes_it(spec, raw);
        for path in paths.split(',') {
            hash.update(text_at(&plan, path));
        }
    }
    let mut missing = Vec::new();
    for wanted in spec.secrets.iter().filter(|secret| !secret.ignore_updates) {
        match secret(&wanted.name) {
            Some(digest) => hash.update(digest),
            None => missing.push(wanted.name.clone()),
        }
    }
    if missing.is_empty() { Ok(LatestHash(hex(&hash.finalize()))) } else { Err(MissingSecrets { names: missing }) }
}

/// What a Secret adds to the hash: its data, name, type and whether it is immutable, and nothing else of it.
/// It is the suffix that `kubectl kustomize` gives to generated Secrets.
pub fn secret_digest(secret: &Secret) -> String {
    let data = secret.data.as_ref().map(|data| {
        data.iter().map(|(key, bytes)| (key.clone(), Value::from(STANDARD.encode(&bytes.0)))).collect::<Map<_, _>>()
    });
    // Written out in the order of the keys, whatever order a JSON map has.
    let mut encoded = format!("{{\"data\":{}", json!(data));
    if let Some(immutable) = secret.immutable {
        encoded.push_str(&format!(",\"immutable\":{immutable}"));
    }
    let name = json!(secret.metadata.name.as_deref().unwrap_or_default());
    let type_ = json!(secret.type_.as_deref().unwrap_or_default());
    encoded.push_str(&format!(",\"kind\":\"Secret\",\"name\":{name},\"type\":{type_}}}"));
    // Go escapes these so that its JSON can stand in a web page.
    let encoded = encoded.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    let digest = hex(&Sha256::digest(encoded));
    digest[..10]
        .chars()
        .map(|digit| match digit {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            other => other,
        })
        .collect()
}

/// The Plan as the original holds it when it looks up the fields of the digest annotation: decoded into its own types
/// and written again, which drops what is empty.
fn as_go_writes_it(spec: &PlanSpec, raw: &Value) -> Value {
    let mut plan = raw.clone();
    plan["spec"] = json!(spec);
    let spec = &mut plan["spec"];
    for of_kubernetes in ["nodeSelector", "tolerations", "imagePullSecrets"] {
        spec.get_mut(of_kubernetes).map(omit_empty);
    }
    spec.get_mut("drain").and_then(|drain| drain.get_mut("podSelector")).map(omit_empty);
    for container in ["prepare", "upgrade"] {
        for of_kubernetes in ["envs", "envFrom", "securityContext"] {
            spec.get_mut(container).and_then(|container| container.get_mut(of_kubernetes)).map(omit_empty);
        }
    }
    if let Some(delay) = spec["postCompleteDelay"].as_str().and_then(GoDuration::parse) {
        spec["postCompleteDelay"] = json!(delay.to_string());
    }
    // What only Drover writes is unknown there.
    if let Some(annotations) = plan.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with(marks::PREFIX));
    }
    if let Some(status) = plan.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|key, _| key != "counts" && key != "waits");
    }
    plan
}

/// Drops empty texts and lists from a value of Kubernetes' own types, where Go does not write them.
fn omit_empty(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(omit_empty),
        Value::Object(fields) => {
            fields.retain(|name, field| match field {
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(entries) => name != "matchLabels" || !entries.is_empty(),
                _ => true,
            });
            for (name, field) in fields {
                // A label may well have an empty value.
                if name != "matchLabels" {
                    omit_empty(field);
                }
                if name == "resourceFieldRef" {
                    let divisor = field["divisor"].as_str().unwrap_or("0");
                    field["divisor"] = json!(quantity::canonical(divisor).unwrap_or_else(|_| divisor.to_owned()));
                }
            }
        }
        _ => {}
    }
}

/// The text at a path such as `spec.upgrade.envs`; empty, if there is nothing. Of a list only the first element counts.
fn text_at(plan: &Value, path: &str) -> String {
    let mut found = Some(plan);
    for key in path.split('.') {
        found = found.and_then(|value| value.as_object()?.get(key));
    }
    let single = match found {
        Some(Value::Array(items)) => items.first(),
        other => other,
    };
    match single {
        None | Some(Value::Null) => String::new(),
        Some(value) => go_text(value).trim().to_owned(),
    }
}

/// A JSON value as Go's `fmt` prints it.
pub(super) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            let fields: Vec<_> = fields.iter().map(|(name, field)| format!("{name}:{}", go_text(field))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        secrets: Vec<Secret>,
        plans: Vec<PlanCase>,
        seen: Vec<SeenCase>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PlanCase {
        case: String,
        spec: Value,
        annotations: BTreeMap<String, String>,
        latest_version: String,
        latest_hash: String,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SeenCase {
        seen_in: String,
        latest_version: String,
        service_account_name: String,
        latest_hash: String,
    }

    fn vectors() -> Vectors {
        serde_json::from_str(include_str!("testdata/hashes.json")).unwrap()
    }

    fn plan(spec: Value, annotations: &BTreeMap<String, String>) -> (PlanSpec, Value) {
        let raw = json!({ "metadata": { "name": "p", "annotations": annotations }, "spec": spec });
        (serde_json::from_value(spec).unwrap(), raw)
    }

    fn digested(spec: Value, path: &str) -> String {
        let (spec, raw) = plan(spec, &BTreeMap::new());
        text_at(&as_go_writes_it(&spec, &raw), path)
    }

    #[test]
    fn hashes_are_those_of_the_original() {
        let vectors = vectors();
        let digests: BTreeMap<String, String> =
            vectors.secrets.iter().map(|s| (s.metadata.name.clone().unwrap(), secret_digest(s))).collect();
        assert_eq!(vectors.plans.len(), 7);

        for case in vectors.plans {
            let (spec, raw) = plan(case.spec, &case.annotations);
            let hash = latest_hash(&case.latest_version, &spec, &raw, |name| digests.get(name).cloned()).unwrap();
            assert_eq!(hash.as_str(), case.latest_hash, "{}", case.case);
        }
    }

    #[test]
    fn hashes_are_those_seen_in_the_field() {
        let vectors = vectors();
        assert_eq!(vectors.seen.len(), 4);

        for case in vectors.seen {
            let spec = json!({ "serviceAccountName": case.service_account_name, "upgrade": { "image": "x" } });
            let (spec, raw) = plan(spec, &BTreeMap::new());
            let hash = latest_hash(&case.latest_version, &spec, &raw, |_| None).unwrap();
            assert_eq!(hash.as_str(), case.latest_hash, "{}", case.seen_in);
        }
    }

    #[test]
    fn a_secret_is_known_by_ten_characters() {
        assert_eq!(secret_digest(&vectors().secrets[0]), "tk2thc2c64");
    }

    #[test]
    fn a_secret_without_data_differs_from_one_with_empty_data() {
        let none: Secret = serde_json::from_value(json!({ "metadata": { "name": "s" }, "type": "Opaque" })).unwrap();
        let empty = Secret { data: Some(BTreeMap::new()), ..none.clone() };

        assert_ne!(secret_digest(&none), secret_digest(&empty));
    }

    #[test]
    fn labels_of_a_secret_do_not_change_its_digest() {
        let plain = vectors().secrets[0].clone();
        let mut labelled = plain.clone();
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());

        assert_eq!(secret_digest(&plain), secret_digest(&labelled));
    }

    #[test]
    fn all_missing_secrets_are_named_and_there_is_no_hash() {
        let secret = |name: &str, ignore: bool| json!({ "name": name, "path": "/x", "ignoreUpdates": ignore });
        let spec = json!({
            "upgrade": { "image": "x" },
            "secrets": [secret("a", false), secret("b", false), secret("there", false), secret("ignored", true)],
        });
        let (spec, raw) = plan(spec, &BTreeMap::new());

        let missing = latest_hash("1", &spec, &raw, |name| (name == "there").then(|| "d".to_owned())).unwrap_err();

        assert_eq!(missing.names, ["a", "b"]);
        assert_eq!(missing.to_string(), r#"secrets "a" not found, secrets "b" not found"#);
    }

    #[test]
    fn a_secret_whose_updates_are_ignored_does_not_change_the_hash() {
        let without = json!({ "upgrade": { "image": "x" } });
        let with = json!({
            "upgrade": { "image": "x" },
            "secrets": [{ "name": "s", "path": "/x", "ignoreUpdates": true }],
        });
        let hash = |spec| {
            let (spec, raw) = plan(spec, &BTreeMap::new());
            latest_hash("1", &spec, &raw, |_| Some("digest".to_owned())).unwrap()
        };

        assert_eq!(hash(with), hash(without));
    }

    #[test]
    fn a_field_is_digested_as_go_prints_it() {
        let upgrade = json!({
            "image": "x",
            "args": ["one", "two"],
            "envs": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
        });
        let spec = json!({
            "concurrency": 3,
            "cordon": true,
            "upgrade": upgrade,
            "drain": { "force": true, "timeout": 5, "podSelector": { "matchLabels": { "z": "1", "a": "2" } } },
            "version": "  v1 ",
        });

        let text = |path| digested(spec.clone(), path);

        assert_eq!(text("spec.concurrency"), "3");
        assert_eq!(text("spec.cordon"), "true");
        assert_eq!(text("spec.upgrade.args"), "one");
        assert_eq!(text("spec.upgrade.envs"), "map[name:A value:1]");
        assert_eq!(text("spec.drain"), "map[force:true podSelector:map[matchLabels:map[a:2 z:1]] timeout:5]");
        assert_eq!(text("spec.version"), "v1");
    }

    #[test]
    fn what_is_not_there_adds_nothing() {
        let spec = json!({ "upgrade": { "image": "x", "args": ["one"] } });

        for path in ["spec.drain", "spec.upgrade.args.0", "spec.upgrade.image.x", " spec.upgrade.image", "", "spec."] {
            assert_eq!(digested(spec.clone(), path), "", "{path:?}");
        }
    }

    #[test]
    fn what_go_does_not_write_is_not_digested() {
        let env = json!({
            "name": "A",
            "value": "",
            "valueFrom": { "configMapKeyRef": { "name": "", "key": "k" }, "resourceFieldRef": { "resource": "r" } },
        });
        let spec = json!({
            "cordon": false,
            "version": "",
            "concurrency": 0,
            "nodeSelector": { "matchLabels": {}, "matchExpressions": [] },
            "drain": { "podSelector": { "matchLabels": { "a": "" } } },
            "postCompleteDelay": "90s",
            "secrets": [{ "name": "s", "path": "" }],
            "upgrade": { "image": "x", "args": [], "envs": [env] },
        });

        let text = |path| digested(spec.clone(), path);

        assert_eq!(text("spec.cordon"), "");
        assert_eq!(text("spec.version"), "");
        assert_eq!(text("spec.concurrency"), "");
        assert_eq!(text("spec.nodeSelector"), "map[]");
        assert_eq!(text("spec.drain"), "map[podSelector:map[matchLabels:map[a:]]]");
        assert_eq!(text("spec.postCompleteDelay"), "1m30s");
        assert_eq!(text("spec.secrets"), "map[name:s path:]");
        assert_eq!(
            text("spec.upgrade.envs"),
            "map[name:A valueFrom:map[configMapKeyRef:map[key:k] resourceFieldRef:map[divisor:0 resource:r]]]"
        );
    }

    #[test]
    fn an_amount_is_digested_in_the_form_in_which_kubernetes_writes_it() {
        for (stated, written) in [("1000m", "1"), ("1024Ki", "1Mi"), ("0.5", "500m"), ("1Mi", "1Mi"), ("1e3", "1e3")] {
            let source = json!({ "resourceFieldRef": { "resource": "limits.cpu", "divisor": stated } });
            let spec = json!({ "upgrade": { "image": "x", "envs": [{ "name": "A", "valueFrom": source }] } });
            let expected =
                format!("map[name:A valueFrom:map[resourceFieldRef:map[divisor:{written} resource:limits.cpu]]]");
            assert_eq!(digested(spec, "spec.upgrade.envs"), expected);
        }
    }

    #[test]
    fn a_null_inside_a_value_is_printed_as_go_prints_it() {
        assert_eq!(go_text(&json!({ "a": null, "b": [1, "x"] })), "map[a:<nil> b:[1 x]]");
    }

    #[test]
    fn marks_of_ours_never_change_the_hash() {
        let digest = (labels::DIGEST.to_owned(), "metadata.annotations".to_owned());
        let claims = (marks::CLAIMS.to_owned(), "{}".to_owned());
        let hash = |annotations: BTreeMap<String, String>| {
            let (spec, raw) = plan(json!({ "upgrade": { "image": "x" } }), &annotations);
            latest_hash("1", &spec, &raw, |_| None).unwrap()
        };

        assert_eq!(hash([digest.clone()].into()), hash([digest, claims].into()));
    }

    #[test]
    fn of_the_status_only_what_the_original_knows_is_digested() {
        let (spec, mut raw) = plan(json!({ "upgrade": { "image": "x" } }), &BTreeMap::new());
        raw["status"] = json!({ "latestVersion": "v1", "counts": { "total": 3 }, "waits": ["x"] });

        assert_eq!(text_at(&as_go_writes_it(&spec, &raw), "status"), "map[latestVersion:v1]");
    }
}
