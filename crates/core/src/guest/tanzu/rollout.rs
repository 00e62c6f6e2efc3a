//! The rollout of workers: begun by pointing their MachineDeployment at other templates, watched, halted where it gets nowhere, and
//! taken back where that is asked for.

use drover_api::marks::{HELD, LAST_GOOD, ON_FAILURE, RETURN, WORKERS_FAILED};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::places::{self, Gate};
use super::workers::{Target, Workers};
use super::{Reason, Spent, View, Wait, owners, text};
use crate::decision::Act;
use crate::guest::dialect::Dialect;
use crate::guest::order::Version;
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side, Write};

/// What becomes of the workers.
#[derive(Debug, Default, PartialEq)]
pub struct Course {
    pub writes: Vec<Write>,
    pub waits: Vec<Wait>,
    /// There is something to begin with.
    pub wants: bool,
}

impl Course {
    fn write(deployment: &Value, patch: Value, purpose: &'static str) -> Self {
        Course { writes: vec![guarded(deployment, patch, purpose)], ..Course::default() }
    }

    fn wait(wait: Wait) -> Self {
        Course { waits: vec![wait], ..Course::default() }
    }

    /// What moves machines needs the cluster's place.
    fn in_its_place(self, view: &View<'_>) -> Self {
        let (writes, held, wants) = match places::gate(view) {
            Gate::Open => (self.writes, None, true),
            Gate::Takes(write) => (vec![*write], None, true),
            Gate::Shut(wait) => (Vec::new(), Some(*wait), true),
            Gate::Paused(wait) => (Vec::new(), Some(*wait), false),
        };
        Course { writes, waits: self.waits.into_iter().chain(held).collect(), wants }
    }
}

/// How far the control plane is.
#[derive(Debug, Default)]
pub struct ControlPlane {
    /// It waits for a person, and nothing new is begun.
    pub halted: bool,
    /// The names of its Machines that are not as they are asked for.
    pub differing: Vec<String>,
}

pub fn course(view: &View<'_>, workers: &Workers<'_>, before: &ControlPlane) -> Course {
    let deployment = workers.deployment;
    let state = State::of(deployment);
    if workers.wanted != workers.current {
        let course = begin(view, workers, &state, before);
        // How many there are does not wait with what they are made of.
        let may_scale = course.writes.is_empty() && !state.paused && places::paused(view).is_none();
        let scaled = scaled(view, deployment).filter(|_| may_scale);
        return Course { writes: scaled.into_iter().chain(course.writes).collect(), ..course };
    }
    let current = workers.current.to_string();
    if let Some(failed) = state.failed.as_ref().filter(|failed| failed.target == current) {
        return after_failure(view, workers, &state, failed);
    }
    if state.held {
        // Whoever takes the mark of the failure away wants another try.
        let patch = json!({
            "metadata": { "annotations": { HELD: null, WORKERS_FAILED: null } }, "spec": { "paused": null },
        });
        return Course::write(deployment, patch, "let workers go on").in_its_place(view);
    }
    if let Some(write) = scaled(view, deployment) {
        return match places::paused(view) {
            Some(wait) => Course::wait(wait),
            None => Course { writes: vec![write], ..Course::default() },
        };
    }
    if is_complete(view, deployment) {
        return match state.failed {
            Some(_) => {
                let patch = json!({ "metadata": { "annotations": { WORKERS_FAILED: null } } });
                Course::write(deployment, patch, "forget a failure that is over")
            }
            None => Course::default(),
        };
    }
    if state.paused {
        return Course::wait(paused(view, deployment));
    }
    if let Some(wait) = places::paused(view) {
        let patch = json!({ "metadata": { "annotations": { HELD: "true" } }, "spec": { "paused": true } });
        let held = Course::write(deployment, patch, "hold the workers of a paused cluster");
        return Course { waits: vec![wait], ..held };
    }
    watch(view, workers)
}

/// How many workers there are to be, and how many are asked for, if that is not the same.
pub fn scales<'a>(view: &View<'a>, deployment: &'a Value) -> Option<(&'a Value, &'a Value)> {
    let (there, wanted) = (&deployment["spec"]["replicas"], &view.tkc["spec"]["topology"]["workers"]["count"]);
    (wanted.is_i64() && there != wanted).then_some((there, wanted))
}

fn scaled(view: &View<'_>, deployment: &Value) -> Option<Write> {
    let (_, wanted) = scales(view, deployment)?;
    Some(guarded(deployment, json!({ "spec": { "replicas": wanted } }), "change the number of workers"))
}

/// What our marks on a MachineDeployment say.
struct State {
    /// `spec.paused`.
    paused: bool,
    /// The pause is ours.
    held: bool,
    last_good: Option<Target>,
    failed: Option<Failed>,
}

struct Failed {
    target: String,
    sentence: String,
}

