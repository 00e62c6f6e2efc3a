//! Why a TanzuKubernetesCluster is not as it is asked for: what speaks against its update, add-ons, the Job of its control
//! plane, its Machines, and what Drover itself says that it waits for.

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::cluster_api::machine::annotations::UPGRADE_ID;
use drover_api::marks::{GUEST, JOB_FAILED};
use drover_api::plan::PublishedWait;
use drover_api::tanzu::tanzu_kubernetes_cluster::{addon_states, conditions, jobs};
use drover_api::tanzu::{CONTROLLER_NAME, NAMESPACE};

use super::super::link::{Cause, Certainty, Chain, Link, Outlook};
use super::super::{Explanation, driver, job};
use super::{Found, Progress, control_plane, is_of, machine, workers};
use crate::cluster::cluster_api::{Machine, MachineDeployment};
use crate::cluster::tanzu::GuestCluster;
use crate::cluster::{Cluster, Job, ObjectRef, condition};
use crate::guest::tanzu::Reason;
use crate::preflight::guest_hindrances;

pub fn explain(cluster: &Cluster, guest: &GuestCluster) -> Explanation {
    let progress = Progress::of_tanzu(cluster, guest);
    let found = Found { cluster, object: ObjectRef::of(guest), progress: &progress };
    let (namespace, name) = (&guest.metadata.namespace, &guest.metadata.name);
    let api = &cluster.cluster_api;
    let mut causes: Vec<Cause> = Vec::new();
    let mut add = |said: &str, chain: Chain, of_control_plane: bool| {
        causes.extend(found.cause((said, chain), of_control_plane));
    };
    for addon in addons(guest, &progress) {
        add("its add-ons come before its control plane", vec![addon], true);
    }
    let machines: Vec<&Machine> = api.machines_of(namespace, name).collect();
    let members: Vec<&Machine> = machines.iter().copied().filter(|machine| machine.is_of_control_plane()).collect();
    for chain in update(cluster, guest, &progress, &members) {
        add("its control plane is not updated", chain, true);
    }
    for chain in members.iter().filter_map(|member| machine::holds(cluster, member)) {
        add("its control plane is not done", chain, true);
    }
    for deployment in api.deployments_of(namespace, name) {
        let is_awaited = is_awaited(guest, &progress, deployment);
        for chain in workers::holds(cluster, deployment, is_awaited) {
            add("its workers are not done", chain, false);
        }
    }
    if progress.differs {
        let has_begun = machines.iter().any(|machine| machine.status.node_ref.name.is_empty());
        for link in hindrances(cluster, guest, has_begun) {
            add("it cannot be updated as it is asked for", vec![link], true);
        }
        if let Some(chain) = nobody(cluster, guest) {
            add("nobody acts on it", chain, true);
        }
    }
    let told: Vec<ObjectRef> = causes.iter().flat_map(|cause| &cause.chain).map(|step| step.object.clone()).collect();
    let waits = guest.status.waits.iter().filter_map(|wait| published(guest, wait, &told));
    causes.extend(waits.collect::<Vec<_>>());
    let pause = api.clusters.get(namespace, name).and_then(|own| super::pause(own, progress.differs));
    found.tell(causes, pause)
}

/// Workers are to be made of something else than their MachineDeployment says: of another version, or as an operator says that waits for it.
fn is_awaited(guest: &GuestCluster, progress: &Progress, deployment: &MachineDeployment) -> bool {
    let is_of_another = !progress.to.is_empty() && !is_of(&deployment.spec.template.spec.version, &progress.to);
    is_of_another || guest.status.waits.iter().any(|wait| wait.reason == Reason::WorkersPaused.to_string())
}

