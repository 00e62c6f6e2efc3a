//! HorizontalPodAutoscalers: their defaults, and what is checked in them but for metrics.

use serde_json::{Value, json};

use super::values::{listed, text};
use crate::apiserver::{
    autoscaler_forms::{self, DEFAULT_UTILIZATION},
    names,
    object::{Meta, Object, child, fill},
    resources::Rules,
    status::FieldError,
};

const KEPT_VERSION: &str = "v2";

pub(super) struct AutoscalerRules;

impl Rules for AutoscalerRules {
    fn fill_defaults(&self, version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "minReplicas", 1);
        // What else the older form leaves open is settled on the way to the kept one.
        if version != KEPT_VERSION {
            return;
        }
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let metric = autoscaler_forms::utilization(&json!(DEFAULT_UTILIZATION));
            spec.insert("metrics".into(), json!([metric]));
        }
        if let Some(Value::Object(behavior)) = spec.get_mut("behavior") {
            let policy = |kind: &str, value: i64| json!({ "type": kind, "value": value, "periodSeconds": 15 });
            let up = child(behavior, "scaleUp");
            fill(up, "stabilizationWindowSeconds", 0);
            fill(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
            fill(up, "selectPolicy", "Max");
            let down = child(behavior, "scaleDown");
            fill(down, "policies", json!([policy("Percent", 100)]));
            fill(down, "selectPolicy", "Max");
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let least = spec["minReplicas"].as_i64();
        let most = spec["maxReplicas"].as_i64().unwrap_or_default();
        if let Some(least) = least.filter(|least| *least < 1) {
            let why = "must be greater than or equal to 1";
            errors.push(FieldError::invalid("spec.minReplicas", &json!(least), why));
        }
        if most < 1 {
            errors.push(FieldError::invalid("spec.maxReplicas", &json!(most), "must be greater than 0"));
        }
        if least.is_some_and(|least| most < least) {
            let why = "must be greater than or equal to `minReplicas`";
            errors.push(FieldError::invalid("spec.maxReplicas", &json!(most), why));
        }
        for name in ["kind", "name"] {
            let field = format!("spec.scaleTargetRef.{name}");
            match text(&spec["scaleTargetRef"], name) {
                "" => errors.push(FieldError::required(field, "")),
                stated => errors.extend(
                    names::path_segment(stated)
                        .iter()
                        .map(|why| FieldError::invalid(field.as_str(), &json!(stated), why)),
                ),
            }
        }
        if object.resource_version().is_empty() {
            check_version(spec, errors);
        }
        let counts_others = |metric: &Value| metric["type"] == "Object" || metric["type"] == "External";
        if least == Some(0) && !listed(spec, "metrics").any(counts_others) {
            let why = "must specify at least one Object or External metric to support scaling to zero replicas";
            errors.push(FieldError::forbidden("spec.metrics", why));
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        let [new, old] = [new, old].map(|object| object.get("spec").unwrap_or(&Value::Null));
        let same = |name: &str| text(&new["scaleTargetRef"], name) == text(&old["scaleTargetRef"], name);
        if !same("apiVersion") || !same("kind") {
            check_version(new, errors);
        }
    }
}

/// What is scaled is named with its group; only one kind that can be scaled has none.
fn check_version(spec: &Value, errors: &mut Vec<FieldError>) {
    let target = &spec["scaleTargetRef"];
    let version = text(target, "apiVersion");
    let why = match version.matches('/').count() {
        0 | 1 if version.find('/').is_some_and(|place| place > 0) => return,
        0 | 1 if text(target, "kind") == "ReplicationController" => return,
        0 | 1 => "apiVersion must specify API group".to_string(),
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", &json!(version), &why));
}
