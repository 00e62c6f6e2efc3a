//! Is a new machine well enough for an old one to go?

use drover_api::cluster_api::machine::annotations::NAME_BASE;
use drover_api::marks::MACHINE_FAILED;
use drover_api::node::roles;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::etcd::ASK_AGAIN;
use super::seen::Collection;
use super::view::{Flow, Machine, View};
use super::wait::{Failure, Next, Object, Reason, Side, Write};
use crate::decision::Act;

/// The parts of a control plane, each a static pod.
const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"];
/// What a pod goes through before it is Ready.
const STEPS: [&str; 3] = ["PodScheduled", "Initialized", "ContainersReady"];
/// Both labels that kubeadm has had for a Node of the control plane.
const ROLES: [&str; 2] = [roles::CONTROL_PLANE, roles::MASTER];

/// Goes on when it is well. What takes too long is noted on the Machine, so that the next try makes another one.
pub fn check<'a>(view: &View<'a>, machine: &Machine<'a>) -> Flow<()> {
    let checked = look(view, machine);
    match checked {
        Err(Next::Fail(failure)) if !machine.has_failed_before() => {
            let note = noted(machine, Some(&failure.sentence));
            Err(Next::Fail(Failure { note: Some(Box::new(note)), ..failure }))
        }
        other => other,
    }
}

/// Says on a Machine that it has failed, or no longer.
pub fn noted(machine: &Machine<'_>, failed: Option<&str>) -> Write {
    let patch = json!({ "metadata": {
        "resourceVersion": machine.object["metadata"]["resourceVersion"],
        "annotations": { MACHINE_FAILED: failed, NAME_BASE: machine.base() },
    }});
    let purpose =
        if failed.is_some() { "note that a machine has failed" } else { "note that a machine is well after all" };
    Write { object: machine.reference(), act: Act::Patch(patch), purpose }
}

fn look<'a>(view: &View<'a>, machine: &Machine<'a>) -> Flow<()> {
    let object = machine.reference();
    let name = machine.name();
    if let Some(why) = machine.failure() {
        let remedy = Reason::MachineFailed.remedy(&object);
        return view.fail(Reason::MachineFailed, format!("{object} has failed: {why}"), remedy);
    }
    // The one time covers all that follows, whoever looks.
    let from = machine.created().unwrap_or(view.started).max(view.started);
    let limit = view.order.machine_timeout;
    let wait = |object: Object, reason: Reason, sentence: String| view.wait(object, reason, sentence, from, limit);
    if machine.provider_id().is_none() {
        return wait(
            object,
            Reason::MachineProvisioning,
            format!("machine {name} does not run yet{}", why_not(view, machine)),
        );
    }
    let Some(node) = view.node_of(machine) else {
        return wait(object, Reason::NodeMissing, format!("machine {name} runs, but has not become a Node yet"));
    };
    let node_object = Object { kind: "Node".to_owned(), api_version: "v1".to_owned(), ..Object::of(Side::Guest, node) };
    let node_name = node_object.name.clone();
    let lacking: Vec<String> = COMPONENTS
        .iter()
        .map(|component| format!("{component}-{node_name}"))
        .filter(|pod| !view.seen.get(Collection::Pods, pod).is_some_and(is_well))
        .collect();
    if !lacking.is_empty() {
        return wait(
            object,
            Reason::ComponentsNotReady,
            format!("not ready on machine {name}: {}", lacking.join(", ")),
        );
    }
    if !ROLES.iter().any(|role| node["metadata"]["labels"][*role].is_string()) {
        let sentence =
            format!("Node {node_name} has neither label {} nor {}: kubeadm has not finished", ROLES[0], ROLES[1]);
        return wait(node_object, Reason::NodeNotMarked, sentence);
    }
    if !has_condition(node, "Ready") {
        return wait(node_object, Reason::NodeNotReady, format!("Node {node_name} is not Ready"));
    }
    let members = view.members()?;
    match members.iter().find(|member| member.name == node_name) {
        Some(member) if !member.learner && member.healthy => Ok(()),
        Some(_) => {
            let sentence = format!("the member of etcd on machine {name} does not vote, or is not well");
            view.wait_and(object, Reason::EtcdLearner, sentence, from, limit, Some(ASK_AGAIN))
        }
        None => {
            let sentence = format!("machine {name} is no member of etcd yet");
            view.wait_and(object, Reason::EtcdLearner, sentence, from, limit, Some(ASK_AGAIN))
        }
    }
}

/// What its bootstrap config or its infrastructure say, if anything.
fn why_not<'a>(view: &View<'a>, machine: &Machine<'a>) -> String {
    let config = view.config_of(machine).map(|config| &config["status"]);
    let infrastructure = view.infrastructure_of(machine).map(|one| &one["status"]);
    let said: Vec<String> =
        [config, infrastructure].into_iter().flatten().filter_map(complaint).map(in_a_line).collect();
    let is_made = |status: &Value| status["ready"] == true || status["initialization"]["dataSecretCreated"] == true;
    match (said.as_slice(), config.is_some_and(is_made)) {
        ([], false) => ": its bootstrap data is not made yet".to_owned(),
        ([], true) => String::new(),
        (said, _) => format!(": {}", said.join("; ")),
    }
}

/// Why something has failed, or else why it is not Ready, in the words of whichever version of Cluster API. One that waits for another may
/// give nothing but a reason, which is no news.
fn complaint(status: &Value) -> Option<&str> {
    let failures = ["errorMessage", "failureMessage"].into_iter().filter_map(|field| status[field].as_str());
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let unready = conditions.filter(|one| one["type"] == "Ready" && one["status"] == "False");
    failures.chain(unready.filter_map(|one| one["message"].as_str())).find(|text| !text.is_empty())
}

/// Summaries of v1beta2 are lists, an item a line. What is told of a wait is one line.
fn in_a_line(message: &str) -> String {
    let items = message.lines().map(|line| line.trim().trim_start_matches("* ")).filter(|line| !line.is_empty());
    items.collect::<Vec<_>>().join("; ")
}

/// Ready says all; the others come before it, and not everybody writes them down. One that is there must not say otherwise.
fn is_well(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut steps = conditions.filter(|one| one["type"].as_str().is_some_and(|kind| STEPS.contains(&kind)));
    pod["metadata"]["deletionTimestamp"].is_null()
        && has_condition(pod, "Ready")
        && steps.all(|condition| condition["status"] == "True")
}

/// A condition of an object is `True`.
pub fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The kubelet of a Node does not answer any more: pods that are asked to go from there never do.
pub fn is_silent(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "Unknown")
}

/// Where time counts from for a machine that is on its way out.
pub fn leaving_from(view: &View<'_>, machine: &Machine<'_>) -> Option<Timestamp> {
    Some(machine.leaving_since()?.max(view.started))
}
