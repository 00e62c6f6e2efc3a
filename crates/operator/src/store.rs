//! What is known of the cluster: the newest version of each object that was listed, watched or answered.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::decision::Kind;
use drover_core::seen::{JobSeen, Meta, NodeSeen, PlanSeen, PodSeen, SecretSeen, Seen};

/// One shelf a kind; all objects that have a namespace are of the operator's.
#[derive(Debug, Default)]
pub struct Store {
    pub plans: Shelf<PlanSeen>,
    pub nodes: Shelf<NodeSeen>,
    pub jobs: Shelf<JobSeen>,
    pub secrets: Shelf<SecretSeen>,
    /// The pods of Jobs, where Plans drain.
    pub pods: Shelf<PodSeen>,
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Shelf<T> {
    pub by_name: BTreeMap<String, T>,
    /// All of them have been listed at least once.
    pub listed: bool,
    /// Uids of objects that an answer said are no more, while a watch that lags may still tell of them.
    dead: BTreeSet<String>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf { by_name: BTreeMap::new(), listed: false, dead: BTreeSet::new() }
    }
}

impl Store {
    /// Takes a whole list of one kind. What is newer, because a write of ours was answered meanwhile, stays.
    pub fn replace(&mut self, kind: Kind, objects: Vec<Seen>, resource_version: u64) {
        if let Some(shelf) = self.shelf(kind) {
            shelf.clear_until(resource_version);
        }
        for object in objects {
            self.apply(object);
        }
        if let Some(shelf) = self.shelf(kind) {
            shelf.has_been_listed();
        }
    }

    /// Takes one object; false if something at least as new is known.
    pub fn apply(&mut self, object: Seen) -> bool {
        match object {
            Seen::Plan(plan) => self.plans.put(*plan),
            Seen::Node(node) => self.nodes.put(node),
            Seen::Job(job) => self.jobs.put(job),
            Seen::Secret(secret) => self.secrets.put(secret),
            Seen::Pod(pod) => self.pods.put(pod),
        }
    }

    /// A watch saw the object go. The next of that name may be known already.
    pub fn forget(&mut self, kind: Kind, name: &str, uid: &str, resource_version: u64) {
        if let Some(shelf) = self.shelf(kind) {
            shelf.forget(name, uid, resource_version);
        }
    }

    /// An answer said that the object is no more; events about it that are still under way count no longer.
    pub fn bury(&mut self, kind: Kind, name: &str) {
        if let Some(shelf) = self.shelf(kind) {
            shelf.bury(name);
        }
    }

    fn shelf(&mut self, kind: Kind) -> Option<&mut dyn AnyShelf> {
        match kind {
            Kind::Plan => Some(&mut self.plans),
            Kind::Node => Some(&mut self.nodes),
            Kind::Job => Some(&mut self.jobs),
            Kind::Secret => Some(&mut self.secrets),
            Kind::Pod => Some(&mut self.pods),
            // Events are only written; the others belong to Upgrades, which are kept elsewhere.
            _ => None,
        }
    }
}

pub(crate) trait Object {
    fn meta(&self) -> &Meta;
}

macro_rules! objects {
    ($($kind:ty),*) => { $(impl Object for $kind {
        fn meta(&self) -> &Meta {
            &self.meta
        }
    })* };
}
objects!(PlanSeen, NodeSeen, JobSeen, SecretSeen, PodSeen);

/// What can be done to a shelf without knowing its kind.
trait AnyShelf {
    fn clear_until(&mut self, resource_version: u64);
    fn has_been_listed(&mut self);
    fn forget(&mut self, name: &str, uid: &str, resource_version: u64);
    fn bury(&mut self, name: &str);
}

impl<T: Object> Shelf<T> {
    fn put(&mut self, object: T) -> bool {
        let meta = object.meta();
        let known = self.by_name.get(&meta.name).map(|known| known.meta().resource_version);
        let news = !self.dead.contains(&meta.uid) && known.is_none_or(|known| known < meta.resource_version);
        if news {
            self.by_name.insert(meta.name.clone(), object);
        }
        news
    }
}

impl<T: Object> AnyShelf for Shelf<T> {
    fn clear_until(&mut self, resource_version: u64) {
        self.by_name.retain(|_, object| object.meta().resource_version > resource_version);
    }

    fn has_been_listed(&mut self) {
        self.dead.clear();
        self.listed = true;
    }

    fn forget(&mut self, name: &str, uid: &str, resource_version: u64) {
        self.dead.remove(uid);
        if self.by_name.get(name).is_some_and(|known| known.meta().resource_version <= resource_version) {
            self.by_name.remove(name);
        }
    }

    fn bury(&mut self, name: &str) {
        if let Some(object) = self.by_name.remove(name) {
            self.dead.insert(object.meta().uid.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(uid: &str, version: u64) -> Seen {
        let json = json!({ "metadata": { "name": "n1", "uid": uid, "resourceVersion": version.to_string() } });
        Seen::decode(Kind::Node, json.to_string().as_bytes()).unwrap().unwrap()
    }

    fn version(store: &Store) -> Option<u64> {
        store.nodes.by_name.get("n1").map(|node| node.meta.resource_version)
    }

    #[test]
    fn an_answer_to_a_write_is_not_undone_by_an_older_event() {
        let mut store = Store::default();
        assert!(store.apply(node("a", 7)));
        assert!(!store.apply(node("a", 5)));
        assert_eq!(version(&store), Some(7));
    }

    #[test]
    fn a_list_keeps_what_a_write_of_ours_has_made_since() {
        let mut store = Store::default();
        store.apply(node("a", 7));
        store.replace(Kind::Node, vec![node("a", 5)], 6);
        assert_eq!(version(&store), Some(7));
    }

    #[test]
    fn a_list_drops_what_is_gone() {
        let mut store = Store::default();
        store.apply(node("a", 5));
        store.replace(Kind::Node, vec![], 6);
        assert_eq!(version(&store), None);
    }

    #[test]
    fn a_buried_object_does_not_rise_from_a_late_event() {
        let mut store = Store::default();
        store.apply(node("a", 5));
        store.bury(Kind::Node, "n1");
        store.apply(node("a", 6));
        assert_eq!(version(&store), None);
        store.apply(node("b", 7));
        assert_eq!(version(&store), Some(7));
    }

    #[test]
    fn the_end_of_an_object_does_not_take_its_successor_along() {
        let mut store = Store::default();
        store.apply(node("b", 9));
        store.forget(Kind::Node, "n1", "a", 8);
        assert_eq!(version(&store), Some(9));
    }
}
