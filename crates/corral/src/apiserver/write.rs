//! The way of every write, from what was asked for to what is stored.
//!
//! ```text
//! draft   decode, check and drop unknown fields, fill in defaults, note who manages which field
//!    ↓    admission may change it
//! settle  set what only the server may set, validate
//!    ↓    admission may refuse it
//! commit  store it, or show what would have been stored
//! ```
//!
//! A write that nobody else has a say in takes all steps under one lock ([`now`]). Otherwise admission is asked without
//! the lock, and a write whose object was changed meanwhile begins again ([`run`]).

use std::sync::Arc;

use kube::core::Status;
use serde_json::Value;

use super::{
    ApiServer,
    admission::{Operation, Review},
    binding,
    builtin::advice,
    eviction,
    fields::{self, Writer},
    object::{Meta, Object, moment_text},
    options::WriteOptions,
    scale,
    status::Answer,
    store::{Cause, Store},
    stored::{Shared, Stored},
    verbs::{
        Target, apply, create,
        delete::{self, DeleteOptions},
        patch::{self, Patch},
        update::{self, Part},
    },
    warnings::Warnings,
};

/// Who writes what, when and how. The rest of a write is its [`Intent`].
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub target: &'a Target,
    pub cause: Cause<'a>,
    pub options: &'a WriteOptions,
    /// In whose name fields are managed.
    pub manager: &'a str,
    /// None where nobody listens.
    pub warnings: Option<&'a Warnings>,
    /// Who manages which field is noted; otherwise that stays as it was.
    pub is_noted: bool,
}

impl<'a> Write<'a> {
    /// A write of the server itself, or of whoever lives inside the process.
    pub fn inside(cause: Cause<'a>, target: &'a Target) -> Self {
        Write { target, cause, options: WriteOptions::plain(), manager: cause.actor, warnings: None, is_noted: true }
    }

    /// Notes who manages the fields of `new`, which replaces `old`: what is stored, or an object without content.
    pub fn track(&self, old: &Object, new: &mut Object) {
        if !self.is_noted {
            match old.meta("managedFields") {
                Some(managed) => new.set_meta("managedFields", managed.clone()),
                None => drop(new.meta_mut().remove("managedFields")),
            }
            return;
        }
        let resource = &self.target.resource;
        let Some(kind) = resource.kind_type(&self.target.version) else {
            new.meta_mut().remove("managedFields");
            return;
        };
        // What is sent along and put aside is not refused for its type; but then nobody manages anything.
        let aside = if self.cause.subresource == "status" { "spec" } else { "status" };
        if resource.shape.is_none() && resource.status && new.get(aside).is_some_and(|value| !kind.fits(aside, value)) {
            new.meta_mut().remove("managedFields");
            return;
        }
        let version = resource.api_version(&self.target.version);
        let time = moment_text(self.cause.at);
        let writer = self.writer(&version, &time);
        fields::track(kind, resource, old, new, writer);
    }

    /// The same for an object in the form that the target shows, which becomes the one that is kept.
    pub fn track_and_keep(&self, old: &Object, mut new: Object) -> Object {
        let target = self.target;
        if target.resource.form(&target.version).is_none() {
            self.track(old, &mut new);
            return new;
        }
        // What is managed is what the form says of the object that is kept, and that may be more than was sent.
        target.keep(&mut new);
        let mut shown = new.clone();
        target.show(&mut shown);
        self.track(old, &mut shown);
        match shown.meta_mut().remove("managedFields") {
            Some(managed) => new.set_meta("managedFields", managed),
            None => drop(new.meta_mut().remove("managedFields")),
        }
        new
    }

    pub fn writer<'b>(&'b self, version: &'b str, time: &'b str) -> Writer<'b> {
        Writer { name: self.manager, version, subresource: self.cause.subresource, time }
    }

    /// Warns of what is outdated or surprising in an object that is about to be stored.
    pub fn advise(&self, old: Option<&Object>, new: &Object) {
        let resource = &self.target.resource;
        if self.warnings.is_none() {
            return;
        }
        if resource.shape.is_some() {
            advice::about(&resource.id, new, old).into_iter().for_each(|text| self.warn(text));
            return;
        }
        let known = old.map(|old| old.finalizers()).unwrap_or_default();
        for name in new.finalizers().into_iter().filter(|name| !name.contains(['/', '.']) && !known.contains(name)) {
            let standard = ["orphan", "foregroundDeletion"].contains(&name);
            if !standard {
                self.warn(format!(
                    "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                     with other finalizer writers"
                ));
            }
        }
    }

    pub fn warn(&self, text: impl Into<String>) {
        if let Some(warnings) = self.warnings {
            warnings.add(text);
        }
    }
}

