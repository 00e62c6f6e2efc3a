//! Nodes.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{
    names,
    object::{Object, at, child, fill},
    packed::Packed,
    resources::Rules,
    status::FieldError,
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) struct NodeRules;

impl Rules for NodeRules {
    /// A node that is not cordoned says nothing about it.
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        if let Some(Value::Object(spec)) = object.get_mut("spec")
            && spec.get("unschedulable") == Some(&Value::Bool(false))
        {
            spec.remove("unschedulable");
        }
        // The list is the newer form, and the first of it is the old one.
        if let Some(Value::Object(spec)) = object.get_mut("spec")
            && let Some(first) = spec.get("podCIDR").filter(|first| first.is_string()).cloned()
        {
            fill(spec, "podCIDRs", json!([first]));
        }
    }

    /// Whoever registers a node states its status, too. Nothing is scheduled there before it was seen to be ready.
    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        let taints = child(object, "spec").entry("taints").or_insert_with(|| json!([]));
        if let Value::Array(taints) = taints
            && !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule")
        {
            taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
        }
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
            && let (Some(capacity), None) = (status.get("capacity").cloned(), status.get("allocatable"))
        {
            status.insert("allocatable".into(), capacity);
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        check_taints(object, errors);
        let ranges = at(object, &["spec", "podCIDRs"]).and_then(Value::as_array);
        for (place, range) in ranges.into_iter().flatten().enumerate() {
            if !range.as_str().is_some_and(is_range) {
                let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                errors.push(FieldError::invalid(format!("spec.podCIDRs[{place}]"), range, why));
            }
        }
    }

    /// The original checks taints a second time when they change.
    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        for (name, shown) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
            let [after, before] = [new, old].map(|node| at(node, &["spec", name]));
            if before.is_some() && after != before {
                let why = format!("node updates may not change {shown} except from \"\" to valid");
                errors.push(FieldError::forbidden(format!("spec.{name}"), &why));
            }
        }
        check_taints(new, errors);
    }

    fn selectable(&self) -> &[&'static str] {
        &["spec.unschedulable"]
    }

    fn fields(&self, object: &Object) -> Packed {
        let cordoned = at(object, &["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or_default();
        Packed::from_values([if cordoned { "true" } else { "false" }].into_iter())
    }
}

fn check_taints(node: &Object, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<(&str, &str)> = vec![];
    for (place, taint) in at(node, &["spec", "taints"]).and_then(Value::as_array).into_iter().flatten().enumerate() {
        // The original means the spec, and says this.
        let field = |name: &str| format!("metadata.taints[{place}].{name}");
        let said = |name: &str| taint[name].as_str().unwrap_or_default();
        let wrong = |name: &str, why: &String| FieldError::invalid(field(name), &json!(said(name)), why);
        errors.extend(names::qualified(said("key")).iter().map(|why| wrong("key", why)));
        errors.extend(names::label_value(said("value")).iter().map(|why| wrong("value", why)));
        match said("effect") {
            "" => errors.push(FieldError::required(field("effect"), "")),
            effect if EFFECTS.contains(&effect) => {}
            other => errors.push(FieldError::unsupported(field("effect"), &json!(other), &EFFECTS.map(String::from))),
        }
        let (key, effect) = (said("key"), said("effect"));
        if seen.contains(&(key, effect)) {
            let shown = format!(
                r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":{}}}"#,
                json!(key),
                json!(said("value")),
                json!(effect),
                taint["timeAdded"]
            );
            let why = "taints must be unique by key and effect pair";
            errors.push(FieldError::duplicate_as(format!("metadata.taints[{place}]"), &shown, why));
        }
        seen.push((key, effect));
    }
}

/// Whether a text is a range of addresses, such as `10.1.0.0/24`.
fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let limit = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}
