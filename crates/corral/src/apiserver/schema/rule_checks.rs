//! What is wrong with the rules of a schema, when its definition is written.

use serde_json::json;

use super::{ListKeys, Schema, rules::Rule};
use crate::apiserver::status::FieldError;

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

impl Schema {
    /// Complains about rules that cannot be used. Errors about their form come before those about their sense.
    pub fn check_rules(&self, path: &str, errors: &mut Vec<FieldError>) {
        let mut form = vec![];
        let mut sense = vec![];
        self.check_rules_below(path, None, &mut form, &mut sense);
        errors.append(&mut form);
        errors.append(&mut sense);
    }

    /// `uncorrelatable` is the list inside of which nobody can say which element was which.
    fn check_rules_below(
        &self,
        path: &str,
        uncorrelatable: Option<&str>,
        form: &mut Vec<FieldError>,
        sense: &mut Vec<FieldError>,
    ) {
        if !self.has_rules {
            return;
        }
        let before = form.len();
        for (name, schema) in &self.properties {
            schema.check_rules_below(&format!("{path}.properties[{name}]"), uncorrelatable, form, sense);
        }
        if let Some(schema) = self.additional() {
            schema.check_rules_below(&format!("{path}.additionalProperties"), uncorrelatable, form, sense);
        }
        if let Some(schema) = &self.items {
            let loses = !matches!(self.list_keys, ListKeys::Fields(_));
            let within = uncorrelatable.or(loses.then_some(path));
            schema.check_rules_below(&format!("{path}.items"), within, form, sense);
        }
        for (place, rule) in self.rules.iter().enumerate() {
            let at = |field: &str| format!("{path}.x-kubernetes-validations[{place}].{field}");
            check_form(rule, self, &at, form);
        }
        // What is wrong in its form, here or below, would only be said twice.
        let rules = self.rules.iter().enumerate().filter(|_| form.len() == before);
        for (place, rule) in rules {
            let at = |field: &str| format!("{path}.x-kubernetes-validations[{place}].{field}");
            check_sense(rule, uncorrelatable, &at, sense);
        }
    }

    /// Whether a path such as `.spec['a']` leads to a field.
    fn has_field(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix('.') else { return path.is_empty() };
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        self.properties.get(name).or_else(|| self.additional()).is_some_and(|schema| schema.has_field(rest))
    }
}

fn check_form(rule: &Rule, schema: &Schema, at: &dyn Fn(&str) -> String, errors: &mut Vec<FieldError>) {
    let (source, message) = (rule.text("rule").trim(), rule.text("message"));
    if source.is_empty() {
        errors.push(FieldError::required(at("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(at("message"), &json!(message), "must be non-empty if specified"));
    } else if message.trim().contains('\n') {
        errors.push(FieldError::invalid(at("message"), &json!(message), "must not contain line breaks"));
    } else if source.contains('\n') && message.is_empty() {
        errors.push(FieldError::required(at("message"), "message must be specified if rule contains line breaks"));
    }
    let expression = rule.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(at("messageExpression"), why));
    }
    let reason = &rule.written["reason"];
    if reason.as_str().is_some_and(|reason| !REASONS.contains(&reason)) {
        errors.push(FieldError::unsupported(at("reason"), reason, &REASONS.map(String::from)));
    }
    let field = rule.text("fieldPath");
    if field.is_empty() {
        return;
    }
    let wrong = if field.trim().is_empty() {
        "must be non-empty if specified"
    } else if field.trim().contains('\n') {
        "must not contain line breaks"
    } else if !schema.has_field(field.trim()) {
        "must be a valid path"
    } else {
        return;
    };
    errors.push(FieldError::invalid(at("fieldPath"), &json!(field), wrong));
}

fn check_sense(rule: &Rule, uncorrelatable: Option<&str>, at: &dyn Fn(&str) -> String, errors: &mut Vec<FieldError>) {
    if rule.text("rule").trim().is_empty() {
        return;
    }
    match &rule.program {
        Err(why) => errors.push(FieldError::invalid_as(at("rule"), &shown(rule), why)),
        Ok(_) => match (rule.uses_old(), uncorrelatable) {
            (true, Some(path)) => {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
                errors.push(FieldError::invalid(at("rule"), &json!(rule.text("rule")), &why));
            }
            (false, _) if rule.written["optionalOldSelf"].is_boolean() => {
                let value = &rule.written["optionalOldSelf"];
                let why = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(at("optionalOldSelf"), value, why));
            }
            _ => {}
        },
    }
    if let Some(Err(why)) = &rule.message {
        errors.push(FieldError::invalid_as(at("messageExpression"), &shown(rule), why));
    }
}

/// A rule as the original shows it: with the names that its fields have inside, and safe to stand in a web page.
fn shown(rule: &Rule) -> String {
    let text = |field: &str| {
        let quoted = json!(rule.text(field)).to_string();
        quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule.written["reason"],
        text("fieldPath"),
        rule.written["optionalOldSelf"]
    )
}
