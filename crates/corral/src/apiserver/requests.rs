//! From what is asked for to what is answered.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Response, StatusCode, header, request::Parts};
use kube::core::Status;
use serde_json::{Value, json};

use super::{
    ApiServer, body,
    builtin::{
        named::RECORDED,
        pod_parts::{EPHEMERAL_CONTAINERS, RESIZE},
    },
    components, duplicates, event_forms, kubevirt,
    namespaces::FINALIZE,
    object::{Meta, Object, at, child, fill, moment, text},
    options::{FieldValidation, MANAGER_LIMIT, WriteOptions},
    protobuf::PROTOBUF,
    request::{Path, Query, Wish, content_type},
    reviews,
    scale::Paths,
    selectors::Selectors,
    service::{ApiBody, json_value, page_not_found, respond},
    status::{self, Answer, bad_request, method_not_allowed, no_such_resource, not_found, unsupported_media_type},
    store::{Cause, Store, Verb},
    stored::Stored,
    tokens,
    verbs::{
        Target,
        delete::DeleteOptions,
        patch::Patch,
        read::{ListOptions, Page, Selection, get, list, list_json, list_metadata},
        update::Part,
    },
    view::View,
    warnings::Warnings,
    watch::{Watch, WatchOptions, check_watch},
    write::{self, Intent, Outcome, Write},
};

mod parts;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
/// The one kind whose objects leave their dependents behind unless told otherwise.
const CHILDREN_STAY: &str = "child pods are preserved by default when jobs are deleted; set \
                             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
                             this warning";
/// Parts of objects that answer in a form of their own.
const STREAMS: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];

/// One request about objects.
struct Ask<'a> {
    server: &'a ApiServer,
    actor: &'a Arc<str>,
    head: &'a Parts,
    path: &'a Path,
    query: &'a Query,
    body: &'a Bytes,
    warnings: &'a Warnings,
    target: Target,
    view: View,
}

pub(super) async fn answer(
    server: &ApiServer,
    actor: &Arc<str>,
    head: &Parts,
    path: &Path,
    query: &Query,
    body: &Bytes,
    warnings: &Warnings,
) -> Answer<Response<ApiBody>> {
    if reviews::is_review(path) {
        let review = body::object(content_type(&head.headers), body, &path.plural).unwrap_or_default();
        return reviews::answer(server, actor, &head.method, path, review);
    }
    if components::is_asked_for(path) {
        warnings.add(components::WARNING);
        return components::answer(&head.method, path);
    }
    if path.group == kubevirt::GROUP {
        return kubevirt::answer(server, actor, &head.method, path).await;
    }
    // The old way to bind a pod names it in the body.
    let bound;
    let path = match binds_by_body(path) {
        true if head.method != Method::POST => return Err(method_not_allowed()),
        true => {
            let binding = body::object(content_type(&head.headers), body, "Binding")?;
            bound = Path {
                plural: "pods".into(),
                name: binding.name().into(),
                subresource: "binding".into(),
                ..path.clone()
            };
            &bound
        }
        false => path,
    };
    let Some(target) = server.store().with(|store| target(store, path))? else {
        return Ok(page_not_found());
    };
    let wish = Wish::of(&head.method, path, query)?;
    let view = match STREAMS.contains(&path.subresource.as_str()) {
        true => View::default(),
        false => View::negotiate(&head.headers, query, &target.resource, wish.about())?,
    };
    if let Some(warning) = target.resource.deprecation(&target.version) {
        warnings.add(warning);
    }
    let ask = Ask { server, actor, head, path, query, body, warnings, target, view };
    match path.subresource.as_str() {
        "" => ask.main(wish).await,
        "status" if ask.target.resource.status => ask.part(wish, Part::Status).await,
        "ephemeralcontainers" if ask.is_core("pods") => ask.part(wish, Part::Other(EPHEMERAL_CONTAINERS)).await,
        "resize" if ask.is_core("pods") => ask.part(wish, Part::Other(RESIZE)).await,
        "eviction" if ask.is_core("pods") => ask.evict(wish).await,
        "binding" if ask.is_core("pods") => ask.bind(wish).await,
        "log" if ask.is_core("pods") => ask.log(wish),
        "exec" if ask.is_core("pods") => ask.exec(),
        "attach" if ask.is_core("pods") => ask.attach(),
        "portforward" if ask.is_core("pods") => ask.forward(),
        "proxy" if ask.is_core("nodes") => ask.node_proxy(),
        "scale" if let Some(paths) = Paths::of(&ask.target) => ask.scale(wish, &paths).await,
        FINALIZE if ask.is_core("namespaces") && wish == Wish::Update => ask.update(Part::Other(FINALIZE)).await,
        FINALIZE if ask.is_core("namespaces") => Err(method_not_allowed()),
        "token" if ask.is_core("serviceaccounts") => ask.token(wish),
        _ if ask.target.resource.shape.is_none() => Err(not_found(&ask.target.resource.id, &ask.target.name)),
        _ => Err(no_such_resource()),
    }
}

