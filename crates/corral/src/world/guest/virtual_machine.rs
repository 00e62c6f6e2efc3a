//! The VirtualMachine of a machine, as the provider of vSphere makes it and VM Operator keeps it: it has the name of its Machine, is
//! created, switched on, and has an address in the end. Somebody can switch it off, or delete it.
//!
//! Models vm-operator's v1alpha1 as far as an update can see it. Left out: disks, networks, and the host that it is on.

use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::vm_operator::virtual_machine::{
    FINALIZER, VirtualMachine, VirtualMachineSpec, VmMetadata, labels, phases, power,
};
use drover_api::wcp::wcp_machine::WCPMachine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::contract::Contract;
use super::{drop_finalizer, is_of_control_plane, owned_by, watch::cluster_of};
use crate::world::annotations::{self, DOWN_UNTIL, NEVER};
use crate::world::outcome::Action;
use crate::world::pods;

/// What a machine boots with is handed over in a ConfigMap of this name, before v1beta1.
const CLOUD_INIT: &str = "-cloud-init";

/// What is made for a machine.
pub fn made(own: &WCPMachine, machine: &Machine) -> Vec<Action> {
    let bootstrap = machine.spec.as_ref().and_then(|spec| spec.bootstrap.clone()).unwrap_or_default();
    let config = format!("{}{CLOUD_INIT}", pods::name(&own.metadata));
    let metadata = match Contract::of(&machine.api_version) {
        Contract::V1alpha2 => VmMetadata {
            config_map_name: Some(config.clone()),
            transport: Some("ExtraConfig".into()),
            ..VmMetadata::default()
        },
        Contract::V1beta1 => VmMetadata {
            transport: Some("CloudInit".into()),
            rest: [("secretName".to_owned(), json!(bootstrap.data_secret_name))].into(),
            ..VmMetadata::default()
        },
    };
    let data = bootstrap.data.map(|data| ConfigMap {
        metadata: ObjectMeta {
            name: Some(config),
            namespace: own.metadata.namespace.clone(),
            owner_references: Some(vec![owned_by(own, &own.api_version)]),
            ..ObjectMeta::default()
        },
        data: Some(
            [("guestinfo.userdata".to_owned(), data), ("guestinfo.userdata.encoding".to_owned(), "base64".to_owned())]
                .into(),
        ),
        ..ConfigMap::default()
    });
    let created = Action::create(&new(own, machine, metadata));
    data.iter().map(Action::create).chain([created]).collect()
}

fn new(own: &WCPMachine, machine: &Machine, metadata: VmMetadata) -> VirtualMachine {
    let asked = own.spec.clone().unwrap_or_default();
    let is_master = is_of_control_plane(machine);
    let role = if is_master { labels::CONTROL_PLANE } else { labels::NODE };
    let mut vm = VirtualMachine::named(pods::name(&machine.metadata));
    vm.metadata = ObjectMeta {
        namespace: own.metadata.namespace.clone(),
        labels: Some(
            [(labels::CLUSTER.to_owned(), cluster_of(&machine.metadata)), (labels::ROLE.to_owned(), role.to_owned())]
                .into(),
        ),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        owner_references: Some(vec![owned_by(own, &own.api_version)]),
        ..vm.metadata
    };
    vm.spec = Some(VirtualMachineSpec {
        image_name: asked.image_name,
        class_name: asked.class_name,
        storage_class: asked.storage_class,
        power_state: Some(power::ON.to_owned()),
        vm_metadata: Some(metadata),
        readiness_probe: is_master.then(|| json!({ "tcpSocket": { "port": 6443 } })),
        ..VirtualMachineSpec::default()
    });
    vm
}

pub fn is_on(vm: &VirtualMachine) -> bool {
    vm.spec.as_ref().is_none_or(|spec| spec.power_state.as_deref() != Some(power::OFF))
}

/// What VM Operator says of it; `runs` once it has booted.
pub fn described(vm: &VirtualMachine, runs: bool) -> Option<Action> {
    let mut after = vm.clone();
    let status = after.status.get_or_insert_default();
    let is_on = runs && is_on(vm);
    status.phase = Some(if runs { phases::CREATED } else { phases::CREATING }.to_owned());
    status.power_state = Some(if is_on { power::ON } else { power::OFF }.to_owned());
    status.vm_ip = is_on.then(|| "192.0.2.10".to_owned());
    status.bios_uuid = runs.then(|| pods::uid(&vm.metadata).to_owned());
    Action::change(vm, &after)
}

/// Nothing holds it any more.
pub fn released(vm: &VirtualMachine) -> Action {
    let mut after = vm.clone();
    drop_finalizer(&mut after.metadata, FINALIZER);
    Action::update(&after)
}

/// The Node of a machine that is switched on or off; none if it is so already.
pub fn switched(node: &Node, is_on: bool, now: Timestamp) -> Option<Action> {
    let is_off = is_switched_off(node);
    let mut after = node.clone();
    let told = after.metadata.annotations.get_or_insert_default();
    match (is_on, is_off) {
        (true, true) => drop(told.insert(DOWN_UNTIL.into(), now.to_string())),
        (false, false) => drop(told.insert(DOWN_UNTIL.into(), NEVER.into())),
        _ => return None,
    }
    Some(Action::update(&after))
}

/// Nothing on such a machine answers.
pub fn is_switched_off(node: &Node) -> bool {
    annotations::down_until(node.metadata.annotations.as_ref()) == Some(Timestamp::MAX)
}
