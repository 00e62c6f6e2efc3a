//! Secrets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::apiserver::{
    object::{Object, child, fill},
    resources::Rules,
    status::FieldError,
};

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
    }

    fn selectable(&self) -> &[&'static str] {
        &["type"]
    }
}
