//! The steps of an update, in their order. Each goes on when it has nothing left to do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use drover_api::cluster_api::labels::{CLUSTER_NAME, CONTROL_PLANE};
use drover_api::cluster_api::machine::annotations::{NAME_BASE, UPGRADE_ID};
use drover_api::marks::GENERATED;
use serde_json::{Value, json};

use super::generated::Generated;
use super::view::{Flow, Machine, View};
use super::wait::{Deed, Next, Reason, Write};
use super::{certificates, copy, cordon, health, kubeadm, paused, removal};
use crate::decision::Act;

pub fn decide(view: &View<'_>) -> Next {
    match steps(view) {
        Ok(()) => Next::Done,
        Err(next) => next,
    }
}

fn steps(view: &View<'_>) -> Flow<()> {
    let order = view.order;
    let Some(cluster) = view.cluster() else {
        let sentence = format!("there is no Cluster {}/{}", order.namespace, order.cluster);
        let remedy =
            "name a Cluster that `kubectl get clusters --all-namespaces` lists: --cluster-namespace, --cluster-name";
        return view.fail(Reason::NothingToUpdate, sentence, remedy);
    };
    let machines = view.machines();
    refuse(view, &machines)?;
    certificates::secure(view, cluster)?;
    if let Some(why) = view.away {
        let object = view.cluster_object();
        let since = view.since(&object, Reason::GuestUnreachable);
        let sentence = format!("the API of the guest cluster does not answer: {why}");
        return view.wait(object, Reason::GuestUnreachable, sentence, since, order.machine_timeout);
    }
    let mut differing = Vec::new();
    for machine in machines.iter().filter(|machine| machine.leaving_since().is_none()) {
        if view.difference(machine)?.is_some() || has_lost_its_vote(view, machine)? {
            differing.push(*machine);
        }
    }
    if is_at_work(view, &machines, &differing) {
        paused::refuse(view, cluster, &machines)?;
    }
    if !differing.is_empty() {
        // First of all: what the guest is told before a machine is new cannot be seen in the management cluster otherwise.
        mark(view, &machines)?;
    }
    // Until the update is over, also while only old machines are on their way out: whoever edits it meanwhile may set the version back.
    if !differing.is_empty() || machines.iter().any(|machine| machine.upgrade_id().is_some()) {
        kubeadm::prepare(view)?;
    }
    // Whoever is on its way out need not be well: its member of etcd goes before it does.
    let surplus = surplus(view, &machines).filter(|_| differing.is_empty());
    let is_surplus = |machine: &Machine<'_>| surplus.is_some_and(|surplus| surplus.name() == machine.name());
    let is_to_go = |machine: &Machine<'_>| {
        is_surplus(machine)
            || machine.leaving_since().is_some()
            || differing.iter().any(|one| one.name() == machine.name())
    };
    cordon::give_back(view, machines.iter().filter(|machine| !is_to_go(machine)).copied())?;
    removal::await_leaving(view, &machines)?;
    removal::forget_strays(view, &machines)?;
    kubeadm::forget_endpoints(view)?;
    let staying: Vec<Machine<'_>> = machines.iter().filter(|machine| !is_surplus(machine)).copied().collect();
    replace_next(view, cluster, &staying, &differing)?;
    scale(view, cluster, &staying, surplus)?;
    unmark(&machines)
}

/// Anything is left to be done, or to be waited for.
fn is_at_work(view: &View<'_>, machines: &[Machine<'_>], differing: &[Machine<'_>]) -> bool {
    let is_begun = |machine: &Machine<'_>| machine.upgrade_id().is_some() || machine.leaving_since().is_some();
    let is_scaled = view.order.replicas.is_some_and(|wanted| wanted != machines.len());
    !differing.is_empty() || is_scaled || machines.iter().any(is_begun)
}

/// What whoever asked should know before it begins.
pub fn warnings(view: &View<'_>) -> Vec<String> {
    let machines = view.machines();
    let staying = machines.iter().filter(|machine| machine.leaving_since().is_none());
    // While one is replaced there is one more, which has the same base.
    let count = staying.map(Machine::base).collect::<BTreeSet<_>>().len();
    if count == 0 || count % 2 == 1 || view.order.replicas.is_some() {
        return Vec::new();
    }
    let (namespace, name) = (&view.order.namespace, &view.order.cluster);
    let (bears, less, more) = (count / 2 - 1, count - 1, count + 1);
    vec![format!(
        "the control plane of Cluster {namespace}/{name} has {count} machines: its etcd bears the loss of {bears}, as it does with {less}; \
         --replicas {more} or {less} makes the number odd"
    )]
}