impl State {
    fn of(deployment: &Value) -> Self {
        let marks = &deployment["metadata"]["annotations"];
        let failed: Option<Value> = marks[WORKERS_FAILED].as_str().and_then(|said| serde_json::from_str(said).ok());
        let failed = failed.map(|said| Failed {
            target: text(&said["target"]).to_owned(),
            sentence: text(&said["sentence"]).to_owned(),
        });
        State {
            paused: deployment["spec"]["paused"] == true,
            held: marks[HELD].is_string(),
            last_good: marks[LAST_GOOD].as_str().and_then(Target::parse),
            failed,
        }
    }
}

/// Points the MachineDeployment at what is wanted, if nothing speaks against it.
fn begin(view: &View<'_>, workers: &Workers<'_>, state: &State, before: &ControlPlane) -> Course {
    let deployment = workers.deployment;
    if let Some(failed) = state.failed.as_ref().filter(|failed| failed.target == workers.wanted.to_string()) {
        let object = Object::of(Side::Management, deployment);
        let sentence = format!("{object} was taken back to its last good templates: {}", failed.sentence);
        let wait = view.wait(object, Reason::WorkersFailed, sentence);
        return Course::wait(wait.with_remedy(again(deployment)));
    }
    if state.paused && !state.held {
        return Course::wait(paused(view, deployment));
    }
    if workers.raises
        && let Some(wait) = control_plane_first(view, workers, before)
    {
        return Course::wait(wait);
    }
    if before.halted {
        return Course::default();
    }
    // Templates that were never whole are no place to go back to.
    let good = state.last_good.as_ref().filter(|_| !is_complete(view, deployment)).unwrap_or(&workers.current);
    let mut patch = pointed(&workers.wanted);
    patch["metadata"]["annotations"] = json!({ LAST_GOOD: good.to_string(), WORKERS_FAILED: null, HELD: null });
    if state.held {
        patch["spec"]["paused"] = Value::Null;
    }
    let mut writes = workers.templates.clone();
    writes.push(guarded(deployment, patch, "point workers at other templates"));
    Course { writes, ..Course::default() }.in_its_place(view)
}

/// Workers of a version never come before a control plane of it; Machines on their way out are still part of that.
fn control_plane_first(view: &View<'_>, workers: &Workers<'_>, before: &ControlPlane) -> Option<Wait> {
    let is_behind = |machine: &&Value| {
        Version::parse(text(&machine["spec"]["version"])).is_none_or(|version| version < workers.version)
            || !machine["metadata"]["deletionTimestamp"].is_null()
            || before.differing.iter().any(|name| machine["metadata"]["name"] == *name)
    };
    if view.machines(true).next().is_none() {
        let sentence = "workers follow once there is a Machine of the control plane";
        return Some(view.wait(view.object(), Reason::ControlPlaneFirst, sentence));
    }
    let machine = view.machines(true).find(is_behind)?;
    let object = Object::of(Side::Management, machine);
    let sentence = match machine["metadata"]["deletionTimestamp"].is_null() {
        true => format!("workers follow once {object}, of {}, is replaced", text(&machine["spec"]["version"])),
        false => format!("workers follow once {object} is gone"),
    };
    Some(view.wait(object, Reason::ControlPlaneFirst, sentence))
}

fn after_failure(view: &View<'_>, workers: &Workers<'_>, state: &State, failed: &Failed) -> Course {
    let deployment = workers.deployment;
    let good = state.last_good.as_ref().filter(|good| **good != workers.current);
    let lost = good.and_then(|good| lost(view, good));
    if let Some(good) = good.filter(|_| view.annotation(ON_FAILURE) == Some(RETURN) && lost.is_none()) {
        let mut patch = pointed(good);
        patch["metadata"]["annotations"] = json!({ HELD: null });
        patch["spec"]["paused"] = Value::Null;
        let write = guarded(deployment, patch, "take workers back to their last good templates");
        let object = Object::of(Side::Management, deployment);
        let sentence = format!("{object} goes back to its last good templates: {}", failed.sentence);
        let waits = vec![view.wait(object, Reason::WorkersFailed, sentence)];
        return Course { writes: vec![write], waits, ..Course::default() }.in_its_place(view);
    }
    let object = Object::of(Side::Management, deployment);
    let sentence = format!("{object} is halted: {}", failed.sentence);
    let back = match (good, lost) {
        (_, Some(lost)) => format!("; to go back to the last good templates, bring {lost} back first"),
        (Some(_), None) => format!(
            "; to go back to the last good templates: kubectl -n {} annotate tkc {} {ON_FAILURE}={RETURN}",
            view.namespace(),
            view.name()
        ),
        (None, None) => String::new(),
    };
    let remedy = format!("{}{back}", again(deployment));
    Course::wait(view.wait(object, Reason::WorkersFailed, sentence).with_remedy(remedy))
}

