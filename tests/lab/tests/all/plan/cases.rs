//! The cases that users of system-upgrade-controller know, on a real control plane: the same table that runs on the embedded one.
//!
//! All run side by side on one lab, each with an operator, a namespace and nodes of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use drover_clock::Clock;
use drover_lab::{Lab, LabOptions};
use drover_operator::{Connection, Operator, OperatorOptions, connect};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::play::{CASE, Play, Played, Script};
use super::table::{Case, Machines, Step, cases};

/// Shorter than any that a user could ask for, so that three questions do not make up most of the test.
const POLL_INTERVAL: Duration = Duration::from_secs(20);
/// What must not happen has this long to happen.
const SETTLES: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn plans_do_on_a_real_control_plane_what_users_know_or_better() -> Result<()> {
    let cases: Vec<Case> = cases().into_iter().filter(|case| !case.steps.is_empty()).collect();
    let lab = Lab::up(&LabOptions { kwok: true, ..LabOptions::default() })?;
    super::install_plans(&lab)?;
    let names: Vec<String> = cases.iter().flat_map(nodes_of).collect();
    lab.add_kwok_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    let connection = Connection { kubeconfig: Some(lab.kubeconfig().to_owned()), ..Connection::default() };
    let client = connect(&connection).await?;

    let ended = join_all(cases.iter().map(|case| played(&client, case))).await;

    let wrong: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
    ensure!(wrong.is_empty(), "{} of {} cases went wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    Ok(())
}

fn nodes_of(case: &Case) -> Vec<String> {
    let id = case.id.to_lowercase();
    (1..=case.size).map(|number| format!("{id}-{number}")).collect()
}

/// One case from its namespace to its last step.
async fn played(client: &Client, case: &Case) -> Played<()> {
    let told = |error: kube::Error| format!("{}: {error}", case.id);
    let namespace = format!("case-{}", case.id.to_lowercase());
    let object: Namespace = serde_json::from_value(json!({ "metadata": { "name": namespace } })).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &object).await.map_err(told)?;
    let nodes: Api<Node> = Api::all(client.clone());
    let label = Patch::Merge(json!({ "metadata": { "labels": { CASE: case.id } } }));
    let names = nodes_of(case);
    let (nodes, label, params) = (&nodes, &label, PatchParams::default());
    try_join_all(names.iter().map(|name| nodes.patch(name, &params, label))).await.map_err(told)?;

    let channel = Arc::new(Script::default());
    let mut options = OperatorOptions::new(&namespace, &format!("operator-of-{}", case.id), Clock::real());
    options.channels = channel.clone();
    options.poll_interval = POLL_INTERVAL;
    let operator = tokio::spawn(Operator::new(client.clone(), options).run(std::future::pending()));
    let annotations = Mutex::new(json!({}));
    let play = Play { client: client.clone(), namespace: &namespace, case, channel, arrange, annotations };
    let mut hash = String::new();
    for (index, step) in case.steps.iter().enumerate() {
        let place = |said: String| format!("{} ({}), step {}: {said}", case.id, case.says, index + 1);
        hash = stepped(&play, step, &hash).await.map_err(place)?;
    }
    operator.abort();
    Ok(())
}

/// Waits until all is as expected, and looks once more whether it stays so.
async fn stepped(play: &Play<'_>, step: &Step, hash_before: &str) -> Played<String> {
    play.act(step).await?;
    let started = Instant::now();
    sleep(SETTLES.min(Duration::from_secs(step.wait.unwrap_or(30)))).await;
    loop {
        match play.check(&step.expect, hash_before).await {
            Ok(_) => break,
            Err(said) if started.elapsed() > PATIENCE => return Err(said),
            Err(_) => sleep(Duration::from_millis(300)).await,
        }
    }
    sleep(Duration::from_secs(1)).await;
    play.check(&step.expect, hash_before).await.map_err(|said| format!("it did not last: {said}"))
}

/// KWOK reads it on the pods, which have it from their Plan.
fn arrange(machines: &Machines) -> (Value, Value) {
    let take = if machines.take == "never" { "24h" } else { &machines.take };
    let of_plan = json!({ "lab.drover.dev/take": take, "lab.drover.dev/exit-code": machines.exit_code.to_string() });
    (json!({}), of_plan)
}
