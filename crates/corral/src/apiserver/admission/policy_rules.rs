//! What is filled in and checked in policies and webhook configurations before they are stored.

use drover_cel::{Environment, Program, Type, is_assignable};
use serde_json::{Value, json};

use super::expressions::environment;
use crate::apiserver::{
    object::{Object, at, child, fill},
    resources::Rules,
    status::FieldError,
};

/// The rules of both kinds of webhook configurations.
pub(crate) struct WebhookRules;

impl Rules for WebhookRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let is_mutating = object.get("kind").is_some_and(|kind| kind == "MutatingWebhookConfiguration");
        for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(webhook) = webhook else { continue };
            fill(webhook, "failurePolicy", "Fail");
            fill(webhook, "timeoutSeconds", 10);
            if is_mutating {
                fill(webhook, "reinvocationPolicy", "Never");
            }
            fill_matching(webhook, "rules");
            if let Some(Value::Object(service)) =
                webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"))
            {
                fill(service, "port", 443);
            }
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        for (place, webhook) in object.get("webhooks").and_then(Value::as_array).into_iter().flatten().enumerate() {
            for (condition, stated) in webhook["matchConditions"].as_array().into_iter().flatten().enumerate() {
                let at = format!("webhooks[{place}].matchConditions[{condition}]");
                check(stated, "expression", &at, &environment(), Some(Type::Bool), errors);
            }
        }
    }
}

/// What webhooks and policies match if they do not say.
fn fill_matching(stated: &mut Object, rules: &str) {
    fill(stated, "matchPolicy", "Equivalent");
    fill(stated, "namespaceSelector", json!({}));
    fill(stated, "objectSelector", json!({}));
    for rule in stated.get_mut(rules).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(rule) = rule {
            fill(rule, "scope", "*");
        }
    }
}

/// The rules of ValidatingAdmissionPolicies: their expressions have to make sense.
pub(crate) struct PolicyRules;

impl Rules for PolicyRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "failurePolicy", "Fail");
        if let Some(Value::Object(constraints)) = spec.get_mut("matchConstraints") {
            fill_matching(constraints, "resourceRules");
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let listed = |field: &str| at(object, &["spec", field]).and_then(Value::as_array).into_iter().flatten();
        let mut known = environment();
        for (place, variable) in listed("variables").enumerate() {
            let kind = check(variable, "expression", &format!("spec.variables[{place}]"), &known, None, errors);
            let name = variable["name"].as_str().unwrap_or_default();
            known = known.variable(format!("variables.{name}"), kind);
        }
        for (place, condition) in listed("matchConditions").enumerate() {
            let at = format!("spec.matchConditions[{place}]");
            check(condition, "expression", &at, &environment(), Some(Type::Bool), errors);
        }
        for (place, validation) in listed("validations").enumerate() {
            let at = format!("spec.validations[{place}]");
            check(validation, "expression", &at, &known, Some(Type::Bool), errors);
            if validation["messageExpression"].as_str().is_some_and(|source| !source.is_empty()) {
                check(validation, "messageExpression", &at, &known, Some(Type::String), errors);
            }
        }
    }
}

/// Complains about an expression that cannot be used, and says what it evaluates to.
fn check(
    stated: &Value,
    field: &str,
    at: &str,
    known: &Environment,
    expected: Option<Type>,
    errors: &mut Vec<FieldError>,
) -> Type {
    let source = stated[field].as_str().unwrap_or_default();
    let path = format!("{at}.{field}");
    if source.trim().is_empty() {
        errors.push(FieldError::required(path, &format!("{field} is not specified")));
        return Type::Dyn;
    }
    match Program::compile(source, known) {
        Err(error) => {
            errors.push(FieldError::invalid(path, &json!(source), &format!("compilation failed: {error}")));
            Type::Dyn
        }
        Ok(program) => {
            if let Some(expected) = expected.filter(|expected| !is_assignable(expected, program.kind())) {
                errors.push(FieldError::invalid(path, &json!(source), &format!("must evaluate to {expected}")));
            }
            program.kind().clone()
        }
    }
}
