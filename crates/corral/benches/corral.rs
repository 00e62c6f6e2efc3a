//! How fast the API server is, in process and on one thread, with objects of 2 KB. One line for each figure, with the
//! figure that has to be reached beside it; fails if one is not.

#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot go on has nothing to say")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use futures::{StreamExt, stream::FuturesUnordered};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, WatchEvent},
    client::Body,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::runtime::{Builder, Runtime};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Loading is measured in a process of its own: what others have used and freed would hide what it takes.
    if std::env::args().any(|argument| argument == LOAD) {
        load_large_cluster();
        return ExitCode::SUCCESS;
    }
    // Memory first, for the same reason.
    let memory = bytes_per_object();
    let mut figures = vec![
        gets(),
        patches(),
        applies(),
        events_to_one_watcher(),
        events_to_many_watchers(),
        simulated_requests(),
        memory,
        ready(),
    ];
    figures.extend(loads());
    figures.extend(growth());
    for figure in &figures {
        println!("{figure}");
    }
    if figures.iter().all(|figure| figure.is_reached) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was measured, and what was asked for.
struct Figure {
    text: String,
    is_reached: bool,
}

impl std::fmt::Display for Figure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.is_reached { "ok" } else { "MISSED" };
        write!(formatter, "{}  {verdict}", self.text)
    }
}

/// The best of a few rounds: whatever else the machine does only ever makes one slower.
fn best(round: impl Fn() -> Duration) -> Duration {
    (0..3).map(|_| round()).min().unwrap_or_default()
}

fn rate(what: &str, count: usize, time: Duration, least: f64) -> Figure {
    let rate = count as f64 / time.as_secs_f64();
    let text = format!("{what:<44} {rate:>12.0} a second   at least {least:>9.0}");
    Figure { text, is_reached: rate >= least }
}

fn runtime(paused: bool) -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(paused).build().expect("a runtime")
}

fn server(latency: Duration, watch_window: usize) -> ApiServer {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().expect("a moment"));
    ApiServer::new(Options { clock, seed: 1, latency, watch_window })
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures the time that passes on the wall")]
fn start() -> Instant {
    Instant::now()
}

/// A node as a kubelet reports it, of about 2 KB.
fn node(name: &str) -> Value {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "False", "reason": format!("KubeletHas{kind}"), "message": "kubelet is well",
                "lastHeartbeatTime": "2026-01-01T12:00:00Z", "lastTransitionTime": "2026-01-01T11:00:00Z" })
    };
    let conditions: Vec<_> = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition).into();
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "k3s", "topology.kubernetes.io/zone": "a",
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels, "annotations": { "note": "x".repeat(150) } },
        "spec": { "podCIDR": "10.42.0.0/24", "providerID": format!("k3s://{name}") },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": name }],
            "capacity": { "cpu": "8", "memory": "32Gi", "pods": "110" }, "conditions": conditions,
            "nodeInfo": {
                "architecture": "amd64", "bootID": "c0e48181-8dd4-45e6-87f0-58b43a91f592", "machineID": "0123456789abcdef",
                "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.18.0", "kubeProxyVersion": "v1.34.4",
                "kubeletVersion": "v1.34.4", "operatingSystem": "linux", "osImage": "Linux", "systemUUID": "0123456789",
            },
        },
    })
}

fn fill(server: &ApiServer, count: usize) {
    let direct = server.direct("bench");
    for place in 0..count {
        let node: Node = serde_json::from_value(node(&format!("node-{place:06}"))).expect("a node");
        direct.create(&node).expect("a new node");
    }
}

/// What a watcher that keeps a projection reads of an event.
#[derive(Clone, Debug, Deserialize)]
struct Seen {
    metadata: SeenMetadata,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenMetadata {
    resource_version: String,
}

fn gets() -> Figure {
    const COUNT: usize = 50_000;
    let round = async || {
        let server = server(Duration::ZERO, 1000);
        fill(&server, 100);
        let nodes: Api<Node> = Api::all(server.client("bench"));
        let started = start();
        for turn in 0..COUNT {
            nodes.get(&format!("node-{:06}", turn % 100)).await.expect("a node");
        }
        started.elapsed()
    };
    rate("get", COUNT, best(|| runtime(false).block_on(round())), 50_000.0)
}

fn patches() -> Figure {
    const COUNT: usize = 20_000;
    let round = async || {
        let server = server(Duration::ZERO, 1000);
        fill(&server, 100);
        let nodes: Api<Node> = Api::all(server.client("bench"));
        let started = start();
        for turn in 0..COUNT {
            patch(&nodes, turn).await;
        }
        started.elapsed()
    };
    rate("merge patch", COUNT, best(|| runtime(false).block_on(round())), 20_000.0)
}

fn applies() -> Figure {
    const COUNT: usize = 20_000;
    let round = async || {
        let server = server(Duration::ZERO, 1000);
        fill(&server, 100);
        let nodes: Api<Node> = Api::all(server.client("bench"));
        let started = start();
        for turn in 0..COUNT {
            let name = format!("node-{:06}", turn % 100);
            let config = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": name, "labels": { "pool": "a" }, "annotations": { "turn": turn.to_string() } },
                "spec": { "taints": [{ "key": "upgrade", "effect": "NoSchedule" }] },
            });
            let params = PatchParams::apply("bench-applier");
            nodes.patch(&name, &params, &Patch::Apply(&config)).await.expect("an applied node");
        }
        started.elapsed()
    };
    rate("server-side apply", COUNT, best(|| runtime(false).block_on(round())), 10_000.0)
}

