//! What single objects say, whichever version of their API they are written in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_core::cluster::cluster_api::{self, KubeadmControlPlane, Machine, MachineDeployment, Reference};
use drover_core::cluster::harvester::{HelmRelease, RancherSetting, Setting, VirtualMachineBackup};
use drover_core::cluster::longhorn::{Replica, Volume};
use drover_core::cluster::{
    Bound, Cluster, Collection, Condition, Deployment, Event, Job, Lease, ObjectRef, PodDisruptionBudget, RESOURCES,
};
use drover_core::guest::{Collection as Collected, Seen};
use drover_core::plan::job::template;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn of<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn at(text: &str) -> Option<Timestamp> {
    Some(text.parse().unwrap())
}

#[test]
fn an_event_was_seen_first_and_last_when_whoever_wrote_it_says_so() {
    let times = |event: Value| {
        let event: Event = of(event);
        (event.first_seen(), event.last_seen())
    };
    let [one, two, three] = ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"];
    assert_eq!(times(json!({ "firstTimestamp": one, "lastTimestamp": two })), (at(one), at(two)));
    assert_eq!(times(json!({ "eventTime": one })), (at(one), at(one)));
    assert_eq!(times(json!({ "eventTime": one, "series": { "lastObservedTime": three } })), (at(one), at(three)));
    let series = json!({ "lastObservedTime": three });
    assert_eq!(times(json!({ "firstTimestamp": one, "lastTimestamp": two, "series": series })), (at(one), at(three)));
    assert_eq!(times(json!({ "metadata": { "creationTimestamp": two } })), (at(two), at(two)));
    assert_eq!(times(json!({ "firstTimestamp": one, "eventTime": two })), (at(one), at(one)));
    assert_eq!(times(json!({})), (None, None));
}

#[test]
fn an_event_is_about_one_object_of_one_kind_in_one_namespace() {
    let event: Event =
        of(json!({ "involvedObject": { "kind": "Pod", "namespace": "shop", "name": "a" }, "type": "Warning" }));
    let is_about = |kind: &str, namespace: &str, name: &str| event.is_about(&ObjectRef::new(kind, namespace, name));
    assert!(is_about("Pod", "shop", "a"));
    assert!(!is_about("Job", "shop", "a") && !is_about("Pod", "bank", "a") && !is_about("Pod", "shop", "b"));
    assert!(event.is_warning() && !of::<Event>(json!({ "type": "Normal" })).is_warning());
}

#[test]
fn events_about_an_object_are_told_in_the_order_in_which_they_were_last_seen() {
    let event = |name: &str, namespace: &str, about: &str, last: &str| {
        json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": namespace }, "message": name,
            "involvedObject": { "kind": about, "namespace": if about == "Node" { "" } else { namespace }, "name": "a" }, "lastTimestamp": last })
    };
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    for one in [
        event("late", "shop", "Pod", "2026-01-01T03:00:00Z"),
        event("early", "shop", "Pod", "2026-01-01T01:00:00Z"),
        event("elsewhere", "bank", "Pod", "2026-01-01T02:00:00Z"),
        event("node", "default", "Node", "2026-01-01T02:00:00Z"),
    ] {
        cluster.take(one.to_string().as_bytes());
    }
    let told = |object: ObjectRef| -> Vec<String> {
        cluster.events_about(&object).into_iter().map(|event| event.message.clone()).collect()
    };
    assert_eq!(told(ObjectRef::new("Pod", "shop", "a")), ["early", "late"]);
    assert_eq!(told(ObjectRef::new("Node", "", "a")), ["node"], "in whatever namespace it stands");
}

#[test]
fn a_deployment_is_rolled_out_when_all_that_it_wants_is_new_and_available_and_nothing_else_is_there() {
    let rolled = |wanted: Value, counts: [i64; 3], generations: (i64, i64)| {
        let [replicas, updated, available] = counts;
        let deployment: Deployment = of(
            json!({ "metadata": { "generation": generations.0 }, "spec": { "replicas": wanted },
            "status": { "observedGeneration": generations.1, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available } }),
        );
        deployment.is_rolled_out()
    };
    assert!(rolled(json!(2), [2, 2, 2], (3, 3)) && rolled(json!(0), [0, 0, 0], (3, 4)));
    assert!(rolled(Value::Null, [1, 1, 1], (1, 1)), "one, if it does not say how many");
    for counts in [[3, 2, 2], [2, 1, 2], [2, 2, 1], [1, 1, 1]] {
        assert!(!rolled(json!(2), counts, (3, 3)), "{counts:?}");
    }
    assert!(!rolled(json!(2), [2, 2, 2], (3, 2)), "it was changed since");
}

