//! From changes to the machines, instances, migrations and nodes that they concern, and looking at these.

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::kubevirt::kube_virt::{KubeVirt, LIVE_MIGRATE};
use drover_api::kubevirt::virtual_machine::VirtualMachine;
use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_api::kubevirt::virtual_machine_instance_migration::VirtualMachineInstanceMigration;
use drover_api::rancher::managed_chart::{ManagedChart, names::HARVESTER};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::Value;

use super::evacuation::Guest;
use super::{budget, evacuation, instance, launcher, machine, migration, operator, strategy};
use crate::apiserver::Answer;
use crate::world::agenda::{Key, Look};
use crate::world::look::Wake;
use crate::world::outcome::sooner;
use crate::world::{Part, World, pods};

const PART: Part = Part::KubeVirt;

impl World {
    pub(in crate::world) fn notice_virtual(&mut self, plural: &str, key: &Key) {
        if !self.has(PART) {
            return;
        }
        match plural {
            "kubevirts" => self.soon(Look::KubeVirt(key.clone())),
            "virtualmachines" => self.soon(Look::VirtualMachine(key.clone())),
            "virtualmachineinstances" => {
                let instance = self.read_virtual::<VirtualMachineInstance>(key);
                let before = self.index.virtual_machines.note_instance(key, instance.as_ref());
                self.notice_instance(key);
                if let Some(node) = before.and_then(|before| before.node) {
                    self.soon(Look::Evacuation(node));
                }
            }
            "virtualmachineinstancemigrations" => {
                let migration = self.read_virtual::<VirtualMachineInstanceMigration>(key);
                let instance = self.index.virtual_machines.note_migration(key, migration.as_ref());
                if migration.is_some() {
                    self.soon(Look::Migration(key.clone()));
                }
                if let Some(instance) = instance {
                    self.notice_instance(&instance);
                }
            }
            _ => {}
        }
    }

    /// Something has changed about an instance, its pods, its migrations or its budget.
    pub(in crate::world) fn notice_instance(&mut self, key: &Key) {
        if !self.has(PART) {
            return;
        }
        self.soon(Look::VirtualMachine(key.clone()));
        self.soon(Look::Instance(key.clone()));
        let migrations: Vec<Key> = self.index.virtual_machines.migrations_of(key).cloned().collect();
        migrations.into_iter().for_each(|key| self.soon(Look::Migration(key)));
        if let Some(node) = self.index.virtual_machines.node_of(key).map(String::from) {
            self.soon(Look::Evacuation(node));
        }
    }

    /// A taint of a node may drive its instances out.
    pub(in crate::world) fn notice_virtual_node(&mut self, name: &str) {
        if self.has(PART) && self.index.virtual_machines.on(name).next().is_some() {
            self.soon(Look::Evacuation(name.into()));
        }
    }

    /// Whether a claim can be shared decides whether those who use it can migrate.
    pub(in crate::world) fn notice_claim(&mut self, key: &Key) {
        if self.has(PART) {
            let users = self.index.virtual_machines.using(&key.0, &key.1);
            users.into_iter().for_each(|key| self.soon(Look::Instance(key)));
        }
    }

    pub(in crate::world) fn look_at_kubevirt(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(installed) = self.read_for::<KubeVirt>(PART, &key.0, &key.1)? else { return Ok(None) };
        let workloads = if self.moves_workloads()? { self.direct(PART).list()? } else { Vec::new() };
        self.perform(PART, &operator::reconcile(&installed, &workloads, now), now)
    }

    /// What the chart of Harvester asks of KubeVirt when it comes to another version, which it has installed.
    fn moves_workloads(&self) -> Answer<bool> {
        let chart = self.direct(PART).get::<ManagedChart>(Some(FLEET_NAMESPACE), HARVESTER)?;
        let Some(values) = chart.map(|chart| chart.spec.unwrap_or_default().values.unwrap_or_default()) else {
            return Ok(false);
        };
        let said = values.pointer("/kubevirt/spec/workloadUpdateStrategy/workloadUpdateMethods");
        Ok(said.and_then(Value::as_array).is_none_or(|methods| methods.iter().any(|method| method == LIVE_MIGRATE)))
    }

    pub(in crate::world) fn look_at_virtual_machine(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(machine) = self.read_for::<VirtualMachine>(PART, &key.0, &key.1)? else { return Ok(None) };
        let instance = self.read_for::<VirtualMachineInstance>(PART, &key.0, &key.1)?;
        self.perform(PART, &machine::reconcile(&machine, instance.as_ref(), now), now)
    }

