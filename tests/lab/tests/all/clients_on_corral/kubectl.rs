//! kubectl as a client of the embedded cluster, verb by verb: the oldest, the lab's own and the newest that it builds.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use drover_sim::Scenario;

use super::with_every_kubectl;

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: { name: hello, namespace: default }
spec:
  template:
    metadata: { annotations: { corral.drover.dev/duration: 1s } }
    spec: { restartPolicy: Never, containers: [{ name: hello, image: busybox }] }
"#;

// Older clients take a text that begins with a brace for JSON.
const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
data: { colour: red }
";

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

const LINGERING: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: lingering, finalizers: [example.com/hold] }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_creates_built_in_kinds_by_name_which_it_sends_in_protobuf() -> Result<()> {
    with_every_kubectl(async |cluster| {
        cluster.run(&["create", "namespace", "shop"])?;
        cluster.run(&["-n", "shop", "create", "configmap", "settings", "--from-literal=colour=red"])?;
        cluster.run(&["-n", "shop", "create", "secret", "generic", "key", "--from-literal=word=hush"])?;
        cluster.run(&["-n", "shop", "create", "serviceaccount", "robot"])?;
        let colour = cluster.run(&["-n", "shop", "get", "cm", "settings", "-o", "jsonpath={.data.colour}"])?;
        ensure!(colour == "red", "{colour}");
        let word = cluster.run(&["-n", "shop", "get", "secret", "key", "-o", "jsonpath={.data.word}"])?;
        ensure!(word == "aHVzaA==", "{word}");
        let again = cluster.run(&["create", "namespace", "shop"]).unwrap_err().to_string();
        ensure!(again.contains("namespaces \"shop\" already exists"), "{again}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_reads_in_every_form_and_changes_in_every_way() -> Result<()> {
    with_every_kubectl(async |cluster| {
        let table = cluster.run(&["get", "nodes"])?;
        ensure!(table.starts_with("NAME     STATUS"), "{table}");
        ensure!(cluster.run(&["get", "nodes", "-o", "wide"])?.contains("INTERNAL-IP"));
        ensure!(cluster.run(&["get", "nodes", "--chunk-size=1", "-o", "name"])?.lines().count() == 3);
        ensure!(cluster.run(&["get", "node", "node-1", "-o", "yaml"])?.contains("kind: Node"));
        let columns = cluster.run(&["get", "nodes", "-o", "custom-columns=N:.metadata.name"])?;
        ensure!(columns.starts_with("N\nnode-1"), "{columns}");

        cluster.run_on(&["create", "-f", "-"], CONFIG_MAP)?;
        let manifest = cluster.write("settings.yaml", &CONFIG_MAP.replace("red", "blue"))?;
        let (code, diff, _) = cluster.outcome(&["diff", "-f", &manifest], "")?;
        ensure!(code == 1 && diff.contains("+  colour: blue"), "{code} {diff}");
        cluster.run(&["apply", "-f", &manifest])?;
        cluster.run(&["apply", "--server-side", "--force-conflicts", "-f", &manifest])?;
        cluster.run(&["patch", "cm", "settings", "-p", r#"{"data":{"shape":"round"}}"#])?;
        cluster.run(&["label", "cm", "settings", "kind=test"])?;
        cluster.run(&["annotate", "cm", "settings", "note=here"])?;
        let editor = cluster.write("edit.sh", "#!/bin/sh\nsed -i s/blue/green/ \"$1\"\n")?;
        let mut edit = cluster.command(&["edit", "cm", "settings"]);
        let edited = edit.env("KUBE_EDITOR", format!("sh {editor}")).output()?;
        ensure!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
        let data = cluster.run(&["get", "cm", "settings", "-o", "jsonpath={.data}"])?;
        ensure!(data == r#"{"colour":"green","shape":"round"}"#, "{data}");
        cluster.run(&["replace", "-f", &manifest])?;
        cluster.run(&["taint", "node", "node-1", "a=b:NoSchedule"])?;
        cluster.run(&["taint", "node", "node-1", "a=b:NoSchedule-"])?;
        ensure!(cluster.run(&["describe", "node", "node-1"])?.contains("Name:               node-1"));
        ensure!(cluster.run(&["auth", "can-i", "create", "pods"])? == "yes\n");
        ensure!(cluster.run(&["api-resources"])?.contains("configmaps"));
        ensure!(cluster.run(&["explain", "pod.spec.containers"])?.contains("FIELD: containers"));
        cluster.run(&["events"])?;
        cluster.run(&["delete", "cm", "settings"])?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_waits_for_an_object_whose_finalizer_is_taken_away() -> Result<()> {
    with_every_kubectl(async |cluster| {
        cluster.run_on(&["create", "-f", "-"], LINGERING)?;
        let (code, _, err) = cluster.outcome(&["delete", "cm", "lingering", "--wait", "--timeout=2s"], "")?;
        ensure!(code == 1 && err.contains("timed out"), "{code} {err}");
        let mut deleting = cluster.command(&["delete", "cm", "lingering", "--wait", "--timeout=60s"]).spawn()?;
        // It says that it has asked before it waits: only then may the finalizer go.
        let mut said = String::new();
        let mut telling = BufReader::new(deleting.stdout.take().context("no output")?);
        telling.read_line(&mut said)?;
        cluster.run(&["patch", "cm", "lingering", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#])?;
        let deleted = deleting.wait_with_output()?;
        ensure!(deleted.status.success(), "{said}{}", String::from_utf8_lossy(&deleted.stderr));
        let mut watching = cluster.command(&["get", "cm", "-w", "-o", "name"]).spawn()?;
        cluster.run_on(&["create", "-f", "-"], CONFIG_MAP)?;
        let mut line = String::new();
        BufReader::new(watching.stdout.take().context("no output")?).read_line(&mut line)?;
        watching.kill()?;
        watching.wait()?;
        ensure!(line == "configmap/settings\n", "{line}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_rolls_out_scales_enters_and_drains() -> Result<()> {
    with_every_kubectl(async |cluster| {
        cluster.run_on(&["apply", "-f", "-"], DEPLOYMENT)?;
        cluster.run(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
        cluster.run(&["scale", "deployment/web", "--replicas=3"])?;
        cluster.run(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
        cluster.run(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"])?;
        ensure!(cluster.run(&["get", "pods", "-l", "app=web", "-o", "name"])?.lines().count() == 3);
        cluster.run(&["logs", "deployment/web"])?;

        ensure!(cluster.run(&["exec", "deployment/web", "--", "echo", "hello"])? == "hello\n");
        ensure!(cluster.run(&["exec", "deployment/web", "--", "printenv", "COLOUR"])? == "red\n");
        ensure!(cluster.run_on(&["exec", "-i", "deployment/web", "--", "cat"], "typed\n")? == "typed\n");
        let (code, _, err) = cluster.outcome(&["exec", "deployment/web", "--", "vim"], "")?;
        ensure!(code == 127 && err.contains("sh: vim: not found"), "{code} {err}");
        let (code, _, _) = cluster.outcome(&["exec", "deployment/web", "--", "sh", "-c", "exit 3"], "")?;
        ensure!(code == 3, "{code}");

        cluster.run(&["drain", "node-1", "--ignore-daemonsets", "--force", "--timeout=120s"])?;
        let left = cluster.run(&["get", "pods", "--field-selector", "spec.nodeName=node-1", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        cluster.run(&["uncordon", "node-1"])?;
        cluster.run(&["rollout", "restart", "deployment/web"])?;
        cluster.run(&["delete", "deployment", "web", "--wait", "--timeout=60s"])?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_forwards_a_port_to_a_page_of_the_pod() -> Result<()> {
    with_every_kubectl(async |cluster| {
        cluster.run_on(&["apply", "-f", "-"], DEPLOYMENT)?;
        cluster.run(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
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
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn kubectl_cordons_runs_a_job_and_writes_plans() -> Result<()> {
    with_every_kubectl(async |cluster| {
        let nodes = cluster.run(&["get", "nodes", "-o", "name"])?;
        ensure!(nodes == "node/node-1\nnode/node-2\nnode/node-3\n", "{nodes}");
        cluster.run(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=30s"])?;

        cluster.run(&["cordon", "node-1"])?;
        cluster.run(&["label", "node", "node-1", "pool=a"])?;
        cluster.run(&["annotate", "node", "node-1", "note=here"])?;
        let node = cluster.run(&["get", "nodes", "-l", "pool=a", "-o", "jsonpath={.items[*].spec.unschedulable}"])?;
        ensure!(node == "true", "{node}");
        cluster.run(&["uncordon", "node-1"])?;

        cluster.run_on(&["apply", "-f", "-"], JOB)?;
        cluster.run(&["wait", "--for=condition=Complete", "job/hello", "--timeout=60s"])?;
        ensure!(!cluster.run(&["logs", "job/hello"])?.is_empty(), "the Job has no log");
        cluster.run(&["describe", "job", "hello"])?;
        cluster.run(&["delete", "job", "hello", "--wait", "--timeout=30s"])?;
        let pods = cluster.run(&["get", "pods", "-o", "name"])?;
        ensure!(pods.is_empty(), "pods are left: {pods}");

        cluster.run_on(&["apply", "-f", "-"], &plan().to_string())?;
        let patch = r#"{"spec":{"concurrency":2}}"#;
        cluster.run(&["-n", "system-upgrade", "patch", "plan", "upgrade", "--type=merge", "-p", patch])?;
        let mut wrong = plan();
        wrong["metadata"]["name"] = serde_json::json!("wrong");
        wrong["spec"]["window"] = serde_json::json!({ "days": ["never"] });
        let refused = cluster.run_on(&["create", "-f", "-"], &wrong.to_string());
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(refused.contains("invalid: spec.window.days"), "{refused}");
        cluster.run(&["-n", "system-upgrade", "delete", "plan", "upgrade"])?;
        Ok(())
    })
    .await
}

fn plan() -> serde_json::Value {
    Scenario::default().plan()
}
