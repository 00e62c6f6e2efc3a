//! Plans on a real control plane with KWOK nodes: the scenario that the simulation runs, the cases that users know, and
//! operators that are killed, doubled and frozen.

mod cases;
mod faults;
#[path = "../../../../../crates/operator/tests/all/cases/play.rs"]
mod play;
#[path = "../../../../../crates/operator/tests/all/cases/table.rs"]
#[allow(clippy::unwrap_used, dead_code, reason = "it is another test's, and part of it is only read there")]
mod table;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use drover_clock::Clock;
use drover_lab::{Lab, LabOptions};
use drover_operator::{Connection, Operator, OperatorOptions, connect};
use drover_sim::Scenario;
use drover_sim::known::Known;
use drover_sim::scenario::{NAMESPACE, PLAN};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(120);

/// A lab with the scenario's nodes, its Plan not yet made.
fn lab_for(scenario: &Scenario) -> Result<Lab> {
    let lab = Lab::up(&LabOptions { kwok: true, ..LabOptions::default() })?;
    let names = scenario.node_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    lab.add_kwok_nodes(&names, &[("kubernetes.io/os", "linux")])?;
    for node in &scenario.cordoned {
        lab.kubectl(&["cordon", node])?;
    }
    install_plans(&lab)?;
    Ok(lab)
}

/// The definition of Plan, and the namespace that Plans are in.
fn install_plans(lab: &Lab) -> Result<()> {
    lab.kubectl(&["create", "namespace", NAMESPACE])?;
    let crds = drover_api::crds::of(drover_api::crds::Controller::Plan);
    lab.define(&json!({ "apiVersion": "v1", "kind": "List", "items": crds }).to_string())?;
    Ok(())
}

pub(crate) fn get(lab: &Lab, what: &[&str]) -> Result<Value> {
    let text = lab.kubectl(&[&["get", "-o", "json"], what].concat())?;
    serde_json::from_str(&text).context("kubectl's answer is no JSON")
}

fn plan(lab: &Lab, name: &str) -> Result<Value> {
    get(lab, &["-n", NAMESPACE, "plans.upgrade.cattle.io", name])
}

fn unmet(lab: &Lab, scenario: &Scenario) -> Result<Vec<String>> {
    let mut items = get(lab, &["nodes"])?["items"].as_array().cloned().unwrap_or_default();
    items.push(plan(lab, PLAN)?);
    Ok(scenario.unmet(&Known::of_list(&json!({ "items": items })), &scenario.cordoned))
}

/// Starts an operator on the runtime of the test.
async fn operator(kubeconfig: &Path, identity: &str) -> Result<JoinHandle<()>> {
    let connection = Connection { kubeconfig: Some(kubeconfig.to_owned()), context: None, server: None };
    let client = connect(&connection).await?;
    let mut options = OperatorOptions::new(NAMESPACE, identity, Clock::real());
    // Shorter than in production, so that a takeover does not make up most of the test.
    options.election.lease_duration = Duration::from_secs(6);
    options.election.renew_deadline = Duration::from_secs(4);
    options.election.retry_period = Duration::from_millis(500);
    Ok(tokio::spawn(Operator::new(client, options).run(std::future::pending())))
}

pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_so()? {
        if started.elapsed() > PATIENCE {
            bail!("waited {} s in vain until {what}", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

pub(crate) fn condition<'a>(plan: &'a Value, kind: &str) -> &'a Value {
    let conditions = plan["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn a_plan_upgrades_three_nodes_one_at_a_time() -> Result<()> {
    let scenario = Scenario { cordoned: ["node-2".to_owned()].into(), ..Scenario::default() };
    let lab = lab_for(&scenario)?;
    let operator = operator(lab.kubeconfig(), "operator-1").await?;
    lab.kubectl_apply(&scenario.plan().to_string())?;

    let mut most_out = 0;
    until("the upgrade has ended", || {
        let nodes = get(&lab, &["nodes", "-l", "drover.dev/claim"])?;
        most_out = most_out.max(nodes["items"].as_array().map_or(0, Vec::len));
        Ok(unmet(&lab, &scenario)?.is_empty())
    })
    .await?;
    ensure!(most_out == 1, "{most_out} nodes were out at once, one was to be seen");

    let jobs = get(&lab, &["-n", NAMESPACE, "jobs"])?;
    let jobs = jobs["items"].as_array().cloned().unwrap_or_default();
    ensure!(jobs.len() == 3 && jobs.iter().all(|job| job["status"]["succeeded"] == 1), "{jobs:#?}");
    let events = lab.kubectl(&["-n", NAMESPACE, "get", "events", "-o", "jsonpath={.items[*].reason}"])?;
    for reason in ["Validated", "Resolved", "SyncJob", "JobComplete", "Complete"] {
        ensure!(events.contains(reason), "no Event says {reason}: {events}");
    }
    let columns = lab.kubectl(&["-n", NAMESPACE, "get", "plans.upgrade.cattle.io", PLAN])?;
    ensure!(columns.contains("COMPLETE") && columns.contains("True"), "{columns}");
    operator.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn operators_that_die_and_a_server_that_goes_away_cost_time_and_nothing_else() -> Result<()> {
    let scenario = Scenario { nodes: 5, concurrency: 2, ..Scenario::default() };
    let mut lab = lab_for(&scenario)?;
    lab.kubectl_apply(&scenario.plan().to_string())?;
    let mut current = operator(lab.kubeconfig(), "operator-1").await?;
    for number in 2..=3 {
        until("a node is taken", || {
            Ok(!get(&lab, &["nodes", "-l", "drover.dev/claim"])?["items"].as_array().is_none_or(Vec::is_empty))
        })
        .await?;
        current.abort();
        current = operator(lab.kubeconfig(), &format!("operator-{number}")).await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    lab.stop_apiserver()?;
    // Longer than a Lease lasts.
    tokio::time::sleep(Duration::from_secs(8)).await;
    lab.start_apiserver()?;
    until("the upgrade has ended", || Ok(unmet(&lab, &scenario)?.is_empty())).await?;

    let pods = get(&lab, &["-n", NAMESPACE, "pods"])?;
    ensure!(pods["items"].as_array().is_some_and(|pods| pods.len() == 5), "an upgrade ran twice: {pods:#}");
    current.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn bad_plans_say_what_is_wrong_and_the_good_one_goes_on() -> Result<()> {
    let scenario = Scenario::default();
    let lab = lab_for(&scenario)?;
    let operator = operator(lab.kubeconfig(), "operator-1").await?;

    let mut missing_secret = scenario.plan();
    missing_secret["metadata"]["name"] = json!("missing-secret");
    missing_secret["spec"]["secrets"] = json!([{ "name": "ca", "path": "/ca" }]);
    let mut no_delay = scenario.plan();
    no_delay["metadata"]["name"] = json!("no-delay");
    no_delay["spec"]["postCompleteDelay"] = json!("5 minutes");
    for bad in [&missing_secret, &no_delay] {
        lab.kubectl_apply(&bad.to_string())?;
    }
    let mut no_image = scenario.plan();
    no_image["spec"]["upgrade"] = json!({});
    let refused = lab.kubectl_apply(&no_image.to_string());
    ensure!(refused.is_err(), "a Plan without an image was accepted");
    lab.kubectl_apply(&scenario.plan().to_string())?;

    until("the good Plan has ended", || Ok(unmet(&lab, &scenario)?.is_empty())).await?;
    let missing = plan(&lab, "missing-secret")?;
    ensure!(condition(&missing, "Validated")["message"] == "secrets \"ca\" not found", "{missing:#}");
    let delayed = plan(&lab, "no-delay")?;
    ensure!(condition(&delayed, "Validated")["status"] == "False", "{delayed:#}");

    lab.kubectl(&["-n", NAMESPACE, "create", "secret", "generic", "ca", "--from-literal=ca=x"])?;
    until("the Secret is noticed", || Ok(condition(&plan(&lab, "missing-secret")?, "Validated")["status"] == "True"))
        .await?;
    operator.abort();
    Ok(())
}

/// May do all that it needs, except see Nodes.
const BLIND_TO_NODES: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: blind }
rules:
- { apiGroups: [upgrade.cattle.io], resources: [plans, plans/status], verbs: ["*"] }
- { apiGroups: [batch], resources: [jobs], verbs: ["*"] }
- { apiGroups: [""], resources: [secrets, events], verbs: ["*"] }
- { apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: blind }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: blind }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: blind }]
"#;

/// As system-upgrade-controller's own role: Nodes may be updated, but not patched.
const UPDATES_ONLY: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: nodes }
rules:
- { apiGroups: [""], resources: [nodes], verbs: [get, list, watch, update] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: nodes }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: blind }]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn a_missing_right_is_named_in_the_plan_and_its_grant_lets_it_go_on() -> Result<()> {
    let scenario = Scenario::default();
    let lab = lab_for(&scenario)?;
    lab.kubectl_apply(BLIND_TO_NODES)?;
    lab.kubectl_apply(&scenario.plan().to_string())?;
    let operator = operator(&lab.kubeconfig_for("blind", None)?, "operator-1").await?;

    until("the Plan names the missing right", || {
        let plan = plan(&lab, PLAN)?;
        let progressing = condition(&plan, "Progressing");
        Ok(progressing["reason"] == "NoPermission"
            && progressing["message"].as_str().is_some_and(|text| text.contains("cannot watch nodes")))
    })
    .await?;
    lab.kubectl_apply(UPDATES_ONLY)?;
    until("the upgrade has ended", || Ok(unmet(&lab, &scenario)?.is_empty())).await?;
    operator.abort();
    Ok(())
}

