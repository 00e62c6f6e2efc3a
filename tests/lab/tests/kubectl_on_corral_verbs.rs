//! kubectl as a client of the embedded cluster, verb by verb.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::{Served, serve};
use drover_corral::world::World;
use drover_lab::Binaries;
use drover_sim::Scenario;
use tokio::task::JoinHandle;

/// An embedded cluster with three nodes, and the lab's kubectl for it.
struct Cluster {
    program: PathBuf,
    dir: tempfile::TempDir,
    world: JoinHandle<()>,
    _served: Served,
}

impl Cluster {
    async fn up() -> Result<Self> {
        let options = Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 10_000 };
        let server = ApiServer::new(options);
        let scenario = Scenario::default();
        scenario.set_up_cluster(&server).map_err(|status| anyhow::anyhow!("{}", status.message))?;
        let running = server.clone();
        let world_of = scenario.world();
        let world = tokio::spawn(async move {
            World::run(running, world_of).await;
        });
        let served = serve(server, ([127, 0, 0, 1], 0).into()).await?;
        let dir = tempfile::tempdir()?;
        served.write_kubeconfig(&dir.path().join("kubeconfig"))?;
        let program = Binaries::ensure()?.dir().join("kubectl");
        Ok(Cluster { program, dir, world, _served: served })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(self.dir.path().join("kubeconfig")).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What kubectl prints; an error if it fails.
    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_on(arguments, "")
    }

    fn kubectl_on(&self, arguments: &[&str], input: &str) -> Result<String> {
        let (code, out, err) = self.outcome(arguments, input)?;
        if code != 0 {
            bail!("kubectl {} ended with {code}: {err}", arguments.join(" "));
        }
        Ok(out)
    }

    fn outcome(&self, arguments: &[&str], input: &str) -> Result<(i32, String, String)> {
        let mut child = self.command(arguments).spawn()?;
        child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr)))
    }

    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.world.abort();
    }
}

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: red}}";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: 'web:v1', env: [{ name: COLOUR, value: red }] }] }
";

