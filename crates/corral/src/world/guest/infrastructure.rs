//! The virtual machine of a Machine: made when there is something to boot with, ready after a while, gone a while after it is
//! told to go.

use std::time::Duration;

use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::vm_operator::virtual_machine::VirtualMachine;
use drover_api::vm_operator::virtual_machine_image::VirtualMachineImage;
use drover_api::wcp::wcp_machine::{FINALIZER, WCPMachine};
use drover_clock::later;
use jiff::Timestamp;
use serde_json::json;

use super::{Steps, drop_finalizer, virtual_machine};
use crate::world::annotations::{self, DELETION_DURATION, Lasts, PROVISIONING_DURATION, PROVISIONING_FAILS};
use crate::world::outcome::Action;
use crate::world::{loose, pods};

/// How long it takes if nothing else is said.
const PROVISIONING: Duration = Duration::from_secs(60);
const DELETION: Duration = Duration::from_secs(15);

/// In the status: since when the machine is as it is.
pub(super) const SINCE: &str = "since";

/// What becomes of the virtual machine.
#[derive(Debug, PartialEq)]
pub enum Course {
    Steps(Steps),
    /// It runs since then: the rest is up to what boots on it.
    Runs(Timestamp),
    /// Somebody has deleted it.
    Lost,
    /// It is switched off, and nothing of it is left.
    Off,
}

/// What it is made for and of.
pub struct Scene<'a> {
    pub machine: Option<&'a Machine>,
    /// What it boots, if that is known.
    pub image: Option<&'a VirtualMachineImage>,
    /// What was made for it.
    pub virtual_machine: Option<&'a VirtualMachine>,
    /// Why it cannot be made, in the words of who would make it: its class or storage class is not there, or there is no quota for it.
    pub lacks: Option<String>,
}

pub fn reconcile(infrastructure: &WCPMachine, scene: &Scene<'_>, now: Timestamp) -> Course {
    let (machine, image) = (scene.machine, scene.image);
    let of_image = image.and_then(|image| image.metadata.annotations.as_ref());
    let told = infrastructure.metadata.annotations.as_ref();
    if let Some(asked) = &infrastructure.metadata.deletion_timestamp {
        let stays = scene.virtual_machine.filter(|vm| vm.metadata.deletion_timestamp.is_none());
        let mut after = infrastructure.clone();
        after.status.get_or_insert_default().vmstatus = Some("deleting".into());
        let own = stays.map(Action::delete).into_iter().chain(Action::change(infrastructure, &after)).collect();
        return match annotations::lasts_for_all(told, DELETION_DURATION).unwrap_or(Lasts::For(DELETION)) {
            Lasts::Forever => Course::Steps(Steps::own(own)),
            Lasts::For(time) if now < later(asked.0, time) => {
                Course::Steps(Steps { wake: Some(later(asked.0, time)), ..Steps::own(own) })
            }
            Lasts::For(_) => Course::Off,
        };
    }
    let is_bootstrapped =
        |machine: &&Machine| machine.status.as_ref().is_some_and(|status| status.bootstrap_ready == Some(true));
    let mut after = infrastructure.clone();
    let finalizers = after.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
        return change(infrastructure, &after);
    }
    let Some(machine) = machine.filter(is_bootstrapped) else {
        after.status.get_or_insert_default().vmstatus = Some("pending".into());
        return change(infrastructure, &after);
    };
    let status = after.status.get_or_insert_default();
    let is_made = status.rest.contains_key(SINCE);
    let fails = [told, of_image].into_iter().flatten().find_map(|all| all.get(PROVISIONING_FAILS));
    let fails = fails.or(scene.lacks.as_ref().filter(|_| !is_made));
    if let Some(why) = fails.filter(|_| status.ready != Some(true)) {
        status.vmstatus = Some("error".into());
        status.rest.insert("errorReason".into(), json!("CreateError"));
        status.rest.insert("errorMessage".into(), json!(why));
        return change(infrastructure, &after);
    }
    let since = loose::moment(status.rest.get(SINCE).and_then(|value| value.as_str()).map(str::to_owned).as_ref());
    let Some(since) = since else {
        status.vmstatus = Some("created".into());
        status.rest.insert(SINCE.into(), json!(loose::text(now)));
        let made = virtual_machine::made(infrastructure, machine).into_iter();
        return Course::Steps(Steps::own(made.chain(Action::change(infrastructure, &after)).collect()));
    };
    let Some(vm) = scene.virtual_machine.filter(|vm| vm.metadata.deletion_timestamp.is_none()) else {
        return Course::Lost;
    };
    if status.ready == Some(true) {
        return Course::Runs(since);
    }
    if !virtual_machine::is_on(vm) {
        return Course::Steps(Steps::own(virtual_machine::described(vm, false).into_iter().collect()));
    }
    let lasts = [told, of_image].into_iter().find_map(|all| annotations::lasts_for_all(all, PROVISIONING_DURATION));
    let ready_at = match lasts.unwrap_or(Lasts::For(PROVISIONING)) {
        Lasts::Forever => return Course::Steps(Steps::default()),
        Lasts::For(time) => later(since, time),
    };
    if now < ready_at {
        let own = virtual_machine::described(vm, false).into_iter().collect();
        return Course::Steps(Steps { wake: Some(ready_at), ..Steps::own(own) });
    }
    let spec = after.spec.get_or_insert_default();
    if spec.provider_id.is_none() {
        spec.provider_id = Some(format!("vsphere://{}", pods::uid(&infrastructure.metadata)));
        return change(infrastructure, &after);
    }
    let status = after.status.get_or_insert_default();
    status.ready = Some(true);
    status.vmstatus = Some("ready".into());
    status.rest.insert(SINCE.into(), json!(loose::text(now)));
    change(infrastructure, &after)
}

/// It has nothing to run on any more, and says so.
pub fn lost(infrastructure: &WCPMachine) -> Option<Action> {
    let mut after = infrastructure.clone();
    let status = after.status.get_or_insert_default();
    status.vmstatus = Some("notfound".into());
    status.rest.insert("errorReason".into(), json!("UpdateError"));
    status.rest.insert("errorMessage".into(), json!("its virtual machine is not there any more"));
    Action::change(infrastructure, &after)
}

/// Whether it is on is said of what runs.
pub fn powered(infrastructure: &WCPMachine, is_on: bool) -> Option<Action> {
    let mut after = infrastructure.clone();
    after.status.get_or_insert_default().vmstatus = Some(if is_on { "ready" } else { "created" }.into());
    Action::change(infrastructure, &after)
}

/// Nothing holds it any more.
pub fn released(infrastructure: &WCPMachine) -> Action {
    let mut after = infrastructure.clone();
    drop_finalizer(&mut after.metadata, FINALIZER);
    Action::update(&after)
}

fn change(before: &WCPMachine, after: &WCPMachine) -> Course {
    Course::Steps(Steps::own(Action::change(before, after).into_iter().collect()))
}
