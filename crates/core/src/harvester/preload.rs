//! The images of the release come to every node before anything stops: a Plan does it.

use drover_api::harvester::jobs::{self, components, stock};
use drover_api::harvester::{CATTLE_NAMESPACE, node};
use drover_api::plan::PublishedWait;
use drover_api::plan::labels::{DISABLED, plan_hash};
use serde_json::{Value, json};

use super::config;
use super::decide::{Phase, Turn, members};
use super::names;
use super::release::Steps;
use super::upgrade_config::Preload;
use crate::cluster::Node;
use crate::decision::{Act, Kind, Purpose, Reason, Subject};
use crate::seen::PlanSeen;
use crate::why::reasons::meaning;

/// In seconds.
const DEADLINE: i64 = 3600;
const SERVICE_ACCOUNT: &str = "system-upgrade-controller";

pub(super) fn everywhere(turn: &mut Turn<'_>) -> bool {
    if turn.next.prepared {
        return true;
    }
    turn.phase = Phase::PreparingNodes;
    let (nodes, _) = members(turn.cluster());
    let concurrency = match config::chosen(turn).preload {
        Preload::Skip => {
            turn.next.prepared = true;
            return true;
        }
        Preload::AtOnce(number) => number.unwrap_or(nodes.len()).min(nodes.len()),
    };
    let name = names::prepare(turn.name());
    let subject = Subject::plan(CATTLE_NAMESPACE, &name);
    let Some(seen) = turn.prepare_plan() else {
        let plan = plan(turn, &name, components::NODE, concurrency, preparation(turn));
        turn.write(Purpose::Provide, subject.clone(), Act::Create(plan));
        turn.wait(subject, Reason::ImagesPreloading, format!("Plan {CATTLE_NAMESPACE}/{name} is being made"));
        return false;
    };
    let waiting: Vec<String> =
        nodes.iter().map(|member| member.name().to_owned()).filter(|node| !has_images(turn, node)).collect();
    if waiting.is_empty() {
        turn.next.prepared = true;
        return true;
    }
    await_plan(turn, seen, Reason::ImagesPreloading, format!("images are loaded on {}", waiting.join(", ")));
    false
}

/// Waits for a Plan of the Upgrade; what is wrong with it is told here as well, where somebody looks.
pub(super) fn await_plan(turn: &mut Turn<'_>, plan: &PlanSeen, reason: Reason, sentence: String) {
    let is_wrong = |wait: &&PublishedWait| {
        let reason: Option<Reason> = serde_json::from_value(wait.reason.clone().into()).ok();
        reason.is_some_and(|reason| meaning(reason).alarm)
    };
    let wrong: Vec<&PublishedWait> = plan.status.waits.iter().filter(is_wrong).collect();
    let said = wrong.iter().map(|wait| wait.sentence.as_str());
    let sentence = [sentence.as_str()].into_iter().chain(said).collect::<Vec<&str>>().join("; ");
    let why = format!("drover why plan/{}/{}", plan.meta.namespace, plan.meta.name);
    let remedy = wrong.iter().find_map(|wait| wait.remedy.clone()).unwrap_or(why);
    turn.wait_with_remedy(Subject::plan(&plan.meta.namespace, &plan.meta.name), reason, sentence, remedy);
}

/// Whether a node has the images: it carries the result of the Plan, or is left out of it.
pub(super) fn has_images(turn: &Turn<'_>, node: &str) -> bool {
    turn.prepare_plan().zip(turn.cluster().nodes.named(node)).is_some_and(|(plan, node)| has_run(plan, node))
}

/// Whether a node carries the result of a Plan, or is left out of it.
pub(super) fn has_run(plan: &PlanSeen, node: &Node) -> bool {
    matches!(Outcome::of(plan, node), Outcome::LeftOut | Outcome::Carried)
}

/// How a node stands to a Plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Somebody has left it out of the Plan.
    LeftOut,
    /// It carries the result, and gets no Job.
    Carried,
    /// It carries a result, and the Plan, which was made anew, has not said yet which one it wants: that is no sign that anything is done.
    Unknown,
    /// It gets a Job, or has one.
    Due,
}

