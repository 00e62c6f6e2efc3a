//! The planner: tier by tier, and in each as many nodes at once as may be out, every node gets the plan that it should have.
//!
//! Models `pkg/capr/planner` of Rancher 2.12. A tier that is not finished stops those after it, and says what it waits for.

use std::sync::Arc;

use drover_api::cluster_api::machine::{Machine, phases};
use drover_api::rancher::machine_plan::{annotations, keys, labels};
use drover_api::rancher::provisioning_cluster::{DrainOptions, UpgradeStrategy};
use drover_api::rancher::rke_control_plane::{INIT_NODE_MACHINE_ID, RKEControlPlane};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::options::{self, Version};
use super::plan::{self, Wanted};
use super::{datum, has_role, is_in_drain, is_in_sync, is_init_node, label, note, set_datum, set_note, wedges};
use crate::world::annotations::WEDGES;
use crate::world::outcome::Action;
use crate::world::{loose, pods};

pub const PROBES_PASSED: &str = "rke.cattle.io/plan-probes-passed";
const LAST_UPDATED: &str = "rke.cattle.io/plan-last-updated";

/// A machine and its plan Secret.
#[derive(Clone, Debug)]
pub struct Entry {
    pub machine: Arc<Machine>,
    pub secret: Arc<Secret>,
}

pub struct Scene<'a> {
    pub control_plane: &'a RKEControlPlane,
    /// By the names of the machines.
    pub entries: &'a [Entry],
    pub rancher: Version,
    /// The Secret that holds the state of the cluster is there.
    pub has_state: bool,
    pub paused: bool,
}

/// What the planner does now, and what it waits for; nothing, if all is as it should be.
#[derive(Debug, Default)]
pub struct Turn {
    pub actions: Vec<Action>,
    pub waits_for: Option<String>,
}

impl Turn {
    fn waiting(message: impl Into<String>) -> Turn {
        Turn { actions: Vec::new(), waits_for: Some(message.into()) }
    }
}

pub fn process(scene: &Scene<'_>, now: Timestamp) -> Turn {
    if scene.paused {
        return Turn::waiting("CAPI cluster or RKEControlPlane is paused");
    }
    let planned = scene.entries.iter().any(|entry| datum(&entry.secret, keys::PLAN).is_some());
    if planned && !scene.has_state {
        return Turn::waiting("waiting for the state of the cluster, whose Secret is missing");
    }
    let alive = |role: &str| {
        let of_role = |entry: &&Entry| has_role(&entry.secret, role) && !is_leaving(entry);
        scene.entries.iter().any(|entry| of_role(&entry))
    };
    if ![labels::ETCD_ROLE, labels::CONTROL_PLANE_ROLE, labels::WORKER_ROLE].iter().all(|role| alive(role)) {
        return Turn::waiting("waiting for at least one control plane, etcd, and worker node to be registered");
    }
    let init = match elect(scene) {
        Election::Is(entry) => entry,
        Election::Changes(actions) => return Turn { actions, waits_for: Some("electing a bootstrap node".into()) },
        Election::Nobody => return Turn::waiting("waiting for at least one bootstrap node"),
    };
    let server = note(&init.secret, annotations::JOIN_URL).map(String::from);
    let strategy = scene.control_plane.spec.as_ref().and_then(|spec| spec.upgrade_strategy.clone()).unwrap_or_default();
    let mut done = Turn::default();
    for tier in Tier::ALL {
        let entries: Vec<&Entry> = scene.entries.iter().filter(|entry| tier.has(entry)).collect();
        let turn = tier_turn(scene, tier, &entries, server.as_deref(), &strategy, now);
        done.actions.extend(turn.actions);
        if turn.waits_for.is_some() {
            done.waits_for = turn.waits_for;
            return done;
        }
    }
    done
}

fn is_leaving(entry: &Entry) -> bool {
    entry.machine.metadata.deletion_timestamp.is_some()
}

enum Election<'a> {
    Is(&'a Entry),
    Changes(Vec<Action>),
    Nobody,
}

