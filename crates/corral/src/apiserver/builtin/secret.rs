//! Secrets and ConfigMaps: what they hold, and that some of them never change.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::apiserver::{
    object::{Object, child, fill},
    resources::Rules,
    status::FieldError,
};

const FIXED: &str = "field is immutable when `immutable` is set";

pub(super) struct ConfigMapRules;

impl Rules for ConfigMapRules {
    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_immutable(new, old, &["data", "binaryData"], errors);
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

pub(super) struct SecretRules;

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
