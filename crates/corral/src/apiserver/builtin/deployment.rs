//! Deployments.

use serde_json::{Value, json};

use super::{
    pod_spec::Around,
    template::{self, Kind},
    values::{
        amount, check_at_most_all, check_not_above, check_not_negative, check_number_or_percent, check_unchanged,
    },
};
use crate::apiserver::{
    object::{Object, at, child, fill},
    resources::Rules,
    status::FieldError,
};

const KIND: Kind = Kind { selecting: "deployment", running: "ReplicaSet" };

pub(super) struct DeploymentRules;

impl Rules for DeploymentRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "progressDeadlineSeconds", 600);
        let strategy = child(spec, "strategy");
        fill(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let update = child(strategy, "rollingUpdate");
            fill(update, "maxUnavailable", "25%");
            fill(update, "maxSurge", "25%");
        }
        template::fill_defaults(spec);
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        check_not_negative(object, "spec", &["replicas"], errors);
        template::check_selector(object, &KIND, errors);
        template::check_selected(object, errors);
        template::check(object, Around::default(), errors);
        template::check_runs_always(object, &KIND, errors);
        check_strategy(at(object, &["spec", "strategy"]).unwrap_or(&Value::Null), errors);
        check_not_negative(
            object,
            "spec",
            &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
            errors,
        );
        let seconds = |name: &str| at(object, &["spec", name]).and_then(Value::as_i64);
        if let Some(deadline) = seconds("progressDeadlineSeconds")
            && deadline <= seconds("minReadySeconds").unwrap_or_default()
        {
            let why = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", &json!(deadline), why));
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_unchanged(new, old, &["spec", "selector"], "spec.selector", errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Vec<FieldError>) {
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ];
        check_not_negative(object, "status", &counts, errors);
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        check_not_above(object, &parts, "replicas", "cannot be greater than status.replicas", errors);
        let why = "cannot be greater than readyReplicas";
        check_not_above(object, &["availableReplicas"], "readyReplicas", why, errors);
    }
}

fn check_strategy(strategy: &Value, errors: &mut Vec<FieldError>) {
    let update = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "Recreate" if !update.is_null() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", why));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let field = |name: &str| format!("spec.strategy.rollingUpdate.{name}");
            let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
            check_number_or_percent(&field("maxUnavailable"), unavailable, errors);
            check_number_or_percent(&field("maxSurge"), surge, errors);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(field("maxUnavailable"), unavailable, why));
            }
            check_at_most_all(&field("maxUnavailable"), unavailable, errors);
        }
        _ => {
            let known = ["Recreate", "RollingUpdate"].map(String::from);
            errors.push(FieldError::unsupported("spec.strategy", &template::inner_strategy(strategy), &known));
        }
    }
}
