//! What is written down while a run goes on: every commit, what it broke, and which states were reached.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;
use drover_clock::between;
use drover_corral::apiserver::{Commit, Verb};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::faults::Fault;
use crate::invariants::{Change, Checker, Leave};
use crate::known::Known;
use crate::scenario::Scenario;
use crate::scenario::pattern::Pattern;
use crate::story::Story;

/// Something that must never happen, or never end so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// Virtual time since the start.
    pub seconds: f64,
    pub sentence: String,
}

#[derive(Debug)]
pub struct Record {
    pub started: Timestamp,
    pub known: Known,
    /// What is on guest clusters, by namespace and name of their Clusters.
    pub guests: BTreeMap<(String, String), Known>,
    pub checker: Checker,
    /// Every pod counts: where nodes are drained, it matters which are still there.
    all_pods: bool,
    pub story: Story,
    pub violations: Vec<Violation>,
    /// The stores just before the first violation.
    pub before: Option<Saved>,
    /// What happens is kept, and the store, for the story of a violation.
    tells: bool,
    /// All objects as they are stored.
    stored: BTreeMap<Key, Bytes>,
    meanings: BTreeMap<Key, u64>,
    state: u64,
    pub states: Vec<u64>,
    /// At each write of an operator, the state that it meets, and its purpose.
    pub at_writes: Vec<(u64, String)>,
    pub commits: usize,
    /// Commits that can make a difference: all but renewals of Leases.
    pub changes: usize,
    /// What is to happen once an object says something, and where that is told.
    awaited: Vec<(Pattern, Fault)>,
    met: UnboundedSender<Fault>,
}

/// What is stored, in lists that `drover corral --load` serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// In the cluster where the operators run.
    pub own: Value,
    /// In guest clusters, by namespace and name of their Clusters.
    pub guests: BTreeMap<(String, String), Value>,
}

/// Whose object it is (nothing, or the guest cluster), its group, kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cluster: Option<(String, String)>,
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Key {
    fn of(cluster: Option<&(String, String)>, commit: &Commit<'_>) -> Self {
        let (group, kind) = (commit.resource.group.clone(), commit.resource.kind.clone());
        let (namespace, name) = (commit.namespace.to_owned(), commit.name.to_owned());
        Key { cluster: cluster.cloned(), group, kind, namespace, name }
    }
}

impl Record {
    pub fn new(
        scenario: &Scenario,
        started: Timestamp,
        leave: Leave,
        awaited: Vec<(Pattern, Fault)>,
        met: UnboundedSender<Fault>,
        tells: bool,
    ) -> Self {
        Record {
            started,
            known: Known::default(),
            guests: BTreeMap::new(),
            checker: Checker::new(&scenario.cordoned, scenario.guest_limit, leave),
            all_pods: scenario.drains() || scenario.plans_machines(),
            story: Story::default(),
            violations: Vec::new(),
            before: None,
            tells,
            stored: BTreeMap::new(),
            meanings: BTreeMap::new(),
            state: 0,
            states: Vec::new(),
            at_writes: Vec::new(),
            commits: 0,
            changes: 0,
            awaited,
            met,
        }
    }

    pub fn see(&mut self, commit: &Commit<'_>) {
        self.commits += 1;
        let (kind, namespace, name) = (commit.resource.kind.as_str(), commit.namespace, commit.name);
        let key = Key::of(None, commit);
        let stored_before = self.keep(&key, commit);
        if kind == "Lease" {
            return;
        }
        self.changes += 1;
        if !self.all_pods && is_of_no_interest(kind, commit.after.or(commit.before)) {
            return;
        }
        let after = commit.object.cloned();
        // What was told is no part of the state.
        if kind != "Event" {
            self.count_state(&key, after.as_deref());
        }
        let before = self.known.put((&commit.resource.group, kind), namespace, name, after.clone());
        let after = after.as_deref();
        let (at, actor, evicted) = (commit.at, commit.actor, commit.verb == Verb::Evict);
        let change = Change { at, actor, evicted, kind, namespace, name, before: before.as_deref(), after };
        self.checker.see(&self.known, &change);
        let met = |pattern: &Pattern| after.is_some_and(|after| pattern.fits(kind, namespace, name, after));
        while let Some(index) = self.awaited.iter().position(|(pattern, _)| met(pattern)) {
            let (_, fault) = self.awaited.remove(index);
            // The run may be over.
            let _ = self.met.send(fault);
        }
        self.note_violations(&key, stored_before, commit.at);
    }

    /// For the story; gives back the object as it was.
    fn keep(&mut self, key: &Key, commit: &Commit<'_>) -> Option<Bytes> {
        if !self.tells {
            return None;
        }
        self.story.commit(commit);
        match commit.after {
            Some(after) => self.stored.insert(key.clone(), after.clone()),
            None => self.stored.remove(key),
        }
    }

    /// The same of a guest cluster.
    pub fn see_guest(&mut self, cluster: &(String, String), commit: &Commit<'_>) {
        let key = Key::of(Some(cluster), commit);
        let stored_before = self.keep(&key, commit);
        self.commits += 1;
        self.changes += 1;
        let (kind, namespace, name) = (commit.resource.kind.as_str(), commit.namespace, commit.name);
        let after = commit.object.cloned();
        if kind != "Event" {
            self.count_state(&key, after.as_deref());
        }
        let guest = self.guests.entry(cluster.clone()).or_default();
        let before = guest.put((&commit.resource.group, kind), namespace, name, after.clone());
        let after = after.as_deref();
        let (at, actor, evicted) = (commit.at, commit.actor, commit.verb == Verb::Evict);
        let change = Change { at, actor, evicted, kind, namespace, name, before: before.as_deref(), after };
        self.checker.see_guest(cluster, guest, &change);
        self.note_violations(&key, stored_before, commit.at);
    }

