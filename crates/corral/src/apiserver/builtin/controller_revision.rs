//! ControllerRevisions: what StatefulSets and DaemonSets remember of themselves.

use serde_json::{Value, json};

use super::values::check_unchanged;
use crate::apiserver::{object::Object, resources::Rules, status::FieldError};

pub(super) struct ControllerRevisionRules;

impl Rules for ControllerRevisionRules {
    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        if let Some(revision) = object.get("revision").and_then(Value::as_i64).filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("revision", &json!(revision), why));
        }
        match object.get("data") {
            Some(Value::Object(_)) => {}
            None | Some(Value::Null) => errors.push(FieldError::required("data", "data is mandatory")),
            Some(_) => errors.push(FieldError::required("data", "data must be a valid JSON object")),
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_unchanged(new, old, &["data"], "data", errors);
    }
}
