//! What the world remembers of instances and migrations, so that a change leads to those that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_api::kubevirt::virtual_machine_instance_migration::VirtualMachineInstanceMigration;

use super::migration::{has_target, instance_name, is_final};
use super::{launcher, node};
use crate::world::agenda::Key;

#[derive(Clone, Debug, PartialEq)]
pub struct InstanceNote {
    pub node: Option<String>,
    /// The names of its claims.
    pub claims: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MigrationNote {
    pub instance: Key,
    pub ended: bool,
    pub has_target: bool,
}

#[derive(Debug, Default)]
pub struct Notes {
    instances: BTreeMap<Key, InstanceNote>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    migrations: BTreeMap<Key, MigrationNote>,
    by_instance: BTreeMap<Key, BTreeSet<Key>>,
}

impl Notes {
    /// Remembers an instance as it is now, or forgets it; answers with what was known.
    pub fn note_instance(&mut self, key: &Key, instance: Option<&VirtualMachineInstance>) -> Option<InstanceNote> {
        let before = self.instances.remove(key);
        if let Some(node) = before.as_ref().and_then(|before| before.node.as_ref())
            && let Some(there) = self.by_node.get_mut(node)
        {
            there.remove(key);
        }
        if let Some(instance) = instance {
            let claims = launcher::claims(instance).into_iter().map(|(_, claim)| claim).collect();
            let note = InstanceNote { node: node(instance).map(Into::into), claims };
            if let Some(node) = &note.node {
                self.by_node.entry(node.clone()).or_default().insert(key.clone());
            }
            self.instances.insert(key.clone(), note);
        }
        before
    }

    pub fn note_migration(&mut self, key: &Key, migration: Option<&VirtualMachineInstanceMigration>) -> Option<Key> {
        let before = self.migrations.remove(key).map(|note| note.instance);
        if let Some(all) = before.as_ref().and_then(|instance| self.by_instance.get_mut(instance)) {
            all.remove(key);
        }
        let Some(migration) = migration else { return before };
        let instance: Key = (key.0.clone(), instance_name(migration).into());
        self.by_instance.entry(instance.clone()).or_default().insert(key.clone());
        let note =
            MigrationNote { instance: instance.clone(), ended: is_final(migration), has_target: has_target(migration) };
        self.migrations.insert(key.clone(), note);
        Some(instance)
    }

    pub fn node_of(&self, instance: &Key) -> Option<&str> {
        self.instances.get(instance)?.node.as_deref()
    }

    pub fn on(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.by_node.get(node).into_iter().flatten()
    }

    /// The instances that use a claim.
    pub fn using(&self, namespace: &str, claim: &str) -> Vec<Key> {
        let uses =
            |(key, note): &(&Key, &InstanceNote)| key.0 == namespace && note.claims.iter().any(|one| one == claim);
        self.instances.iter().filter(uses).map(|(key, _)| key.clone()).collect()
    }

    pub fn migrations_of(&self, instance: &Key) -> impl Iterator<Item = &Key> {
        self.by_instance.get(instance).into_iter().flatten()
    }

    /// Those that have not ended.
    pub fn unfinished(&self) -> impl Iterator<Item = &MigrationNote> {
        self.migrations.values().filter(|note| !note.ended)
    }
}
