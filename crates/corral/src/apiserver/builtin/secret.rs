//! Secrets and ConfigMaps: what they hold, and that some of them never change.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::apiserver::{
    body, names,
    object::{Meta, Object, child, fill},
    resources::Rules,
    status::FieldError,
};

const FIXED: &str = "field is immutable when `immutable` is set";

pub(super) struct ConfigMapRules;

impl Rules for ConfigMapRules {
    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let held = |name: &str| object.get(name).and_then(Value::as_object);
        check_keys(object, "data", errors);
        for name in held("data").into_iter().flat_map(Object::keys) {
            if held("binaryData").is_some_and(|binary| binary.contains_key(name)) {
                let why = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(format!("data[{name}]"), &json!(name), why));
            }
        }
        check_keys(object, "binaryData", errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_immutable(new, old, &["data", "binaryData"], errors);
    }
}

/// Keys become names of files.
fn check_keys(object: &Object, field: &str, errors: &mut Vec<FieldError>) {
    for name in object.get(field).and_then(Value::as_object).into_iter().flat_map(Object::keys) {
        let field = format!("{field}[{name}]");
        errors.extend(names::config_key(name).iter().map(|why| FieldError::invalid(&field, &json!(name), why)));
    }
}

/// Once somebody has said that it is immutable, neither that nor what it holds changes.
fn check_immutable(new: &Object, old: &Object, fields: &[&str], errors: &mut Vec<FieldError>) {
    if old.get("immutable") != Some(&json!(true)) {
        return;
    }
    if new.get("immutable") != Some(&json!(true)) {
        errors.push(FieldError::forbidden("immutable", FIXED));
    }
    let changed = fields.iter().filter(|field| new.get(**field) != old.get(**field));
    errors.extend(changed.map(|field| FieldError::forbidden(*field, FIXED)));
}

/// Of which service account a token is.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(super) struct SecretRules;

/// Refuses what should be JSON and is not, without showing it.
fn check_json(secret: &Object, key: &str, errors: &mut Vec<FieldError>) {
    let held = secret.get("data").and_then(|data| data.get(key)?.as_str());
    let Some(bytes) = held.and_then(|held| STANDARD.decode(held).ok()) else { return };
    if let Err(why) = body::value(&bytes) {
        errors.push(FieldError::invalid(format!("data[{key}]"), &json!("<secret contents redacted>"), &why));
    }
}

impl Rules for SecretRules {
    /// What is written in plain is kept encoded.
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        fill(object, "type", "Opaque");
        if let Some(Value::Object(plain)) = object.remove("stringData") {
            let data = child(object, "data");
            for (name, value) in plain {
                data.insert(name, json!(STANDARD.encode(value.as_str().unwrap_or_default())));
            }
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        check_keys(object, "data", errors);
        let lacks = |key: &&&str| object.get("data").and_then(|data| data.get(**key)).is_none();
        let needed: &[&str] = match object.get("type").and_then(Value::as_str) {
            Some("kubernetes.io/tls") => &["tls.crt", "tls.key"],
            Some("kubernetes.io/dockerconfigjson") => &[".dockerconfigjson"],
            Some("kubernetes.io/dockercfg") => &[".dockercfg"],
            _ => &[],
        };
        errors.extend(needed.iter().filter(lacks).map(|key| FieldError::required(format!("data[{key}]"), "")));
        match object.get("type").and_then(Value::as_str) {
            Some("kubernetes.io/dockerconfigjson" | "kubernetes.io/dockercfg") => {
                needed.iter().for_each(|key| check_json(object, key, errors));
            }
            Some("kubernetes.io/service-account-token") => {
                let account = object.meta("annotations").and_then(|found| found.get(ACCOUNT)?.as_str());
                if account.unwrap_or_default().is_empty() {
                    errors.push(FieldError::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
                }
            }
            _ => {}
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        if new.get("type") != old.get("type") {
            let found = new.get("type").unwrap_or(&Value::Null);
            errors.push(FieldError::invalid("type", found, "field is immutable"));
        }
        check_immutable(new, old, &["data"], errors);
    }

    fn selectable(&self) -> &[&'static str] {
        &["type"]
    }
}
