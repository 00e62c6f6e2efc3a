//! Which node gets its plan next: the server side of the drain handshake, for RKE2 clusters without Rancher.
//!
//! Tier by tier, and in each no more nodes at once than may be out, every machine gets the plan that its cluster asks for. A node
//! is claimed, cordoned, offered to the owners of hooks, drained, given its plan, probed, offered again, and uncordoned. Each step
//! follows from what stands on the objects, so that whoever comes later goes on where another stopped, and a mark that was lost
//! is written again. The marks are those of Rancher's planner, see
//! <https://github.com/rancher/rancher/tree/main/pkg/capr>.

mod executor;
mod marks;
mod node;
mod plan;
mod seen;
mod status;
#[cfg(test)]
mod tests;
mod tier;
mod token;

use std::collections::BTreeMap;

use drover_api::marks::{ACCEPT, ACCEPTED};
use drover_api::rancher::machine_plan::labels;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::accepted::names;
use crate::claims::{Claim, ClaimId, Claims};
use crate::cluster::{Job, Pod};
use crate::drain;
use crate::merge::replacing;
use crate::quorum::{CODE, IS_VOTER, Member, at_risk};
pub use seen::{CapiClusterSeen, ClusterSeen, ControlPlaneSeen, MachineSeen, NodeSeen, SecretSeen};
use tier::{Tier, Waits};

/// Everything that one decision rests on.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// Unique to this process.
    pub identity: &'a str,
    pub cluster: &'a ClusterSeen,
    pub control_plane: &'a ControlPlaneSeen,
    pub capi: Option<&'a CapiClusterSeen>,
    /// By name.
    pub machines: &'a BTreeMap<String, MachineSeen>,
    pub secrets: &'a BTreeMap<String, SecretSeen>,
    pub nodes: &'a BTreeMap<String, NodeSeen>,
    /// Those that carry out plans, and their pods, by name.
    pub jobs: &'a BTreeMap<String, Job>,
    pub pods: &'a BTreeMap<String, Pod>,
    /// Drover's own, which these Jobs run.
    pub image: &'a str,
    /// What came of drains of this process, by node.
    pub drains: &'a BTreeMap<String, Drained>,
}

/// A drain for a token, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    pub token: String,
    /// None while it runs.
    pub result: Option<Result<(), String>>,
}

/// What to do now, and what is waited for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// In this order; the first that fails ends them.
    pub writes: Vec<Write>,
    /// The nodes that are to be drained now, each for a token; every other drain ends.
    pub drains: BTreeMap<String, Order>,
    /// In the planner's words; none if all is as it should be.
    pub waits_for: Option<String>,
}

/// A drain to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub token: String,
    pub options: drain::Options,
}

/// One change of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub purpose: Purpose,
    pub target: Target,
    pub act: Act,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// A merge patch that is guarded by the resourceVersion which it was decided on.
    Patch(Value),
    Create(Value),
    Delete {
        uid: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Secret(String),
    /// One that carries out a plan.
    Job(String),
    Node(String),
    ControlPlane,
    ControlPlaneStatus,
    ClusterStatus,
    CapiClusterStatus,
}

/// Why a write is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The control plane takes over what its Cluster asks for.
    TakeSpec,
    RaiseEpoch,
    ElectInitNode,
    AdoptPlan,
    ClaimNodes,
    AskForDrain,
    TakeNode,
    CallPreHooks,
    NoteDrainError,
    NoteDrainDone,
    DeliverPlan,
    /// A Job carries out the plan of a machine without an agent.
    CreateJob,
    /// One that nobody waits for.
    DeleteJob,
    /// The Job is done: what an agent would note is noted.
    NoteApplied,
    /// A user wants another try of a plan that has failed.
    RetryPlan,
    NoteRetry,
    KeepAppliedPlan,
    AskForUncordon,
    CallPostHooks,
    GiveNodeBack,
    ClearMarks,
    ReleaseNode,
    PublishStatus,
}

/// A machine with all that belongs to it.
#[derive(Debug, Clone, Copy)]
struct Entry<'a> {
    machine: &'a MachineSeen,
    secret: &'a SecretSeen,
    node: Option<&'a NodeSeen>,
}

impl Entry<'_> {
    fn name(&self) -> &str {
        &self.machine.meta.name
    }
}

pub fn decide(view: &View<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    if let Some(write) = take_spec(view) {
        decision.writes.push(write);
        return decision;
    }
    let claims = view.control_plane.claims();
    if claims.holder != view.identity {
        decision.writes.push(write_claims(view, &claims.raised_by(view.identity), Purpose::RaiseEpoch));
        return decision;
    }
    decision.waits_for = work(view, &claims, now, &mut decision);
    // A claim changes the control plane: what is waited for is told on the version that comes of it.
    if decision.writes.iter().all(|write| write.target != Target::ControlPlane) {
        decision.writes.extend(status::publish(view, decision.waits_for.as_deref(), now));
    }
    decision
}

