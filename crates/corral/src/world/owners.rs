//! Who owns whom, over all kinds: what the garbage collector remembers between changes.

use std::collections::{BTreeMap, BTreeSet};

use super::agenda::Key;
use super::garbage::{FOREGROUND, Header, ORPHAN};
use crate::apiserver::ResourceId;

/// An object of any kind.
#[derive(Clone, Debug)]
pub struct Entry {
    pub resource: ResourceId,
    pub header: Header,
}

#[derive(Debug, Default)]
pub struct Owners {
    /// By uid.
    entries: BTreeMap<String, Entry>,
    uids: BTreeMap<(ResourceId, Key), String>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

impl Owners {
    /// Remembers an object as it is now, or forgets it; answers with the uids that this concerns.
    pub fn note(&mut self, resource: &ResourceId, key: &Key, header: Option<Header>) -> BTreeSet<String> {
        // Most changes leave all ties as they are.
        if let Some(after) = &header
            && let Some(entry) = self.entries.get_mut(&after.uid)
            && has_same_ties(&entry.header, after)
        {
            entry.header.resource_version.clone_from(&after.resource_version);
            return BTreeSet::new();
        }
        let place = (resource.clone(), key.clone());
        let before = self.uids.remove(&place).and_then(|uid| self.forget(&uid));
        let concerned = self.concerned(before.as_ref(), header.as_ref());
        if let Some(header) = header {
            self.uids.insert(place, header.uid.clone());
            for owner in &header.owner_references {
                self.dependents.entry(owner.uid.clone()).or_default().insert(header.uid.clone());
            }
            if !header.namespace.is_empty() {
                self.by_namespace.entry(header.namespace.clone()).or_default().insert(header.uid.clone());
            }
            self.entries.insert(header.uid.clone(), Entry { resource: resource.clone(), header });
        }
        concerned
    }

    pub fn get(&self, uid: &str) -> Option<&Entry> {
        self.entries.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Entry> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.entries.get(uid))
    }

    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Entry> {
        self.by_namespace.get(namespace).into_iter().flatten().filter_map(|uid| self.entries.get(uid))
    }

    fn forget(&mut self, uid: &str) -> Option<Header> {
        let header = self.entries.remove(uid)?.header;
        for owner in &header.owner_references {
            remove_from(&mut self.dependents, &owner.uid, uid);
        }
        remove_from(&mut self.by_namespace, &header.namespace, uid);
        Some(header)
    }

    /// The object itself if its ties changed, its dependents if it is going, its owners if they wait for it.
    fn concerned(&self, before: Option<&Header>, after: Option<&Header>) -> BTreeSet<String> {
        let mut concerned = BTreeSet::new();
        concerned.extend(after.filter(|after| may_be_garbage(after)).map(|after| after.uid.clone()));
        let gone = before.filter(|before| after.is_none_or(|after| after.uid != before.uid));
        let going = after.filter(|after| after.deletion_timestamp.is_some());
        for owner in gone.into_iter().chain(going) {
            concerned.extend(self.dependents.get(&owner.uid).into_iter().flatten().cloned());
        }
        for owner in before.into_iter().chain(after).flat_map(|header| &header.owner_references) {
            concerned
                .extend(self.entries.get(&owner.uid).filter(|entry| waits(&entry.header)).map(|_| owner.uid.clone()));
        }
        concerned
    }
}

fn may_be_garbage(header: &Header) -> bool {
    !header.owner_references.is_empty() || waits(header)
}

/// Something of the collector's holds it.
fn waits(header: &Header) -> bool {
    header.deletion_timestamp.is_some() && header.finalizers.iter().any(|one| one == FOREGROUND || one == ORPHAN)
}

fn has_same_ties(before: &Header, after: &Header) -> bool {
    before.uid == after.uid
        && before.owner_references == after.owner_references
        && before.finalizers == after.finalizers
        && before.deletion_timestamp == after.deletion_timestamp
}

fn remove_from(sets: &mut BTreeMap<String, BTreeSet<String>>, name: &str, uid: &str) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(uid);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}
