//! The virtual machine of a Machine: made when there is something to boot with, ready after a while, gone a while after it is
//! told to go.

use std::time::Duration;

use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::vm_operator::virtual_machine_image::VirtualMachineImage;
use drover_api::wcp::wcp_machine::{FINALIZER, WCPMachine};
use drover_clock::later;
use jiff::Timestamp;
use serde_json::json;

use super::{Steps, drop_finalizer};
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
    /// It is switched off, and nothing of it is left.
    Off,
}

/// What it is made for and of.
pub struct Scene<'a> {
    pub machine: Option<&'a Machine>,
    /// What it boots, if that is known.
    pub image: Option<&'a VirtualMachineImage>,
    /// Why it cannot be made, in the words of who would make it: its class or storage class is not there, or there is no quota for it.
    pub lacks: Option<String>,
}

pub fn reconcile(infrastructure: &WCPMachine, scene: &Scene<'_>, now: Timestamp) -> Course {
    let (machine, image) = (scene.machine, scene.image);
    let of_image = image.and_then(|image| image.metadata.annotations.as_ref());
    let told = infrastructure.metadata.annotations.as_ref();
    if let Some(asked) = &infrastructure.metadata.deletion_timestamp {
        return match annotations::lasts_for_all(told, DELETION_DURATION).unwrap_or(Lasts::For(DELETION)) {
            Lasts::Forever => Course::Steps(Steps::default()),
            Lasts::For(time) if now < later(asked.0, time) => Course::Steps(Steps::wait_until(later(asked.0, time))),
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
    if machine.filter(is_bootstrapped).is_none() {
        return Course::Steps(Steps::default());
    }
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
        return change(infrastructure, &after);
    };
    if status.ready == Some(true) {
        return Course::Runs(since);
    }
    let lasts = [told, of_image].into_iter().find_map(|all| annotations::lasts_for_all(all, PROVISIONING_DURATION));
    let ready_at = match lasts.unwrap_or(Lasts::For(PROVISIONING)) {
        Lasts::Forever => return Course::Steps(Steps::default()),
        Lasts::For(time) => later(since, time),
    };
    if now < ready_at {
        return Course::Steps(Steps::wait_until(ready_at));
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

/// Nothing holds it any more.
pub fn released(infrastructure: &WCPMachine) -> Action {
    let mut after = infrastructure.clone();
    drop_finalizer(&mut after.metadata, FINALIZER);
    Action::update(&after)
}

fn change(before: &WCPMachine, after: &WCPMachine) -> Course {
    Course::Steps(Steps::own(Action::change(before, after).into_iter().collect()))
}
