//! What the world remembers between changes, so that a change leads to the objects it concerns without listing
//! everything. It holds nothing that the store does not, and is made anew at every start.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::node::HOSTNAME;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Service, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{Selector, SelectorExt};

use super::agenda::Key;
use super::budget::Covered;
use super::kubelet::Machine;
use super::kubevirt;
use super::labels::{Labelled, Labels, Selecting, required_label};
use super::lifecycle;
use super::longhorn;
use super::notes::PodNote;
use super::pods;
use super::rancher;
use super::scheduler::{Neighbours, Place, Request, Surroundings};
use super::workloads::Workloads;

/// What is remembered of a Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeNote {
    pub place: Place,
    pub machine: Option<Machine>,
    pub ready: bool,
    /// Taints that pods already there must tolerate.
    pub evicting: Vec<Taint>,
}

#[derive(Debug, Default)]
pub struct Index {
    pods: BTreeMap<Key, PodNote>,
    labelled: Labelled,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    /// By the uid of the controller.
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    waiting: BTreeSet<Key>,
    /// Pods on a node that keep others away from it.
    keeping_apart: Selecting<Key>,
    nodes: BTreeMap<String, NodeNote>,
    /// The nodes, those with the fewest pods first.
    by_load: BTreeSet<(usize, String)>,
    jobs: BTreeMap<Key, String>,
    job_uids: BTreeSet<String>,
    budgets: BTreeMap<Key, Selector>,
    covering: Selecting<Key>,
    pub services: BTreeMap<Key, Selector>,
    serving: Selecting<Key>,
    pub workloads: Workloads,
    pub virtual_machines: kubevirt::notes::Notes,
    pub longhorn: longhorn::notes::Notes,
    pub rancher: rancher::notes::Notes,
    /// Pods by the claims that they use.
    by_claim: BTreeMap<String, BTreeSet<Key>>,
}

impl Index {
    /// Remembers a pod as it is now, or forgets it; answers with what was known of it.
    pub fn note_pod(&mut self, key: &Key, pod: Option<&Pod>) -> Option<PodNote> {
        let (before, now) = (self.pods.remove(key), pod.map(PodNote::of));
        // Most changes of a pod are to its status, and lead nowhere else than before.
        let stays = matches!((&before, &now), (Some(before), Some(now)) if before.leads_as(now));
        if let Some(before) = before.as_ref().filter(|_| !stays) {
            self.unlink(key, before);
        }
        if let Some(now) = now {
            if !stays {
                self.link(key, &now);
            }
            self.pods.insert(key.clone(), now);
        }
        before
    }

    pub fn note_node(&mut self, name: &str, node: Option<&Node>) -> Option<NodeNote> {
        let before = self.nodes.remove(name);
        if let Some(before) = &before {
            self.by_load.remove(&(before.place.pods, name.into()));
        }
        let Some(node) = node else { return before };
        let mut place = Place::of(node);
        match &before {
            // What the pods there use is kept as they come and go.
            Some(before) => (place.pods, place.used) = (before.place.pods, before.place.used.clone()),
            None => {
                for (_, pod) in self.pods_on(name).filter(|(_, pod)| !pod.has_ended()) {
                    place.pods += 1;
                    place.used.add(&pod.needs);
                }
            }
        }
        self.by_load.insert((place.pods, name.into()));
        let evicting = lifecycle::evicting_taints(node).cloned().collect();
        let note = NodeNote { place, machine: Machine::of(node), ready: lifecycle::is_ready(node), evicting };
        self.nodes.insert(name.into(), note);
        before
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
        if let Some(before) = self.budgets.remove(key) {
            self.covering.remove(&key.0, &before, key);
        }
        let selector = budget.and_then(|budget| budget.spec.as_ref()?.selector.clone());
        if let Some(selector) = selector.and_then(|selector| Selector::try_from(selector).ok()) {
            self.covering.insert(&key.0, &selector, key.clone());
            self.budgets.insert(key.clone(), selector);
        }
    }

    pub fn note_service(&mut self, key: &Key, service: Option<&Service>) {
        if let Some(before) = self.services.remove(key) {
            self.serving.remove(&key.0, &before, key);
        }
        let labels = service.and_then(|service| service.spec.as_ref()?.selector.clone());
        if let Some(labels) = labels.filter(|labels| !labels.is_empty()) {
            let selector: Selector = labels.into_iter().collect();
            self.serving.insert(&key.0, &selector, key.clone());
            self.services.insert(key.clone(), selector);
        }
    }

