//! One version of an object: as bytes, and for a while as it is worked on.
//!
//! An object is kept as its canonical JSON, wrapped in the watch event that announced it: the event is serialised
//! once, whoever watches, and storing the object costs nothing more.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    forms::{self, Form},
    log::EventKind,
    object::{Meta, Object},
    packed::Packed,
    resources::Resource,
    status::{Answer, internal},
    unmanaged,
};

/// One version of an object.
pub(crate) struct Stored {
    pub revision: u64,
    pub labels: Packed,
    pub fields: Packed,
    /// The event, with the object inside it.
    event: Bytes,
    kind: EventKind,
    /// How many bytes of the object say what it is: everything up to its first other field.
    head: u16,
    /// Decoded, while it is among those that were written last: most writes are to one of them, and decoding it would cost
    /// more than the rest of the write.
    at_hand: Mutex<Option<AtHand>>,
}

struct AtHand {
    object: Shared,
    typed: Typed,
}

/// An object that many read at once: whoever keeps it shares it with the store.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Value>);

impl Shared {
    fn new(object: Object) -> Self {
        Shared(Arc::new(Value::Object(object)))
    }

    pub fn value(&self) -> &Arc<Value> {
        &self.0
    }
}

impl Default for Shared {
    fn default() -> Self {
        Shared::new(Object::default())
    }
}

impl Deref for Shared {
    type Target = Object;

    fn deref(&self) -> &Object {
        static NOTHING: LazyLock<Object> = LazyLock::new(Object::default);
        self.0.as_object().unwrap_or(&NOTHING)
    }
}

/// An object as one of the types in which it is read. Most versions are read once, some a hundred times: whoever asks a second time,
/// or only to look at it, will ask again.
enum Typed {
    Never,
    Once,
    Kept(Arc<dyn Any + Send + Sync>),
}

impl Stored {
    /// Whether it has not been changed since it was made.
    pub fn is_new(&self) -> bool {
        self.kind == EventKind::Added
    }

    pub fn new(resource: &Resource, kind: EventKind, revision: u64, mut object: Object) -> Answer<Self> {
        if revision > 0 {
            object.set_meta("resourceVersion", revision.to_string());
        }
        let labels = Packed::from_object(object.meta("labels").and_then(Value::as_object));
        let fields = resource.rules.fields(&object);
        let mut event = Vec::with_capacity(4096);
        event.extend_from_slice(kind.opening());
        let head = write_canonical(&object, &mut event).map_err(|error| internal(&error.to_string()))?;
        event.extend_from_slice(CLOSING);
        // What is kept has to be exact. The buffer was larger, and an allocator may leave what is made smaller where it is.
        let event = Bytes::copy_from_slice(&event);
        let at_hand = Mutex::new(Some(AtHand { object: Shared::new(object), typed: Typed::Never }));
        Ok(Stored { revision, labels, fields, event, kind, head, at_hand })
    }

    /// A version that is shown to one caller and not kept.
    pub fn unsaved(resource: &Resource, object: Object) -> Answer<Self> {
        let revision = object.resource_version().parse().unwrap_or_default();
        let stored = Stored::new(resource, EventKind::Modified, revision, object)?;
        stored.put_away();
        Ok(stored)
    }

    pub fn json(&self) -> Bytes {
        self.event.slice(self.kind.opening().len()..self.event.len() - CLOSING.len())
    }

    /// The object as another version of its API shows it. But for a few kinds, versions differ in their name alone.
    pub fn json_as(&self, api_version: &str, kind: &str) -> Bytes {
        if let Some(form) = forms::of(api_version, kind)
            && let Ok(mut object) = self.object()
        {
            (form.show)(&mut object);
            return Bytes::from(Value::Object(object).to_string());
        }
        let mut shown = Vec::with_capacity(self.event.len());
        shown.extend_from_slice(head(api_version, kind).as_bytes());
        shown.extend_from_slice(&self.json()[usize::from(self.head)..]);
        Bytes::from(shown)
    }

