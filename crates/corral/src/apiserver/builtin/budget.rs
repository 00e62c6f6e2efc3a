//! Pod disruption budgets.

use serde_json::Value;

use super::selector;
use crate::apiserver::{
    object::{Object, at},
    resources::Rules,
    status::FieldError,
};

const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

pub(super) struct BudgetRules;

impl Rules for BudgetRules {
    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let limits = ["minAvailable", "maxUnavailable"];
        let stated: Vec<_> = limits.iter().filter_map(|name| Some((*name, at(object, &["spec", name])?))).collect();
        if stated.len() > 1 {
            // The original shows its own form of it, and in that form's order.
            let shown = |name: &str| at(object, &["spec", name]).unwrap_or(&Value::Null).to_string();
            let spec = format!(
                r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
                shown("minAvailable"),
                shown("selector"),
                shown("maxUnavailable"),
                shown("unhealthyPodEvictionPolicy")
            );
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.push(FieldError::invalid_as_shown("spec", &spec, why));
        }
        for (name, value) in stated {
            let field = format!("spec.{name}");
            match value {
                Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                    errors.push(FieldError::invalid(field, value, "must be greater than or equal to 0"));
                }
                Value::String(text) if !is_percentage(text) => {
                    let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  \
                               or '93%', regex used for validation is '[0-9]+%')";
                    errors.push(FieldError::invalid(field, value, why));
                }
                Value::String(text) if text.trim_end_matches('%').parse::<u64>().is_ok_and(|percent| percent > 100) => {
                    errors.push(FieldError::invalid(field, value, "must not be greater than 100%"));
                }
                _ => {}
            }
        }
        let policy = at(object, &["spec", "unhealthyPodEvictionPolicy"]);
        if let Some(policy) = policy.filter(|policy| !POLICIES.iter().any(|known| *policy == known)) {
            let known = POLICIES.map(String::from);
            errors.push(FieldError::unsupported("spec.unhealthyPodEvictionPolicy", policy, &known));
        }
        if let Some(chosen) = at(object, &["spec", "selector"]) {
            selector::check("spec.selector", chosen, errors);
        }
    }
}

fn is_percentage(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}
