//! The store as parsed objects, kept up with every commit, for whoever checks it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Objects by kind, namespace, name and group.
#[derive(Debug, Default, Clone)]
pub struct Known {
    kinds: BTreeMap<String, BTreeMap<Place, Arc<Value>>>,
}

/// Namespace, name and group. Kinds of several groups may share their name, and their objects theirs: a Harvester cluster has three that are called
/// `Cluster fleet-local/local`.
type Place = (String, String, String);

impl Known {
    /// All objects of a `v1` List.
    pub fn of_list(list: &Value) -> Self {
        let mut known = Known::default();
        for item in list["items"].as_array().into_iter().flatten() {
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
            let version = text(&item["apiVersion"]);
            let group = version.split_once('/').map_or("", |(group, _)| group);
            known.put((group, &text(&item["kind"])), &namespace, &name, Some(Arc::new(item.clone())));
        }
        known
    }

    /// Takes in an object as it is now, none if it is gone; gives back how it was.
    pub fn put(
        &mut self,
        (group, kind): (&str, &str),
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
    ) -> Option<Arc<Value>> {
        let key = (namespace.to_owned(), name.to_owned(), group.to_owned());
        match (object, self.kinds.get_mut(kind)) {
            (Some(object), Some(objects)) => objects.insert(key, object),
            (Some(object), None) => {
                self.kinds.insert(kind.to_owned(), BTreeMap::from([(key, object)]));
                None
            }
            (None, objects) => objects?.remove(&key),
        }
    }

    /// Of several groups, that of the first.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        let first = (namespace.to_owned(), name.to_owned(), String::new());
        let (place, object) = self.kinds.get(kind)?.range(first..).next()?;
        (place.0 == namespace && place.1 == name).then_some(object.as_ref())
    }

    /// With namespaces and names, in their order.
    pub fn named(&self, kind: &str) -> impl Iterator<Item = (&str, &str, &Value)> {
        let objects = self.kinds.get(kind).into_iter().flatten();
        objects.map(|((namespace, name, _), object)| (namespace.as_str(), name.as_str(), object.as_ref()))
    }

    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.named(kind).map(|(_, _, object)| object)
    }

    pub fn node(&self, name: &str) -> Option<&Value> {
        self.get("Node", "", name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_of_two_groups_with_one_name_are_two() {
        let of = |group: &str| Arc::new(json!({ "apiVersion": format!("{group}/v1"), "kind": "Cluster" }));
        let mut known = Known::default();
        for group in ["provisioning.cattle.io", "cluster.x-k8s.io"] {
            assert_eq!(known.put((group, "Cluster"), "fleet-local", "local", Some(of(group))), None);
        }

        assert_eq!(known.all("Cluster").count(), 2);
        assert_eq!(known.get("Cluster", "fleet-local", "local"), Some(&*of("cluster.x-k8s.io")));
        assert_eq!(known.get("Cluster", "fleet-local", "loca"), None);

        let gone = known.put(("cluster.x-k8s.io", "Cluster"), "fleet-local", "local", None);

        assert_eq!(gone, Some(of("cluster.x-k8s.io")));
        assert_eq!(known.get("Cluster", "fleet-local", "local"), Some(&*of("provisioning.cattle.io")));
    }
}