async fn patch(nodes: &Api<Node>, turn: usize) {
    let changes = json!({ "metadata": { "annotations": { "turn": turn.to_string() } } });
    let name = format!("node-{:06}", turn % 100);
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&changes)).await.expect("a patched node");
}

/// Writes so many events that a watch can read them all at once.
async fn write_events(server: &ApiServer, count: usize) -> String {
    fill(server, 100);
    let nodes: Api<Node> = Api::all(server.client("bench"));
    let version = nodes.list(&Default::default()).await.expect("nodes").metadata.resource_version.expect("a version");
    for turn in 0..count {
        patch(&nodes, turn).await;
    }
    version
}

fn watch(version: &str) -> Request<Vec<u8>> {
    Request::get(format!("/api/v1/nodes?watch=true&resourceVersion={version}")).body(vec![]).expect("a request")
}

fn events_to_one_watcher() -> Figure {
    const COUNT: usize = 50_000;
    let round = async || {
        let server = server(Duration::ZERO, 2 * COUNT);
        let version = write_events(&server, COUNT).await;
        let client = server.client("bench");
        let started = start();
        let events = client.request_events::<Seen>(watch(&version)).await.expect("a watch");
        let mut events = Box::pin(events.take(COUNT));
        let mut last = 0;
        while let Some(event) = events.next().await {
            let Ok(WatchEvent::Modified(seen)) = event else { panic!("nothing but changes happened") };
            last = seen.metadata.resource_version.parse().expect("a version");
        }
        assert!(last > COUNT as u64);
        started.elapsed()
    };
    let time = best(|| runtime(false).block_on(round()));
    rate("watch events to one watcher, parsed", COUNT, time, 100_000.0)
}

fn events_to_many_watchers() -> Figure {
    const WATCHERS: usize = 100;
    const COUNT: usize = 20_000;
    let round = async || {
        let server = server(Duration::ZERO, 2 * COUNT);
        let version = write_events(&server, COUNT).await;
        let started = start();
        let mut watchers: FuturesUnordered<_> =
            (0..WATCHERS).map(|_| tokio::spawn(read_lines(server.client("bench"), version.clone(), COUNT))).collect();
        while let Some(watcher) = watchers.next().await {
            watcher.expect("a watcher that ended well");
        }
        started.elapsed()
    };
    let time = best(|| runtime(false).block_on(round()));
    rate("watch events over 100 watchers, as bytes", COUNT * WATCHERS, time, 1_000_000.0)
}

/// Reads events as they come over the wire.
async fn read_lines(client: Client, version: String, count: usize) {
    let response = client.send(watch(&version).map(Body::from)).await.expect("a watch");
    let mut body = response.into_body();
    for _ in 0..count {
        let frame = body.frame().await.expect("an event").expect("no error");
        assert!(frame.data_ref().is_some_and(|line| line.ends_with(b"}\n")));
    }
}

/// What a request costs in a simulation: with a latency on a virtual clock, and a watcher that sees every change.
fn simulated_requests() -> Figure {
    const COUNT: usize = 20_000;
    let round = async || {
        let server = server(Duration::from_millis(1), 1000);
        fill(&server, 100);
        let client = server.client("watcher");
        let events = client.request_events::<Seen>(watch("0")).await.expect("a watch");
        tokio::spawn(events.for_each(|_| std::future::ready(())));
        let nodes: Api<Node> = Api::all(server.client("bench"));
        let started = start();
        for turn in 0..COUNT / 2 {
            nodes.get(&format!("node-{:06}", turn % 100)).await.expect("a node");
            patch(&nodes, turn).await;
        }
        started.elapsed()
    };
    let time = best(|| runtime(true).block_on(round()));
    let micros = time.as_secs_f64() * 1e6 / COUNT as f64;
    let text = format!("{:<44} {micros:>12.1} us each      at most {:>10}", "simulated request, all in", 50);
    Figure { text, is_reached: micros <= 50.0 }
}

