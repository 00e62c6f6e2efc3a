//! The certificates of a guest cluster: they outlive every machine.
//!
//! Before anything else is done, the four Secrets are checked, a copy of them is kept, and the Cluster becomes an owner of each. So
//! the end of no KubeadmConfig takes them away. What is missing is brought back from that copy; nothing is ever made anew.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::{labels, secrets};
use drover_api::marks::CERTIFICATES_BACKUP;
use serde_json::{Value, json};

use super::seen::Collection;
use super::view::{Flow, Machine, View};
use super::wait::{Deed, Next, Object, Reason, Side, Write};
use crate::cluster::certificate::earliest_end;
use crate::decision::Act;

/// The Secrets, by the ends of their names, and whether they hold a certificate or only a public key.
pub const KINDS: [(&str, bool); 4] =
    [(secrets::CA, true), (secrets::ETCD, true), (secrets::SERVICE_ACCOUNT, false), (secrets::PROXY, true)];

/// The parts of each Secret, and how they are called in the copy: `ca.crt`, `ca.key`.
const PARTS: [(&str, &str); 2] = [(secrets::CERTIFICATE, "crt"), (secrets::KEY, "key")];

/// All four are there and whole, kept twice, and the Cluster's.
pub fn secure(view: &View<'_>, cluster: &Value) -> Flow<()> {
    let backup = view.seen.get(Collection::Secrets, &backup_name(view));
    let (mut lost, mut restored) = (Vec::new(), Vec::new());
    for (end, is_certificate) in KINDS {
        let name = format!("{}{end}", view.order.cluster);
        let secret = view.seen.get(Collection::Secrets, &name);
        let fault =
            secret.map_or_else(|| Some("it is not there".to_owned()), |secret| fault_of(secret, is_certificate));
        let Some(fault) = fault else { continue };
        match (secret, backup.and_then(|backup| from_backup(view, cluster, backup, end))) {
            // One that is there is not overwritten: somebody has put it there.
            (None, Some(write)) => restored.push(Deed::Write(Box::new(write))),
            _ => lost.push(format!("Secret {}/{name}: {fault}", view.order.namespace)),
        }
    }
    if !lost.is_empty() {
        let remedy = format!(
            "`drover control-plane-recover-certs --cluster-namespace {} --cluster-name {}` brings missing ones back from what machines \
             were booted with",
            view.order.namespace, view.order.cluster
        );
        return view.fail(Reason::CertificatesMissing, lost.join("; "), Some(remedy));
    }
    if !restored.is_empty() {
        return Err(Next::Act(restored));
    }
    let writes: Vec<Deed> = back_up(view, cluster, backup).into_iter().chain(adopt(view, cluster)).collect();
    if writes.is_empty() { Ok(()) } else { Err(Next::Act(writes)) }
}

/// What is wrong with a Secret, in a few words.
pub fn fault_of(secret: &Value, is_certificate: bool) -> Option<String> {
    if !secret["metadata"]["deletionTimestamp"].is_null() {
        return Some("it is on its way out".to_owned());
    }
    for (key, _) in PARTS {
        let Some(text) =
            secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok()).filter(|text| !text.is_empty())
        else {
            return Some(format!("it has no {key}"));
        };
        if !text.starts_with(b"-----BEGIN ") {
            return Some(format!("its {key} is no PEM file"));
        }
        if key == secrets::CERTIFICATE
            && is_certificate
            && let Err(why) = earliest_end(&text)
        {
            return Some(format!("its {key} cannot be read: {why}"));
        }
    }
    None
}

fn backup_name(view: &View<'_>) -> String {
    format!("{}{CERTIFICATES_BACKUP}", view.order.cluster)
}

/// The copy, if it is not there or not the same.
fn back_up(view: &View<'_>, cluster: &Value, backup: Option<&Value>) -> Option<Deed> {
    let mut data = serde_json::Map::new();
    for (end, _) in KINDS {
        let secret = view.seen.get(Collection::Secrets, &format!("{}{end}", view.order.cluster))?;
        for (key, short) in PARTS {
            data.insert(format!("{}.{short}", end.trim_start_matches('-')), secret["data"][key].clone());
        }
    }
    let data = Value::Object(data);
    let name = backup_name(view);
    let act = match backup {
        Some(backup) if backup["data"] == data => return None,
        Some(backup) => Act::Patch(
            json!({ "metadata": { "resourceVersion": backup["metadata"]["resourceVersion"] }, "data": data }),
        ),
        None => Act::Create(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": name, "namespace": view.order.namespace, "labels": { labels::CLUSTER_NAME: view.order.cluster },
                "ownerReferences": [cluster_reference(view, cluster)],
            },
            "data": data,
        })),
    };
    Some(write(secret_object(view, &name), act, "back up the certificates"))
}

