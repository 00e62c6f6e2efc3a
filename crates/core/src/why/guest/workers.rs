//! Why the Machines of a MachineDeployment are not as they are asked for.

use drover_api::cluster_api::machine_set::{FAILED_CREATE, conditions};
use drover_api::marks::{HELD, ON_FAILURE, RETURN, WORKERS_FAILED};
use serde_json::Value;

use super::super::link::{Chain, Link, Outlook};
use super::{in_a_line, machine, quota, template_missing};
use crate::cluster::cluster_api::{Machine, MachineDeployment, MachineSet};
use crate::cluster::{Cluster, ObjectRef};

/// Is anything left to be done for it?
pub fn is_rolling(deployment: &MachineDeployment) -> bool {
    let (wanted, status) = (deployment.wanted(), &deployment.status);
    deployment.updated() < wanted || status.replicas != wanted || status.available_replicas < wanted
}

/// From the MachineDeployment down, each of what holds it up. One that is to be changed, and was not yet, `is_awaited`.
pub fn holds(cluster: &Cluster, deployment: &MachineDeployment, is_awaited: bool) -> Vec<Chain> {
    if deployment.is_paused() {
        return vec![vec![halted(deployment).or_else(|| held(deployment)).unwrap_or_else(|| {
            let paused = super::paused(deployment, "machinedeployment");
            if is_awaited || is_rolling(deployment) { paused } else { paused.as_usual() }
        })]];
    }
    let own = |statement: &str| {
        let name = ObjectRef::of(deployment).in_words();
        Link::proven(ObjectRef::of(deployment), format!("{name}: {statement}")).as_usual()
    };
    let mut found = Vec::new();
    let spec = &deployment.spec.template.spec;
    for reference in [&spec.infrastructure_ref, &spec.bootstrap.config_ref] {
        let missing = template_missing(cluster, &deployment.metadata.namespace, reference);
        found.extend(missing.map(|link| vec![own("no Machine can be made for it"), link]));
    }
    let workers: Vec<&Machine> = cluster.cluster_api.workers_of(deployment).collect();
    let held = workers.iter().filter_map(|worker| machine::holds(cluster, worker));
    found.extend(held.map(|below| [vec![own("its Machines are not all well")], below].concat()));
    let sets = cluster.cluster_api.sets_of(deployment).filter_map(|set| not_made(cluster, set));
    found.extend(sets.map(|below| [vec![own("Machines are missing")], below].concat()));
    if found.is_empty() && is_rolling(deployment) {
        let (updated, wanted) = (deployment.updated(), deployment.wanted());
        let rolls = own(&format!("{updated} of {wanted} Machines are as asked for")).outlook(Outlook::Yes);
        found.push(vec![rolls]);
    }
    found
}

/// Drover has paused it, since its rollout got nowhere.
fn halted(deployment: &MachineDeployment) -> Option<Link> {
    let mark = deployment.metadata.annotations.get(WORKERS_FAILED)?;
    let said: Value = serde_json::from_str(mark).unwrap_or_default();
    let said = said["sentence"].as_str().unwrap_or("it does not say why");
    let (namespace, name) = (&deployment.metadata.namespace, &deployment.metadata.name);
    let statement = format!("{} was halted, since it got nowhere: {said}", ObjectRef::of(deployment).in_words());
    Some(Link::proven(ObjectRef::of(deployment), statement).remedy(format!(
        "do away with what it says, then try again: kubectl -n {namespace} annotate machinedeployment {name} {WORKERS_FAILED}-; \
         or go back, by the annotation {ON_FAILURE}={RETURN} of the TanzuKubernetesCluster"
    )))
}

/// Drover has paused it, since its owner has paused the whole: that tells who has to do something.
fn held(deployment: &MachineDeployment) -> Option<Link> {
    deployment.metadata.annotations.get(HELD)?;
    let statement = format!("{} stays as it is while its cluster is paused", ObjectRef::of(deployment).in_words());
    Some(Link::proven(ObjectRef::of(deployment), statement).outlook(Outlook::Maybe).as_usual())
}

/// A MachineSet that cannot make its Machines.
fn not_made(cluster: &Cluster, set: &MachineSet) -> Option<Chain> {
    if set.status.replicas >= set.spec.replicas.unwrap_or(1) {
        return None;
    }
    let object = ObjectRef::of(set);
    let created = set.condition(conditions::MACHINES_CREATED).filter(|condition| condition.status == "False");
    let scaling = set.condition(conditions::SCALING_UP).filter(|condition| {
        let says = |words: &str| condition.message.contains(words);
        condition.is_true() && (says(conditions::PREFLIGHT_FAILED) || says(conditions::DOES_NOT_EXIST))
    });
    let told = created.or(scaling);
    let event = cluster.events_about(&object).into_iter().rev().find(|event| event.reason == FAILED_CREATE);
    let said = told.map(|told| told.said()).or(event.map(|event| event.message.as_str()));
    let said = in_a_line(said.or(Some(set.status.error_message.as_str()).filter(|said| !said.is_empty()))?);
    let since = told.and_then(|told| told.last_transition_time).or(event.and_then(|event| event.first_seen()));
    let owner = cluster.root_owner(&set.metadata);
    let link = |statement: String| Link::proven(object.clone(), statement).since(since).owned_by(owner.clone());
    if said.contains(conditions::CONTROL_PLANE_STABLE) {
        let statement = format!("{} makes no Machine before the control plane is done: {said}", object.in_words());
        return Some(vec![link(statement).outlook(Outlook::Yes).as_usual()]);
    }
    let statement = format!("{} cannot make a Machine: {said}", object.in_words());
    let remedy = match said.contains(conditions::PREFLIGHT_FAILED) {
        true => "raise the control plane first, or bring the version of the MachineDeployment within what it allows",
        false => "do away with what it says; Cluster API tries again by itself",
    };
    let outlook = if said.contains(conditions::PREFLIGHT_FAILED) { Outlook::No } else { Outlook::Maybe };
    let below = quota::named(cluster, &set.metadata.namespace, &said);
    Some([link(statement).outlook(outlook).remedy(remedy)].into_iter().chain(below).collect())
}
