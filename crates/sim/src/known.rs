//! The store as parsed objects, kept up with every commit, for whoever checks it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Objects by kind, namespace and name.
#[derive(Debug, Default, Clone)]
pub struct Known {
    kinds: BTreeMap<String, BTreeMap<(String, String), Arc<Value>>>,
}

impl Known {
    /// All objects of a `v1` List.
    pub fn of_list(list: &Value) -> Self {
        let mut known = Known::default();
        for item in list["items"].as_array().into_iter().flatten() {
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
            known.put(&text(&item["kind"]), &namespace, &name, Some(Arc::new(item.clone())));
        }
        known
    }

    /// Takes in an object as it is now, none if it is gone; gives back how it was.
    pub fn put(&mut self, kind: &str, namespace: &str, name: &str, object: Option<Arc<Value>>) -> Option<Arc<Value>> {
        let key = (namespace.to_owned(), name.to_owned());
        match (object, self.kinds.get_mut(kind)) {
            (Some(object), Some(objects)) => objects.insert(key, object),
            (Some(object), None) => {
                self.kinds.insert(kind.to_owned(), BTreeMap::from([(key, object)]));
                None
            }
            (None, objects) => objects?.remove(&key),
        }
    }

    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.kinds.get(kind)?.get(&(namespace.to_owned(), name.to_owned())).map(Arc::as_ref)
    }

    /// With namespaces and names, in their order.
    pub fn named(&self, kind: &str) -> impl Iterator<Item = (&str, &str, &Value)> {
        let objects = self.kinds.get(kind).into_iter().flatten();
        objects.map(|((namespace, name), object)| (namespace.as_str(), name.as_str(), object.as_ref()))
    }

    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.named(kind).map(|(_, _, object)| object)
    }

    pub fn node(&self, name: &str) -> Option<&Value> {
        self.get("Node", "", name)
    }
}
