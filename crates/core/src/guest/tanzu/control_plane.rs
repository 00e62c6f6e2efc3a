//! The control plane: which of its Machines differ from what is asked for, and the Job that replaces them.

use std::collections::BTreeSet;

use drover_api::marks::MACHINE_FAILED;
use drover_api::tanzu::NAMESPACE;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::defaults::shown as named;
use super::difference::{leaves, shown};
use super::job::{self, State};
use super::places::{self, Gate};
use super::pods;
use super::wanted::{Wanted, patches};
use super::{Held, Reason, View, Wait, text};
use crate::decision::Act;
use crate::guest::copy;
use crate::guest::dialect::Dialect;
use crate::guest::generated::{Fields, Generated};
use crate::guest::order::{Order, Patches, Version, may_lag};
use crate::guest::view::{Flow, Machine, View as ToolView};
use crate::guest::wait::{Next, Object, Side, Write};

/// How long after the end of a Job its Machines may still look as before: what is watched comes in any order.
const AFTERMATH: SignedDuration = SignedDuration::from_secs(60);

/// What becomes of the control plane.
#[derive(Debug, PartialEq)]
pub enum Course {
    /// It is as it is asked for, which is noted last of all: nothing waits for that.
    Settled(Vec<Write>),
    Waits(Wait),
    /// Nothing is done to the cluster before a person has done something.
    Stopped(Wait),
    /// The same, as soon as this is written.
    Halts(Wait, Write),
    Acts(Vec<Write>),
    /// It would begin, and waits for its turn.
    Queues(Wait),
}

/// Gives an order the patches that make every machine as it is wanted.
pub fn patched(view: &View<'_>, order: Order, wanted: &Wanted) -> Held<Order> {
    let (drained, bare) = (BTreeSet::new(), Order { patches: Patches::default(), ..order.clone() });
    let tool = seen_by_tool(view, &bare, &drained);
    let machines: Vec<Machine<'_>> = tool.machines();
    let mut before = Generated::default();
    let (mut infrastructure, mut configs) = (Vec::new(), Vec::new());
    for machine in machines.iter().filter(|machine| machine.leaving_since().is_none()) {
        if let Some(made) = machine.generated() {
            before.cluster.extend(made.cluster);
            before.bootstrap.extend(made.bootstrap);
            before.infrastructure.extend(made.infrastructure);
        }
        infrastructure.extend(tool.infrastructure_of(machine));
        if let Some(config) = tool.config_of(machine) {
            let (joins, _) = copy::bootstrap_specs(&tool, config).map_err(|next| incomplete(view, machine, next))?;
            configs.push(json!({ "spec": joins }));
        }
    }
    let configs: Vec<&Value> = configs.iter().collect();
    let cluster: Vec<&Value> = view.configuration.into_iter().collect();
    let patches = Patches {
        infrastructure: patches(&wanted.infrastructure, &before.infrastructure, &infrastructure),
        bootstrap: patches(&wanted.bootstrap, &before.bootstrap, &configs),
        kubeadm: patches(&wanted.cluster, &before.cluster, &cluster),
    };
    Ok(Order { patches, ..order })
}

fn seen_by_tool<'a>(view: &View<'a>, order: &'a Order, drained: &'a BTreeSet<String>) -> ToolView<'a> {
    ToolView {
        order,
        dialect: Dialect::V1alpha2,
        seen: view.own,
        away: None,
        etcd: None,
        drained,
        started: view.now,
        told: &[],
        now: view.now,
    }
}

fn incomplete(view: &View<'_>, machine: &Machine<'_>, next: Next) -> Box<Wait> {
    let (why, remedy) = match next {
        Next::Fail(failure) => (failure.sentence, failure.remedy),
        _ => (String::new(), "look at what its spec refers to".to_owned()),
    };
    let object = machine.reference();
    let sentence = format!("{object} cannot be compared with what is asked for: {why}");
    Box::new(view.wait(object, Reason::MachineIncomplete, sentence).with_remedy(remedy))
}

