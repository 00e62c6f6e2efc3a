//! What the world remembers of plan Secrets and Machines.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::cluster_api::machine::Machine;
use drover_api::rancher::machine_plan::{TYPE, labels};
use k8s_openapi::api::core::v1::Secret;

use super::{label, planner};
use crate::world::agenda::Key;

#[derive(Debug, Default)]
pub struct Notes {
    /// Plan Secrets, and the machine of each.
    secrets: BTreeMap<Key, String>,
    /// Machines by namespace and name, and the node of each.
    machines: BTreeMap<Key, Option<String>>,
}

impl Notes {
    /// Whether it is or was a plan Secret.
    pub fn note_secret(&mut self, key: &Key, secret: Option<&Secret>) -> bool {
        let of_plans = secret.filter(|secret| secret.type_.as_deref() == Some(TYPE));
        let machine = of_plans.and_then(|secret| label(secret, labels::MACHINE_NAME));
        match machine {
            Some(machine) => {
                self.secrets.insert(key.clone(), machine.into());
                true
            }
            None => self.secrets.remove(key).is_some(),
        }
    }

    pub fn note_machine(&mut self, key: &Key, machine: Option<&Machine>) {
        match machine {
            Some(machine) => drop(self.machines.insert(key.clone(), planner::node_of(machine).map(Into::into))),
            None => drop(self.machines.remove(key)),
        }
    }

    pub fn secrets(&self, namespace: &str) -> Vec<Key> {
        self.secrets.keys().filter(|key| key.0 == namespace).cloned().collect()
    }

    pub fn machine_of(&self, secret: &Key) -> Option<Key> {
        Some((secret.0.clone(), self.secrets.get(secret)?.clone()))
    }

    pub fn node_of(&self, secret: &Key) -> Option<&str> {
        self.machines.get(&self.machine_of(secret)?)?.as_deref()
    }

    /// The plan Secrets of a machine, of which there should be one.
    pub fn secrets_of(&self, machine: &Key) -> Vec<Key> {
        let is_its = |(key, of): &(&Key, &String)| key.0 == machine.0 && **of == machine.1;
        self.secrets.iter().filter(is_its).map(|(key, _)| key.clone()).collect()
    }

    pub fn machines_on(&self, node: &str) -> Vec<Key> {
        let there = |(_, of): &(&Key, &Option<String>)| of.as_deref() == Some(node);
        self.machines.iter().filter(there).map(|(key, _)| key.clone()).collect()
    }

    /// The namespaces in which machines are.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.machines.keys().map(|key| key.0.clone()).collect()
    }
}
