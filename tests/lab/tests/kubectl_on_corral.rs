//! The real kubectl against the embedded cluster.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::serve;
use drover_corral::world::World;
use drover_lab::Binaries;
use drover_sim::Scenario;

/// Runs the lab's kubectl with a kubeconfig of Corral's.
struct Kubectl {
    program: std::path::PathBuf,
    kubeconfig: std::path::PathBuf,
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
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("kubectl {} failed: {err}", arguments.join(" "));
        }
        Ok(out.into_owned())
    }
}

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: { name: hello, namespace: default }
spec:
  template:
    metadata: { annotations: { corral.drover.dev/duration: 1s } }
    spec: { restartPolicy: Never, containers: [{ name: hello, image: busybox }] }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_reads_changes_waits_and_deletes() -> Result<()> {
    let clock = Clock::real();
    let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 10_000 });
    let scenario = Scenario::default();
    scenario.set_up_cluster(&server).map_err(|status| anyhow::anyhow!("{}", status.message))?;
    let world = tokio::spawn(World::run(server.clone(), scenario.world()));
    let served = serve(server, ([127, 0, 0, 1], 0).into()).await?;
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    served.write_kubeconfig(&kubeconfig)?;
    let kubectl = Kubectl { program: Binaries::ensure()?.dir().join("kubectl"), kubeconfig };

    tokio::task::block_in_place(|| -> Result<()> {
        let nodes = kubectl.run(&["get", "nodes", "-o", "name"])?;
        ensure!(nodes == "node/node-1\nnode/node-2\nnode/node-3\n", "{nodes}");
        kubectl.run(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=30s"])?;

        kubectl.run(&["cordon", "node-1"])?;
        kubectl.run(&["label", "node", "node-1", "pool=a"])?;
        kubectl.run(&["annotate", "node", "node-1", "note=here"])?;
        let node = kubectl.run(&["get", "nodes", "-l", "pool=a", "-o", "jsonpath={.items[*].spec.unschedulable}"])?;
        ensure!(node == "true", "{node}");
        kubectl.run(&["uncordon", "node-1"])?;

        kubectl.run_on(&["apply", "-f", "-"], JOB)?;
        kubectl.run(&["wait", "--for=condition=Complete", "job/hello", "--timeout=60s"])?;
        ensure!(!kubectl.run(&["logs", "job/hello"])?.is_empty(), "the Job has no log");
        kubectl.run(&["describe", "job", "hello"])?;
        kubectl.run(&["delete", "job", "hello", "--wait", "--timeout=30s"])?;
        let pods = kubectl.run(&["get", "pods", "-o", "name"])?;
        ensure!(pods.is_empty(), "pods are left: {pods}");

        kubectl.run_on(&["apply", "-f", "-"], &scenario.plan().to_string())?;
        let patch = r#"{"spec":{"concurrency":2}}"#;
        kubectl.run(&["-n", "system-upgrade", "patch", "plan", "upgrade", "--type=merge", "-p", patch])?;
        let mut wrong = scenario.plan();
        wrong["metadata"]["name"] = serde_json::json!("wrong");
        wrong["spec"]["window"] = serde_json::json!({ "days": ["never"] });
        let refused = kubectl.run_on(&["create", "-f", "-"], &wrong.to_string());
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(refused.contains("invalid: spec.window.days"), "{refused}");
        kubectl.run(&["-n", "system-upgrade", "delete", "plan", "upgrade"])?;
        Ok(())
    })?;
    world.abort();
    Ok(())
}
