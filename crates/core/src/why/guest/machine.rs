//! Why a Machine is no node that is well.

use drover_api::cluster_api::conditions::READY;
use drover_api::cluster_api::machine::{conditions, phases};
use jiff::SignedDuration;

use super::super::Explanation;
use super::super::link::{Cause, Certainty, Chain, Link, Outlook, sort};
use super::{ending, inside, quota};
use crate::cluster::cluster_api::{Machine, Part, Reference, is_paused};
use crate::cluster::{Cluster, Condition, ObjectRef};

/// So long a Machine may take to come, or to go.
pub const LATE: SignedDuration = SignedDuration::from_mins(15);
/// So long something may be unwell: a node that has just come is, for a moment.
const BRIEF: SignedDuration = SignedDuration::from_mins(5);

pub fn explain(cluster: &Cluster, machine: &Machine) -> Explanation {
    let mut causes: Vec<Cause> = holds(cluster, machine).and_then(Cause::of).into_iter().collect();
    sort(&mut causes);
    Explanation {
        object: ObjectRef::of(machine),
        summary: summary(machine),
        complete: causes.is_empty(),
        driver: None,
        causes,
        unseen: Vec::new(),
    }
}

fn summary(machine: &Machine) -> String {
    let phase = match machine.status.phase.as_str() {
        "" => "not looked at by anybody yet".to_owned(),
        phase => phase.to_lowercase(),
    };
    let node = match machine.status.node_ref.name.as_str() {
        "" => "no Node yet".to_owned(),
        node => format!("Node {node}"),
    };
    match machine.spec.version.as_str() {
        "" => format!("{phase}, {node}"),
        version => format!("{phase}, version {version}, {node}"),
    }
}

/// From the Machine down; nothing if it is a node that is well.
pub fn holds(cluster: &Cluster, machine: &Machine) -> Option<Chain> {
    if machine.is_being_deleted() {
        return Some(ending::holds(cluster, machine));
    }
    if let Some(chain) = failed(cluster, machine) {
        return Some(chain);
    }
    let is_node = !machine.status.node_ref.name.is_empty();
    if !is_node && is_paused(&machine.metadata) {
        return Some(vec![super::paused(machine, "machine")]);
    }
    if !is_node {
        return Some(coming(cluster, machine));
    }
    let below = inside::down(cluster, machine);
    // v1alpha2 does not say of a Node that it is not ready.
    let silent = || below.as_ref().map(|_| not_ready(cluster, machine));
    let own = unwell(cluster, machine).or_else(silent)?;
    Some([own].into_iter().chain(below.into_iter().flatten()).collect())
}

fn not_ready(cluster: &Cluster, machine: &Machine) -> Link {
    let name = ObjectRef::of(machine).in_words();
    let statement = format!("{name} is not well: its Node {} is not ready", machine.status.node_ref.name);
    link(cluster, machine, statement).outlook(Outlook::Maybe)
}

/// What a Machine says itself, with its age and its owner.
pub fn link(cluster: &Cluster, machine: &Machine, statement: String) -> Link {
    let link = Link::proven(ObjectRef::of(machine), statement).since(machine.metadata.creation_timestamp);
    link.owned_by(cluster.root_owner(&machine.metadata))
}

/// What stands behind a Machine, if it was looked at.
pub fn part<'a>(cluster: &'a Cluster, machine: &Machine, reference: &Reference) -> Option<(ObjectRef, &'a Part)> {
    let object = ObjectRef::new(&reference.kind, &machine.metadata.namespace, &reference.name);
    cluster.machine_parts.get(&object).map(|part| (object, part))
}

/// A failure that nothing ends but the end of the Machine.
fn failed(cluster: &Cluster, machine: &Machine) -> Option<Chain> {
    let infrastructure = part(cluster, machine, &machine.spec.infrastructure_ref);
    let below = infrastructure.and_then(|(object, part)| Some((object, part.failure()?)));
    let is_failed = machine.status.phase.eq_ignore_ascii_case(phases::FAILED);
    let said =
        machine.failure().or(below.as_ref().map(|(_, said)| *said)).or(is_failed.then_some("it does not say why"))?;
    let name = ObjectRef::of(machine).in_words();
    let remedy = replacement(machine);
    let own = link(cluster, machine, format!("{name} has failed: {said}")).remedy(remedy.clone());
    let mut chain = vec![own];
    chain.extend(below.map(|(object, said)| {
        let statement = format!("{} has failed: {said}", object.in_words());
        Link::proven(object, statement).owned_by(Some(ObjectRef::of(machine))).remedy(remedy)
    }));
    chain.extend(quota::named(cluster, &machine.metadata.namespace, said));
    Some(chain)
}

/// Whoever made a Machine makes another one in its place; a control plane of before KubeadmControlPlane does not.
fn replacement(machine: &Machine) -> String {
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    let makers = ["MachineSet", "KubeadmControlPlane"];
    let is_made = machine.metadata.controller().is_some_and(|owner| makers.contains(&owner.kind.as_str()));
    match is_made {
        true => format!(
            "do away with what it says, then have it replaced, which it is not by itself: kubectl -n {namespace} delete machine {name}"
        ),
        false => format!("do away with what it says: kubectl -n {namespace} describe machine {name}"),
    }
}

