//! The Machine controller: ties a Machine to its bootstrap config, its infrastructure and its Node; drains and clears away one
//! that goes.

use std::time::Duration;

use drover_api::cluster_api::cluster::v1alpha2::Cluster;
use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfig;
use drover_api::cluster_api::machine::annotations::{PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK};
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine::{FINALIZER, MachineStatus, conditions, phases};
use drover_api::foreign::Reference;
use drover_api::wcp::wcp_machine::WCPMachine;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::contract::{Contract, tell};
use super::{Steps, adopt, drop_finalizer, has_provider, is_mirror, owned_by};
use crate::world::annotations::{self, DELETION_DURATION, Lasts};
use crate::world::outcome::Action;
use crate::world::pods;

/// How soon what cannot be found is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// From one try to drain to the next.
const DRAIN_AGAIN: Duration = Duration::from_secs(20);

pub struct Scene<'a> {
    pub machine: &'a Machine,
    pub cluster: Option<&'a Cluster>,
    pub config: Option<&'a KubeadmConfig>,
    pub infrastructure: Option<&'a WCPMachine>,
    /// Of the guest; none while its API does not answer.
    pub nodes: Option<&'a [Node]>,
    /// The pods on the node of the Machine.
    pub pods: &'a [Pod],
    /// No other Machine of the control plane is left.
    pub is_last: bool,
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Steps {
    if scene.machine.metadata.deletion_timestamp.is_some() { end(scene, now) } else { tend(scene, now) }
}

fn tend(scene: &Scene<'_>, now: Timestamp) -> Steps {
    let mut actions = Vec::new();
    if let Some(config) = scene.config {
        let mut after = config.clone();
        adopt(&mut after.metadata, owned_by(scene.machine, &scene.machine.api_version));
        actions.extend(Action::change(config, &after));
    }
    if let Some(infrastructure) = scene.infrastructure {
        let mut after = infrastructure.clone();
        adopt(&mut after.metadata, owned_by(scene.machine, &scene.machine.api_version));
        actions.extend(Action::change(infrastructure, &after));
    }
    let after = described(scene, now);
    actions.extend(Action::change(scene.machine, &after));
    let status = after.status.unwrap_or_default();
    let waits_for_node = status.infrastructure_ready == Some(true) && status.node_ref.is_none();
    Steps { own: actions, guest: Vec::new(), wake: waits_for_node.then(|| later(now, LOOK_AGAIN)) }
}

/// The Machine as it should be.
fn described(scene: &Scene<'_>, now: Timestamp) -> Machine {
    let contract = Contract::of(&scene.machine.api_version);
    let mut after = scene.machine.clone();
    let finalizers = after.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    if let Some(cluster) = scene.cluster {
        adopt(&mut after.metadata, owned_by(cluster, &cluster.api_version));
    }
    let spec = after.spec.get_or_insert_default();
    let status = after.status.get_or_insert_default();
    let bootstrapped =
        scene.config.and_then(|config| config.status.as_ref()).filter(|status| status.ready == Some(true));
    let bootstrap = spec.bootstrap.get_or_insert_default();
    if let Some(said) = bootstrapped {
        bootstrap.data = said.bootstrap_data.clone().or(bootstrap.data.take());
        bootstrap.data_secret_name = said.data_secret_name.clone().or(bootstrap.data_secret_name.take());
    }
    status.bootstrap_ready = Some(bootstrap.data.is_some() || bootstrap.data_secret_name.is_some());
    let ready = scene.infrastructure.filter(|one| one.status.as_ref().is_some_and(|status| status.ready == Some(true)));
    if let Some(id) = ready.and_then(|one| one.spec.as_ref()?.provider_id.clone()) {
        spec.provider_id = Some(id);
    }
    status.infrastructure_ready = Some(ready.is_some());
    if let (Some(id), Some(nodes)) = (&spec.provider_id, scene.nodes)
        && let Some(node) = nodes.iter().find(|node| has_provider(node, id))
    {
        status.node_ref = Some(Reference {
            kind: Some("Node".into()),
            name: node.metadata.name.clone(),
            uid: node.metadata.uid.clone(),
            ..Reference::default()
        });
    }
    let said = |key: &str| scene.infrastructure?.status.as_ref()?.rest.get(key)?.as_str().map(str::to_owned);
    if let Some(reason) = said("errorReason") {
        contract.fail(status, reason, said("errorMessage"));
    }
    let phase = match () {
        () if contract.has_failed(status) => phases::FAILED,
        () if status.node_ref.is_some() => phases::RUNNING,
        () if ready.is_some() => phases::PROVISIONED,
        () if status.bootstrap_ready == Some(true) => phases::PROVISIONING,
        () => phases::PENDING,
    };
    status.phase = Some(contract.phase(phase));
    contract.describe(status, now);
    after
}