/// What is to be done, and what is waited for.
fn work(view: &View<'_>, claims: &Claims, now: Timestamp, decision: &mut Decision) -> Option<String> {
    if view.capi.is_some_and(|capi| capi.paused()) {
        let mut kept = claims.clone();
        decision.writes.extend(node::put_back(view, &entries(view), &mut kept));
        decision.writes.extend((kept != *claims).then(|| write_claims(view, &kept, Purpose::ReleaseNode)));
        return Some("CAPI cluster or RKEControlPlane is paused".to_owned());
    }
    let entries = entries(view);
    let has = |role: &str| entries.iter().any(|entry| !entry.machine.is_leaving() && entry.secret.has(role));
    if ![labels::ETCD_ROLE, labels::CONTROL_PLANE_ROLE, labels::WORKER_ROLE].iter().all(|role| has(role)) {
        return Some("waiting for at least one control plane, etcd, and worker node to be registered".to_owned());
    }
    let elections = elect(&entries);
    if !elections.is_empty() {
        decision.writes.extend(elections);
        return Some("electing a bootstrap node".to_owned());
    }
    let mut claimed = claims.clone();
    let mut told = None;
    let (mut servers_are_done, mut held_up) = (true, false);
    for tier in Tier::ALL {
        // A version is raised on every server before it is on a worker.
        held_up |= tier == Tier::Worker && !servers_are_done;
        // Whoever is out comes back all the same: a node of an earlier tier may wait for just that.
        let has_turn = |entry: &&Entry<'_>| tier.has(entry.secret) && (!held_up || is_claimed(entry, claims));
        let of_tier: Vec<Entry<'_>> = entries.iter().filter(has_turn).copied().collect();
        let turn = tier_turn(view, tier, &of_tier, &mut claimed, now, decision);
        // Between two of its steps a node waits for nothing, and is out all the same.
        let is_out = of_tier.iter().any(|entry| is_claimed(entry, &claimed));
        servers_are_done &= turn.is_done() && !is_out;
        told = told.or_else(|| turn.tell(tier));
        held_up |= turn.holds_up_others() || is_out;
    }
    decision.writes.extend(executor::stray(view, &entries));
    // Whoever has left the cluster holds no claim.
    claimed.nodes.retain(|node, _| view.nodes.contains_key(node));
    if claimed != *claims {
        let grows = claimed.nodes.keys().any(|node| !claims.nodes.contains_key(node));
        let purpose = if grows { Purpose::ClaimNodes } else { Purpose::ReleaseNode };
        decision.writes.push(write_claims(view, &claimed, purpose));
    }
    told.or_else(|| without_secret(view))
}

/// Machines with their Secrets, by the names of the machines: that is the order in which they get their turn.
fn entries<'a>(view: &View<'a>) -> Vec<Entry<'a>> {
    let entry = |machine: &'a MachineSeen| {
        let secret = view.secrets.values().find(|secret| secret.machine() == machine.meta.name)?;
        Some(Entry { machine, secret, node: view.nodes.get(machine.node()) })
    };
    view.machines.values().filter_map(entry).collect()
}

/// A machine that no plan can be given to.
fn without_secret(view: &View<'_>) -> Option<String> {
    let has = |machine: &&MachineSeen| view.secrets.values().any(|secret| secret.machine() == machine.meta.name);
    let alone: Vec<&str> =
        view.machines.values().filter(|machine| !has(machine)).map(|machine| machine.meta.name.as_str()).collect();
    (!alone.is_empty()).then(|| format!("waiting for the machine-plan Secret of {}", alone.join(",")))
}

fn take_spec(view: &View<'_>) -> Option<Write> {
    let wanted = view.cluster.wanted();
    if view.control_plane.spec_as_asked() == wanted {
        return None;
    }
    let spec = replacing(&view.control_plane.spec_as_asked(), &wanted);
    let patch = json!({ "metadata": view.control_plane.meta.guard(), "spec": spec });
    Some(Write { purpose: Purpose::TakeSpec, target: Target::ControlPlane, act: Act::Patch(patch) })
}

fn write_claims(view: &View<'_>, claims: &Claims, purpose: Purpose) -> Write {
    let mut metadata = view.control_plane.meta.guard();
    metadata["annotations"] = json!({ drover_api::marks::CLAIMS: claims.write() });
    Write { purpose, target: Target::ControlPlane, act: Act::Patch(json!({ "metadata": metadata })) }
}

