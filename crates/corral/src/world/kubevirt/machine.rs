//! Virtual machines: whether an instance of each should run, by its run strategy and by what was asked for.
//!
//! Models `pkg/virt-controller/watch/vm` of KubeVirt 1.6.

use drover_api::kubevirt::virtual_machine::{START, STOP, StateChangeRequest, VirtualMachine, strategies};
use drover_api::kubevirt::virtual_machine_instance::{FINALIZER, VirtualMachineInstance, conditions, phases};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{has_ended, is_leaving, is_migrating, phase};
use crate::world::loose;
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;
use crate::world::workloads::template::controlled_by;

/// What to do about a machine, given the instance of its name.
pub fn reconcile(machine: &VirtualMachine, instance: Option<&VirtualMachineInstance>, now: Timestamp) -> Outcome {
    let own = instance.filter(|instance| is_of(instance, machine));
    if machine.metadata.deletion_timestamp.is_some() {
        let stop = own.filter(|instance| !is_leaving(instance)).map(Action::delete);
        return Outcome::act(stop.into_iter().chain(describe(machine, own, None, now)).collect());
    }
    if instance.is_some() && own.is_none() {
        // The name is taken by an instance of somebody else.
        return Outcome::nothing();
    }
    let (act, requests) = decide(machine, own);
    let deed = match act {
        Act::Nothing => None,
        Act::Start => Some(Action::create(&start(machine))),
        Act::Stop => own.filter(|instance| !is_leaving(instance)).map(Action::delete),
    };
    Outcome::act(deed.into_iter().chain(describe(machine, own, Some(requests), now)).collect())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Nothing,
    Start,
    Stop,
}

/// What has to be done, and the requests that are left then.
fn decide(machine: &VirtualMachine, own: Option<&VirtualMachineInstance>) -> (Act, Vec<StateChangeRequest>) {
    let mut requests =
        machine.status.as_ref().and_then(|status| status.state_change_requests.clone()).unwrap_or_default();
    // A stop is done when the instance that it named is no longer there.
    let named = |request: &StateChangeRequest, instance: &VirtualMachineInstance| {
        request.uid.as_deref() == Some(pods::uid(&instance.metadata))
    };
    let is_done = |request: &StateChangeRequest| own.is_none_or(|instance| !named(request, instance));
    if requests.first().is_some_and(|first| first.action.as_deref() == Some(STOP) && is_done(first)) {
        requests.remove(0);
    }
    let first = requests.first().and_then(|first| first.action.as_deref());
    if first == Some(STOP) {
        return (Act::Stop, requests);
    }
    if first == Some(START) {
        return match own {
            None => {
                requests.remove(0);
                (Act::Start, requests)
            }
            // What is left of the last run makes room first.
            Some(instance) if has_ended(instance) => (Act::Stop, requests),
            Some(_) => {
                requests.remove(0);
                (Act::Nothing, requests)
            }
        };
    }
    let act = match (strategy(machine), own) {
        (strategies::ALWAYS, None) => Act::Start,
        (strategies::ALWAYS, Some(instance)) if has_ended(instance) => Act::Stop,
        (strategies::RERUN_ON_FAILURE | strategies::ONCE, None) if !has_run(machine) => Act::Start,
        (strategies::RERUN_ON_FAILURE, None) if failed_last(machine) => Act::Start,
        (strategies::RERUN_ON_FAILURE, Some(instance)) if phase(instance) == phases::FAILED => Act::Stop,
        (strategies::HALTED, Some(_)) => Act::Stop,
        _ => Act::Nothing,
    };
    (act, requests)
}

pub fn strategy(machine: &VirtualMachine) -> &str {
    let spec = machine.spec.as_ref();
    match (spec.and_then(|spec| spec.run_strategy.as_deref()), spec.and_then(|spec| spec.running)) {
        (Some(strategy), _) => strategy,
        (None, Some(true)) => strategies::ALWAYS,
        (None, _) => strategies::HALTED,
    }
}