/// Drain, Node, bootstrap config and infrastructure, in this order; then it may go.
fn end(scene: &Scene<'_>, now: Timestamp) -> Steps {
    let told = scene.machine.metadata.annotations.as_ref();
    if annotations::lasts_for_all(told, DELETION_DURATION) == Some(Lasts::Forever) {
        return Steps::default();
    }
    let contract = Contract::of(&scene.machine.api_version);
    let mut after = scene.machine.clone();
    let status = after.status.get_or_insert_default();
    status.phase = Some(contract.phase(phases::DELETING));
    let is_drained = leave_guest(scene, now).is_none();
    if contract == Contract::V1beta1 {
        tell_end(status, scene, is_drained, now);
    }
    if let Some(action) = Action::change(scene.machine, &after) {
        return Steps::own(vec![action]);
    }
    if !is_drained && hook(scene, PRE_DRAIN_HOOK).is_some() {
        return Steps::default();
    }
    if let Some(steps) = leave_guest(scene, now) {
        return steps;
    }
    if hook(scene, PRE_TERMINATE_HOOK).is_some() {
        return Steps::default();
    }
    let mut actions = Vec::new();
    actions.extend(scene.config.filter(|one| one.metadata.deletion_timestamp.is_none()).map(Action::delete));
    actions.extend(scene.infrastructure.filter(|one| one.metadata.deletion_timestamp.is_none()).map(Action::delete));
    if scene.config.is_none() && scene.infrastructure.is_none() {
        drop_finalizer(&mut after.metadata, FINALIZER);
        actions.push(Action::update(&after));
    }
    Steps::own(actions)
}

/// Who holds up the end of a Machine at this stage: v1alpha2 lets nobody do so.
fn hook<'a>(scene: &'a Scene<'_>, stage: &str) -> Option<&'a String> {
    let told = scene.machine.metadata.annotations.as_ref();
    let told = told.filter(|_| Contract::of(&scene.machine.api_version) == Contract::V1beta1);
    told?.iter().find(|(key, _)| key.starts_with(stage)).map(|(key, _)| key)
}

/// The stages of its end, each false while it lasts.
fn tell_end(status: &mut MachineStatus, scene: &Scene<'_>, is_drained: bool, now: Timestamp) {
    let held = |stage: &str| hook(scene, stage).map(String::as_str);
    let before_drain = held(PRE_DRAIN_HOOK).filter(|_| !is_drained);
    if let Some(hook) = before_drain {
        tell(status, conditions::PRE_DRAIN_HOOK_SUCCEEDED, Some(("WaitingExternalHook", hook)), now);
        return;
    }
    let draining = (!is_drained).then_some(("Draining", "Draining the node before deletion"));
    tell(status, conditions::DRAINING_SUCCEEDED, draining, now);
    if let Some(hook) = held(PRE_TERMINATE_HOOK).filter(|_| is_drained) {
        tell(status, conditions::PRE_TERMINATE_HOOK_SUCCEEDED, Some(("WaitingExternalHook", hook)), now);
    }
}

/// What is still to be done in the guest; none if nothing is. The Node of the last machine is left alone, and so are those of a cluster that
/// goes as a whole.
fn leave_guest(scene: &Scene<'_>, now: Timestamp) -> Option<Steps> {
    scene.cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_none())?;
    let name = scene.machine.status.as_ref()?.node_ref.as_ref()?.name.as_ref().filter(|_| !scene.is_last)?;
    let Some(nodes) = scene.nodes else { return Some(Steps::wait_until(later(now, DRAIN_AGAIN))) };
    let node = nodes.iter().find(|node| node.metadata.name.as_ref() == Some(name))?;
    if node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true)) {
        let cordon = vec![Action::Cordon { node: name.clone() }];
        return Some(Steps { guest: cordon, wake: Some(now), ..Steps::default() });
    }
    let is_daemon = |pod: &Pod| pods::controller(&pod.metadata).is_some_and(|owner| owner.kind == "DaemonSet");
    let staying: Vec<&Pod> =
        scene.pods.iter().filter(|pod| !is_mirror(pod) && !is_daemon(pod) && !pods::has_ended(pod)).collect();
    if staying.is_empty() {
        return Some(Steps { guest: vec![Action::delete(node)], wake: Some(now), ..Steps::default() });
    }
    let evictions = staying.iter().filter(|pod| !pods::is_leaving(pod)).map(|pod| Action::Evict {
        namespace: pods::namespace(&pod.metadata).into(),
        name: pods::name(&pod.metadata).into(),
        grace_period_seconds: None,
    });
    Some(Steps { guest: evictions.collect(), wake: Some(later(now, DRAIN_AGAIN)), ..Steps::default() })
}