/// What a machine has joined with is not what it would join with now.
fn of_configuration(view: &View<'_>, machine: &Machine<'_>, wanted: &Wanted) -> Vec<String> {
    let asked = wanted.generated().cluster;
    let said = |path: &str, runs: &Value, asked: &Value| {
        (runs != asked).then(|| format!("clusterConfiguration.{}: {} → {}", named(path), shown(runs), shown(asked)))
    };
    if let Some(made) = machine.generated() {
        let mut paths: Vec<&String> = asked.keys().chain(made.cluster.keys()).collect();
        paths.sort();
        paths.dedup();
        let value = |fields: &Fields, path: &String| fields.get(path).cloned().unwrap_or_default();
        return paths
            .into_iter()
            .filter_map(|path| said(path, &value(&made.cluster, path), &value(&asked, path)))
            .collect();
    }
    // Whoever began has told the guest of it, perhaps, and was not there any more when machines were to follow.
    if let Some(id) = machine.upgrade_id() {
        return vec![format!("update {id} was begun, and is not done")];
    }
    let Some(known) = view.configuration else { return Vec::new() };
    let runs = |path: &String| known.pointer(path).cloned().unwrap_or_default();
    asked.iter().filter_map(|(path, value)| said(path, &runs(path), value)).collect()
}

/// The Machines that differ, and in what.
pub fn differences(view: &View<'_>, order: &Order, wanted: &Wanted) -> Held<Vec<(String, Vec<String>)>> {
    let drained = BTreeSet::new();
    let tool = seen_by_tool(view, order, &drained);
    let mut differing = Vec::new();
    for machine in tool.machines().iter().filter(|machine| machine.leaving_since().is_none()) {
        let found: Flow<Vec<String>> = (|| {
            let mut found = Vec::new();
            let runs = machine.version();
            if runs.as_ref() != Some(&order.version) {
                let runs = runs.map_or_else(|| "none".to_owned(), |version| format!("v{version}"));
                found.push(format!("version: {runs} → v{}", order.version));
            }
            if let Some(infrastructure) = tool.infrastructure_of(machine) {
                found.extend(leaves(&infrastructure["spec"], &copy::infrastructure_spec(&tool, infrastructure)?));
            }
            if let Some(config) = tool.config_of(machine) {
                let (before, after) = copy::bootstrap_specs(&tool, config)?;
                found.extend(leaves(&before, &after));
            }
            found.extend(of_configuration(view, machine, wanted));
            Ok(found)
        })();
        match found {
            Ok(found) if found.is_empty() => {}
            Ok(found) => differing.push((machine.name().to_owned(), found)),
            Err(next) => return Err(incomplete(view, machine, next)),
        }
    }
    Ok(differing)
}

/// A Machine that an update was begun on which nobody goes on with, and its id: what it has told the guest is to be put right, also where
/// every Machine is as it is asked for again.
pub fn unfinished(view: &View<'_>, order: &Order) -> Option<(String, String)> {
    let drained = BTreeSet::new();
    let tool = seen_by_tool(view, order, &drained);
    // What has ended well is seen before its marks are seen to have gone.
    let is_done = |one: &&Value| job::is_for(one, order) && job::state(one) == State::Complete;
    if job::at_work(view).is_some() || job::of_cluster(view).iter().any(is_done) {
        return None;
    }
    let machines = tool.machines();
    let mut staying = machines.iter().filter(|machine| machine.leaving_since().is_none());
    staying.find_map(|machine| Some((machine.name().to_owned(), machine.upgrade_id()?.to_owned())))
}

/// How many machines there are, and how many are asked for, if that is not the same.
pub fn scales(view: &View<'_>) -> Option<(usize, usize)> {
    let wanted = view.tkc["spec"]["topology"]["controlPlane"]["count"].as_u64().unwrap_or(0);
    let there = view.machines(true).filter(|machine| machine["metadata"]["deletionTimestamp"].is_null()).count();
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    (there != wanted).then_some((there, wanted))
}

