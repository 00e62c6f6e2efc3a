//! `drover drain`, `cordon` and `why` as processes of their own, on a served corral.

use std::process::{Command, Output};
use std::time::Duration;

use crate::served::Corral;
use drover_operator::{Connection, connect};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;

/// One node with a running pod that a controller owns, under a budget that needs it.
const OBJECTS: &str = "
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels: {kubernetes.io/hostname: node-1, pool: a}
  annotations: {corral.drover.dev/kubelet: simulated}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  namespace: default
  labels: {app: web}
  ownerReferences: [{apiVersion: example.com/v1, kind: Herd, name: web, uid: none, controller: true}]
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: web}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: upgrade.cattle.io/v1
kind: Plan
metadata: {name: up, namespace: default}
spec: {upgrade: {image: upgrade}}
";

struct Cluster {
    corral: Corral,
    _objects: tempfile::NamedTempFile,
}

impl Cluster {
    fn start() -> Self {
        let objects = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        let crds = Command::new(env!("CARGO_BIN_EXE_drover")).arg("crds").output().unwrap().stdout;
        let crds = String::from_utf8(crds).unwrap();
        std::fs::write(objects.path(), format!("{crds}---\n{OBJECTS}")).unwrap();
        let corral = Corral::start(&["--load", objects.path().to_str().unwrap()]);
        Cluster { corral, _objects: objects }
    }

    /// Until then nothing is lost if the pod goes, and the budget lets it.
    fn wait_until_the_pod_is_healthy(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connection = Connection { kubeconfig: Some(self.corral.kubeconfig()), ..Connection::default() };
            let budgets: Api<PodDisruptionBudget> = Api::namespaced(connect(&connection).await.unwrap(), "default");
            let healthy = async || {
                let status = budgets.get("web").await.unwrap().status;
                status.is_some_and(|status| status.current_healthy == 1)
            };
            for _ in 0..100 {
                if healthy().await {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("the pod did not become healthy within 10 s");
        });
    }

    fn drover(&self, line: &str) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(line.split(' '))
            .arg("--kubeconfig")
            .arg(self.corral.kubeconfig())
            .output();
        output.unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_drain_speaks_as_kubectl_does_and_ends_with_its_node_empty() {
    let cluster = Cluster::start();
    let drained = cluster.drover("drain node-1 --disable-eviction --timeout 60s");
    assert_eq!(
        text(&drained.stdout),
        "node/node-1 cordoned\ndeleting pod default/web-1\npod/web-1 deleted\nnode/node-1 drained\n",
        "{}",
        text(&drained.stderr)
    );
    let again = cluster.drover("drain -l pool=a");
    assert_eq!(text(&again.stdout), "node/node-1 already cordoned\nnode/node-1 drained\n", "{}", text(&again.stderr));
    assert_eq!(text(&cluster.drover("cordon node-1").stdout), "node/node-1 already cordoned\n");
}

#[test]
fn a_drain_that_a_budget_forbids_names_it_and_fails_when_its_time_is_up() {
    let cluster = Cluster::start();
    cluster.wait_until_the_pod_is_healthy();
    let failed = cluster.drover("drain node-1 --timeout 2s --on-timeout uncordon -o json");
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.contains("waiting: PodDisruptionBudget default/web forbids to evict Pod default/web-1"), "{said}");
    assert!(said.contains("error: cannot drain Node node-1: time is up; still there: default/web-1"), "{said}");
    let outcomes: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(outcomes[0]["drained"], false);
    assert_eq!(outcomes[0]["cordoned"], false);
}

#[test]
fn what_cannot_be_drained_or_explained_is_told_in_a_sentence() {
    let cluster = Cluster::start();
    let told = |line: &str, code: i32, sentence: &str| {
        let output = cluster.drover(line);
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert!(text(&output.stderr).contains(sentence), "{line}: {}", text(&output.stderr));
    };
    told("drain node-9", 1, "cannot drain Node node-9: cannot cordon Node node-9: nodes \"node-9\" not found");
    told("drain -l pool=none", 1, "no node has the labels pool=none");
    told("drain node-1 -l pool=a", 2, "name nodes or select them with --selector, not both");
    told("drain node-1 --timeout soon", 2, "not a duration such as 30s or 1h30m");
    told("why plan/default/none", 1, "there is no Plan default/none");
    told(
        "why service/default/web",
        2,
        "cannot explain service/default/web: give upgrade/NAME, plan/NAMESPACE/NAME, tkc/NAMESPACE/NAME, \
         cluster/NAMESPACE/NAME, machine/NAMESPACE/NAME, node/NAME",
    );
    told("status node/node-1", 2, "cannot tell the status of Node/node-1: give plan/NAMESPACE/NAME");
}

#[test]
fn a_plan_that_nobody_drives_is_explained_as_such() {
    let cluster = Cluster::start();
    let why = cluster.drover("why plan/default/up");
    assert!(text(&why.stdout).starts_with("Plan/default/up: "), "{}", text(&why.stderr));
    assert!(text(&why.stdout).contains("driven by nobody"), "{}", text(&why.stdout));
    let all = cluster.drover("why --all -o json");
    let all: serde_json::Value = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!((&all[0]["object"]["kind"], &all[0]["object"]["name"]), (&"Plan".into(), &"up".into()));
}
