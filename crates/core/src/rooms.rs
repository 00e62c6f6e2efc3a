//! Is there room for the pods of a node on the others?

use std::collections::BTreeMap;

use crate::cluster::{Amount, Amounts, Cluster, Node, ObjectRef, Pod};
use crate::placement::{Obstacle, Places};

/// What would become of the pods of a node that went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Departure {
    /// Those that no other node suits, with the reason.
    pub tied: Vec<(ObjectRef, String)>,
    /// Those for which there is no room elsewhere.
    pub stranded: Vec<ObjectRef>,
}

/// For every node, by name, as if it alone went.
pub fn departures(cluster: &Cluster) -> BTreeMap<String, Departure> {
    let rooms = Rooms::of(cluster);
    cluster.nodes.iter().map(|node| (node.metadata.name.clone(), rooms.without(node))).collect()
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

    fn without(&self, gone: &Node) -> Departure {
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
        let mut departure = Departure::default();
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
                    Some(why) => departure.tied.push((ObjectRef::of(pod), why)),
                    None => departure.stranded.push(ObjectRef::of(pod)),
                },
            }
        }
        departure
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
                Obstacle::Neighbour(_) | Obstacle::Spread(_) => with_neighbours,
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
