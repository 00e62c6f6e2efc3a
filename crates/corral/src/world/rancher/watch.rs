//! From changes to the clusters, Secrets and machines that they concern, and looking at these.

use drover_api::cluster_api::cluster::Cluster as CapiCluster;
use drover_api::cluster_api::machine::{Machine, phases};
use drover_api::rancher::machine_plan::{STATE_SUFFIX, annotations};
use drover_api::rancher::provisioning_cluster::Cluster;
use drover_api::rancher::rke_control_plane::RKEControlPlane;
use drover_api::rancher::setting::{self, Setting};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use serde_json::json;

use super::drain::{self, Step};
use super::options::Version;
use super::planner::{self, Entry};
use super::{agent, is_in_drain, note, status, wedges};
use crate::apiserver::{Answer, Kind};
use crate::world::agenda::{Key, Look};
use crate::world::annotations::{STALE, WEDGES};
use crate::world::look::Wake;
use crate::world::outcome::{Action, Outcome};
use crate::world::{Part, World, pods};

const PART: Part = Part::Rancher;
const AGENTS: Part = Part::SystemAgents;

impl World {
    fn knows_rancher(&self) -> bool {
        self.has(PART) || self.has(AGENTS)
    }

    pub(in crate::world) fn notice_secret(&mut self, key: &Key) {
        if !self.knows_rancher() {
            return;
        }
        let secret = self.read_rancher::<Secret>(key);
        if self.index.rancher.note_secret(key, secret.as_ref()) {
            self.notice_plan(key);
        } else if key.1.ends_with(STATE_SUFFIX) {
            self.notice_planner(&key.0);
        }
    }

    pub(in crate::world) fn notice_rancher(&mut self, group: &str, plural: &str, key: &Key) {
        if !self.knows_rancher() {
            return;
        }
        match (group, plural) {
            ("cluster.x-k8s.io", "machines") => {
                let machine = self.read_rancher::<Machine>(key);
                self.index.rancher.note_machine(key, machine.as_ref());
                self.soon(Look::CapiMachine(key.clone()));
                let secrets = self.index.rancher.secrets_of(key);
                secrets.iter().for_each(|secret| self.notice_plan(secret));
                self.notice_planner(&key.0);
            }
            ("management.cattle.io", "settings") if key.1 == setting::names::SERVER_VERSION => {
                let namespaces = self.index.rancher.namespaces();
                namespaces.iter().for_each(|namespace| self.notice_planner(namespace));
            }
            ("provisioning.cattle.io" | "cluster.x-k8s.io", "clusters") | ("rke.cattle.io", "rkecontrolplanes") => {
                self.soon(Look::Planner(key.clone()));
            }
            _ => {}
        }
    }

    /// A node is what its Machine tells of, what its drain waits for, and where its agent runs.
    pub(in crate::world) fn notice_provisioned_node(&mut self, name: &str) {
        if !self.knows_rancher() {
            return;
        }
        for machine in self.index.rancher.machines_on(name) {
            let secrets = self.index.rancher.secrets_of(&machine);
            self.soon(Look::CapiMachine(machine));
            for secret in secrets {
                self.soon(Look::MachineDrain(secret.clone()));
                self.soon(Look::SystemAgent(secret));
            }
        }
    }

    /// A pod has left: a drain may be over.
    pub(in crate::world) fn notice_drained(&mut self, node: &str) {
        if self.has(PART) {
            for machine in self.index.rancher.machines_on(node) {
                let secrets = self.index.rancher.secrets_of(&machine);
                secrets.into_iter().for_each(|secret| self.soon(Look::MachineDrain(secret)));
            }
        }
    }

    fn notice_plan(&mut self, key: &Key) {
        self.soon(Look::MachineDrain(key.clone()));
        self.soon(Look::SystemAgent(key.clone()));
        self.notice_planner(&key.0);
    }

    fn notice_planner(&mut self, namespace: &str) {
        if self.has(PART) {
            let id = crate::apiserver::ResourceId::new("rke.cattle.io", "rkecontrolplanes", "RKEControlPlane");
            let names = self.direct(PART).names(&id);
            let here = names.into_iter().filter(|(place, _)| place == namespace);
            here.for_each(|key| self.soon(Look::Planner(key)));
        }
    }

    pub(in crate::world) fn look_at_planner(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(control_plane) = self.read_for::<RKEControlPlane>(PART, &key.0, &key.1)? else { return Ok(None) };
        if self.is_told(&key.0, wedges::SILENT)? {
            return Ok(None);
        }
        let Some(cluster) = self.read_for::<Cluster>(PART, &key.0, &key.1)? else { return Ok(None) };
        if let Some(update) = Action::change(&control_plane, &status::with_spec_of(&control_plane, &cluster)) {
            return self.perform(PART, &Outcome::act(vec![update]), now);
        }
        let capi = self.read_for::<CapiCluster>(PART, &key.0, &key.1)?;
        let mut entries = Vec::new();
        for secret in self.index.rancher.secrets(&key.0) {
            let Some(of) = self.index.rancher.machine_of(&secret) else { continue };
            let machine = self.direct(PART).get_shared::<Machine>(Some(&of.0), &of.1)?;
            let secret = self.direct(PART).get_shared::<Secret>(Some(&secret.0), &secret.1)?;
            entries.extend(machine.zip(secret).map(|(machine, secret)| Entry { machine, secret }));
        }
        entries.sort_by(|one, other| one.machine.metadata.name.cmp(&other.machine.metadata.name));
        let state = format!("{}{STATE_SUFFIX}", key.1);
        let scene = planner::Scene {
            control_plane: &control_plane,
            entries: &entries,
            rancher: self.rancher_version()?,
            has_state: self.read_for::<Secret>(PART, &key.0, &state)?.is_some(),
            paused: capi.as_ref().and_then(|capi| capi.spec.as_ref()?.paused).unwrap_or(false),
        };
        let turn = planner::process(&scene, now);
        let waits_for = turn.waits_for.as_deref();
        let mut actions = turn.actions;
        actions.extend(status::of_control_plane(&control_plane, waits_for, now));
        actions.extend(status::of_cluster(&cluster, waits_for, now));
        actions.extend(capi.and_then(|capi| status::of_capi_cluster(&capi, waits_for, now)));
        self.perform(PART, &Outcome::act(actions), now)
    }

