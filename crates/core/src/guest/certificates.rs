//! The certificates of a guest cluster: they outlive every machine.
//!
//! Before anything else is done, the four Secrets are checked, a copy of them is kept, and the Cluster becomes an owner of each. So
//! the end of no KubeadmConfig takes them away. What is missing is brought back from that copy; nothing is ever made anew. Where a
//! Secret is not what the copy holds, somebody may have made it anew, and machines that joined with it would be strangers to the others: it
//! counts only if the cluster's kubeconfig trusts it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::{labels, secrets};
use drover_api::marks::{CERTIFICATES_BACKUP, CERTIFICATES_OF};
use serde_json::{Value, json};
use x509_parser::pem::Pem;

use super::seen::{Collection, Seen};
use super::view::{Flow, Machine, View};
use super::wait::{Deed, Next, Object, Reason, Side, Write};
use crate::cluster::certificate::earliest_end;
use crate::cluster::key::public_part;
use crate::decision::Act;

/// The Secrets, by the ends of their names, and whether they hold a certificate or only a public key.
pub const KINDS: [(&str, bool); 4] =
    [(secrets::CA, true), (secrets::ETCD, true), (secrets::SERVICE_ACCOUNT, false), (secrets::PROXY, true)];

/// The parts of each Secret, and how they are called in the copy: `ca.crt`, `ca.key`.
const PARTS: [(&str, &str); 2] = [(secrets::CERTIFICATE, "crt"), (secrets::KEY, "key")];
/// What the copy holds beside that, of certificates that were changed since.
const EARLIER: &str = "earlier-";

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
            "`drover control-plane-recover-certs --cluster-namespace {} --cluster-name {}` brings them back from what machines \
             were booted with",
            view.order.namespace, view.order.cluster
        );
        return view.fail(Reason::CertificatesMissing, lost.join("; "), remedy);
    }
    let changed = backup.map(|backup| changed_since(view, backup)).unwrap_or_default();
    refuse_strangers(view, &changed)?;
    if !restored.is_empty() {
        return Err(Next::Act(restored));
    }
    let writes: Vec<Deed> = back_up(view, cluster, backup, &changed).into_iter().chain(adopt(view, cluster)).collect();
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
    let mut public = Vec::new();
    for (key, _) in PARTS {
        match public_part(&part(secret, key)) {
            Ok(known) => public.push(known),
            Err(why) => return Some(format!("its {key} cannot be read: {why}")),
        }
    }
    match public.as_slice() {
        [Some(one), Some(other)] if one != other => {
            Some(format!("its {} does not belong to its {}", secrets::KEY, secrets::CERTIFICATE))
        }
        _ => None,
    }
}

/// The text of a part of a Secret; empty if there is none.
fn part(secret: &Value, key: &str) -> Vec<u8> {
    secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default()
}

/// The Secrets that are not what the copy holds, by the ends of their names. How lines end makes no difference.
fn changed_since(view: &View<'_>, backup: &Value) -> Vec<&'static str> {
    let plain = |text: Vec<u8>| {
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<String>>()
    };
    let differs = |end: &str, secret: &Value| {
        PARTS.iter().any(|(key, short)| {
            let kept = plain(part(backup, &copied_as(end, short)));
            !kept.is_empty() && kept != plain(part(secret, key))
        })
    };
    let secret = |end: &str| view.seen.get(Collection::Secrets, &format!("{}{end}", view.order.cluster));
    let ends = KINDS.iter().map(|(end, _)| *end);
    ends.filter(|end| secret(end).is_some_and(|secret| differs(end, secret))).collect()
}

/// An authority that the kubeconfig does not trust is not that of the cluster. One that it trusts was changed by somebody who knew, and
/// the rest with it; nothing else vouches for a change.
fn refuse_strangers(view: &View<'_>, changed: &[&'static str]) -> Flow<()> {
    let (namespace, cluster) = (&view.order.namespace, &view.order.cluster);
    let named = |end: &str| format!("Secret {namespace}/{cluster}{end}");
    let backup = backup_name(view);
    let authority = view.seen.get(Collection::Secrets, &format!("{cluster}{}", secrets::CA));
    let trusted = authority.and_then(|secret| is_trusted(view.seen, cluster, &part(secret, secrets::CERTIFICATE)));
    let accept = format!(
        "kubectl -n {namespace} get secret {backup} -o yaml > {backup}.yaml; kubectl -n {namespace} delete secret {backup}"
    );
    if trusted == Some(false) {
        let sentence = format!(
            "{} is not the authority that {} trusts: machines that join with it would be strangers to the others",
            named(secrets::CA),
            named(secrets::KUBECONFIG)
        );
        let remedy = format!(
            "put back the one that it trusts (Secret {namespace}/{backup} may hold it), or give {} the new one",
            named(secrets::KUBECONFIG)
        );
        return view.fail(Reason::CertificatesChanged, sentence, remedy);
    }
    let is_meant = trusted == Some(true) && changed.contains(&secrets::CA);
    if changed.is_empty() || is_meant {
        return Ok(());
    }
    let names: Vec<String> = changed.iter().map(|end| named(end)).collect();
    let sentence = format!(
        "not what Secret {namespace}/{backup} has kept: {}; machines that join with it may be strangers to the others",
        names.join(", ")
    );
    let remedy =
        format!("put back what was kept (NAME.crt is tls.crt, NAME.key is tls.key); if the change is meant: {accept}");
    view.fail(Reason::CertificatesChanged, sentence, remedy)
}

