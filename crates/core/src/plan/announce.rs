//! Events about a Plan.

use drover_api::plan::events::PlanEvent;
use drover_api::plan::{API_VERSION, KIND};
use jiff::Timestamp;

use crate::announce::{About, Told};
use crate::decision::Write;
use crate::seen::PlanSeen;

/// `cause` tells two Events with the same text apart, and is the same whenever the decision is repeated.
pub(super) fn announce(plan: &PlanSeen, event: &PlanEvent, cause: &str, now: Timestamp) -> Write {
    let meta = &plan.meta;
    let about = About {
        api_version: API_VERSION,
        kind: KIND,
        namespace: &meta.namespace,
        name: &meta.name,
        uid: &meta.uid,
        resource_version: meta.resource_version,
    };
    let told = Told { type_: event.type_, reason: event.reason, message: &event.message };
    crate::announce::announce(&about, &told, cause, now)
}