#[test]
fn a_job_has_ended_when_it_is_complete_or_has_failed() {
    let job = |kind: &str, status: &str| -> Job {
        of(json!({ "status": { "conditions": [{ "type": kind, "status": status }] } }))
    };
    let ends = |job: Job| (job.is_complete(), job.failure().is_some(), job.has_ended());
    assert_eq!(ends(job("Complete", "True")), (true, false, true));
    assert_eq!(ends(job("Failed", "True")), (false, true, true));
    assert_eq!(ends(job("Failed", "False")), (false, false, false));
    assert_eq!(ends(job("Suspended", "True")), (false, false, false));
}

#[test]
fn a_condition_says_its_sentence_or_else_its_word() {
    let said = |reason: &str, message: &str| {
        of::<Condition>(json!({ "reason": reason, "message": message })).said().to_owned()
    };
    assert_eq!(
        (said("Word", "a sentence"), said("Word", ""), said("", "")),
        ("a sentence".into(), "Word".into(), String::new())
    );
}

#[test]
fn a_machine_says_why_it_has_failed_in_one_of_many_places_and_a_sentence_says_more_than_a_word() {
    let failure = |status: Value| of::<Machine>(json!({ "status": status })).failure().map(str::to_owned);
    for field in ["failureMessage", "errorMessage", "failureReason", "errorReason"] {
        assert_eq!(failure(json!({ field: "x" })).as_deref(), Some("x"), "{field}");
    }
    for field in ["failureMessage", "failureReason"] {
        assert_eq!(failure(json!({ "deprecated": { "v1beta1": { field: "x" } } })).as_deref(), Some("x"), "{field}");
    }
    let both = json!({ "failureReason": "Word", "deprecated": { "v1beta1": { "failureMessage": "a sentence" } } });
    assert_eq!(failure(both).as_deref(), Some("a sentence"));
    assert_eq!(failure(json!({})), None);
}

#[test]
fn a_machine_is_ready_when_it_is_a_node_and_nobody_says_otherwise() {
    let machine = || json!({ "metadata": { "name": "m" }, "status": { "nodeRef": { "name": "n" } } });
    let is_ready = |change: fn(&mut Value)| {
        let mut machine = machine();
        change(&mut machine);
        of::<Machine>(machine).is_ready()
    };
    assert!(is_ready(|_| {}));
    assert!(is_ready(
        |machine| machine["status"]["conditions"] = json!([{ "type": "NodeHealthy", "status": "Unknown" }])
    ));
    assert!(!is_ready(
        |machine| machine["status"]["conditions"] = json!([{ "type": "NodeHealthy", "status": "False" }])
    ));
    assert!(!is_ready(|machine| machine["status"]["nodeRef"] = json!({})));
    assert!(!is_ready(|machine| machine["status"]["errorReason"] = json!("x")));
    assert!(!is_ready(|machine| machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z")));
}

#[test]
fn the_newer_place_of_a_condition_counts_more_than_the_older_one() {
    let machine: Machine = of(json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "False" }, { "type": "Old", "status": "True" }],
        "v1beta2": { "conditions": [{ "type": "Ready", "status": "True" }] } } }));
    let status = |kind: &str| machine.condition(kind).map(|condition| condition.status.as_str());
    assert_eq!((status("Ready"), status("Old"), status("None")), (Some("True"), Some("True"), None));
}

#[test]
fn a_machine_is_of_the_control_plane_by_its_label_or_its_owner() {
    let is = |metadata: Value| of::<Machine>(json!({ "metadata": metadata })).is_of_control_plane();
    assert!(is(json!({ "labels": { "cluster.x-k8s.io/control-plane": "" } })));
    assert!(is(json!({ "ownerReferences": [{ "kind": "KubeadmControlPlane", "name": "x" }] })));
    assert!(!is(json!({ "ownerReferences": [{ "kind": "MachineSet", "name": "x" }] })));
}

