//! DaemonSets.

use drover_api::daemon_set::TEMPLATE_GENERATION;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    pod_spec::Around,
    template::{self, Kind},
    values::{amount, check_at_most_all, check_not_negative, check_number_or_percent, check_unchanged},
};
use crate::apiserver::{
    object::{Meta, Object, at, child, fill},
    resources::Rules,
    status::FieldError,
};

const KIND: Kind = Kind { selecting: "daemonset", running: "DaemonSet" };

pub(super) struct DaemonSetRules;

impl Rules for DaemonSetRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "revisionHistoryLimit", 10);
        let strategy = child(spec, "updateStrategy");
        fill(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let update = child(strategy, "rollingUpdate");
            fill(update, "maxUnavailable", 1);
            fill(update, "maxSurge", 0);
        }
        template::fill_defaults(spec);
    }

    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        object.remove("status");
        set_template_generation(object, template_generation(object).max(1));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        let template = ["spec", "template"];
        let changes = i64::from(at(new, &template) != at(old, &template));
        set_template_generation(new, template_generation(old) + changes);
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        // Here the original does not insist on a selector: without one, no template can match.
        if at(object, &["spec", "selector"]).is_some_and(|selector| !selector.is_null()) {
            template::check_selector(object, &KIND, errors);
        }
        template::check_selected(object, errors);
        template::check(object, Around::default(), errors);
        template::check_runs_always(object, &KIND, errors);
        check_not_negative(object, "spec", &["minReadySeconds"], errors);
        check_strategy(at(object, &["spec", "updateStrategy"]).unwrap_or(&Value::Null), errors);
        check_not_negative(object, "spec", &["revisionHistoryLimit"], errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_unchanged(new, old, &["spec", "selector"], "spec.selector", errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Vec<FieldError>) {
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
        ];
        check_not_negative(object, "status", &counts, errors);
    }
}

fn template_generation(object: &Object) -> i64 {
    let noted = object.meta("annotations").and_then(|annotations| annotations[TEMPLATE_GENERATION].as_str());
    noted.and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Object, generation: i64) {
    child(object.meta_mut(), "annotations").insert(TEMPLATE_GENERATION.into(), json!(generation.to_string()));
}

fn check_strategy(strategy: &Value, errors: &mut Vec<FieldError>) {
    let update = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let field = |name: &str| format!("spec.updateStrategy.rollingUpdate.{name}");
            let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
            check_number_or_percent(&field("maxUnavailable"), unavailable, errors);
            check_number_or_percent(&field("maxSurge"), surge, errors);
            check_at_most_all(&field("maxUnavailable"), unavailable, errors);
            check_at_most_all(&field("maxSurge"), surge, errors);
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(field("maxSurge"), surge, why));
                }
                (false, false) => {
                    errors.push(FieldError::required(field("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => {
            let known = ["RollingUpdate", "OnDelete"].map(String::from);
            errors.push(FieldError::unsupported("spec.updateStrategy", &template::inner_strategy(strategy), &known));
        }
    }
}
