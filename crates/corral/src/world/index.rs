//! What the world remembers between changes, so that a change leads to the objects it concerns without listing
//! everything. It holds nothing that the store does not, and is made anew at every start.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::node::HOSTNAME;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{Selector, SelectorExt};

use super::agenda::Key;
use super::budget::Covered;
use super::job::TRACKING;
use super::kubelet::Machine;
use super::scheduler::{Apart, Blocked, Place, Request};
use super::{lifecycle, pods};

/// A Job by its name and uid: another Job may have the same name later.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRef {
    pub name: String,
    pub uid: String,
}

/// What is remembered of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodNote {
    pub labels: BTreeMap<String, String>,
    pub node: Option<String>,
    /// The Job that controls it.
    pub job: Option<JobRef>,
    /// It waits to be counted by its Job.
    pub tracked: bool,
    pub controlled: bool,
    pub ready: bool,
    pub leaving: bool,
    pub ended: bool,
    pub apart: Vec<Apart>,
    /// What it asks for, if it waits for a node.
    pub request: Option<Box<Request>>,
}

impl PodNote {
    pub fn of(pod: &Pod) -> PodNote {
        let controller = pods::controller(&pod.metadata);
        PodNote {
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            node: pods::node(pod).map(Into::into),
            job: controller
                .filter(|owner| owner.kind == "Job")
                .map(|owner| JobRef { name: owner.name.clone(), uid: owner.uid.clone() }),
            tracked: pods::has_finalizer(&pod.metadata, TRACKING),
            controlled: controller.is_some(),
            ready: pods::is_ready(pod),
            leaving: pods::is_leaving(pod),
            ended: pods::has_ended(pod),
            apart: pod.spec.as_ref().map_or_else(Vec::new, |spec| Apart::of(pods::namespace(&pod.metadata), spec)),
            request: Request::of(pod).map(Box::new),
        }
    }

    /// The node whose room it takes.
    pub fn occupies(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| !self.ended)
    }
}

/// What is remembered of a Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeNote {
    pub place: Place,
    pub machine: Option<Machine>,
    pub ready: bool,
}

#[derive(Debug, Default)]
pub struct Index {
    pods: BTreeMap<Key, PodNote>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    by_job: BTreeMap<String, BTreeSet<Key>>,
    waiting: BTreeSet<Key>,
    /// Pods on a node that keep others away from it.
    keeping_apart: BTreeSet<Key>,
    nodes: BTreeMap<String, NodeNote>,
    jobs: BTreeMap<Key, String>,
    job_uids: BTreeSet<String>,
    budgets: BTreeMap<Key, Selector>,
}

impl Index {
    /// Remembers a pod as it is now, or forgets it; answers with what was known of it.
    pub fn note_pod(&mut self, key: &Key, pod: Option<&Pod>) -> Option<PodNote> {
        let before = self.pods.remove(key);
        if let Some(before) = &before {
            self.unlink(key, before);
        }
        if let Some(pod) = pod {
            let note = PodNote::of(pod);
            self.link(key, &note);
            self.pods.insert(key.clone(), note);
        }
        before
    }

    pub fn note_node(&mut self, name: &str, node: Option<&Node>) -> Option<NodeNote> {
        let Some(node) = node else { return self.nodes.remove(name) };
        let mut place = Place::of(node);
        place.pods = self.pods_on(name).filter(|(_, pod)| !pod.ended).count();
        let note = NodeNote { place, machine: Machine::of(node), ready: lifecycle::is_ready(node) };
        self.nodes.insert(name.into(), note)
    }

    /// Answers with the uid of the Job that had this name, if another one has now or none.
    pub fn note_job(&mut self, key: &Key, job: Option<&Job>) -> Option<String> {
        let now = job.map(|job| pods::uid(&job.metadata).to_string());
        let before = match &now {
            Some(uid) => self.jobs.insert(key.clone(), uid.clone()),
            None => self.jobs.remove(key),
        };
        let gone = before.filter(|before| now.as_ref() != Some(before));
        if let Some(gone) = &gone {
            self.job_uids.remove(gone);
        }
        self.job_uids.extend(now);
        gone
    }

    pub fn note_budget(&mut self, key: &Key, budget: Option<&PodDisruptionBudget>) {
        let selector = budget.and_then(|budget| budget.spec.as_ref()?.selector.clone());
        match selector.and_then(|selector| Selector::try_from(selector).ok()) {
            Some(selector) => self.budgets.insert(key.clone(), selector),
            None => self.budgets.remove(key),
        };
    }

    pub fn pod(&self, key: &Key) -> Option<&PodNote> {
        self.pods.get(key)
    }

