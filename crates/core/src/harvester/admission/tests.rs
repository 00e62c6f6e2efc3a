use base64::Engine as _;
use serde_json::{Value, json};

use super::registration::{Place, configuration, differs};
use super::*;
use crate::cluster::harvester::{Setting, Upgrade};
use crate::cluster::{Cause, Cluster, Node, Unseen};

/// Three nodes, two VMs, and nothing that speaks against an upgrade.
const HEALTHY: &str = include_str!("../../../../../tests/clusters/harvester-healthy/objects/objects.yaml");

/// The cluster without the Upgrade that somebody has made there.
fn healthy() -> Cluster {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    let objects: Vec<Value> = serde_saphyr::from_multiple(HEALTHY).unwrap();
    for object in objects.into_iter().filter(|object| object["kind"] != "Upgrade" && object["kind"] != "Survey") {
        cluster.take(object.to_string().as_bytes());
    }
    cluster
}

fn with(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let mut cluster = healthy();
    objects.into_iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
    assert_eq!(cluster.unseen, []);
    cluster
}

fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut object = more;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn stated(name: &str, more: Value) -> Value {
    object("harvesterhci.io/v1beta1", "Upgrade", &format!("harvester-system/{name}"), more)
}

fn upgrade(annotations: Value) -> Upgrade {
    let metadata = json!({ "annotations": annotations });
    serde_json::from_value(stated("up", json!({ "metadata": metadata, "spec": { "version": "v1.4.3" } }))).unwrap()
}

fn config(value: &str) -> Value {
    object("harvesterhci.io/v1beta1", "Setting", "upgrade-config", json!({ "value": value }))
}