/// What comes next, given whether anything differs and what add-ons wait for.
pub fn course(view: &View<'_>, order: &Order, differs: bool, addons: Option<Wait>) -> Course {
    let jobs = job::of_cluster(view);
    if let Some(failed) = jobs.iter().find(|one| job::state(one) == State::Failed) {
        return Course::Stopped(failure(view, failed, "has failed"));
    }
    if let Some(active) = job::at_work(view) {
        return at_work(view, active);
    }
    if !differs {
        return rest(order, &jobs);
    }
    let (prepared, others): (Vec<&Value>, Vec<&Value>) =
        jobs.iter().partition(|one| job::is_unbegun(one) && job::is_for(one, order));
    if let Some(ended) = others.iter().find(|one| job::is_for(one, order) && !job::is_settled(one)) {
        let wait = failure(view, ended, "has ended well, and yet machines differ from what is asked for");
        // Whoever looked before has waited for it in vain.
        let is_told = view.published(&wait.subject, wait.reason).is_some();
        let settles = settles(view, ended);
        return if is_told || settles.is_over() { Course::Stopped(wait) } else { Course::Waits(settles) };
    }
    if let Some(held) = held(view, order, &jobs, addons) {
        return held;
    }
    match places::gate(view) {
        Gate::Open => {}
        Gate::Takes(write) => return Course::Acts(vec![*write]),
        Gate::Shut(wait) => return Course::Queues(*wait),
        Gate::Paused(wait) => return Course::Waits(*wait),
    }
    if let Some(job) = prepared.first() {
        let act = Act::Patch(job::begun(job));
        return Course::Acts(vec![Write {
            object: job_object(job),
            act,
            purpose: "let the update of a control plane begin",
        }]);
    }
    let outdated: Vec<Write> = others.iter().map(|one| cleared(one)).collect();
    // The next one has the same name, which is free when this one is gone.
    if others.iter().any(|one| job::is_for(one, order)) {
        return Course::Acts(outdated);
    }
    let manifest = job::manifest(view, order);
    let object = Object::of(Side::Management, &manifest);
    let create = Write { object, act: Act::Create(manifest), purpose: "begin the update of a control plane" };
    Course::Acts(outdated.into_iter().chain([create]).collect())
}

/// A Job is at work, or should be: one whose pod does not come, or does not start, halts the cluster after a while.
fn at_work(view: &View<'_>, active: &Value) -> Course {
    let object = job_object(active);
    let sentence = format!("{object} is at work on the control plane");
    let remedy = format!("kubectl -n {NAMESPACE} logs -l job-name={}", object.name);
    let updating = view.wait(object, Reason::ControlPlaneUpdating, sentence).with_remedy(remedy);
    let without = pods::without(view, active);
    // A pod comes a moment after its Job.
    let updating = if without.is_some() { updating.counted(view, pods::POD) } else { updating };
    let is_time = |wait: &Wait| updating.is_over() || view.is_counted(&wait.subject, wait.reason);
    let Some(wait) = without.filter(is_time).or_else(|| pods::unstarted(view, active)) else {
        return Course::Waits(updating);
    };
    // Whoever has it tried again takes the Job away: that is to blame, whichever pod of it there is.
    let Some(late) = late(view, &wait, job_object(active)) else { return Course::Waits(wait) };
    match view.places {
        // The place goes to another cluster: this Job must not begin behind its back.
        Some(_) => {
            let withdraw = Write {
                object: job_object(active),
                act: Act::Patch(job::withdrawn(active, &late.sentence)),
                purpose: "keep a Job that does not start from starting late",
            };
            Course::Halts(late.with_remedy(again(view)), withdraw)
        }
        None => {
            let remedy = wait.remedy.unwrap_or_default();
            Course::Stopped(
                late.with_remedy(format!("{remedy}; to try again: drover upgrade retry tkc/{}", view.key())),
            )
        }
    }
}

/// What is said of a wait that is over, and of what whoever looked before has waited for in vain.
fn late(view: &View<'_>, wait: &Wait, subject: Object) -> Option<Wait> {
    let sentence = format!("time is up: {}", wait.sentence);
    let late = view.wait(subject, Reason::ControlPlaneUpdateFailed, sentence);
    (wait.is_over() || view.published(&late.subject, late.reason).is_some()).then_some(late)
}

fn again(view: &View<'_>) -> String {
    format!(
        "once that is mended: drover upgrade retry tkc/{}; where Jobs may run is said by --guest-job-node-selector of the operator",
        view.key()
    )
}

/// Nothing differs: what was prepared and never begun goes, and what was done is noted to be.
fn rest(order: &Order, jobs: &[&Value]) -> Course {
    let unbegun: Vec<Write> = jobs.iter().filter(|one| job::is_unbegun(one)).map(|one| cleared(one)).collect();
    let is_done =
        |one: &&&Value| job::is_for(one, order) && job::state(one) == State::Complete && !job::is_settled(one);
    let done: Vec<Write> = jobs.iter().filter(is_done).map(|one| noted_as_settled(one)).collect();
    if unbegun.is_empty() { Course::Settled(done) } else { Course::Acts(unbegun) }
}

