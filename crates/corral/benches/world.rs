//! What the simulated world costs: a whole upgrade in virtual time, node by node drained, upgraded and given back, while
//! Deployments, budgets and the scheduler keep the pods going. One line for each size, with what it may take beside it;
//! fails if it takes more. The time is that of the processor: on one thread it is what a clock on the wall shows where
//! nothing else runs.

#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot go on has nothing to say")]

use std::process::ExitCode;
use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Direct, Kind, Options};
use drover_corral::world::{World, WorldOptions, annotations};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{EvictParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let sizes = [
        Size { nodes: 100, pods_a_node: 0, at_once: 10, seconds: 2.0 },
        Size { nodes: 100, pods_a_node: 30, at_once: 10, seconds: 10.0 },
        Size { nodes: 1000, pods_a_node: 30, at_once: 50, seconds: 60.0 },
    ];
    let mut all_reached = true;
    for size in sizes {
        let before = processor_seconds();
        let virtual_time = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime")
            .block_on(upgrade(size));
        let (took, memory) = (processor_seconds() - before, peak_megabytes());
        let reached = took <= size.seconds && memory <= 1024;
        all_reached &= reached;
        let verdict = if reached { "ok" } else { "MISSED" };
        println!(
            "{:>5} nodes {:>6} pods: {took:>6.1} s (at most {:>4.0}), {memory:>5} MB (at most 1024), {:>6} s of virtual time  {verdict}",
            size.nodes,
            size.nodes * size.pods_a_node,
            size.seconds,
            virtual_time.as_secs(),
        );
    }
    if all_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    pods_a_node: usize,
    at_once: usize,
    seconds: f64,
}

async fn upgrade(size: Size) -> Duration {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().expect("a moment"));
    let latency = Duration::from_millis(1);
    let server = ApiServer::new(Options { clock, seed: 1, latency, watch_window: 1000 });
    let direct = server.direct("bench");
    let world = tokio::spawn(World::run(server.clone(), WorldOptions::default()));
    let names: Vec<String> = (0..size.nodes).map(|number| format!("node-{number:04}")).collect();
    for name in &names {
        create::<Node>(
            &direct,
            json!({"metadata": {
                "name": name, "annotations": {annotations::KUBELET: annotations::SIMULATED},
            }}),
        );
    }
    clock.sleep(Duration::from_secs(1)).await;
    for number in 0..if size.pods_a_node > 0 { size.nodes } else { 0 } {
        workload(&direct, &format!("app-{number:04}"), size.pods_a_node);
    }
    clock.sleep(Duration::from_secs(60)).await;

    let began = clock.now();
    for batch in names.chunks(size.at_once) {
        for name in batch {
            drain(&server, &clock, name).await;
            create::<Job>(&direct, job(name));
        }
        for name in batch {
            until(&clock, || is_complete(&direct, name)).await;
            cordon(&direct, name, false);
        }
    }
    let took = drover_clock::between(began, clock.now());
    let old = direct.list::<Node>().expect("nodes").iter().filter(|node| version(node) != "v1.35.0").count();
    assert_eq!(old, 0, "every node is upgraded");
    if size.pods_a_node > 0 {
        until(&clock, || ready_pods(&direct) == size.nodes * size.pods_a_node).await;
    }
    world.abort();
    took
}

/// What `kubectl drain` does.
async fn drain(server: &ApiServer, clock: &Clock, node: &str) {
    cordon(&server.direct("bench"), node, true);
    let client = server.client("bench");
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<Pod>::all(client.clone()).list(&on_node).await.expect("pods");
    for pod in pods {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        while let Err(kube::Error::Api(status)) = api.evict(&pod.name_any(), &EvictParams::default()).await {
            match status.code {
                404 => break,
                429 => clock.sleep(Duration::from_secs(5)).await,
                _ => panic!("{status:?}"),
            }
        }
    }
}

fn cordon(direct: &Direct, node: &str, cordoned: bool) {
    let mut found = direct.get::<Node>(None, node).expect("an answer").expect("the node");
    found.metadata.resource_version = None;
    found.spec.get_or_insert_default().unschedulable = cordoned.then_some(true);
    direct.update(&found).expect("a cordoned node");
}

fn workload(direct: &Direct, name: &str, replicas: usize) {
    let labels = json!({"app": name});
    create::<Deployment>(
        direct,
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                    {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
                ]}},
            },
        }),
    );
    create::<PodDisruptionBudget>(
        direct,
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"maxUnavailable": "20%", "selector": {"matchLabels": labels}},
        }),
    );
}

fn job(node: &str) -> Value {
    json!({
        "metadata": {"name": format!("upgrade-{node}"), "namespace": "default"},
        "spec": {"template": {
            "metadata": {"labels": {"upgrade.cattle.io/version": "v1.35.0"}},
            "spec": {
                "restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": node},
                "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [{"name": "upgrade", "image": "upgrade"}],
            },
        }},
    })
}

fn is_complete(direct: &Direct, node: &str) -> bool {
    let job = direct.get::<Job>(Some("default"), &format!("upgrade-{node}")).expect("an answer").expect("the Job");
    job.status.is_some_and(|status| status.completion_time.is_some())
}

fn ready_pods(direct: &Direct) -> usize {
    let deployments = direct.list::<Deployment>().expect("Deployments");
    let ready = deployments.iter().filter_map(|found| found.status.as_ref()?.ready_replicas);
    ready.map(|number| usize::try_from(number).unwrap_or(0)).sum()
}

fn version(node: &Node) -> &str {
    let system = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    system.map(|system| system.kubelet_version.as_str()).unwrap_or_default()
}

async fn until(clock: &Clock, holds: impl Fn() -> bool) {
    for _ in 0..3600 {
        if holds() {
            return;
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
    panic!("an hour of virtual time was not enough");
}

fn create<K: Kind>(direct: &Direct, object: Value) {
    direct.create(&serde_json::from_value::<K>(object).expect("an object")).expect("a new object");
}

/// The time that the process has used, from its 14th and 15th entry in hundredths of a second.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second entry, the name in brackets, may contain blanks.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let entries = after_name.split_whitespace().skip(11).take(2);
    entries.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that the process has had.
fn peak_megabytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or_default() / 1024
}
