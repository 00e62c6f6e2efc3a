//! A Plan upgrades the kubelets of real nodes while a real service on them is used, and nobody notices.
//!
//! Each test has a cluster of its own: three kubelets 1.33.13, a Deployment of web servers with a budget, and clients
//! that send requests all the time. Once the operator is a pod on the nodes that it upgrades, else a process beside them;
//! it never has more rights than the manifests grant. At the end all kubelets are 1.34.4, and no request has failed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use drover_lab::nodes::{NEW_KUBELET, OLD_KUBELET};
use drover_lab::rollout::{Look, NAMESPACE, Rollout};

const PATIENCE: Duration = Duration::from_secs(240);

fn prepared() -> Result<Rollout> {
    let started = Instant::now();
    let rollout = Rollout::prepare(3, env!("CARGO_BIN_EXE_drover-lab"))?;
    eprintln!("prepared in {:.1?}", started.elapsed());
    Ok(rollout)
}

/// Waits for the end, and holds at every look: one node is out at most.
fn finish(rollout: &Rollout) -> Result<Look> {
    let started = Instant::now();
    let mut most_out = 0;
    let end = rollout.until("every kubelet is upgraded", PATIENCE, |look| {
        most_out = most_out.max(look.claimed().len());
        look.is_done()
    })?;
    eprintln!("finished in {:.1?}", started.elapsed());
    ensure!(most_out <= 1, "{most_out} nodes were out at once");
    Ok(end)
}

/// What must hold at the end of each test, whatever happened on the way.
fn nobody_noticed(rollout: &Rollout) -> Result<()> {
    let tally = rollout.traffic();
    eprintln!("{} requests answered, {} failed", tally.answered, tally.failed);
    ensure!(tally.failed == 0, "{tally:#?}");
    ensure!(tally.answered > 200, "hardly a request was sent: {tally:?}");
    let restarts = rollout.restarts()?;
    ensure!(restarts == "0 0 0", "containers of the service were started again: {restarts}");
    Ok(())
}

/// The node that is out now, once its upgrade container runs.
fn node_at_work(rollout: &Rollout) -> Result<String> {
    let started = Instant::now();
    let path = "jsonpath={range .items[?(@.status.containerStatuses[0].state.running)]}{.spec.nodeName}{end}";
    loop {
        let node = rollout.lab().kubectl(&["-n", NAMESPACE, "get", "pods", "-o", path])?;
        if !node.is_empty() {
            return Ok(node);
        }
        ensure!(started.elapsed() < PATIENCE, "no upgrade container ever ran");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs the lab and root: make test-real"]
fn an_operator_in_the_cluster_upgrades_the_nodes_that_it_runs_on_and_no_request_fails() -> Result<()> {
    let rollout = prepared()?;
    rollout.deploy_operator()?;
    rollout.apply_plan()?;

    let before = rollout.until("a node is out", PATIENCE, |look| !look.claimed().is_empty())?;
    ensure!(before.nodes.iter().all(|node| node.kubelet == OLD_KUBELET), "{before:#?}");
    let end = finish(&rollout)?;

    ensure!(end.nodes.iter().all(|node| node.kubelet == NEW_KUBELET), "{end:#?}");
    nobody_noticed(&rollout)
}

#[test]
#[ignore = "needs the lab and root: make test-real"]
fn an_operator_that_is_killed_in_the_middle_costs_time_and_nothing_else() -> Result<()> {
    let mut rollout = prepared()?;
    rollout.start_operator()?;
    rollout.apply_plan()?;

    rollout.until("the first node is done", PATIENCE, |look| look.nodes.iter().any(|node| node.is_done()))?;
    rollout.until("the next is out", PATIENCE, |look| !look.claimed().is_empty())?;
    rollout.kill_operator()?;
    rollout.start_operator()?;
    finish(&rollout)?;

    let jobs = rollout.lab().kubectl(&["-n", NAMESPACE, "get", "jobs", "-o", "name"])?;
    ensure!(jobs.lines().count() == 3, "a node was upgraded twice:\n{jobs}");
    nobody_noticed(&rollout)
}

#[test]
#[ignore = "needs the lab and root: make test-real"]
fn a_node_that_crashes_during_its_upgrade_is_upgraded_after_it_has_booted() -> Result<()> {
    let mut rollout = prepared()?;
    rollout.start_operator()?;
    rollout.apply_plan()?;

    let node = node_at_work(&rollout)?;
    rollout.cluster.crash(&node)?;
    eprintln!("{node} crashed");
    let seen = rollout.until("the cluster knows that it is gone", PATIENCE, |look| {
        look.nodes.iter().any(|one| one.name == node && !one.ready)
    })?;
    ensure!(seen.claimed() == [node.as_str()], "it must keep its claim, and no other may be taken: {seen:#?}");
    rollout.cluster.boot(&node)?;
    finish(&rollout)?;

    nobody_noticed(&rollout)
}

#[test]
#[ignore = "needs the lab and root: make test-real"]
fn a_budget_that_forbids_evictions_is_named_and_obeyed_until_it_is_changed() -> Result<()> {
    let mut rollout = prepared()?;
    rollout.grant_what_the_original_grants()?;
    let allow = |pods: &str| format!("{{\"spec\":{{\"maxUnavailable\":{pods}}}}}");
    rollout.lab().kubectl(&["patch", "pdb", "web", "--type=merge", "-p", &allow("0")])?;
    rollout.start_operator()?;
    rollout.apply_plan()?;

    let mut said = String::new();
    rollout.until("drover why names the budget", PATIENCE, |_| {
        said = rollout.why().unwrap_or_default();
        said.contains("default/web")
    })?;
    eprintln!("drover why:\n{said}");
    ensure!(said.contains("default/web-"), "no pod is named: {said}");
    let pods = rollout.lab().kubectl(&["get", "pods", "-l", "app=web", "-o", "name"])?;
    ensure!(pods.lines().count() == 3, "a pod was evicted against its budget:\n{pods}");

    rollout.lab().kubectl(&["patch", "pdb", "web", "--type=merge", "-p", &allow("1")])?;
    finish(&rollout)?;
    nobody_noticed(&rollout)
}
