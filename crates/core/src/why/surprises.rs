//! What a Plan does not do although its user may expect it, and what other programs make of that.

use drover_api::node::HOSTNAME;
use drover_api::plan::labels::plan_hash;

use super::Driver;
use super::link::{Chain, Link, Outlook};
use crate::cluster::{Cluster, Node, ObjectRef};
use crate::plan::duration::GoDuration;
use crate::plan::selector::Selector;
use crate::seen::PlanSeen;

/// What the names of the Plans of Harvester's upgrades begin with.
const OF_HARVESTER: &str = "hvst-upgrade-";

/// From the Plan down.
pub fn found(cluster: &Cluster, plan: &PlanSeen, driver: Driver) -> Vec<Chain> {
    let selector = plan.spec.as_ref().ok().and_then(|spec| spec.node_selector.as_ref());
    let selector = selector.and_then(|selector| Selector::parse(selector).ok());
    let mut chains = Vec::new();
    if let Some(selector) = &selector {
        chains.extend(without_hostname(cluster, plan, selector));
        chains.extend(selects_nothing(cluster, plan, selector));
        chains.extend(never_selected(cluster, plan, selector));
    }
    if driver == Driver::SystemUpgradeController {
        chains.extend(other_hostname(cluster, plan));
        chains.extend(unreadable_sibling(cluster, plan));
    }
    chains
}

fn of_plan(plan: &PlanSeen, statement: &str) -> Link {
    Link::proven((&plan.subject()).into(), statement)
}

/// A Plan takes only nodes with a hostname label.
fn without_hostname(cluster: &Cluster, plan: &PlanSeen, selector: &Selector) -> Option<Chain> {
    let is_left_out =
        |node: &&Node| selector.matches(&node.metadata.labels) && !node.metadata.labels.contains_key(HOSTNAME);
    let node = cluster.nodes.iter().find(is_left_out)?;
    let name = &node.metadata.name;
    let statement =
        format!("Node {name} lacks the label {HOSTNAME}: no Plan ever takes it, although this one selects it");
    let link = Link::proven(ObjectRef::of(node), statement).since(node.metadata.creation_timestamp);
    let remedy = format!("kubectl label node {name} {HOSTNAME}={name}");
    Some(vec![of_plan(plan, "the Plan selects nodes that it cannot take"), link.remedy(remedy)])
}

fn selects_nothing(cluster: &Cluster, plan: &PlanSeen, selector: &Selector) -> Option<Chain> {
    let is_blind = cluster.blind_to("Node").is_some();
    if is_blind || cluster.nodes.is_empty() || cluster.nodes.iter().any(|node| selector.matches(&node.metadata.labels))
    {
        return None;
    }
    let statement = format!("the Plan's nodeSelector matches none of {} nodes: {selector}", cluster.nodes.len());
    let remedy = format!("kubectl get nodes --selector '{selector}' --show-labels");
    Some(vec![of_plan(plan, &statement).since(plan.meta.creation_timestamp).remedy(remedy)])
}

/// Harvester's upgrade waits until every Node of the cluster carries the label of its Plan, also those that the Plan does
/// not select.
fn never_selected(cluster: &Cluster, plan: &PlanSeen, selector: &Selector) -> Option<Chain> {
    // Drover waits for the nodes that take part, and says of the others that they do not.
    let upgrade = plan.meta.labels.get(drover_api::harvester::jobs::UPGRADE);
    let mut driven = cluster.harvester.upgrades.iter().filter(|one| super::upgrade::driver_of(one) == Driver::Drover);
    if !plan.meta.name.starts_with(OF_HARVESTER) || driven.any(|one| upgrade == Some(&one.metadata.name)) {
        return None;
    }
    let (label, hash) = (plan_hash(&plan.meta.name), &plan.status.latest_hash);
    let is_counted = |node: &Node| !hash.is_empty() && node.metadata.labels.get(&label) == Some(hash);
    let node = cluster.nodes.iter().find(|node| !selector.matches(&node.metadata.labels) && !is_counted(node))?;
    let name = &node.metadata.name;
    let statement = format!(
        "Node {name} does not have {selector}: the Plan never takes it, and Harvester, which waits for all nodes, waits for ever"
    );
    let link = Link::proven(ObjectRef::of(node), statement).since(node.metadata.creation_timestamp);
    let remedy = "find out why it was never provisioned (does it have a Machine?), then give it the label";
    let asked = of_plan(plan, "Harvester waits until every Node carries the label of this Plan");
    Some(vec![asked, link.remedy(remedy)])
}

/// The original compares the names of nodes with hostnames, and takes a Job whose two differ for one out of turn.
fn other_hostname(cluster: &Cluster, plan: &PlanSeen) -> Option<Chain> {
    let node = cluster.nodes.iter().find(|node| {
        let hostname = node.metadata.labels.get(HOSTNAME);
        hostname.is_some_and(|hostname| *hostname != node.metadata.name && plan.status.applying.contains(hostname))
    })?;
    let (name, hostname) = (&node.metadata.name, node.metadata.labels.get(HOSTNAME)?);
    let statement = format!(
        "Node {name} has another name in its label {HOSTNAME} ({hostname}): system-upgrade-controller compares the two, and deletes its Job again and again"
    );
    let link = Link::likely(ObjectRef::of(node), statement).since(node.metadata.creation_timestamp);
    let asked = of_plan(plan, &format!("the Plan works on {hostname} and never gets a Job to run"));
    Some(vec![asked, link.remedy("upgrade that node by hand, or let Drover drive the Plan")])
}

/// The original reads all Plans at once: one that it cannot read stops them all.
fn unreadable_sibling(cluster: &Cluster, plan: &PlanSeen) -> Option<Chain> {
    let others = cluster.plans().filter(|other| other.meta.uid != plan.meta.uid);
    let (other, problem) = others.filter_map(|other| Some((other, unreadable(other)?))).next()?;
    let (namespace, name) = (&other.meta.namespace, &other.meta.name);
    let statement = format!(
        "Plan {namespace}/{name} cannot be read ({problem}), and system-upgrade-controller then stops all Plans"
    );
    let link = Link::likely((&other.subject()).into(), statement).since(other.meta.creation_timestamp);
    let remedy = format!("correct it: kubectl edit -n {namespace} plans.upgrade.cattle.io {name}");
    Some(vec![of_plan(plan, "the controller handles no Plan").outlook(Outlook::No), link.remedy(remedy)])
}

/// What the original, which decodes durations with the rest, cannot read of a Plan.
fn unreadable(plan: &PlanSeen) -> Option<String> {
    match &plan.spec {
        Err(problem) => Some(problem.clone()),
        Ok(spec) => {
            let delay = spec.post_complete_delay.as_ref().filter(|text| GoDuration::parse(text).is_none())?;
            Some(format!("spec.postCompleteDelay {delay:?} is not a duration"))
        }
    }
}