    /// The Services that a pod in this namespace with these labels is behind.
    pub fn services_over<'a>(&'a self, namespace: &str, labels: &'a Labels) -> impl Iterator<Item = &'a Key> {
        let matches = |key: &&Key| self.services.get(*key).is_some_and(|selector| selector.matches(labels));
        self.serving.candidates(namespace, labels).into_iter().filter(matches)
    }

    pub fn pod(&self, key: &Key) -> Option<&PodNote> {
        self.pods.get(key)
    }

    pub fn node(&self, name: &str) -> Option<&NodeNote> {
        self.nodes.get(name)
    }

    /// The nodes in the order in which the scheduler prefers them.
    pub fn places(&self) -> impl Iterator<Item = &Place> + Clone {
        self.by_load.iter().filter_map(|(_, name)| self.nodes.get(name)).map(|note| &note.place)
    }

    pub fn has_job(&self, uid: &str) -> bool {
        self.job_uids.contains(uid)
    }

    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodNote)> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get_key_value(key))
    }

    /// The pods of the controller with this uid.
    pub fn pods_of(&self, uid: &str) -> impl Iterator<Item = (&Key, &PodNote)> {
        self.by_owner.get(uid).into_iter().flatten().filter_map(|key| self.pods.get_key_value(key))
    }

    /// The pods that use a claim.
    pub fn users_of(&self, namespace: &str, claim: &str) -> impl Iterator<Item = (&Key, &PodNote)> {
        let place = claim_place(namespace, claim);
        self.by_claim.get(&place).into_iter().flatten().filter_map(|key| self.pods.get_key_value(key))
    }

    pub fn has_budget(&self, key: &Key) -> bool {
        self.budgets.contains_key(key)
    }

    /// The pods that wait for a node.
    pub fn waiting(&self) -> impl Iterator<Item = (&Key, &Request)> {
        self.waiting.iter().filter_map(|key| Some((key, self.pods.get(key)?.request.as_deref()?)))
    }

    /// The pods of a namespace that a selector matches.
    pub fn selected<'a>(
        &'a self,
        namespace: &'a str,
        selector: &'a Selector,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a PodNote)> + 'a> {
        let matches = move |(_, pod): &(&Key, &PodNote)| selector.matches(&pod.labels);
        match required_label(selector) {
            Some(label) => {
                let found = self.labelled.with(namespace, label);
                Box::new(found.filter_map(move |key| self.pods.get_key_value(key)).filter(matches))
            }
            None => Box::new(in_namespace(&self.pods, namespace).filter(matches)),
        }
    }

    /// The budgets that cover a pod in this namespace with these labels.
    pub fn budgets_over<'a>(&'a self, namespace: &str, labels: &'a Labels) -> impl Iterator<Item = &'a Key> {
        let matches = |key: &&Key| self.budgets.get(*key).is_some_and(|selector| selector.matches(labels));
        self.covering.candidates(namespace, labels).into_iter().filter(matches)
    }

    /// The pods that a budget covers.
    pub fn covered_by(&self, budget: &Key) -> Vec<Covered> {
        let Some(selector) = self.budgets.get(budget) else { return Vec::new() };
        self.selected(&budget.0, selector)
            .map(|((_, name), pod)| Covered {
                name: name.clone(),
                ready: pod.ready,
                leaving: pod.leaving,
                owner: pod.owner.as_ref().map(|owner| self.workloads.scale_of(&budget.0, owner)),
            })
            .collect()
    }

    /// What the pods around mean for one that waits.
    pub fn surroundings_of(&self, request: &Request) -> Surroundings {
        let mut around = Surroundings::empty(request);
        for key in self.keeping_apart.candidates(&request.namespace, &request.labels) {
            let Some(pod) = self.pods.get(key) else { continue };
            if let Some(place) = self.place_of(pod) {
                around.add_neighbour(request, &key.0, &pod.labels, &pod.apart, place);
            }
        }
        for (key, pod, place) in request.apart.iter().flat_map(|term| self.matching(term)) {
            around.add_neighbour(request, &key.0, &pod.labels, &[], place);
        }
        for (key, pod, place) in request.together.iter().flat_map(|term| self.matching(term)) {
            around.add_companion(request, &key.0, &pod.labels, place);
        }
        around.allow_the_first(request);
        around.balance(request, self.places(), |at| {
            let Some(spread) = request.spread.get(at) else { return Vec::new() };
            let counted = self.selected(&request.namespace, &spread.selector).filter(|(_, pod)| !pod.leaving);
            counted.filter_map(|(_, pod)| self.place_of(pod)).collect()
        });
        around
    }

    /// The nodes that count as the same place as `node` for a waiting pod, or for the pod that was there.
    pub fn near(&self, node: &str, freed: &PodNote) -> BTreeSet<String> {
        let Some(labels) = self.nodes.get(node).map(|note| &note.place.labels) else { return BTreeSet::new() };
        let mut topologies: BTreeSet<&str> = freed.apart.iter().map(|term| term.topology.as_str()).collect();
        for (_, request) in self.waiting() {
            topologies.extend(request.apart.iter().map(|term| term.topology.as_str()));
            topologies.extend(request.spread.iter().map(|spread| spread.topology.as_str()));
        }
        // Room on the node itself has become free for any pod.
        let mut near = BTreeSet::from([node.to_string()]);
        for topology in topologies.into_iter().filter(|topology| *topology != HOSTNAME) {
            let Some(value) = labels.get(topology) else { continue };
            let alike = self.nodes.values().filter(|note| note.place.labels.get(topology) == Some(value));
            near.extend(alike.map(|note| note.place.name.clone()));
        }
        near
    }

    /// The pods in a place that a term of affinity or anti-affinity is about.
    fn matching<'a>(&'a self, term: &'a Neighbours) -> Vec<(&'a Key, &'a PodNote, &'a Place)> {
        let placed = |(key, pod): (&'a Key, &'a PodNote)| Some((key, pod, self.place_of(pod)?));
        match term.namespaces() {
            Some(some) => some.iter().flat_map(|name| self.selected(name, &term.selector)).filter_map(placed).collect(),
            None => self.pods.iter().filter(|(_, pod)| term.selector.matches(&pod.labels)).filter_map(placed).collect(),
        }
    }

    fn place_of(&self, pod: &PodNote) -> Option<&Place> {
        pod.occupies().and_then(|node| self.nodes.get(node)).map(|note| &note.place)
    }

    fn link(&mut self, key: &Key, note: &PodNote) {
        self.labelled.insert(key, &note.labels);
        if let Some(node) = &note.node {
            self.by_node.entry(node.clone()).or_default().insert(key.clone());
        }
        if let Some(owner) = &note.owner {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        for claim in &note.claims {
            self.by_claim.entry(claim_place(&key.0, claim)).or_default().insert(key.clone());
        }
        if note.request.is_some() {
            self.waiting.insert(key.clone());
        }
        if let Some(node) = note.occupies() {
            self.use_room(node, |place| {
                place.pods += 1;
                place.used.add(&note.needs);
            });
            for (namespace, term) in covered_namespaces(&note.apart) {
                self.keeping_apart.insert(namespace, &term.selector, key.clone());
            }
        }
    }

    fn unlink(&mut self, key: &Key, note: &PodNote) {
        self.labelled.remove(key, &note.labels);
        if let Some(node) = &note.node {
            remove_from(&mut self.by_node, node, key);
        }
        if let Some(owner) = &note.owner {
            remove_from(&mut self.by_owner, &owner.uid, key);
        }
        for claim in &note.claims {
            remove_from(&mut self.by_claim, &claim_place(&key.0, claim), key);
        }
        self.waiting.remove(key);
        if let Some(node) = note.occupies() {
            self.use_room(node, |place| {
                place.pods = place.pods.saturating_sub(1);
                place.used.subtract(&note.needs);
            });
            for (namespace, term) in covered_namespaces(&note.apart) {
                self.keeping_apart.remove(namespace, &term.selector, key);
            }
        }
    }

    fn use_room(&mut self, node: &str, change: impl FnOnce(&mut Place)) {
        let Some(note) = self.nodes.get_mut(node) else { return };
        let before = note.place.pods;
        change(&mut note.place);
        if before != note.place.pods {
            self.by_load.remove(&(before, node.to_string()));
            self.by_load.insert((note.place.pods, node.into()));
        }
    }
}

fn claim_place(namespace: &str, claim: &str) -> String {
    format!("{namespace}/{claim}")
}

/// Every term with each namespace that it covers; an empty one stands for all.
fn covered_namespaces(terms: &[Neighbours]) -> impl Iterator<Item = (&str, &Neighbours)> {
    terms.iter().flat_map(|term| {
        let names: Vec<&str> = match term.namespaces() {
            Some(some) => some.iter().map(String::as_str).collect(),
            None => vec![""],
        };
        names.into_iter().map(move |name| (name, term))
    })
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