/// A template of these that is not there any more: workers that were pointed at it would never come.
fn lost(view: &View<'_>, target: &Target) -> Option<String> {
    let parts = [
        (Collection::MachineTemplates, "WCPMachineTemplate", &target.infrastructure),
        (Collection::ConfigTemplates, "KubeadmConfigTemplate", &target.config),
    ];
    let is_lost = |(collection, _, name): &&(Collection, &str, &String)| view.own.get(*collection, name).is_none();
    parts.iter().find(is_lost).map(|(_, kind, name)| format!("{kind} {name}"))
}

fn again(deployment: &Value) -> String {
    let metadata = &deployment["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    format!("to try again: kubectl -n {namespace} annotate machinedeployment {name} {WORKERS_FAILED}-")
}

fn paused(view: &View<'_>, deployment: &Value) -> Wait {
    let object = Object::of(Side::Management, deployment);
    let sentence = format!("somebody has paused {object}");
    view.wait(object, Reason::WorkersPaused, sentence).with_remedy("set its spec.paused to false")
}

/// What a rollout under way waits for; what has taken too long halts it.
fn watch(view: &View<'_>, workers: &Workers<'_>) -> Course {
    let waits = under_way(view, workers.deployment);
    let over = waits.iter().find(|wait| wait.is_over());
    let Some(over) = over else { return Course { waits, ..Course::default() } };
    let failed = json!({
        "target": workers.current.to_string(), "reason": over.reason.to_string(), "sentence": over.sentence,
    });
    let patch = json!({
        "metadata": { "annotations": { WORKERS_FAILED: failed.to_string(), HELD: "true" } }, "spec": { "paused": true },
    });
    let write = guarded(workers.deployment, patch, "halt a rollout of workers that gets nowhere");
    Course { writes: vec![write], waits, ..Course::default() }
}

fn under_way(view: &View<'_>, deployment: &Value) -> Vec<Wait> {
    let mut waits = Vec::new();
    for (object, reason, _) in leaving(view) {
        let sentence = format!("{object} is on its way out");
        waits.push(limited(view, object, reason, sentence));
    }
    let spec = &deployment["spec"]["template"]["spec"];
    let is_new = |set: &&Value| is_owned(set, deployment) && set["spec"]["template"]["spec"] == *spec;
    let Some(set) = view.own.all(Collection::Sets).find(is_new) else {
        waits.push(not_made(view, deployment, "its MachineSet is not made"));
        return waits;
    };
    let alive: Vec<&Value> = view
        .machines(false)
        .filter(|machine| is_owned(machine, set) && machine["metadata"]["deletionTimestamp"].is_null())
        .collect();
    for machine in &alive {
        let object = Object::of(Side::Management, machine);
        if let Some(why) = Dialect::V1alpha2.failure(&machine["status"]) {
            let sentence = format!("{object} has failed: {why}");
            waits.push(view.wait(object, Reason::MachineProvisioning, sentence).at_most(view, SignedDuration::ZERO));
        } else if machine["status"]["nodeRef"].is_null() {
            let sentence = format!("{object} is not a Node yet");
            waits.push(limited(view, object, Reason::MachineProvisioning, sentence));
        }
    }
    let joined = alive.iter().filter(|machine| !machine["status"]["nodeRef"].is_null()).count();
    let number = |value: &Value| usize::try_from(value.as_i64().unwrap_or(0)).unwrap_or(0);
    let available = number(&set["status"]["availableReplicas"]);
    if available < joined {
        let object = Object::of(Side::Management, set);
        // Which it is the guest alone knows: as long as it does not answer, those stay that it named before, and if it never did, time runs
        // against all of them together.
        let is_unready = |node: &Object| match view.nodes.and_then(|nodes| nodes.get(&node.name)) {
            Some(ready) => !ready,
            None => view.is_counted(node, Reason::NodeNotReady),
        };
        let nodes = alive.iter().filter_map(|machine| machine["status"]["nodeRef"]["name"].as_str()).map(node_of_guest);
        let unready: Vec<Object> = nodes.filter(is_unready).collect();
        if unready.is_empty() {
            let sentence = format!("Nodes of {object} are not ready");
            waits.push(limited(view, object.clone(), Reason::NodeNotReady, sentence));
        }
        for node in unready {
            let sentence = format!("Node {} of {object} is not ready", node.name);
            waits.push(limited(view, node, Reason::NodeNotReady, sentence));
        }
    }
    if alive.len() < number(&set["spec"]["replicas"]) {
        let said = [&set["status"]["errorReason"], &set["status"]["errorMessage"]].map(text);
        let said: Vec<&str> = said.into_iter().filter(|said| !said.is_empty()).collect();
        let why = if said.is_empty() { "Machines are not made".to_owned() } else { said.join(": ") };
        waits.push(not_made(view, set, &why));
    }
    if waits.is_empty() {
        let object = Object::of(Side::Management, deployment);
        let (new, all) = (number(&deployment["status"]["updatedReplicas"]), number(&deployment["spec"]["replicas"]));
        let sentence = format!("{object} replaces its Machines: {new} of {all} are new");
        waits.push(limited(view, object, Reason::WorkersRolling, sentence));
    }
    waits
}

fn node_of_guest(name: &str) -> Object {
    let [api_version, kind, name] = ["v1", "Node", name].map(str::to_owned);
    Object { side: Side::Guest, api_version, kind, namespace: String::new(), name }
}

fn not_made(view: &View<'_>, of: &Value, why: &str) -> Wait {
    let object = Object::of(Side::Management, of);
    let sentence = format!("{object}: {why}");
    limited(view, object, Reason::MachinesNotMade, sentence)
}

/// It may take as long as a machine may, counted from when it was first waited for.
pub fn limited(view: &View<'_>, object: Object, reason: Reason, sentence: String) -> Wait {
    view.wait(object, reason, sentence).at_most(view, view.settings.machine_timeout)
}

fn is_owned(object: &Value, by: &Value) -> bool {
    owners(object).any(|owner| owner["uid"] == by["metadata"]["uid"] && owner["controller"] == true)
}

/// Every Machine is of the current templates and available, and none of the others is left.
pub fn is_complete(view: &View<'_>, deployment: &Value) -> bool {
    let (status, wanted) = (&deployment["status"], &deployment["spec"]["replicas"]);
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let counts = ["replicas", "updatedReplicas", "availableReplicas"];
    let has_seen = number(&status["observedGeneration"]) >= number(&deployment["metadata"]["generation"]);
    let is_staying = |machine: &Value| machine["metadata"]["deletionTimestamp"].is_null();
    has_seen
        && counts.iter().all(|count| number(&status[*count]) == wanted.as_i64().unwrap_or(1))
        && view.machines(false).all(is_staying)
}

/// Its Machines are on their way from one template to another, or from one number to another.
pub fn moves(view: &View<'_>, deployment: &Value) -> bool {
    let spec = &deployment["spec"]["template"]["spec"];
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let of_it = || view.own.all(Collection::Sets).filter(|set| is_owned(set, deployment));
    let (new, old): (Vec<&Value>, Vec<&Value>) = of_it().partition(|set| set["spec"]["template"]["spec"] == *spec);
    let has_all = new.iter().any(|set| number(&set["status"]["replicas"]) == number(&deployment["spec"]["replicas"]));
    let are_gone = old.iter().all(|set| number(&set["status"]["replicas"]) == 0);
    let stay = view.machines(false).all(|machine| machine["metadata"]["deletionTimestamp"].is_null());
    !(has_all && are_gone && stay)
}

/// Machines of other templates are left, or none of the current ones is made yet.
pub fn rolls(view: &View<'_>, deployment: &Value) -> bool {
    let spec = &deployment["spec"]["template"]["spec"];
    let of_it = || view.own.all(Collection::Sets).filter(|set| is_owned(set, deployment));
    let has_some = |set: &Value| {
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        number(&set["spec"]["replicas"]) > 0 || number(&set["status"]["replicas"]) > 0
    };
    let is_new = |set: &&Value| set["spec"]["template"]["spec"] == *spec;
    !of_it().any(|set| is_new(&set)) || of_it().filter(|set| !is_new(set)).any(has_some)
}

/// A worker is on its way out, and may still come to that: one that takes longer than it may is not waited for.
pub fn someone_leaves(view: &View<'_>) -> bool {
    leaving(view).any(|(_, _, spent)| !spent.is_all())
}

/// Workers that are on their way out, and for how long: counted whether or not a rollout waits for them.
pub fn leaving(view: &View<'_>) -> impl Iterator<Item = (Object, Reason, Spent)> {
    let is_leaving = |machine: &&Value| !machine["metadata"]["deletionTimestamp"].is_null();
    view.machines(false).filter(is_leaving).map(|machine| {
        let (object, reason) = (Object::of(Side::Management, machine), Reason::MachineDeleting);
        let spent = Spent { waited: view.waited(&object, reason), limit: view.settings.machine_timeout };
        (object, reason, spent)
    })
}

fn pointed(target: &Target) -> Value {
    json!({ "metadata": {}, "spec": { "template": { "spec": {
        "version": target.version,
        "infrastructureRef": { "name": target.infrastructure },
        "bootstrap": { "configRef": { "name": target.config } },
    }}}})
}

pub fn guarded(object: &Value, mut patch: Value, purpose: &'static str) -> Write {
    patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
    Write { object: Object::of(Side::Management, object), act: Act::Patch(patch), purpose }
}