/// The machine that goes next where there are too many: one that an update has given up on, or the youngest.
fn surplus<'a>(view: &View<'a>, machines: &[Machine<'a>]) -> Option<Machine<'a>> {
    let too_many = view.order.replicas.is_some_and(|wanted| machines.len() > wanted);
    let order = |machine: &&Machine<'a>| (machine.has_failed_before(), machine.created(), machine.name());
    machines.iter().max_by_key(order).filter(|_| too_many).copied()
}

/// One machine more, or one less, once all are as they are asked for: the last one that came has to be well before the next comes.
fn scale<'a>(view: &View<'a>, cluster: &Value, staying: &[Machine<'a>], surplus: Option<Machine<'a>>) -> Flow<()> {
    let Some(first) = staying.first() else { return Ok(()) };
    if let Some(leaves) = surplus {
        certificates::hand_over(view, cluster, first)?;
        return removal::remove(view, &leaves, &view.member_name(first), true);
    }
    if view.order.replicas.is_some_and(|wanted| staying.len() < wanted) {
        kubeadm::prepare(view)?;
        view.may_add_member(view.members()?)?;
        return copy::add(view, first, staying.len());
    }
    Ok(())
}

/// What must not be begun.
fn refuse(view: &View<'_>, machines: &[Machine<'_>]) -> Flow<()> {
    let order = view.order;
    if machines.is_empty() {
        let sentence = format!("Found 0 control plane machines of Cluster {}/{}", order.namespace, order.cluster);
        let remedy = format!(
            "its Machines carry the labels {CLUSTER_NAME}={} and {CONTROL_PLANE}: kubectl -n {} get machines --show-labels",
            order.cluster, order.namespace
        );
        return view.fail(Reason::NothingToUpdate, sentence, remedy);
    }
    if let Some((machine, owner)) = machines.iter().find_map(|machine| Some((machine, machine.controller()?))) {
        let sentence = format!("{} belongs to {owner}, which replaces it by itself", machine.reference());
        return view.fail(Reason::AnotherControllerActs, sentence, "change the version there");
    }
    let known = machines.iter().filter_map(|machine| Some((machine.name(), machine.version()?)));
    let versions: Vec<(&str, super::Version)> = known.collect();
    if let Some((name, version)) = versions.iter().find(|(_, version)| *version > order.version) {
        let sentence = format!("machine {name} is of {version}, which is newer than {}", order.version);
        return view.fail(
            Reason::VersionRefused,
            sentence,
            "a control plane is never made older: ask for that version or a higher one",
        );
    }
    let far = |version: &super::Version| {
        version.major() != order.version.major() || version.minor() + 1 < order.version.minor()
    };
    if let Some((name, version)) = versions.iter().find(|(_, version)| far(version)) {
        let sentence =
            format!("machine {name} is of {version}: {} is more than one minor version further", order.version);
        return view.fail(Reason::VersionRefused, sentence, "raise it one minor version at a time");
    }
    Ok(())
}

/// An update before this one was broken off when the machine was no member of etcd any more: it cannot come back.
fn has_lost_its_vote<'a>(view: &View<'a>, machine: &Machine<'a>) -> Flow<bool> {
    let is_cordoned = |node: &&Value| node["spec"]["unschedulable"] == true;
    if machine.upgrade_id().is_none() || view.node_of(machine).filter(is_cordoned).is_none() {
        return Ok(false);
    }
    let name = view.member_name(machine);
    Ok(view.members()?.iter().all(|member| member.name != name))
}

/// Every machine carries the id of this update, whatever it carried before, the name that its successors are called after, and what it
/// has joined with: if this is called off, those stay that are as they are asked for then.
fn mark(view: &View<'_>, machines: &[Machine<'_>]) -> Flow<()> {
    let unmarked = machines
        .iter()
        .filter(|machine| machine.leaving_since().is_none() && machine.upgrade_id() != Some(&view.order.id));
    let configuration = kubeadm::joined_with(view);
    let deeds: Vec<Deed> = unmarked
        .map(|machine| {
            let mut marks = json!({ UPGRADE_ID: view.order.id, NAME_BASE: machine.base() });
            if let Some(joined) = remembered(view, machine, configuration.as_ref()) {
                marks[GENERATED] = json!(joined.to_string());
            }
            annotated(machine, marks, "mark a machine")
        })
        .collect();
    if deeds.is_empty() { Ok(()) } else { Err(Next::Act(deeds)) }
}

/// What a machine has joined with of all that this update tells the guest otherwise; none if nothing is to be remembered, or another
/// update was begun that has not remembered it: the guest may have been told already.
fn remembered(view: &View<'_>, machine: &Machine<'_>, configuration: Option<&Value>) -> Option<Generated> {
    let patches = &view.order.patches.kubeadm;
    let known = machine.generated();
    let joined = match &known {
        Some(made) => made.clone().with_what_changes(patches, None),
        None if machine.upgrade_id().is_some() => return None,
        None => Generated::default().with_what_changes(patches, Some(configuration?)),
    };
    (joined != known.unwrap_or_default()).then_some(joined)
}