#[test]
fn a_reference_tells_its_group_by_itself_or_by_its_version() {
    let group = |reference: Value| of::<Reference>(reference).group().to_owned();
    assert_eq!(group(json!({ "apiGroup": "rke.cattle.io", "apiVersion": "other/v1" })), "rke.cattle.io");
    assert_eq!(group(json!({ "apiVersion": "rke.cattle.io/v1" })), "rke.cattle.io");
    assert_eq!(group(json!({ "apiVersion": "v1" })), "");
}

#[test]
fn a_cluster_is_rancher_s_by_where_it_is_or_by_who_leads_it() {
    let is = |object: Value| of::<cluster_api::Cluster>(object).is_rancher_s();
    assert!(is(json!({ "metadata": { "name": "local", "namespace": "fleet-local" } })));
    assert!(is(
        json!({ "metadata": { "namespace": "team" }, "spec": { "controlPlaneRef": { "apiVersion": "rke.cattle.io/v1" } } })
    ));
    let other = json!({ "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1" });
    assert!(!is(json!({ "metadata": { "namespace": "team" }, "spec": { "controlPlaneRef": other } })));
}

#[test]
fn what_is_paused_is_so_by_its_spec_or_its_annotation() {
    let annotated = json!({ "annotations": { "cluster.x-k8s.io/paused": "" } });
    assert!(of::<cluster_api::Cluster>(json!({ "spec": { "paused": true } })).is_paused());
    assert!(of::<cluster_api::Cluster>(json!({ "metadata": annotated })).is_paused());
    assert!(!of::<cluster_api::Cluster>(json!({})).is_paused());
    assert!(of::<MachineDeployment>(json!({ "spec": { "paused": true } })).is_paused());
    assert!(of::<MachineDeployment>(json!({ "metadata": annotated })).is_paused());
    assert!(!of::<MachineDeployment>(json!({})).is_paused());
}

#[test]
fn machines_are_wanted_one_at_least_and_counted_as_either_version_counts_them() {
    let plane: KubeadmControlPlane = of(json!({ "status": { "updatedReplicas": 2, "upToDateReplicas": 3 } }));
    assert_eq!((plane.wanted(), plane.updated()), (1, 3));
    let deployment: MachineDeployment = of(json!({ "spec": { "replicas": 5 }, "status": { "updatedReplicas": 4 } }));
    assert_eq!((deployment.wanted(), deployment.updated()), (5, 4));
    let template = |text: Value| {
        of::<KubeadmControlPlane>(json!({ "spec": { "machineTemplate": text } }))
            .spec
            .machine_template
            .infrastructure()
            .name
            .clone()
    };
    assert_eq!(
        template(json!({ "infrastructureRef": { "name": "old" }, "spec": { "infrastructureRef": { "name": "new" } } })),
        "old"
    );
    assert_eq!(template(json!({ "spec": { "infrastructureRef": { "name": "new" } } })), "new");
}

#[test]
fn a_setting_holds_its_value_or_else_its_default() {
    for (setting, holds) in
        [(json!({ "value": "a", "default": "b" }), "a"), (json!({ "default": "b" }), "b"), (json!({}), "")]
    {
        assert_eq!(of::<Setting>(setting.clone()).effective(), holds);
        assert_eq!(of::<RancherSetting>(setting).effective(), holds);
    }
}

#[test]
fn a_backup_of_a_vm_is_under_way_until_it_can_be_used_or_has_failed() {
    let is = |status: Value| of::<VirtualMachineBackup>(json!({ "status": status })).is_under_way();
    assert!(is(json!({})) && is(json!({ "readyToUse": false })));
    assert!(!is(json!({ "readyToUse": true })) && !is(json!({ "readyToUse": false, "error": { "message": "no" } })));
}

