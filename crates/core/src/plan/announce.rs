//! Events: what happened, told once.
//!
//! An Event's name follows from its cause, so a decision that is taken again after a crash announces nothing twice.

use drover_api::plan::events::PlanEvent;
use drover_api::plan::{API_VERSION, KIND};
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::status::whole_seconds;
use crate::decision::{Act, Kind, Purpose, Subject, Write};
use crate::seen::PlanSeen;

/// `cause` tells two Events with the same text apart, and is the same whenever the decision is repeated.
pub(super) fn announce(plan: &PlanSeen, event: &PlanEvent, cause: &str, now: Timestamp) -> Write {
    let meta = &plan.meta;
    let digest = Sha256::digest(format!("{}/{}/{}/{cause}", meta.uid, event.reason, event.message));
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{}.{digest}", meta.name);
    let time = whole_seconds(now).to_string();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": meta.namespace },
        "involvedObject": {
            "apiVersion": API_VERSION, "kind": KIND, "namespace": meta.namespace, "name": meta.name,
            "uid": meta.uid, "resourceVersion": meta.resource_version.to_string(),
        },
        "type": event.type_,
        "reason": event.reason,
        "message": event.message,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": { "component": drover_api::marks::FIELD_MANAGER },
    });
    let subject = Subject { kind: Kind::Event, namespace: meta.namespace.clone(), name };
    Write { purpose: Purpose::Announce, subject, act: Act::Create(body) }
}