/// What is to be done to the target.
#[derive(Clone)]
pub(crate) enum Intent {
    Create(Object),
    Update(Part, Object),
    Patch(Part, Patch),
    /// Server-side apply.
    Apply(Part, Object),
    Delete(DeleteOptions),
    /// The eviction as it was sent, and the options in it.
    Evict(Object, DeleteOptions),
    Bind(Object),
    Scale(scale::Wanted),
}

/// A write on its way.
pub(crate) struct Draft {
    pub operation: Operation,
    /// What is stored now; none for a create.
    pub old: Option<Shared>,
    /// What would be stored, or what was sent to a subresource; none for a delete.
    pub new: Option<Object>,
    pub act: Act,
    /// The version of what it rests on. Nothing is committed once that is no longer the current one.
    pub base: Option<Arc<Stored>>,
    /// Tells apart the identities of objects that are created at the same revision.
    pub ticket: u64,
    /// A version that a dry run states for what it would create, and gets back.
    pub stated_version: Option<Value>,
}

/// What the commit does.
pub(crate) enum Act {
    Create { generated: bool },
    Replace(Part),
    Delete(DeleteOptions),
    Evict(DeleteOptions),
    Bind,
}

/// What a write came to.
pub(crate) enum Outcome {
    Created(Arc<Stored>),
    /// Also if nothing was to be changed, and for a deleted object that is still there.
    Changed(Arc<Stored>),
    /// Deleted.
    Gone(Arc<Stored>),
    /// A subresource has acted.
    Done,
}

impl Outcome {
    pub fn stored(&self) -> Option<&Arc<Stored>> {
        match self {
            Outcome::Created(stored) | Outcome::Changed(stored) | Outcome::Gone(stored) => Some(stored),
            Outcome::Done => None,
        }
    }
}

/// Writes under the lock that the caller holds, whatever admission would say.
pub(crate) fn now(store: &mut Store, write: &Write<'_>, intent: Intent) -> Answer<Outcome> {
    let mut draft = draft(store, write, intent)?;
    if write.options.dry_run {
        // What is only tried has another identity than what is created afterwards.
        draft.ticket = store.next_ticket();
    }
    let (ticket, creates) = (draft.ticket, matches!(draft.act, Act::Create { .. }));
    match settle(store, write, draft) {
        Ok(draft) => commit(store, write, draft),
        Err(status) if creates => Err(with_another_uid(store, ticket, status)),
        Err(status) => Err(status),
    }
}

/// A refusal may show the uid that the object would have had; that is not the one that the next object gets.
fn with_another_uid(store: &mut Store, ticket: u64, mut status: Box<Status>) -> Box<Status> {
    let uid = store.identities.uid(store.revision + 1, ticket);
    if !status.message.contains(&uid) {
        return status;
    }
    let ticket = store.next_ticket();
    let other = store.identities.uid(store.revision + 1, ticket);
    status.message = status.message.replace(&uid, &other);
    for cause in status.details.iter_mut().flat_map(|details| &mut details.causes) {
        cause.message = cause.message.replace(&uid, &other);
    }
    status
}

/// Writes for a client: admission is asked, and a write that was overtaken meanwhile begins again.
pub(crate) async fn run(server: &ApiServer, write: &Write<'_>, intent: Intent) -> Answer<Outcome> {
    let admission = server.admission();
    let alone = server.store().with(|store| {
        let concerns =
            |operation: &Operation| admission.concerns(store, *operation, write.target, write.cause.subresource);
        match operations(&intent).iter().any(concerns) {
            true => Err(intent),
            false => Ok(now(store, write, intent)),
        }
    });
    let intent = match alone {
        Ok(outcome) => return outcome,
        Err(intent) => intent,
    };
    let warnings = Warnings::default();
    loop {
        let mut draft = server.store().with(|store| {
            let mut draft = draft(store, write, intent.clone())?;
            draft.ticket = store.next_ticket();
            Ok::<_, Box<Status>>(draft)
        })?;
        let options = write.options.to_json(draft.operation, &intent);
        if let Some(changed) = admission.mutate(server, review(write, &draft, &options, &warnings)).await? {
            draft.new = Some(update::decode_again(write.target, changed)?);
        }
        let draft = server.store().with(|store| settle(store, write, draft))?;
        admission.validate(server, review(write, &draft, &options, &warnings)).await?;
        let done = server.store().with(|store| match is_current(store, write, &draft) {
            true => Some(commit(store, write, draft)),
            false => None,
        });
        if let Some(outcome) = done {
            return outcome;
        }
    }
}