fn from_backup(view: &View<'_>, cluster: &Value, backup: &Value, end: &str) -> Option<Write> {
    let part = |short: &str| backup["data"][format!("{}.{short}", end.trim_start_matches('-'))].as_str();
    let name = format!("{}{end}", view.order.cluster);
    let act = Act::Create(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": name, "namespace": view.order.namespace, "labels": { labels::CLUSTER_NAME: view.order.cluster },
            "ownerReferences": [cluster_reference(view, cluster)],
        },
        "data": { secrets::CERTIFICATE: part("crt")?, secrets::KEY: part("key")? },
    }));
    Some(Write { object: secret_object(view, &name), act, purpose: "bring back a certificate" })
}

/// The Cluster is an owner of each, beside whoever is one.
fn adopt(view: &View<'_>, cluster: &Value) -> Vec<Deed> {
    let own = cluster_reference(view, cluster);
    let mut writes = Vec::new();
    for (end, _) in KINDS {
        let name = format!("{}{end}", view.order.cluster);
        let Some(secret) = view.seen.get(Collection::Secrets, &name) else { continue };
        let owners = secret["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        if owners.iter().any(|owner| owner["uid"] == own["uid"]) {
            continue;
        }
        let owners: Vec<Value> = std::iter::once(own.clone()).chain(owners).collect();
        writes.push(owned(view, &name, secret, &owners, "let the Cluster own a certificate"));
    }
    writes
}

/// The config of the newest machine is an owner beside the Cluster, where others look for it; those of its predecessors are not.
pub fn hand_over(view: &View<'_>, cluster: &Value, newest: &Machine<'_>) -> Flow<()> {
    let Some(config) = view.config_of(newest) else { return Ok(()) };
    let wanted = [
        cluster_reference(view, cluster),
        json!({
            "apiVersion": view.dialect.bootstrap_api_version(), "kind": "KubeadmConfig",
            "name": config["metadata"]["name"], "uid": config["metadata"]["uid"],
        }),
    ];
    let mut writes = Vec::new();
    for (end, _) in KINDS {
        let name = format!("{}{end}", view.order.cluster);
        let Some(secret) = view.seen.get(Collection::Secrets, &name) else { continue };
        let owners = secret["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        // Owners of other kinds are somebody else's.
        let others = owners.iter().filter(|owner| owner["kind"] != "KubeadmConfig" && owner["uid"] != wanted[0]["uid"]);
        let after: Vec<Value> = wanted.iter().chain(others).cloned().collect();
        let uids = |owners: &[Value]| owners.iter().map(|owner| owner["uid"].clone()).collect::<Vec<_>>();
        if uids(&after) != uids(&owners) {
            writes.push(owned(view, &name, secret, &after, "let the newest machine own a certificate"));
        }
    }
    if writes.is_empty() { Ok(()) } else { Err(Next::Act(writes)) }
}

fn owned(view: &View<'_>, name: &str, secret: &Value, owners: &[Value], purpose: &'static str) -> Deed {
    let patch = json!({ "metadata": {
        "resourceVersion": secret["metadata"]["resourceVersion"], "ownerReferences": owners,
    }});
    write(secret_object(view, name), Act::Patch(patch), purpose)
}

fn write(object: Object, act: Act, purpose: &'static str) -> Deed {
    Deed::Write(Box::new(Write { object, act, purpose }))
}

fn secret_object(view: &View<'_>, name: &str) -> Object {
    Object {
        side: Side::Management,
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: view.order.namespace.clone(),
        name: name.to_owned(),
    }
}

fn cluster_reference(view: &View<'_>, cluster: &Value) -> Value {
    json!({
        "apiVersion": view.dialect.api_version(), "kind": "Cluster",
        "name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"],
    })
}
