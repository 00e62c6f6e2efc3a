//! Requests about parts of objects: their scale, conversations with their containers, what their machine says.

use bytes::Bytes;
use http::{Response, StatusCode};
use kube::core::Status;
use serde_json::Value;

use super::{Ask, JSON_PATCH};
use crate::apiserver::{
    body, kubelet,
    object::{Meta, Object, at, text},
    options::WriteOptions,
    pod_log::{LogOptions, LogStream},
    request::{Wish, content_type},
    scale::Paths,
    service::{ApiBody, json_value, respond},
    status::{Answer, bad_request, method_not_allowed, not_found, patch_rejected, unavailable},
    store::{Store, Verb},
    streams::{self, Conversation, commands::Container},
    verbs::{patch::Patch, read::get, update::Part},
    write::Intent,
};

const PLAIN: &str = "text/plain";

impl Ask<'_> {
    /// Reads or sets how many replicas an object wants.
    pub(super) async fn scale(&self, wish: Wish, paths: &Paths) -> Answer<Response<ApiBody>> {
        let current = self.server.store().with(|store| get(store, &self.target, ""))?.object()?;
        let mut scale = paths.show(&current);
        match wish {
            Wish::Get => return Ok(json_value(StatusCode::OK, &scale)),
            Wish::Update => scale = Value::Object(self.object()?),
            Wish::Patch => match content_type(&self.head.headers) {
                JSON_PATCH => {
                    let patch = body::json_patch(self.body)?;
                    json_patch::patch(&mut scale, &patch).map_err(|_| patch_rejected())?;
                }
                _ => json_patch::merge(&mut scale, &body::merge_patch(self.body)?),
            },
            _ => return Err(method_not_allowed()),
        }
        let change = paths.change(&self.target, &scale)?;
        let options = WriteOptions::read(self.query, "UpdateOptions", false)?;
        let verb = if wish == Wish::Update { Verb::Update } else { Verb::Patch };
        let outcome = self.write(verb, &options, Intent::Patch(Part::Main, Patch::Merge(change))).await?;
        let changed = match outcome.stored() {
            Some(stored) => stored.object()?,
            None => current,
        };
        Ok(json_value(StatusCode::OK, &paths.show(&changed)))
    }

    /// What a container has printed.
    pub(super) fn log(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Get {
            return Err(method_not_allowed());
        }
        let key = self.target.key();
        let options = LogOptions::read(self.query, self.server.clock().now())?;
        let (log, end, uid) = self.server.store().with(|store| {
            let pod = get(store, &self.target, "")?.object()?;
            let container = container_of(&pod, &self.query.container)?;
            check_printing(&pod, container, self.query.previous)?;
            let log = store.pod_logs.log(&key);
            let shown = match reachable_node(store, &pod)? {
                Some(_) => Bytes::from(log.shown(&options)),
                // A pod that is nowhere has printed nothing.
                None => Bytes::new(),
            };
            Ok::<_, Box<Status>>((shown, log.len(), pod.uid().to_string()))
        })?;
        let body = match self.query.follow {
            true => ApiBody::log(LogStream::new(self.server.store().clone(), key, uid, log, end, options)),
            false => ApiBody::once(log),
        };
        Ok(respond(StatusCode::OK, PLAIN, body))
    }

    /// Runs a command in a container.
    pub(super) fn exec(&self) -> Answer<Response<ApiBody>> {
        let container = self.server.store().with(|store| {
            let pod = get(store, &self.target, "")?.object()?;
            let container = container_of(&pod, &self.query.container)?;
            check_host(store, &pod)?;
            Ok::<_, Box<Status>>(Container::new(pod.name(), container))
        })?;
        if self.query.command.is_empty() {
            return Err(bad_request("you must specify at least one command for the container"));
        }
        let command = self.query.command.clone();
        streams::begin(self.head, Conversation::Exec { container, command, stdin: self.query.stdin })
    }

    /// Shows what a container prints from now on.
    pub(super) fn attach(&self) -> Answer<Response<ApiBody>> {
        let key = self.target.key();
        let (end, uid) = self.server.store().with(|store| {
            let pod = get(store, &self.target, "")?.object()?;
            container_of(&pod, &self.query.container)?;
            check_host(store, &pod)?;
            Ok::<_, Box<Status>>((store.pod_logs.log(&key).len(), pod.uid().to_string()))
        })?;
        let log = LogStream::new(self.server.store().clone(), key, uid, Bytes::new(), end, LogOptions::default());
        streams::begin(self.head, Conversation::Attach(log))
    }

    /// Connects a client with ports of a pod.
    pub(super) fn forward(&self) -> Answer<Response<ApiBody>> {
        let pod = self.server.store().with(|store| {
            let pod = get(store, &self.target, "")?.object()?;
            check_host(store, &pod)?;
            Ok::<_, Box<Status>>(pod.name().to_string())
        })?;
        streams::begin(self.head, Conversation::Forward { pod })
    }

    /// What the kubelet of a node says.
    pub(super) fn node_proxy(&self) -> Answer<Response<ApiBody>> {
        let now = self.server.clock().now();
        self.server.store().with(|store| {
            let node = get(store, &self.target, "")?.object()?;
            if !is_ready(&node) {
                let why = format!("dial tcp {}:10250: connect: connection refused", address_of(&node));
                return Err(unavailable(&format!("error trying to reach service: {why}")));
            }
            Ok(match kubelet::answer(store, &node, &self.path.rest, now) {
                Some(kubelet::Said::Json(body)) => json_value(StatusCode::OK, &body),
                Some(kubelet::Said::Text(text)) => respond(StatusCode::OK, PLAIN, ApiBody::from(text)),
                None => respond(StatusCode::NOT_FOUND, PLAIN, ApiBody::from("404 page not found\n")),
            })
        })
    }
}