#[test]
fn what_helm_keeps_of_a_release_is_read_or_said_not_to_be_readable() {
    let kept = |text: &str| STANDARD.encode(STANDARD.encode(text));
    let values = |release: &str| of::<HelmRelease>(json!({ "data": { "release": release } })).values();
    assert_eq!(values(&kept(r#"{"config":{"a":1}}"#)), Ok(json!({ "a": 1 })));
    assert_eq!(values(&kept(r#"{"config":null}"#)), Ok(json!({})));
    assert_eq!(values(&kept("{}")), Ok(json!({})));
    assert_eq!(values("?"), Err("it is not base64".to_owned()));
    assert_eq!(values(&STANDARD.encode("?")), Err("it is not base64".to_owned()));
    assert_eq!(values(&kept("nonsense")), Err("it holds no release".to_owned()));
    let cut_off = STANDARD.encode(STANDARD.encode([0x1f, 0x8b, 0, 0]));
    assert_eq!(values(&cut_off), Err("it is not packed as Helm does".to_owned()));
    let release: HelmRelease = of(json!({ "metadata": { "labels": { "status": "deployed", "version": "12" } } }));
    assert_eq!((release.status(), release.revision()), ("deployed", 12));
    assert_eq!(of::<HelmRelease>(json!({})).revision(), 0);
}

#[test]
fn a_replica_is_sound_when_it_runs_has_been_well_and_has_not_failed() {
    let is = |spec: Value, state: &str| {
        of::<Replica>(json!({ "spec": spec, "status": { "currentState": state } })).is_sound()
    };
    assert!(is(json!({ "healthyAt": "x" }), "running"));
    assert!(!is(json!({ "healthyAt": "x" }), "stopped"));
    assert!(!is(json!({ "healthyAt": "x", "failedAt": "y" }), "running"));
    assert!(!is(json!({}), "running"));
    let volume = |status: Value| of::<Volume>(json!({ "metadata": { "name": "pvc-1" }, "status": status }));
    assert_eq!(volume(json!({ "kubernetesStatus": { "namespace": "shop", "pvcName": "data" } })).claim(), "shop/data");
    assert_eq!(volume(json!({})).claim(), "pvc-1");
    assert!(
        volume(json!({ "state": "attached" })).is_attached() && !volume(json!({ "state": "detaching" })).is_attached()
    );
}

#[test]
fn a_budget_is_told_as_it_is_written_and_a_share_is_rounded_up() {
    let rule = |spec: Value| of::<PodDisruptionBudget>(json!({ "spec": spec })).rule();
    assert_eq!(rule(json!({ "minAvailable": 2 })), "minAvailable: 2");
    assert_eq!(rule(json!({ "maxUnavailable": "25%" })), "maxUnavailable: 25%");
    assert_eq!(rule(json!({})), "neither minAvailable nor maxUnavailable");
    let share = |text: &str, all: i64| Bound::Share(text.to_owned()).of(all);
    assert_eq!(
        [share("50%", 4), share("50%", 5), share("1%", 3), share("0%", 3), share("100%", 3)],
        [2, 3, 1, 0, 3].map(Some)
    );
    assert_eq!([share("half", 4), share("50", 4)], [None, None]);
    assert_eq!(Bound::Number(7).of(3), Some(7));
}

#[test]
fn a_holder_is_silent_when_it_has_renewed_nothing_for_longer_than_a_node_controller_waits() {
    let lease: Lease = of(json!({ "spec": { "renewTime": "2026-01-01T12:00:00Z" } }));
    let silent = |now: &str| lease.silent_since(now.parse().unwrap());
    assert_eq!(silent("2026-01-01T12:00:50Z"), None);
    assert_eq!(silent("2026-01-01T12:00:51Z"), at("2026-01-01T12:00:00Z"));
    assert_eq!(of::<Lease>(json!({})).silent_since("2026-01-01T12:00:51Z".parse().unwrap()), None);
}

#[test]
fn clusters_of_either_kind_are_guests_and_nothing_else_is() {
    let is = |kind: &str| ObjectRef::new(kind, "team", "web").is_guest();
    assert!(is("TanzuKubernetesCluster") && is("Cluster"));
    assert!(!is("Machine") && !is("Cluster.provisioning.cattle.io"));
}

#[test]
fn every_cluster_serves_the_kinds_of_kubernetes_and_those_of_cluster_api_come_with_it() {
    let is_built_in = |kind: &str| RESOURCES.iter().find(|resource| resource.kind == kind).unwrap().is_built_in();
    for kind in ["Node", "Deployment", "Job", "Lease", "StorageClass", "ValidatingWebhookConfiguration"] {
        assert!(is_built_in(kind), "{kind}");
    }
    for kind in ["Machine", "KubeadmControlPlane", "Plan", "Upgrade", "Volume.longhorn.io", "TanzuKubernetesCluster"] {
        assert!(!is_built_in(kind), "{kind}");
    }
}

#[test]
fn a_survey_alone_says_that_everything_was_looked_at_and_a_file_that_is_cut_off_hides_its_kind() {
    let collected = |object: Value| {
        let mut collection = Collection::new(Timestamp::UNIX_EPOCH);
        collection.take(&object.to_string());
        collection.finish()
    };
    let survey = json!({ "apiVersion": "drover.dev/v1", "kind": "Survey", "complete": true, "lookedAt": "2026-01-01T12:00:00Z" });
    assert_eq!(collected(survey.clone()).unseen, []);
    assert_eq!(Some(collected(survey).looked_at), at("2026-01-01T12:00:00Z"));
    let other = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "complete": true });
    assert!(collected(other).blind_to("Pod").is_some());
    let unfinished = json!({ "apiVersion": "drover.dev/v1", "kind": "Survey", "complete": false });
    assert!(collected(unfinished).blind_to("Pod").is_some());

    let mut collection = Collection::new(Timestamp::UNIX_EPOCH);
    collection.could_not_read("pods", "pods.yaml");
    let cluster = collection.finish();
    assert_eq!(cluster.blind_to("Pod").unwrap().to_string(), "Pod: pods.yaml is cut off or holds no list");
    assert_eq!(cluster.unseen.iter().filter(|unseen| unseen.kind == "Pod").count(), 1);
}

#[test]
fn templates_of_machines_are_known_by_the_groups_that_have_them() {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    for (group, name) in [
        ("infrastructure.cluster.x-k8s.io/v1beta1", "docker"),
        ("infrastructure.cluster.vmware.com/v1alpha2", "vmware"),
        ("example.com/v1", "other"),
    ] {
        let template = json!({ "apiVersion": group, "kind": "MachineTemplate", "metadata": { "name": name, "namespace": "team" } });
        cluster.take(template.to_string().as_bytes());
    }
    let names: Vec<&str> = cluster.templates.iter().map(|template| template.name.as_str()).collect();
    assert_eq!(names, ["docker", "vmware"]);
}

#[test]
fn a_list_that_is_whole_takes_away_what_it_tells_of_and_does_not_hold_unless_that_is_newer() {
    let object = |name: &str, version: &str, cluster: &str| json!({ "metadata": { "name": name, "resourceVersion": version, "labels": { "cluster": cluster } } });
    let mut seen: Seen = Seen::default();
    for (name, version, cluster) in
        [("gone", "3", "web"), ("newer", "9", "web"), ("elsewhere", "3", "other"), ("there", "3", "web")]
    {
        seen.put(Collected::Machines, object(name, version, cluster));
    }
    let is_of_web = |object: &Value| object["metadata"]["labels"]["cluster"] == "web";
    seen.keep(Collected::Machines, vec![object("there", "5", "web"), object("new", "5", "web")], 5, is_of_web);
    let names: Vec<&str> = seen.all(Collected::Machines).filter_map(|one| one["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["elsewhere", "new", "newer", "there"]);
    assert_eq!(seen.get(Collected::Machines, "there").unwrap()["metadata"]["resourceVersion"], "5");
}

#[test]
fn a_job_at_work_is_interrupted_by_what_changes_its_steps_and_by_nothing_else() {
    let digest = |more: Value| {
        let mut spec = json!({ "upgrade": { "image": "x" }, "channel": "https://a", "concurrency": 1 });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        template(&of(spec), "v1")
    };
    let before = digest(json!({}));
    for (what, change) in [
        ("the channel", json!({ "channel": "https://b" })),
        ("how many at once", json!({ "concurrency": 2 })),
        ("which nodes", json!({ "nodeSelector": { "matchLabels": { "a": "b" } } })),
        ("when", json!({ "window": { "days": ["monday"], "startTime": "01:00", "endTime": "02:00" } })),
        ("how long", json!({ "jobActiveDeadlineSecs": 60 })),
        ("the delay after it", json!({ "postCompleteDelay": "5m" })),
        ("the version that is resolved already", json!({ "version": "v1" })),
    ] {
        assert_eq!(digest(change), before, "{what}");
    }
    for change in
        [json!({ "upgrade": { "image": "y" } }), json!({ "cordon": true }), json!({ "serviceAccountName": "z" })]
    {
        assert_ne!(digest(change.clone()), before, "{change}");
    }
}
