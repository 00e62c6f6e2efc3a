//! What is checked in the status of a Job: that it does not contradict itself.

use serde_json::Value;

use super::values::check_not_negative;
use crate::apiserver::{
    object::{Object, at},
    status::FieldError,
};

/// Checks what a change of the status brings about; what was wrong before may stay so.
pub(super) fn validate(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    check_not_negative(new, "status", &["active", "succeeded", "failed", "ready", "terminating"], errors);
    if new.get("status") != old.get("status") {
        Status(new).check(errors);
    }
}

struct Status<'a>(&'a Object);

impl Status<'_> {
    fn check(&self, errors: &mut Vec<FieldError>) {
        let (complete, failed) = (self.is_true("Complete"), self.is_true("Failed"));
        let (succeeds, fails) = (self.is_true("SuccessCriteriaMet"), self.is_true("FailureTarget"));
        let ended = self.field("completionTime");
        let contradict = |found: bool, why: &str, errors: &mut Vec<FieldError>| {
            if found {
                errors.push(FieldError::invalid_unshown("status.conditions", why));
            }
        };
        contradict(complete && failed, "cannot set Complete=True and Failed=true conditions", errors);
        contradict(complete && fails, "cannot set Complete=True and FailureTarget=true conditions", errors);
        match ended {
            Some(time) if !complete => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.push(FieldError::invalid("status.completionTime", time, why));
            }
            None if complete => {
                let why = "completionTime is required for Complete jobs";
                errors.push(FieldError::required("status.completionTime", why));
            }
            _ => {}
        }
        contradict(
            failed && !fails,
            "cannot set Failed=True condition without the FailureTarget=true condition",
            errors,
        );
        contradict(
            complete && !succeeds,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            errors,
        );
        self.check_pods(complete || failed, errors);
        contradict(succeeds && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
        contradict(succeeds && fails, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
    }

    fn check_pods(&self, finished: bool, errors: &mut Vec<FieldError>) {
        let (active, ready) = (self.count("active"), self.count("ready"));
        if finished && active > 0 {
            let why = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid("status.active", &active.into(), why));
        }
        if finished && self.field("startTime").is_none() {
            errors.push(FieldError::required("status.startTime", "startTime is required for finished job"));
        }
        if finished && self.count("terminating") > 0 {
            let why = "terminating>0 is invalid for finished job";
            errors.push(FieldError::invalid("status.terminating", &self.count("terminating").into(), why));
        }
        if self.field("ready").is_some() && ready > active {
            let why = "cannot set more ready pods than active";
            errors.push(FieldError::invalid("status.ready", &ready.into(), why));
        }
    }

    fn field(&self, name: &str) -> Option<&Value> {
        at(self.0, &["status", name]).filter(|value| !value.is_null())
    }

    fn count(&self, name: &str) -> i64 {
        self.field(name).and_then(Value::as_i64).unwrap_or_default()
    }

    fn is_true(&self, kind: &str) -> bool {
        let conditions = self.field("conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
    }
}