    pub(in crate::world) fn look_at_instance(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(instance) = self.read_for::<VirtualMachineInstance>(PART, &key.0, &key.1)? else { return Ok(None) };
        let pods = self.launchers_of(&instance)?;
        let mut unshared = Vec::new();
        for (_, claim) in launcher::claims(&instance) {
            let found = self.read_for::<PersistentVolumeClaim>(PART, &key.0, &claim)?;
            if found.is_some_and(|claim| !is_shared(&claim)) {
                unshared.push(claim);
            }
        }
        let scene = instance::Scene { instance: &instance, pods: &pods, unshared: &unshared };
        let wake = self.perform(PART, &instance::reconcile(&scene, now), now)?;
        let Some(instance) = self.read_for::<VirtualMachineInstance>(PART, &key.0, &key.1)? else { return Ok(wake) };
        let installed = self.installed_strategy()?;
        let budgets = self.owned_by::<PodDisruptionBudget, _>(&instance)?;
        let migrations = self.migrations_of(key)?;
        let strategy = strategy(&instance, installed.as_deref());
        let outcome = budget::reconcile(&instance, strategy, &pods, &migrations, &budgets);
        Ok(sooner(wake, self.perform(PART, &outcome, now)?))
    }

    pub(in crate::world) fn look_at_migration(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(migration) = self.read_for::<VirtualMachineInstanceMigration>(PART, &key.0, &key.1)? else {
            return Ok(None);
        };
        let of: Key = (key.0.clone(), migration::instance_name(&migration).into());
        let instance = self.read_for::<VirtualMachineInstance>(PART, &of.0, &of.1)?;
        let pods = instance.as_ref().map_or_else(|| Ok(Vec::new()), |instance| self.launchers_of(instance))?;
        let notes = &self.index.virtual_machines;
        let others = || notes.unfinished().filter(|note| note.has_target && note.instance != of);
        let here = notes.node_of(&of);
        let scene = migration::Scene {
            migration: &migration,
            instance: instance.as_ref(),
            pods: &pods,
            of_instance: &self.migrations_of(&of)?,
            under_way: others().count(),
            under_way_from_node: others().filter(|note| notes.node_of(&note.instance) == here).count(),
        };
        self.perform(PART, &migration::reconcile(&scene, now), now)
    }

    pub(in crate::world) fn look_at_evacuation(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let notes = &self.index.virtual_machines;
        if notes.on(name).next().is_none() {
            return Ok(None);
        }
        let Some(node) = self.read_for::<Node>(PART, "", name)? else { return Ok(None) };
        let installed = self.installed_strategy()?;
        let mut guests = Vec::new();
        for key in notes.on(name) {
            let Some(instance) = self.read_for::<VirtualMachineInstance>(PART, &key.0, &key.1)? else { continue };
            let strategy = strategy(&instance, installed.as_deref()).to_string();
            let migrates = notes.unfinished().any(|note| note.instance == *key);
            guests.push(Guest { instance, strategy, migrates });
        }
        let outcome = evacuation::reconcile(&node, &guests, notes.unfinished().count(), now);
        self.perform(PART, &outcome, now)
    }

    /// What the installation says of instances that do not say themselves what a drain makes of them.
    fn installed_strategy(&self) -> Answer<Option<String>> {
        let installed = self.direct(PART).list::<KubeVirt>()?;
        Ok(installed.into_iter().find_map(|one| one.spec?.configuration?.eviction_strategy))
    }

    fn launchers_of(&self, instance: &VirtualMachineInstance) -> Answer<Vec<Pod>> {
        self.read_pods(PART, self.index.pods_of(pods::uid(&instance.metadata)).map(|(key, _)| key))
    }

    fn migrations_of(&self, instance: &Key) -> Answer<Vec<VirtualMachineInstanceMigration>> {
        let mut found = Vec::new();
        for (namespace, name) in self.index.virtual_machines.migrations_of(instance) {
            found.extend(self.read_for::<VirtualMachineInstanceMigration>(PART, namespace, name)?);
        }
        Ok(found)
    }

    fn read_virtual<K: crate::apiserver::Kind>(&self, key: &Key) -> Option<K> {
        self.direct(PART).get(Some(&key.0), &key.1).ok().flatten()
    }
}

fn is_shared(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
    modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteMany"))
}