/// Add-ons that are not applied. One that is in error is reconciled again and again.
fn addons(guest: &GuestCluster, progress: &Progress) -> Vec<Link> {
    let mut links = Vec::new();
    for (kind, addon) in &guest.status.addons {
        let name = if addon.name.is_empty() { kind } else { &addon.name };
        let own = ObjectRef::of(guest);
        let link = |statement: String| Link::proven(own.clone(), statement).outlook(Outlook::Maybe);
        match addon.status.as_str() {
            addon_states::ERROR => {
                let said = match addon.last_error_message.as_str() {
                    "" => "it does not say why",
                    said => said,
                };
                let statement = format!("add-on {name} of {} is in error: {said}", own.in_words());
                links.push(link(statement).remedy(
                    "it is tried again; if it stays so, look whether the guest cluster answers, and at the manifest in the image's annotation",
                ));
            }
            addon_states::PENDING if progress.differs => {
                links.push(link(format!("add-on {name} of {} is pending", own.in_words())).as_usual());
            }
            _ => {}
        }
    }
    links
}

/// The Jobs that update a guest's control plane, the newest last.
fn jobs_of<'a>(cluster: &'a Cluster, guest: &GuestCluster) -> Vec<&'a Job> {
    let whose = format!("{}/{}/", guest.metadata.namespace, guest.metadata.name);
    let is_own = |job: &&Job| {
        let is_named = job.metadata.labels.get(CLUSTER_NAME) == Some(&guest.metadata.name);
        // Clusters of several namespaces may have one name.
        let is_anothers = job.metadata.annotations.get(GUEST).is_some_and(|owner| !owner.starts_with(&whose));
        job.metadata.name.starts_with(jobs::NAME_PREFIX) && is_named && !is_anothers
    };
    let mut all: Vec<&Job> = cluster.jobs.in_namespace(NAMESPACE).filter(is_own).collect();
    all.sort_by_key(|job| (job.metadata.creation_timestamp, job.metadata.name.clone()));
    all
}

/// The update of the control plane: its certificates, its Job, and what that has passed over.
fn update(cluster: &Cluster, guest: &GuestCluster, progress: &Progress, members: &[&Machine]) -> Vec<Chain> {
    let Progress { to, .. } = progress;
    let (namespace, name) = (&guest.metadata.namespace, &guest.metadata.name);
    // Before a cluster has come up it has no certificates.
    let missing = match guest.status.version.is_empty() {
        true => Vec::new(),
        false => control_plane::authorities_missing(cluster, namespace, name),
    };
    let last = jobs_of(cluster, guest).pop();
    let failed = last.filter(|job| job.failure().is_some());
    let above: Chain = failed.map(|job| job::failed(cluster, job).into_iter().take(1).collect()).unwrap_or_default();
    if !missing.is_empty() {
        let above: Chain = above.into_iter().map(Link::as_usual).collect();
        return missing.into_iter().map(|link| [above.clone(), vec![link]].concat()).collect();
    }
    let Some(job) = last else { return Vec::new() };
    if failed.is_some() {
        return vec![failure(cluster, job)];
    }
    if let Some(why) = job.metadata.annotations.get(JOB_FAILED) {
        let link = Link::proven(ObjectRef::of(job), why.clone()).outlook(Outlook::No);
        return vec![vec![link.remedy(format!("once that is mended: drover upgrade retry tkc/{namespace}/{name}"))]];
    }
    if !job.is_complete() {
        return job::runs(cluster, job);
    }
    let id = job.metadata.annotations.get(jobs::UPGRADE_ID);
    let is_passed_over = |machine: &&&Machine| {
        let mark = machine.metadata.annotations.get(UPGRADE_ID);
        mark.is_some() && mark != id && !is_of(&machine.spec.version, to) && !machine.is_being_deleted()
    };
    members.iter().filter(is_passed_over).map(|machine| passed_over(job, machine)).collect()
}

/// A Job that has failed halts the cluster until somebody deletes it.
fn failure(cluster: &Cluster, job: &Job) -> Chain {
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    let mut chain: Chain = job::failed(cluster, job).into_iter().map(|link| link.outlook(Outlook::No)).collect();
    if let Some(last) = chain.last_mut() {
        last.remedy = Some(format!(
            "find out why: kubectl -n {namespace} logs -l job-name={name}; then another try begins with: kubectl -n {namespace} delete job {name}"
        ));
    }
    chain
}

