//! Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    placement, pod_parts,
    pod_spec::{self, Around},
    priority_class,
};
use crate::apiserver::{
    conditions,
    object::{Meta, Object, at, child, fill, take_from, text},
    resources::{ResourceId, Rules},
    status::{Answer, FieldError, forbidden},
    store::Store,
};

/// How long a pod stays on a node that is not ready or cannot be reached, unless it says otherwise.
const TOLERATED_SECONDS: i64 = 300;

pub(super) struct PodRules;

impl Rules for PodRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        pod_spec::fill_defaults(spec);
        pod_spec::fill_requests(spec);
        pod_spec::fill_host_ports(spec);
        fill(spec, "enableServiceLinks", true);
    }

    /// A pod has the priority of its class, whatever it says itself.
    fn admit(&self, store: &Store, object: &mut Object) -> Answer<()> {
        let class = text(object, &["spec", "priorityClassName"]).to_string();
        let Some(priority) = priority_class::of(store, &class) else {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(forbidden(&ResourceId::new("", "pods", "Pod"), object.name(), &why, vec![]));
        };
        let spec = child(object, "spec");
        if let Some(stated) = spec.get("priority").and_then(Value::as_i64).filter(|stated| *stated != priority.value) {
            let value = priority.value;
            let why = format!(
                "the integer value of priority ({stated}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            );
            return Err(forbidden(&ResourceId::new("", "pods", "Pod"), object.name(), &why, vec![]));
        }
        if !priority.class.is_empty() {
            spec.insert("priorityClassName".into(), json!(priority.class));
        }
        spec.insert("priority".into(), json!(priority.value));
        let preemption = priority.preemption.unwrap_or_else(|| "PreemptLowerPriority".into());
        fill(spec, "preemptionPolicy", preemption);
        Ok(())
    }

    fn prepare_create(&self, object: &mut Object, now: Timestamp) {
        // What the server adds by itself, and the creator does not manage.
        let spec = child(object, "spec");
        fill(spec, "serviceAccountName", "default");
        fill(spec, "serviceAccount", "default");
        tolerate_lost_nodes(spec);
        placement::apply_label_keys(object);
        let class = quality_of_service(object);
        object.insert("status".into(), json!({ "phase": "Pending", "qosClass": class }));
        let gates = at(object, &["spec", "schedulingGates"]).and_then(Value::as_array);
        if gates.is_some_and(|gates| !gates.is_empty()) {
            let gated = json!({
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            });
            conditions::set(child(object, "status"), gated, now);
        }
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        take_from(new, "spec", old);
        new.keep_meta("ownerReferences", old);
        if let Some(class) = at(old, &["status", "qosClass"]).cloned() {
            fill(child(new, "status"), "qosClass", class);
        }
    }

    fn prepare_part(&self, part: &str, new: &mut Object, old: &Object) {
        pod_parts::prepare(part, new, old);
    }

    /// What tolerations the server adds, nobody takes away.
    fn prepare_update(&self, new: &mut Object, _old: &Object) {
        tolerate_lost_nodes(child(new, "spec"));
    }

    fn validate_part(&self, part: &str, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        pod_parts::validate(part, new, old, errors);
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let around = Around { is_pod: true, volumes: &[] };
        pod_spec::validate("spec", object.get("spec"), around, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        let count = |pod: &Object, list: &str| at(pod, &["spec", list]).and_then(Value::as_array).map_or(0, Vec::len);
        let changed = ["containers", "initContainers"].into_iter().find(|list| count(new, list) != count(old, list));
        if let Some(list) = changed {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{list}"), why));
            return;
        }
        let deadline = |pod: &Object| at(pod, &["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64);
        match (deadline(old), deadline(new)) {
            (_, Some(after)) if !(0..=i64::from(i32::MAX)).contains(&after) => {
                let why = "must be between 0 and 2147483647, inclusive";
                errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &json!(after), why));
                return;
            }
            (Some(before), Some(after)) if after > before => {
                let why = "must be less than or equal to previous value";
                errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &json!(after), why));
                return;
            }
            (Some(_), None) => {
                let why = "must not update from a positive integer to nil value";
                errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &Value::Null, why));
            }
            _ => {}
        }
        if !only_mutable_fields_differ(new, old) {
            let why = "pod updates may not change fields other than `spec.containers[*].image`,\
                       `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                       existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                       previously negative)";
            errors.push(FieldError::forbidden("spec", why));
        }
    }

    fn selectable(&self) -> &[&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
    }

    /// The kubelet ends a pod; without one, or after its end, there is nothing to wait for.
    fn grace_period(&self, object: &Object, asked: Option<i64>) -> Option<i64> {
        let nothing_runs = text(object, &["spec", "nodeName"]).is_empty()
            || matches!(text(object, &["status", "phase"]), "Failed" | "Succeeded");
        if nothing_runs {
            return Some(0);
        }
        let own = at(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
        let seconds = asked.or(own).unwrap_or_default();
        Some(if seconds < 0 { 1 } else { seconds })
    }
}

