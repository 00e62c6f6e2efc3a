//! What pods and templates of pods have in common: defaults and checks of the spec.

use serde_json::{Value, json};

use super::{
    containers, dns, placement, security,
    values::{check_known, check_label, check_subdomain, listed, text},
    volumes,
};
use crate::apiserver::{
    names,
    object::{Object, child, fill},
    status::FieldError,
};

/// The lists in which containers stand.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Fills in what the original does for every spec, in a pod or in a template.
pub(super) fn fill_defaults(spec: &mut Object) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    // The old name of the same thing.
    if let Some(account) = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned() {
        spec.insert("serviceAccountName".into(), account.clone());
        spec.insert("serviceAccount".into(), account);
    }
    for list in CONTAINERS {
        elements(spec, list).into_iter().for_each(fill_container);
    }
    for volume in elements(spec, "volumes") {
        volumes::fill_defaults(volume);
    }
}

fn elements<'a>(object: &'a mut Object, list: &str) -> Vec<&'a mut Object> {
    let list = object.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut).collect()
}

fn fill_container(container: &mut Object) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    for port in elements(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in elements(container, "env") {
        if let Some(Value::Object(source)) = variable.get_mut("valueFrom")
            && let Some(Value::Object(field)) = source.get_mut("fieldRef")
        {
            fill(field, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            for (name, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1)] {
                fill(probe, name, value);
            }
            fill(probe, "failureThreshold", 3);
            fill_handler(probe);
        }
    }
    if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(Value::Object(hook)) = lifecycle.get_mut(hook) {
                fill_handler(hook);
            }
        }
    }
}

/// How a container is looked at or spoken to.
fn fill_handler(handler: &mut Object) {
    if let Some(Value::Object(request)) = handler.get_mut("httpGet") {
        fill(request, "path", "/");
        fill(request, "scheme", "HTTP");
    }
    if let Some(Value::Object(call)) = handler.get_mut("grpc") {
        fill(call, "service", "");
    }
}

/// In the network of its host, a pod's ports are those of the host.
pub(super) fn fill_host_ports(spec: &mut Object) {
    if spec.get("hostNetwork") != Some(&json!(true)) {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in elements(spec, list) {
            for port in elements(container, "ports") {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                if port.get("hostPort").is_none_or(|port| *port == 0) {
                    port.insert("hostPort".into(), number);
                }
            }
        }
    }
}

/// Whether an image has no tag, or the tag that moves.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Requests that are not stated are as high as the limits.
pub(super) fn fill_requests(spec: &mut Object) {
    for list in ["containers", "initContainers"] {
        for container in elements(spec, list) {
            let resources = child(container, "resources");
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else { continue };
            let requests = child(resources, "requests");
            for (name, limit) in limits {
                fill(requests, &name, limit);
            }
        }
    }
}

/// Where a spec stands: some checks are for pods alone, and some templates have volumes from elsewhere.
#[derive(Clone, Copy, Default)]
pub(super) struct Around<'a> {
    pub is_pod: bool,
    pub volumes: &'a [&'a str],
}

/// What is wrong with a spec that stands at `path`.
pub(super) fn validate(path: &str, spec: Option<&Value>, around: Around<'_>, errors: &mut Vec<FieldError>) {
    let spec = spec.unwrap_or(&Value::Null);
    let mut volumes = volumes::check(path, spec, errors);
    volumes.extend(around.volumes);
    containers::check(path, spec, &volumes, errors);
    if spec["hostNetwork"] == true {
        check_host_network(path, spec, around.is_pod, errors);
    }
    check_known(&format!("{path}.restartPolicy"), &spec["restartPolicy"], &RESTART_POLICIES, errors);
    check_known(&format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &DNS_POLICIES, errors);
    check_node_selector(path, spec, errors);
    security::check_pod(path, spec, errors);
    placement::check_affinity(path, spec, errors);
    dns::check(path, spec, errors);
    check_gates(path, spec, errors);
    placement::check_spread(path, spec, errors);
    security::check_host_users(path, spec, errors);
    if let Some(name) = spec["serviceAccountName"].as_str().filter(|name| !name.is_empty()) {
        check_subdomain(&format!("{path}.serviceAccountName"), name, errors);
    }
    if let Some(name) = spec["nodeName"].as_str().filter(|name| !name.is_empty()) {
        check_subdomain(&format!("{path}.nodeName"), name, errors);
    }
    if let Some(seconds) = spec.get("activeDeadlineSeconds")
        && !seconds.as_i64().is_some_and(|seconds| (1..=i64::from(i32::MAX)).contains(&seconds))
    {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{path}.activeDeadlineSeconds"), seconds, why));
    }
    for name in ["hostname", "subdomain"] {
        if let Some(text) = spec[name].as_str().filter(|text| !text.is_empty()) {
            check_label(&format!("{path}.{name}"), text, errors);
        }
    }
    check_tolerations(path, spec, errors);
    dns::check_aliases(path, spec, errors);
    for name in ["priorityClassName", "runtimeClassName"] {
        if let Some(class) = spec[name].as_str().filter(|class| !class.is_empty() || name == "runtimeClassName") {
            check_subdomain(&format!("{path}.{name}"), class, errors);
        }
    }
    if let Some(policy) = spec.get("preemptionPolicy") {
        check_known(&format!("{path}.preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"], errors);
    }
}

