//! Bind a pod to a node: the one way in which a scheduler says where a pod runs.

use serde_json::{Value, json};

use super::{
    conditions,
    object::{Meta, Object, at, child, text},
    resources::ResourceId,
    status::{Answer, FieldError, bad_request, conflict, not_found, stale, unexplained},
    store::{Cause, Store},
    verbs::Target,
};

/// Binds the pod that `target` names to the node that `binding` names.
pub(crate) fn bind(store: &mut Store, by: &Cause<'_>, target: &Target, binding: &Object) -> Answer<()> {
    let id = &target.resource.id;
    let node = text(binding, &["target", "name"]);
    if binding.name() != target.name {
        return Err(bad_request("name in URL does not match name in Binding object"));
    }
    let kind = text(binding, &["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        let known = ["Node", "<empty>"].map(String::from);
        let error = FieldError::unsupported("target.kind", &json!(kind), &known);
        return Err(unexplained(&error.to_string()));
    }
    if node.is_empty() {
        return Err(unexplained(&FieldError::required("target.name", "").to_string()));
    }
    let Some(stored) = store.get(id, &target.key()) else {
        return Err(not_found(id, &target.name));
    };
    let mut pod = stored.object()?;
    check(target, &pod, binding)?;

    for place in ["annotations", "labels"] {
        for (name, value) in binding.meta(place).and_then(Value::as_object).into_iter().flatten() {
            child(pod.meta_mut(), place).insert(name.clone(), value.clone());
        }
    }
    child(&mut pod, "spec").insert("nodeName".into(), json!(node));
    let scheduled = json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null });
    conditions::set(child(&mut pod, "status"), scheduled, by.at);
    store.put(by, id, &target.key(), pod).map(|_| ())
}

fn check(target: &Target, pod: &Object, binding: &Object) -> Answer<()> {
    let (id, name) = (&target.resource.id, &target.name);
    let other_uid = !binding.uid().is_empty() && binding.uid() != pod.uid();
    let other_version = !binding.resource_version().is_empty() && binding.resource_version() != pod.resource_version();
    if other_uid || other_version {
        return Err(stale(id, name));
    }
    let bound = text(pod, &["spec", "nodeName"]);
    let gated = at(pod, &["spec", "schedulingGates"]).and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let why = if pod.is_deleting() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !bound.is_empty() {
        format!("pod {name} is already assigned to node {bound:?}")
    } else if gated {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(conflict(&ResourceId::new("", "pods/binding", "Binding"), name, &why))
}