fn is_of(instance: &VirtualMachineInstance, machine: &VirtualMachine) -> bool {
    pods::controller(&instance.metadata).is_some_and(|owner| owner.uid == pods::uid(&machine.metadata))
}

fn has_run(machine: &VirtualMachine) -> bool {
    printed(machine).is_some_and(|printed| printed != "Starting")
}

/// The instance that was taken away had failed.
fn failed_last(machine: &VirtualMachine) -> bool {
    printed(machine) == Some(CRASHED)
}

fn printed(machine: &VirtualMachine) -> Option<&str> {
    machine.status.as_ref()?.printable_status.as_deref()
}

/// The instance of a machine, as its template says.
fn start(machine: &VirtualMachine) -> VirtualMachineInstance {
    let template = machine.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let mut instance = VirtualMachineInstance::named(pods::name(&machine.metadata));
    let metadata: ObjectMeta = read(&template["metadata"]);
    let mut labels = metadata.labels.unwrap_or_default();
    labels.entry("vm.kubevirt.io/name".into()).or_insert_with(|| pods::name(&machine.metadata).into());
    instance.metadata.namespace = machine.metadata.namespace.clone();
    instance.metadata.labels = Some(labels);
    instance.metadata.annotations = metadata.annotations;
    instance.metadata.finalizers = Some(vec![FINALIZER.into()]);
    instance.metadata.owner_references = Some(vec![controlled_by(machine)]);
    instance.spec = Some(read(&template["spec"]));
    instance
}

/// A template that cannot be read counts as empty.
fn read<T: serde::de::DeserializeOwned + Default>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// What a machine prints whose instance has failed and is to be started again.
const CRASHED: &str = "CrashLoopBackOff";

fn describe(
    machine: &VirtualMachine,
    own: Option<&VirtualMachineInstance>,
    requests: Option<Vec<StateChangeRequest>>,
    now: Timestamp,
) -> Option<Action> {
    let mut after = machine.clone();
    let status = after.status.get_or_insert_default();
    let ready = own.is_some_and(|instance| phase(instance) == phases::RUNNING && !is_leaving(instance));
    status.created = own.map(|_| true);
    status.ready = Some(true).filter(|_| ready);
    status.printable_status = Some(print(machine, own).into());
    if let Some(requests) = requests {
        status.state_change_requests = Some(requests).filter(|requests| !requests.is_empty());
    }
    let because = (!ready).then_some(("VMINotExists", "VMI does not exist")).filter(|_| own.is_none());
    loose::set(&mut status.conditions, conditions::READY, if ready { "True" } else { "False" }, because, now);
    (after != *machine).then(|| Action::status(&after))
}

fn print(machine: &VirtualMachine, own: Option<&VirtualMachineInstance>) -> &'static str {
    if machine.metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let runs_on = matches!(strategy(machine), strategies::ALWAYS | strategies::RERUN_ON_FAILURE);
    let Some(instance) = own else {
        return match strategy(machine) {
            strategies::ALWAYS => "Starting",
            strategies::RERUN_ON_FAILURE | strategies::ONCE if !has_run(machine) || failed_last(machine) => "Starting",
            _ => "Stopped",
        };
    };
    match phase(instance) {
        phases::FAILED if runs_on => CRASHED,
        phases::SUCCEEDED | phases::FAILED if is_leaving(instance) && runs_on && printed(machine) == Some(CRASHED) => {
            CRASHED
        }
        phases::SUCCEEDED | phases::FAILED => "Stopped",
        _ if is_leaving(instance) => "Stopping",
        phases::RUNNING if is_migrating(instance) => "Migrating",
        phases::RUNNING => "Running",
        _ if is_unschedulable(instance) => "ErrorUnschedulable",
        _ => "Starting",
    }
}

fn is_unschedulable(instance: &VirtualMachineInstance) -> bool {
    let conditions = instance.status.as_ref().and_then(|status| status.conditions.as_ref());
    loose::find(conditions, pods::POD_SCHEDULED).is_some_and(|condition| condition.status == "False")
}