/// The original takes a Machine with another update's mark for done.
fn passed_over(job: &Job, machine: &Machine) -> Chain {
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    let whose = machine.metadata.annotations.get(UPGRADE_ID).map(String::as_str).unwrap_or_default();
    let done = format!("{} is complete, and has not replaced every Machine", ObjectRef::of(job).in_words());
    let statement = format!(
        "{} is of {} still, and carries the mark of another update ({UPGRADE_ID}: {whose}), for which it was passed over",
        ObjectRef::of(machine).in_words(),
        machine.spec.version
    );
    let remedy = format!(
        "take the mark away, and the Job, so that another one begins: kubectl -n {namespace} annotate machine {name} {UPGRADE_ID}-; \
         kubectl -n {NAMESPACE} delete job {}",
        job.metadata.name
    );
    let link = Link { certainty: Certainty::Likely, ..Link::proven(ObjectRef::of(machine), statement) };
    vec![Link::proven(ObjectRef::of(job), done).as_usual(), link.since(job.status.completion_time).remedy(remedy)]
}

/// What a pre-flight check would say of an update that is asked for. That there is no room for another machine is told only before
/// one is there.
fn hindrances(cluster: &Cluster, guest: &GuestCluster, has_begun: bool) -> Vec<Link> {
    let own = ObjectRef::of(guest);
    let link = |(finding, remedy, of_room): (crate::preflight::Finding, &'static str, bool)| {
        // What is not there cannot be looked at: the cluster that names it is.
        let object = finding.objects.last().cloned().unwrap_or_else(|| own.clone());
        let link = Link::proven(object, finding.sentence).owned_by(None);
        let link = link.remedy(finding.remedy.unwrap_or_else(|| remedy.to_owned()));
        if of_room { Link { certainty: Certainty::Likely, ..link.outlook(Outlook::Maybe) } } else { link }
    };
    let all = guest_hindrances(cluster, guest).into_iter();
    all.filter(|(_, _, of_room)| !(*of_room && has_begun)).map(link).collect()
}

/// The controllers that would act are there, and do not work; Drover says in the status that it acts.
fn nobody(cluster: &Cluster, guest: &GuestCluster) -> Option<Chain> {
    if condition(&guest.status.conditions, conditions::PROGRESSING).is_some() {
        return None;
    }
    let deployment = cluster.deployments.get(NAMESPACE, CONTROLLER_NAME)?;
    Some(driver::without_pods(cluster, deployment)).filter(|below| !below.is_empty())
}

/// What Drover waits for, where nothing above accounts for it.
fn published(guest: &GuestCluster, wait: &PublishedWait, told: &[ObjectRef]) -> Option<Cause> {
    let own = ObjectRef::of(guest);
    let object = match wait.subject.split('/').collect::<Vec<_>>()[..] {
        [kind, namespace, name] => ObjectRef::new(kind, namespace, name),
        [kind, name] => ObjectRef::new(kind, "", name),
        _ => own.clone(),
    };
    if object != own && told.contains(&object) {
        return None;
    }
    let reason: Option<Reason> = serde_json::from_value(wait.reason.clone().into()).ok();
    let link = Link::proven(object.clone(), wait.sentence.clone()).since(Some(wait.since.0));
    let link = Link { remedy: wait.remedy.clone(), ..link };
    let link = match reason.is_some_and(Reason::needs_somebody) {
        true => link,
        false => link.outlook(Outlook::Yes).as_usual(),
    };
    let mut chain = vec![link];
    if object != own {
        chain.insert(0, Link::proven(own, "it is being updated").as_usual());
    }
    let mut cause = Cause::of(chain)?;
    cause.deadline = wait.deadline.as_ref().map(|deadline| deadline.0);
    Some(cause)
}
