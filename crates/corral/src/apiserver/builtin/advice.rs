//! What the original warns of in objects that it takes all the same.

use drover_api::quantity;
use serde_json::Value;

use crate::apiserver::{
    names,
    object::{Meta, Object, at, text},
    resources::ResourceId,
};

/// Labels of nodes that have another name today.
const RENAMED: [(&str, &str, &str); 7] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const CRITICAL: &str = "scheduler.alpha.kubernetes.io/critical-pod";

/// What is to be said about an object that is new, or whose spec has changed.
pub(crate) fn about(id: &ResourceId, object: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some_and(|old| old.get("spec") == object.get("spec")) {
        return vec![];
    }
    match id.qualified().as_str() {
        "pods" => {
            let mut advice = if old.is_none() { name_advice(object, "the Pod's hostname") } else { vec![] };
            advice.extend(pod_advice("spec", at(object, &["spec"]), at(object, &["metadata"]), "metadata"));
            advice
        }
        "deployments.apps" | "replicasets.apps" | "daemonsets.apps" | "statefulsets.apps" | "jobs.batch" => {
            let named = old.is_none() && !matches!(id.plural.as_str(), "daemonsets" | "statefulsets");
            let mut advice = if named { name_advice(object, "Pod names and hostnames") } else { vec![] };
            let template = |part: &str| at(object, &["spec", "template", part]);
            advice.extend(pod_advice(
                "spec.template.spec",
                template("spec"),
                template("metadata"),
                "spec.template.metadata",
            ));
            advice
        }
        "services" => service_advice(object),
        "persistentvolumes" => {
            let mut advice = class_advice(object);
            if text(object, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
                advice.push(
                    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
                     recommended approach is to use dynamic provisioning."
                        .into(),
                );
            }
            advice
        }
        "persistentvolumeclaims" => {
            let mut advice = class_advice(object);
            let requests = at(object, &["spec", "resources", "requests"]);
            advice.extend(fraction_advice("spec.resources.requests", requests, &["storage"]));
            advice
        }
        _ => vec![],
    }
}

fn name_advice(object: &Object, used_in: &str) -> Vec<String> {
    let wrong = names::label(object.name());
    if wrong.is_empty() {
        return vec![];
    }
    vec![format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: \
         [{}]",
        wrong.join(" ")
    )]
}

fn class_advice(object: &Object) -> Vec<String> {
    let stated = object.meta("annotations").is_some_and(|annotations| annotations.get(OLD_CLASS).is_some());
    let advice =
        format!("metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead");
    stated.then_some(advice).into_iter().collect()
}

