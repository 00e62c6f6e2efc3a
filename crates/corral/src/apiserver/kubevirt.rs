//! `subresources.kubevirt.io`: starting, stopping and restarting virtual machines, as virt-api does it.
//!
//! It changes the VirtualMachine and leaves the rest to whoever runs machines. Served while the kind is defined.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    ApiServer,
    object::{Meta, Object, at, text},
    request::Path,
    service::{ApiBody, json_value, page_not_found, respond},
    status::{Answer, conflict, method_not_allowed, not_found},
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
        path.plural == "virtualmachines" && ["start", "stop", "restart"].contains(&path.subresource.as_str());
    let version = resource.storage_version.clone();
    is_known.then(|| Target { resource, version, namespace: path.namespace.clone(), name: path.name.clone() })
}

/// Which change of the machine does what is asked for, by its run strategy.
fn decide(store: &Store, target: &Target, machine: &Object, verb: &str) -> Answer<(Part, Value)> {
    let refused = |why: &str| Err(conflict(&target.resource.id, &target.name, why));
    let instance = instance(store, machine);
    let strategy = strategy(machine);
    let runs = json!({ "spec": running(machine, true) });
    let halts = json!({ "spec": running(machine, false) });
    let requests = |requests: Value| Ok((Part::Status, json!({ "status": { "stateChangeRequests": requests } })));
    let stop = |uid: &str| json!({ "action": "Stop", "uid": uid });
    match (verb, strategy, instance.as_deref()) {
        ("start", _, Some(_)) => refused("VM is already running"),
        ("start", "Halted", None) => Ok((Part::Main, runs)),
        ("start", "Manual" | "RerunOnFailure" | "Once", None) => requests(json!([{ "action": "Start" }])),
        ("start", strategy, None) => refused(&format!("{strategy} does not support manual start requests")),
        ("stop", "Halted", None) => refused("VM is not running"),
        ("stop", "Manual", None) => refused("VM is not running"),
        ("stop", "Manual", Some(uid)) => requests(json!([stop(uid)])),
        ("stop", _, _) => Ok((Part::Main, halts)),
        (_, "Halted", _) => refused("Halted does not support manual restart requests"),
        (_, _, None) => refused("VM is not running"),
        (_, _, Some(uid)) => requests(json!([stop(uid), { "action": "Start" }])),
    }
}

/// The uid of what runs of a machine, while it does.
fn instance(store: &Store, machine: &Object) -> Option<String> {
    let instances = store.find(MACHINES, "virtualmachineinstances")?;
    let key = super::store::key(machine.namespace(), machine.name());
    let instance = instances.objects.get(key.as_str())?.object().ok()?;
    let has_ended = ["Succeeded", "Failed"].contains(&text(&instance, &["status", "phase"]));
    (!has_ended).then(|| instance.uid().to_string())
}

fn strategy(machine: &Object) -> &str {
    match (text(machine, &["spec", "runStrategy"]), at(machine, &["spec", "running"])) {
        ("", Some(Value::Bool(true))) => "Always",
        ("", _) => "Halted",
        (strategy, _) => strategy,
    }
}

/// How a machine says that it runs: the older ones by a truth value.
fn running(machine: &Object, runs: bool) -> Value {
    match at(machine, &["spec", "running"]).is_some_and(Value::is_boolean) {
        true => json!({ "running": runs }),
        false => json!({ "runStrategy": if runs { "Always" } else { "Halted" } }),
    }
}