/// How far a Machine is that is no node yet: what it is booted with, what it runs on, and then its kubelet.
fn coming(cluster: &Cluster, machine: &Machine) -> Chain {
    let bootstrap = conditions::BOOTSTRAP_READY.iter().find_map(|kind| machine.condition(kind));
    let bootstrap = bootstrap.filter(|condition| !condition.is_true());
    let infrastructure = machine.condition(conditions::INFRASTRUCTURE_READY).filter(|condition| !condition.is_true());
    let spec = &machine.spec;
    let (reference, condition) = match (bootstrap, infrastructure) {
        (Some(condition), _) => (&spec.bootstrap.config_ref, Some(condition)),
        (None, Some(condition)) => (&spec.infrastructure_ref, Some(condition)),
        // v1alpha2 has no conditions.
        (None, None) if !is_provisioned(machine) => (&spec.infrastructure_ref, None),
        (None, None) => return vec![without_node(cluster, machine)],
    };
    let name = ObjectRef::of(machine).in_words();
    let is_known = !reference.kind.is_empty();
    let behind = if is_known { format!("its {}", reference.kind) } else { "what it runs on".to_owned() };
    let own = link(cluster, machine, format!("{name} is no node yet: {behind} is not ready"));
    let seen = part(cluster, machine, reference);
    let words = seen.as_ref().and_then(|(_, part)| told(part)).or_else(|| condition.map(|one| one.said().to_owned()));
    let words = words.filter(|words| !words.is_empty());
    let is_wrong = is_late(cluster, machine) || words.as_ref().is_some_and(|words| quota::is_meant(words));
    let dress = |link: Link| {
        let link = link.outlook(Outlook::Maybe);
        if is_wrong { link } else { link.as_usual() }
    };
    let said = words.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
    let mut chain = vec![dress(own)];
    if is_known {
        let object = ObjectRef::new(&reference.kind, &machine.metadata.namespace, &reference.name);
        let (namespace, kind) = (&machine.metadata.namespace, reference.kind.to_lowercase());
        let remedy = format!("kubectl -n {namespace} describe {kind} {}", reference.name);
        let since = condition.and_then(|condition| condition.last_transition_time);
        let statement = format!("{} is not ready{said}", object.in_words());
        let below = Link::proven(object, statement).since(since.or(machine.metadata.creation_timestamp));
        chain.push(dress(below.owned_by(Some(ObjectRef::of(machine))).remedy(remedy)));
    }
    chain.extend(words.and_then(|words| quota::named(cluster, &machine.metadata.namespace, &words)));
    chain
}

/// What an infrastructure says of itself that is not ready.
fn told(part: &Part) -> Option<String> {
    let ready = part.condition(READY).filter(|ready| !ready.is_true()).map(|ready| ready.said().to_owned());
    let state = Some(&part.status.vmstatus).filter(|state| !state.is_empty());
    ready.or_else(|| state.map(|state| format!("its virtual machine is {state}")))
}

fn is_provisioned(machine: &Machine) -> bool {
    [phases::PROVISIONED, phases::RUNNING].iter().any(|phase| machine.status.phase.eq_ignore_ascii_case(phase))
        || !machine.spec.provider_id.is_empty()
}

fn is_late(cluster: &Cluster, machine: &Machine) -> bool {
    machine.metadata.creation_timestamp.is_some_and(|made| cluster.looked_at.duration_since(made) > LATE)
}

/// It runs, and its kubelet is not heard of.
fn without_node(cluster: &Cluster, machine: &Machine) -> Link {
    let name = ObjectRef::of(machine).in_words();
    let provider = match machine.spec.provider_id.as_str() {
        "" => String::new(),
        id => format!(" with the providerID {id}"),
    };
    let statement = format!("{name} runs, but no Node{provider} has joined the cluster");
    let link = link(cluster, machine, statement).outlook(Outlook::Maybe);
    if !is_late(cluster, machine) {
        return link.as_usual();
    }
    let remedy = "most likely kubeadm fails on it, or cannot reach the API server: look at /var/log/cloud-init-output.log there; \
                  a Node that has come without a providerID waits for the cloud provider in the guest cluster";
    Link { certainty: Certainty::Likely, ..link }.remedy(remedy)
}

/// A node that is not well, as its conditions say.
pub fn unwell(cluster: &Cluster, machine: &Machine) -> Option<Link> {
    let kinds = [conditions::NODE_HEALTHY, conditions::HEALTH_CHECK_SUCCEEDED].into_iter();
    let kinds = conditions::ETCD.into_iter().chain(conditions::COMPONENTS).chain(kinds);
    let sick = |condition: &&Condition| condition.status == "False";
    let condition = kinds.filter_map(|kind| machine.condition(kind)).find(sick)?;
    let name = ObjectRef::of(machine).in_words();
    let said = match condition.said() {
        "" => String::new(),
        said => format!(": {}", super::in_a_line(said)),
    };
    let statement = format!("{name} is not well: {} is False{said}", condition.kind);
    let (namespace, own) = (&machine.metadata.namespace, &machine.metadata.name);
    let is_replaced = machine.condition(conditions::OWNER_REMEDIATED).is_some_and(|condition| !condition.is_true());
    let remedy = match is_replaced {
        true => "a health check has it replaced; if that does not come about, look at the condition OwnerRemediated"
            .to_owned(),
        false => format!("kubectl -n {namespace} describe machine {own}"),
    };
    let link = link(cluster, machine, statement).since(condition.last_transition_time).outlook(Outlook::Maybe);
    let lasts = condition.last_transition_time.is_none_or(|since| cluster.looked_at.duration_since(since) > BRIEF);
    Some(if lasts { link.remedy(remedy) } else { link.as_usual() })
}