    pub fn node(&self, name: &str) -> Option<&NodeNote> {
        self.nodes.get(name)
    }

    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.nodes.values().map(|note| &note.place)
    }

    pub fn has_job(&self, uid: &str) -> bool {
        self.job_uids.contains(uid)
    }

    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodNote)> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get_key_value(key))
    }

    pub fn pods_of_job(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.by_job.get(uid).into_iter().flatten()
    }

    /// The pods that wait for a node.
    pub fn waiting(&self) -> impl Iterator<Item = (&Key, &Request)> {
        self.waiting.iter().filter_map(|key| Some((key, self.pods.get(key)?.request.as_deref()?)))
    }

    /// The budgets that cover a pod in this namespace with these labels.
    pub fn budgets_over<'a>(
        &'a self,
        namespace: &'a str,
        labels: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a Key> {
        in_namespace(&self.budgets, namespace).filter(move |(_, selector)| selector.matches(labels)).map(|(key, _)| key)
    }

    /// The pods that a budget covers.
    pub fn covered_by(&self, budget: &Key) -> Vec<Covered> {
        let Some(selector) = self.budgets.get(budget) else { return Vec::new() };
        in_namespace(&self.pods, &budget.0)
            .filter(|(_, pod)| selector.matches(&pod.labels))
            .map(|((_, name), pod)| Covered {
                name: name.clone(),
                ready: pod.ready,
                leaving: pod.leaving,
                controlled: pod.controlled,
            })
            .collect()
    }

    /// Where a pod may not go because of the pods that are there.
    pub fn blocked_for(&self, request: &Request) -> Blocked {
        let mut blocked = Blocked::default();
        let mut add = |key: &Key, pod: &PodNote| {
            if let Some(node) = pod.occupies().and_then(|node| self.nodes.get(node)) {
                blocked.add_neighbour(request, &key.0, &pod.labels, &pod.apart, &node.place);
            }
        };
        for (key, pod) in self.keeping_apart.iter().filter_map(|key| self.pods.get_key_value(key)) {
            add(key, pod);
        }
        for term in &request.apart {
            match term.namespaces() {
                Some(some) => {
                    some.iter().flat_map(|name| in_namespace(&self.pods, name)).for_each(|(key, pod)| add(key, pod))
                }
                None => self.pods.iter().for_each(|(key, pod)| add(key, pod)),
            }
        }
        blocked
    }

    /// The nodes that count as the same place as `node` for a waiting pod, or for the pod that was there.
    pub fn near(&self, node: &str, freed: &PodNote) -> BTreeSet<String> {
        let Some(labels) = self.nodes.get(node).map(|note| &note.place.labels) else { return BTreeSet::new() };
        let waiting = self.waiting().flat_map(|(_, request)| &request.apart);
        let topologies: BTreeSet<&str> = waiting.chain(&freed.apart).map(|term| term.topology.as_str()).collect();
        let mut near = BTreeSet::new();
        for topology in topologies {
            match (topology, labels.get(topology)) {
                (HOSTNAME, Some(_)) => {
                    near.insert(node.to_string());
                }
                (_, Some(value)) => near.extend(
                    self.places()
                        .filter(|place| place.labels.get(topology) == Some(value))
                        .map(|place| place.name.clone()),
                ),
                (_, None) => {}
            }
        }
        near
    }

    fn link(&mut self, key: &Key, note: &PodNote) {
        if let Some(node) = &note.node {
            self.by_node.entry(node.clone()).or_default().insert(key.clone());
        }
        if let Some(job) = &note.job {
            self.by_job.entry(job.uid.clone()).or_default().insert(key.clone());
        }
        if note.request.is_some() {
            self.waiting.insert(key.clone());
        }
        if let Some(node) = note.occupies() {
            if let Some(node) = self.nodes.get_mut(node) {
                node.place.pods += 1;
            }
            if !note.apart.is_empty() {
                self.keeping_apart.insert(key.clone());
            }
        }
    }

    fn unlink(&mut self, key: &Key, note: &PodNote) {
        if let Some(node) = &note.node {
            remove_from(&mut self.by_node, node, key);
        }
        if let Some(job) = &note.job {
            remove_from(&mut self.by_job, &job.uid, key);
        }
        self.waiting.remove(key);
        self.keeping_apart.remove(key);
        if let Some(node) = note.occupies().and_then(|node| self.nodes.get_mut(node)) {
            node.place.pods = node.place.pods.saturating_sub(1);
        }
    }
}

fn in_namespace<'a, T>(all: &'a BTreeMap<Key, T>, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a T)> {
    all.range((namespace.to_string(), String::new())..).take_while(move |(key, _)| key.0 == namespace)
}

fn remove_from(sets: &mut BTreeMap<String, BTreeSet<Key>>, name: &str, key: &Key) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(key);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}
