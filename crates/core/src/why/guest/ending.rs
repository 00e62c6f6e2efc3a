//! Why a Machine that was told to go is still there.

use drover_api::cluster_api::conditions::READY;
use drover_api::cluster_api::machine::{DRAIN_HEADER, FAILED_DRAIN, FINALIZER, annotations, conditions, stages};

use super::super::link::{Certainty, Chain, Link, Outlook};
use super::machine::{LATE, part};
use super::{control_plane, in_a_line, inside};
use crate::cluster::cluster_api::{Machine, Reference};
use crate::cluster::{Cluster, ObjectRef};

/// How far the end of a Machine is.
enum Stage {
    /// An annotation that begins like this holds it.
    Hook(&'static str),
    Draining(String),
    Volumes(String),
    Infrastructure,
    Bootstrap,
    Unknown,
}

pub fn holds(cluster: &Cluster, machine: &Machine) -> Chain {
    match stage(cluster, machine) {
        Stage::Hook(prefix) => hook(cluster, machine, prefix),
        Stage::Draining(words) => {
            let below = inside::kept(cluster, machine).into_iter().flatten();
            [draining(cluster, machine, &words)].into_iter().chain(below).collect()
        }
        Stage::Volumes(words) => {
            let statement = format!("volumes are still attached to its Node: {}", in_a_line(&words));
            let remedy = "look at the storage driver in the guest cluster: kubectl get volumeattachments";
            vec![link(cluster, machine, &statement).remedy(remedy)]
        }
        Stage::Infrastructure => behind(cluster, machine, &machine.spec.infrastructure_ref),
        Stage::Bootstrap => behind(cluster, machine, &machine.spec.bootstrap.config_ref),
        // v1alpha2 says little of a drain.
        Stage::Unknown => match inside::kept(cluster, machine).filter(|_| inside::is_cordoned(cluster, machine)) {
            Some(below) => [link(cluster, machine, "its Node is being drained")].into_iter().chain(below).collect(),
            None => vec![unknown(cluster, machine)],
        },
    }
}

fn stage(cluster: &Cluster, machine: &Machine) -> Stage {
    if let Some(deleting) = machine.condition(conditions::DELETING).filter(|condition| condition.is_true()) {
        return match deleting.reason.as_str() {
            stages::PRE_DRAIN_HOOK => Stage::Hook(annotations::PRE_DRAIN_HOOK),
            stages::DRAINING => Stage::Draining(deleting.message.clone()),
            stages::VOLUME_DETACH => Stage::Volumes(deleting.message.clone()),
            stages::PRE_TERMINATE_HOOK => Stage::Hook(annotations::PRE_TERMINATE_HOOK),
            stages::INFRASTRUCTURE => Stage::Infrastructure,
            stages::BOOTSTRAP => Stage::Bootstrap,
            _ => Stage::Unknown,
        };
    }
    let lasts = |kind: &str| machine.condition(kind).filter(|condition| condition.status == "False");
    if lasts(conditions::PRE_DRAIN_HOOK_SUCCEEDED).is_some() {
        return Stage::Hook(annotations::PRE_DRAIN_HOOK);
    }
    if let Some(draining) = lasts(conditions::DRAINING_SUCCEEDED) {
        return Stage::Draining(draining.said().to_owned());
    }
    if let Some(detaching) = lasts(conditions::VOLUME_DETACH_SUCCEEDED) {
        return Stage::Volumes(detaching.said().to_owned());
    }
    if lasts(conditions::PRE_TERMINATE_HOOK_SUCCEEDED).is_some() {
        return Stage::Hook(annotations::PRE_TERMINATE_HOOK);
    }
    // v1alpha2 tells of a drain by Events alone.
    let events = cluster.events_about(&ObjectRef::of(machine));
    if let Some(event) = events.into_iter().rev().find(|event| event.reason == FAILED_DRAIN) {
        return Stage::Draining(event.message.clone());
    }
    let infrastructure = part(cluster, machine, &machine.spec.infrastructure_ref);
    match infrastructure {
        Some((_, part)) if part.metadata.deletion_timestamp.is_some() => Stage::Infrastructure,
        _ => Stage::Unknown,
    }
}

fn is_late(cluster: &Cluster, machine: &Machine) -> bool {
    machine.metadata.deleted_since().is_some_and(|since| cluster.looked_at.duration_since(since) > LATE)
}

/// What is said of a Machine that goes: as usual for a while.
fn link(cluster: &Cluster, machine: &Machine, why: &str) -> Link {
    let statement = format!("{} is being deleted: {why}", ObjectRef::of(machine).in_words());
    let link = super::machine::link(cluster, machine, statement).since(machine.metadata.deleted_since());
    let link = link.outlook(Outlook::Maybe);
    if is_late(cluster, machine) { link } else { link.as_usual() }
}

/// The hooks of a Machine that begin like this: the annotation, and whose it is.
fn hooks<'a>(machine: &'a Machine, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let all = machine.metadata.annotations.iter();
    all.filter(move |(key, _)| key.starts_with(prefix)).map(|(key, owner)| (key.as_str(), owner.as_str()))
}

