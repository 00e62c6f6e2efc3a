//! All objects, and the one place where they change.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    builtin, crds,
    identity::Identities,
    log::{Event, EventKind, EventLog},
    object::Object,
    pod_log::PodLogs,
    resources::{Resource, ResourceId},
    status::{Answer, no_such_resource},
    stored::{Shared, Stored},
};

/// What a commit was asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Update,
    Patch,
    Delete,
    Evict,
}

/// One committed write, shown to observers under the store's lock and in commit order.
#[derive(Debug)]
pub struct Commit<'a> {
    pub at: Timestamp,
    pub actor: &'a str,
    pub verb: Verb,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub resource: &'a ResourceId,
    /// Empty for objects without a namespace.
    pub namespace: &'a str,
    pub name: &'a str,
    pub before: Option<&'a Bytes>,
    pub after: Option<&'a Bytes>,
    /// What `after` says, decoded, for observers who would keep it: it is the store's own.
    pub object: Option<&'a Arc<Value>>,
    pub resource_version: u64,
}

/// That an object changed, for controllers inside the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub resource: ResourceId,
    pub namespace: String,
    pub name: String,
}

/// Who does something, when, and by which verb.
#[derive(Clone, Copy)]
pub(crate) struct Cause<'a> {
    pub actor: &'a str,
    pub at: Timestamp,
    pub verb: Verb,
    pub subresource: &'a str,
}

/// How long an Event is kept after it was last written, as in the original.
const EVENTS_LAST: SignedDuration = SignedDuration::from_hours(1);

/// How many objects are kept decoded: some ten kilobytes each.
pub(super) const AT_HAND: usize = 2048;

/// A version of an Event that goes when its time has come, unless it was written again.
struct Expiring {
    at: Timestamp,
    key: Box<str>,
    revision: u64,
}

/// All objects of one resource, and what happened to them lately.
pub(crate) struct Collection {
    pub resource: Arc<Resource>,
    /// By `namespace/name`, or by name for kinds without a namespace: the order in which lists are given.
    pub objects: BTreeMap<Box<str>, Arc<Stored>>,
    pub log: EventLog,
}

/// `namespace/name`
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}") }
}