/// The node that the others join: the one that is marked, or the first that could be.
fn elect<'a>(scene: &Scene<'a>) -> Election<'a> {
    let mut marked = scene.entries.iter().filter(|entry| is_init_node(&entry.secret));
    let fixed = scene.control_plane.metadata.labels.as_ref().and_then(|all| all.get(INIT_NODE_MACHINE_ID));
    match (marked.next(), marked.next()) {
        (Some(_), Some(_)) => {
            let all = scene.entries.iter().filter(|entry| is_init_node(&entry.secret));
            return Election::Changes(all.map(|entry| mark(entry, false)).collect());
        }
        (Some(one), None) if fixed.is_none_or(|id| label(&one.secret, labels::MACHINE_ID) == Some(id)) => {
            return Election::Is(one);
        }
        (Some(other), None) => return Election::Changes(vec![mark(other, false)]),
        (None, _) => {}
    }
    let may = |entry: &&Entry| {
        let status = entry.machine.status.as_ref();
        has_role(&entry.secret, labels::ETCD_ROLE)
            && !is_leaving(entry)
            && status.and_then(|status| status.phase.as_deref()) != Some(phases::FAILED)
            && status.and_then(|status| status.infrastructure_ready) != Some(false)
            && fixed.is_none_or(|id| label(&entry.secret, labels::MACHINE_ID) == Some(id))
    };
    let candidates = || scene.entries.iter().filter(may);
    let chosen = candidates().find(|entry| note(&entry.secret, annotations::JOIN_URL).is_some());
    match chosen.or_else(|| candidates().next()) {
        Some(entry) => Election::Changes(vec![mark(entry, true)]),
        None => Election::Nobody,
    }
}

fn mark(entry: &Entry, is_init: bool) -> Action {
    let mut secret = Secret::clone(&entry.secret);
    let labels = secret.metadata.labels.get_or_insert_default();
    match is_init {
        true => drop(labels.insert(labels::INIT_NODE.into(), "true".into())),
        false => drop(labels.remove(labels::INIT_NODE)),
    }
    Action::update(&secret)
}

/// In this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tier {
    Bootstrap,
    Etcd,
    ControlPlane,
    Worker,
}

impl Tier {
    const ALL: [Tier; 4] = [Tier::Bootstrap, Tier::Etcd, Tier::ControlPlane, Tier::Worker];

    fn name(self) -> &'static str {
        match self {
            Tier::Bootstrap => "bootstrap",
            Tier::Etcd => "etcd",
            Tier::ControlPlane => "control plane",
            Tier::Worker => "worker",
        }
    }

    /// A node with several roles is dealt with in the first of its tiers.
    fn has(self, entry: &Entry) -> bool {
        let role = |role: &str| has_role(&entry.secret, role);
        let (etcd, control_plane) = (role(labels::ETCD_ROLE), role(labels::CONTROL_PLANE_ROLE));
        match self {
            Tier::Bootstrap => etcd && is_init_node(&entry.secret),
            Tier::Etcd => etcd && !is_init_node(&entry.secret),
            Tier::ControlPlane => control_plane && !is_init_node(&entry.secret),
            Tier::Worker => role(labels::WORKER_ROLE) && !etcd && !control_plane,
        }
    }

    fn options(self, strategy: &UpgradeStrategy) -> DrainOptions {
        let own = match self {
            Tier::Worker => &strategy.worker_drain_options,
            _ => &strategy.control_plane_drain_options,
        };
        own.clone().unwrap_or_default()
    }

    /// How many may be out at once; none for any number. Voters go one by one whatever is set.
    fn limit(self, strategy: &UpgradeStrategy, nodes: usize) -> Option<usize> {
        let set = match self {
            Tier::Bootstrap | Tier::Etcd => return Some(1),
            Tier::ControlPlane => &strategy.control_plane_concurrency,
            Tier::Worker => &strategy.worker_concurrency,
        };
        limit(set.as_deref().unwrap_or_default(), nodes)
    }
}

/// `2`, `25%` of the nodes, rounded up, or `0` for no limit.
fn limit(text: &str, nodes: usize) -> Option<usize> {
    match text.strip_suffix('%') {
        Some(percent) => Some((percent.parse::<usize>().unwrap_or(0) * nodes).div_ceil(100)),
        None if text.is_empty() => Some(1),
        None => Some(text.parse().unwrap_or(1)).filter(|number| *number > 0),
    }
}

/// What the machines of a tier are waited for, in the order in which it is told.
#[derive(Default)]
struct Waits {
    draining: Vec<(String, String)>,
    configuring: Vec<(String, String)>,
    uncordoning: Vec<(String, String)>,
}

impl Waits {
    /// Rancher tells one kind of wait at a time.
    fn tell(&self, tier: Tier) -> Option<String> {
        let kinds =
            [("draining", &self.draining), ("configuring", &self.configuring), ("uncordoning", &self.uncordoning)];
        let (word, machines) = kinds.into_iter().find(|(_, machines)| !machines.is_empty())?;
        let mut names: Vec<String> = machines.iter().take(3).map(|(name, _)| name.clone()).collect();
        if machines.len() > 3 {
            names.push(format!("and {} more", machines.len() - 3));
        }
        let mut why: Vec<&str> = machines.iter().map(|(_, why)| why.as_str()).collect();
        why.dedup();
        Some(format!("{word} {} node(s) {}: {}", tier.name(), names.join(","), why.join(", ")))
    }
}

