//! What KubeVirt says to the eviction of a launcher pod: its guest is to migrate instead, and the caller comes again.
//!
//! Models `pod-eviction-admitter.go` of virt-api, KubeVirt 1.6. It stands here and not behind a URL, since a simulation has no
//! sockets; it is asked where a ValidatingWebhookConfiguration names the webhook, as an installation of KubeVirt does.

use drover_api::kubevirt::EVICTION_WEBHOOK;
use drover_api::kubevirt::virtual_machine_instance::{conditions, eviction, launcher};
use serde_json::{Value, json};

use super::{
    object::{Meta, Object, at, child, text},
    resources::ResourceId,
    status::{Answer, denied},
    store::{Cause, Store, key},
};

/// Lets an eviction go on, or refuses it, after it has marked the instance as one that has to leave its node.
pub(super) fn intercept(store: &mut Store, by: &Cause<'_>, pod: &Object) -> Answer<()> {
    let annotations = pod.meta("annotations").and_then(Value::as_object);
    let domain = annotations.and_then(|all| all.get(launcher::DOMAIN)).and_then(Value::as_str);
    let ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    let (Some(domain), true, false) = (domain, is_launcher(pod), ended) else { return Ok(()) };
    if !is_installed(store) {
        return Ok(());
    }
    let id = ResourceId::new("kubevirt.io", "virtualmachineinstances", "VirtualMachineInstance");
    let place = key(pod.namespace(), domain);
    let Some(found) = store.get(&id, &place) else {
        let missing = format!("virtualmachineinstance.kubevirt.io \"{domain}\" not found");
        return Err(refusal(&format!("kubevirt failed getting the vmi: {missing}")));
    };
    let mut instance = found.object()?;
    let leaves = match (strategy(store, &instance).as_str(), is_migratable(&instance)) {
        (eviction::LIVE_MIGRATE, false) => {
            let why = format!("VMI {domain} is configured with an eviction strategy but is not live-migratable");
            return Err(refusal(&why));
        }
        (eviction::LIVE_MIGRATE | eviction::LIVE_MIGRATE_IF_POSSIBLE, true) | (eviction::EXTERNAL, _) => true,
        _ => false,
    };
    let node = text(pod, &["spec", "nodeName"]).to_string();
    let is_marked = !text(&instance, &["status", "evacuationNodeName"]).is_empty();
    if !leaves || is_marked || text(&instance, &["status", "nodeName"]) != node {
        // The budget of the instance has the last word.
        return Ok(());
    }
    child(&mut instance, "status").insert("evacuationNodeName".into(), json!(node));
    store.put(by, &id, &place, instance)?;
    Err(refusal(&format!("Eviction triggered evacuation of VMI \"{}/{domain}\"", pod.namespace())))
}

fn refusal(why: &str) -> Box<kube::core::Status> {
    let message = format!("admission webhook \"{EVICTION_WEBHOOK}\" denied the request: {why}");
    denied(&message, &json!({ "code": 429, "reason": "TooManyRequests" }))
}

fn is_launcher(pod: &Object) -> bool {
    let labels = pod.meta("labels").and_then(Value::as_object);
    labels.and_then(|labels| labels.get(launcher::LABEL)).is_some_and(|value| value == launcher::LABEL_VALUE)
}

fn is_installed(store: &Store) -> bool {
    let found = store.find("admissionregistration.k8s.io", "validatingwebhookconfigurations");
    found.into_iter().flat_map(|found| found.objects.values()).filter_map(|stored| stored.object().ok()).any(|one| {
        let webhooks = one.get("webhooks").and_then(Value::as_array);
        webhooks.into_iter().flatten().any(|webhook| webhook["name"] == EVICTION_WEBHOOK)
    })
}

fn strategy(store: &Store, instance: &Object) -> String {
    let own = text(instance, &["spec", "evictionStrategy"]);
    if !own.is_empty() {
        return own.to_string();
    }
    let installed = store.find("kubevirt.io", "kubevirts").into_iter().flat_map(|found| found.objects.values());
    installed
        .filter_map(|stored| stored.object().ok())
        .map(|one| text(&one, &["spec", "configuration", "evictionStrategy"]).to_string())
        .find(|strategy| !strategy.is_empty())
        .unwrap_or_else(|| eviction::NONE.to_string())
}

fn is_migratable(instance: &Object) -> bool {
    let found = at(instance, &["status", "conditions"]).and_then(Value::as_array);
    let mut found = found.into_iter().flatten();
    found.any(|condition| condition["type"] == conditions::LIVE_MIGRATABLE && condition["status"] == "True")
}