const LINGERING: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: lingering, finalizers: [example.com/hold]}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_creates_built_in_kinds_by_name_which_it_sends_in_protobuf() -> Result<()> {
    let cluster = Cluster::up().await?;
    tokio::task::block_in_place(|| {
        cluster.kubectl(&["create", "namespace", "shop"])?;
        cluster.kubectl(&["-n", "shop", "create", "configmap", "settings", "--from-literal=colour=red"])?;
        cluster.kubectl(&["-n", "shop", "create", "secret", "generic", "key", "--from-literal=word=hush"])?;
        cluster.kubectl(&["-n", "shop", "create", "serviceaccount", "robot"])?;
        let colour = cluster.kubectl(&["-n", "shop", "get", "cm", "settings", "-o", "jsonpath={.data.colour}"])?;
        ensure!(colour == "red", "{colour}");
        let word = cluster.kubectl(&["-n", "shop", "get", "secret", "key", "-o", "jsonpath={.data.word}"])?;
        ensure!(word == "aHVzaA==", "{word}");
        let again = cluster.kubectl(&["create", "namespace", "shop"]).unwrap_err().to_string();
        ensure!(again.contains("namespaces \"shop\" already exists"), "{again}");
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_reads_in_every_form_and_changes_in_every_way() -> Result<()> {
    let cluster = Cluster::up().await?;
    tokio::task::block_in_place(|| {
        let table = cluster.kubectl(&["get", "nodes"])?;
        ensure!(table.starts_with("NAME     STATUS"), "{table}");
        ensure!(cluster.kubectl(&["get", "nodes", "-o", "wide"])?.contains("INTERNAL-IP"));
        ensure!(cluster.kubectl(&["get", "nodes", "--chunk-size=1", "-o", "name"])?.lines().count() == 3);
        ensure!(cluster.kubectl(&["get", "node", "node-1", "-o", "yaml"])?.contains("kind: Node"));
        let columns = cluster.kubectl(&["get", "nodes", "-o", "custom-columns=N:.metadata.name"])?;
        ensure!(columns.starts_with("N\nnode-1"), "{columns}");

        cluster.kubectl_on(&["create", "-f", "-"], CONFIG_MAP)?;
        let manifest = cluster.write("settings.yaml", &CONFIG_MAP.replace("red", "blue"))?;
        let (code, diff, _) = cluster.outcome(&["diff", "-f", &manifest], "")?;
        ensure!(code == 1 && diff.contains("+  colour: blue"), "{code} {diff}");
        cluster.kubectl(&["apply", "-f", &manifest])?;
        cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &manifest])?;
        cluster.kubectl(&["patch", "cm", "settings", "-p", r#"{"data":{"shape":"round"}}"#])?;
        cluster.kubectl(&["label", "cm", "settings", "kind=test"])?;
        cluster.kubectl(&["annotate", "cm", "settings", "note=here"])?;
        let editor = cluster.write("edit.sh", "#!/bin/sh\nsed -i s/blue/green/ \"$1\"\n")?;
        let mut edit = cluster.command(&["edit", "cm", "settings"]);
        let edited = edit.env("KUBE_EDITOR", format!("sh {editor}")).output()?;
        ensure!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
        let data = cluster.kubectl(&["get", "cm", "settings", "-o", "jsonpath={.data}"])?;
        ensure!(data == r#"{"colour":"green","shape":"round"}"#, "{data}");
        cluster.kubectl(&["replace", "-f", &manifest])?;
        cluster.kubectl(&["taint", "node", "node-1", "a=b:NoSchedule"])?;
        cluster.kubectl(&["taint", "node", "node-1", "a=b:NoSchedule-"])?;
        ensure!(cluster.kubectl(&["describe", "node", "node-1"])?.contains("Name:               node-1"));
        ensure!(cluster.kubectl(&["auth", "can-i", "create", "pods"])? == "yes\n");
        ensure!(cluster.kubectl(&["api-resources"])?.contains("configmaps"));
        ensure!(cluster.kubectl(&["explain", "pod.spec.containers"])?.contains("FIELD: containers"));
        cluster.kubectl(&["events"])?;
        cluster.kubectl(&["delete", "cm", "settings"])?;
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_waits_for_an_object_whose_finalizer_is_taken_away() -> Result<()> {
    let cluster = Cluster::up().await?;
    tokio::task::block_in_place(|| {
        cluster.kubectl_on(&["create", "-f", "-"], LINGERING)?;
        let (code, _, err) = cluster.outcome(&["delete", "cm", "lingering", "--wait", "--timeout=2s"], "")?;
        ensure!(code == 1 && err.contains("timed out"), "{code} {err}");
        let deleting = cluster.command(&["delete", "cm", "lingering", "--wait", "--timeout=60s"]).spawn()?;
        cluster.kubectl(&["patch", "cm", "lingering", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#])?;
        let deleted = deleting.wait_with_output()?;
        ensure!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
        let mut watching = cluster.command(&["get", "cm", "-w", "-o", "name"]).spawn()?;
        cluster.kubectl_on(&["create", "-f", "-"], CONFIG_MAP)?;
        let mut line = String::new();
        BufReader::new(watching.stdout.take().context("no output")?).read_line(&mut line)?;
        watching.kill()?;
        watching.wait()?;
        ensure!(line == "configmap/settings\n", "{line}");
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_rolls_out_scales_enters_and_drains() -> Result<()> {
    let cluster = Cluster::up().await?;
    tokio::task::block_in_place(|| {
        cluster.kubectl_on(&["apply", "-f", "-"], DEPLOYMENT)?;
        cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
        cluster.kubectl(&["scale", "deployment/web", "--replicas=3"])?;
        cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
        cluster.kubectl(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"])?;
        ensure!(cluster.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"])?.lines().count() == 3);
        cluster.kubectl(&["logs", "deployment/web"])?;

        ensure!(cluster.kubectl(&["exec", "deployment/web", "--", "echo", "hello"])? == "hello\n");
        ensure!(cluster.kubectl(&["exec", "deployment/web", "--", "printenv", "COLOUR"])? == "red\n");
        ensure!(cluster.kubectl_on(&["exec", "-i", "deployment/web", "--", "cat"], "typed\n")? == "typed\n");
        let (code, _, err) = cluster.outcome(&["exec", "deployment/web", "--", "vim"], "")?;
        ensure!(code == 127 && err.contains("sh: vim: not found"), "{code} {err}");
        let (code, _, _) = cluster.outcome(&["exec", "deployment/web", "--", "sh", "-c", "exit 3"], "")?;
        ensure!(code == 3, "{code}");

        cluster.kubectl(&["drain", "node-1", "--ignore-daemonsets", "--force", "--timeout=120s"])?;
        let left = cluster.kubectl(&["get", "pods", "--field-selector", "spec.nodeName=node-1", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        cluster.kubectl(&["uncordon", "node-1"])?;
        cluster.kubectl(&["rollout", "restart", "deployment/web"])?;
        cluster.kubectl(&["delete", "deployment", "web", "--wait", "--timeout=60s"])?;
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_forwards_a_port_to_a_page_of_the_pod() -> Result<()> {
    let cluster = Cluster::up().await?;
    tokio::task::block_in_place(|| {
        cluster.kubectl_on(&["apply", "-f", "-"], DEPLOYMENT)?;
        cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
        let mut forwarding = cluster.command(&["port-forward", "deployment/web", ":8080"]).spawn()?;
        let mut line = String::new();
        // Kept open: kubectl says more later, and would end if nobody could hear it.
        let mut said = BufReader::new(forwarding.stdout.take().context("no output")?);
        said.read_line(&mut line)?;
        // Forwarding from 127.0.0.1:41234 -> 8080
        let address = line.split_whitespace().nth(2).context("no address")?.to_owned();
        let mut stream = TcpStream::connect(&address).with_context(|| line.clone())?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut page = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.read_to_string(&mut page)?;
        forwarding.kill()?;
        forwarding.wait()?;
        ensure!(page.starts_with("HTTP/1.1 200 OK") && page.contains("web-"), "{page}");
        Ok(())
    })
}