fn tier_turn(
    scene: &Scene<'_>,
    tier: Tier,
    entries: &[&Entry],
    server: Option<&str>,
    strategy: &UpgradeStrategy,
    now: Timestamp,
) -> Turn {
    let told = scene.control_plane.metadata.annotations.as_ref().and_then(|all| all.get(WEDGES));
    let is_told = |wedge: &str| told.is_some_and(|told| told.split(',').any(|one| one.trim() == wedge));
    let limit = tier.limit(strategy, entries.len()).filter(|_| !is_told(wedges::NO_LIMIT));
    let token = options::token(&tier.options(strategy), scene.entries.len() == 1, scene.rancher);
    let mut unavailable = entries.iter().filter(|entry| is_unavailable(entry)).count();
    let (mut turn, mut waits) = (Turn::default(), Waits::default());
    for entry in entries {
        let name = pods::name(&entry.machine.metadata).to_string();
        let (desired, secret) = (desired(scene, entry, server), &*entry.secret);
        let deliver = || Action::update(&delivered(secret, &desired, scene.rancher, now));
        let Some(current) = datum(secret, keys::PLAN) else {
            turn.actions.push(deliver());
            waits.configuring.push((name, "waiting for agent to check in and apply initial plan".into()));
            continue;
        };
        if current != desired {
            let free = limit.is_none_or(|limit| unavailable < limit);
            if !(is_in_drain(secret) || has_failed(secret) || free || never_was_healthy(secret)) {
                waits.configuring.push((name, "waiting for plan to be applied".into()));
                continue;
            }
            if !is_unavailable(entry) {
                unavailable += 1;
            }
            match drain(entry, &desired, &token) {
                Drain::Done => {
                    turn.actions.push(deliver());
                    waits.configuring.push((name, "waiting for plan to be applied".into()));
                }
                Drain::Ask => {
                    let mut asked = secret.clone();
                    set_note(&mut asked, annotations::DRAIN_OPTIONS, &token);
                    turn.actions.push(Action::update(&asked));
                    waits.draining.push((name, "draining node".into()));
                }
                Drain::Waits => waits.draining.push((name, "draining node".into())),
            }
            continue;
        }
        if has_failed(secret) {
            waits.configuring.push((name, "failure while applying plan".into()));
        } else if !is_in_sync(secret) {
            waits.configuring.push((name, "waiting for plan to be applied".into()));
        } else if let Some(ill) = unhealthy(secret) {
            waits.configuring.push((name, format!("waiting for probes: {}", ill.join(", "))));
        } else {
            turn.actions.extend(settled(secret, now).map(|settled| Action::update(&settled)));
            // What asks for a drain goes when the node takes pods again.
            if is_in_drain(secret) {
                waits.uncordoning.push((name, "waiting for uncordon to finish".into()));
            } else if !runs_version(scene, &entry.machine) {
                waits.configuring.push((name, "waiting for kubelet to update".into()));
            } else if !agent_is_connected(scene) {
                waits.configuring.push((name, "waiting for cluster agent to connect".into()));
            }
        }
    }
    turn.waits_for = waits.tell(tier);
    turn
}

fn desired(scene: &Scene<'_>, entry: &Entry, server: Option<&str>) -> String {
    let (spec, status) = (scene.control_plane.spec.as_ref(), scene.control_plane.status.as_ref());
    plan::desired(&Wanted {
        kubernetes_version: spec.and_then(|spec| spec.kubernetes_version.as_deref()).unwrap_or_default(),
        provision_generation: spec.and_then(|spec| spec.provision_generation).unwrap_or(0),
        config_generation: status.and_then(|status| status.config_generation).unwrap_or(0),
        node: node_of(&entry.machine).unwrap_or_default(),
        server: server.filter(|_| !is_init_node(&entry.secret)),
        etcd: has_role(&entry.secret, labels::ETCD_ROLE),
        control_plane: has_role(&entry.secret, labels::CONTROL_PLANE_ROLE),
        rancher: scene.rancher,
    })
}

pub fn node_of(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref()?.name.as_deref()
}

/// The Secret with another plan.
fn delivered(secret: &Secret, plan: &str, rancher: Version, now: Timestamp) -> Secret {
    let mut secret = secret.clone();
    set_datum(&mut secret, keys::PLAN, plan);
    set_datum(&mut secret, "max-failures", "-1");
    set_datum(&mut secret, "failure-threshold", "1");
    if rancher.has_plan_state() {
        set_datum(&mut secret, keys::PLAN_STATE, "pending");
    }
    if let Some(data) = &mut secret.data {
        data.remove(keys::PROBE_STATUSES);
    }
    set_note(&mut secret, PROBES_PASSED, "");
    set_note(&mut secret, LAST_UPDATED, &loose::text(now));
    secret
}