fn renamed(key: &str) -> Option<(&'static str, &'static str)> {
    RENAMED.iter().find(|(old, ..)| *old == key).map(|(_, since, new)| (*since, *new))
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn node_affinity_advice(place: &str, affinity: &Value) -> Vec<String> {
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let mut advice = vec![];
    for (number, term) in items(&affinity[required], "nodeSelectorTerms").iter().enumerate() {
        let place = format!("{place}.{required}.nodeSelectorTerms[{number}]");
        advice.extend(node_term_advice(&place, term, false));
    }
    for (number, term) in items(affinity, preferred).iter().enumerate() {
        advice.extend(node_term_advice(
            &format!("{place}.{preferred}[{number}].preference"),
            &term["preference"],
            true,
        ));
    }
    advice
}

/// What is only preferred may name values that no label can have; that is said, and not refused.
fn node_term_advice(place: &str, term: &Value, values_too: bool) -> Vec<String> {
    let mut advice = vec![];
    for (number, expression) in items(term, "matchExpressions").iter().enumerate() {
        let place = format!("{place}.matchExpressions[{number}]");
        let key = expression["key"].as_str().unwrap_or_default();
        if let Some((since, new)) = renamed(key) {
            advice.push(format!("{place}.key: {key} is deprecated since {since}; use \"{new}\" instead"));
        }
        for (index, value) in items(expression, "values").iter().enumerate().filter(|_| values_too) {
            let value = value.as_str().unwrap_or_default();
            let wrong = names::label_value(value);
            advice.extend(wrong.iter().map(|why| format!("{place}.values[{index}]: {value} is invalid, {why}")));
        }
    }
    advice
}

fn pod_advice(place: &str, spec: Option<&Value>, metadata: Option<&Value>, metadata_place: &str) -> Vec<String> {
    let nothing = Value::Null;
    let (spec, metadata) = (spec.unwrap_or(&nothing), metadata.unwrap_or(&nothing));
    let mut advice = vec![];
    for key in spec["nodeSelector"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Some((since, new)) = renamed(key) {
            advice.push(format!("{place}.nodeSelector[{key}]: deprecated since {since}; use \"{new}\" instead"));
        }
    }
    advice.extend(node_affinity_advice(&format!("{place}.affinity.nodeAffinity"), &spec["affinity"]["nodeAffinity"]));
    for (number, spread) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let place = format!("{place}.topologySpreadConstraints[{number}]");
        let key = spread["topologyKey"].as_str().unwrap_or_default();
        if let Some((since, new)) = renamed(key) {
            advice.push(format!("{place}.topologyKey: {key} is deprecated since {since}; use \"{new}\" instead"));
        }
        if spread["labelSelector"].is_null() {
            advice.push(format!("{place}.labelSelector: a null labelSelector results in matching no pod"));
        }
    }
    for key in metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER) {
            let instead = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
            advice.push(format!("{metadata_place}.annotations[{key}]: {instead}"));
        }
    }
    if metadata["annotations"].get(CRITICAL).is_some() {
        advice.push(format!(
            "{metadata_place}.annotations[{CRITICAL}]: non-functional in v1.16+; use the \"priorityClassName\" field instead"
        ));
    }
    for (number, alias) in items(spec, "hostAliases").iter().enumerate() {
        if items(spec, "hostAliases")[..number].iter().any(|other| other["ip"] == alias["ip"]) {
            advice.push(format!("{place}.hostAliases[{number}].ip: duplicate ip {}", alias["ip"]));
        }
    }
    for (number, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if secret["name"].as_str().unwrap_or_default().is_empty() {
            advice.push(format!("{place}.imagePullSecrets[{number}].name: invalid empty name \"\""));
        }
    }
    for (number, volume) in items(spec, "volumes").iter().enumerate() {
        if !volume["gitRepo"].is_null() {
            let why = "deprecated in v1.11, and disabled by default in v1.33+";
            advice.push(format!("{place}.volumes[{number}].gitRepo: {why}"));
        }
    }
    for list in ["initContainers", "containers"] {
        for (number, container) in items(spec, list).iter().enumerate() {
            advice.extend(container_advice(&format!("{place}.{list}[{number}]"), container));
        }
    }
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        advice.push(format!(
            "{place}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    advice
}

fn container_advice(place: &str, container: &Value) -> Vec<String> {
    let mut advice = vec![];
    let bytes = ["memory", "ephemeral-storage"];
    for list in ["limits", "requests"] {
        let amounts = container["resources"].get(list);
        advice.extend(fraction_advice(&format!("{place}.resources.{list}"), amounts, &bytes));
    }
    for (number, variable) in items(container, "env").iter().enumerate() {
        if items(container, "env")[..number].iter().any(|other| other["name"] == variable["name"]) {
            let name = variable["name"].as_str().unwrap_or_default();
            advice.push(format!(
                "{place}.env[{number}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
    for (number, port) in items(container, "ports").iter().enumerate() {
        let key =
            |port: &Value| ["containerPort", "protocol", "hostPort", "hostIP", "name"].map(|name| port[name].clone());
        if let Some(first) = items(container, "ports")[..number].iter().position(|other| key(other) == key(port)) {
            advice.push(format!("{place}.ports[{number}]: duplicate port definition with {place}.ports[{first}]"));
        }
    }
    advice
}

fn fraction_advice(place: &str, amounts: Option<&Value>, names: &[&str]) -> Vec<String> {
    let amount = |name: &&str| Some((name.to_string(), amounts?.get(*name)?.as_str()?.to_string()));
    let stated = names.iter().filter_map(amount);
    let fractions = stated.filter(|(_, amount)| quantity::is_fraction(amount));
    fractions
        .map(|(name, amount)| {
            format!("{place}[{name}]: fractional byte value {amount:?} is invalid, must be an integer")
        })
        .collect()
}

fn service_advice(service: &Object) -> Vec<String> {
    let stated = |name: &str| !text(service, &["spec", name]).is_empty();
    let headless = text(service, &["spec", "clusterIP"]) == "None";
    let mut advice = vec![];
    if headless && stated("loadBalancerIP") {
        advice.push("spec.loadBalancerIP is ignored for headless services".to_string());
    }
    if headless && at(service, &["spec", "externalIPs"]).and_then(Value::as_array).is_some_and(|ips| !ips.is_empty()) {
        advice.push("spec.externalIPs is ignored for headless services".into());
    }
    if headless && text(service, &["spec", "sessionAffinity"]) != "None" {
        advice.push("spec.SessionAffinity is ignored for headless services".into());
    }
    if stated("externalName") && text(service, &["spec", "type"]) != "ExternalName" {
        advice.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    advice
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outdated_and_surprising_parts_of_a_pod_are_named() {
        let pod = json!({ "metadata": { "name": "a.b" }, "spec": {
            "nodeSelector": { "beta.kubernetes.io/arch": "x" }, "terminationGracePeriodSeconds": -1,
            "containers": [{ "env": [{ "name": "A" }, { "name": "A" }], "resources": { "requests": { "memory": "100m" } } }],
        } });
        let advice = about(&ResourceId::new("", "pods", "Pod"), pod.as_object().unwrap(), None);
        assert_eq!(
            advice,
            [
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
                "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            ]
        );
    }
}