/// Whether the kubeconfig of a cluster trusts a certificate; none if it does not tell whom it trusts.
pub fn is_trusted(seen: &Seen, cluster: &str, certificate: &[u8]) -> Option<bool> {
    let secret = seen.get(Collection::Secrets, &format!("{cluster}{}", secrets::KUBECONFIG))?;
    let text = String::from_utf8(part(secret, secrets::VALUE)).ok()?;
    let config: Value = serde_saphyr::from_str(&text).ok()?;
    let named = |list: &str, name: &Value| config[list].as_array()?.iter().find(|one| one["name"] == *name).cloned();
    let context = named("contexts", &config["current-context"]);
    let way = context.and_then(|context| named("clusters", &context["context"]["cluster"]));
    let way = way.or_else(|| config["clusters"].as_array()?.first().cloned())?;
    let trusted = STANDARD.decode(way["cluster"]["certificate-authority-data"].as_str()?).ok()?;
    let all = |pem: &[u8]| -> Vec<Vec<u8>> {
        Pem::iter_from_buffer(pem).filter_map(Result::ok).map(|block| block.contents).collect()
    };
    let (trusted, own) = (all(&trusted), all(certificate));
    // While an authority is changed, both sides may name the old one as well.
    (!trusted.is_empty()).then(|| own.first().is_some_and(|own| trusted.contains(own)))
}

/// How a part of a Secret is called in the copy.
fn copied_as(end: &str, short: &str) -> String {
    format!("{}.{short}", end.trim_start_matches('-'))
}

fn backup_name(view: &View<'_>) -> String {
    format!("{}{CERTIFICATES_BACKUP}", view.order.cluster)
}

/// The copy, if it is not there or not the same. What was changed since stays in it, under another name.
fn back_up(view: &View<'_>, cluster: &Value, backup: Option<&Value>, changed: &[&'static str]) -> Option<Deed> {
    let mut data = serde_json::Map::new();
    for (end, _) in KINDS {
        let secret = view.seen.get(Collection::Secrets, &format!("{}{end}", view.order.cluster))?;
        for (key, short) in PARTS {
            data.insert(copied_as(end, short), secret["data"][key].clone());
        }
    }
    let name = backup_name(view);
    if let Some(backup) = backup {
        if data.iter().all(|(key, text)| backup["data"][key] == *text) {
            return None;
        }
        let earlier = changed.iter().flat_map(|end| PARTS.map(|(_, short)| copied_as(end, short)));
        data.extend(earlier.map(|key| (format!("{EARLIER}{key}"), backup["data"][&key].clone())).collect::<Vec<_>>());
    }
    let data = Value::Object(data);
    let act = match backup {
        Some(backup) => Act::Patch(
            json!({ "metadata": { "resourceVersion": backup["metadata"]["resourceVersion"] }, "data": data }),
        ),
        None => Act::Create(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": name, "namespace": view.order.namespace, "labels": { CERTIFICATES_OF: view.order.cluster },
                "ownerReferences": [cluster_reference(view, cluster)],
            },
            "data": data,
        })),
    };
    Some(write(secret_object(view, &name), act, "back up the certificates"))
}

fn from_backup(view: &View<'_>, cluster: &Value, backup: &Value, end: &str) -> Option<Write> {
    let part = |short: &str| backup["data"][copied_as(end, short)].as_str();
    let name = format!("{}{end}", view.order.cluster);
    let act = Act::Create(json!({
        "apiVersion": "v1", "kind": "Secret", "type": view.dialect.certificate_type(),
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
