//! Virtual machines on a cluster, in virtual time.

use drover_api::kubevirt::kube_virt::KubeVirt;
use drover_api::kubevirt::virtual_machine::VirtualMachine;
use drover_api::kubevirt::virtual_machine_instance::{VirtualMachineInstance, conditions};
use drover_api::kubevirt::virtual_machine_instance_migration::VirtualMachineInstanceMigration;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::{launcher, node, phase};
use crate::world::annotations::{CHART_DURATION, OPERATOR_VERSION};
use crate::world::tests::{Cluster, node as a_node};
use crate::world::{Part, WorldOptions, loose, pods};

/// Nodes with KubeVirt on them, and machines that should run.
async fn with_machines(nodes: &[&str], machines: &[(&str, Value)]) -> Cluster {
    let cluster = Cluster::new(WorldOptions::default().with([Part::KubeVirt]));
    cluster.define_harvester();
    for name in nodes {
        cluster.create::<Node>(a_node(name));
    }
    cluster.create::<KubeVirt>(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "default"},
        "spec": {"configuration": {"evictionStrategy": "LiveMigrateIfPossible"}},
    }));
    cluster.create::<ValidatingWebhookConfiguration>(json!({
        "metadata": {"name": "virt-api-validator"},
        "webhooks": [{
            "name": "virt-launcher-eviction-interceptor.kubevirt.io", "failurePolicy": "Ignore", "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "virt-api", "namespace": "default", "path": "/launcher-eviction-validate"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods/eviction"]}],
        }],
    }));
    for (name, template) in machines {
        cluster.create::<VirtualMachine>(machine(name, "Always", template.clone()));
    }
    if !machines.is_empty() {
        cluster.until("all machines run", |cluster| machines.iter().all(|(name, _)| is_running(cluster, name))).await;
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn an_installation_comes_to_the_version_of_its_operator_after_a_while() {
    let cluster = with_machines(&[], &[]).await;
    let status = |cluster: &Cluster| {
        let status = cluster.get::<KubeVirt>("default", "kubevirt").unwrap().status.unwrap_or_default();
        (status.phase.unwrap_or_default(), status.observed_version.unwrap_or_default())
    };
    let told = |key: &str, value: &str| {
        let mut installed: KubeVirt = cluster.get("default", "kubevirt").unwrap();
        installed.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
        cluster.direct.update(&installed).unwrap();
    };
    cluster.passes(60).await;
    assert_eq!(status(&cluster), (String::new(), String::new()), "nobody has said what it should be");
    told(OPERATOR_VERSION, "1.6.0");
    cluster.passes(30).await;
    assert_eq!(status(&cluster), ("Deployed".into(), "1.6.0".into()));
    told(CHART_DURATION, "never");
    told(OPERATOR_VERSION, "1.7.0");
    cluster.passes(600).await;
    assert_eq!(status(&cluster), ("Deploying".into(), "1.6.0".into()));
    told(CHART_DURATION, "1s");
    cluster.passes(5).await;
    assert_eq!(status(&cluster), ("Deployed".into(), "1.7.0".into()));
}

fn machine(name: &str, strategy: &str, template: Value) -> Value {
    let mut template = template;
    template["spec"]["domain"]["devices"]["disks"] = json!([]);
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runStrategy": strategy, "template": template},
    })
}

fn instance(cluster: &Cluster, name: &str) -> VirtualMachineInstance {
    cluster.get("default", name).unwrap()
}

fn has_instance(cluster: &Cluster, name: &str) -> bool {
    cluster.get::<VirtualMachineInstance>("default", name).is_some()
}

fn is_running(cluster: &Cluster, name: &str) -> bool {
    printed(cluster, name) == "Running"
}

fn printed(cluster: &Cluster, name: &str) -> String {
    let machine: VirtualMachine = cluster.get("default", name).unwrap();
    machine.status.and_then(|status| status.printable_status).unwrap_or_default()
}

