//! From what is asked for to what is answered.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    ApiServer, binding, eviction, namespaces,
    object::{Meta, Object, at, fill},
    pod_log::{LogStream, tail},
    request::{Path, Query, Wish, content_type},
    selectors::Selectors,
    service::{ApiBody, json as json_response, json_value, page_not_found, respond},
    status::{self, Answer, bad_request, method_not_allowed, no_such_resource, not_found, unsupported_media_type},
    store::{Cause, Store, Stored, Verb},
    verbs::{
        Target,
        create::create,
        delete::{DeleteOptions, Deleted, delete, delete_collection},
        patch::{Changes, Patch, patch},
        read::{ListOptions, Page, Selection, get, list, list_json},
        update::{Part, Updated, update},
    },
    watch::{Watch, WatchOptions},
};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// One request about objects.
struct Ask<'a> {
    server: &'a ApiServer,
    actor: &'a Arc<str>,
    head: &'a Parts,
    path: &'a Path,
    query: &'a Query,
    body: &'a Bytes,
    target: Target,
}

pub(super) fn answer(
    server: &ApiServer,
    actor: &Arc<str>,
    head: &Parts,
    path: &Path,
    query: &Query,
    body: &Bytes,
) -> Answer<Response<ApiBody>> {
    let Some(target) = server.store().with(|store| target(store, path))? else {
        return Ok(page_not_found());
    };
    let wish = Wish::of(&head.method, path, query)?;
    let ask = Ask { server, actor, head, path, query, body, target };
    match path.subresource.as_str() {
        "" => ask.main(wish),
        "status" if ask.target.resource.status => ask.status(wish),
        "eviction" if ask.is_core("pods") => ask.evict(wish),
        "binding" if ask.is_core("pods") => ask.bind(wish),
        "log" if ask.is_core("pods") => ask.log(wish),
        "finalize" if ask.is_core("namespaces") => ask.finalize(wish),
        _ if ask.target.resource.shape.is_none() => Err(not_found(&ask.target.resource.id, &ask.target.name)),
        _ => Err(no_such_resource()),
    }
}

/// Finds the resource that a path names; none where the original does not even have a handler.
fn target(store: &Store, path: &Path) -> Answer<Option<Target>> {
    let found = store.find(&path.group, &path.plural).map(|collection| collection.resource.clone());
    let in_namespace = !path.namespace.is_empty();
    let Some(resource) = found.filter(|resource| {
        // Objects with a namespace are named inside it; only lists reach over all of them.
        let misplaced = if resource.namespaced { !in_namespace && !path.name.is_empty() } else { in_namespace };
        resource.serves(&path.version) && !misplaced
    }) else {
        return if store.has_built_in(&path.group) { Err(no_such_resource()) } else { Ok(None) };
    };
    let Path { version, namespace, name, .. } = path.clone();
    Ok(Some(Target { resource, version, namespace, name }))
}

fn unknown_format(accepted: &[&str]) -> Box<Status> {
    let accepted = accepted.join(", ");
    unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    ))
}

/// The answer to a part of an object that is acted upon rather than kept.
fn created() -> Response<ApiBody> {
    let success = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    json_value(StatusCode::CREATED, &success)
}