fn binds_by_body(path: &Path) -> bool {
    path.group.is_empty() && path.plural == "bindings" && path.name.is_empty() && !path.namespace.is_empty()
}

/// Finds the resource that a path names; none where the original does not even have a handler.
fn target(store: &Store, path: &Path) -> Answer<Option<Target>> {
    let newer = path.group == event_forms::GROUP;
    let group = if newer { "" } else { path.group.as_str() };
    let version = if newer { path.group.clone() + "/" + &path.version } else { path.version.clone() };
    let found = store.find(group, &path.plural).map(|collection| collection.resource.clone());
    let in_namespace = !path.namespace.is_empty();
    let Some(resource) = found.filter(|resource| {
        // Objects with a namespace are named inside it; only lists reach over all of them.
        let misplaced = if resource.namespaced { !in_namespace && !path.name.is_empty() } else { in_namespace };
        resource.serves(&version) && !misplaced
    }) else {
        return if newer || store.has_built_in(&path.group) { Err(no_such_resource()) } else { Ok(None) };
    };
    let Path { namespace, name, .. } = path.clone();
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

    /// Writes what is intended, by way of admission.
    async fn write(&self, verb: Verb, options: &WriteOptions, intent: Intent) -> Answer<Outcome> {
        let write = self.as_write(verb, options);
        write::run(self.server, &write, intent).await
    }

    fn as_write<'a>(&'a self, verb: Verb, options: &'a WriteOptions) -> Write<'a> {
        let (target, cause, is_noted) = (&self.target, self.cause(verb), self.server.applies());
        Write { target, cause, options, manager: self.manager(), warnings: Some(self.warnings), is_noted }
    }

    /// In whose name fields are managed: as the client says, or by the first word of what it calls itself.
    fn manager(&self) -> &str {
        if !self.query.field_manager.is_empty() {
            return &self.query.field_manager;
        }
        let agent = self.head.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let name = agent.and_then(|agent| agent.split('/').next()).unwrap_or(self.actor);
        // Headers hold only ASCII here, so any place is one to cut at.
        name.get(..MANAGER_LIMIT).unwrap_or(name)
    }

    async fn main(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        let target = &self.target;
        match wish {
            Wish::Get => self.get(),
            Wish::List => self.list(),
            Wish::Watch => self.watch(),
            Wish::Create => {
                if target.resource.namespaced && target.namespace.is_empty() {
                    return Err(method_not_allowed());
                }
                let options = WriteOptions::read(self.query, "CreateOptions", false)?;
                let object = self.known_object(&options)?;
                let outcome = self.write(Verb::Create, &options, Intent::Create(object)).await?;
                self.outcome(&outcome)
            }
            Wish::Update => self.update(Part::Main).await,
            Wish::Patch => self.patch(Part::Main).await,
            Wish::Delete => self.delete().await,
            Wish::DeleteCollection => self.delete_collection().await,
        }
    }

    async fn part(&self, wish: Wish, part: Part) -> Answer<Response<ApiBody>> {
        match wish {
            Wish::Get => self.get(),
            Wish::Update => self.update(part).await,
            Wish::Patch => self.patch(part).await,
            _ => Err(method_not_allowed()),
        }
    }

    fn get(&self) -> Answer<Response<ApiBody>> {
        let stored = self.server.store().with(|store| get(store, &self.target, &self.query.resource_version))?;
        self.shown(StatusCode::OK, &stored)
    }

    async fn update(&self, part: Part) -> Answer<Response<ApiBody>> {
        let options = WriteOptions::read(self.query, "UpdateOptions", false)?;
        let object = self.known_object(&options)?;
        let outcome = self.write(Verb::Update, &options, Intent::Update(part, object)).await?;
        self.outcome(&outcome)
    }

    async fn patch(&self, part: Part) -> Answer<Response<ApiBody>> {
        let built_in = self.target.resource.shape.is_some();
        let options = || WriteOptions::read(self.query, "PatchOptions", false);
        let (options, patch) = match content_type(&self.head.headers) {
            JSON_PATCH => (options()?, self.if_there(body::json_patch(self.body))?),
            MERGE_PATCH => (options()?, Patch::Merge(self.if_there(body::merge_patch(self.body))?)),
            APPLY_PATCH if self.server.applies() => return self.apply(part).await,
            APPLY_PATCH if built_in => {
                return Err(unknown_format(&[JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH]));
            }
            APPLY_PATCH => return Err(unknown_format(&[JSON_PATCH, MERGE_PATCH])),
            STRATEGIC_MERGE_PATCH if built_in => {
                (options()?, Patch::Strategic(self.if_there(body::strategic_patch(self.body))?))
            }
            // What no kind could be patched with is answered before the kind is looked at.
            STRATEGIC_MERGE_PATCH => {
                return Err(unknown_format(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]));
            }
            _ => return Err(status::unknown_patch()),
        };
        let outcome = self.write(Verb::Patch, &options, Intent::Patch(part, patch)).await?;
        self.outcome(&outcome)
    }

    /// A patch is read when the object is there that it is for; without one, that is what is wrong.
    fn if_there<T>(&self, patch: Answer<T>) -> Answer<T> {
        if patch.is_err() {
            self.server.store().with(|store| get(store, &self.target, ""))?;
        }
        patch
    }

    async fn apply(&self, part: Part) -> Answer<Response<ApiBody>> {
        let options = WriteOptions::read(self.query, "PatchOptions", true)?;
        let config = body::applied(self.body)?;
        let outcome = self.write(Verb::Patch, &options, Intent::Apply(part, config)).await?;
        self.outcome(&outcome)
    }

    async fn delete(&self) -> Answer<Response<ApiBody>> {
        let (options, deletion) = self.delete_options()?;
        let outcome = self.write(Verb::Delete, &options, Intent::Delete(deletion)).await?;
        self.outcome(&outcome)
    }

    /// Deletes each object that is selected, and answers with all of them as they were.
    async fn delete_collection(&self) -> Answer<Response<ApiBody>> {
        let target = &self.target;
        let one_by_one = target.resource.shape.is_some() && !RECORDED.allows(&target.resource, "deletecollection");
        if one_by_one || (target.resource.namespaced && target.namespace.is_empty()) {
            return Err(method_not_allowed());
        }
        let (options, deletion) = self.delete_options()?;
        let (selection, listing) = (self.selection()?, self.list_options());
        let page = self.server.store().with(|store| list(store, target, &selection, &listing))?;
        for stored in &page.items {
            let object = stored.object()?;
            let (namespace, name) = (object.namespace(), object.name());
            let one = Target { namespace: namespace.into(), name: name.into(), ..target.clone() };
            let write = Write { target: &one, ..self.as_write(Verb::Delete, &options) };
            match write::run(self.server, &write, Intent::Delete(deletion.clone())).await {
                // Somebody else was faster.
                Err(status) if status.code == 404 => {}
                other => drop(other?),
            }
        }
        self.page(&page)
    }

    /// The options of a delete, from its body or, without one, from the URL.
    fn delete_options(&self) -> Answer<(WriteOptions, DeleteOptions)> {
        let mut stated = body::options(content_type(&self.head.headers), self.body)?;
        if self.body.is_empty() {
            if let Some(policy) = &self.query.propagation_policy {
                fill(&mut stated, "propagationPolicy", policy.clone());
            }
            if let Some(orphan) = self.query.orphan_dependents {
                fill(&mut stated, "orphanDependents", orphan);
            }
            if let Some(seconds) = self.query.grace_period_seconds {
                fill(&mut stated, "gracePeriodSeconds", seconds);
            }
            if !self.query.dry_run.is_empty() {
                fill(&mut stated, "dryRun", json!(self.query.dry_run));
            }
        }
        let deletion = DeleteOptions::read(stated)?;
        if self.target.resource.id.qualified() == "jobs.batch" && deletion.says_nothing_of_dependents() {
            self.warnings.add(CHILDREN_STAY);
        }
        let options = WriteOptions { dry_run: !deletion.dry_run.is_empty(), ..WriteOptions::default() };
        Ok((options, deletion))
    }

    fn selection(&self) -> Answer<Selection> {
        let query = self.query;
        let mut fields = query.field_selector.clone();
        if self.target.version == event_forms::NEWER {
            fields = event_forms::kept_selector(&fields);
        }
        let selectors = Selectors::parse(&self.target.resource, &query.label_selector, &fields)?;
        Ok(Selection { selectors })
    }

    fn list_options(&self) -> ListOptions {
        ListOptions {
            limit: self.query.limit,
            token: self.query.token.clone(),
            version: self.query.resource_version.clone(),
            version_match: self.query.resource_version_match.clone(),
            initial_events: self.query.send_initial_events.is_some(),
        }
    }

    fn list(&self) -> Answer<Response<ApiBody>> {
        let (selection, options) = (self.selection()?, self.list_options());
        let page = self.server.store().with(|store| list(store, &self.target, &selection, &options))?;
        self.page(&page)
    }

    fn page(&self, page: &Page) -> Answer<Response<ApiBody>> {
        if self.view.is_whole() {
            return self.respond(StatusCode::OK, list_json(&self.target, page));
        }
        let metadata = list_metadata(&self.target, page);
        let objects = page.items.iter().filter_map(|stored| serde_json::from_slice(&self.json(stored)).ok());
        let list = self.view.list(&self.target, metadata, objects, self.server.clock().now());
        self.respond(StatusCode::OK, Bytes::from(format!("{list}\n")))
    }

    fn watch(&self) -> Answer<Response<ApiBody>> {
        let query = self.query;
        check_watch(&query.resource_version_match, query.send_initial_events)?;
        let options = WatchOptions {
            version: query.resource_version.clone(),
            selectors: match self.target.name.as_str() {
                "" => self.selection()?.selectors,
                name => self.selection()?.selectors.named(name),
            },
            bookmarks: query.bookmarks,
            timeout: query.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            send_initial_events: query.send_initial_events == Some(true),
        };
        let (store, clock) = (self.server.store(), self.server.clock());
        let watch = Watch::open(store, clock, self.actor, &self.target, &self.view, options)?;
        Ok(respond(StatusCode::OK, "application/json", ApiBody::watch(watch)))
    }

    async fn evict(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Create {
            return Err(method_not_allowed());
        }
        let eviction = body::object(content_type(&self.head.headers), self.body, "Eviction")?;
        self.server.check_eviction(&eviction)?;
        if eviction.name() != self.target.name {
            return Err(bad_request("name in URL does not match name in Eviction object"));
        }
        let deletion = match eviction.get("deleteOptions") {
            Some(Value::Object(options)) => DeleteOptions::read(options.clone())?,
            _ => DeleteOptions::default(),
        };
        let mut options = WriteOptions::read(self.query, "CreateOptions", false)?;
        options.dry_run |= !deletion.dry_run.is_empty();
        self.write(Verb::Evict, &options, Intent::Evict(eviction, deletion)).await?;
        Ok(created())
    }

    async fn bind(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Create {
            return Err(method_not_allowed());
        }
        let options = WriteOptions::read(self.query, "CreateOptions", false)?;
        self.write(Verb::Update, &options, Intent::Bind(self.object()?)).await?;
        Ok(created())
    }

    /// Gives out a token for a service account.
    fn token(&self, wish: Wish) -> Answer<Response<ApiBody>> {
        if wish != Wish::Create {
            return Err(method_not_allowed());
        }
        let mut request = body::object(content_type(&self.head.headers), self.body, "TokenRequest")?;
        let account = self.server.store().with(|store| get(store, &self.target, ""))?.object()?;
        let now = self.server.clock().now();
        let seconds = at(&request, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
        tokens::check(&request, account.name(), seconds)?;
        let (token, end) = self.server.tokens().issue(account.namespace(), account.name(), seconds, now);
        request.insert(
            "metadata".into(),
            json!({ "name": account.name(), "namespace": account.namespace(), "uid": account.uid(),
                    "creationTimestamp": moment(now) }),
        );
        let spec = child(&mut request, "spec");
        fill(spec, "audiences", json!(["https://kubernetes.default.svc"]));
        fill(spec, "expirationSeconds", 3600);
        spec.entry("boundObjectRef").or_insert(Value::Null);
        request.insert("status".into(), json!({ "token": token, "expirationTimestamp": moment(end) }));
        Ok(json_value(StatusCode::CREATED, &Value::Object(request)))
    }

    fn outcome(&self, outcome: &Outcome) -> Answer<Response<ApiBody>> {
        match outcome {
            Outcome::Created(stored) => self.shown(StatusCode::CREATED, stored),
            Outcome::Gone(stored) if !self.target.resource.returns_deleted => {
                let uid = stored.object().map(|object| object.uid().to_string()).unwrap_or_default();
                let mut id = self.target.resource.id.clone();
                id.group.clone_from(&self.path.group);
                let success = status::deleted(&id, &self.target.name, &uid);
                self.respond(StatusCode::OK, Bytes::from(format!("{success}\n")))
            }
            Outcome::Changed(stored) | Outcome::Gone(stored) => self.shown(StatusCode::OK, stored),
            Outcome::Done => Ok(created()),
        }
    }

    fn shown(&self, code: StatusCode, stored: &Stored) -> Answer<Response<ApiBody>> {
        let json = self.json(stored);
        if self.view.is_whole() {
            return self.respond(code, json);
        }
        let object = serde_json::from_slice(&json).unwrap_or_default();
        let shown = self.view.object(&self.target, object, self.server.clock().now(), true);
        self.respond(code, Bytes::from(format!("{shown}\n")))
    }

    fn respond(&self, code: StatusCode, body: Bytes) -> Answer<Response<ApiBody>> {
        let (content_type, body) = self.view.encode(body)?;
        Ok(respond(code, content_type, ApiBody::once(body)))
    }

    /// The object in the version that was asked for.
    fn json(&self, stored: &Stored) -> Bytes {
        let Target { resource, version, .. } = &self.target;
        // Tables and the like are made from what is kept.
        match *version == resource.storage_version || (resource.form(version).is_some() && !self.view.is_whole()) {
            true => stored.json(),
            false => stored.json_as(&resource.api_version(version), &resource.id.kind),
        }
    }

    /// The object in the body, its unknown and doubled fields dealt with as the client wants it.
    fn known_object(&self, options: &WriteOptions) -> Answer<Object> {
        let object = self.object()?;
        let write = self.as_write(Verb::Create, options);
        let duplicates = match options.validation {
            FieldValidation::Ignore => vec![],
            FieldValidation::Warn | FieldValidation::Strict => {
                duplicates::find(self.body).iter().map(|path| format!("duplicate field {path:?}")).collect()
            }
        };
        let checked = self.target.check_fields(&write, &object, &duplicates);
        checked.map_err(|why| self.target.unrecognised(&why))?;
        Ok(object)
    }

    /// The object in the body, from JSON, YAML or, for built-in kinds, protobuf.
    fn object(&self) -> Answer<Object> {
        let resource = &self.target.resource;
        let sent = content_type(&self.head.headers);
        if sent == PROTOBUF && resource.shape.is_none() {
            return Err(unknown_format(&["application/json", "application/yaml"]));
        }
        let object = body::object(sent, self.body, &resource.id.kind)?;
        if resource.shape.is_none() && text(&object, &["kind"]).is_empty() {
            let shown = match sent {
                "application/yaml" => json!(object).to_string(),
                _ => String::from_utf8_lossy(self.body).into_owned(),
            };
            let why = format!("Object 'Kind' is missing in '{shown}'");
            return Err(body::unrecognised(self.body, &resource.id.kind, &why));
        }
        Ok(object)
    }
}