/// What speaks against another Job, before it is its turn.
fn held(view: &View<'_>, order: &Order, jobs: &[&Value], addons: Option<Wait>) -> Option<Course> {
    // Add-ons would be waited for in vain: nothing of the guest answers without one.
    if view.machines(true).next().is_none() {
        let sentence = "its control plane has no Machine left, which others could be made of";
        let wait = view.wait(view.object(), Reason::ControlPlaneUpdateFailed, sentence);
        return Some(Course::Stopped(wait.with_remedy("bring a Machine of it back, or make the cluster anew")));
    }
    if let Some(wait) = addons.or_else(|| unknown(view, order)) {
        return Some(Course::Waits(wait));
    }
    if let Some(wait) = workers_too_old(view, order) {
        return Some(Course::Stopped(wait));
    }
    let wait = pods::left_behind(view, jobs)?;
    match late(view, &wait, wait.subject.clone()) {
        Some(late) => Some(Course::Stopped(late.with_remedy(wait.remedy.unwrap_or_default()))),
        None => Some(Course::Waits(wait)),
    }
}

fn noted_as_settled(job: &Value) -> Write {
    Write { object: job_object(job), act: Act::Patch(job::settled(job)), purpose: "note that an update is done" }
}

pub fn cleared(job: &Value) -> Write {
    Write {
        object: job_object(job),
        act: Act::Delete { uid: text(&job["metadata"]["uid"]).to_owned() },
        purpose: "clear away the Job of an earlier update",
    }
}

fn settles(view: &View<'_>, job: &Value) -> Wait {
    let object = job_object(job);
    let sentence = format!("{object} has ended well, and its machines have not been seen yet");
    view.wait(object, Reason::ControlPlaneUpdating, sentence).at_most(view, AFTERMATH)
}

fn failure(view: &View<'_>, job: &Value, how: &str) -> Wait {
    let object = job_object(job);
    if let Some(why) = job::halted(job) {
        return view.wait(object, Reason::ControlPlaneUpdateFailed, why).with_remedy(again(view));
    }
    let name = &object.name;
    let remedy = format!(
        "kubectl -n {NAMESPACE} logs -l job-name={name}; to try again: kubectl -n {NAMESPACE} delete job {name}"
    );
    let why = pods::last_words(view, job).or_else(|| noted(view)).map(|why| format!(": {why}")).unwrap_or_default();
    let sentence = format!("{object} {how}{why}");
    view.wait(object, Reason::ControlPlaneUpdateFailed, sentence).with_remedy(remedy)
}

/// What a try that gave up on a machine has noted on it.
fn noted(view: &View<'_>) -> Option<String> {
    view.machines(true).find_map(|machine| {
        let why = machine["metadata"]["annotations"][MACHINE_FAILED].as_str()?;
        Some(format!("{}: {why}", Object::of(Side::Management, machine)))
    })
}

pub fn job_object(job: &Value) -> Object {
    // Items of a list do not say what they are.
    Object { api_version: "batch/v1".to_owned(), kind: "Job".to_owned(), ..Object::of(Side::Management, job) }
}

/// Where flags are to be set, it has to be known which others there are.
fn unknown(view: &View<'_>, order: &Order) -> Option<Wait> {
    let is_deep = |patch: &Value| {
        text(&patch["path"]).matches('/').count() > 2 && !text(&patch["path"]).starts_with("/etcd/local/")
    };
    if view.configuration.is_some() || !order.patches.kubeadm.iter().any(is_deep) {
        return None;
    }
    let sentence = "the guest cluster has not told yet with which ClusterConfiguration its machines join";
    let remedy = "look at ConfigMap kube-system/kubeadm-config of the guest cluster; it is asked again";
    Some(view.wait(view.object(), Reason::ConfigurationUnknown, sentence).with_remedy(remedy))
}

/// A kubelet may be only so many minor versions behind its API server.
fn workers_too_old(view: &View<'_>, order: &Order) -> Option<Wait> {
    let may_lag = may_lag(order.version.minor());
    let too_old = view.machines(false).find_map(|machine| {
        let version = Version::parse(text(&machine["spec"]["version"]))?;
        (version.minor() + may_lag < order.version.minor()).then_some((machine, version))
    });
    let (machine, version) = too_old?;
    let object = Object::of(Side::Management, machine);
    let sentence = format!(
        "{object} is of {version}: beside a control plane of {} it may be {may_lag} minor versions older at most",
        order.version
    );
    Some(
        view.wait(object, Reason::WorkersTooOld, sentence).with_remedy("bring the workers to the version before first"),
    )
}
