//! What kubeadm reads in the guest cluster when a machine joins: its ConfigMaps, and the rights to read them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::kubeadm_api::readable;
use super::patch;
use super::seen::Collection;
use super::view::{Flow, View};
use super::wait::{Deed, Next, Object, Reason, Side, Write};
use crate::decision::Act;

const SYSTEM: &str = "kube-system";
const CONFIG: &str = "kubeadm-config";
const CONFIGURATION: &str = "ClusterConfiguration";
/// Until Kubernetes 1.22.
const STATUS: &str = "ClusterStatus";
const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";
const GET_NODES: &str = "kubeadm:get-nodes";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// Since this minor version the configuration of kubelets has one name.
const UNVERSIONED: u64 = 24;
const EDIT: &str = "in the guest cluster: kubectl -n kube-system edit configmap kubeadm-config";
/// Parts of the configuration that are there for kubeadm although nobody has written them.
const PARTS: [&str; 6] = ["apiServer", "controllerManager", "scheduler", "dns", "etcd", "networking"];

/// The ClusterConfiguration that a ConfigMap `kubeadm-config` holds.
pub fn cluster_configuration(config: &Value) -> Option<Value> {
    serde_saphyr::from_str(config["data"][CONFIGURATION].as_str()?).ok()
}

/// Everything that a machine of the version needs to join.
pub fn prepare(view: &View<'_>) -> Flow<()> {
    let deeds: Vec<Deed> =
        [configuration(view)?, kubelet_config(view)?].into_iter().flatten().chain(rights(view)).collect();
    if deeds.is_empty() { Ok(()) } else { Err(Next::Act(deeds)) }
}

/// API servers whose Nodes are gone are noted no longer.
pub fn forget_endpoints(view: &View<'_>) -> Flow<()> {
    let config = config_map(view)?;
    match endpoints(view, config)? {
        Some(text) => {
            Err(Next::Act(vec![changed(config, json!({ STATUS: text }), "forget an API server that is gone")]))
        }
        None => Ok(()),
    }
}

fn config_map<'a>(view: &View<'a>) -> Flow<&'a Value> {
    match view.seen.get(Collection::ConfigMaps, CONFIG) {
        Some(config) => Ok(config),
        None => view.fail(
            Reason::KubeadmConfigInvalid,
            format!("the guest cluster has no ConfigMap {SYSTEM}/{CONFIG}, without which no machine joins"),
            "bring it back: `kubeadm init phase upload-config kubeadm` on a machine of the control plane writes it",
        ),
    }
}

fn document(view: &View<'_>, config: &Value, key: &str) -> Flow<Option<Value>> {
    let Some(text) = config["data"][key].as_str() else { return Ok(None) };
    match serde_saphyr::from_str::<Value>(text) {
        Ok(document) => Ok(Some(document)),
        Err(error) => {
            let sentence = format!("{key} in ConfigMap {SYSTEM}/{CONFIG} is no YAML: {}", error.without_snippet());
            view.fail(Reason::KubeadmConfigInvalid, sentence, EDIT)
        }
    }
}

fn yaml(view: &View<'_>, document: &Value) -> Flow<String> {
    match serde_saphyr::to_string(document) {
        Ok(text) => Ok(text),
        Err(error) => view.fail(Reason::KubeadmConfigInvalid, format!("{CONFIG} cannot be written: {error}"), EDIT),
    }
}

/// What machines join with now, if that is known.
pub fn joined_with(view: &View<'_>) -> Option<Value> {
    view.seen.get(Collection::ConfigMaps, CONFIG).and_then(cluster_configuration)
}

/// Whether machines would join with something else than they can now; also if that is not known.
pub fn is_to_change(view: &View<'_>) -> bool {
    joined_with(view).is_none_or(|before| changed_by_order(view, &before).map_or(true, |after| after != before))
}

/// The version and what the patches ask for, in a form that kubeadm of the version reads; fields that are not known here stay.
fn configuration(view: &View<'_>) -> Flow<Option<Deed>> {
    let config = config_map(view)?;
    let Some(before) = document(view, config, CONFIGURATION)? else {
        let sentence = format!("ConfigMap {SYSTEM}/{CONFIG} has no {CONFIGURATION}");
        return view.fail(Reason::KubeadmConfigInvalid, sentence, EDIT);
    };
    let after = match changed_by_order(view, &before) {
        Ok(after) => after,
        Err(why) => {
            let sentence = format!(
                "--kubeadm-configmap-patches do not apply to {CONFIGURATION} in ConfigMap {SYSTEM}/{CONFIG}: {why}"
            );
            let remedy = "add the parents of the field before it in --kubeadm-configmap-patches, or leave it out";
            return view.fail(Reason::PatchRefused, sentence, remedy);
        }
    };
    let after = readable(&after, view.order.version.minor());
    if after == before {
        return Ok(None);
    }
    let data = json!({ CONFIGURATION: yaml(view, &after)? });
    Ok(Some(changed(config, data, "tell kubeadm of the version")))
}