    /// What the last commit has broken; the object was so before.
    fn note_violations(&mut self, key: &Key, stored_before: Option<Bytes>, at: Timestamp) {
        let violations = self.checker.take_violations();
        if !violations.is_empty() && self.before.is_none() && self.tells {
            let others = self.stored.iter().filter(|(other, _)| *other != key);
            self.before = Some(Saved::of(others.chain(stored_before.as_ref().map(|bytes| (key, bytes)))));
        }
        for sentence in violations {
            self.note(at, sentence);
        }
    }

    /// How many things are still to happen once something is so.
    pub fn awaited(&self) -> usize {
        self.awaited.len()
    }

    pub fn note(&mut self, at: Timestamp, sentence: String) {
        let seconds = between(self.started, at).as_secs_f64();
        self.story.violation(at, sentence.clone());
        self.violations.push(Violation { seconds, sentence });
    }

    /// Keeps the store as it is, unless an earlier violation did.
    pub fn save_now(&mut self) {
        if self.before.is_none() && self.tells {
            self.before = Some(Saved::of(self.stored.iter()));
        }
    }

    /// The state of the store is the sum of what its objects mean.
    fn count_state(&mut self, key: &Key, after: Option<&Value>) {
        let before = match after {
            Some(after) => {
                let mut hasher = DefaultHasher::new();
                let cluster =
                    key.cluster.as_ref().map_or(String::new(), |(namespace, name)| format!("{namespace}/{name}"));
                [&cluster, &key.group, &key.kind].iter().for_each(|part| hasher.write(part.as_bytes()));
                // The names of pods are drawn by lot.
                if key.kind != "Pod" {
                    hasher.write(key.name.as_bytes());
                }
                hash(after, &mut hasher);
                let meaning = hasher.finish();
                self.state = self.state.wrapping_add(meaning);
                self.meanings.insert(key.clone(), meaning)
            }
            None => self.meanings.remove(key),
        };
        self.state = self.state.wrapping_sub(before.unwrap_or(0));
        self.states.push(self.state);
    }

    /// The state of the store, as its objects mean it.
    pub fn state(&self) -> u64 {
        self.state
    }

    /// An operator is about to write: for this purpose, in the state that is given back.
    pub fn note_write(&mut self, purpose: &str) -> u64 {
        self.at_writes.push((self.state, purpose.to_owned()));
        self.state
    }
}

impl Saved {
    fn of<'a>(objects: impl Iterator<Item = (&'a Key, &'a Bytes)>) -> Self {
        let mut items: BTreeMap<Option<(String, String)>, Vec<Value>> = BTreeMap::new();
        for (key, bytes) in objects {
            items.entry(key.cluster.clone()).or_default().extend(serde_json::from_slice(bytes));
        }
        let list = |items: Vec<Value>| json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
        let own = list(items.remove(&None).unwrap_or_default());
        let guests = items.into_iter().filter_map(|(cluster, items)| Some((cluster?, list(items)))).collect();
        Saved { own, guests }
    }
}

/// Pods that belong to no Job and stay are many, and no upgrade looks at them one by one.
fn is_of_no_interest(kind: &str, json: Option<&Bytes>) -> bool {
    let holds = |json: &Bytes, word: &str| memchr::memmem::find(json, word.as_bytes()).is_some();
    let is_of_interest =
        |json: &Bytes| holds(json, "batch.kubernetes.io/job-name") || holds(json, "\"deletionTimestamp\":\"");
    kind == "Pod" && json.is_some_and(|json| !is_of_interest(json))
}

/// What of an object makes a state a different one: not when it was written, in which order, by which of the operators,
/// nor how something was called that got its name by lot.
fn hash(value: &Value, hasher: &mut DefaultHasher) {
    const PASSING: [&str; 11] = [
        "resourceVersion",
        "uid",
        "managedFields",
        "generation",
        "id",
        "drover.dev/claim",
        "drover.dev/fenced",
        "epoch",
        "holder",
        "bootID",
        "controller-uid",
    ];
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(truth) => hasher.write_u8(1 + u8::from(*truth)),
        Value::Number(number) => {
            hasher.write_u8(3);
            hasher.write(number.to_string().as_bytes());
        }
        Value::String(text) if is_time(text) => hasher.write_u8(4),
        Value::String(text) if text.starts_with('{') => match serde_json::from_str::<Value>(text) {
            Ok(inner) => hash(&inner, hasher),
            Err(_) => hasher.write(text.as_bytes()),
        },
        Value::String(text) => {
            hasher.write_u8(5);
            hasher.write(text.as_bytes());
        }
        Value::Array(items) => {
            hasher.write_u8(6);
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(fields) => {
            hasher.write_u8(7);
            for (key, value) in fields {
                hasher.write(key.as_bytes());
                // `by` is the process that took a place.
                if key != "by" && !PASSING.iter().any(|passing| key.ends_with(passing)) {
                    hash(value, hasher);
                }
            }
        }
    }
}

/// `2026-01-01T12:00:00Z` and the like.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[10] == b'T' && bytes[13] == b':'
}
