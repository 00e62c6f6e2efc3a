//! A watch: the body of a response that goes on as long as things happen.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use drover_clock::Clock;
use serde_json::{Value, json};

use super::{
    log::{Event, EventKind, Place},
    object::{Meta, Object},
    resources::ResourceId,
    selectors::Selectors,
    status::{Answer, FieldError, invalid, to_json, unexplained},
    store::{Locked, Store, key_parts},
    stored::Stored,
    verbs::{
        Target,
        read::{bounds, read_version},
    },
    view::View,
};

/// How often a watch that asked for bookmarks is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A watch that does not say how long it wants to last is ended after this time and up to twice as long, so that not all
/// clients come back at once.
const LASTS_AT_LEAST: Duration = Duration::from_secs(30 * 60);

/// How many events are taken from the log at once.
const BATCH: usize = 64;

/// How a watch is asked for.
pub(crate) struct WatchOptions {
    pub version: String,
    pub selectors: Selectors,
    pub bookmarks: bool,
    pub timeout: Option<Duration>,
    pub send_initial_events: bool,
}

/// How long the watch with this number lasts by itself.
fn lasting(id: u64) -> Duration {
    // A step that shares no factor with the span spreads neighbours over all of it.
    LASTS_AT_LEAST + Duration::from_secs(id.wrapping_mul(787) % LASTS_AT_LEAST.as_secs())
}

