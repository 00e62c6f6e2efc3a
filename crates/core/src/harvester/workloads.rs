//! Nobody moves VMs about while nodes are upgraded: the descheduler is off, and KubeVirt leaves VMs on the version that they run on. Both
//! are put back in the end.
//!
//! That KubeVirt does so is asked for by the steps on the system services, which note on the Upgrade what was asked for before.

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::addon::names::{DESCHEDULER, DESCHEDULER_NAMESPACE};
use drover_api::harvester::jobs::UPGRADE;
use drover_api::harvester::upgrade::annotations::{REENABLE_DESCHEDULER, WORKLOAD_UPDATE_METHODS};
use drover_api::kubevirt::kube_virt::LIVE_MIGRATE;
use drover_api::rancher::managed_chart::names::HARVESTER;
use serde_json::{Value, json};

use super::decide::Turn;
use super::release::Steps;
use super::{names, options};
use crate::decision::{Act, Kind, Purpose, Reason, Subject};

/// Where the chart `harvester` says how KubeVirt moves workloads to its new version. What is not said there is as the chart has it.
pub(super) const METHODS: &str = "/kubevirt/spec/workloadUpdateStrategy/workloadUpdateMethods";
/// As Harvester has it.
const USUAL: &str = LIVE_MIGRATE;

/// Switches the descheduler off, which would move VMs onto nodes that are about to be emptied. That it was on is noted first.
pub(super) fn hold_descheduler(turn: &mut Turn<'_>) {
    let addon = turn.cluster().harvester.addons.get(DESCHEDULER_NAMESPACE, DESCHEDULER);
    let Some(addon) = addon.filter(|addon| addon.spec.enabled) else { return };
    turn.annotations.insert(REENABLE_DESCHEDULER, json!("true"));
    let patch = json!({
        "metadata": {
            "resourceVersion": addon.metadata.resource_version.to_string(), "labels": { UPGRADE: turn.name() },
        },
        "spec": { "enabled": false },
    });
    turn.write(Purpose::Hold, descheduler(), Act::Patch(patch));
}

/// Switches it on again, if it was; true once it is.
pub(super) fn release_descheduler(turn: &mut Turn<'_>) -> bool {
    if turn.annotation(REENABLE_DESCHEDULER).is_none() {
        return true;
    }
    let addon = turn.cluster().harvester.addons.get(DESCHEDULER_NAMESPACE, DESCHEDULER);
    let Some(addon) = addon.filter(|addon| !addon.spec.enabled || addon.metadata.labels.contains_key(UPGRADE)) else {
        turn.annotations.insert(REENABLE_DESCHEDULER, Value::Null);
        return true;
    };
    let version = addon.metadata.resource_version.to_string();
    let patch = json!({
        "metadata": { "resourceVersion": version, "labels": { UPGRADE: null } }, "spec": { "enabled": true },
    });
    turn.write(Purpose::CleanUp, descheduler(), Act::Patch(patch));
    false
}

fn descheduler() -> Subject {
    Subject::new(Kind::Addon, DESCHEDULER_NAMESPACE, DESCHEDULER)
}

/// KubeVirt moves workloads as before; true once the chart says so.
pub(super) fn release_kubevirt(turn: &mut Turn<'_>) -> bool {
    let chart = turn.cluster().harvester.charts.get(FLEET_NAMESPACE, HARVESTER);
    let Some(chart) = chart.filter(|_| turn.next.prepared) else { return true };
    // Steps that are at work would ask for it once more: they end first.
    let services = names::apply_manifests(turn.name());
    if turn.next.services.is_none() && turn.job(&services).is_some() {
        return false;
    }
    let noted = turn.annotation(WORKLOAD_UPDATE_METHODS);
    let methods = match as_before(&chart.spec.values, noted, turn.next.steps) {
        Ok(None) => return true,
        Ok(Some(methods)) => methods,
        Err(error) => {
            let sentence = format!(
                "how KubeVirt moved workloads before, in the annotation {WORKLOAD_UPDATE_METHODS}, cannot be read ({error})"
            );
            let remedy = options::annotate(turn.name(), &format!("{WORKLOAD_UPDATE_METHODS}='[\"{USUAL}\"]'"));
            turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
            return false;
        }
    };
    let patch = json!({
        "metadata": { "resourceVersion": chart.metadata.resource_version.to_string() },
        "spec": { "values": moving_by(&methods) },
    });
    turn.write(Purpose::CleanUp, Subject::new(Kind::ManagedChart, FLEET_NAMESPACE, HARVESTER), Act::Patch(patch));
    false
}

/// The values of the chart that say so.
pub(super) fn moving_by(methods: &Value) -> Value {
    json!({ "kubevirt": { "spec": { "workloadUpdateStrategy": { "workloadUpdateMethods": methods } } } })
}

/// What the chart has to say instead, null for nothing; none if it says the right thing. Without a note only an empty list is changed that the
/// steps of a stock release leave: Drover's own leave none without a note, and a person who means something by it says what.
fn as_before(values: &Value, noted: Option<&str>, steps: Steps) -> Result<Option<Value>, serde_json::Error> {
    let now = values.pointer(METHODS);
    let before = match noted {
        Some(text) => serde_json::from_str(text)?,
        None if now == Some(&json!([])) && steps == Steps::Release => json!([USUAL]),
        None => return Ok(None),
    };
    let says_so = now.unwrap_or(&Value::Null) == &before;
    Ok(Some(before).filter(|_| !says_so && !values.is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubevirt_moves_workloads_as_before_whatever_was_noted() {
        let silent = json!({ "kubevirt": { "spec": { "workloadUpdateStrategy": {} } } });
        let held = moving_by(&json!([]));
        for (values, noted, expected) in [
            (Value::Null, None, None),
            (json!({}), None, None),
            (silent.clone(), None, None),
            (held.clone(), None, Some(json!(["LiveMigrate"]))),
            (silent, Some("null"), None),
            (held.clone(), Some("null"), Some(Value::Null)),
            (held.clone(), Some("[]"), None),
            (held.clone(), Some(r#"["Evict"]"#), Some(json!(["Evict"]))),
            // What its user has asked for is not taken for what the steps have left.
            (moving_by(&json!(["Evict"])), None, None),
            (moving_by(&json!(["Evict"])), Some(r#"["Evict"]"#), None),
        ] {
            assert_eq!(as_before(&values, noted, Steps::Release).unwrap(), expected, "{values} {noted:?}");
        }
        assert_eq!(as_before(&held, None, Steps::Drover).unwrap(), None, "its user has asked for that");
        assert!(as_before(&held, Some("LiveMigrate"), Steps::Release).is_err());
    }
}
