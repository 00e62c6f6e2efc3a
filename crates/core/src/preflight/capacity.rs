//! Is there room for one node less?

use std::collections::BTreeMap;

use super::{Check, Finding, Intent, Scope, Severity, path, some_of};
use crate::cluster::{Amount, Amounts, Cluster, Node, ObjectRef, Pod};
use crate::placement::{Obstacle, Places};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-CAP-001",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "The pods of a node find no room on the others",
        consequence: "they stay Pending until the node is back, or another is added.",
        remedy: "add a node, or scale down what can wait",
        reads: &["Node", "Pod"],
        look: no_room,
    },
    Check {
        code: "DRV-CAP-002",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A pod can run on its node only",
        consequence: "it is down from the drain of its node until the node is back.",
        remedy: "loosen its node selector or affinity, or move its data to a volume that is not bound to the node",
        reads: &["Node", "Pod", "PersistentVolumeClaim", "PersistentVolume"],
        look: tied,
    },
];

/// How many nodes are told one by one.
const TOLD: usize = 20;

fn no_room(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let others = cluster.nodes.len().saturating_sub(1);
    // A cluster of one node has no other place, and everybody knows.
    if others == 0 {
        return Vec::new();
    }
    let rooms = Rooms::of(cluster);
    let mut findings = Vec::new();
    let mut untold = 0;
    for node in intent.nodes(cluster) {
        let stranded = rooms.without(node).1;
        if stranded.is_empty() {
            continue;
        }
        if findings.len() == TOLD {
            untold += 1;
            continue;
        }
        let names: Vec<String> = stranded.iter().map(|pod| path(*pod)).collect();
        let sentence = format!(
            "without node {} there is no room for {}: {}",
            node.metadata.name,
            super::workloads::counted(stranded.len(), "pod"),
            some_of(names.iter().map(String::as_str))
        );
        findings.push(Finding::new(sentence).on(node).about(stranded.into_iter().map(ObjectRef::of)));
    }
    if untold > 0 {
        findings.push(Finding::new(format!("the same is so for {untold} further nodes")));
    }
    findings
}

fn tied(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if cluster.nodes.len() < 2 {
        return Vec::new();
    }
    let rooms = Rooms::of(cluster);
    let tied = intent.nodes(cluster).into_iter().flat_map(|node| rooms.without(node).0);
    let finding = |(pod, why): (&Pod, String)| {
        let sentence = format!("pod {} can run on node {} only: {why}", path(pod), pod.spec.node_name);
        Finding::new(sentence).on(pod).about([ObjectRef::new("Node", "", &pod.spec.node_name)])
    };
    tied.map(finding).collect()
}

/// What is free on every node that takes pods, in plain numbers: this is asked for each pod of each node.
struct Rooms<'a> {
    places: Places<'a>,
    nodes: Vec<&'a Node>,
    free: Vec<Need>,
}

/// Thousandths of a core, bytes, pods.
type Need = [i64; 3];

fn need(amounts: &Amounts, pods: i64) -> Need {
    let of = |resource: &str, scale: i64| {
        let amount = amounts.get(resource).copied().unwrap_or(Amount::ZERO);
        amount.scaled(scale)
    };
    [of("cpu", 1000), of("memory", 1), pods]
}

impl<'a> Rooms<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        let places = Places::of(cluster);
        let open = |node: &&Node| node.is_ready() && !node.spec.unschedulable;
        let nodes: Vec<&Node> = cluster.nodes.iter().filter(open).collect();
        let left = |node: &&Node| {
            let whole = &node.status.allocatable;
            // A node that does not say what it has is taken at its word.
            if whole.is_empty() {
                return [i64::MAX / 2; 3];
            }
            let all = whole.get("pods").map_or(110, |pods| pods.scaled(1));
            let mut free = need(whole, all);
            for pod in places.pods_on(&node.metadata.name) {
                let taken = need(&pod.requests(), 1);
                free.iter_mut().zip(taken).for_each(|(free, taken)| *free -= taken);
            }
            free
        };
        let free = nodes.iter().map(left).collect();
        Rooms { places, nodes, free }
    }

    /// If a node went: its pods that no other node suits, with the reason, and those for which there is no room.
    fn without(&self, gone: &Node) -> (Vec<(&'a Pod, String)>, Vec<&'a Pod>) {
        let moves = |pod: &&&Pod| {
            !pod.is_mirror() && !pod.is_of_daemon_set() && !pod.is_ending() && pod.metadata.controller().is_some()
        };
        let mut leaving: Vec<(Need, &'a Pod)> = (self.places.pods_on(&gone.metadata.name).iter())
            .filter(moves)
            .map(|pod| (need(&pod.requests(), 1), *pod))
            .collect();
        // The largest first: the small ones fit into what is left.
        leaving.sort_by_key(|(need, pod)| (std::cmp::Reverse(need[1]), pod.metadata.name.as_str()));
        let mut taken: BTreeMap<usize, Need> = BTreeMap::new();
        let (mut tied, mut stranded) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (need, pod) in leaving {
            let count = self.nodes.len();
            let in_turn = (0..count).map(|step| (start + step) % count.max(1));
            let mut others = in_turn.filter(|at| self.nodes[*at].metadata.name != gone.metadata.name);
            match others.find(|at| self.has_room(*at, need, &taken) && self.obstacles(pod, *at, true).is_empty()) {
                Some(at) => {
                    let sum = taken.entry(at).or_default();
                    sum.iter_mut().zip(need).for_each(|(sum, need)| *sum += need);
                    start = at + 1;
                }
                None => match self.reason(pod, gone) {
                    Some(why) => tied.push((pod, why)),
                    None => stranded.push(pod),
                },
            }
        }
        (tied, stranded)
    }

    fn has_room(&self, at: usize, need: Need, taken: &BTreeMap<usize, Need>) -> bool {
        let taken = taken.get(&at).copied().unwrap_or_default();
        let mut left = self.free[at].into_iter().zip(taken).map(|(free, taken)| free - taken);
        need.into_iter().all(|need| left.next().is_some_and(|left| need <= left))
    }

    /// What is in the way, apart from room.
    fn obstacles(&self, pod: &Pod, at: usize, with_neighbours: bool) -> Vec<Obstacle> {
        let found = self.places.obstacles(pod, self.nodes[at]).into_iter();
        found
            .filter(|obstacle| match obstacle {
                Obstacle::Full(_) | Obstacle::TooSmall(_) => false,
                Obstacle::Neighbour(_) => with_neighbours,
                _ => true,
            })
            .collect()
    }

    /// Why no other node suits a pod however much room there were; none if one does.
    fn reason(&self, pod: &Pod, gone: &Node) -> Option<String> {
        let mut why = None;
        for at in (0..self.nodes.len()).filter(|at| self.nodes[*at].metadata.name != gone.metadata.name) {
            let obstacles = self.obstacles(pod, at, false);
            why = Some(obstacles.into_iter().next()?);
        }
        Some(match why? {
            Obstacle::Selector(label) => format!("it asks for a node with the label {label}"),
            Obstacle::Affinity => "its node affinity suits no other".to_owned(),
            Obstacle::Volume(volume) => format!("its volume {volume} is bound to the node"),
            Obstacle::Taint(taint) => format!("it does not tolerate {taint} of the others"),
            _ => "no other node takes pods".to_owned(),
        })
    }
}
