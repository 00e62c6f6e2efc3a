//! The MachineSet controller: keeps a number of Machines of one template.
//!
//! As in the original, Machines on their way out do not count: a set does not know of one that never goes.

use drover_api::cluster_api::kubeadm_config::v1alpha2::{KubeadmConfig, KubeadmConfigTemplate};
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_set::v1alpha2::MachineSet;
use drover_api::foreign::Reference;
use drover_api::wcp::wcp_machine::WCPMachine;
use drover_api::wcp::wcp_machine_template::WCPMachineTemplate;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::Steps;
use super::contract::Contract;
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
    let contract = Contract::of(&machine.api_version);
    let told = machine.metadata.annotations.as_ref();
    let is_marked = told.is_some_and(|all| all.contains_key(contract.delete_first()));
    let status = machine.status.clone().unwrap_or_default();
    match () {
        () if is_marked => 0,
        () if contract.has_failed(&status) => 1,
        () if status.node_ref.is_none() => 2,
        () => 3,
    }
}

/// A Machine of the template, with a config and an infrastructure of its own.
fn made(
    set: &MachineSet,
    config: &KubeadmConfigTemplate,
    infrastructure: &WCPMachineTemplate,
    number: usize,
    now: Timestamp,
) -> [Action; 3] {
    let lot = hex(&digest(&[pods::uid(&set.metadata), &now.to_string(), &number.to_string()]));
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let named = |name: String| ObjectMeta {
        name: Some(name),
        namespace: set.metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    let mut own_config = KubeadmConfig::named("");
    let contract = Contract::of(&set.api_version);
    own_config.api_version.clone_from(&config.api_version);
    own_config.metadata = named(part(contract, set, &config.metadata, &lot, 5));
    own_config.spec = config.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.clone());
    let mut own_infrastructure = WCPMachine::named("");
    own_infrastructure.api_version.clone_from(&infrastructure.api_version);
    own_infrastructure.metadata = named(part(contract, set, &infrastructure.metadata, &lot, 10));
    own_infrastructure.spec = infrastructure.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.clone());
    let mut machine = Machine::named("");
    machine.api_version.clone_from(&set.api_version);
    let owner = OwnerReference { api_version: set.api_version.clone(), ..controlled_by(set) };
    machine.metadata = ObjectMeta {
        annotations: metadata.annotations.clone(),
        owner_references: Some(vec![owner]),
        ..named(suffixed(&set.metadata, &lot, 0))
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

fn suffixed(metadata: &ObjectMeta, lot: &str, from: usize) -> String {
    format!("{}-{}", pods::name(metadata), &lot[from..from + 5])
}

/// What a part of a Machine is called: after its template, and since v1beta1 as the Machine is.
fn part(contract: Contract, set: &MachineSet, template: &ObjectMeta, lot: &str, from: usize) -> String {
    match contract {
        Contract::V1alpha2 => suffixed(template, lot, from),
        Contract::V1beta1 => suffixed(&set.metadata, lot, 0),
    }
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
