//! What pods and templates of pods have in common: defaults and checks of the spec.

use serde_json::{Value, json};

use crate::apiserver::{
    names,
    object::{Object, child, fill},
    status::FieldError,
};

/// The lists in which containers stand.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

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
        fill_volume(volume);
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
        }
    }
}

/// Whether an image has no tag, or the tag that moves.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn fill_volume(volume: &mut Object) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    for (source, name, value) in [
        ("secret", "defaultMode", json!(0o644)),
        ("configMap", "defaultMode", json!(0o644)),
        ("downwardAPI", "defaultMode", json!(0o644)),
        ("projected", "defaultMode", json!(0o644)),
        ("hostPath", "type", json!("")),
    ] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            fill(source, name, value);
        }
    }
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

/// What is wrong with the containers of a spec that stands at `path`.
pub(super) fn validate(path: &str, spec: Option<&Value>, errors: &mut Vec<FieldError>) {
    let containers = |list: &str| spec.and_then(|spec| spec.get(list)).and_then(Value::as_array);
    if containers("containers").is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = vec![];
    for list in ["initContainers", "containers"] {
        for (place, container) in containers(list).into_iter().flatten().enumerate() {
            let field = |name: &str| format!("{path}.{list}[{place}].{name}");
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                errors.push(FieldError::required(field("name"), ""));
            } else {
                errors
                    .extend(names::label(name).iter().map(|why| FieldError::invalid(field("name"), &json!(name), why)));
                if seen.contains(&name) {
                    errors.push(FieldError::duplicate(field("name"), &json!(name)));
                }
                seen.push(name);
            }
            if container["image"].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(field("image"), ""));
            }
        }
    }
    if let Some(seconds) = spec.and_then(|spec| spec.get("activeDeadlineSeconds"))
        && !seconds.as_i64().is_some_and(|seconds| (1..=i64::from(i32::MAX)).contains(&seconds))
    {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{path}.activeDeadlineSeconds"), seconds, why));
    }
    let policy = spec.and_then(|spec| spec.get("restartPolicy")).unwrap_or(&Value::Null);
    if !["Always", "OnFailure", "Never"].iter().any(|known| policy == known) {
        let known = ["Always", "OnFailure", "Never"].map(String::from);
        errors.push(FieldError::unsupported(format!("{path}.restartPolicy"), policy, &known));
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
