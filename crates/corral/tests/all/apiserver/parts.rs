//! Parts of objects: scale, logs, what a kubelet says, machines of KubeVirt.

use drover_corral::apiserver::ApiServer;
use serde_json::{Value, json};

use super::support::*;

const NODES: &str = "/api/v1/nodes";

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "web:v1" }] },
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn the_scale_of_a_deployment_is_read_and_set() {
    let server = server();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    server.make(path, deployment("web", 2)).await.ok();
    let scale = format!("{path}/web/scale");

    let shown = server.read(&scale).await.ok();
    assert_eq!((&shown["kind"], &shown["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(shown["spec"], json!({ "replicas": 2 }));
    assert_eq!(shown["status"], json!({ "replicas": 0, "selector": "app=web" }));

    let mut wanted = shown.clone();
    wanted["spec"]["replicas"] = json!(5);
    assert_eq!(server.put(&scale, wanted.clone()).await.ok()["spec"]["replicas"], 5);
    assert_eq!(server.read(&format!("{path}/web")).await.ok()["spec"]["replicas"], 5);
    assert_eq!(server.put(&scale, wanted).await.code, 409);
    assert_eq!(server.merge(&scale, json!({ "spec": { "replicas": 3 } })).await.ok()["spec"]["replicas"], 3);
    let refused = server.merge(&scale, json!({ "spec": { "replicas": -1 } })).await;
    assert_eq!(
        refused.message(),
        "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_scales_by_the_fields_that_its_definition_names() {
    let server = server();
    let mut definition = plan_definition();
    definition["spec"]["versions"][0]["subresources"]["scale"] =
        json!({ "specReplicasPath": ".spec.concurrency", "statusReplicasPath": ".status.running" });
    server.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.ok();
    let path = "/apis/example.com/v1/namespaces/default/plans";
    let plan = json!({ "apiVersion": "example.com/v1", "kind": "Plan", "metadata": { "name": "a" }, "spec": { "upgrade": {} } });
    server.make(path, plan).await.ok();

    assert_eq!(server.read(&format!("{path}/a/scale")).await.ok()["spec"]["replicas"], 1);
    server.merge(&format!("{path}/a/scale"), json!({ "spec": { "replicas": 4 } })).await.ok();
    assert_eq!(server.read(&format!("{path}/a")).await.ok()["spec"]["concurrency"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_log_names_its_container_when_there_is_a_choice() {
    let server = server();
    let mut two = pod("two");
    two["spec"]["containers"].as_array_mut().unwrap().push(json!({ "name": "side", "image": "web:v1" }));
    server.make(PODS, two).await.ok();

    let refused = server.read(&format!("{PODS}/two/log")).await;
    assert_eq!(refused.code, 400);
    assert_eq!(refused.message(), "a container name must be specified for pod two, choose one of: [main side]");
    let refused = server.read(&format!("{PODS}/two/log?container=other")).await;
    assert_eq!(refused.message(), "container other is not valid for pod two");
    assert_eq!(
        server.read(&format!("{PODS}/two/log?container=side")).await.code,
        204,
        "nothing is printed where it is nowhere"
    );
    let refused = server.read(&format!("{PODS}/two/log?container=side&previous=true")).await;
    assert_eq!(refused.message(), "previous terminated container \"side\" in pod \"two\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_that_is_gone_has_no_log() {
    let server = server();
    let mut lost = pod("lost");
    lost["spec"]["nodeName"] = json!("gone");
    server.make(PODS, lost).await.ok();
    let refused = server.read(&format!("{PODS}/lost/log")).await;
    assert_eq!((refused.code, refused.message()), (404, "pods \"gone\" not found"));
}

#[tokio::test(start_paused = true)]
async fn exec_wants_another_protocol() {
    let server = server();
    server.make(PODS, pod("a")).await.ok();
    let refused = server.read(&format!("{PODS}/a/exec?command=true")).await;
    assert_eq!((refused.code, refused.message()), (400, "pod a does not have a host assigned"));
    server.make(NODES, json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } })).await.ok();
    let mut placed = pod("b");
    placed["spec"]["nodeName"] = json!("n");
    server.make(PODS, placed).await.ok();
    let refused = server.read(&format!("{PODS}/b/exec?command=true")).await;
    assert_eq!((refused.code, refused.message()), (400, "Upgrade request required"));
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_says_what_is_stored_of_its_node() {
    let server = server();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
        "status": { "capacity": { "ephemeral-storage": "100Gi", "memory": "8Gi", "pods": "50" } },
    });
    server.make(NODES, node).await.ok();
    let mut placed = pod("a");
    placed["spec"]["nodeName"] = json!("n");
    server.make(PODS, placed).await.ok();

    let proxy = format!("{NODES}/n/proxy");
    assert_eq!(server.read(&format!("{proxy}/healthz")).await.body, json!("ok"));
    let summary = server.read(&format!("{proxy}/stats/summary")).await.ok();
    assert_eq!(summary["node"]["fs"]["capacityBytes"], 100_u64 << 30);
    assert_eq!(summary["pods"][0]["podRef"]["name"], "a");
    assert_eq!(server.read(&format!("{proxy}/configz")).await.ok()["kubeletconfig"]["maxPods"], 50);
    assert_eq!(server.read(&format!("{proxy}/pods")).await.ok()["items"][0]["metadata"]["name"], "a");
    assert_eq!(server.read(&format!("{proxy}/nothing")).await.code, 404);
}

fn machine_definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.kubevirt.io") },
        "spec": {
            "group": "kubevirt.io", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    })
}

const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const INSTANCES: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";

/// A machine of this run strategy, and nobody who runs it.
async fn with_machine(strategy: &str) -> ApiServer {
    let server = server();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.make(definitions, machine_definition("virtualmachines", "VirtualMachine")).await.ok();
    server.make(definitions, machine_definition("virtualmachineinstances", "VirtualMachineInstance")).await.ok();
    let machine = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": "vm" },
                          "spec": { "runStrategy": strategy } });
    server.make(MACHINES, machine).await.ok();
    server
}

