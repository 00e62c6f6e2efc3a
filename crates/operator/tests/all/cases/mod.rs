//! What users of system-upgrade-controller know of Plans, case by case: the table is `cases.json`.
//!
//! A case with a `job` is about what a Job is made of, and needs no cluster. One with `steps` runs the operator on the embedded
//! cluster and its simulated machines, in virtual time; the lab plays the same on a real control plane. The ids `U…` and `E…`
//! are cases that system-upgrade-controller itself is tested with, `O…` are things it was seen to do; where Drover means to do
//! better, the case says what.

mod defects;
mod play;
mod table;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_core::claims::ClaimId;
use drover_core::plan::hash::latest_hash;
use drover_core::plan::job::{JobOrder, JobSettings, job};
use drover_core::seen::Meta;
use drover_corral::world::{World, WorldOptions};
use drover_operator::{Operator, OperatorOptions};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::support::{Cluster, NAMESPACE};
use play::{CASE, Play, Script};
use table::{Case, JobCase, Machines, cases, merge};

/// Longer than a minute, so that it is taken, and short enough to be waited for.
const POLL_INTERVAL: Duration = Duration::from_secs(61);

#[test]
fn jobs_are_what_users_know() {
    for case in cases() {
        let Some(given) = &case.job else { continue };
        let made = made(given);
        for (pointer, value) in &case.is {
            let found = made.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, value, "{} ({}): {pointer}", case.id, case.says);
        }
        let text = |pointer: &str| made.pointer(pointer).map(Value::to_string).unwrap_or_default();
        for (pointer, part) in &case.has {
            assert!(text(pointer).contains(part), "{} ({}): {}", case.id, case.says, text(pointer));
        }
        for (pointer, part) in &case.lacks {
            assert!(!text(pointer).contains(part), "{} ({}): {}", case.id, case.says, text(pointer));
        }
    }
}

fn made(given: &JobCase) -> Value {
    let mut spec = json!({
        "concurrency": 1, "serviceAccountName": "system-upgrade-controller-foo", "nodeSelector": {},
        "upgrade": { "image": "test-image:latest" },
    });
    merge(&mut spec, &given.spec);
    let mut meta = json!({ "name": "test-1", "namespace": "default", "uid": "uid" });
    merge(&mut meta, &given.plan);
    let (spec, meta): (_, Meta) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(meta).unwrap());
    let mut settings = JobSettings::default();
    for (name, value) in &given.settings {
        match name.as_str() {
            "deadline" => settings.active_deadline_seconds = value.as_i64().unwrap(),
            "deadlineMax" => settings.active_deadline_seconds_max = value.as_i64().unwrap(),
            "imagePullPolicy" => settings.image_pull_policy = value.as_str().unwrap().to_owned(),
            other => panic!("there is no setting {other}"),
        }
    }
    let version = given.version.as_deref().unwrap_or("1.0");
    let hash = latest_hash(version, &spec, &Value::Null, |_| Some(String::new())).unwrap();
    json!(job(&JobOrder {
        plan: &meta,
        spec: &spec,
        node: "prod.test.local",
        hostname: "prod.test.local",
        shares_short_name: false,
        is_windows: false,
        hash: &hash,
        version,
        template: "",
        claim: &ClaimId::from("c1"),
        settings: &settings,
    }))
}

#[tokio::test(start_paused = true)]
async fn plans_do_what_users_know_or_better() {
    for case in cases().iter().filter(|case| !case.steps.is_empty()) {
        let cluster = cluster_for(case);
        let channel = Arc::new(Script::default());
        let mut options = OperatorOptions::new(NAMESPACE, "operator", cluster.clock);
        options.channels = channel.clone();
        options.poll_interval = POLL_INTERVAL;
        let operator = Operator::new(cluster.server.client("operator"), options);
        let mut world = WorldOptions::default();
        world.kubelet.lease_period = None;
        let tasks = [
            tokio::spawn(World::run(cluster.server.clone(), world)),
            tokio::spawn(operator.run(std::future::pending())),
        ];
        let client = cluster.server.client("user");
        let play = Play { client, namespace: NAMESPACE, case, channel, arrange, annotations: Mutex::new(json!({})) };
        let mut hash = String::new();
        for (index, step) in case.steps.iter().enumerate() {
            let place = format!("{} ({}), step {}", case.id, case.says, index + 1);
            play.act(step).await.unwrap_or_else(|said| panic!("{place}: {said}"));
            cluster.pass(step.wait.unwrap_or(30)).await;
            hash = play.check(&step.expect, &hash).await.unwrap_or_else(|said| panic!("{place}: {said}"));
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

fn cluster_for(case: &Case) -> Cluster {
    let cluster = Cluster::new();
    for number in 1..=case.size {
        let name = format!("n{number}");
        let node = json!({ "metadata": {
            "name": name,
            "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", CASE: case.id },
            "annotations": { "corral.drover.dev/kubelet": "simulated", "corral.drover.dev/job-duration": "1s" },
        } });
        cluster.user.create(&serde_json::from_value::<Node>(node).unwrap()).unwrap();
    }
    cluster
}

/// The simulated machines read it on their nodes.
fn arrange(machines: &Machines) -> (Value, Value) {
    let exit_code = (machines.exit_code != 0).then(|| machines.exit_code.to_string());
    let of_nodes =
        json!({ "corral.drover.dev/job-duration": machines.take, "corral.drover.dev/job-exit-code": exit_code });
    (of_nodes, json!({}))
}
