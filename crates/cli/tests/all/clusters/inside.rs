//! Guest clusters that are looked into: only where somebody asks for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use drover_corral::world::definitions;
use drover_corral::world::guest::{Contract, Guest};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::served::Corral;

/// A Node that is being drained, whose pod a budget keeps, and one that is not ready.
const GUEST: &str = "
apiVersion: v1
kind: Node
metadata: {name: web-1}
spec: {unschedulable: true}
status: {conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Node
metadata: {name: web-2}
status: {conditions: [{type: Ready, status: 'False', reason: KubeletNotReady, message: network plugin is not ready}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-0, namespace: shop, labels: {app: cart}}
spec: {nodeName: web-1, containers: [{name: cart, image: cart}]}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart, namespace: shop, generation: 1}
spec: {minAvailable: 1, selector: {matchLabels: {app: cart}}}
status: {observedGeneration: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, disruptionsAllowed: 0}
";

/// A cluster as it is made of v1alpha2, whose Machines tell little: the names of its workers, and the objects.
fn management() -> (Vec<String>, Vec<Value>) {
    let version = "v1.16.7+vmware.1-guest.1";
    let guest = Guest {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        machines: 1,
        version: "1.16.7+vmware.1".to_owned(),
        begun: None,
        told: BTreeMap::new(),
        workers: Some(2),
        contract: Contract::V1alpha2,
        distribution: Some(version.to_owned()),
    };
    let mut objects = definitions::guest(Contract::V1alpha2);
    objects.extend(drover_api::crds::of(drover_api::crds::Controller::Guest).iter().map(|crd| json!(crd)));
    objects.extend(guest.settled(Timestamp::UNIX_EPOCH).management);
    let pool = |count: usize| json!({ "count": count, "class": "small", "storageClass": "gold" });
    objects.push(json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha1", "kind": "TanzuKubernetesCluster",
        "metadata": { "name": "web", "namespace": "default", "uid": guest.tanzu_uid() },
        "spec": {
            "topology": { "controlPlane": pool(1), "workers": pool(2) }, "distribution": { "fullVersion": version },
        },
        "status": { "phase": "running", "version": version },
    }));
    let is_worker = |object: &&Value| {
        let is_master = object["metadata"]["labels"]["cluster.x-k8s.io/control-plane"].is_string();
        object["kind"] == "Machine" && !is_master
    };
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    (objects.iter().filter(is_worker).map(name).collect(), objects)
}

fn why(corral: &Corral, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.args(["why", "-o", "json"]).args(args).arg("--kubeconfig").arg(corral.kubeconfig()).output().unwrap()
}

fn said(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Two corrals: a Machine of the one is on its way out, and in the other something keeps its Node.
fn corrals(folder: &Path) -> (Corral, Corral) {
    let (inside, outside) = (folder.join("guest.yaml"), folder.join("management.json"));
    let (workers, mut objects) = management();
    std::fs::write(&inside, GUEST.replace("web-1", &workers[0]).replace("web-2", &workers[1])).unwrap();
    let guest = Corral::start(&["--load", inside.to_str().unwrap()]);
    let kubeconfig = std::fs::read(guest.kubeconfig()).unwrap();
    for object in &mut objects {
        if object["kind"] == "Machine" && object["metadata"]["name"] == workers[0].as_str() {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        }
        if object["metadata"]["name"] == "web-kubeconfig" {
            object["data"]["value"] = json!(ByteString(kubeconfig.clone()));
        }
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    std::fs::write(&outside, list.to_string()).unwrap();
    (Corral::start(&["--load", outside.to_str().unwrap()]), guest)
}

#[test]
fn a_guest_is_looked_into_only_where_somebody_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (management, guest) = corrals(folder.path());

    let from_outside = said(&why(&management, &["tkc/default/web"]));
    assert!(!from_outside.to_string().contains("in the guest cluster"), "{from_outside}");

    for object in ["tkc/default/web", "cluster/default/web"] {
        let inside = said(&why(&management, &[object, "--into-guest"])).to_string();
        assert!(inside.contains("in the guest cluster: Pod shop/cart-0 cannot be evicted from Node web-"), "{inside}");
        assert!(inside.contains("in the guest cluster: PodDisruptionBudget shop/cart never lets a pod go"), "{inside}");
        assert!(inside.contains("is not Ready: network plugin is not ready"), "{inside}");
    }

    drop(guest);
    let cut_off = said(&why(&management, &["tkc/default/web", "--into-guest"]));
    assert!(cut_off["unseen"].to_string().contains("Secret/default/web-kubeconfig: "), "{cut_off}");
}

#[test]
fn what_is_no_guest_of_a_live_cluster_cannot_be_looked_into() {
    for args in [&["node/n1"][..], &["tkc/default/web", "--from", "."]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        let output = command.arg("why").args(args).arg("--into-guest").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("--into-guest goes with tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME"), "{error}");
        assert!(!output.status.success());
    }
}