    /// The fields without those that say what the object is, as lists of one kind hold them, in a form of their own if
    /// there is one.
    pub fn json_untyped(&self, form: Option<&Form>, list: &mut Vec<u8>) {
        if let Some(form) = form
            && let Ok(mut object) = self.object()
        {
            (form.show)(&mut object);
            object.retain(|name, _| name != "apiVersion" && name != "kind");
            list.extend_from_slice(Value::Object(object).to_string().as_bytes());
            return;
        }
        list.push(b'{');
        list.extend_from_slice(&self.json()[usize::from(self.head)..]);
    }

    /// The object, to be read by many.
    pub fn shared(&self) -> Answer<Shared> {
        match &*self.at_hand() {
            Some(at_hand) => Ok(at_hand.object.clone()),
            None => self.decode().map(Shared::new),
        }
    }

    /// The object as a type of its own, without managed fields: nobody who reads it so looks at them.
    pub fn typed<T: DeserializeOwned + Clone + Send + Sync + 'static>(&self) -> Answer<T> {
        self.read(false).map(Arc::unwrap_or_clone)
    }

    /// The same for those who only read it.
    pub fn typed_shared<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Answer<Arc<T>> {
        self.read(true)
    }

    fn read<T: DeserializeOwned + Send + Sync + 'static>(&self, is_shared: bool) -> Answer<Arc<T>> {
        let mut at_hand = self.at_hand();
        if let Some(AtHand { typed: Typed::Kept(kept), .. }) = &*at_hand
            && let Ok(known) = kept.clone().downcast::<T>()
        {
            return Ok(known);
        }
        let object = match &*at_hand {
            Some(at_hand) => at_hand.object.clone(),
            None => self.decode().map(Shared::new)?,
        };
        let decoded: Arc<T> = Arc::new(unmanaged::typed(&object).map_err(|error| internal(&error.to_string()))?);
        if let Some(AtHand { typed, .. }) = &mut *at_hand {
            *typed = match typed {
                Typed::Never if !is_shared => Typed::Once,
                _ => Typed::Kept(decoded.clone()),
            };
        }
        Ok(decoded)
    }

    /// What a reader wants to know of its metadata.
    pub fn metadata<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        #[derive(Deserialize)]
        struct Whole<T> {
            metadata: T,
        }
        match self.at_hand().as_ref().and_then(|at_hand| at_hand.object.get("metadata")) {
            Some(metadata) => T::deserialize(metadata),
            None => serde_json::from_slice::<Whole<T>>(&self.json()).map(|whole| whole.metadata),
        }
    }

    /// The object, to be changed.
    pub fn object(&self) -> Answer<Object> {
        match &*self.at_hand() {
            Some(at_hand) => Ok(Object::clone(&at_hand.object)),
            None => self.decode(),
        }
    }

    /// Keeps the bytes alone; tells whether there was more.
    pub fn put_away(&self) -> bool {
        self.at_hand().take().is_some()
    }

    pub fn is_at_hand(&self) -> bool {
        self.at_hand().is_some()
    }

    /// Decodes the object, to be kept so; tells whether it was not.
    pub fn take_to_hand(&self) -> Answer<bool> {
        let mut at_hand = self.at_hand();
        if at_hand.is_some() {
            return Ok(false);
        }
        *at_hand = Some(AtHand { object: self.decode().map(Shared::new)?, typed: Typed::Never });
        Ok(true)
    }

    fn at_hand(&self) -> MutexGuard<'_, Option<AtHand>> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decode(&self) -> Answer<Object> {
        serde_json::from_slice(&self.json()).map_err(|error| internal(&error.to_string()))
    }

    /// The line of a watch that announces this version, in pieces so that nothing is copied.
    pub fn announce(&self, kind: EventKind, line: &mut impl Extend<Bytes>) {
        if kind == self.kind {
            line.extend([self.event.clone()]);
        } else {
            line.extend([Bytes::from_static(kind.opening()), self.json(), Bytes::from_static(CLOSING)]);
        }
    }
}

