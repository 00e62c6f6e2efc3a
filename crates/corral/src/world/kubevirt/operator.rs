//! virt-operator, which brings the installation to its own version: a chart that brings another operator is ready before that is done. Workloads
//! follow it then, once each; one whose migration fails is not tried again.

use std::time::Duration;

use drover_api::kubevirt::kube_virt::{DEPLOYED, DEPLOYING, KubeVirt, PROGRESSING};
use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_api::kubevirt::virtual_machine_instance_migration::{WORKLOAD_UPDATE, WORKLOAD_UPDATE_PREFIX};
use drover_clock::later;
use jiff::Timestamp;

use super::{has_ended, is_leaving, is_migratable, loose, migration};
use crate::world::annotations::{CHART_DURATION, Lasts, OPERATOR_VERSION, lasts_for_all};
use crate::world::outcome::{Action, Outcome};

/// How long that takes if nothing else is said.
const RAISING: Duration = Duration::from_secs(20);

/// `workloads` are moved to the new version.
pub fn reconcile(installed: &KubeVirt, workloads: &[VirtualMachineInstance], now: Timestamp) -> Outcome {
    let told = installed.metadata.annotations.as_ref();
    let Some(wanted) = told.and_then(|told| told.get(OPERATOR_VERSION)) else { return Outcome::nothing() };
    let mut after = installed.clone();
    let status = after.status.get_or_insert_default();
    if status.observed_version.as_ref() == Some(wanted) {
        return Outcome::nothing();
    }
    let begun = loose::find(status.conditions.as_ref(), PROGRESSING).filter(|condition| condition.is_true());
    let Some(begun) = begun.and_then(|begun| loose::moment(begun.last_transition_time.as_ref())) else {
        status.phase = Some(DEPLOYING.into());
        loose::set(&mut status.conditions, PROGRESSING, "True", None, now);
        return Outcome::act(vec![Action::status(&after)]);
    };
    let done = match lasts_for_all(told, CHART_DURATION) {
        Some(Lasts::Forever) => return Outcome::nothing(),
        Some(Lasts::For(time)) => later(begun, time),
        None => later(begun, RAISING),
    };
    if now < done {
        return Outcome::wait_until(done);
    }
    (status.phase, status.observed_version) = (Some(DEPLOYED.into()), Some(wanted.clone()));
    loose::set(&mut status.conditions, PROGRESSING, "False", None, now);
    let moved = workloads.iter().filter(|one| !has_ended(one) && !is_leaving(one) && is_migratable(one));
    Outcome::act([Action::status(&after)].into_iter().chain(moved.map(follow)).collect())
}

fn follow(instance: &VirtualMachineInstance) -> Action {
    Action::create(&migration::of(instance, WORKLOAD_UPDATE_PREFIX, WORKLOAD_UPDATE, ""))
}
