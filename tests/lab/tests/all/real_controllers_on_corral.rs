//! The real kube-controller-manager and kube-scheduler work on the embedded cluster as on any other.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::serve;
use drover_corral::world::{Part, World, WorldOptions};
use drover_lab::{Binaries, Controllers};
use drover_sim::Scenario;

/// Of the world only the kubelets run: who else acts is real.
const OBJECTS: &str = "
apiVersion: v1
kind: List
items:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: { name: web, namespace: default }
    spec:
      replicas: 3
      selector: { matchLabels: { app: web } }
      template:
        metadata: { labels: { app: web } }
        spec: { containers: [{ name: main, image: 'web:v1' }] }
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: { name: db, namespace: default }
    spec:
      replicas: 2
      serviceName: db
      selector: { matchLabels: { app: db } }
      template:
        metadata: { labels: { app: db } }
        spec: { containers: [{ name: main, image: 'db:v1' }] }
  - apiVersion: batch/v1
    kind: Job
    metadata: { name: hello, namespace: default }
    spec:
      template:
        metadata: { annotations: { corral.drover.dev/duration: 1s } }
        spec: { restartPolicy: Never, containers: [{ name: main, image: hello }] }
  - apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: { name: web, namespace: default }
    spec: { minAvailable: 2, selector: { matchLabels: { app: web } } }
";

struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_on(arguments, "")
    }

    fn run_on(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until something is so: pods that are on their way out are listed for a while.
    fn until(&self, what: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        for _ in 0..120 {
            if is_so(self)? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        bail!("waited a minute in vain until {what}")
    }

    /// The nodes on which pods of an app run.
    fn nodes_of(&self, app: &str) -> Result<Vec<String>> {
        let path = "jsonpath={.items[*].spec.nodeName}";
        let selector = format!("app={app}");
        let nodes = self.run(&["get", "pods", "-l", &selector, "-o", path])?;
        Ok(nodes.split_whitespace().map(String::from).collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn a_deployment_a_stateful_set_a_job_and_a_drain_complete() -> Result<()> {
    let server =
        ApiServer::new(Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 10_000 });
    let scenario = Scenario::default();
    scenario.set_up_cluster(&server).map_err(|status| anyhow::anyhow!("{}", status.message))?;
    let kubelets = WorldOptions { parts: BTreeSet::from([Part::Kubelets]), ..scenario.world() };
    let world = tokio::spawn(World::run(server.clone(), kubelets));
    let served = serve(server, ([127, 0, 0, 1], 0).into()).await?;
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    served.write_kubeconfig(&kubeconfig)?;
    let kubectl = Kubectl { program: Binaries::ensure()?.dir().join("kubectl"), kubeconfig: kubeconfig.clone() };

    tokio::task::block_in_place(|| -> Result<()> {
        let _controllers = Controllers::start(&kubeconfig, Duration::from_secs(60))?;
        // The controllers are what is tried here, not how kubectl checks what it sends.
        kubectl.run_on(&["apply", "--validate=false", "-f", "-"], OBJECTS)?;
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
        kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=60s"])?;
        kubectl.run(&["wait", "--for=condition=Complete", "job/hello", "--timeout=60s"])?;

        kubectl.run(&["set", "image", "deployment/web", "main=web:v2"])?;
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
        kubectl.until("only pods of the new version are left", |kubectl| {
            let images = "jsonpath={.items[*].spec.containers[*].image}";
            Ok(kubectl.run(&["get", "pods", "-l", "app=web", "-o", images])? == "web:v2 web:v2 web:v2")
        })?;

        let node = kubectl.nodes_of("web")?.first().cloned().context("no pod of the Deployment runs anywhere")?;
        kubectl.run(&["drain", &node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"])?;
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
        kubectl.until("three pods run, on other nodes than the drained one", |kubectl| {
            let nodes = kubectl.nodes_of("web")?;
            Ok(nodes.len() == 3 && !nodes.contains(&node))
        })
    })?;
    world.abort();
    Ok(())
}
