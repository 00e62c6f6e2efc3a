//! Add-ons and Fleet, look by look: brought to the version of the release, waited for, and left to their user in the end.

use super::manifests::{all_raised, told};
use super::*;

const KEY: &str = "addon.cattle-monitoring-system.rancher-monitoring";

/// The add-on of the monitoring chart, which the release raises to 105.1.0.
fn monitoring(more: Value) -> Value {
    let mut addon = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
        "metadata": { "name": "rancher-monitoring", "namespace": "cattle-monitoring-system", "resourceVersion": "4", "annotations": {} },
        "spec": { "enabled": true, "version": "105.1.0" },
        "status": { "status": "AddonDeploySuccessful", "conditions": [in_progress("False", "11:00")] },
    });
    json_patch::merge(&mut addon, &more);
    addon
}

fn in_progress(status: &str, time: &str) -> Value {
    json!({ "type": "InProgress", "status": status, "lastUpdateTime": format!("2026-01-01T{time}:00Z") })
}

/// Asked for by this Upgrade when Harvester had last been at work on it at eleven.
fn asked() -> Value {
    let annotations = json!({
        "upgrade.harvesterhci.io/last-upgrade-name": "u", "drover.dev/settled-before": "2026-01-01T11:00:00Z",
    });
    json!({ "metadata": { "annotations": annotations } })
}

fn with(objects: impl IntoIterator<Item = Value>) -> Next {
    let all: Vec<Value> = all_raised().into_iter().chain(objects).collect();
    look(&all, Kind::Manifests, "")
}

/// What is waited for after everything before it was told as done.
fn waited(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    waits(&with(objects)).into_iter().map(|(_, sentence)| sentence.to_owned()).collect()
}

#[test]
fn an_add_on_is_raised_to_the_version_of_the_release_whether_it_is_on_or_off() {
    for enabled in [true, false] {
        let old = monitoring(json!({ "spec": { "version": "104.0.0", "enabled": enabled } }));
        let acts = acts(&with([old]));
        assert_eq!(acts[0].0, "Addon/cattle-monitoring-system/rancher-monitoring");
        assert_eq!(acts[0].1["spec"], json!({ "version": "105.1.0" }));
        let metadata = &acts[0].1["metadata"];
        assert_eq!(metadata["resourceVersion"], "4");
        assert_eq!(metadata["annotations"]["drover.dev/settled-before"], "2026-01-01T11:00:00Z");
    }
    let done = map("u-apply-manifests", told(["done"; 14]));
    assert_eq!(with([done.clone()]), Next::Done, "one that is not there was never installed");
    let off = monitoring(json!({ "spec": { "enabled": false }, "status": { "status": "AddonDisabled" } }));
    assert_eq!(with([off, done]), Next::Done);
}

#[test]
fn an_add_on_is_done_when_harvester_has_noticed_and_has_ended() {
    let mut unnoticed = monitoring(asked());
    let name = "Addon cattle-monitoring-system/rancher-monitoring is not deployed at 105.1.0";
    assert_eq!(waited([unnoticed.clone()]), [format!("{name}: Harvester has not taken it up yet")]);

    unnoticed["status"]["conditions"] = json!([in_progress("True", "12:00")]);
    assert_eq!(waited([unnoticed.clone()]).len(), 1, "it has begun, and says the old state");
    unnoticed["status"]["status"] = json!("AddonUpdating");
    assert_eq!(waited([unnoticed.clone()]), [format!("{name}: it is AddonUpdating")]);

    let failed = json!({ "type": "OperationFailed", "status": "True", "message": "helm: timed out" });
    unnoticed["status"]["conditions"] = json!([in_progress("True", "12:00"), failed]);
    assert_eq!(waited([unnoticed]), [format!("{name}: helm: timed out")]);

    let mut done = monitoring(asked());
    done["status"]["conditions"] = json!([in_progress("False", "12:01")]);
    assert_eq!(with([done, map("u-apply-manifests", told(["done"; 14]))]), Next::Done);
    let of_another =
        json!({ "metadata": { "annotations": { "upgrade.harvesterhci.io/last-upgrade-name": "before" } } });
    let mut as_it_was = monitoring(asked());
    json_patch::merge(&mut as_it_was, &of_another);
    assert_eq!(
        with([as_it_was, map("u-apply-manifests", told(["done"; 14]))]),
        Next::Done,
        "nobody has asked for anything"
    );
}

