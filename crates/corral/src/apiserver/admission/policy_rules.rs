//! What is filled in and checked in policies and webhook configurations before they are stored.

use drover_cel::{Environment, Program, Type, is_assignable};
use serde_json::{Value, json};

use super::{configuration, expressions::environment};
use crate::apiserver::{
    names,
    object::{Object, at, child, fill, text},
    resources::Rules,
    status::FieldError,
};

/// The reasons that a refusal may state.
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

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
        let webhooks = object.get("webhooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        configuration::check_webhooks(webhooks, errors);
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
        let policy = at(object, &["spec", "failurePolicy"]).unwrap_or(&Value::Null);
        configuration::check_failure_policy("spec.failurePolicy", policy, errors);
        match at(object, &["spec", "matchConstraints"]) {
            Some(matching) => configuration::check_matching("spec.matchConstraints", matching, errors),
            None => errors.push(FieldError::required("spec.matchConstraints", "")),
        }
        if listed("validations").next().is_none() && listed("auditAnnotations").next().is_none() {
            for name in ["spec.validations", "spec.auditAnnotations"] {
                let why = "validations or auditAnnotations must contain at least one item";
                errors.push(FieldError::required(name, why));
            }
        }
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
            configuration::check_stated(&format!("{at}.reason"), &validation["reason"], &REASONS, errors);
        }
    }
}

/// The rules of the bindings of policies.
pub(crate) struct BindingRules;

impl Rules for BindingRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        if let Some(Value::Object(matching)) = child(object, "spec").get_mut("matchResources") {
            fill_matching(matching, "resourceRules");
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        match text(object, &["spec", "policyName"]) {
            "" => errors.push(FieldError::required("spec.policyName", "")),
            name => {
                let wrong = names::subdomain(name);
                errors.extend(wrong.iter().map(|why| FieldError::invalid("spec.policyName", &json!(name), why)));
            }
        }
        if let Some(matching) = at(object, &["spec", "matchResources"]) {
            configuration::check_matching("spec.matchResources", matching, errors);
        }
        let actions = at(object, &["spec", "validationActions"]).and_then(Value::as_array);
        let mut seen: Vec<&Value> = vec![];
        for (place, action) in actions.into_iter().flatten().enumerate() {
            let field = format!("spec.validationActions[{place}]");
            configuration::check_stated(&field, action, &["Audit", "Deny", "Warn"], errors);
            if seen.contains(&action) {
                errors.push(FieldError::duplicate(field, action));
            }
            seen.push(action);
        }
        if seen.is_empty() {
            errors.push(FieldError::required("spec.validationActions", "at least one validation action is required"));
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
                errors.push(FieldError::invalid(
                    path,
                    &json!(source),
                    &format!("must evaluate to {expected} but got {}", program.kind()),
                ));
            }
            program.kind().clone()
        }
    }
}
