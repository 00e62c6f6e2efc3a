//! ReplicaSets.

use super::{
    pod_spec::Around,
    template::{self, Kind},
    values::{check_not_above, check_not_negative, check_unchanged},
};
use crate::apiserver::{
    object::{Object, child, fill},
    resources::Rules,
    status::FieldError,
};

// The original takes these sentences from Deployments.
const KIND: Kind = Kind { selecting: "deployment", running: "ReplicaSet" };

pub(super) struct ReplicaSetRules;

impl Rules for ReplicaSetRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "replicas", 1);
        template::fill_defaults(spec);
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        check_not_negative(object, "spec", &["replicas", "minReadySeconds"], errors);
        template::check_selector(object, &KIND, errors);
        template::check_selected(object, errors);
        template::check(object, Around::default(), errors);
        template::check_runs_always(object, &KIND, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_unchanged(new, old, &["spec", "selector"], "spec.selector", errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Vec<FieldError>) {
        let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        check_not_negative(object, "status", &["replicas"], errors);
        check_not_negative(object, "status", &parts, errors);
        check_not_negative(object, "status", &["observedGeneration"], errors);
        check_not_above(object, &parts, "replicas", "cannot be greater than status.replicas", errors);
        let why = "cannot be greater than readyReplicas";
        check_not_above(object, &["availableReplicas"], "readyReplicas", why, errors);
    }

    fn selectable(&self) -> &[&'static str] {
        &["status.replicas"]
    }
}