/// A container of a pod, by its name or the only one there is.
fn container_of<'a>(pod: &'a Object, asked: &str) -> Answer<&'a Value> {
    let listed = |field: &str| at(pod, &["spec", field]).and_then(Value::as_array).into_iter().flatten();
    let name = |container: &Value| container["name"].as_str().unwrap_or_default().to_string();
    if !asked.is_empty() {
        let mut all = listed("containers").chain(listed("initContainers")).chain(listed("ephemeralContainers"));
        let found = all.find(|container| name(container) == asked);
        return found.ok_or_else(|| bad_request(format!("container {asked} is not valid for pod {}", pod.name())));
    }
    let names: Vec<_> = listed("containers").map(name).collect();
    match listed("containers").next() {
        Some(only) if names.len() == 1 => Ok(only),
        _ => {
            let init: Vec<_> = listed("initContainers").map(name).collect();
            let or_init = match init.is_empty() {
                true => String::new(),
                false => format!(" or one of the init containers: [{}]", init.join(" ")),
            };
            let choice = format!("choose one of: [{}]{or_init}", names.join(" "));
            Err(bad_request(format!("a container name must be specified for pod {}, {choice}", pod.name())))
        }
    }
}

/// Refuses the log of a container that has not begun, or never ended before.
fn check_printing(pod: &Object, container: &Value, previous: bool) -> Answer<()> {
    let name = container["name"].as_str().unwrap_or_default();
    let of = |field: &str| at(pod, &["status", field]).and_then(Value::as_array).into_iter().flatten();
    let status = of("containerStatuses").chain(of("initContainerStatuses")).find(|status| status["name"] == name);
    let state = status.cloned().unwrap_or_default();
    if previous {
        return match state["lastState"]["terminated"].is_object() {
            true => Ok(()),
            false => {
                Err(bad_request(format!("previous terminated container {name:?} in pod {:?} not found", pod.name())))
            }
        };
    }
    match state["state"]["waiting"]["reason"].as_str() {
        Some(reason) if !state["lastState"]["terminated"].is_object() => {
            Err(bad_request(format!("container {name:?} in pod {:?} is waiting to start: {reason}", pod.name())))
        }
        _ => Ok(()),
    }
}

/// The node of a pod; none if it has none yet, and a refusal if that is gone or silent.
fn reachable_node(store: &Store, pod: &Object) -> Answer<Option<Object>> {
    let name = text(pod, &["spec", "nodeName"]);
    if name.is_empty() {
        return Ok(None);
    }
    let nodes = store.find("", "nodes");
    let found = nodes.and_then(|nodes| nodes.objects.get(name));
    let Some(node) = found else {
        let id = crate::apiserver::ResourceId::new("", "nodes", "Node");
        return Err(not_found(&id, name));
    };
    node.object().map(Some)
}

fn check_host(store: &Store, pod: &Object) -> Answer<()> {
    let Some(node) = reachable_node(store, pod)? else {
        return Err(bad_request(format!("pod {} does not have a host assigned", pod.name())));
    };
    if is_ready(&node) {
        return Ok(());
    }
    let why = format!("dial tcp {}:10250: connect: connection refused", address_of(&node));
    Err(unavailable(&format!("error dialing backend: {why}")))
}

fn is_ready(node: &Object) -> bool {
    let conditions = at(node, &["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    // A node that was never heard of may still answer.
    ready.is_none_or(|condition| condition["status"] == "True")
}

fn address_of(node: &Object) -> String {
    let addresses = at(node, &["status", "addresses"]).and_then(Value::as_array);
    let internal = addresses.into_iter().flatten().find(|address| address["type"] == "InternalIP");
    internal.and_then(|address| address["address"].as_str()).unwrap_or(node.name()).to_string()
}