fn node(name: &str, more: Value) -> Value {
    let mut node = object("v1", "Node", name, more);
    let metadata = &mut node["metadata"];
    if metadata["labels"].is_null() {
        metadata["labels"] = json!({ "harvesterhci.io/managed": "true" });
    }
    metadata["annotations"] =
        json!({ "cluster.x-k8s.io/machine": format!("custom-{name}"), "rke2.io/internal-ip": "10.0.0.9" });
    if node["status"].is_null() {
        node["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    }
    node
}

fn vm(name: &str, on: &str) -> Value {
    let refuses = json!([{ "type": "LiveMigratable", "status": "False", "message": "it has a device" }]);
    let status = json!({ "phase": "Running", "nodeName": on, "conditions": refuses });
    object("kubevirt.io/v1", "VirtualMachineInstance", name, json!({ "status": status }))
}

fn refusals(verdict: &Verdict) -> Vec<(u16, &str)> {
    verdict.refusals.iter().map(|refusal| (refusal.code, refusal.message.as_str())).collect()
}

fn completed(status: &str) -> Value {
    json!({ "conditions": [{ "type": "Completed", "status": status }] })
}

const SOMEBODY: User = User { is_controller: false };

#[test]
fn an_upgrade_of_a_cluster_that_is_well_may_begin() {
    assert_eq!(create(&upgrade(json!({})), &healthy()), Verdict::default());
}

#[test]
fn a_cluster_that_an_aborted_upgrade_has_paused_is_no_reason_to_refuse_the_next() {
    let paused = |annotations: Value| {
        let metadata = json!({ "annotations": annotations });
        let more = json!({ "metadata": metadata, "spec": { "paused": true }, "status": { "phase": "Provisioning" } });
        with([object("cluster.x-k8s.io/v1beta1", "Cluster", "fleet-local/local", more)])
    };
    assert!(create(&upgrade(json!({})), &paused(json!({ "drover.dev/held": "earlier" }))).is_yes());
    assert!(!create(&upgrade(json!({})), &paused(json!({}))).is_yes());
}

#[test]
fn an_upgrade_that_is_there_is_asked_about_without_asking_which_comes_first() {
    let other = stated("other", json!({ "spec": { "version": "v1.4.3" } }));
    let cluster = with([other, node("harv-2", json!({ "spec": { "unschedulable": true } }))]);
    let said = begin(&upgrade(json!({})), &cluster);
    assert_eq!(refusals(&said), [(400, "node harv-2 is unschedulable, please wait for it to be schedulable")]);
    assert!(begin(&upgrade(json!({ "harvesterhci.io/skipWebhook": "true" })), &cluster).is_yes());
}

#[test]
fn all_that_speaks_against_an_upgrade_is_told_at_once_in_the_order_of_the_original() {
    let cluster = with([
        object(
            "longhorn.io/v1beta2",
            "Volume",
            "longhorn-system/pvc-9",
            json!({
                "spec": { "numberOfReplicas": 1 },
                "status": { "robustness": "degraded", "kubernetesStatus": { "namespace": "shop", "pvcName": "db" } },
            }),
        ),
        object(
            "cluster.x-k8s.io/v1beta1",
            "Cluster",
            "fleet-local/local",
            json!({ "status": { "phase": "Provisioning" } }),
        ),
        object("harvesterhci.io/v1beta1", "VirtualMachineBackup", "shop/daily", json!({ "status": {} })),
        object("harvesterhci.io/v1beta1", "ScheduleVMBackup", "shop/nightly", json!({ "spec": {} })),
        object(
            "management.cattle.io/v3",
            "ManagedChart",
            "fleet-local/harvester",
            json!({
                "status": { "conditions": [{ "type": "Ready", "status": "False" }] },
            }),
        ),
        object(
            "harvesterhci.io/v1beta1",
            "Addon",
            "harvester-system/pcidevices-controller",
            json!({
                "spec": { "enabled": true }, "status": { "status": "AddonEnabling" },
            }),
        ),
        node("harv-2", json!({ "spec": { "unschedulable": true } })),
        object("drover.dev/v1", "Kubelet", "harv-3", json!({ "diskUsed": 190u64 << 30, "diskCapacity": 200u64 << 30 })),
        object(
            "cluster.x-k8s.io/v1beta1",
            "Machine",
            "fleet-local/custom-harv-1",
            json!({
                "status": { "phase": "Provisioning", "nodeRef": { "name": "harv-1" } },
            }),
        ),
        vm("shop/db", "harv-1"),
        object("drover.dev/v1", "ServerCertificate", "10.0.0.1:6443", json!({ "notAfter": "2026-01-03T12:00:00Z" })),
    ]);

    let verdict = create(&upgrade(json!({})), &cluster);

    assert_eq!(
        refusals(&verdict),
        [
            (400, "there are degraded volumes, please check all volumes are healthy: shop/db"),
            (400, "cluster fleet-local/local status is Provisioning, please wait for it to be provisioned"),
            (400, "please wait until all vmbackups are stopped, for example shop/daily is under processing"),
            (400, "please suspend all backup/snapshot schedule, for example shop/nightly is running"),
            (400, "managed chart harvester is not ready, please wait for it to be ready or fix it"),
            (
                400,
                "addon harvester-system/pcidevices-controller is enabled but still on status AddonEnabling, please wait for it to be ready or fix it"
            ),
            (400, "node harv-2 is unschedulable, please wait for it to be schedulable"),
            (
                400,
                "Node \"harv-3\" will reach 101.50% storage space after loading new images. It's higher than kubelet image garbage collection threshold 85%."
            ),
            (500, "machine fleet-local/custom-harv-1 is not running, but Provisioning"),
            (
                422,
                "Following PVCs with single-replica volume, even the volume is detached, upgrade may have potential data integrity concerns: shop/db"
            ),
            (422, "There are non-live migratable VMs that need to be shut off before initiating the upgrade: shop/db"),
            (
                400,
                "earliest expiring cert for default/kubernetes ClusterIP is 2026-01-03T12:00:00Z, it will expire in 2 days. Please rotate RKE2 certificates."
            ),
        ]
    );
    assert_eq!(verdict.code(), Some(400));
    assert!(verdict.message().starts_with("(1) there are degraded volumes"), "{}", verdict.message());
    assert!(verdict.message().contains(" (12) earliest expiring cert"), "{}", verdict.message());
}

#[test]
fn an_upgrade_says_what_to_upgrade_to() {
    let nothing: Upgrade = serde_json::from_value(stated("up", json!({ "spec": {} }))).unwrap();
    assert_eq!(refusals(&create(&nothing, &healthy())), [(400, "version or image field are not specified.")]);
    let unknown: Upgrade = serde_json::from_value(stated("up", json!({ "spec": { "version": "v9" } }))).unwrap();
    assert_eq!(refusals(&create(&unknown, &healthy())), [(400, "version v9 is not found")]);
    let image: Upgrade =
        serde_json::from_value(stated("up", json!({ "spec": { "image": "harvester-system/iso" } }))).unwrap();
    assert_eq!(refusals(&create(&image, &healthy())), []);
}

#[test]
fn two_upgrades_do_not_run_at_once_whatever_is_skipped() {
    let cluster = with([
        stated("first", json!({})),
        stated(
            "second",
            json!({ "metadata": { "labels": {
            "harvesterhci.io/upgradeState": "Succeeded", "harvesterhci.io/upgradeCleanup": "Pending" } } }),
        ),
    ]);
    let skipping = upgrade(json!({ "harvesterhci.io/skipWebhook": "True", "drover.dev/accept": "DRV-UPG-002" }));
    assert_eq!(
        refusals(&create(&skipping, &cluster)),
        [
            (409, "cannot proceed until previous upgrade \"first\" completes"),
            (409, "cannot proceed until the following upgrades completed their cleanup process: second"),
        ]
    );
}

#[test]
fn a_user_may_skip_the_checks_or_accept_one_by_its_code() {
    let cluster = with([node("harv-2", json!({ "spec": { "unschedulable": true } }))]);
    let sentence = "node harv-2 is unschedulable, please wait for it to be schedulable";

    assert_eq!(refusals(&create(&upgrade(json!({})), &cluster)), [(400, sentence)]);
    assert_eq!(create(&upgrade(json!({ "harvesterhci.io/skipWebhook": "true" })), &cluster), Verdict::default());
    let accepted = create(&upgrade(json!({ "drover.dev/accept": "DRV-NODE-002" })), &cluster);
    assert_eq!(accepted.refusals, []);
    assert_eq!(accepted.notes, [format!("DRV-NODE-002 is accepted: {sentence}")]);
}

#[test]
fn annotations_lift_the_checks_that_they_are_for() {
    let full = object("drover.dev/v1", "Kubelet", "harv-3", json!({ "diskUsed": 9, "diskCapacity": 10 }));
    let skips = |value: &str| upgrade(json!({ "harvesterhci.io/skipGarbageCollectionThresholdCheck": value }));
    assert_eq!(create(&skips("true"), &with([full.clone()])), Verdict::default());
    assert_eq!(create(&skips("0"), &with([full])).refusals.len(), 1);
    let nonsense = create(&skips("perhaps"), &healthy());
    let sentence = "invalid value perhaps for harvesterhci.io/skipGarbageCollectionThresholdCheck annotation";
    assert_eq!(refusals(&nonsense), [(400, sentence)]);

    let detached = object(
        "longhorn.io/v1beta2",
        "Volume",
        "longhorn-system/pvc-9",
        json!({
            "spec": { "numberOfReplicas": 1 }, "status": { "state": "detached" },
        }),
    );
    let skips = upgrade(json!({ "harvesterhci.io/skipSingleReplicaDetachedVol": "yes" }));
    assert_eq!(create(&skips, &with([detached])), Verdict::default());
}

#[test]
fn vms_that_are_tied_to_a_node_that_will_pause_are_only_told_of() {
    let pauses = config(r#"{"nodeUpgradeOption":{"strategy":{"mode":"manual","pauseNodes":["harv-2"]}}}"#);
    let cluster = with([vm("shop/db", "harv-2"), vm("shop/cache", "harv-1"), pauses]);

    let by_setting = create(&upgrade(json!({})), &cluster);
    let words = "There are non-live migratable VMs that need to be shut off before";
    assert_eq!(refusals(&by_setting), [(422, format!("{words} initiating the upgrade: shop/cache").as_str())]);
    assert_eq!(by_setting.notes, [format!("{words} their node is resumed: shop/db (on harv-2)")]);

    let map = json!({ "harvesterhci.io/node-upgrade-pause-map": r#"{"harv-1":"pause","harv-2":"unpause"}"# });
    let by_map = create(&upgrade(map), &cluster);
    assert_eq!(refusals(&by_map), [(422, format!("{words} initiating the upgrade: shop/db").as_str())]);
    assert_eq!(by_map.notes, [format!("{words} their node is resumed: shop/cache (on harv-1)")]);
}

#[test]
fn no_vm_stands_in_the_way_where_all_are_started_again() {
    let cluster = with([vm("shop/db", "harv-2"), config(r#"{"restoreVM":true}"#)]);
    assert_eq!(create(&upgrade(json!({})), &cluster), Verdict::default());
}

#[test]
fn what_nobody_may_look_at_is_not_taken_for_fine() {
    let mut cluster = healthy();
    cluster.unseen.push(Unseen { kind: "Machine".to_owned(), object: None, cause: Cause::Forbidden });
    cluster.unseen.push(Unseen { kind: "Addon".to_owned(), object: None, cause: Cause::NoSuchKind });
    let late = Cause::Unreachable("no answer in time".to_owned());
    cluster.unseen.push(Unseen { kind: "Kubelet".to_owned(), object: None, cause: late });

    let verdict = create(&upgrade(json!({})), &cluster);

    let hidden = |check: &str| format!("{check} cannot be checked: Machine: no permission to list them");
    let expected = ["DRV-NODE-007", "DRV-NODE-006", "DRV-NODE-005", "DRV-NODE-004"].map(hidden);
    assert_eq!(refusals(&verdict), expected.each_ref().map(|sentence| (500, sentence.as_str())));
    assert_eq!(verdict.notes, ["DRV-NODE-010 cannot be checked: Kubelet: no answer in time"]);
}

#[test]
fn nodes_and_machines_have_to_match() {
    let cluster = with([
        node("harv-4", json!({ "metadata": { "labels": { "harvesterhci.io/managed": "false" } } })),
        object(
            "cluster.x-k8s.io/v1beta1",
            "Machine",
            "fleet-local/custom-harv-3",
            json!({ "status": { "phase": "Running" } }),
        ),
    ]);
    assert_eq!(
        refusals(&create(&upgrade(json!({})), &cluster)),
        [
            (500, "nodes(4) and machines(3) do not match, check the cluster provision"),
            (500, "machine custom-harv-3 has empty NodeRef, check the cluster provision"),
            (500, "node harv-4 has no expected label harvesterhci.io/managed"),
            (500, "node harv-4 refers to machine custom-harv-4, but the machine does not exist"),
        ]
    );
}

#[test]
fn a_map_of_nodes_that_pause_names_nodes_and_what_becomes_of_them() {
    let said = |map: &str| create(&upgrade(json!({ "harvesterhci.io/node-upgrade-pause-map": map })), &healthy());
    for fine in ["{}", r#"{"harv-1":"unpause","harv-2":"pause"}"#] {
        assert_eq!(said(fine), Verdict::default(), "{fine}");
    }
    for bad in ["", r#"{"harv-1"}"#] {
        let verdict = said(bad);
        let text = verdict.message();
        assert!(
            text.starts_with("fail to unmarshal harvesterhci.io/node-upgrade-pause-map annotation, err: "),
            "{text}"
        );
    }
    assert_eq!(
        refusals(&said(r#"{"harv-1":"restart","harv-100":"pause"}"#)),
        [
            (400, "desired action for node harv-1 must be either \"pause\" or \"unpause\""),
            (400, "node harv-100 does not exist"),
        ]
    );
}

#[test]
fn a_change_is_looked_at_only_where_the_map_of_nodes_that_pause_changes() {
    let of = |map: &str| upgrade(json!({ "harvesterhci.io/node-upgrade-pause-map": map }));
    let gone = r#"{"gone":"pause","harv-1":"pause"}"#;

    assert_eq!(update(&of(gone), &of(gone), &healthy()), Verdict::default());
    assert_eq!(update(&of(gone), &of(r#"{"gone":"unpause","harv-1":"pause"}"#), &healthy()), Verdict::default());
    assert_eq!(update(&of("nonsense"), &upgrade(json!({})), &healthy()), Verdict::default());
    let verdict = update(&upgrade(json!({})), &of(r#"{"harv-9":"pause"}"#), &healthy());
    assert_eq!(refusals(&verdict), [(400, "node harv-9 does not exist")]);
    let mut leaving = of("nonsense");
    leaving.metadata.deletion_timestamp = Some(healthy().looked_at);
    assert_eq!(update(&of(gone), &leaving, &healthy()), Verdict::default());
}

#[test]
fn an_upgrade_is_not_deleted_while_nodes_are_at_work() {
    let of = |status: &str, annotations: Value| -> Upgrade {
        let conditions = json!([{ "type": "NodesUpgraded", "status": status }]);
        let more = json!({ "metadata": { "annotations": annotations }, "status": { "conditions": conditions } });
        serde_json::from_value(stated("up", more)).unwrap()
    };
    let busy = with([object(
        "cluster.x-k8s.io/v1beta1",
        "Cluster",
        "fleet-local/local",
        json!({ "status": { "phase": "Provisioning" } }),
    )]);

    assert_eq!(delete(&upgrade(json!({})), &healthy()), Verdict::default());
    assert_eq!(delete(&of("True", json!({})), &healthy()), Verdict::default());
    assert_eq!(delete(&of("Unknown", json!({ "harvesterhci.io/skipWebhook": "TRUE" })), &busy), Verdict::default());
    let verdict = delete(&of("Unknown", json!({})), &busy);
    let texts: Vec<&str> = verdict.refusals.iter().map(|refusal| refusal.message.as_str()).collect();
    assert!(
        texts[0].starts_with("cluster fleet-local/local status is provisioning, please wait for it to be provisioned")
    );
    assert!(texts[1].starts_with("node upgrade is in progressing, please wait for it to be provisioned"));
    assert!(texts[1].contains("drover upgrade pause upgrade/up"), "{}", texts[1]);
    assert_eq!((verdict.code(), texts.len()), (Some(400), 2));
}

#[test]
fn an_upgrade_of_which_nothing_is_under_way_is_deleted_whatever_becomes_of_the_cluster() {
    let provisioning = |annotations: Value| {
        let metadata = json!({ "annotations": annotations });
        let more = json!({ "metadata": metadata, "status": { "phase": "Provisioning" } });
        with([object("cluster.x-k8s.io/v1beta1", "Cluster", "fleet-local/local", more)])
    };
    let (busy, held) = (provisioning(json!({})), provisioning(json!({ "drover.dev/held": "earlier" })));
    let of = |state: &str, cleanup: &str, progress: Value| -> Upgrade {
        let labels = json!({ "harvesterhci.io/upgradeState": state, "harvesterhci.io/upgradeCleanup": cleanup });
        let metadata = json!({ "labels": labels, "annotations": { "drover.dev/progress": progress.to_string() } });
        serde_json::from_value(stated("up", json!({ "metadata": metadata }))).unwrap()
    };
    let failed = json!({ "as": "failed", "reason": "Aborted", "message": "" });
    let aborted = of("Failed", "Succeeded", json!({ "asked": 2, "aborting": true, "ended": failed }));
    assert_eq!(delete(&aborted, &held), Verdict::default());
    assert_eq!(delete(&of("Succeeded", "Succeeded", json!({})), &busy), Verdict::default(), "another one is at work");
    assert_eq!(delete(&upgrade(json!({})), &busy), Verdict::default(), "it has not begun");
    assert_eq!(delete(&of("PreparingNodes", "", json!({})), &held), Verdict::default(), "no node has its turn");

    let stuck = of("Failed", "Succeeded", json!({ "asked": 2, "ended": failed }));
    for under_way in [stuck, of("PreparingNodes", "", json!({})), of("Failed", "Pending", json!({}))] {
        assert_eq!(delete(&under_way, &busy).code(), Some(400));
    }
}

#[test]
fn an_upgrade_is_told_which_nodes_pause_unless_it_says_so_itself() {
    let manual =
        with([config(r#"{"nodeUpgradeOption":{"strategy":{"mode":"manual","pauseNodes":["harv-1","harv-9"]}}}"#)]);
    let map = pause_map(&upgrade(json!({})), &manual).unwrap();
    assert_eq!(json!(map), json!({ "harv-1": "pause" }));
    assert_eq!(pause_map(&upgrade(json!({ "harvesterhci.io/node-upgrade-pause-map": "{}" })), &manual), None);
    assert_eq!(pause_map(&upgrade(json!({})), &healthy()), None);
}

#[test]
fn a_setting_is_told_all_its_mistakes() {
    let of = |field: &str, text: &str| -> Setting {
        serde_json::from_value(object("harvesterhci.io/v1beta1", "Setting", "upgrade-config", json!({ field: text })))
            .unwrap()
    };
    assert_eq!(setting(&of("value", r#"{"nodeUpgradeOption":{"mode":"manual"}}"#), &healthy()), Verdict::default());
    assert_eq!(setting(&of("default", "random string"), &healthy()).code(), Some(422));
    assert_eq!(refusals(&setting(&of("value", "{}"), &healthy())), [(422, "invalid image preload strategy type: ")]);
    let bad = r#"{"imagePreloadOption":{"strategy":{"type":"parallel","concurrency":-1}},"nodeUpgradeOption":{"mode":"manual","pauseNodes":["x"]}}"#;
    assert_eq!(
        refusals(&setting(&of("value", bad), &healthy())),
        [(422, "invalid image preload concurrency: -1"), (400, "nodes not found: [x]")]
    );
}

fn latest(status: &str, annotations: Value) -> Value {
    let metadata = json!({ "labels": { "harvesterhci.io/latestUpgrade": "true" }, "annotations": annotations });
    stated("up", json!({ "metadata": metadata, "status": completed(status) }))
}

#[test]
fn no_node_joins_while_the_latest_upgrade_is_under_way() {
    let allowed = |upgrade: Value| join("harv-9", &SOMEBODY, &with([upgrade])).is_yes();
    assert!(allowed(stated("up", json!({ "status": completed("Unknown") }))));
    assert!(allowed(latest("True", json!({}))));
    assert!(allowed(latest("False", json!({}))));
    for yes in ["true", "TRUE", "1", "t"] {
        assert!(allowed(latest("Unknown", json!({ "harvesterhci.io/allow-node-join": yes }))), "{yes}");
    }
    assert!(!allowed(latest("Unknown", json!({ "harvesterhci.io/allow-node-join": "false" }))));

    let cluster = with([latest("Unknown", json!({ "harvesterhci.io/allow-node-join": "invalid" }))]);
    let verdict = join("harv-9", &SOMEBODY, &cluster);
    assert_eq!(verdict.code(), Some(409));
    let text = verdict.message();
    assert!(
        text.contains("and has an invalid value \"invalid\" for annotation harvesterhci.io/allow-node-join"),
        "{text}"
    );
    assert!(text.contains("kubectl annotate upgrades.harvesterhci.io -n harvester-system up"), "{text}");
    assert!(join("harv-1", &SOMEBODY, &cluster).is_yes(), "it is there already");
    assert!(join("harv-9", &User { is_controller: true }, &cluster).is_yes());
}

#[test]
fn no_worker_is_promoted_while_an_upgrade_is_under_way() {
    let of = |status: &str| -> Node {
        serde_json::from_value(
            json!({ "metadata": { "name": "harv-3", "annotations": { "harvesterhci.io/promote-status": status } } }),
        )
        .unwrap()
    };
    let busy = with([latest("Unknown", json!({}))]);
    let sentence =
        "cannot promote node \"harv-3\" because the upgrade \"harvester-system/up\" is currently in progress";
    assert_eq!(refusals(&promotion(&of(""), &of("running"), &busy)), [(409, sentence)]);
    assert_eq!(promotion(&of("running"), &of("running"), &busy), Verdict::default());
    assert_eq!(promotion(&of("running"), &of("complete"), &busy), Verdict::default());
    assert_eq!(promotion(&of(""), &of("running"), &healthy()), Verdict::default());
}

#[test]
fn a_version_has_a_checksum_of_the_right_form_or_none() {
    let of = |checksum: &str| {
        version(
            &serde_json::from_value(json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Version", "metadata": { "name": "v2" },
                "spec": { "isoURL": "https://example.com/v2.iso", "isoChecksum": checksum },
            }))
            .unwrap(),
        )
    };
    assert_eq!(of(""), Verdict::default());
    assert_eq!(of(&"0af9".repeat(32)), Verdict::default());
    for bad in ["0af9", &"0AF9".repeat(32)] {
        assert_eq!(refusals(&of(bad)), [(400, format!("invalid isoChecksum {bad}").as_str())]);
    }
}

#[test]
fn an_upgrade_log_is_for_one_upgrade_that_waits_for_it() {
    let log = |name: &str, of: &str| {
        serde_json::from_value(object(
            "harvesterhci.io/v1beta1",
            "UpgradeLog",
            name,
            json!({ "spec": { "upgradeName": of } }),
        ))
        .unwrap()
    };
    let ours = User { is_controller: true };
    let cluster = with([
        stated("up", json!({})),
        stated("quiet", json!({ "spec": { "logEnabled": false } })),
        stated("done", json!({ "status": completed("True") })),
        object(
            "harvesterhci.io/v1beta1",
            "UpgradeLog",
            "harvester-system/other",
            json!({ "spec": { "upgradeName": "up" } }),
        ),
    ]);
    let said = |name: &str, of: &str| upgrade_log(&log(name, of), &ours, &cluster).message();
    assert_eq!(said("harvester-system/other", "up"), "");
    assert_eq!(said("harvester-system/up-upgradelog", "up"), "upgradelog other already exists for upgrade up");
    assert_eq!(said("harvester-system/l", ""), "upgradeName field is not specified");
    assert_eq!(said("harvester-system/l", "gone"), "referenced upgrade gone not found in namespace harvester-system");
    assert_eq!(said("harvester-system/l", "quiet"), "LogEnabled is false for upgrade quiet");
    assert!(said("default/other", "up").contains("UpgradeLog must be created in namespace harvester-system"));
    assert!(said("harvester-system/l", "done").contains("is not initializing or waiting for logging infrastructure"));
    let verdict = upgrade_log(&log("harvester-system/other", "up"), &SOMEBODY, &cluster);
    assert_eq!(verdict.message(), "upgradelog can only be created by the harvester controller");
}

#[test]
fn the_repository_stays_for_as_long_as_its_upgrade_runs() {
    let labels = json!({ "harvesterhci.io/upgradeComponent": "repo", "harvesterhci.io/upgrade": "up" });
    let repo =
        serde_json::from_value(json!({ "namespace": "harvester-system", "name": "upgrade-repo-up", "labels": labels }))
            .unwrap();
    let busy = with([stated("up", json!({ "status": completed("Unknown") }))]);
    let sentence =
        "cannot delete deployment harvester-system/upgrade-repo-up: upgrade up is still in progress (component: repo)";
    assert_eq!(refusals(&repository(&repo, &SOMEBODY, &busy)), [(500, sentence)]);
    assert!(repository(&repo, &User { is_controller: true }, &busy).is_yes());
    assert!(repository(&repo, &SOMEBODY, &healthy()).is_yes());
    assert!(repository(&repo, &SOMEBODY, &with([stated("up", json!({ "status": completed("False") }))])).is_yes());
}

fn review(kind: &str, operation: &str, object: Value, old: Value) -> Request {
    let name = if object.is_null() { &old } else { &object }["metadata"]["name"].clone();
    serde_json::from_value(json!({
        "uid": "u-1", "kind": { "group": "harvesterhci.io", "version": "v1beta1", "kind": kind }, "operation": operation,
        "name": name, "userInfo": { "username": "somebody" }, "object": object, "oldObject": old,
    }))
    .unwrap()
}

#[test]
fn a_review_is_answered_with_code_and_text() {
    let request = review("Upgrade", "CREATE", stated("up", json!({ "spec": {} })), Value::Null);
    let answer = answer(&request, Question::Validation, &healthy(), None).into_json();
    assert_eq!(
        answer["response"],
        json!({
            "uid": "u-1", "allowed": false,
            "status": { "code": 400, "reason": "BadRequest", "message": "version or image field are not specified." },
        })
    );
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
}

#[test]
fn nodes_that_pause_are_patched_into_a_new_upgrade() {
    let manual = with([config(r#"{"nodeUpgradeOption":{"mode":"manual"}}"#)]);
    let asked = |annotations: Value| {
        let object =
            stated("up", json!({ "metadata": { "annotations": annotations }, "spec": { "version": "v1.4.3" } }));
        let request = review("Upgrade", "CREATE", object, Value::Null);
        let answer = answer(&request, Question::Mutation, &manual, None).into_json();
        let patch = answer["response"]["patch"]
            .as_str()
            .map(|patch| base64::engine::general_purpose::STANDARD.decode(patch).unwrap());
        (answer["response"]["allowed"].clone(), patch.map(|patch| serde_json::from_slice::<Value>(&patch).unwrap()))
    };
    let value = r#"{"harv-1":"pause","harv-2":"pause","harv-3":"pause"}"#;
    let add =
        json!({ "op": "add", "path": "/metadata/annotations/harvesterhci.io~1node-upgrade-pause-map", "value": value });
    let empty = json!({ "op": "add", "path": "/metadata/annotations", "value": {} });
    assert_eq!(asked(json!({})), (json!(true), Some(json!([empty, add]))));
    assert_eq!(asked(json!({ "mine": "x" })), (json!(true), Some(json!([add]))));
    assert_eq!(asked(json!({ "harvesterhci.io/node-upgrade-pause-map": "{}" })), (json!(true), None));
}

#[test]
fn an_object_that_cannot_be_read_is_refused_by_name() {
    let request =
        review("Upgrade", "CREATE", json!({ "metadata": { "name": "up" }, "spec": { "version": 7 } }), Value::Null);
    let answer = answer(&request, Question::Validation, &healthy(), None).into_json();
    let text = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(text.starts_with("Upgrade up cannot be read: "), "{text}");
}

#[test]
fn a_node_is_let_through_where_nobody_can_look_and_a_setting_is_not() {
    let mut cluster = healthy();
    for kind in ["Upgrade", "Node"] {
        cluster.unseen.push(Unseen { kind: kind.to_owned(), object: None, cause: Cause::Forbidden });
    }
    let mut node = review("Node", "CREATE", json!({ "metadata": { "name": "harv-9" } }), Value::Null);
    node.kind.group = String::new();
    let said = answer(&node, Question::Validation, &cluster, None).into_json();
    assert_eq!(
        (&said["response"]["allowed"], said["response"]["warnings"].as_array().map(Vec::len)),
        (&json!(true), Some(2))
    );
    let setting = review("Setting", "UPDATE", config("{\"restoreVM\":true}"), config(""));
    let said = answer(&setting, Question::Validation, &cluster, None).into_json();
    assert_eq!(said["response"]["status"]["code"], 500);
}

#[test]
fn all_kinds_that_a_creation_rests_on_are_asked_for() {
    let kinds = reads_of_create();
    for kind in ["Upgrade", "Version", "Setting", "Node", "Machine", "Cluster", "Kubelet", "ServerCertificate", "Addon"]
    {
        assert!(kinds.contains(kind), "{kind}");
    }
    for kind in kinds {
        let known = crate::cluster::RESOURCES.iter().any(|resource| resource.kind == kind);
        assert!(known || crate::cluster::LOOKS.contains(&kind), "{kind}");
    }
}

#[test]
fn a_certificate_is_for_the_name_that_the_api_server_calls() {
    let service = Place::Service { namespace: "harvester-system".to_owned(), name: "hook".to_owned() };
    assert_eq!(service.hosts()[0], "hook.harvester-system.svc");
    assert_eq!(Place::Url("https://localhost:9443".to_owned()).hosts(), ["localhost"]);
    assert_eq!(Place::Url("https://[::1]:9443/x".to_owned()).hosts(), ["::1"]);
}

#[test]
fn what_the_api_server_fills_in_is_no_difference_and_what_others_change_is() {
    let place = Place::Url("https://localhost:9443".to_owned());
    let wanted = configuration(Question::Validation, &place, "AUTHORITY");
    let mut there = wanted.clone();
    there["metadata"]["uid"] = json!("x");
    there["webhooks"][0]["objectSelector"] = json!({});
    assert!(!differs(&there, &wanted));
    there["webhooks"][0]["failurePolicy"] = json!("Ignore");
    assert!(differs(&there, &wanted));
    assert!(differs(&configuration(Question::Validation, &place, "ANOTHER"), &wanted));
}

#[test]
fn each_write_is_judged_by_the_rule_that_it_is_for() {
    let busy = with([
        latest("Unknown", json!({})),
        object(
            "cluster.x-k8s.io/v1beta1",
            "Cluster",
            "fleet-local/local",
            json!({ "status": { "phase": "Provisioning" } }),
        ),
    ]);
    let conditions = json!([{ "type": "NodesUpgraded", "status": "Unknown" }]);
    let at_work = stated("up", json!({ "status": { "conditions": conditions } }));
    let pausing = |map: &str| {
        stated("up", json!({ "metadata": { "annotations": { "harvesterhci.io/node-upgrade-pause-map": map } } }))
    };
    let release = |checksum: &str| {
        object(
            "harvesterhci.io/v1beta1",
            "Version",
            "v2",
            json!({ "spec": { "isoURL": "https://x", "isoChecksum": checksum } }),
        )
    };
    let log = |of: &str| {
        object(
            "harvesterhci.io/v1beta1",
            "UpgradeLog",
            "harvester-system/up-upgradelog",
            json!({ "spec": { "upgradeName": of } }),
        )
    };
    let promoted = |status: &str| json!({ "metadata": { "name": "harv-3", "annotations": { "harvesterhci.io/promote-status": status } } });
    let labels = json!({ "harvesterhci.io/upgradeComponent": "repo", "harvesterhci.io/upgrade": "up" });
    let repository =
        json!({ "metadata": { "name": "upgrade-repo-up", "namespace": "harvester-system", "labels": labels } });
    let cases = [
        ("harvesterhci.io", "Upgrade", "UPDATE", pausing(r#"{"harv-9":"pause"}"#), stated("up", json!({}))),
        ("harvesterhci.io", "Upgrade", "DELETE", Value::Null, at_work),
        ("harvesterhci.io", "Setting", "CREATE", config("random"), Value::Null),
        ("harvesterhci.io", "Setting", "UPDATE", config("random"), config("")),
        ("harvesterhci.io", "Version", "CREATE", release("bad"), Value::Null),
        ("harvesterhci.io", "Version", "UPDATE", release("bad"), release("")),
        ("harvesterhci.io", "UpgradeLog", "CREATE", log("up"), Value::Null),
        ("harvesterhci.io", "UpgradeLog", "UPDATE", log("other"), log("up")),
        ("", "Node", "CREATE", json!({ "metadata": { "name": "harv-9" } }), Value::Null),
        ("", "Node", "UPDATE", promoted("running"), promoted("")),
        ("apps", "Deployment", "DELETE", Value::Null, repository),
    ];
    let said = |group: &str, kind: &str, operation: &str, object: &Value, old: &Value| {
        let mut request = review(kind, operation, object.clone(), old.clone());
        request.kind.group = group.to_owned();
        answer(&request, Question::Validation, &busy, Some("drover")).into_json()["response"].clone()
    };
    for (group, kind, operation, object, old) in &cases {
        let refused = said(group, kind, operation, object, old);
        assert_eq!(refused["allowed"], false, "{operation} {kind}: {refused}");
        let text = refused["status"]["message"].as_str().unwrap_or_default();
        assert!(!text.is_empty() && !text.contains("cannot be read"), "{operation} {kind}: {text}");
        let elsewhere = said("example.com", kind, operation, object, old);
        assert_eq!(elsewhere["allowed"], true, "a {kind} of somebody else is not judged");
    }
    let other = object("harvesterhci.io/v1beta1", "Setting", "ui-source", json!({ "value": "random" }));
    assert_eq!(said("harvesterhci.io", "Setting", "UPDATE", &other, &other)["allowed"], true);
}

#[test]
fn before_a_write_is_judged_what_its_rule_rests_on_is_looked_at() {
    let read = |kind: &str, operation: &str, question: Question| -> Vec<&str> {
        let request = review(kind, operation, json!({ "metadata": { "name": "x" } }), Value::Null);
        reads(&request, question).into_iter().collect()
    };
    use Question::{Mutation, Validation};
    assert_eq!(read("Upgrade", "CREATE", Mutation), ["Node", "Setting"]);
    assert_eq!(read("Upgrade", "UPDATE", Validation), ["Node"]);
    assert_eq!(read("Upgrade", "DELETE", Validation), ["Cluster"]);
    assert_eq!(read("Setting", "CREATE", Validation), ["Node"]);
    assert_eq!(read("UpgradeLog", "CREATE", Validation), ["Upgrade", "UpgradeLog"]);
    assert_eq!(read("Node", "UPDATE", Validation), ["Node", "Upgrade"]);
    assert_eq!(read("Deployment", "DELETE", Validation), ["Upgrade"]);
    assert!(read("Upgrade", "CREATE", Validation).len() > 5);
    assert_eq!(read("Node", "DELETE", Validation), Vec::<&str>::new());
    assert_eq!(read("Upgrade", "UPDATE", Mutation), Vec::<&str>::new());
}

#[test]
fn a_writer_is_one_of_ours_by_name_and_nobody_is_refused_where_that_is_not_known() {
    let is_ours = |name: &str, own: Option<&str>| User::of(name, own).is_controller;
    assert!(is_ours("system:serviceaccount:harvester-system:harvester", Some("drover")));
    assert!(is_ours("system:serviceaccount:kube-system:generic-garbage-collector", Some("drover")));
    assert!(is_ours("drover", Some("drover")));
    // Who drives may run as another account than who answers.
    assert!(is_ours("system:serviceaccount:cattle-system:drover", Some("system:serviceaccount:a:b")));
    assert!(is_ours("system:serviceaccount:system-upgrade:system-upgrade", Some("system:serviceaccount:a:b")));
    assert!(!is_ours("somebody", Some("drover")));
    assert!(is_ours("somebody", None));
}

#[test]
fn a_version_says_only_what_can_be_understood_of_its_checks() {
    let of = |key: &str, value: &str| {
        let metadata = json!({ "name": "v2", "annotations": { format!("harvesterhci.io/{key}"): value } });
        let stated = json!({ "apiVersion": "harvesterhci.io/v1beta1", "kind": "Version", "metadata": metadata, "spec": { "isoURL": "" } });
        let verdict = version(&serde_json::from_value(stated).unwrap());
        refusals(&verdict).into_iter().map(|(code, said)| (code, said.to_owned())).collect::<Vec<_>>()
    };
    let (skip, days) = ("skipGarbageCollectionThresholdCheck", "minCertsExpirationInDay");
    for sound in [(skip, "true"), (skip, "false"), (days, "1"), (days, "30"), ("other", "what")] {
        assert_eq!(of(sound.0, sound.1), [], "{sound:?}");
    }
    let invalid = |value: &str, key: &str| format!("invalid value {value} for annotation harvesterhci.io/{key}");
    assert_eq!(of(skip, "maybe"), [(400, invalid("maybe", skip))]);
    assert_eq!(of(days, "many"), [(400, invalid("many", days))]);
    assert_eq!(of(days, "0"), [(400, format!("{}, it should be greater than 0", invalid("0", days)))]);
}

#[test]
fn harvester_answers_for_upgrades_where_it_is_asked_to_run() {
    let of = |replicas: Value| {
        let spec = json!({ "replicas": replicas, "selector": { "matchLabels": {} } });
        let deployment = object("apps/v1", "Deployment", "harvester-system/harvester", json!({ "spec": spec }));
        super::registration::incumbent(&with([deployment]))
    };
    let harvester = Some("Deployment harvester-system/harvester".to_owned());
    assert_eq!([of(json!(3)), of(json!(1)), of(Value::Null)], [harvester.clone(), harvester.clone(), harvester]);
    assert_eq!(of(json!(0)), None);
    assert_eq!(super::registration::incumbent(&healthy()), None);
}

#[test]
fn a_webhook_was_asked_only_about_upgrades_that_came_after_it() {
    let configuration =
        json!({ "metadata": { "name": "drover-harvester", "creationTimestamp": "2026-01-01T12:00:00Z" } });
    let asked = |created: Option<&str>| {
        let created = created.map(|text| text.parse().unwrap());
        super::registration::was_asked(configuration.to_string().as_bytes(), created)
    };
    assert!(asked(Some("2026-01-01T12:00:01Z")));
    // In the same second nobody knows which of the two came first.
    assert!(!asked(Some("2026-01-01T12:00:00Z")) && !asked(Some("2026-01-01T11:59:59Z")) && !asked(None));
    assert!(!super::registration::was_asked(b"{}", Some("2026-01-01T12:00:01Z".parse().unwrap())));
}