/// In the end no machine carries an id; the base of its name stays.
fn unmark(machines: &[Machine<'_>]) -> Flow<()> {
    let marked = machines.iter().filter(|machine| machine.upgrade_id().is_some());
    let deeds: Vec<Deed> = marked
        .map(|machine| {
            let mut marks = json!({ UPGRADE_ID: Value::Null });
            // What an update that was called off would have set is no longer in the guest.
            if let Some(joined) = machine.generated().filter(|joined| *joined != joined.clone().of_what_is_there()) {
                marks[GENERATED] = json!(joined.of_what_is_there().to_string());
            }
            annotated(machine, marks, "take the mark off a machine")
        })
        .collect();
    if deeds.is_empty() { Ok(()) } else { Err(Next::Act(deeds)) }
}

fn annotated(machine: &Machine<'_>, annotations: Value, purpose: &'static str) -> Deed {
    let patch = json!({ "metadata": {
        "resourceVersion": machine.object["metadata"]["resourceVersion"], "annotations": annotations,
    }});
    Deed::Write(Box::new(Write { object: machine.reference(), act: Act::Patch(patch), purpose }))
}

/// The machines that are called after one, and those of them that differ from what is asked for.
#[derive(Default)]
struct Line<'a> {
    outdated: Vec<Machine<'a>>,
    up_to_date: Vec<Machine<'a>>,
}

/// One line after the other, those first whose new machine is there already: never more than one machine too many.
fn replace_next<'a>(view: &View<'a>, cluster: &Value, machines: &[Machine<'a>], differing: &[Machine<'a>]) -> Flow<()> {
    let mut lines: BTreeMap<&str, Line<'a>> = BTreeMap::new();
    for machine in machines {
        let line = lines.entry(machine.base()).or_default();
        let differs = differing.iter().any(|one| one.name() == machine.name());
        if differs { line.outdated.push(*machine) } else { line.up_to_date.push(*machine) }
    }
    let (begun, rest): (Vec<&Line<'a>>, Vec<_>) = lines.values().partition(|line| !line.up_to_date.is_empty());
    for line in begun {
        finish(view, cluster, line)?;
    }
    if let Some(line) = rest.iter().find(|line| line.outdated.len() > 1) {
        return one_less(view, cluster, &line.outdated);
    }
    for line in rest {
        if let Some(old) = line.outdated.first() {
            let members = view.members()?;
            view.may_add_member(members)?;
            copy::make(view, old)?;
        }
    }
    Ok(())
}

/// An update before this one has made a machine for something else, and was broken off. One of the line goes before another is made:
/// whichever etcd misses least, or else the youngest.
fn one_less<'a>(view: &View<'a>, cluster: &Value, outdated: &[Machine<'a>]) -> Flow<()> {
    let members = view.members()?;
    let votes = |machine: &Machine<'a>| {
        let name = view.member_name(machine);
        members.iter().any(|member| member.name == name && member.healthy && !member.learner)
    };
    let order = |machine: &&Machine<'a>| {
        let age = Reverse((machine.created(), machine.name()));
        (votes(machine), !machine.has_failed_before(), age)
    };
    let Some(goes) = outdated.iter().min_by_key(order) else { return Ok(()) };
    let Some(stays) = outdated.iter().find(|machine| machine.name() != goes.name()) else { return Ok(()) };
    certificates::hand_over(view, cluster, stays)?;
    removal::remove(view, goes, &view.member_name(stays), true)
}

/// A line whose new machine is there: it has to be well, and then the others go.
fn finish<'a>(view: &View<'a>, cluster: &Value, line: &Line<'a>) -> Flow<()> {
    let Some(newest) = line.up_to_date.last() else { return Ok(()) };
    let is_ours = newest.annotation(drover_api::marks::CONTROL_PLANE_DIGEST).is_some() || !line.outdated.is_empty();
    // Machines that nobody has made for an update are not held to it.
    if !is_ours {
        return Ok(());
    }
    match health::check(view, newest) {
        Ok(()) => {}
        // An earlier try has given up on it. Another one is made, as long as there is something to make it of.
        Err(Next::Wait { .. } | Next::Fail(_)) if newest.has_failed_before() && !line.outdated.is_empty() => {
            removal::remove(view, newest, "", false)?;
        }
        Err(next) => return Err(next),
    }
    if newest.has_failed_before() {
        return Err(Next::Act(vec![Deed::Write(Box::new(health::noted(newest, None)))]));
    }
    if let Some(old) = line.outdated.first() {
        certificates::hand_over(view, cluster, newest)?;
        removal::remove(view, old, &view.member_name(newest), true)?;
    }
    Ok(())
}