/// The parts of system-upgrade-controller's own Deployment that decide whether another can take its place.
const ORIGINAL: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: { name: default-controller-env, namespace: system-upgrade }
data: { SYSTEM_UPGRADE_JOB_BACKOFF_LIMIT: "99", SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE: "rancher/kubectl:v1.30.3" }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: system-upgrade-controller, namespace: system-upgrade }
spec:
  selector: { matchLabels: { upgrade.cattle.io/controller: system-upgrade-controller } }
  template:
    metadata: { labels: { upgrade.cattle.io/controller: system-upgrade-controller } }
    spec:
      serviceAccountName: system-upgrade
      containers:
      - name: system-upgrade-controller
        image: rancher/system-upgrade-controller:v0.20.1
        envFrom: [{ configMapRef: { name: default-controller-env } }]
        volumeMounts: [{ name: etc-ssl, mountPath: /etc/ssl, readOnly: true }]
      volumes: [{ name: etc-ssl, hostPath: { path: /etc/ssl, type: DirectoryOrCreate } }]
"#;

#[test]
#[ignore = "needs the lab: make test-real"]
fn the_manifests_take_the_place_of_the_originals_deployment_and_give_it_back() -> Result<()> {
    let lab = Lab::up(&LabOptions { kwok: true, ..LabOptions::default() })?;
    lab.add_kwok_nodes(&["node-1"], &[])?;
    let image = || {
        let path = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
        lab.kubectl(&["-n", NAMESPACE, "get", "deployments", "-o", path])
    };
    let runs = || {
        let deployment = "deployment/system-upgrade-controller";
        lab.kubectl(&["-n", NAMESPACE, "rollout", "status", deployment, "--timeout=60s"]).map(drop)
    };
    let applied = |path: &str| lab.kubectl(&["apply", "-f", path]);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    let (rights, operator) = (format!("{root}/rights.yaml"), format!("{root}/operator.yaml"));
    // The server knows every field that they name.
    applied(&rights)?;
    for manifest in [&rights, &operator] {
        lab.kubectl(&["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", manifest])?;
    }

    lab.kubectl_apply(ORIGINAL)?;
    runs()?;
    applied(&operator)?;
    runs()?;
    ensure!(image()? == drover_api::plan::jobs::DROVER_IMAGE, "{}", image()?);
    let volumes = lab.kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "jsonpath={.items[*].spec.volumes[*].name}"])?;
    ensure!(!volumes.contains("etc-ssl"), "the other's volumes are still mounted: {volumes}");

    lab.kubectl_apply(ORIGINAL)?;
    runs()?;
    ensure!(image()?.starts_with("rancher/system-upgrade-controller"), "{}", image()?);
    Ok(())
}
