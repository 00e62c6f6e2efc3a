//! Nodes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{
    object::{Object, at, child, fill},
    packed::Packed,
    resources::Rules,
};

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

    fn selectable(&self) -> &[&'static str] {
        &["spec.unschedulable"]
    }

    fn fields(&self, object: &Object) -> Packed {
        let cordoned = at(object, &["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or_default();
        Packed::from_values([if cordoned { "true" } else { "false" }].into_iter())
    }
}