fn hook(cluster: &Cluster, machine: &Machine, prefix: &'static str) -> Chain {
    let is_of_control_plane = |key: &str| key.ends_with(annotations::OF_CONTROL_PLANE);
    // That of the control plane is the last one.
    let found = hooks(machine, prefix).find(|(key, _)| !is_of_control_plane(key)).or(hooks(machine, prefix).next());
    let Some((key, owner)) = found else { return vec![unknown(cluster, machine)] };
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    if is_of_control_plane(key) {
        let own = link(cluster, machine, "its control plane has not taken it out of etcd yet");
        let plane = machine.metadata.controller().map(|owner| owner.name.as_str());
        let plane = plane.and_then(|plane| cluster.cluster_api.control_planes.get(namespace, plane));
        let sick = plane.and_then(|plane| control_plane::sick(cluster, plane));
        let remedy = format!("kubectl -n {namespace} describe kubeadmcontrolplane");
        return [own.remedy(remedy)].into_iter().chain(sick.into_iter().flatten()).collect();
    }
    let owner = match owner {
        "" => "whoever set it".to_owned(),
        owner => owner.to_owned(),
    };
    let why = format!("the hook {key} holds it, which {owner} has to take away");
    let remedy =
        format!("look why {owner} does not; if that is gone: kubectl -n {namespace} annotate machine {name} {key}-");
    let link = link(cluster, machine, &why).remedy(remedy);
    vec![if link.alarm { link.outlook(Outlook::No) } else { link }]
}

/// What is left on its Node, in the words of Cluster API.
fn draining(cluster: &Cluster, machine: &Machine, words: &str) -> Link {
    let lines = words.lines().filter(|line| !line.starts_with(DRAIN_HEADER)).collect::<Vec<_>>().join("\n");
    let why = match in_a_line(&lines) {
        left if left.is_empty() => "its Node is being drained".to_owned(),
        left => format!("its Node cannot be drained: {left}"),
    };
    let link = link(cluster, machine, &why);
    let is_refused = words.contains("evict") || words.contains("disruption budget");
    // v1alpha2, whose phases are in small letters, spells it otherwise.
    let is_old = machine.status.phase.chars().all(char::is_lowercase) && !machine.status.phase.is_empty();
    let key = if is_old { annotations::EXCLUDE_DRAINING_V1ALPHA2 } else { annotations::EXCLUDE_DRAINING };
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    let remedy = format!(
        "in the guest cluster, make more pods of the budget healthy, or let it spare one; to go on without a drain: \
         kubectl -n {namespace} annotate machine {name} {key}=true"
    );
    let link = Link { alarm: link.alarm || is_refused, ..link };
    if link.alarm { link.remedy(remedy) } else { link }
}

/// It waits for what stands behind it to go.
fn behind(cluster: &Cluster, machine: &Machine, reference: &Reference) -> Chain {
    let own = link(cluster, machine, &format!("its {} is not gone yet", reference.kind));
    let namespace = &machine.metadata.namespace;
    let remedy = format!(
        "look at the controller of {}s: kubectl -n {namespace} describe {} {}",
        reference.kind,
        reference.kind.to_lowercase(),
        reference.name
    );
    let Some((object, part)) = part(cluster, machine, reference) else {
        return vec![own.remedy(remedy)];
    };
    let said = part.condition(READY).filter(|ready| !ready.is_true() && !ready.message.is_empty());
    let said = said.map(|ready| format!(": {}", in_a_line(&ready.message))).unwrap_or_default();
    let kept = match part.metadata.finalizers.first() {
        Some(finalizer) => format!(", but is kept by the finalizer {finalizer}"),
        None => String::new(),
    };
    let statement = format!("{} is being deleted{kept}{said}", object.in_words());
    let below =
        Link::proven(object, statement).since(part.metadata.deleted_since()).outlook(own.outlook).remedy(remedy);
    let below = Link { alarm: own.alarm, ..below }.owned_by(Some(ObjectRef::of(machine)));
    vec![own, below]
}

/// Nothing says what it waits for.
fn unknown(cluster: &Cluster, machine: &Machine) -> Link {
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    let foreign = machine.metadata.finalizers.iter().find(|finalizer| *finalizer != FINALIZER);
    match foreign {
        Some(finalizer) => link(cluster, machine, &format!("it is kept by the finalizer {finalizer}"))
            .remedy("look why whoever set the finalizer does not take it away"),
        None => {
            let link = link(cluster, machine, "nothing says what that waits for");
            let remedy = format!(
                "look at its Events, and whether capi-controller-manager works: kubectl -n {namespace} describe machine {name}"
            );
            Link { certainty: Certainty::Likely, ..link }.remedy(remedy)
        }
    }
}