/// The Secret of a node that is well with its plan, if that changes anything: its probes have passed, and it may take pods again.
fn settled(secret: &Secret, now: Timestamp) -> Option<Secret> {
    let asked = note(secret, annotations::DRAIN_OPTIONS);
    let unasked = asked.filter(|asked| note(secret, annotations::UNCORDON) != Some(asked));
    let passed = note(secret, PROBES_PASSED).is_some();
    if passed && unasked.is_none() {
        return None;
    }
    let mut after = secret.clone();
    if !passed {
        set_note(&mut after, PROBES_PASSED, &loose::text(now));
    }
    if let Some(asked) = unasked {
        set_note(&mut after, annotations::UNCORDON, asked);
    }
    Some(after)
}

enum Drain {
    /// The plan may be delivered, or need not wait for a drain.
    Done,
    Ask,
    Waits,
}

/// No drain, and no hooks, where nothing says that the node has to be drained for it.
fn drain(entry: &Entry, desired: &str, token: &str) -> Drain {
    let applied = datum(&entry.secret, keys::APPLIED_PLAN).and_then(|plan| plan::variable(plan, plan::DRAIN_HASH));
    let changes = applied.is_some() && applied != plan::variable(desired, plan::DRAIN_HASH);
    let wanted = options::read(token);
    let is_asked = wanted.enabled == Some(true) || options::has_hooks(&wanted);
    if node_of(&entry.machine).is_none() || !changes || !is_asked {
        return Drain::Done;
    }
    if note(&entry.secret, annotations::DRAIN_OPTIONS) != Some(token) {
        return Drain::Ask;
    }
    if note(&entry.secret, annotations::DRAIN_DONE) == Some(token) { Drain::Done } else { Drain::Waits }
}

fn is_unavailable(entry: &&Entry) -> bool {
    !is_in_sync(&entry.secret) || is_in_drain(&entry.secret) || unhealthy(&entry.secret).is_some()
}

fn has_failed(secret: &Secret) -> bool {
    let plan = datum(secret, keys::PLAN).map(super::checksum);
    datum(secret, keys::PLAN_STATE) == Some("failed")
        || (plan.is_some() && datum(secret, keys::FAILED_CHECKSUM).map(String::from) == plan && !is_in_sync(secret))
}

/// It was carried out, and its probes have not been well since.
fn never_was_healthy(secret: &Secret) -> bool {
    is_in_sync(secret) && note(secret, PROBES_PASSED).is_none()
}

/// The probes that are not well; all of them, before the agent has said anything.
fn unhealthy(secret: &Secret) -> Option<Vec<String>> {
    let told = datum(secret, keys::PROBE_STATUSES).and_then(|text| serde_json::from_str(text).ok());
    let statuses: Value = told.unwrap_or_default();
    let names = plan::probe_names(datum(secret, keys::PLAN).unwrap_or_default());
    let ill: Vec<String> = names.into_iter().filter(|name| statuses[name]["healthy"] != true).collect();
    Some(ill).filter(|ill| !ill.is_empty())
}

/// As the Machine says, which Cluster API has to keep up to date.
fn runs_version(scene: &Scene<'_>, machine: &Machine) -> bool {
    let wanted = scene.control_plane.spec.as_ref().and_then(|spec| spec.kubernetes_version.as_deref());
    let info = machine.status.as_ref().and_then(|status| status.rest.get("nodeInfo"));
    let runs = info.and_then(|info| info["kubeletVersion"].as_str());
    let base = |version: &str| version.split(['+', '-']).next().unwrap_or_default().to_string();
    match (wanted, runs) {
        (Some(wanted), Some(runs)) => base(wanted) == base(runs),
        _ => false,
    }
}

fn agent_is_connected(scene: &Scene<'_>) -> bool {
    scene.control_plane.status.as_ref().and_then(|status| status.agent_connected).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_a_share_or_none() {
        assert_eq!(limit("", 10), Some(1));
        assert_eq!(limit("3", 10), Some(3));
        assert_eq!(limit("0", 10), None);
        assert_eq!(limit("15%", 10), Some(2));
    }

    #[test]
    fn at_most_three_machines_are_named() {
        let names = ["a", "b", "c", "d", "e"];
        let configuring = names.iter().map(|name| (name.to_string(), "waiting for plan to be applied".to_string()));
        let waits = Waits { configuring: configuring.collect(), ..Waits::default() };
        assert_eq!(
            waits.tell(Tier::Worker).unwrap(),
            "configuring worker node(s) a,b,c,and 2 more: waiting for plan to be applied"
        );
    }
}