impl Ask<'_> {
    fn is_core(&self, plural: &str) -> bool {
        self.path.group.is_empty() && self.path.plural == plural
    }

    fn cause(&self, verb: Verb) -> Cause<'_> {
        Cause { actor: self.actor, at: self.server.clock().now(), verb, subresource: &self.path.subresource }
    }

    /// Does something to the store. A dry run is refused: done for good, it would be a lie.
    fn act<T>(&self, act: impl FnOnce(&mut Store) -> Answer<T>) -> Answer<T> {
        if self.query.dry_run {
            return Err(bad_request("this server does not support dry runs"));
        }
        self.server.store().with(act)
    }

    fn main(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        let target = &self.target;
        match wish {
            Wish::Get => {
                let stored = self.server.store().with(|store| get(store, target, &self.query.resource_version))?;
                Ok(self.shown(StatusCode::OK, &stored))
            }
            Wish::List => self.list(),
            Wish::Watch => self.watch(),
            Wish::Create => {
                if target.resource.namespaced && target.namespace.is_empty() {
                    return Err(method_not_allowed());
                }
                let object = self.known_object()?;
                let stored = self.act(|store| create(store, &self.cause(Verb::Create), target, object))?;
                Ok(self.shown(StatusCode::CREATED, &stored))
            }
            Wish::Update => self.update(Part::Main),
            Wish::Patch => self.patch(Part::Main),
            Wish::Delete => self.delete(),
            Wish::DeleteCollection => self.delete_collection(),
        }
    }

    fn status(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        match wish {
            Wish::Get => self.main(Wish::Get),
            Wish::Update => self.update(Part::Status),
            Wish::Patch => self.patch(Part::Status),
            _ => Err(method_not_allowed()),
        }
    }

    fn update(&self, part: Part) -> Answer<Response<ApiBody>> {
        let object = self.known_object()?;
        let updated = self.act(|store| update(store, &self.cause(Verb::Update), &self.target, part, object))?;
        let code = if matches!(updated, Updated::Created(_)) { StatusCode::CREATED } else { StatusCode::OK };
        Ok(self.shown(code, updated.stored()))
    }

    fn patch(&self, part: Part) -> Answer<Response<ApiBody>> {
        let built_in = self.target.resource.shape.is_some();
        let changes = match content_type(&self.head.headers) {
            JSON_PATCH => Changes::Json(self.read_patch()?),
            MERGE_PATCH => Changes::Merge(Value::Object(self.read_patch()?)),
            STRATEGIC_MERGE_PATCH if built_in => Changes::Strategic(self.read_patch()?),
            _ => {
                let mut accepted = vec![JSON_PATCH, MERGE_PATCH];
                accepted.extend(built_in.then_some(STRATEGIC_MERGE_PATCH));
                return Err(unknown_format(&accepted));
            }
        };
        let changes = Patch { changes, strict: self.query.strict };
        let updated = self.act(|store| patch(store, &self.cause(Verb::Patch), &self.target, part, &changes))?;
        Ok(self.shown(StatusCode::OK, updated.stored()))
    }

    fn read_patch<T: DeserializeOwned>(&self) -> Answer<T> {
        serde_json::from_slice(self.body).map_err(|error| bad_request(format!("error decoding patch: {error}")))
    }

    fn delete(&self) -> Answer<Response<ApiBody>> {
        let options = self.delete_options()?;
        let target = &self.target;
        let deleted = self.act(|store| delete(store, &self.cause(Verb::Delete), target, &options))?;
        Ok(match deleted {
            Deleted::Going(stored) => self.shown(StatusCode::OK, &stored),
            Deleted::Gone(stored) if target.resource.returns_deleted => self.shown(StatusCode::OK, &stored),
            Deleted::Gone(stored) => {
                let uid = stored.object()?.uid().to_string();
                json_value(StatusCode::OK, &status::deleted(&target.resource.id, &target.name, &uid))
            }
        })
    }

    fn delete_collection(&self) -> Answer<Response<ApiBody>> {
        let target = &self.target;
        if target.resource.namespaced && target.namespace.is_empty() {
            return Err(method_not_allowed());
        }
        let options = self.delete_options()?;
        let selection = self.selection()?;
        let (items, revision) = self.act(|store| {
            let items = delete_collection(store, &self.cause(Verb::Delete), target, &selection, &options)?;
            Ok((items, store.revision))
        })?;
        let page = Page { revision, items, token: String::new(), remaining: None };
        Ok(self.page(&page))
    }

    /// The options of a delete, from its body and, where that is silent, from the URL.
    fn delete_options(&self) -> Answer<DeleteOptions> {
        let mut options = if self.body.is_empty() { Object::new() } else { self.object()? };
        if let Some(policy) = &self.query.propagation_policy {
            fill(&mut options, "propagationPolicy", policy.clone());
        }
        if let Some(seconds) = self.query.grace_period_seconds {
            fill(&mut options, "gracePeriodSeconds", seconds);
        }
        DeleteOptions::read(options)
    }

    fn selection(&self) -> Answer<Selection> {
        let query = self.query;
        let selectors = Selectors::parse(&self.target.resource, &query.label_selector, &query.field_selector)?;
        Ok(Selection { selectors })
    }

    fn list(&self) -> Answer<Response<ApiBody>> {
        let options = ListOptions {
            limit: self.query.limit,
            token: self.query.token.clone(),
            version: self.query.resource_version.clone(),
            version_match: self.query.resource_version_match.clone(),
        };
        let selection = self.selection()?;
        let page = self.server.store().with(|store| list(store, &self.target, &selection, &options))?;
        Ok(self.page(&page))
    }

    fn page(&self, page: &Page) -> Response<ApiBody> {
        json_response(StatusCode::OK, list_json(&self.target, page))
    }

    fn watch(&self) -> Answer<Response<ApiBody>> {
        let options = WatchOptions {
            version: self.query.resource_version.clone(),
            selectors: self.selection()?.selectors,
            bookmarks: self.query.bookmarks,
            timeout: self.query.timeout_seconds.map(Duration::from_secs),
            send_initial_events: self.query.send_initial_events,
        };
        let watch = Watch::open(self.server.store(), self.server.clock(), self.actor, &self.target, options)?;
        Ok(respond(StatusCode::OK, "application/json", ApiBody::watch(watch)))
    }

    fn evict(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Create {
            return Err(method_not_allowed());
        }
        let eviction = self.object()?;
        if eviction.name() != self.target.name {
            return Err(bad_request("name in URL does not match name in Eviction object"));
        }
        let options = match eviction.get("deleteOptions") {
            Some(Value::Object(options)) => DeleteOptions::read(options.clone())?,
            _ => DeleteOptions::default(),
        };
        self.act(|store| eviction::evict(store, &self.cause(Verb::Evict), &self.target, &options))?;
        Ok(created())
    }

    fn bind(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Create {
            return Err(method_not_allowed());
        }
        let object = self.object()?;
        self.act(|store| binding::bind(store, &self.cause(Verb::Update), &self.target, &object))?;
        Ok(created())
    }

    fn log(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Get {
            return Err(method_not_allowed());
        }
        let key = self.target.key();
        let (log, end, uid) = self.server.store().with(|store| {
            let pod = get(store, &self.target, "")?.object()?;
            let scheduled = at(&pod, &["spec", "nodeName"]).is_some();
            let whole = store.pod_logs.text(&key);
            let shown = tail(whole, self.query.tail_lines, self.query.limit_bytes);
            let log = if scheduled { Bytes::copy_from_slice(shown.as_bytes()) } else { Bytes::new() };
            Ok::<_, Box<Status>>((log, whole.len(), pod.uid().to_string()))
        })?;
        let body = match self.query.follow {
            true => ApiBody::log(LogStream::new(self.server.store().clone(), key, uid, log, end)),
            false => ApiBody::once(log),
        };
        Ok(respond(StatusCode::OK, "text/plain", body))
    }

    fn finalize(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Update {
            return Err(method_not_allowed());
        }
        let object = self.object()?;
        let stored = self.act(|store| namespaces::finalize(store, &self.cause(Verb::Update), &self.target, &object))?;
        Ok(self.shown(StatusCode::OK, &stored))
    }

    fn shown(&self, code: StatusCode, stored: &Stored) -> Response<ApiBody> {
        json_response(code, self.json(stored))
    }

    /// The object in the version that was asked for.
    fn json(&self, stored: &Stored) -> Bytes {
        let Target { resource, version, .. } = &self.target;
        match *version == resource.storage_version {
            true => stored.json(),
            false => stored.json_as(&resource.api_version(version), &resource.id.kind),
        }
    }

    /// The object in the body, without fields that its kind does not have if the client insists on that.
    fn known_object(&self) -> Answer<Object> {
        let object = self.object()?;
        if self.query.strict {
            self.target.unknown_fields(&object).map_err(|why| self.target.unrecognised(&why))?;
        }
        Ok(object)
    }

    /// The object in the body, from JSON or YAML.
    fn object(&self) -> Answer<Object> {
        let unrecognized = |error: &dyn std::fmt::Display| {
            let kind = &self.target.resource.id.kind;
            let start: String = String::from_utf8_lossy(self.body).chars().take(30).collect();
            let shown = if start.is_empty() { "<empty>" } else { start.as_str() };
            bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
                 error: {error} ({shown})"
            ))
        };
        match content_type(&self.head.headers) {
            "" | "application/json" => serde_json::from_slice(self.body).map_err(|error| unrecognized(&error)),
            "application/yaml" => {
                let text = std::str::from_utf8(self.body).map_err(|error| unrecognized(&error))?;
                serde_saphyr::from_str(text).map_err(|error| unrecognized(&error))
            }
            _ => Err(unknown_format(&["application/json", "application/yaml"])),
        }
    }
}