fn bytes_per_object() -> Figure {
    const COUNT: usize = 50_000;
    let (size, used) = runtime(false).block_on(async {
        let server = server(Duration::ZERO, 1000);
        // The event log is full before anything is counted.
        fill(&server, 1000);
        let size =
            serde_json::to_vec(&server.direct("bench").list_json("", "nodes").expect("nodes")[0]).expect("JSON").len();
        let before = resident();
        let direct = server.direct("bench");
        for place in 1000..1000 + COUNT {
            let node: Node = serde_json::from_value(node(&format!("node-{place:06}"))).expect("a node");
            direct.create(&node).expect("a new node");
        }
        (size, resident().saturating_sub(before))
    });
    let (each, most) = (used / COUNT, size * 13 / 10 + 300);
    let what = format!("memory for an object of {size} bytes");
    let text = format!("{what:<44} {each:>12} bytes        at most {most:>10}");
    Figure { text, is_reached: each <= most }
}

/// The memory that the process has, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or_default() * 1024
}

/// The argument that makes this program load a large cluster and say what that took.
const LOAD: &str = "--load-a-large-cluster";

/// A pod as a cluster shows it, of about 2 KB.
fn pod(number: usize) -> String {
    let name = format!("web-{number:06}");
    let container = json!({
        "name": "main", "image": "registry.example.com/shop/web:v1.2.3", "imagePullPolicy": "IfNotPresent",
        "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } }, "terminationMessagePath": "/dev/termination-log",
        "env": [{ "name": "POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } }],
    });
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T11:00:00Z" });
    let conditions: Vec<_> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).into();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": format!("shop-{}", number % 50), "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "resourceVersion": number.to_string(), "creationTimestamp": "2026-01-01T11:00:00Z",
            "labels": { "app": "web", "pod-template-hash": "5d4f8c7b9d", "tier": "front" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9d", "controller": true,
                                  "blockOwnerDeletion": true, "uid": "00000000-0000-4000-8000-00000000ffff" }],
            "annotations": { "note": "x".repeat(200) },
        },
        "spec": { "containers": [container], "nodeName": format!("node-{:06}", number % 10_000), "restartPolicy": "Always",
                  "serviceAccountName": "default", "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler" },
        "status": { "phase": "Running", "podIP": "10.42.0.1", "podIPs": [{ "ip": "10.42.0.1" }], "conditions": conditions,
                    "startTime": "2026-01-01T11:00:00Z" },
    });
    pod.to_string()
}

/// What a process of its own does: it takes in 10,000 nodes and 100,000 pods, and prints milliseconds and bytes.
fn load_large_cluster() {
    let nodes = (0..10_000).map(|number| node(&format!("node-{number:06}")).to_string());
    let objects = nodes.chain((0..100_000).map(pod));
    let objects: Vec<_> = objects.map(|text| RawValue::from_string(text).expect("JSON")).collect();
    let server = server(Duration::ZERO, 1000);
    let started = start();
    server.load_text(objects).expect("a cluster that can be loaded");
    let (time, memory) = (started.elapsed(), resident_at_most());
    let count = runtime(false).block_on(async {
        let pods: Api<Pod> = Api::all(server.client("bench"));
        let page = pods.list(&ListParams::default().limit(1)).await.expect("a page of pods");
        page.metadata.remaining_item_count.unwrap_or_default() + 1
    });
    println!("{} {memory} {count}", time.as_millis());
}

fn loads() -> [Figure; 2] {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program).arg(LOAD).output().expect("this program, once more");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [milliseconds, bytes, 100_000] = numbers[..] else { panic!("the load ended with {text:?}") };
    let (seconds, megabytes) = (milliseconds as f64 / 1000.0, bytes / 1_000_000);
    let what = "10,000 nodes and 100,000 pods loaded";
    [
        Figure {
            text: format!("{what:<44} {seconds:>12.1} s            at most {:>10}", 10),
            is_reached: seconds <= 10.0,
        },
        Figure {
            text: format!("{:<44} {megabytes:>12} MB           at most {:>10}", "memory of that at its highest", 600),
            is_reached: megabytes <= 600,
        },
    ]
}