/// What a write may turn out to be: an apply, and for some kinds an update, creates what is not there.
fn operations(intent: &Intent) -> &'static [Operation] {
    match intent {
        Intent::Create(_) | Intent::Evict(..) | Intent::Bind(_) => &[Operation::Create],
        Intent::Update(..) | Intent::Apply(..) => &[Operation::Update, Operation::Create],
        Intent::Patch(..) | Intent::Scale(_) => &[Operation::Update],
        Intent::Delete(_) => &[Operation::Delete],
    }
}

fn review<'a>(write: &'a Write<'_>, draft: &'a Draft, options: &'a Value, warnings: &'a Warnings) -> Review<'a> {
    Review {
        operation: draft.operation,
        target: write.target,
        subresource: write.cause.subresource,
        old: draft.old.as_deref(),
        new: draft.new.as_ref(),
        options,
        user: write.cause.actor,
        dry_run: write.options.dry_run,
        warnings: write.warnings.unwrap_or(warnings),
    }
}

fn draft(store: &mut Store, write: &Write<'_>, intent: Intent) -> Answer<Draft> {
    let sent = |act: Act, operation: Operation, new: Object| Draft {
        operation,
        old: None,
        new: Some(new),
        act,
        base: None,
        ticket: 0,
        stated_version: None,
    };
    match intent {
        Intent::Create(object) => create::draft(store, write, object),
        Intent::Update(part, object) => update::draft(store, write, part, object),
        Intent::Patch(part, changes) => patch::draft(store, write, part, &changes),
        Intent::Apply(part, config) => apply::draft(store, write, part, &config),
        Intent::Scale(wanted) => scale::draft(store, write, &wanted),
        Intent::Delete(options) => delete::draft(store, write, options),
        Intent::Evict(eviction, options) => Ok(sent(Act::Evict(options), Operation::Create, eviction)),
        Intent::Bind(binding) => Ok(sent(Act::Bind, Operation::Create, binding)),
    }
}

fn settle(store: &Store, write: &Write<'_>, draft: Draft) -> Answer<Draft> {
    match draft.act {
        Act::Create { .. } => create::settle(store, write, draft),
        Act::Replace(part) => update::settle(write, part, draft),
        Act::Delete(_) | Act::Evict(_) | Act::Bind => Ok(draft),
    }
}

fn is_current(store: &Store, write: &Write<'_>, draft: &Draft) -> bool {
    let Some(base) = &draft.base else { return true };
    let current = store.get(&write.target.resource.id, &write.target.key());
    current.is_some_and(|current| current.revision == base.revision)
}

fn commit(store: &mut Store, write: &Write<'_>, draft: Draft) -> Answer<Outcome> {
    if write.options.dry_run {
        return store.rehearse(|store| put(store, write, draft));
    }
    put(store, write, draft)
}

fn put(store: &mut Store, write: &Write<'_>, draft: Draft) -> Answer<Outcome> {
    let Write { target, cause, .. } = write;
    let Draft { old, new, act, base, stated_version, .. } = draft;
    let new = new.unwrap_or_default();
    match act {
        Act::Create { generated } => {
            let created = create::commit(store, write, new, generated)?;
            match (stated_version, &created) {
                (Some(version), Outcome::Created(stored)) => {
                    let mut shown = stored.object()?;
                    shown.set_meta("resourceVersion", version);
                    Ok(Outcome::Created(Arc::new(Stored::unsaved(&target.resource, shown)?)))
                }
                _ => Ok(created),
            }
        }
        Act::Replace(_) => update::commit(store, write, &old.unwrap_or_default(), base, new),
        Act::Delete(options) => delete::delete(store, cause, target, &options),
        Act::Evict(options) => eviction::evict(store, cause, target, &options).map(|()| Outcome::Done),
        Act::Bind => binding::bind(store, cause, target, &new).map(|()| Outcome::Done),
    }
}

#[cfg(test)]
mod tests;
