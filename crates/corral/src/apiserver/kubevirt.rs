//! `subresources.kubevirt.io`: starting, stopping and restarting virtual machines, as virt-api of KubeVirt 1.6 does it.
//!
//! It changes the VirtualMachine and leaves the rest to whoever runs machines. Served while the kind is defined.

use std::sync::Arc;

use drover_api::kubevirt::virtual_machine::{
    START, STOP,
    strategies::{ALWAYS, HALTED, MANUAL, ONCE, RERUN_ON_FAILURE},
    verbs,
};
use drover_api::kubevirt::virtual_machine_instance::phases::{FAILED, SUCCEEDED};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    ApiServer,
    object::{Meta, Object, at, text},
    request::Path,
    service::{ApiBody, json_value, page_not_found, respond},
    status::{Answer, conflict, internal, method_not_allowed, not_found},
    store::{Cause, Store, Verb},
    verbs::{Target, patch::Patch, update::Part},
    write::{self, Intent, Write},
};

pub(super) const GROUP: &str = "subresources.kubevirt.io";
const MACHINES: &str = "kubevirt.io";

pub(super) async fn answer(
    server: &ApiServer,
    actor: &Arc<str>,
    method: &http::Method,
    path: &Path,
) -> Answer<Response<ApiBody>> {
    if path.plural == "healthz" {
        return Ok(json_value(StatusCode::OK, &json!({ "apiserver": { "connectivity": "ok" } })));
    }
    let Some(target) = server.store().with(|store| machine(store, path)) else { return Ok(page_not_found()) };
    if method != http::Method::PUT {
        return Err(method_not_allowed());
    }
    let (part, change) = server.store().with(|store| {
        let id = &target.resource.id;
        let found = store.get(id, &target.key()).ok_or_else(|| not_found(id, &target.name))?;
        decide(store, &target, &found.object()?, &path.subresource)
    })?;
    let cause = Cause { actor, at: server.clock().now(), verb: Verb::Patch, subresource: "" };
    write::run(server, &Write::inside(cause, &target), Intent::Patch(part, Patch::Merge(change))).await?;
    Ok(respond(StatusCode::ACCEPTED, "text/plain", ApiBody::from("")))
}

fn machine(store: &Store, path: &Path) -> Option<Target> {
    let resource = store.find(MACHINES, &path.plural)?.resource.clone();
    let is_known =
        path.plural == "virtualmachines" && [verbs::START, verbs::STOP, "restart"].contains(&path.subresource.as_str());
    let version = resource.storage_version.clone();
    is_known.then(|| Target { resource, version, namespace: path.namespace.clone(), name: path.name.clone() })
}

/// Which change of the machine does what is asked for, by its run strategy. One that leaves it to others when the machine runs stays as
/// it is: virt-controller is asked for by a request in the status.
fn decide(store: &Store, target: &Target, machine: &Object, verb: &str) -> Answer<(Part, Value)> {
    let refused = |why: &str| Err(conflict(&target.resource.id, &target.name, why));
    let instance = instance(store, machine);
    let (live, ended) =
        (instance.as_ref().filter(|one| !one.has_ended()), instance.as_ref().filter(|one| one.has_ended()));
    let strategy = strategy(machine);
    let is_busy =
        at(machine, &["status", "stateChangeRequests"]).and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    let main = |runs: bool| Ok((Part::Main, json!({ "spec": running(machine, runs) })));
    let asked = |requests: Value| Ok((Part::Status, json!({ "status": { "stateChangeRequests": requests } })));
    let stop = |instance: &Instance| json!({ "action": STOP, "uid": instance.uid });
    let start = json!({ "action": START });
    // A stop takes the place of whatever is asked for; nothing else does.
    let asked_if_idle = |requests: Value| match is_busy {
        true => Err(internal("unable to complete request: stop/start already underway")),
        false => asked(requests),
    };
    match (verb, strategy, live) {
        (verbs::START, _, Some(_)) => refused("VM is already running"),
        (verbs::START, HALTED, None) => main(true),
        (verbs::START, RERUN_ON_FAILURE | MANUAL, None) => match ended {
            Some(ended) if strategy == RERUN_ON_FAILURE && ended.phase == FAILED => {
                refused(&format!("{strategy} does not support starting VM from failed state"))
            }
            Some(ended) => asked_if_idle(json!([stop(ended), start])),
            None => asked_if_idle(json!([start])),
        },
        (verbs::START, strategy, None) => refused(&format!("{strategy} does not support manual start requests")),
        (verbs::STOP, HALTED, Some(_)) => {
            refused(&format!("{HALTED} only supports manual stop requests with a shorter graceperiod"))
        }
        (verbs::STOP, HALTED | RERUN_ON_FAILURE | MANUAL, None) => refused("VM is not running"),
        (verbs::STOP, RERUN_ON_FAILURE | MANUAL, Some(live)) => asked(json!([stop(live)])),
        (verbs::STOP, ..) => main(false),
        (_, HALTED | ONCE, _) => refused(&format!("RunStategy {strategy} does not support manual restart requests")),
        _ => match &instance {
            Some(instance) => asked_if_idle(json!([stop(instance), start])),
            None => refused("VM is not running: Halted"),
        },
    }
}

/// What there is of a machine that was started.
struct Instance {
    uid: String,
    phase: String,
}

impl Instance {
    fn has_ended(&self) -> bool {
        [SUCCEEDED, FAILED].contains(&self.phase.as_str())
    }
}

fn instance(store: &Store, machine: &Object) -> Option<Instance> {
    let instances = store.find(MACHINES, "virtualmachineinstances")?;
    let key = super::store::key(machine.namespace(), machine.name());
    let instance = instances.objects.get(key.as_str())?.object().ok()?;
    let phase = text(&instance, &["status", "phase"]).to_owned();
    Some(Instance { uid: instance.uid().to_string(), phase })
}

fn strategy(machine: &Object) -> &str {
    match (text(machine, &["spec", "runStrategy"]), at(machine, &["spec", "running"])) {
        ("", Some(Value::Bool(true))) => ALWAYS,
        ("", _) => HALTED,
        (strategy, _) => strategy,
    }
}

/// How a machine says that it runs: the older ones by a truth value.
fn running(machine: &Object, runs: bool) -> Value {
    match at(machine, &["spec", "running"]).is_some_and(Value::is_boolean) {
        true => json!({ "running": runs }),
        false => json!({ "runStrategy": if runs { ALWAYS } else { HALTED } }),
    }
}
