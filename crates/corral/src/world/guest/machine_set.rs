//! The MachineSet controller: keeps a number of Machines of one template.
//!
//! As in the original, Machines on their way out do not count: a set does not know of one that never goes.

use drover_api::cluster_api::kubeadm_config::v1alpha2::{KubeadmConfig, KubeadmConfigTemplate};
use drover_api::cluster_api::machine::annotations::DELETE_FIRST_V1ALPHA2;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_set::v1alpha2::MachineSet;
use drover_api::foreign::Reference;
use drover_api::wcp::wcp_machine::WCPMachine;
use drover_api::wcp::wcp_machine_template::WCPMachineTemplate;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Steps;
use crate::world::kubelet::{digest, hex};
use crate::world::outcome::{Action, seconds_after};
use crate::world::pods;
use crate::world::workloads::template::{controlled_by, count};

/// How soon a template is looked for again, and a Node that is not ready.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

pub struct Scene<'a> {
    pub set: &'a MachineSet,
    /// Those that it controls.
    pub machines: &'a [Machine],
    pub config: Option<&'a KubeadmConfigTemplate>,
    pub infrastructure: Option<&'a WCPMachineTemplate>,
    /// Of the guest; none while its API does not answer.
    pub nodes: Option<&'a [Node]>,
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Steps {
    let set = scene.set;
    if set.metadata.deletion_timestamp.is_some() {
        return Steps::default();
    }
    let mut alive: Vec<&Machine> =
        scene.machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).collect();
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).try_into().unwrap_or(0_usize);
    let mut steps = Steps::default();
    if alive.len() > wanted {
        alive.sort_by_key(|machine| (rank(machine), pods::name(&machine.metadata).to_owned()));
        steps.own.extend(alive.drain(..alive.len() - wanted).map(Action::delete));
    }
    for number in alive.len()..wanted {
        match (scene.config, scene.infrastructure) {
            (Some(config), Some(infrastructure)) => {
                steps.own.extend(made(set, config, infrastructure, number, now));
            }
            _ => steps.wake = Some(later(now, LOOK_AGAIN)),
        }
    }
    let (described, settles) = described(scene, &alive, now);
    steps.own.extend(Action::change(set, &described));
    if !settles {
        steps.wake = Some(later(now, LOOK_AGAIN));
    }
    steps
}

/// Who goes first: whoever is marked for it, has failed, or is no Node yet.
fn rank(machine: &Machine) -> u8 {
    let is_marked = machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DELETE_FIRST_V1ALPHA2));
    let status = machine.status.clone().unwrap_or_default();
    match () {
        () if is_marked => 0,
        () if status.error_reason.is_some() || status.error_message.is_some() => 1,
        () if status.node_ref.is_none() => 2,
        () => 3,
    }
}

/// A Machine of the template, with a config and an infrastructure of its own, which are called after their templates.
fn made(
    set: &MachineSet,
    config: &KubeadmConfigTemplate,
    infrastructure: &WCPMachineTemplate,
    number: usize,
    now: Timestamp,
) -> [Action; 3] {
    let lot = hex(&digest(&[pods::uid(&set.metadata), &now.to_string(), &number.to_string()]));
    let suffixed = |metadata: &ObjectMeta, from: usize| format!("{}-{}", pods::name(metadata), &lot[from..from + 5]);
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let named = |name: String| ObjectMeta {
        name: Some(name),
        namespace: set.metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    let mut own_config = KubeadmConfig::named("");
    own_config.metadata = named(suffixed(&config.metadata, 5));
    own_config.spec = config.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.clone());
    let mut own_infrastructure = WCPMachine::named("");
    own_infrastructure.metadata = named(suffixed(&infrastructure.metadata, 10));
    own_infrastructure.spec = infrastructure.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.clone());
    let mut machine = Machine::named("");
    machine.metadata = ObjectMeta {
        annotations: metadata.annotations.clone(),
        owner_references: Some(vec![controlled_by(set)]),
        ..named(suffixed(&set.metadata, 0))
    };
    let mut spec = template.spec.unwrap_or_default();
    let refer = |kind: &str, api_version: &str, metadata: &ObjectMeta| Reference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        ..Reference::default()
    };
    spec.bootstrap.get_or_insert_default().config_ref =
        Some(refer(&own_config.kind, &own_config.api_version, &own_config.metadata));
    spec.infrastructure_ref =
        Some(refer(&own_infrastructure.kind, &own_infrastructure.api_version, &own_infrastructure.metadata));
    machine.spec = Some(spec);
    [Action::create(&own_config), Action::create(&own_infrastructure), Action::create(&machine)]
}

/// The set with its counts, and whether they can stay so without anything changing here: Nodes of the guest change elsewhere.
fn described(scene: &Scene<'_>, alive: &[&Machine], now: Timestamp) -> (MachineSet, bool) {
    let mut after = scene.set.clone();
    let seconds = after.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let ready_since: Vec<Option<Timestamp>> = alive.iter().map(|machine| ready_since(machine, scene.nodes)).collect();
    let is_available = |since: &&Timestamp| seconds_after(&super::time(**since), seconds.into()) <= now;
    let status = after.status.get_or_insert_default();
    let all = count(alive.iter());
    status.replicas = Some(all);
    status.fully_labeled_replicas = Some(all);
    status.observed_generation = scene.set.metadata.generation;
    // Without an answer of the guest, what was known stays.
    if scene.nodes.is_some() || all == 0 {
        status.ready_replicas = Some(count(ready_since.iter().flatten()));
        status.available_replicas = Some(count(ready_since.iter().flatten().filter(is_available)));
    }
    let settles = status.available_replicas.unwrap_or(0) >= all;
    (after, settles)
}

fn ready_since(machine: &Machine, nodes: Option<&[Node]>) -> Option<Timestamp> {
    let name = machine.status.as_ref()?.node_ref.as_ref()?.name.as_ref()?;
    let node = nodes?.iter().find(|node| node.metadata.name.as_ref() == Some(name))?;
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0))
}