fn migrations(cluster: &Cluster) -> Vec<(String, String)> {
    let all = cluster.direct.list::<VirtualMachineInstanceMigration>().unwrap();
    all.iter()
        .map(|one| (super::migration::instance_name(one).into(), super::migration::migration_phase(one).into()))
        .collect()
}

fn taint(cluster: &Cluster, name: &str) {
    let mut node = cluster.node(name);
    node.spec.get_or_insert_default().taints.get_or_insert_default().push(Taint {
        key: "kubevirt.io/drain".into(),
        value: Some("draining".into()),
        effect: "NoSchedule".into(),
        time_added: None,
    });
    cluster.direct.update(&node).unwrap();
}

fn launcher_of(cluster: &Cluster, name: &str) -> Pod {
    let here = instance(cluster, name);
    let alive = |pod: &Pod| !pods::has_ended(pod) && pods::node(pod) == node(&here);
    let is_its = |pod: &Pod| pod.metadata.annotations.as_ref().is_some_and(|all| all["kubevirt.io/domain"] == name);
    cluster.pods().into_iter().find(|pod| is_its(pod) && alive(pod)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_machine_runs_in_a_launcher_pod_with_a_budget_of_its_own() {
    let cluster = with_machines(&["n1"], &[("web", json!({"metadata": {"labels": {"app": "web"}}}))]).await;
    cluster.passes(5).await;

    let web = instance(&cluster, "web");
    let pod = launcher_of(&cluster, "web");
    assert!(pods::name(&pod.metadata).starts_with("virt-launcher-web-"));
    assert_eq!(pods::node(&pod), Some("n1"));
    assert_eq!((phase(&web), node(&web)), ("Running", Some("n1")));
    assert_eq!(web.metadata.labels.as_ref().unwrap()["kubevirt.io/nodeName"], "n1");
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["app"], "web");
    assert_eq!(launcher::migration_of(&pod), None);
    let budgets = cluster.direct.list::<PodDisruptionBudget>().unwrap();
    assert_eq!(budgets.len(), 1);
    assert!(pods::name(&budgets[0].metadata).starts_with("kubevirt-disruption-budget-"));
    assert_eq!(budgets[0].status.as_ref().unwrap().disruptions_allowed, 0);
}

#[tokio::test(start_paused = true)]
async fn the_run_strategy_says_what_becomes_of_a_machine_that_has_stopped() {
    let cluster = with_machines(&["n1"], &[]).await;
    for strategy in ["Always", "RerunOnFailure", "Manual", "Halted", "Once"] {
        cluster.create::<VirtualMachine>(machine(&strategy.to_lowercase(), strategy, json!({})));
    }
    cluster.passes(30).await;
    let states =
        |cluster: &Cluster| ["always", "rerunonfailure", "manual", "halted", "once"].map(|name| printed(cluster, name));
    assert_eq!(states(&cluster), ["Running", "Running", "Stopped", "Stopped", "Running"]);

    // The machine under them goes away for a while: what ran has failed.
    cluster.annotate("n1", "corral.drover.dev/down-until", "2026-01-01T12:02:00Z");
    cluster.passes(180).await;
    assert_eq!(states(&cluster), ["Running", "Running", "Stopped", "Stopped", "Stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_started_and_stopped_by_requests_in_its_status() {
    let cluster = with_machines(&["n1"], &[]).await;
    cluster.create::<VirtualMachine>(machine("web", "Manual", json!({})));
    cluster.passes(5).await;
    let ask = |requests: Value| {
        let mut web: VirtualMachine = cluster.get("default", "web").unwrap();
        web.status.get_or_insert_default().state_change_requests = serde_json::from_value(requests).unwrap();
        cluster.direct.update_status(&web).unwrap();
    };

    ask(json!([{"action": "Start"}]));
    cluster.until("it runs", |cluster| is_running(cluster, "web")).await;
    let first = pods::uid(&instance(&cluster, "web").metadata).to_string();
    ask(json!([{"action": "Stop", "uid": first}, {"action": "Start"}]));
    cluster
        .until("another instance runs", |cluster| {
            is_running(cluster, "web") && pods::uid(&instance(cluster, "web").metadata) != first
        })
        .await;
    let second = pods::uid(&instance(&cluster, "web").metadata).to_string();
    ask(json!([{"action": "Stop", "uid": second}]));
    cluster.until("it has stopped", |cluster| printed(cluster, "web") == "Stopped").await;

    assert!(!has_instance(&cluster, "web"));
    let web: VirtualMachine = cluster.get("default", "web").unwrap();
    assert_eq!(web.status.unwrap().state_change_requests, None);
}

#[tokio::test(start_paused = true)]
async fn the_drain_taint_moves_machines_to_other_nodes_two_at_a_time() {
    let plain = json!({});
    let machines = [("a", plain.clone()), ("b", plain.clone()), ("c", plain)];
    let cluster = with_machines(&["n1"], &machines).await;
    cluster.create::<Node>(a_node("n2"));
    cluster.passes(5).await;

    taint(&cluster, "n1");
    cluster.passes(8).await;
    assert_eq!(migrations(&cluster).len(), 2);
    let under_way = cluster.direct.list::<PodDisruptionBudget>().unwrap();
    let least = |budget: &PodDisruptionBudget| budget.spec.as_ref().unwrap().min_available.clone();
    assert_eq!(under_way.iter().filter(|budget| least(budget) == Some(IntOrString::Int(2))).count(), 2);

    cluster
        .until("all have left", |cluster| {
            ["a", "b", "c"].iter().all(|name| node(&instance(cluster, name)) == Some("n2"))
        })
        .await;
    cluster.passes(10).await;
    assert!(migrations(&cluster).iter().all(|(_, phase)| phase == "Succeeded"));
    assert_eq!(migrations(&cluster).len(), 3);
    let left = cluster.pods().into_iter().filter(|pod| pods::node(pod) == Some("n1"));
    assert!(left.clone().all(|pod| pods::phase(&pod) == "Succeeded") && left.count() == 3);
    let budgets = cluster.direct.list::<PodDisruptionBudget>().unwrap();
    assert!(budgets.iter().all(|budget| least(budget) == Some(IntOrString::Int(1))));
    assert!(["a", "b", "c"].iter().all(|name| is_running(&cluster, name)));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_answered_429_and_makes_the_machine_migrate() {
    let cluster = with_machines(&["n1"], &[("web", json!({}))]).await;
    cluster.create::<Node>(a_node("n2"));
    cluster.passes(5).await;
    let pod = launcher_of(&cluster, "web");
    let evict = |pod: &Pod| cluster.direct.evict("default", pods::name(&pod.metadata), None);

    let first = evict(&pod).unwrap_err();
    assert_eq!(first.code, 429);
    assert_eq!(
        first.message,
        "admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the request: Eviction triggered \
         evacuation of VMI \"default/web\""
    );
    assert_eq!(super::evacuated_from(&instance(&cluster, "web")), Some("n1"));
    let second = evict(&pod).unwrap_err();
    assert_eq!(
        (second.code, second.message.as_str()),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    );

    cluster.until("it has moved", |cluster| node(&instance(cluster, "web")) == Some("n2")).await;
    assert_eq!(super::evacuated_from(&instance(&cluster, "web")), None);
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_a_disk_of_one_node_cannot_migrate_and_says_why() {
    let cluster = with_machines(&["n1"], &[]).await;
    cluster.create::<Node>(a_node("n2"));
    for (name, mode) in [("own", "ReadWriteOnce"), ("shared", "ReadWriteMany")] {
        cluster.create::<PersistentVolumeClaim>(json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }));
        let disk = json!({"name": "disk", "persistentVolumeClaim": {"claimName": name}});
        let template = json!({"spec": {"volumes": [disk], "evictionStrategy": "LiveMigrate"}});
        cluster.create::<VirtualMachine>(machine(name, "Always", template));
    }
    cluster.until("both run", |cluster| is_running(cluster, "own") && is_running(cluster, "shared")).await;
    cluster.passes(2).await;
    let can = |name: &str| {
        let conditions = instance(&cluster, name).status.unwrap().conditions;
        let found = loose::find(conditions.as_ref(), conditions::LIVE_MIGRATABLE).unwrap();
        (found.status.clone(), found.reason.clone().unwrap_or_default())
    };
    assert_eq!(can("own"), ("False".into(), "DisksNotLiveMigratable".into()));
    assert_eq!(can("shared"), ("True".into(), String::new()));

    let stays = node(&instance(&cluster, "own")).unwrap().to_string();
    let refused =
        cluster.direct.evict("default", pods::name(&launcher_of(&cluster, "own").metadata), None).unwrap_err();
    assert!(refused.message.ends_with("VMI own is configured with an eviction strategy but is not live-migratable"));
    taint(&cluster, &stays);
    cluster.passes(120).await;
    assert_eq!(node(&instance(&cluster, "own")), Some(stays.as_str()));
    assert!(migrations(&cluster).iter().all(|(name, _)| name == "shared"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_may_stop_is_stopped_by_an_eviction_and_started_elsewhere() {
    let device = json!({"spec": {"domain": {"devices": {"hostDevices": [{"name": "gpu"}]}}}});
    let cluster = with_machines(&["n1"], &[("gpu", device)]).await;
    cluster.create::<Node>(a_node("n2"));
    let mut n1 = cluster.node("n1");
    n1.spec.get_or_insert_default().unschedulable = Some(true);
    cluster.direct.update(&n1).unwrap();
    cluster.passes(5).await;

    cluster.direct.evict("default", pods::name(&launcher_of(&cluster, "gpu").metadata), None).unwrap();
    cluster
        .until("it runs elsewhere", |cluster| {
            is_running(cluster, "gpu") && node(&instance(cluster, "gpu")) == Some("n2")
        })
        .await;
    assert_eq!(migrations(&cluster), []);
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_fails_leaves_the_machine_where_it_is_and_is_tried_again_later() {
    let fails = json!({"metadata": {"annotations": {"corral.drover.dev/migration-fails": "true"}}});
    let cluster = with_machines(&["n1"], &[("web", fails)]).await;
    cluster.create::<Node>(a_node("n2"));
    cluster.passes(5).await;

    taint(&cluster, "n1");
    cluster.passes(100).await;
    let tried = migrations(&cluster);
    assert!(tried.len() >= 2 && tried.len() <= 4, "{tried:?}");
    assert!(tried.iter().filter(|(_, phase)| phase == "Failed").count() >= 2);
    assert!(is_running(&cluster, "web") || printed(&cluster, "web") == "Migrating");
    assert_eq!(node(&instance(&cluster, "web")), Some("n1"));
    let events = cluster.direct.list::<k8s_openapi::api::core::v1::Event>().unwrap();
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("FailedMigration")));

    let mut web = instance(&cluster, "web");
    web.metadata.annotations.get_or_insert_default().remove("corral.drover.dev/migration-fails");
    cluster.direct.update(&web).unwrap();
    cluster.until("it has moved", |cluster| node(&instance(cluster, "web")) == Some("n2")).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fits_nowhere_else_gives_up_its_migration_after_five_minutes() {
    let cluster = with_machines(&["n1"], &[("web", json!({}))]).await;
    taint(&cluster, "n1");
    cluster.passes(200).await;
    assert_eq!(migrations(&cluster), [("web".to_string(), "Scheduling".to_string())]);
    cluster.passes(120).await;
    assert!(migrations(&cluster).iter().any(|(_, phase)| phase == "Failed"));
    assert!(is_running(&cluster, "web"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_deleted_shuts_down_first() {
    let cluster = with_machines(&["n1"], &[("web", json!({}))]).await;
    cluster.direct.delete::<VirtualMachine>(Some("default"), "web", None).unwrap();
    cluster.until("all is gone", |cluster| !has_instance(cluster, "web") && cluster.pods().is_empty()).await;
    assert_eq!(cluster.direct.list::<PodDisruptionBudget>().unwrap().len(), 0);
}