/// Writes an object in the one form in which it is kept: what it is first, then all other fields sorted. Returns the
/// length of the first part.
fn write_canonical(object: &Object, buffer: &mut Vec<u8>) -> serde_json::Result<u16> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let head = head(text("apiVersion"), text("kind"));
    buffer.extend_from_slice(head.as_bytes());
    let others = object.iter().filter(|(name, _)| *name != "apiVersion" && *name != "kind");
    for (place, (name, value)) in others.enumerate() {
        write_field(place, name, value, buffer)?;
    }
    buffer.push(b'}');
    // Groups and kinds are names of at most 253 letters.
    Ok(u16::try_from(head.len()).unwrap_or(u16::MAX))
}

fn write_field(place: usize, name: &str, value: &Value, buffer: &mut Vec<u8>) -> serde_json::Result<()> {
    if place > 0 {
        buffer.push(b',');
    }
    serde_json::to_writer(&mut *buffer, name)?;
    buffer.push(b':');
    serde_json::to_writer(buffer, value)
}

fn head(api_version: &str, kind: &str) -> String {
    format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",")
}

const CLOSING: &[u8] = b"}\n";

impl EventKind {
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }

    pub fn opening(self) -> &'static [u8] {
        match self {
            EventKind::Added => b"{\"type\":\"ADDED\",\"object\":",
            EventKind::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            EventKind::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use drover_clock::Clock;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use crate::apiserver::object::Object;
    use crate::apiserver::store::AT_HAND;
    use crate::apiserver::{ApiServer, Options, resources::ResourceId};

    /// More than are kept at hand.
    const ALL: usize = AT_HAND + 88;

    #[test]
    fn what_is_at_hand_is_what_is_stored_and_not_too_much_is() {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 10 });
        let (direct, maps) = (server.direct("test"), ResourceId::new("", "configmaps", "ConfigMap"));
        for place in 0..ALL {
            let name = format!("map-{place:04}");
            let map = json!({ "metadata": { "name": name }, "data": { "name": "none" } });
            direct.create::<ConfigMap>(&serde_json::from_value(map).unwrap()).unwrap();
        }
        for name in ["map-0000", "map-0300", "map-2135", "map-0000"] {
            let change = json!({ "metadata": { "finalizers": ["example.org/stay"] }, "data": { "name": name } });
            direct.patch_object(&maps, "default", name, &change).unwrap();
        }
        direct.delete::<ConfigMap>(Some("default"), "map-0300", None).unwrap();

        // Read as a type again and again, it is what is stored, and not what was stored when it was read first.
        let read = |name: &str| direct.get::<ConfigMap>(Some("default"), name).unwrap().unwrap().data.unwrap();
        let named = |name: &str| BTreeMap::from([("name".to_owned(), name.to_owned())]);
        for (before, after) in [("map-2135", "once"), ("once", "twice")] {
            for _ in 0..3 {
                assert_eq!(read("map-2135"), named(before));
            }
            direct.patch_object(&maps, "default", "map-2135", &json!({ "data": { "name": after } })).unwrap();
        }
        assert_eq!(read("map-2135"), named("twice"));

        // Whoever only reads an object that was written long ago has it at hand from then on.
        let is_at_hand = |name: &str| {
            let key = format!("default/{name}");
            server.store().with(|store| store.get(&maps, &key).unwrap().is_at_hand())
        };
        let shared = || direct.get_shared::<ConfigMap>(Some("default"), "map-0001").unwrap().unwrap();
        assert!(!is_at_hand("map-0001"));
        let first = shared();
        assert!(is_at_hand("map-0001"));
        assert!(Arc::ptr_eq(&first, &shared()));

        let mut at_hand = 0;
        server.store().with(|store| {
            for stored in store.of(&maps).unwrap().objects.values() {
                assert_eq!(*stored.shared().unwrap(), stored.decode().unwrap());
                assert_eq!(stored.object().unwrap(), stored.decode().unwrap());
                assert_eq!(
                    stored.metadata::<Object>().unwrap(),
                    stored.decode().unwrap()["metadata"].as_object().unwrap().clone()
                );
                at_hand += usize::from(stored.is_at_hand());
            }
        });
        assert!((AT_HAND - 100..=AT_HAND).contains(&at_hand), "{at_hand} of {ALL}");
    }
}