    fn rancher_version(&self) -> Answer<Version> {
        let setting = self.read_for::<Setting>(PART, "", setting::names::SERVER_VERSION)?;
        let value = setting.and_then(|setting| setting.value.or(setting.default));
        Ok(Version::read(value.as_deref()))
    }

    pub(in crate::world) fn look_at_machine_drain(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(secret) = self.read_for::<Secret>(PART, &key.0, &key.1)? else { return Ok(None) };
        if let Some(kept) = agent::keep_applied(&secret) {
            return self.perform(PART, &Outcome::act(vec![kept]), now);
        }
        if self.is_told(&key.0, wedges::SILENT)? {
            // Nothing tells when that is over.
            return Ok(Some(later(now, drain::AGAIN)).filter(|_| is_in_drain(&secret)));
        }
        let Some(name) = self.index.rancher.node_of(key) else { return Ok(None) };
        let node = self.read_for::<Node>(PART, "", name)?;
        match drain::step(&secret, node.as_ref(), self.is_told(&key.0, wedges::STALE_ANNOTATIONS)?, now) {
            Step::Nothing => Ok(None),
            Step::Act(actions) => self.perform(PART, &Outcome::act(actions), now),
            Step::Evict { options, until } => {
                let left = self.evict_from(name, &options);
                let action = match left {
                    None => drain::done(&secret, note(&secret, annotations::DRAIN_OPTIONS).unwrap_or_default()),
                    Some(_) if now < until => return Ok(Some(later(now, drain::AGAIN).min(until))),
                    Some(error) => drain::failed(&secret, &error, now),
                };
                self.perform(PART, &Outcome::act(vec![action]), now)
            }
        }
    }

    /// Evicts what a drain takes from a node; says what it could not, or that it has to wait, and nothing if all has gone.
    fn evict_from(
        &self,
        node: &str,
        options: &drover_api::rancher::provisioning_cluster::DrainOptions,
    ) -> Option<String> {
        let direct = self.direct(PART);
        let grace = options.grace_period.or(Some(0)).filter(|seconds| *seconds >= 0);
        let mut left = None;
        for ((namespace, name), pod) in self.index.pods_on(node).filter(|(_, pod)| drain::takes(pod, options)) {
            let waits = format!("error when waiting for pod {name:?} in namespace {namespace:?} to terminate");
            let refused = match pod.leaving {
                true => Ok(()),
                false => direct.evict(namespace, name, grace),
            };
            left = Some(match refused {
                Ok(()) => format!("{waits}: global timeout reached: 10m0s"),
                Err(status) => {
                    format!(
                        "error when evicting pods/{name:?} -n {namespace:?}: global timeout reached: 10m0s: {}",
                        status.message
                    )
                }
            });
        }
        left
    }

    fn is_told(&self, namespace: &str, wedge: &str) -> Answer<bool> {
        let told = self.direct(PART).list::<RKEControlPlane>()?.into_iter().find_map(|one| {
            let is_its = pods::namespace(&one.metadata) == namespace;
            one.metadata.annotations.filter(|_| is_its)?.get(WEDGES).cloned()
        });
        Ok(told.is_some_and(|told| told.split(',').any(|one| one.trim() == wedge)))
    }

    pub(in crate::world) fn look_at_system_agent(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(secret) = self.read_for::<Secret>(AGENTS, &key.0, &key.1)? else { return Ok(None) };
        let Some(name) = self.index.rancher.node_of(key) else { return Ok(None) };
        let Some(machine) = self.index.node(name).and_then(|note| note.machine.as_ref()) else { return Ok(None) };
        if let Some(back) = machine.away_until(now) {
            return Ok(Some(back).filter(|moment| *moment < Timestamp::MAX));
        }
        let Some(node) = self.read_for::<Node>(AGENTS, "", name)? else { return Ok(None) };
        self.perform(AGENTS, &agent::work(&secret, &node, now), now)
    }

    /// Cluster API keeps on a Machine what its Node says of itself.
    pub(in crate::world) fn look_at_capi_machine(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(machine) = self.read_for::<Machine>(PART, &key.0, &key.1)? else { return Ok(None) };
        let stale = machine.metadata.annotations.as_ref().and_then(|all| all.get(STALE));
        if stale.is_some_and(|value| value == "true") {
            return Ok(None);
        }
        let Some(name) = planner::node_of(&machine) else { return Ok(None) };
        let Some(node) = self.read_for::<Node>(PART, "", name)? else { return Ok(None) };
        let mut after = machine.clone();
        let status = after.status.get_or_insert_default();
        if let Some(info) = node.status.and_then(|status| status.node_info) {
            status.rest.insert("nodeInfo".into(), json!(info));
        }
        status.phase.get_or_insert_with(|| phases::RUNNING.into());
        let actions = Action::change(&machine, &after).into_iter().collect();
        self.perform(PART, &Outcome::act(actions), now)
    }

    fn read_rancher<K: Kind>(&self, key: &Key) -> Option<K> {
        let namespace = Some(key.0.as_str()).filter(|namespace| !namespace.is_empty());
        self.direct(PART).get(namespace, &key.1).ok().flatten()
    }
}
