//! The MachineDeployment controller: rolls from one MachineSet to the next, within maxSurge and maxUnavailable.
//!
//! Left out: scaling in proportion while a rollout is under way.

use drover_api::cluster_api::labels::TEMPLATE_HASH;
use drover_api::cluster_api::machine_deployment::v1alpha2::MachineDeployment;
use drover_api::cluster_api::machine_deployment::{MachineDeploymentSpec, MachineTemplate};
use drover_api::cluster_api::machine_set::MachineSetSpec;
use drover_api::cluster_api::machine_set::v1alpha2::MachineSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::contract::Contract;
use crate::world::kubelet::{digest, hex};
use crate::world::outcome::Action;
use crate::world::pods;
use crate::world::workloads::template::{controlled_by, share};

/// What is done about a MachineDeployment, given the sets that it controls.
pub fn reconcile(deployment: &MachineDeployment, mut sets: Vec<MachineSet>) -> Vec<Action> {
    let spec = deployment.spec.clone().unwrap_or_default();
    if deployment.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    sets.sort_by_key(|set| {
        (set.metadata.creation_timestamp.as_ref().map(|time| time.0), pods::name(&set.metadata).to_owned())
    });
    let before = sets.clone();
    let template = spec.template.clone().unwrap_or_default();
    let new = sets.iter().position(|set| has_template(set, &template));
    let mut actions = Vec::new();
    if spec.paused != Some(true) {
        match new {
            None => {
                let mut set = made(deployment, &spec, &template, next_revision(&sets, None));
                let replicas = room_for_new(&spec, &sets, 0);
                set.spec.get_or_insert_default().replicas = Some(replicas);
                actions.push(Action::create(&set));
            }
            Some(new) => {
                revise(&mut sets, new);
                grow_new(&spec, &mut sets, new);
                shrink_old(&spec, &mut sets, new);
            }
        }
    }
    actions.extend(before.iter().zip(&sets).filter_map(|(before, after)| Action::change(before, after)));
    let described = described(deployment, &spec, &sets, new);
    if is_complete(&described, &spec) {
        let limit = spec.revision_history_limit.unwrap_or(1).try_into().unwrap_or(0_usize);
        let mut idle: Vec<(usize, &MachineSet)> = sets.iter().enumerate().filter(|(at, _)| Some(*at) != new).collect();
        idle.retain(|(_, set)| size(set) == 0 && counted(set, |status| status.replicas) == 0);
        idle.sort_by_key(|(_, set)| revision(set));
        let surplus = idle.len().saturating_sub(limit);
        actions.extend(idle.into_iter().take(surplus).map(|(_, set)| Action::delete(set)));
    }
    actions.extend(Action::change(deployment, &described));
    actions
}

fn wanted(spec: &MachineDeploymentSpec) -> i32 {
    spec.replicas.unwrap_or(1)
}

fn max_surge(spec: &MachineDeploymentSpec) -> i32 {
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    rolling.and_then(|rolling| rolling.max_surge.as_ref()).map_or(1, |most| share(Some(most), wanted(spec), true))
}

fn max_unavailable(spec: &MachineDeploymentSpec) -> i32 {
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let most = share(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), wanted(spec), false);
    // Rounding may leave no way forward.
    if most == 0 && max_surge(spec) == 0 { 1 } else { most.min(wanted(spec)) }
}

fn room_for_new(spec: &MachineDeploymentSpec, sets: &[MachineSet], current: i32) -> i32 {
    let total: i32 = sets.iter().map(size).sum();
    let room = wanted(spec) + max_surge(spec) - total;
    current + room.min(wanted(spec) - current).max(0)
}

fn grow_new(spec: &MachineDeploymentSpec, sets: &mut [MachineSet], new: usize) {
    let current = sets.get(new).map_or(0, size);
    let to = if current >= wanted(spec) { wanted(spec) } else { room_for_new(spec, sets, current) };
    scale(sets, new, to);
}

/// Old Machines that are not available first, then as many as availability allows, the oldest sets first.
fn shrink_old(spec: &MachineDeploymentSpec, sets: &mut [MachineSet], new: usize) {
    let least = wanted(spec) - max_unavailable(spec);
    let total: i32 = sets.iter().map(size).sum();
    let new_unavailable = sets.get(new).map_or(0, |set| size(set) - counted(set, |status| status.available_replicas));
    let most = total - least - new_unavailable;
    if most <= 0 {
        return;
    }
    let old: Vec<usize> =
        (0..sets.len()).filter(|at| *at != new && sets.get(*at).is_some_and(|set| size(set) > 0)).collect();
    let mut taken = 0;
    for at in &old {
        let Some(set) = sets.get(*at) else { continue };
        let unavailable = size(set) - counted(set, |status| status.available_replicas);
        let now = unavailable.min(most - taken).max(0);
        let to = size(set) - now;
        scale(sets, *at, to);
        taken += now;
    }
    let available: i32 = sets.iter().map(|set| counted(set, |status| status.available_replicas)).sum();
    let mut spare = available - least;
    for at in old {
        let current = sets.get(at).map_or(0, size);
        let now = current.min(spare).max(0);
        scale(sets, at, current - now);
        spare -= now;
    }
}