/// The namespace and the name in a key.
pub(crate) fn key_parts(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

type Observer = Box<dyn FnMut(&Commit<'_>) + Send>;

pub(crate) struct Store {
    pub revision: u64,
    pub identities: Identities,
    pub pod_logs: PodLogs,
    /// By group, then by plural.
    groups: BTreeMap<String, BTreeMap<String, Collection>>,
    window: usize,
    observers: Vec<Observer>,
    listeners: Vec<UnboundedSender<Change>>,
    last_watch: u64,
    last_ticket: u64,
    /// Whether writes are only tried: nothing is kept, and nobody is told.
    rehearsing: bool,
    /// Watchers to be woken once the lock is released.
    wake: Vec<Waker>,
    /// Events by the time of their last write, the oldest first.
    expiring: VecDeque<Expiring>,
    /// What was written or asked for last, the oldest first, and how many of these are decoded: what was written again is not any more.
    at_hand: VecDeque<Arc<Stored>>,
    decoded: usize,
}

impl Store {
    pub fn new(seed: u64, window: usize) -> Self {
        Store {
            revision: 0,
            identities: Identities::new(seed),
            pod_logs: PodLogs::default(),
            groups: BTreeMap::new(),
            window,
            observers: vec![],
            listeners: vec![],
            last_watch: 0,
            last_ticket: 0,
            rehearsing: false,
            wake: vec![],
            expiring: VecDeque::new(),
            at_hand: VecDeque::new(),
            decoded: 0,
        }
    }

    /// Starts to serve a kind, or serves it by new rules from now on.
    pub fn serve(&mut self, resource: Arc<Resource>) {
        let (group, plural) = (resource.id.group.clone(), resource.id.plural.clone());
        let log = EventLog::new(self.window, self.revision);
        self.groups
            .entry(group)
            .or_default()
            .entry(plural)
            .and_modify(|collection| collection.resource = resource.clone())
            .or_insert(Collection { resource, objects: BTreeMap::new(), log });
    }

    /// Serves a kind no longer; its watches end.
    pub fn withdraw(&mut self, group: &str, plural: &str) {
        let Some(resources) = self.groups.get_mut(group) else { return };
        if let Some(mut collection) = resources.remove(plural) {
            collection.log.cut(None, &mut self.wake);
        }
        self.groups.retain(|_, resources| !resources.is_empty());
    }

    /// By group, then by plural.
    pub fn collections(&self) -> impl Iterator<Item = &Collection> {
        self.groups.values().flat_map(BTreeMap::values)
    }

    /// Whether a group has kinds that are always served.
    pub fn has_built_in(&self, group: &str) -> bool {
        let resources = self.groups.get(group).into_iter().flat_map(BTreeMap::values);
        resources.into_iter().any(|collection| collection.resource.shape.is_some())
    }

    pub fn find(&self, group: &str, plural: &str) -> Option<&Collection> {
        self.groups.get(group)?.get(plural)
    }

    pub fn of(&self, id: &ResourceId) -> Answer<&Collection> {
        self.find(&id.group, &id.plural).ok_or_else(no_such_resource)
    }

    pub fn of_mut(&mut self, id: &ResourceId) -> Answer<&mut Collection> {
        self.groups.get_mut(&id.group).and_then(|resources| resources.get_mut(&id.plural)).ok_or_else(no_such_resource)
    }

    pub fn get(&self, id: &ResourceId, key: &str) -> Option<&Arc<Stored>> {
        self.find(&id.group, &id.plural)?.objects.get(key)
    }

    /// Writes an object, new or changed, and tells everyone.
    pub fn put(&mut self, cause: &Cause<'_>, id: &ResourceId, key: &str, object: Object) -> Answer<Arc<Stored>> {
        let (revision, rehearsing) = (self.revision + 1, self.rehearsing);
        let collection = self.of_mut(id)?;
        let before = collection.objects.get(key).cloned();
        let kind = if before.is_some() { EventKind::Modified } else { EventKind::Added };
        if rehearsing {
            return Stored::unsaved(&collection.resource, object).map(Arc::new);
        }
        let stored = Arc::new(Stored::new(&collection.resource, kind, revision, object)?);
        collection.objects.insert(key.into(), stored.clone());
        self.keep_at_hand(stored.clone(), before.as_deref());
        self.commit(cause, id, key, Event { kind, key: key.into(), after: stored.clone(), before })?;
        Ok(stored)
    }

    /// Writes an object as it was saved, with the resourceVersion that it had.
    pub fn restore(
        &mut self,
        cause: &Cause<'_>,
        id: &ResourceId,
        key: &str,
        object: Object,
        revision: Option<u64>,
    ) -> Answer<()> {
        let Some(revision) = revision else { return self.put(cause, id, key, object).map(|_| ()) };
        let current = self.revision;
        let collection = self.of_mut(id)?;
        let before = collection.objects.remove(key);
        let kind = if before.is_some() { EventKind::Modified } else { EventKind::Added };
        let stored = Arc::new(Stored::new(&collection.resource, kind, revision, object)?);
        collection.objects.insert(key.into(), stored.clone());
        stored.put_away();
        self.decoded -= usize::from(before.as_deref().is_some_and(Stored::put_away));
        self.commit(cause, id, key, Event { kind, key: key.into(), after: stored, before })?;
        self.revision = current.max(revision);
        Ok(())
    }

    /// Removes an object and tells everyone; the last version of it carries the removal's resourceVersion.
    pub fn remove(&mut self, cause: &Cause<'_>, id: &ResourceId, key: &str, last: Object) -> Answer<Arc<Stored>> {
        let (revision, rehearsing) = (self.revision + 1, self.rehearsing);
        let collection = self.of_mut(id)?;
        if rehearsing {
            return Stored::unsaved(&collection.resource, last).map(Arc::new);
        }
        let before = collection.objects.remove(key);
        let stored = Arc::new(Stored::new(&collection.resource, EventKind::Deleted, revision, last)?);
        self.keep_at_hand(stored.clone(), before.as_deref());
        self.commit(
            cause,
            id,
            key,
            Event { kind: EventKind::Deleted, key: key.into(), after: stored.clone(), before },
        )?;
        Ok(stored)
    }

    /// Keeps the objects that were written last decoded, each in its newest version.
    fn keep_at_hand(&mut self, stored: Arc<Stored>, before: Option<&Stored>) {
        self.decoded += 1;
        self.decoded -= usize::from(before.is_some_and(Stored::put_away));
        self.at_hand.push_back(stored);
        while self.decoded > AT_HAND
            && let Some(oldest) = self.at_hand.pop_front()
        {
            self.decoded -= usize::from(oldest.put_away());
        }
        if self.at_hand.len() > 2 * AT_HAND {
            self.at_hand.retain(|stored| stored.is_at_hand());
        }
    }

    /// Keeps an object decoded that nobody writes and many ask for.
    pub fn take_to_hand(&mut self, stored: &Arc<Stored>) -> Answer<()> {
        if stored.take_to_hand()? {
            self.keep_at_hand(stored.clone(), None);
        }
        Ok(())
    }

    /// Tries writes: they go through all checks and answer with what would be stored, and the store stays as it is.
    pub fn rehearse<T>(&mut self, act: impl FnOnce(&mut Store) -> T) -> T {
        self.rehearsing = true;
        let outcome = act(self);
        self.rehearsing = false;
        outcome
    }

    fn commit(&mut self, cause: &Cause<'_>, id: &ResourceId, key: &str, event: Event) -> Answer<()> {
        self.revision = event.after.revision;
        let watched = !self.observers.is_empty();
        let before = event.before.as_ref().filter(|_| watched).map(|before| before.json());
        let is_shown = watched && event.kind != EventKind::Deleted;
        let after = is_shown.then(|| event.after.json());
        let object = if is_shown { Some(event.after.shared()?) } else { None };
        let collection = self
            .groups
            .get_mut(&id.group)
            .and_then(|resources| resources.get_mut(&id.plural))
            .ok_or_else(no_such_resource)?;
        let (gone, stored) = (event.kind == EventKind::Deleted, event.after.clone());
        collection.log.append(event, &mut self.wake);
        let (namespace, name) = key_parts(key);
        let change = || Change { resource: id.clone(), namespace: namespace.into(), name: name.into() };
        self.listeners.retain(|listener| listener.send(change()).is_ok());
        let commit = Commit {
            at: cause.at,
            actor: cause.actor,
            verb: cause.verb,
            subresource: cause.subresource,
            resource: id,
            namespace,
            name,
            before: before.as_ref(),
            after: after.as_ref(),
            object: object.as_ref().map(Shared::value),
            resource_version: self.revision,
        };
        for observer in &mut self.observers {
            observer(&commit);
        }
        self.follow_up(cause, id, key, &stored, gone)
    }

    /// What changes in the server itself when certain objects change.
    fn follow_up(&mut self, cause: &Cause<'_>, id: &ResourceId, key: &str, stored: &Stored, gone: bool) -> Answer<()> {
        if id.group.is_empty() {
            match id.plural.as_str() {
                "pods" => self.wake.extend(if gone { self.pod_logs.forget(key) } else { self.pod_logs.wake(key) }),
                "events" if !gone && !self.rehearsing => {
                    self.expiring.push_back(Expiring { at: cause.at, key: key.into(), revision: stored.revision });
                    return self.expire(id, cause.at);
                }
                "services" if gone => return builtin::release_service(self, cause, &stored.object()?),
                _ => {}
            }
            return Ok(());
        }
        if *id == crds::id() {
            let definition = stored.object()?;
            if gone {
                crds::withdraw(self, &definition)
            } else {
                crds::serve(self, &definition)
            }
            return Ok(());
        }
        if gone { crds::finish(self, cause, &id.group, &id.plural) } else { Ok(()) }
    }

    /// Lets go of Events that nobody has written for an hour.
    fn expire(&mut self, events: &ResourceId, now: Timestamp) -> Answer<()> {
        let cause = Cause { actor: "apiserver", at: now, verb: Verb::Delete, subresource: "" };
        while let Some(next) = self.expiring.front().filter(|next| now.duration_since(next.at) >= EVENTS_LAST) {
            let (key, revision) = (next.key.clone(), next.revision);
            self.expiring.pop_front();
            if let Some(stored) = self.get(events, &key).filter(|stored| stored.revision == revision).cloned() {
                self.remove(&cause, events, &key, stored.object()?)?;
            }
        }
        Ok(())
    }

    /// Adds to what a pod has printed.
    pub fn append_log(&mut self, pod: &str, text: &str, at: Timestamp) {
        let followers = self.pod_logs.append(pod, text, at);
        self.wake.extend(followers);
    }

    pub fn observe(&mut self, observer: Observer) {
        self.observers.push(observer);
    }

    pub fn listen(&mut self, listener: UnboundedSender<Change>) {
        self.listeners.push(listener);
    }

    pub fn next_watch(&mut self) -> u64 {
        self.last_watch += 1;
        self.last_watch
    }

    /// A number that no other write on its way has.
    pub fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub fn compact(&mut self) {
        for collection in self.groups.values_mut().flat_map(BTreeMap::values_mut) {
            collection.log.compact(self.revision);
        }
    }

    pub fn cut_watches(&mut self, actor: Option<&str>) {
        for collection in self.groups.values_mut().flat_map(BTreeMap::values_mut) {
            collection.log.cut(actor, &mut self.wake);
        }
    }
}

/// The store, shared. Nothing awaits while it is locked.
pub(crate) struct Locked(Mutex<Store>);

impl Locked {
    pub fn new(store: Store) -> Self {
        Locked(Mutex::new(store))
    }

    /// Does something with the store, then wakes whom that concerns.
    pub fn with<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        // A panic inside an observer leaves the store whole: a commit is complete before observers are told.
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = act(&mut store);
        let wake = std::mem::take(&mut store.wake);
        drop(store);
        wake.into_iter().for_each(Waker::wake);
        outcome
    }
}