/// Exactly one machine with etcd is the one that others join.
fn elect(entries: &[Entry<'_>]) -> Vec<Write> {
    let marked: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.secret.is_init_node()).collect();
    let mark = |entry: &Entry<'_>, value: Value| {
        let mut metadata = entry.secret.meta.guard();
        metadata["labels"] = json!({ labels::INIT_NODE: value });
        Write {
            purpose: Purpose::ElectInitNode,
            target: Target::Secret(entry.secret.meta.name.clone()),
            act: Act::Patch(json!({ "metadata": metadata })),
        }
    };
    match &marked[..] {
        [_] => Vec::new(),
        [_, others @ ..] => others.iter().map(|entry| mark(entry, Value::Null)).collect(),
        [] => {
            let may = |entry: &&Entry<'_>| entry.secret.has(labels::ETCD_ROLE) && !entry.machine.is_leaving();
            let candidates = || entries.iter().filter(may);
            let joined = candidates().find(|entry| entry.secret.has_join_url());
            joined.or_else(|| candidates().next()).map(|entry| mark(entry, json!("true"))).into_iter().collect()
        }
    }
}

fn is_claimed(entry: &Entry<'_>, claims: &Claims) -> bool {
    entry.node.is_some_and(|node| claims.nodes.contains_key(&node.meta.name))
}

fn tier_turn(
    view: &View<'_>,
    tier: Tier,
    entries: &[Entry<'_>],
    claims: &mut Claims,
    now: Timestamp,
    decision: &mut Decision,
) -> Waits {
    let strategy = view.control_plane.strategy();
    let options = tier.options(strategy);
    let token = token::of(&options, view.machines.len() == 1);
    let limit = tier.limit(strategy, entries.len());
    let mut out = entries.iter().filter(|entry| node::is_out(view, entry, claims)).count();
    let mut waits = Waits::default();
    for entry in entries {
        if let Some(why) = node::unreadable(view, entry) {
            waits.configuring(entry.name(), &why);
            continue;
        }
        if !is_claimed(entry, claims) && (node::needs_plan(view, entry) || executor::is_due(view, entry)) {
            // A machine that is out by itself, or by another planner's drain, needs no slot beside its own.
            let is_out = node::is_out(view, entry, claims);
            let others = out - usize::from(is_out);
            match may_begin(view, entry, claims, limit.is_none_or(|limit| others < limit)) {
                Ok(node) => {
                    out += usize::from(!is_out);
                    claim(view, node, claims, now);
                    waits.draining(entry.name(), "draining node");
                }
                Err(Begin::Paused(why)) => waits.paused(entry.name(), &why),
                Err(Begin::Waits(why)) => waits.configuring(entry.name(), &why),
            }
            continue;
        }
        node::turn(view, entry, &token, &options, claims, now, decision, &mut waits);
    }
    waits
}

enum Begin {
    Paused(String),
    Waits(String),
}

/// May this machine's node be taken out now?
fn may_begin<'a>(view: &View<'a>, entry: &Entry<'a>, claims: &Claims, has_slot: bool) -> Result<&'a NodeSeen, Begin> {
    let Some(node) = entry.node else {
        return Err(Begin::Waits("waiting for the Node of the machine".to_owned()));
    };
    if node.is_paused() {
        return Err(Begin::Paused(format!("Node {} is paused as requested by the user", node.meta.name)));
    }
    if !has_slot {
        return Err(Begin::Waits("waiting for plan to be applied".to_owned()));
    }
    match risk(view, node, claims) {
        Some(why) => Err(Begin::Waits(why)),
        None => Ok(node),
    }
}

/// Why etcd would not have its quorum without this node by now; none if it would. That is asked before each step that takes the node out:
/// hooks and a drain may take hours, and whoever was well at the first may be out at the next.
///
/// Nodes that are claimed count as out. Of two that wait for their plan, and have become voters meanwhile, the first by name has its turn.
fn risk(view: &View<'_>, node: &NodeSeen, claims: &Claims) -> Option<String> {
    let name = node.meta.name.as_str();
    let is_claimed = |name: &str| claims.nodes.contains_key(name);
    let waits_for_plan = |entry: &Entry<'_>, name: &str| {
        entry.node.is_some_and(|node| node.meta.name == name) && node::needs_plan(view, entry)
    };
    let entries = if is_claimed(name) && claims.nodes.len() > 1 { entries(view) } else { Vec::new() };
    let comes_later = |other: &str| other > name && entries.iter().any(|entry| waits_for_plan(entry, other));
    let accepted = [ACCEPT, ACCEPTED].iter().any(|key| names(&view.cluster.meta.annotations, key).contains(CODE));
    let members = view.nodes.values().map(|one| Member {
        name: &one.meta.name,
        voter: one.condition(IS_VOTER).map(|voter| (voter.status.as_str(), voter.reason.as_str())),
        is_well: one.is_ready() && (!is_claimed(&one.meta.name) || comes_later(&one.meta.name)),
    });
    at_risk(members, name, accepted)
}

fn claim(view: &View<'_>, node: &NodeSeen, claims: &mut Claims, now: Timestamp) {
    let owner = &view.control_plane.meta;
    let id = ClaimId::new(&owner.uid, owner.resource_version, &node.meta.uid);
    claims.nodes.insert(node.meta.name.clone(), Claim { id, owner: owner.uid.clone(), since: now });
}