impl Outcome {
    pub(super) fn of(plan: &PlanSeen, node: &Node) -> Self {
        let hash = plan.status.latest_hash.as_str();
        match node.metadata.labels.get(&plan_hash(&plan.meta.name)).map(String::as_str) {
            Some(DISABLED) => Outcome::LeftOut,
            Some(_) if hash.is_empty() => Outcome::Unknown,
            Some(carried) if carried == hash => Outcome::Carried,
            _ => Outcome::Due,
        }
    }
}

/// A node that no longer carries the result of a Plan gets its Job again.
pub(super) fn without_result(node: &Node, plan: &str) -> Value {
    let version = node.metadata.resource_version.to_string();
    json!({ "metadata": { "resourceVersion": version, "labels": { plan_hash(plan): null } } })
}

/// A Job of the Plan is at work there, or was just now.
pub(super) fn is_preloading(turn: &Turn<'_>, node: &str) -> bool {
    let plan = names::prepare(turn.name());
    let mut jobs = turn.cluster().jobs.in_namespace(CATTLE_NAMESPACE);
    let own = |job: &&crate::cluster::Job| {
        let label = |key: &str| job.metadata.labels.get(key).map(String::as_str);
        label(drover_api::plan::labels::PLAN) == Some(plan.as_str())
            && label(drover_api::plan::labels::NODE) == Some(node)
    };
    jobs.any(|job| own(&job)) && !has_images(turn, node)
}

/// A Plan for all managed nodes.
pub(super) fn plan(turn: &Turn<'_>, name: &str, component: &str, concurrency: usize, container: Value) -> Value {
    let upgrade = turn.name();
    let mut tolerations = super::jobs::tolerations();
    // What has to run everywhere also runs where a node has only just come back.
    if component != components::NODE {
        let unready = ["node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"];
        tolerations.extend(unready.map(|key| super::jobs::tolerates(key, "NoSchedule")));
    }
    json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {
            "name": name, "namespace": CATTLE_NAMESPACE,
            "labels": { jobs::UPGRADE: upgrade, jobs::COMPONENT: component },
        },
        "spec": {
            "concurrency": concurrency, "jobActiveDeadlineSecs": DEADLINE, "version": upgrade,
            "nodeSelector": { "matchLabels": { node::MANAGED: "true" } },
            "serviceAccountName": SERVICE_ACCOUNT,
            "tolerations": tolerations,
            "upgrade": container,
        },
    })
}

/// What runs on each node.
fn preparation(turn: &Turn<'_>) -> Value {
    let mut container = json!({
        "image": super::jobs::image_to_prepare(turn),
        "envs": [{ "name": jobs::variables::UPGRADE_NAME, "value": turn.name() }],
    });
    match turn.next.steps {
        Steps::Drover => container["args"] = json!(["node", "preload"]),
        Steps::Release => {
            container["command"] = json!([stock::NODE_STEPS]);
            container["args"] = json!([stock::PREPARE]);
        }
    }
    container
}

/// The Plans that were made for the Upgrade.
pub(super) fn plans<'a>(turn: &Turn<'a>) -> Vec<(&'a str, &'a str)> {
    let unlabelled = names::plan(turn.name(), jobs::names::SKIP_RESTART_AGENT);
    let rooms = &turn.cluster().engine.namespaces;
    let plans = rooms.get(CATTLE_NAMESPACE).into_iter().flat_map(|room| room.plans.values());
    plans
        .filter(|plan| {
            let is_labelled = plan.meta.labels.get(jobs::UPGRADE).is_some_and(|upgrade| upgrade == turn.name());
            is_labelled || plan.meta.name == unlabelled
        })
        .map(|plan| (plan.meta.name.as_str(), plan.meta.uid.as_str()))
        .collect()
}

/// Deletes them; true if none is left.
pub(super) fn undo(turn: &mut Turn<'_>) -> bool {
    let plans = plans(turn);
    for (name, uid) in &plans {
        let subject = Subject::new(Kind::Plan, CATTLE_NAMESPACE, name);
        turn.write(Purpose::CleanUp, subject, Act::Delete { uid: (*uid).to_owned() });
    }
    plans.is_empty()
}