/// The document without API servers whose Nodes are gone; none if there are none, or newer versions of kubeadm keep no such list.
fn endpoints(view: &View<'_>, config: &Value) -> Flow<Option<String>> {
    let Some(mut status) = document(view, config, STATUS)? else { return Ok(None) };
    let Some(listed) = status["apiEndpoints"].as_object_mut() else { return Ok(None) };
    let before = listed.len();
    let machines = view.machines();
    let node_name = |machine| view.node_of(machine).and_then(|node| node["metadata"]["name"].as_str());
    // Once every machine has its Node there is no other API server, even if a Node that has gone is still seen.
    let settled: Option<BTreeSet<&str>> = machines.iter().map(node_name).collect();
    let serves = |name: &str| {
        let is_known = settled.as_ref().is_none_or(|nodes| nodes.contains(name));
        is_known && view.seen.get(Collection::Nodes, name).is_some()
    };
    listed.retain(|name, _| serves(name));
    if listed.len() == before { Ok(None) } else { Ok(Some(yaml(view, &status)?)) }
}

fn changed_by_order(view: &View<'_>, before: &Value) -> Result<Value, String> {
    let mut after = before.clone();
    after["kubernetesVersion"] = json!(format!("v{}", view.order.version));
    for part in PARTS.iter().filter(|part| before[**part].is_null()) {
        after[*part] = json!({});
    }
    patch::apply(&mut after, &view.order.patches.kubeadm)?;
    if let Some(fields) = after.as_object_mut() {
        fields.retain(|key, value| {
            !(PARTS.contains(&key.as_str()) && before[key.as_str()].is_null() && *value == json!({}))
        });
    }
    Ok(after)
}

fn changed(config: &Value, data: Value, purpose: &'static str) -> Deed {
    let patch = json!({ "metadata": { "resourceVersion": config["metadata"]["resourceVersion"] }, "data": data });
    write("v1", "ConfigMap", SYSTEM, CONFIG, Act::Patch(patch), purpose)
}

/// How the configuration of kubelets is called for a minor version.
fn kubelet_config_name(minor: u64) -> String {
    if minor < UNVERSIONED { format!("kubelet-config-1.{minor}") } else { "kubelet-config".to_owned() }
}

/// That of the version before is good for this one, too.
fn kubelet_config(view: &View<'_>) -> Flow<Option<Deed>> {
    let minor = view.order.version.minor();
    let name = kubelet_config_name(minor);
    if view.seen.get(Collection::ConfigMaps, &name).is_some() {
        return Ok(None);
    }
    let earlier = kubelet_config_name(minor.saturating_sub(1));
    let Some(earlier_map) = view.seen.get(Collection::ConfigMaps, &earlier) else {
        let sentence = format!("the guest cluster has neither ConfigMap {SYSTEM}/{name} nor {earlier}");
        return view.fail(Reason::KubeadmConfigInvalid, sentence, "raise it one minor version at a time");
    };
    let copy = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": SYSTEM }, "data": earlier_map["data"],
    });
    Ok(Some(write(
        "v1",
        "ConfigMap",
        SYSTEM,
        &name,
        Act::Create(copy),
        "give kubelets of the version their configuration",
    )))
}

/// What a machine that joins may read.
fn rights(view: &View<'_>) -> Vec<Deed> {
    let config = kubelet_config_name(view.order.version.minor());
    let role = format!("kubeadm:{config}");
    let groups = |names: &[&str]| -> Vec<Value> {
        names
            .iter()
            .map(|name| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name }))
            .collect()
    };
    let rule = |resource: &str, names: &[&str]| {
        let mut rule = json!({ "apiGroups": [""], "resources": [resource], "verbs": ["get"] });
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        json!([rule])
    };
    let wanted = [
        (Collection::Roles, "Role", SYSTEM, &role, json!({ "rules": rule("configmaps", &[&config]) })),
        (
            Collection::RoleBindings,
            "RoleBinding",
            SYSTEM,
            &role,
            bound("Role", &role, groups(&["system:nodes", JOINING])),
        ),
        (Collection::ClusterRoles, "ClusterRole", "", &GET_NODES.to_owned(), json!({ "rules": rule("nodes", &[]) })),
        (
            Collection::ClusterRoleBindings,
            "ClusterRoleBinding",
            "",
            &GET_NODES.to_owned(),
            bound("ClusterRole", GET_NODES, groups(&[JOINING])),
        ),
    ];
    let missing = wanted.into_iter().filter(|(collection, _, _, name, _)| view.seen.get(*collection, name).is_none());
    missing
        .map(|(_, kind, namespace, name, mut object)| {
            object["apiVersion"] = json!(RBAC);
            object["kind"] = json!(kind);
            object["metadata"] = json!({ "name": name });
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = json!(namespace);
            }
            write(RBAC, kind, namespace, name, Act::Create(object), "let machines of the version join")
        })
        .collect()
}

fn bound(kind: &str, role: &str, subjects: Vec<Value>) -> Value {
    json!({ "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role }, "subjects": subjects })
}

fn write(api_version: &str, kind: &str, namespace: &str, name: &str, act: Act, purpose: &'static str) -> Deed {
    let object = Object {
        side: Side::Guest,
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    Deed::Write(Box::new(Write { object, act, purpose }))
}
