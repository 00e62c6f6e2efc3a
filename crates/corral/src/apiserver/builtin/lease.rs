//! Leases.

use crate::apiserver::{
    object::{Object, at},
    resources::Rules,
    status::FieldError,
};

pub(super) struct LeaseRules;

impl Rules for LeaseRules {
    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let limits = [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        ];
        for (name, least, why) in limits {
            if let Some(value) = at(object, &["spec", name])
                && value.as_i64().is_some_and(|number| number < least)
            {
                errors.push(FieldError::invalid(format!("spec.{name}"), value, why));
            }
        }
    }
}