fn tolerate_lost_nodes(spec: &mut Object) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Value::Array(tolerations) = tolerations else { return };
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            let says = |name: &str| toleration[name].as_str().unwrap_or_default();
            matches!(says("key"), "") || says("key") == taint
        };
        let lasts = |toleration: &Value| matches!(toleration["effect"].as_str().unwrap_or_default(), "" | "NoExecute");
        if !tolerations.iter().any(|toleration| covers(toleration) && lasts(toleration)) {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

/// How dearly a pod holds on to its resources, from what its containers request.
pub(super) fn quality_of_service(pod: &Object) -> &'static str {
    let lists = ["containers", "initContainers"].map(|list| at(pod, &["spec", list]).and_then(Value::as_array));
    let containers: Vec<_> = lists.into_iter().flatten().flatten().collect();
    let amount = |container: &Value, kind: &str, name: &str| container["resources"][kind].get(name).cloned();
    let mut nothing = true;
    let mut guaranteed = true;
    for container in containers {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            nothing &= request.is_none() && limit.is_none();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (nothing, guaranteed) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}

/// Whether nothing changed but images, the deadline and additional tolerations.
fn only_mutable_fields_differ(new: &Object, old: &Object) -> bool {
    if new.get("spec") == old.get("spec") {
        return true;
    }
    let masked = |pod: &Object| -> Option<Value> {
        let mut spec = pod.get("spec")?.clone();
        let fields = spec.as_object_mut()?;
        fields.remove("activeDeadlineSeconds");
        fields.remove("tolerations");
        for list in ["containers", "initContainers"] {
            for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut()?.remove("image");
            }
        }
        Some(spec)
    };
    let tolerations = |pod: &Object| -> Vec<Value> {
        at(pod, &["spec", "tolerations"]).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (before, after) = (tolerations(old), tolerations(new));
    masked(new) == masked(old) && before.iter().all(|toleration| after.contains(toleration))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: Value) -> Object {
        let pod = json!({ "spec": { "containers": [{ "resources": resources }] } });
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn the_quality_of_service_follows_from_requests_and_limits() {
        let all = json!({ "cpu": "1", "memory": "1Gi" });
        assert_eq!(quality_of_service(&pod(json!({}))), "BestEffort");
        assert_eq!(quality_of_service(&pod(json!({ "requests": { "cpu": "1" } }))), "Burstable");
        assert_eq!(quality_of_service(&pod(json!({ "requests": all, "limits": all }))), "Guaranteed");
    }

    #[test]
    fn a_pod_that_tolerates_everything_gets_no_further_tolerations() {
        let mut spec = json!({ "tolerations": [{ "operator": "Exists" }] }).as_object().unwrap().clone();
        tolerate_lost_nodes(&mut spec);
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 1);
    }
}
