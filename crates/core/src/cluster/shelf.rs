//! All objects of one kind, sorted by namespace and name.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::parts::Meta;

/// An object as far as it is read.
pub trait Projection: DeserializeOwned {
    const KIND: &'static str;

    fn metadata(&self) -> &Meta;
    fn metadata_mut(&mut self) -> &mut Meta;

    /// Drops what nobody reads.
    fn slim(&mut self) {}
}

/// Says that a struct with a field `metadata` is a projection of a kind.
macro_rules! projections {
    ($($type:ty => $kind:literal),* $(,)?) => { $(impl $crate::cluster::Projection for $type {
        const KIND: &'static str = $kind;

        fn metadata(&self) -> &$crate::cluster::Meta {
            &self.metadata
        }

        fn metadata_mut(&mut self) -> &mut $crate::cluster::Meta {
            &mut self.metadata
        }
    })* };
}
pub(super) use projections;

/// In boxes: nodes of a tree are half empty, and what they do not hold takes no room then.
#[derive(Debug, Clone, PartialEq)]
pub struct Shelf<T>(BTreeMap<(String, String), Box<T>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf(BTreeMap::new())
    }
}

impl<T: Projection> Shelf<T> {
    /// Reads an object and puts it here, in the place of an older one of the same name.
    pub fn decode(&mut self, json: &[u8]) -> Result<&mut T, serde_json::Error> {
        let mut object: T = serde_json::from_slice(json)?;
        object.metadata_mut().forget_copies();
        object.slim();
        let key = (object.metadata().namespace.clone(), object.metadata().name.clone());
        if key.1.is_empty() {
            return Err(serde::de::Error::custom("it has no name"));
        }
        Ok(self.0.entry(key).insert_entry(Box::new(object)).into_mut())
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        self.0.get(&(namespace.to_owned(), name.to_owned())).map(Box::as_ref)
    }

    /// An object without a namespace.
    pub fn named(&self, name: &str) -> Option<&T> {
        self.get("", name)
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.0.remove(&(namespace.to_owned(), name.to_owned()));
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(Box::as_ref)
    }

    pub fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a T> {
        let from = (namespace.to_owned(), String::new());
        self.0.range(from..).take_while(move |((of, _), _)| of == namespace).map(|(_, object)| object.as_ref())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