/// From nothing to the first answer over a socket.
fn ready() -> Figure {
    let round = async || {
        let started = start();
        let server = server(Duration::ZERO, 1000);
        let served = drover_corral::serve::serve(server.clone(), ([127, 0, 0, 1], 0).into()).await.expect("a socket");
        let nodes: Api<Node> = Api::all(server.client("bench"));
        nodes.list(&Default::default()).await.expect("no nodes");
        drop(served);
        started.elapsed()
    };
    // The first round counts: later ones find what it has made.
    let milliseconds = runtime(false).block_on(round()).as_secs_f64() * 1e3;
    let text = format!("{:<44} {milliseconds:>12.1} ms           at most {:>10}", "a server on a socket is ready", 100);
    Figure { text, is_reached: milliseconds <= 100.0 }
}

/// How much longer each operation takes among 100,000 objects than among 1,000. More than a hundred times would be worse
/// than linear.
fn growth() -> Vec<Figure> {
    const TURNS: usize = 200;
    let measure = |count: usize| -> Vec<(&'static str, Duration)> {
        runtime(false).block_on(async {
            let server = server(Duration::ZERO, 1000);
            fill(&server, count);
            let nodes: Api<Node> = Api::all(server.client("bench"));
            let name = |turn: usize| format!("node-{:06}", (turn * 37) % count);
            let mut times = vec![];
            let started = start();
            for turn in 0..TURNS {
                nodes.get(&name(turn)).await.expect("a node");
            }
            times.push(("get", started.elapsed()));
            let started = start();
            for turn in 0..TURNS {
                let changes = json!({ "metadata": { "annotations": { "turn": turn.to_string() } } });
                nodes.patch(&name(turn), &PatchParams::default(), &Patch::Merge(&changes)).await.expect("a patched node");
            }
            times.push(("merge patch", started.elapsed()));
            let started = start();
            for turn in 0..TURNS {
                let condition = json!({ "type": "Ready", "status": "True", "reason": turn.to_string() });
                let changes = json!({ "status": { "conditions": [condition] } });
                let params = PatchParams::default();
                nodes.patch_status(&name(turn), &params, &Patch::Strategic(&changes)).await.expect("a patched status");
            }
            times.push(("strategic merge patch of a status", started.elapsed()));
            let mut current: Vec<Node> = vec![];
            for turn in 0..TURNS {
                current.push(nodes.get(&name(turn)).await.expect("a node"));
            }
            let started = start();
            for node in &mut current {
                node.metadata.annotations.get_or_insert_default().insert("turn".into(), "update".into());
                let name = node.metadata.name.clone().unwrap_or_default();
                nodes.replace(&name, &Default::default(), node).await.expect("a replaced node");
            }
            times.push(("update", started.elapsed()));
            let started = start();
            for turn in 0..TURNS {
                let config = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "labels": { "turn": turn.to_string() } } });
                let params = PatchParams::apply("bench").force();
                nodes.patch(&name(turn), &params, &Patch::Apply(&config)).await.expect("an applied node");
            }
            times.push(("apply", started.elapsed()));
            let started = start();
            for turn in 0..TURNS {
                let new: Node = serde_json::from_value(node(&format!("new-{turn}"))).expect("a node");
                nodes.create(&Default::default(), &new).await.expect("a new node");
            }
            times.push(("create", started.elapsed()));
            let started = start();
            for turn in 0..TURNS {
                nodes.delete(&format!("new-{turn}"), &Default::default()).await.expect("a deleted node");
            }
            times.push(("delete", started.elapsed()));
            let started = start();
            for turn in 0..TURNS {
                let version = nodes.list_metadata(&ListParams::default().limit(1)).await.expect("a page");
                let version = version.metadata.resource_version.unwrap_or_default();
                patch(&nodes, turn).await;
                let events = server.client("bench").request_events::<Seen>(watch(&version)).await.expect("a watch");
                Box::pin(events).next().await.expect("an event").expect("no error");
            }
            times.push(("watch up to its first event", started.elapsed()));
            let started = start();
            for _ in 0..TURNS {
                nodes.list(&ListParams::default().limit(10)).await.expect("a page");
            }
            times.push(("list of ten", started.elapsed()));
            times
        })
    };
    let (few, many) = (measure(1_000), measure(100_000));
    let compare = |((what, few), (_, many)): (&(&str, Duration), &(&str, Duration))| {
        let factor = many.as_secs_f64() / few.as_secs_f64();
        let what = format!("{what}: 100,000 objects against 1,000");
        let text = format!("{what:<44} {factor:>12.1} times as long  at most {:>8}", 100);
        Figure { text, is_reached: factor <= 100.0 }
    };
    few.iter().zip(&many).map(compare).collect()
}

/// The most memory that the process has had, in bytes.
fn resident_at_most() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or_default() * 1024
}
