//! `drover-lab demo`: the upgrade of real kubelets, told line by line as it happens.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::nodes::{NEW_KUBELET, OLD_KUBELET};
use crate::rollout::{Look, NAMESPACE, NodeLook, PLAN, Rollout};

const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the whole demo: starts the cluster, upgrades it, says how it went, and takes everything down.
pub fn run(nodes: u8, program: &Path) -> Result<()> {
    let story = Story { started: Instant::now() };
    story.tell(&format!("starting a control plane and {nodes} real nodes; what is missing is built first"));
    let mut rollout = Rollout::prepare(nodes, program)?;
    story.tell(&format!("{} are Ready with kubelet {OLD_KUBELET}", rollout.cluster.node_names().join(", ")));
    story
        .tell("a web service runs on them: 3 pods, of which its budget lets 1 be away; requests go to it all the time");

    rollout.start_operator()?;
    let applied = Instant::now();
    rollout.apply_plan()?;
    story
        .tell(&format!("applied Plan {NAMESPACE}/{PLAN}: kubelet {NEW_KUBELET} on every node, one at a time, drained"));
    let mut last = None;
    rollout.until("every kubelet is upgraded", PATIENCE, |look| {
        changes(last.as_ref(), look).iter().for_each(|line| story.tell(line));
        last = Some(look.clone());
        look.is_done()
    })?;

    let (tally, restarts) = (rollout.traffic(), rollout.restarts()?);
    story.tell(&format!("{nodes} kubelets are {NEW_KUBELET} after {} s", applied.elapsed().as_secs()));
    story.tell(&format!("{} requests were answered, {} failed", tally.answered, tally.failed));
    story.tell(&format!("containers of the service were started again {} times", sum(&restarts)));
    story.tell("taking everything down");
    drop(rollout);
    story.tell("done: nothing is left");
    if tally.failed == 0 { Ok(()) } else { Err(Error::RequestsFailed { failures: tally.failures }) }
}

struct Story {
    started: Instant,
}

impl Story {
    fn tell(&self, line: &str) {
        println!("{:>4} s  {line}", self.started.elapsed().as_secs());
    }
}

/// What is to be told, now that the cluster looks like this.
fn changes(before: Option<&Look>, now: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    for node in &now.nodes {
        let old = before.and_then(|look| look.nodes.iter().find(|old| old.name == node.name));
        lines.extend(node_changes(old, node, now));
    }
    let told = |wait: &&String| before.is_some_and(|look| look.waits.contains(wait));
    lines.extend(now.waits.iter().filter(|wait| !told(wait)).map(|wait| format!("    waits: {wait}")));
    lines
}

fn node_changes(old: Option<&NodeLook>, node: &NodeLook, now: &Look) -> Vec<String> {
    let name = &node.name;
    let was = |fact: fn(&NodeLook) -> bool, before_all: bool| old.map_or(before_all, fact);
    let done = now.nodes.iter().filter(|node| node.is_done()).count();
    let mut lines = Vec::new();
    if node.claimed && !was(|old| old.claimed, false) {
        lines.push(format!("{name} is taken out of service"));
    }
    if old.is_some_and(|old| old.kubelet != node.kubelet) {
        lines.push(format!("{name} has kubelet {}", node.kubelet));
    }
    if node.ready != was(|old| old.ready, true) {
        lines.push(format!("{name} is {}", if node.ready { "Ready again" } else { "not Ready" }));
    }
    if node.is_done() && !was(NodeLook::is_done, false) {
        lines.push(format!("{name} is back in service: {done} of {} done", now.nodes.len()));
    }
    lines
}

fn sum(counts: &str) -> u32 {
    counts.split_whitespace().filter_map(|count| count.parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kubelet: &str) -> NodeLook {
        NodeLook {
            name: name.into(),
            kubelet: kubelet.into(),
            ready: true,
            cordoned: false,
            claimed: false,
            labelled: false,
            marks: vec![],
        }
    }

    fn look(nodes: Vec<NodeLook>, waits: &[&str]) -> Look {
        Look { nodes, complete: false, waits: waits.iter().map(|wait| (*wait).to_owned()).collect() }
    }

    #[test]
    fn each_step_of_a_node_is_told_once() {
        let rest = look(vec![node("n1", OLD_KUBELET), node("n2", OLD_KUBELET)], &[]);
        let out =
            look(vec![NodeLook { claimed: true, ..node("n1", OLD_KUBELET) }, node("n2", OLD_KUBELET)], &["a Job"]);
        let new =
            look(vec![NodeLook { claimed: true, ..node("n1", NEW_KUBELET) }, node("n2", OLD_KUBELET)], &["a Job"]);
        let back = look(vec![NodeLook { labelled: true, ..node("n1", NEW_KUBELET) }, node("n2", OLD_KUBELET)], &[]);

        assert_eq!(changes(None, &rest), Vec::<String>::new());
        assert_eq!(changes(Some(&rest), &out), ["n1 is taken out of service", "    waits: a Job"]);
        assert_eq!(changes(Some(&out), &out), Vec::<String>::new());
        assert_eq!(changes(Some(&out), &new), ["n1 has kubelet v1.34.4"]);
        assert_eq!(changes(Some(&new), &back), ["n1 is back in service: 1 of 2 done"]);
    }

    #[test]
    fn a_node_that_is_lost_and_found_is_told() {
        let there = look(vec![node("n1", OLD_KUBELET)], &[]);
        let lost = look(vec![NodeLook { ready: false, ..node("n1", OLD_KUBELET) }], &[]);

        assert_eq!(changes(Some(&there), &lost), ["n1 is not Ready"]);
        assert_eq!(changes(Some(&lost), &there), ["n1 is Ready again"]);
    }
}