#[test]
fn an_add_on_that_does_not_get_on_is_left_to_its_user_after_five_minutes() {
    let stuck = || monitoring(json!({ "status": { "status": "AddonUpdating" } }));
    let first = with([stuck()]);
    let Next::Wait { waits: told_waits, .. } = &first else { panic!("{first:?}") };
    assert_eq!(told_waits[0].deadline, Some("2026-01-01T12:05:00Z".parse().unwrap()));
    let book = &acts(&first)[0].1["data"];
    assert_eq!(book[KEY], "under way until 2026-01-01T12:05:00Z");
    assert_eq!((&book["addons"], &book["bundles"]), (&json!("waits"), &json!("waits")));

    // Who begins anew does not begin to wait anew.
    let mut noted = told(["done"; 14]);
    noted[KEY] = json!("under way until 2026-01-01T12:00:01Z");
    assert_eq!(waited([stuck(), map("u-apply-manifests", noted.clone())]).len(), 1);

    noted[KEY] = json!("under way until 2026-01-01T13:00:00Z");
    let later = with([stuck(), map("u-apply-manifests", noted.clone())]);
    let until = "under way until 2026-01-01T12:05:00Z";
    assert_eq!(acts(&later)[0].1["data"][KEY], until, "no clock keeps anybody waiting for longer");

    noted[KEY] = json!("under way until 2026-01-01T12:00:00Z");
    let left = with([stuck(), map("u-apply-manifests", noted.clone())]);
    let said =
        "left: Addon cattle-monitoring-system/rancher-monitoring is not deployed at 105.1.0: it is AddonUpdating";
    assert_eq!(acts(&left)[0].1["data"][KEY], said);
    assert_eq!(waits(&left), [], "nothing else is held up");
    noted[KEY] = json!(said);
    assert_eq!(with([stuck(), map("u-apply-manifests", noted)]), Next::Done);
}

#[test]
fn add_ons_that_the_release_does_not_name_are_waited_for_while_they_move() {
    let of = |enabled: bool, status: &str| {
        let addon = json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
            "metadata": { "name": "pcidevices", "namespace": "harvester-system" },
            "spec": { "enabled": enabled }, "status": { "status": status },
        });
        with([addon, map("u-apply-manifests", told(["done"; 14]))])
    };
    for status in ["AddonEnabling", "AddonUpdating"] {
        let sentence = format!("Addon harvester-system/pcidevices is not deployed: it is {status}");
        assert_eq!(waits(&of(true, status)), [(Reason::ServiceNotReady, sentence.as_str())]);
        assert_eq!(of(false, status), Next::Done);
    }
    assert_eq!(of(true, "AddonDeploySuccessful"), Next::Done);
}

#[test]
fn charts_wait_for_the_agent_of_fleet_and_the_end_for_all_bundles() {
    let cluster = |ready: &str| {
        let conditions = json!([{ "type": "Imported", "status": "True" }, { "type": "Ready", "status": ready, "message": "no agent" }]);
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "local", "namespace": "fleet-local" },
            "status": { "agentDeployedGeneration": 3, "conditions": conditions },
        })
    };
    let first = with([cluster("False")]);
    assert_eq!(waits(&first)[0].1, "Cluster fleet-local/local of Fleet is not ready: no agent");
    let Next::Wait { waits: told_waits, .. } = &first else { panic!("{first:?}") };
    assert!(told_waits[0].remedy.as_ref().unwrap().contains("\"redeployAgentGeneration\":4"));
    let mut without = cluster("True");
    without["status"]["conditions"] = json!([]);
    assert_eq!(waits(&with([without]))[0].1, "Cluster fleet-local/local of Fleet is not imported");

    let bundle = |ready: &str| {
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",
            "metadata": { "name": "mcc-other", "namespace": "fleet-local" },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "message": "Modified(1)" }] },
        })
    };
    let done = || map("u-apply-manifests", told(["done"; 14]));
    assert_eq!(
        waited([cluster("True"), bundle("False"), done()]),
        ["Bundle fleet-local/mcc-other is not ready: Modified(1)"]
    );
    assert_eq!(with([cluster("True"), bundle("True"), done()]), Next::Done);
}
