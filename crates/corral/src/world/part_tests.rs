//! Parts of the world one by one: each has something to do, and can be left out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::tests::{Cluster, node};
use super::{Part, WorldOptions, pods};

/// Who writes while a small cluster with a bit of everything lives for a while, loses a node and a workload.
async fn writers(options: WorldOptions) -> BTreeSet<String> {
    let cluster = Cluster::new(options);
    let actors: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let seen = actors.clone();
    cluster.observe(move |actor| {
        seen.lock().unwrap().insert(actor.to_owned());
    });
    for name in ["n1", "n2", "n3"] {
        cluster.create::<Node>(node(name));
    }
    let (selector, template) = (json!({"matchLabels": {"app": "shop"}}), template("shop"));
    let controller = |name: &str, more: Value| {
        let mut spec = json!({"selector": selector, "template": template});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    cluster.create::<Deployment>(controller("cart", json!({"replicas": 4})));
    cluster.create::<StatefulSet>(controller("stock", json!({"replicas": 2, "serviceName": "shop"})));
    cluster.create::<DaemonSet>(controller("agent", json!({})));
    cluster.create::<Service>(json!({
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]},
    }));
    cluster.create::<PodDisruptionBudget>(json!({
        "metadata": {"name": "shop", "namespace": "default"}, "spec": {"minAvailable": 1, "selector": selector},
    }));
    let mut of_a_job = template.clone();
    of_a_job["spec"]["restartPolicy"] = json!("Never");
    cluster.create::<Job>(json!({
        "metadata": {"name": "tidy", "namespace": "default"}, "spec": {"template": of_a_job},
    }));
    cluster.passes(30).await;
    // One falls silent until its pods are driven out, another one is deleted.
    cluster.annotate("n1", "corral.drover.dev/shutdown", "silent");
    cluster.annotate("n1", "corral.drover.dev/down-until", "never");
    cluster.direct.delete::<Node>(None, "n2", None).unwrap();
    cluster.passes(600).await;
    cluster.direct.delete::<Deployment>(Some("default"), "cart", None).unwrap();
    cluster.passes(30).await;
    let actors = actors.lock().unwrap().clone();
    actors.into_iter().filter(|actor| actor.starts_with("world/")).collect()
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": "shop:1"}]}})
}

#[tokio::test(start_paused = true)]
async fn every_part_has_something_to_do_and_can_be_left_out() {
    let all: BTreeSet<String> = Part::KUBERNETES.iter().map(|part| part.actor().to_owned()).collect();
    assert_eq!(writers(WorldOptions::default()).await, all);
    for part in Part::KUBERNETES {
        let writers = writers(WorldOptions::default().without(part)).await;
        assert!(!writers.contains(part.actor()), "{part:?} is left out and writes");
    }
}

/// Who writes while a small Harvester cluster lives for a while, is asked for another version, and has a node promoted.
async fn harvester_writers(options: WorldOptions) -> BTreeSet<String> {
    let cluster = Cluster::new(options);
    let actors: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let seen = actors.clone();
    cluster.observe(move |actor| {
        seen.lock().unwrap().insert(actor.to_owned());
    });
    cluster.define_harvester();
    cluster.create::<Node>(node("n1"));
    let seed = super::provisioned::Seed {
        machine: "custom-1".into(),
        node: "n1".into(),
        address: "10.0.0.1".into(),
        etcd: true,
        control_plane: true,
        worker: true,
    };
    let of = |api_version: &str, kind: &str, namespace: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "n1", "namespace": namespace}, "spec": spec});
    let template = json!({"spec": {"domain": {"devices": {}}}});
    let mut objects = super::provisioned::settled(&[seed], "v1.34.1+rke2r1", "v2.12.3");
    objects.extend(super::charts::deployed("harvester", "harvester", "1.7.0"));
    objects.push(of("longhorn.io/v1beta2", "Node", "longhorn-system", json!({})));
    objects.push(of(
        "kubevirt.io/v1",
        "VirtualMachine",
        "default",
        json!({"runStrategy": "Always", "template": template}),
    ));
    objects.push(of("harvesterhci.io/v1beta1", "VirtualMachineImage", "default", json!({})));
    objects.push(of("harvesterhci.io/v1beta1", "Addon", "default", json!({"enabled": true})));
    cluster.load(objects);
    cluster.passes(30).await;
    let mut asked: drover_api::rancher::provisioning_cluster::Cluster = cluster.get("fleet-local", "local").unwrap();
    asked.spec.as_mut().unwrap().kubernetes_version = Some("v1.35.0+rke2r1".into());
    cluster.direct.update(&asked).unwrap();
    let mut promoted = cluster.node("n1");
    promoted.metadata.labels.get_or_insert_default().insert("node-role.kubernetes.io/etcd".into(), "true".into());
    cluster.direct.update(&promoted).unwrap();
    cluster.passes(60).await;
    let actors = actors.lock().unwrap().clone();
    actors.into_iter().filter(|actor| actor.starts_with("world/")).collect()
}

#[tokio::test(start_paused = true)]
async fn every_part_of_a_harvester_cluster_has_something_to_do_and_can_be_left_out() {
    let all = || WorldOptions::default().with(Part::HARVESTER);
    let own = |writers: &BTreeSet<String>| Part::HARVESTER.iter().filter(|part| writers.contains(part.actor())).count();
    let writers = harvester_writers(all()).await;
    assert_eq!(own(&writers), Part::HARVESTER.len(), "{writers:?}");
    for part in Part::HARVESTER {
        let writers = harvester_writers(all().without(part)).await;
        assert!(!writers.contains(part.actor()), "{part:?} is left out and writes");
    }
    assert_eq!(own(&harvester_writers(WorldOptions::default()).await), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_go_after_40_seconds() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Deployment>(json!({
        "metadata": {"name": "cart", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "cart"}}, "template": template("cart")},
    }));
    cluster.passes(10).await;
    let first = pods::name(&cluster.pods()[0].metadata).to_string();
    cluster.direct.delete::<Node>(None, "n1", None).unwrap();
    cluster.create::<Node>(node("n2"));

    cluster.passes(39).await;
    assert_eq!(cluster.pods().len(), 1);
    cluster.passes(10).await;
    let pods = cluster.pods();
    assert_eq!(pods.len(), 1);
    assert_ne!(pods::name(&pods[0].metadata), first);
    assert_eq!(pods::node(&pods[0]), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_comes_back_in_time_stay() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Deployment>(json!({
        "metadata": {"name": "cart", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "cart"}}, "template": template("cart")},
    }));
    cluster.passes(10).await;
    let uid = pods::uid(&cluster.pods()[0].metadata).to_string();
    cluster.direct.delete::<Node>(None, "n1", None).unwrap();
    cluster.passes(20).await;
    cluster.create::<Node>(node("n1"));

    cluster.passes(60).await;
    assert_eq!(pods::uid(&cluster.pods()[0].metadata), uid);
}
