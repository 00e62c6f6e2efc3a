//! What is checked in webhook configurations and in what policies match, before they are stored.

use serde_json::{Value, json};

use crate::apiserver::{names, status::FieldError};

const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const REINVOCATIONS: [&str; 2] = ["IfNeeded", "Never"];
/// The side effects that a webhook may have: none that matter.
const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// The webhooks of a configuration.
pub(super) fn check_webhooks(webhooks: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = vec![];
    for (place, webhook) in webhooks.iter().enumerate() {
        let at = format!("webhooks[{place}]");
        check_webhook(&at, webhook, errors);
        check_reviews(&format!("{at}.admissionReviewVersions"), &webhook["admissionReviewVersions"], errors);
        let name = webhook["name"].as_str().unwrap_or_default();
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &json!(name)));
        }
        seen.push(name);
    }
}

fn check_webhook(at: &str, webhook: &Value, errors: &mut Vec<FieldError>) {
    check_name(&format!("{at}.name"), webhook["name"].as_str().unwrap_or_default(), errors);
    check_rules(&format!("{at}.rules"), &webhook["rules"], errors);
    check_failure_policy(&format!("{at}.failurePolicy"), &webhook["failurePolicy"], errors);
    check_stated(&format!("{at}.matchPolicy"), &webhook["matchPolicy"], &MATCH_POLICIES, errors);
    if webhook["sideEffects"].is_null() {
        let why = format!("must specify one of {}", HARMLESS.join(", "));
        errors.push(FieldError::required(format!("{at}.sideEffects"), &why));
    }
    check_stated(&format!("{at}.sideEffects"), &webhook["sideEffects"], &HARMLESS, errors);
    if webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{at}.timeoutSeconds"), &webhook["timeoutSeconds"], why));
    }
    check_stated(&format!("{at}.reinvocationPolicy"), &webhook["reinvocationPolicy"], &REINVOCATIONS, errors);
    check_client(&format!("{at}.clientConfig"), &webhook["clientConfig"], errors);
}

fn check_name(field: &str, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if let wrong @ [_, ..] = names::subdomain(name).as_slice() {
        errors.push(FieldError::invalid(field, &json!(name), &wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(field, &json!(name), why));
    }
}

fn check_client(field: &str, client: &Value, errors: &mut Vec<FieldError>) {
    match (client["url"].as_str(), client["service"].is_null()) {
        (None, true) | (Some(_), false) => {
            errors.push(FieldError::required(field, "exactly one of url or service is required"));
        }
        (Some(url), true) => {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            if scheme != "https" {
                let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                errors.push(FieldError::invalid(format!("{field}.url"), &json!(scheme), why));
            }
        }
        (None, false) => {
            for name in ["name", "namespace"] {
                if client["service"][name].as_str().unwrap_or_default().is_empty() {
                    let why = format!("service {name} is required");
                    errors.push(FieldError::required(format!("{field}.service.{name}"), &why));
                }
            }
        }
    }
}

fn check_reviews(field: &str, versions: &Value, errors: &mut Vec<FieldError>) {
    let stated = versions.as_array().map(Vec::as_slice).unwrap_or_default();
    let known = REVIEWS.join(", ");
    if stated.is_empty() {
        errors.push(FieldError::required(field, &format!("must specify one of {known}")));
    } else if !stated.iter().any(|version| REVIEWS.iter().any(|known| version == known)) {
        errors.push(FieldError::invalid(field, versions, &format!("must include at least one of {known}")));
    }
}

/// What a policy or its binding matches.
pub(super) fn check_matching(at: &str, matching: &Value, errors: &mut Vec<FieldError>) {
    check_stated(&format!("{at}.matchPolicy"), &matching["matchPolicy"], &MATCH_POLICIES, errors);
    for rules in ["resourceRules", "excludeResourceRules"] {
        check_rules(&format!("{at}.{rules}"), &matching[rules], errors);
    }
}

pub(super) fn check_failure_policy(field: &str, policy: &Value, errors: &mut Vec<FieldError>) {
    check_stated(field, policy, &FAILURE_POLICIES, errors);
}

fn check_rules(at: &str, rules: &Value, errors: &mut Vec<FieldError>) {
    for (place, rule) in rules.as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("{at}[{place}].{name}");
        let listed = |name: &str| rule[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_all = |name: &str| listed(name).len() > 1 && listed(name).iter().any(|value| value == "*");
        for (name, others) in
            [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")]
        {
            if listed(name).is_empty() {
                errors.push(FieldError::required(field(name), ""));
            }
            if has_all(name) {
                let why = format!("if '*' is present, must not specify other {others}");
                errors.push(FieldError::invalid(field(name), &rule[name], &why));
            }
            for (index, operation) in listed(name).iter().enumerate().filter(|_| name == "operations") {
                check_stated(&format!("{}[{index}]", field(name)), operation, &OPERATIONS, errors);
            }
        }
        check_resources(&field("resources"), &rule["resources"], errors);
        check_stated(&field("scope"), &rule["scope"], &SCOPES, errors);
    }
}

fn check_resources(field: &str, resources: &Value, errors: &mut Vec<FieldError>) {
    let listed: Vec<&str> = resources.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if listed.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    for (place, _) in listed.iter().enumerate().filter(|(_, name)| name.is_empty()) {
        errors.push(FieldError::required(format!("{field}[{place}]"), ""));
    }
    if listed.len() > 1 && listed.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(field, resources, why));
    }
    // The original remembers the last one only.
    let last_whole = listed.iter().rfind(|name| !name.contains('/'));
    if listed.contains(&"*") && last_whole.is_some_and(|name| *name != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(field, resources, why));
    }
}

/// Refuses a stated value that is none of those that are known.
pub(super) fn check_stated(field: &str, value: &Value, known: &[&str], errors: &mut Vec<FieldError>) {
    if !value.is_null() && !known.iter().any(|known| value == known) {
        let known: Vec<_> = known.iter().map(|known| known.to_string()).collect();
        errors.push(FieldError::unsupported(field, value, &known));
    }
}
