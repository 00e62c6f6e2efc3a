//! What the pods that are already somewhere mean for a pod that waits: affinity, anti-affinity, spreading.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::SelectorExt;

use super::fit::{Obstacle, Place, is_wanted};
use super::request::{Neighbours, Request};
use crate::world::labels::Labels;

/// A topology key with a value: nodes that carry it as a label are one place.
type Domain = (String, String);

/// The neighbourhood of one waiting pod.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Domains that the pod itself does not want.
    unwanted: BTreeSet<Domain>,
    /// Domains in which others do not want it.
    refused: BTreeSet<Domain>,
    /// For every term of pod affinity the key and the values at which the pods are.
    together: Vec<(String, BTreeSet<String>)>,
    spread: Vec<Balance>,
}

/// How evenly the pods of one spread constraint lie now.
#[derive(Debug)]
struct Balance {
    topology: String,
    max_skew: i64,
    counts: BTreeMap<String, i64>,
    least: i64,
    /// One, if the pod would count itself.
    own: i64,
}

impl Surroundings {
    /// Without pods around: enough for a pod that asks for none and keeps away from none.
    pub fn empty(request: &Request) -> Surroundings {
        Surroundings {
            together: request.together.iter().map(|term| (term.topology.clone(), BTreeSet::new())).collect(),
            ..Surroundings::default()
        }
    }

    /// Takes account of a pod in a place that its own or the waiting pod's anti-affinity is about.
    pub fn add_neighbour(
        &mut self,
        request: &Request,
        namespace: &str,
        labels: &Labels,
        apart: &[Neighbours],
        place: &Place,
    ) {
        let at = |term: &Neighbours| Some((term.topology.clone(), place.labels.get(&term.topology)?.clone()));
        self.unwanted.extend(request.apart.iter().filter(|term| term.covers(namespace, labels)).filter_map(at));
        let others = apart.iter().filter(|term| term.covers(&request.namespace, &request.labels));
        self.refused.extend(others.filter_map(at));
    }

    /// Takes account of a pod that the waiting pod's affinity may be about.
    pub fn add_companion(&mut self, request: &Request, namespace: &str, labels: &Labels, place: &Place) {
        for (term, (topology, values)) in request.together.iter().zip(&mut self.together) {
            if term.covers(namespace, labels) {
                values.extend(place.labels.get(topology).cloned());
            }
        }
    }

    /// The first of a group has nobody to be with yet: an affinity to pods like itself holds it back nowhere.
    pub fn allow_the_first(&mut self, request: &Request) {
        let alone = self.together.iter().all(|(_, values)| values.is_empty());
        if alone && request.together.iter().all(|term| term.covers(&request.namespace, &request.labels)) {
            self.together.clear();
        }
    }

    /// Counts the pods of each spread constraint in the domains that the pod could go to.
    pub fn balance<'a>(
        &mut self,
        request: &Request,
        places: impl Iterator<Item = &'a Place> + Clone,
        matching: impl Fn(usize) -> Vec<&'a Place>,
    ) {
        let has_all_keys =
            |place: &Place| request.spread.iter().all(|spread| place.labels.contains_key(&spread.topology));
        for (at, spread) in request.spread.iter().enumerate() {
            let value = |place: &Place| place.labels.get(&spread.topology).cloned();
            let eligible = places.clone().filter(|place| has_all_keys(place) && is_wanted(request, place));
            let mut counts: BTreeMap<String, i64> = eligible.filter_map(value).map(|value| (value, 0)).collect();
            for value in matching(at).into_iter().filter_map(value) {
                if let Some(count) = counts.get_mut(&value) {
                    *count += 1;
                }
            }
            let too_few = i64::try_from(counts.len()).unwrap_or(i64::MAX) < spread.min_domains;
            let least = if too_few { 0 } else { counts.values().min().copied().unwrap_or(0) };
            let own = i64::from(spread.selector.matches(&request.labels));
            let (topology, max_skew) = (spread.topology.clone(), spread.max_skew);
            self.spread.push(Balance { topology, max_skew, counts, least, own });
        }
    }

    pub fn admit(&self, place: &Place) -> Result<(), Obstacle> {
        for spread in &self.spread {
            let Some(value) = place.labels.get(&spread.topology) else { return Err(Obstacle::SpreadLabel) };
            let count = spread.counts.get(value).copied().unwrap_or(0);
            if count + spread.own - spread.least > spread.max_skew {
                return Err(Obstacle::Spread);
            }
        }
        let near = |(topology, values): &(String, BTreeSet<String>)| {
            place.labels.get(topology).is_some_and(|value| values.contains(value))
        };
        if !self.together.iter().all(near) {
            return Err(Obstacle::Affinity);
        }
        if is_in(&self.unwanted, place) {
            return Err(Obstacle::AntiAffinity);
        }
        if is_in(&self.refused, place) {
            return Err(Obstacle::OthersAntiAffinity);
        }
        Ok(())
    }
}

fn is_in(domains: &BTreeSet<Domain>, place: &Place) -> bool {
    domains.iter().any(|(topology, value)| place.labels.get(topology) == Some(value))
}
