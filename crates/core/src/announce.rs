//! Events: what happened, told once.
//!
//! An Event's name follows from its cause, so a decision that is taken again after a crash announces nothing twice.

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::decision::{Act, Kind, Purpose, Subject, Write};

/// The object that an Event is about.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub resource_version: u64,
}

/// What it says.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// `Normal` or `Warning`.
    pub type_: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// `cause` tells two Events with the same text apart, and is the same whenever the decision is repeated.
pub(crate) fn announce(about: &About<'_>, told: &Told<'_>, cause: &str, now: Timestamp) -> Write {
    let digest = Sha256::digest(format!("{}/{}/{}/{cause}", about.uid, told.reason, told.message));
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{}.{digest}", about.name);
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": about.namespace },
        "involvedObject": {
            "apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace, "name": about.name,
            "uid": about.uid, "resourceVersion": about.resource_version.to_string(),
        },
        "type": told.type_,
        "reason": told.reason,
        "message": told.message,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": { "component": drover_api::marks::FIELD_MANAGER },
    });
    let subject = Subject { kind: Kind::Event, namespace: about.namespace.to_owned(), name };
    Write { purpose: Purpose::Announce, subject, act: Act::Create(body) }
}