fn scale(sets: &mut [MachineSet], at: usize, to: i32) {
    if let Some(set) = sets.get_mut(at) {
        set.spec.get_or_insert_default().replicas = Some(to);
    }
}

/// The new set has the highest revision, also where it is one of before that is gone back to.
fn revise(sets: &mut [MachineSet], new: usize) {
    let next = next_revision(sets, Some(new));
    if let Some(set) = sets.get_mut(new).filter(|set| revision(set) < next) {
        let key = Contract::of(&set.api_version).revision();
        set.metadata.annotations.get_or_insert_default().insert(key.into(), next.to_string());
    }
}

fn next_revision(sets: &[MachineSet], new: Option<usize>) -> i64 {
    sets.iter().enumerate().filter(|(at, _)| Some(*at) != new).map(|(_, set)| revision(set)).max().unwrap_or(0) + 1
}

fn made(
    deployment: &MachineDeployment,
    spec: &MachineDeploymentSpec,
    template: &MachineTemplate,
    revision: i64,
) -> MachineSet {
    let hash = hash(template);
    let contract = Contract::of(&deployment.api_version);
    let [desired, most] = contract.sizes();
    let mut set = MachineSet::named(&format!("{}-{hash}", pods::name(&deployment.metadata)));
    set.api_version.clone_from(&deployment.api_version);
    let mut template = template.clone();
    template.metadata.get_or_insert_default().labels.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash.clone());
    let mut selector = spec.selector.clone().unwrap_or_default();
    selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash);
    set.metadata = ObjectMeta {
        namespace: deployment.metadata.namespace.clone(),
        labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
        owner_references: Some(vec![OwnerReference {
            api_version: deployment.api_version.clone(),
            ..controlled_by(deployment)
        }]),
        annotations: Some(
            [
                (contract.revision().to_owned(), revision.to_string()),
                (desired.to_owned(), wanted(spec).to_string()),
                (most.to_owned(), (wanted(spec) + max_surge(spec)).to_string()),
            ]
            .into(),
        ),
        ..set.metadata
    };
    set.spec = Some(MachineSetSpec {
        cluster_name: spec.cluster_name.clone(),
        replicas: Some(0),
        min_ready_seconds: spec.min_ready_seconds,
        selector: Some(selector),
        template: Some(template),
        ..MachineSetSpec::default()
    });
    set
}

/// A short name for a template, the same for the same one.
pub fn hash(template: &MachineTemplate) -> String {
    let text = serde_json::to_string(template).unwrap_or_default();
    hex(&digest(&["machine template", &text])).chars().take(8).collect()
}

/// Whether a set has this template, apart from the label that it got itself.
fn has_template(set: &MachineSet, template: &MachineTemplate) -> bool {
    let Some(mut own) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else { return false };
    if let Some(labels) = own.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    own == *template
}

fn described(
    deployment: &MachineDeployment,
    spec: &MachineDeploymentSpec,
    sets: &[MachineSet],
    new: Option<usize>,
) -> MachineDeployment {
    let mut after = deployment.clone();
    let sum = |count: fn(&MachineSet) -> i32| sets.iter().map(count).sum::<i32>();
    let available = sum(|set| counted(set, |status| status.available_replicas));
    let status = after.status.get_or_insert_default();
    status.observed_generation = deployment.metadata.generation;
    status.replicas = Some(sum(|set| counted(set, |status| status.replicas)));
    status.updated_replicas =
        Some(new.and_then(|new| sets.get(new)).map_or(0, |set| counted(set, |status| status.replicas)));
    status.ready_replicas = Some(sum(|set| counted(set, |status| status.ready_replicas)));
    status.available_replicas = Some(available);
    status.unavailable_replicas = Some((wanted(spec) - available).max(0));
    after
}

fn is_complete(deployment: &MachineDeployment, spec: &MachineDeploymentSpec) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let all = Some(wanted(spec));
    [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| *count == all)
}

fn revision(set: &MachineSet) -> i64 {
    let said = set.metadata.annotations.as_ref().and_then(|all| all.get(Contract::of(&set.api_version).revision()));
    said.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn size(set: &MachineSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

fn counted(set: &MachineSet, count: fn(&drover_api::cluster_api::machine_set::MachineSetStatus) -> Option<i32>) -> i32 {
    set.status.as_ref().and_then(count).unwrap_or(0)
}