fn check_host_network(path: &str, spec: &Value, is_pod: bool, errors: &mut Vec<FieldError>) {
    for (place, container) in listed(spec, "containers").enumerate() {
        for (index, port) in listed(container, "ports").enumerate() {
            let number = |name: &str| port[name].as_i64().unwrap_or_default();
            let (inside, outside) = (number("containerPort"), number("hostPort"));
            if (is_pod || outside != 0) && inside != outside {
                let field = format!("{path}.containers[{place}].ports[{index}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(field, &json!(outside), why));
            }
        }
    }
}

fn check_node_selector(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
        let wrong = |text: &str, why: &String| FieldError::invalid(format!("{path}.nodeSelector"), &json!(text), why);
        let value = value.as_str().unwrap_or_default();
        errors.extend(names::qualified(key).iter().map(|why| wrong(key, why)));
        errors.extend(names::label_value(value).iter().map(|why| wrong(value, why)));
    }
}

/// What has to come true before a pod is ready, or is given a node.
fn check_gates(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    for (index, gate) in listed(spec, "readinessGates").enumerate() {
        let kind = text(gate, "conditionType");
        let field = format!("{path}.readinessGates[{index}].conditionType");
        errors.extend(names::qualified(kind).iter().map(|why| FieldError::invalid(field.as_str(), &json!(kind), why)));
    }
    let mut seen: Vec<&str> = vec![];
    for (index, gate) in listed(spec, "schedulingGates").enumerate() {
        let name = text(gate, "name");
        let field = format!("{path}.schedulingGates[{index}]");
        errors.extend(names::qualified(name).iter().map(|why| FieldError::invalid(field.as_str(), &json!(name), why)));
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
        seen.push(name);
    }
}

fn check_tolerations(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    for (place, toleration) in listed(spec, "tolerations").enumerate() {
        let field = |name: &str| format!("{path}.tolerations[{place}].{name}");
        let said = |name: &str| toleration[name].as_str().unwrap_or_default();
        let (key, operator, value, effect) = (said("key"), said("operator"), said("value"), said("effect"));
        if !key.is_empty() {
            errors.extend(names::qualified(key).iter().map(|why| FieldError::invalid(field("key"), &json!(key), why)));
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(field("operator"), &json!(operator), why));
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(field("effect"), &json!(effect), why));
        }
        match operator {
            "" | "Equal" => {
                if let wrong @ [_, ..] = names::label_value(value).as_slice() {
                    errors.push(FieldError::invalid(field("operator"), &json!(value), &wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(field("operator"), &json!(value), why));
            }
            "Exists" => {}
            _ => check_known(&field("operator"), &toleration["operator"], &["Equal", "Exists"], errors),
        }
        if !effect.is_empty() {
            check_known(&field("effect"), &toleration["effect"], &EFFECTS, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_pulled_always() {
        for latest in ["rancher/k3s", "k3s:latest", "registry:5000/rancher/k3s"] {
            assert!(is_latest(latest), "{latest}");
        }
        for pinned in ["rancher/k3s:v1", "registry:5000/k3s:v1", "k3s@sha256:00"] {
            assert!(!is_latest(pinned), "{pinned}");
        }
    }
}
