//! StatefulSets.

use serde_json::{Value, json};

use super::{
    persistent_volume,
    pod_spec::Around,
    template::{self, Kind},
    values::{
        amount, check_at_most_all, check_known, check_label, check_not_above, check_not_negative,
        check_number_or_percent,
    },
};
use crate::apiserver::{
    object::{Object, at, child, fill, text},
    resources::Rules,
    status::FieldError,
};

const KIND: Kind = Kind { selecting: "statefulset", running: "StatefulSet" };
/// What may be changed in the spec of one that exists.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) struct StatefulSetRules;

impl Rules for StatefulSetRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "podManagementPolicy", "OrderedReady");
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        let strategy = child(spec, "updateStrategy");
        if strategy.get("type").is_none() {
            fill(strategy, "type", "RollingUpdate");
            fill(strategy, "rollingUpdate", json!({}));
        }
        if strategy["type"] == "RollingUpdate"
            && let Some(Value::Object(update)) = strategy.get_mut("rollingUpdate")
        {
            fill(update, "partition", 0);
        }
        let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
        fill(retention, "whenDeleted", "Retain");
        fill(retention, "whenScaled", "Retain");
        for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(claim) = claim {
                fill(claim, "apiVersion", "v1");
                fill(claim, "kind", "PersistentVolumeClaim");
                persistent_volume::fill_claim(claim);
            }
        }
        template::fill_defaults(spec);
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let policy = at(object, &["spec", "podManagementPolicy"]).unwrap_or(&Value::Null);
        if !["OrderedReady", "Parallel"].iter().any(|known| policy == known) {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid("spec.podManagementPolicy", policy, why));
        }
        check_strategy(at(object, &["spec", "updateStrategy"]).unwrap_or(&Value::Null), errors);
        for name in ["whenDeleted", "whenScaled"] {
            let path = ["spec", "persistentVolumeClaimRetentionPolicy", name];
            check_known(&path.join("."), at(object, &path).unwrap_or(&Value::Null), &["Retain", "Delete"], errors);
        }
        check_not_negative(object, "spec", &["replicas", "minReadySeconds"], errors);
        if let service @ [_, ..] = text(object, &["spec", "serviceName"]).as_bytes() {
            check_label("spec.serviceName", &String::from_utf8_lossy(service), errors);
        }
        template::check_selector(object, &KIND, errors);
        template::check_selected(object, errors);
        let claims = at(object, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array).into_iter().flatten();
        let volumes: Vec<&str> = claims.filter_map(|claim| claim["metadata"]["name"].as_str()).collect();
        template::check(object, Around { is_pod: false, volumes: &volumes }, errors);
        template::check_runs_always(object, &KIND, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        let kept = |object: &Object| {
            let mut spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
            spec.retain(|name, _| !CHANGEABLE.contains(&name.as_str()));
            spec
        };
        if kept(new) != kept(old) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                       'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                       'minReadySeconds' are forbidden";
            errors.push(FieldError::forbidden("spec", why));
        }
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Vec<FieldError>) {
        let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        check_not_negative(object, "status", &["replicas"], errors);
        check_not_negative(object, "status", &parts, errors);
        check_not_above(object, &parts, "replicas", "cannot be greater than status.replicas", errors);
        let why = "cannot be greater than status.readyReplicas";
        check_not_above(object, &["availableReplicas"], "readyReplicas", why, errors);
    }
}

fn check_strategy(strategy: &Value, errors: &mut Vec<FieldError>) {
    let field = "spec.updateStrategy";
    let update = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "OnDelete" if !update.is_null() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid(format!("{field}.rollingUpdate"), update, why));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            check_number_or_percent(&format!("{field}.rollingUpdate.partition"), &update["partition"], errors);
            if let unavailable @ (Value::Number(_) | Value::String(_)) = &update["maxUnavailable"] {
                let field = format!("{field}.rollingUpdate.maxUnavailable");
                check_number_or_percent(&field, unavailable, errors);
                if amount(unavailable) == 0 {
                    errors.push(FieldError::invalid(field.clone(), unavailable, "cannot be 0"));
                }
                check_at_most_all(&field, unavailable, errors);
            }
        }
        _ => errors.push(FieldError::invalid(
            field,
            &template::inner_strategy(strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}
