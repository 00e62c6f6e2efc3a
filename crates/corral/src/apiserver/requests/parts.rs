//! Requests about parts of objects: their scale, conversations with their containers, what their machine says.

use bytes::Bytes;
use http::{Response, StatusCode};
use kube::core::Status;
use serde_json::{Value, json};

use super::{APPLY_PATCH, Ask, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, unknown_format};
use crate::apiserver::{
    body, kubelet,
    object::{Meta, Object, at, child, text},
    options::WriteOptions,
    pod_log::{LogOptions, LogStream},
    request::{Wish, content_type},
    resources::ResourceId,
    scale::{self, Paths},
    service::{ApiBody, json_value, respond},
    status::{
        Answer, bad_request, method_not_allowed, not_found, patch_rejected, unavailable, unexplained, unknown_patch,
    },
    store::{Store, Verb},
    streams::{self, Conversation, commands::Container},
    verbs::{
        Target,
        apply::shown_kind,
        patch::{self, Patch},
        read::get,
        update::check_name,
    },
    write::Intent,
};

const PLAIN: &str = "text/plain";
/// What a patch finds as the replicas of a custom object that states none.
const NOT_STATED: i32 = i32::MIN;

impl Ask<'_> {
    /// Reads or sets how many replicas an object wants.
    pub(super) async fn scale(&self, wish: Wish, paths: &Paths) -> Answer<Response<ApiBody>> {
        let (verb, wanted, options) = match wish {
            Wish::Get => {
                let current = self.current()?;
                paths.check_stated(&self.target, &current)?;
                return Ok(json_value(StatusCode::OK, &paths.show(&current)));
            }
            Wish::Update => {
                let options = WriteOptions::read(self.query, "UpdateOptions", false)?;
                let scale = self.stated_scale(&options)?;
                (Verb::Update, paths.wanted(&self.target, &scale)?, options)
            }
            Wish::Patch if content_type(&self.head.headers) == APPLY_PATCH => {
                let options = WriteOptions::read(self.query, "PatchOptions", true)?;
                let scale = self.applied_scale()?;
                (Verb::Patch, paths.wanted(&self.target, &scale)?.by_apply(), options)
            }
            Wish::Patch => {
                let (options, patch) = self.patch_of_scale()?;
                let scale = self.patched_scale(paths, &patch, &options)?;
                (Verb::Patch, paths.wanted(&self.target, &scale)?, options)
            }
            _ => return Err(method_not_allowed()),
        };
        let outcome = self.write(verb, &options, Intent::Scale(wanted)).await?;
        let changed = outcome.stored().map_or_else(|| self.current(), |stored| stored.object())?;
        Ok(json_value(StatusCode::OK, &paths.show(&changed)))
    }

    fn current(&self) -> Answer<Object> {
        self.server.store().with(|store| get(store, &self.target, ""))?.object()
    }

    /// The scale as the object that it is.
    fn scale_target(&self) -> Target {
        Target { resource: scale::kind().clone(), version: "v1".into(), ..self.target.clone() }
    }

    fn stated_scale(&self, options: &WriteOptions) -> Answer<Object> {
        let target = self.scale_target();
        let mut scale = body::object(content_type(&self.head.headers), self.body, "Scale")?;
        let stated = (text(&scale, &["apiVersion"]), text(&scale, &["kind"]));
        if self.target.resource.shape.is_none() && stated != ("autoscaling/v1", "Scale") {
            let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:110\"";
            return Err(bad_request(why));
        }
        self.check_scale(&target, options, &scale).map_err(|why| target.unrecognised(&why))?;
        target.check_kind(&mut scale)?;
        target.conform(&mut scale)?;
        check_name(&target, &scale)?;
        target.check_identity(&mut scale)?;
        Ok(scale)
    }

    fn check_scale(&self, target: &Target, options: &WriteOptions, scale: &Object) -> Result<(), String> {
        target.check_fields(&self.as_write(Verb::Update, options), scale, &[])
    }

    fn applied_scale(&self) -> Answer<Object> {
        let config = body::applied(self.body)?;
        let current = self.current()?;
        let (version, kind) = (text(&config, &["apiVersion"]), text(&config, &["kind"]));
        if (version, kind) != ("autoscaling/v1", "Scale") {
            return Err(bad_request(format!("invalid object type: {}", shown_kind(version, kind))));
        }
        if self.target.resource.shape.is_none() {
            let why = "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, \
                       Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1";
            return Err(unexplained(why));
        }
        let mut scale = config;
        check_name(&self.scale_target(), &scale)?;
        // What is not stated stays.
        if at(&scale, &["spec", "replicas"]).is_none()
            && let Some(replicas) = at(&current, &["spec", "replicas"])
        {
            child(&mut scale, "spec").insert("replicas".into(), replicas.clone());
        }
        Ok(scale)
    }

    /// A patch of a scale. What no scale of the kind could be patched with is answered before anything else.
    fn patch_of_scale(&self) -> Answer<(WriteOptions, Patch)> {
        let options = || WriteOptions::read(self.query, "PatchOptions", false);
        Ok(match content_type(&self.head.headers) {
            JSON_PATCH => (options()?, self.if_there(body::json_patch(self.body))?),
            MERGE_PATCH => (options()?, Patch::Merge(self.if_there(body::merge_patch(self.body))?)),
            STRATEGIC_MERGE_PATCH if self.target.resource.shape.is_some() => {
                (options()?, Patch::Merge(Value::Object(self.if_there(body::strategic_patch(self.body))?)))
            }
            STRATEGIC_MERGE_PATCH => return Err(unknown_format(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH])),
            _ => return Err(unknown_patch()),
        })
    }

    /// The scale that a patch comes to.
    fn patched_scale(&self, paths: &Paths, patch: &Patch, options: &WriteOptions) -> Answer<Object> {
        let is_built_in = self.target.resource.shape.is_some();
        let target = self.scale_target();
        let current = self.current()?;
        let Value::Object(mut shown) = paths.show(&current) else { return Err(patch_rejected()) };
        let unstated = !is_built_in && !paths.is_stated(&current);
        if unstated {
            child(&mut shown, "spec").insert("replicas".into(), json!(NOT_STATED));
        }
        let version = shown.resource_version().to_string();
        let patched = patch::apply(&target, patch, shown)?;
        let mut scale = patched.clone();
        // Nobody is warned about what cannot be read at all.
        let read = target.resource.conform("v1", &mut scale);
        if let Err(why) = read.and_then(|()| self.check_scale(&target, options, &patched)) {
            return Err(patch::undecodable(patch, patched, &why));
        }
        check_name(&target, &scale)?;
        if unstated && at(&scale, &["spec", "replicas"]).is_some_and(|replicas| *replicas == json!(NOT_STATED)) {
            return Err(bad_request(format!("the spec replicas field {:?} cannot be empty", paths.shown_path())));
        }
        // The version that was read is not one that was asked for.
        if scale.resource_version() == version {
            scale.meta_mut().remove("resourceVersion");
        }
        Ok(scale)
    }

    /// What a container has printed.
    pub(super) fn log(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Get {
            return Err(method_not_allowed());
        }
        let key = self.target.key();
        let options = LogOptions::read(self.query, &self.target.name, self.server.clock().now())?;
        let (log, end, uid) = self.server.store().with(|store| {
            let pod = get(store, &self.target, "")?.object()?;
            let container = container_of(&pod, &self.query.container)?;
            check_printing(&pod, container, self.query.previous)?;
            let log = store.pod_logs.log(&key);
            let shown = reachable_node(store, &pod)?.map(|_| Bytes::from(log.shown(&options)));
            Ok::<_, Box<Status>>((shown, log.len(), pod.uid().to_string()))
        })?;
        // A pod that is nowhere has printed nothing.
        let Some(log) = log else { return Ok(no_content()) };
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

fn no_content() -> Response<ApiBody> {
    let mut response = Response::new(ApiBody::once(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
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
        // The original names the node, and calls it a pod.
        let id = ResourceId::new("", "pods", "Pod");
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