fn an_instance() -> Value {
    json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": { "name": "vm" } })
}

fn verb(verb: &str) -> String {
    format!("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/vm/{verb}")
}

#[tokio::test(start_paused = true)]
async fn a_machine_keeps_a_strategy_that_leaves_it_to_others_when_it_runs() {
    for strategy in ["RerunOnFailure", "Manual"] {
        let server = with_machine(strategy).await;
        let machine = async || server.read(&format!("{MACHINES}/vm")).await.ok();
        assert_eq!(server.put(&verb("stop"), json!({})).await.code, 409, "it does not run");
        assert_eq!(server.put(&verb("start"), json!({})).await.code, 202);
        assert_eq!(server.put(&verb("start"), json!({})).await.code, 500, "it is asked for already");
        assert_eq!(machine().await["status"]["stateChangeRequests"], json!([{ "action": "Start" }]));

        let made = server.make(INSTANCES, an_instance()).await.ok();
        assert_eq!(server.put(&verb("stop"), json!({})).await.code, 202, "a stop takes the place of the start");
        let after = machine().await;
        let stop = json!([{ "action": "Stop", "uid": made["metadata"]["uid"] }]);
        assert_eq!((&after["spec"]["runStrategy"], &after["status"]["stateChangeRequests"]), (&json!(strategy), &stop));
    }
    for strategy in ["Always", "Once"] {
        let server = with_machine(strategy).await;
        assert_eq!(server.put(&verb("start"), json!({})).await.code, 409, "that is not up to others");
        assert_eq!(server.put(&verb("stop"), json!({})).await.code, 202);
        assert_eq!(server.read(&format!("{MACHINES}/vm")).await.ok()["spec"]["runStrategy"], "Halted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_virtual_machine_is_started_stopped_and_restarted() {
    let server = with_machine("Halted").await;

    assert_eq!(server.put(&verb("restart"), json!({})).await.code, 409);
    assert_eq!(server.put(&verb("start"), json!({})).await.code, 202);
    assert_eq!(server.read(&format!("{MACHINES}/vm")).await.ok()["spec"]["runStrategy"], "Always");

    let made = server.make(INSTANCES, an_instance()).await.ok();
    assert_eq!(server.put(&verb("start"), json!({})).await.code, 409);
    assert_eq!(server.put(&verb("restart"), json!({})).await.code, 202);
    let requests = server.read(&format!("{MACHINES}/vm")).await.ok()["status"]["stateChangeRequests"].clone();
    assert_eq!(requests, json!([{ "action": "Stop", "uid": made["metadata"]["uid"] }, { "action": "Start" }]));

    assert_eq!(server.put(&verb("stop"), json!({})).await.code, 202);
    assert_eq!(server.read(&format!("{MACHINES}/vm")).await.ok()["spec"]["runStrategy"], "Halted");
    assert_eq!(server.read("/apis/subresources.kubevirt.io/v1/healthz").await.code, 200);
}
