//! Longhorn does not make replicas anew for every node that reboots.

use drover_api::harvester::upgrade::annotations;
use drover_api::longhorn::NAMESPACE as STORAGE;
use serde_json::json;

use super::decide::Turn;
use crate::decision::{Act, Kind, Purpose, Subject};

/// Longhorn's setting: how long a replica that is gone is waited for before another is made, and for how long at least
/// while nodes reboot, in seconds.
const REPLENISHMENT: &str = "replica-replenishment-wait-interval";
const LONG_ENOUGH: i64 = 1800;

/// Longhorn is told to wait for replicas on nodes that reboot; what it was set to is noted first.
pub(super) fn hold(turn: &mut Turn<'_>) {
    let Some(setting) = turn.cluster().longhorn.settings.get(STORAGE, REPLENISHMENT) else { return };
    let Ok(seconds) = setting.value.parse::<i64>() else { return };
    if seconds >= LONG_ENOUGH {
        return;
    }
    if turn.annotation(annotations::REPLENISHMENT_INTERVAL).is_none() {
        turn.annotations.insert(annotations::REPLENISHMENT_INTERVAL, json!(setting.value));
    }
    let version = setting.metadata.resource_version.to_string();
    let patch = json!({ "metadata": { "resourceVersion": version }, "value": LONG_ENOUGH.to_string() });
    turn.write(Purpose::Hold, Subject::new(Kind::Setting, STORAGE, REPLENISHMENT), Act::Patch(patch));
}

/// Puts Longhorn's setting back; true once it is.
pub(super) fn release(turn: &mut Turn<'_>) -> bool {
    let Some(before) = turn.annotation(annotations::REPLENISHMENT_INTERVAL) else { return true };
    if turn.annotation(annotations::LONGHORN_RESTORED).is_some() {
        return true;
    }
    match turn.cluster().longhorn.settings.get(STORAGE, REPLENISHMENT) {
        Some(setting) if setting.value != before => {
            let version = setting.metadata.resource_version.to_string();
            let patch = json!({ "metadata": { "resourceVersion": version }, "value": before });
            turn.write(Purpose::CleanUp, Subject::new(Kind::Setting, STORAGE, REPLENISHMENT), Act::Patch(patch));
            false
        }
        _ => {
            turn.annotations.insert(annotations::LONGHORN_RESTORED, json!("true"));
            true
        }
    }
}