/// Refuses options of a watch that do not go together.
pub(crate) fn check_watch(version_match: &str, send_initial_events: Option<bool>) -> Answer<()> {
    const NOT_OLDER: &str = "NotOlderThan";
    let field = "resourceVersionMatch";
    let mut errors = vec![];
    if send_initial_events.is_some() && version_match != NOT_OLDER {
        let why = format!("sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}");
        errors.push(FieldError::forbidden(field, &why));
    }
    if !version_match.is_empty() {
        if send_initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if version_match != NOT_OLDER {
            errors.push(FieldError::unsupported(field, &json!(version_match), &[NOT_OLDER.into()]));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        errors => Err(invalid("meta.k8s.io", "ListOptions", "", errors)),
    }
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Watch {
    store: Arc<Locked>,
    clock: Clock,
    id: u64,
    /// Whether the log knows this watch.
    entered: bool,
    target: Target,
    view: View,
    /// Whether a table was sent: only the first one tells its columns.
    is_headed: bool,
    /// The apiVersion to show, if it is not the stored one.
    shown_as: Option<String>,
    selectors: Selectors,
    place: Place,
    /// Up to here everything has been sent.
    seen: u64,
    ready: VecDeque<Bytes>,
    ended: bool,
    bookmark: Option<Timer>,
    timeout: Option<Timer>,
}

impl Watch {
    pub fn open(
        store: &Arc<Locked>,
        clock: Clock,
        actor: &Arc<str>,
        target: &Target,
        view: &View,
        options: WatchOptions,
    ) -> Answer<Watch> {
        let timer = |time: Duration| -> Timer { Box::pin(async move { clock.sleep(time).await }) };
        let shown_as =
            (target.version != target.resource.storage_version).then(|| target.resource.api_version(&target.version));
        store.with(|locked| {
            let id = locked.next_watch();
            let mut watch = Watch {
                store: store.clone(),
                clock,
                id,
                entered: false,
                target: target.clone(),
                view: view.clone(),
                is_headed: false,
                shown_as,
                selectors: options.selectors,
                place: locked.of(&target.resource.id)?.log.end(),
                seen: 0,
                ready: VecDeque::new(),
                ended: false,
                bookmark: options.bookmarks.then(|| timer(BOOKMARK_EVERY)),
                timeout: Some(timer(options.timeout.unwrap_or_else(|| lasting(id)))),
            };
            watch.start(locked, &options.version, options.send_initial_events)?;
            locked.of_mut(&target.resource.id)?.log.enter(id, actor.clone());
            watch.entered = true;
            Ok(watch)
        })
    }

    /// Finds the place to go on from, after sending everything if no place was given.
    fn start(&mut self, store: &Store, version: &str, initial_events: bool) -> Answer<()> {
        // The original passes this one on as it is.
        let asked = read_version(version).map_err(|why| unexplained(&why))?;
        let collection = store.of(&self.target.resource.id)?;
        if asked == 0 || initial_events {
            let (start, end) = bounds(&self.target.namespace);
            let objects = collection.objects.range::<str, _>((start.as_bound(), end.as_bound()));
            for (key, stored) in objects {
                if self.selectors.matches(key, stored) {
                    self.send(EventKind::Added, stored);
                }
            }
            if initial_events {
                self.send_bookmark(store.revision, true);
            }
            return Ok(());
        }
        match collection.log.place_after(asked) {
            Ok(place) => self.place = place,
            // Once a watch is accepted, what is wrong is told inside it.
            Err(status) => {
                let line = json!({ "type": "ERROR", "object": to_json(&status) });
                self.ready.push_back(Bytes::from(format!("{line}\n")));
                self.ended = true;
            }
        }
        Ok(())
    }

    fn send(&mut self, kind: EventKind, stored: &Stored) {
        if !self.view.is_whole() {
            if let Ok(object) = stored.object() {
                self.send_object(kind.name(), object);
            }
            return;
        }
        match &self.shown_as {
            None => stored.announce(kind, &mut self.ready),
            Some(api_version) => {
                let json = stored.json_as(api_version, &self.target.resource.id.kind);
                self.ready.extend([Bytes::from_static(kind.opening()), json, Bytes::from_static(b"}\n")]);
            }
        }
    }

    /// An object that no longer matches is shown as it was when it did.
    fn send_out_of_sight(&mut self, event: &Event) {
        let Some(Ok(mut object)) = event.before.as_ref().map(|before| before.object()) else { return };
        object.set_meta("resourceVersion", event.after.revision.to_string());
        self.send_object("DELETED", object);
    }

    /// An object that has no bytes of its own, or is not shown as it is stored.
    fn send_object(&mut self, kind: &str, mut object: Object) {
        if let Some(api_version) = &self.shown_as {
            object.insert("apiVersion".into(), json!(api_version));
        }
        let now = self.clock.now();
        let object = self.view.object(&self.target, Value::Object(object), now, !self.is_headed);
        self.is_headed = true;
        let line = json!({ "type": kind, "object": object });
        self.ready.push_back(Bytes::from(format!("{line}\n")));
    }

    fn send_bookmark(&mut self, revision: u64, ends_initial_events: bool) {
        let resource = &self.target.resource;
        // Otherwise an object without content: of a built-in kind that is more than nothing.
        let mut object = resource.shape.as_ref().map(|shape| shape.empty()).unwrap_or_default();
        object.insert("kind".into(), json!(resource.id.kind));
        object.insert("apiVersion".into(), json!(resource.stored_api_version()));
        object.set_meta("resourceVersion", revision.to_string());
        if ends_initial_events {
            object.set_meta("annotations", json!({ "k8s.io/initial-events-end": "true" }));
        }
        self.send_object("BOOKMARK", object);
    }

    /// What an event is to this watch: nothing, itself, or that an object came into sight or went out of it.
    fn seen_as(&self, event: &Event) -> Option<EventKind> {
        if !self.target.namespace.is_empty() {
            let (namespace, _) = key_parts(&event.key);
            if namespace != self.target.namespace {
                return None;
            }
        }
        if self.selectors.is_empty() {
            return Some(event.kind);
        }
        let before = event.before.as_ref().is_some_and(|before| self.selectors.matches(&event.key, before));
        let after = event.kind != EventKind::Deleted && self.selectors.matches(&event.key, &event.after);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
        }
    }

    /// Takes what is new from the log. Ends if it was cut, is too late, or its resource is gone.
    fn fetch(&mut self, context: &Context<'_>) {
        let shared = self.store.clone();
        shared.with(|store| {
            let Ok(collection) = store.of_mut(&self.target.resource.id) else {
                self.ended = true;
                return;
            };
            let log = &mut collection.log;
            if !log.is_open(self.id) {
                self.ended = true;
                return;
            }
            match log.read(self.place, BATCH) {
                None => self.ended = true,
                Some(events) => {
                    for event in events {
                        self.place = self.place.next();
                        match self.seen_as(event) {
                            Some(EventKind::Deleted) if event.kind != EventKind::Deleted => {
                                self.send_out_of_sight(event)
                            }
                            Some(kind) => self.send(kind, &event.after),
                            None => {}
                        }
                    }
                }
            }
            if self.ready.is_empty() && !self.ended {
                if self.place < log.end() {
                    // Everything in the batch was of no interest; there is more.
                    context.waker().wake_by_ref();
                } else {
                    log.wait(self.id, context.waker());
                    self.seen = store.revision;
                }
            }
        });
    }

    /// The next piece of the stream; none at its end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(timeout) = &mut self.timeout
            && timeout.as_mut().poll(context).is_ready()
        {
            self.timeout = None;
            self.ended = true;
        }
        if self.ready.is_empty() && !self.ended {
            self.fetch(context);
        }
        if self.ready.is_empty() && !self.ended {
            self.poll_bookmark(context);
        }
        match self.ready.pop_front() {
            Some(line) => Poll::Ready(Some(line)),
            None if self.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn poll_bookmark(&mut self, context: &mut Context<'_>) {
        let Some(bookmark) = &mut self.bookmark else { return };
        if bookmark.as_mut().poll(context).is_pending() {
            return;
        }
        let clock = self.clock;
        let mut next: Timer = Box::pin(async move { clock.sleep(BOOKMARK_EVERY).await });
        // Polled once, so that it wakes this watch; it cannot have passed yet.
        let _ = next.as_mut().poll(context);
        self.bookmark = Some(next);
        self.send_bookmark(self.seen, false);
    }

    fn id(&self) -> &ResourceId {
        &self.target.resource.id
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // One that could not be opened is dropped while the store is locked.
        if !self.entered {
            return;
        }
        self.store.with(|store| {
            if let Ok(collection) = store.of_mut(self.id()) {
                collection.log.leave(self.id);
            }
        });
    }
}
