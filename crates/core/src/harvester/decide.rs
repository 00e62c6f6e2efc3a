//! One decision for one Upgrade, from top to bottom.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::harvester::upgrade::annotations::PAUSE_MAP;
use drover_api::harvester::upgrade::{FINALIZER, cleanup, labels, states};
use drover_api::harvester::{CATTLE_NAMESPACE, FLEET_NAMESPACE, NAMESPACE, node as node_marks};
use drover_api::marks;
use drover_api::rancher::machine_plan::labels::MACHINE_NAME;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::admission::Verdict;
use super::progress::{Ending, Progress};
use super::release::Fetched;
use super::{
    abort, around, cleanup as clearing, ending, events, joining, nodes, pausing, preload, repo, services, skipping,
    start, status,
};
use crate::cluster::cluster_api::Machine;
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Job, Node, Secret};
use crate::decision::{Act, Decision, Kind, Purpose, Question, Reason, Subject, Wait, Write};
use crate::plan::Trouble;

/// What the operator decides for all Upgrades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Of the Jobs that run Drover's own steps.
    pub image: String,
}

/// Whether an Upgrade that has not begun may, where no webhook was asked when it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<'a> {
    /// Nobody asks.
    Waived,
    /// Nobody has looked yet.
    Unknown,
    /// So it looked at this moment.
    Judged { at: Timestamp, verdict: &'a Verdict },
}

/// Everything one decision rests on, at one moment.
#[derive(Debug, Clone)]
pub struct View<'a> {
    pub cluster: &'a Cluster,
    pub upgrade: &'a Upgrade,
    pub settings: &'a Settings,
    /// What the repository of this Upgrade has answered.
    pub repository: Option<&'a Fetched>,
    pub admission: Admission<'a>,
    /// When the status was last written by this process: at most once a second.
    pub status_written: Option<Timestamp>,
    pub trouble: Vec<Trouble>,
    /// What was waited for in the last decision: a wait that goes on keeps its beginning.
    pub told: &'a [Wait],
}

fn keep_since(waits: &mut [Wait], told: &[Wait]) {
    for wait in waits {
        let before = told.iter().find(|told| told.subject == wait.subject && told.reason == wait.reason);
        wait.since = before.map_or(wait.since, |before| before.since.min(wait.since));
    }
}

pub fn decide(view: &View<'_>, now: Timestamp) -> Decision {
    let mut turn = Turn::new(view, now);
    for trouble in &view.trouble {
        let wait = Wait::new(turn.subject(), trouble.reason, trouble.sentence.clone(), now);
        turn.waits.push(Wait { remedy: trouble.remedy.clone(), ..wait });
    }
    if view.trouble.iter().any(|trouble| trouble.blind) {
        return turn.into_decision();
    }
    if let Some(Err(error)) = Progress::read(view.upgrade) {
        start::cannot_go_on(&mut turn, &format!("cannot be read ({error})"));
        return turn.into_decision();
    }
    if turn.known.is_some() && (start::another_writes(&mut turn) || start::incumbent_acts(&mut turn)) {
        return turn.into_decision();
    }
    if view.upgrade.metadata.deletion_timestamp.is_some() {
        ending::leave(&mut turn);
    } else if turn.known.is_some() || start::begin(&mut turn) {
        start::outdate_older(&mut turn);
        ending::try_again(&mut turn);
        skipping::heed(&mut turn);
        abort::heed(&mut turn);
        go_on(&mut turn);
    }
    turn.into_decision()
}

/// Each phase says whether it is done; the first that is not ends the turn.
pub(super) fn go_on(turn: &mut Turn<'_>) {
    let phases: [fn(&mut Turn<'_>) -> bool; 9] = [
        start::mark_pauses,
        repo::import,
        repo::serve,
        repo::read,
        preload::everywhere,
        services::apply,
        around::before_nodes,
        nodes::next,
        nodes::settle,
    ];
    nodes::forget_who_has_left(turn);
    pausing::forget_who_is_gone(turn);
    joining::count_anew(turn);
    if turn.next.aborting && turn.next.ended.is_none() {
        abort::go_back(turn);
    } else if turn.next.ended.is_none() {
        let is_done = phases.iter().all(|phase| phase(turn));
        leave_out(turn, is_done);
        if is_done {
            turn.next.ended = Some(Ending::Succeeded);
        }
    }
    if turn.next.ended.is_some() {
        turn.phase = Phase::Ended;
        clearing::everything(turn);
        ending::tell_what_failed(turn);
    }
}

/// The Upgrade goes on without nodes that Harvester does not manage, or that have joined too late: each is told all the way, and who was left
/// out is noted in the end.
fn leave_out(turn: &mut Turn<'_>, is_done: bool) {
    let (_, unmanaged) = members(turn.cluster());
    if is_done {
        turn.next.left_out = unmanaged.iter().map(|(node, _)| node.metadata.name.clone()).collect();
        turn.next.joined = joining::left_out(turn).iter().map(|member| member.name().to_owned()).collect();
    } else if turn.next.ended.is_none() {
        for (node, why) in unmanaged {
            let subject = Subject::node(&node.metadata.name);
            let holds = |wait: &Wait| wait.reason == Reason::NodeUncounted && wait.subject == subject;
            if turn.waits.iter().any(holds) {
                continue;
            }
            let remedy = match around::will_count(turn, node) {
                true => {
                    "provision it again, or remove it: the steps of the release on the system services wait for every Node"
                }
                false => "provision it again, or remove it: the upgrade goes on without it",
            };
            turn.wait_with_remedy(subject, Reason::NodeUnmanaged, why, remedy);
        }
        joining::tell_left_out(turn);
    }
}

/// How far the Upgrade is, for its label and its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It has not begun.
    Waits,
    ImportingImage,
    ServingRelease,
    ReadingRelease,
    PreparingNodes,
    UpgradingServices,
    UpgradingNodes,
    Ended,
}

/// One decision in the making.
pub(super) struct Turn<'a> {
    pub view: &'a View<'a>,
    pub now: Timestamp,
    /// What was noted before this turn; none if the Upgrade has not begun.
    pub known: Option<Progress>,
    pub next: Progress,
    pub phase: Phase,
    /// Further annotations of the Upgrade; null takes one away.
    pub annotations: BTreeMap<&'static str, Value>,
    /// Come after what is noted.
    pub writes: Vec<Write>,
    /// Come after what is published: whoever admits them looks there.
    pub last: Vec<Write>,
    pub waits: Vec<Wait>,
    pub look_again: Option<Timestamp>,
    pub ask: Option<Question>,
    /// Somebody has to look whether the Upgrade may begin.
    pub judge: bool,
    /// Nodes that are paused now.
    pub paused: BTreeSet<String>,
    /// The Upgrade is being deleted and nothing keeps it any longer.
    pub released: bool,
}

impl<'a> Turn<'a> {
    fn new(view: &'a View<'a>, now: Timestamp) -> Self {
        let known = Progress::of(view.upgrade);
        Turn {
            view,
            now,
            next: known.clone().unwrap_or_default(),
            known,
            phase: Phase::Waits,
            annotations: BTreeMap::new(),
            writes: Vec::new(),
            last: Vec::new(),
            waits: Vec::new(),
            look_again: None,
            ask: None,
            judge: false,
            paused: BTreeSet::new(),
            released: false,
        }
    }

    pub fn cluster(&self) -> &'a Cluster {
        self.view.cluster
    }

    pub fn name(&self) -> &'a str {
        &self.view.upgrade.metadata.name
    }

    pub fn subject(&self) -> Subject {
        Subject::new(Kind::Upgrade, NAMESPACE, self.name())
    }

    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.view.upgrade.metadata.annotations.get(key).map(String::as_str)
    }

    pub fn wait(&mut self, subject: Subject, reason: Reason, sentence: impl Into<String>) {
        self.waits.push(Wait::new(subject, reason, sentence, self.now));
    }

    pub fn wait_with_remedy(&mut self, subject: Subject, reason: Reason, sentence: String, remedy: impl Into<String>) {
        self.waits.push(Wait::new(subject, reason, sentence, self.now).with_remedy(remedy));
    }

    pub fn write(&mut self, purpose: Purpose, subject: Subject, act: Act) {
        self.writes.push(Write { purpose, subject, act });
    }

    pub fn look_again_after(&mut self, seconds: i64) {
        if let Ok(moment) = self.now.checked_add(SignedDuration::from_secs(seconds)) {
            self.look_again = Some(self.look_again.map_or(moment, |earlier| earlier.min(moment)));
        }
    }

    pub fn fail(&mut self, reason: impl Into<String>, message: impl Into<String>) {
        self.next.ended = Some(Ending::Failed { reason: reason.into(), message: message.into() });
    }

    /// The owner of everything that is made for the Upgrade.
    pub fn owner(&self) -> Value {
        json!([{
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "name": self.name(),
            "uid": self.view.upgrade.metadata.uid, "controller": true, "blockOwnerDeletion": false,
        }])
    }

    pub fn job(&self, name: &str) -> Option<&'a Job> {
        self.cluster().jobs.get(NAMESPACE, name)
    }

    pub fn prepare_plan(&self) -> Option<&'a crate::seen::PlanSeen> {
        self.cluster().plan(CATTLE_NAMESPACE, &super::names::prepare(self.name()))
    }

    fn into_decision(self) -> Decision {
        let mut decision = Decision { waits: self.waits.clone(), look_again: self.look_again, ..Decision::default() };
        decision.ask.clone_from(&self.ask);
        decision.judge = self.judge;
        keep_since(&mut decision.waits, self.view.told);
        // What holds the upgrade comes before what it goes on without.
        decision.waits.sort_by_key(|wait| wait.reason.holds_nothing());
        // Nothing is said before it is known.
        if self.judge && self.waits.is_empty() {
            return decision;
        }
        if self.released {
            decision.then(vec![self.without_finalizer()]);
            return decision;
        }
        // Not a word on what another controller drives; that Drover has stopped where it drove is told beside it.
        let acts = decision.waits.iter().find(|wait| wait.reason == Reason::AnotherControllerActs);
        if let Some(told) = acts.map(|acts| events::stopped(&self, acts)) {
            let has_stopped = self.known.is_some() && !start::is_over(&self);
            decision.then(has_stopped.then_some(told).into_iter().collect());
            return decision;
        }
        let metadata = self.metadata();
        let publication = status::publish(&self, &decision.waits, &mut decision.look_again);
        // The Events go first: a crash in between then repeats them under the same names, and loses none.
        let events = events::events(&self, self.state(), &decision.waits, &mut decision.look_again);
        decision.then(events);
        decision.then(metadata.into_iter().collect());
        // One request an object and stage: what two parts want of a Node goes out in two stages.
        let mut later = Vec::new();
        let mut stage: Vec<Write> = Vec::new();
        for write in self.writes {
            let taken = stage.iter().any(|other| other.subject == write.subject);
            if taken { later.push(write) } else { stage.push(write) }
        }
        decision.then(stage);
        decision.then(later);
        decision.then(publication.into_iter().collect());
        decision.then(self.last);
        decision
    }

    /// What is noted on the Upgrade, its labels and its finalizer, if they differ.
    fn metadata(&self) -> Option<Write> {
        let begins = self.known.is_none() && self.phase > Phase::Waits;
        if self.known.is_none() && !begins {
            return None;
        }
        let metadata = &self.view.upgrade.metadata;
        let mut annotations: BTreeMap<&str, Value> =
            self.annotations.iter().map(|(key, value)| (*key, value.clone())).collect();
        let text = self.next.text();
        annotations.insert(marks::PROGRESS, json!(text));
        annotations.retain(|key, value| metadata.annotations.get(*key).map(String::as_str) != value.as_str());
        let wanted = self.labels();
        let labels: BTreeMap<&str, Value> = wanted
            .into_iter()
            .filter(|(key, value)| metadata.labels.get(*key).map(String::as_str) != *value)
            .map(|(key, value)| (key, json!(value)))
            .collect();
        let holds = metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        let adds = !holds && metadata.deletion_timestamp.is_none();
        if annotations.is_empty() && labels.is_empty() && !adds {
            return None;
        }
        let mut patch = json!({ "metadata": {
            "resourceVersion": metadata.resource_version.to_string(), "annotations": annotations, "labels": labels,
        }});
        if adds {
            let all: Vec<&str> =
                metadata.finalizers.iter().map(String::as_str).chain(std::iter::once(FINALIZER)).collect();
            patch["metadata"]["finalizers"] = json!(all);
        }
        Some(Write { purpose: Purpose::NoteProgress, subject: self.subject(), act: Act::Patch(patch) })
    }

    fn without_finalizer(&self) -> Write {
        let metadata = &self.view.upgrade.metadata;
        let rest: Vec<&String> = metadata.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        let version = metadata.resource_version.to_string();
        let mut patch = json!({ "metadata": { "resourceVersion": version, "finalizers": rest } });
        // Harvester's webhook refuses even this while the map names a Node that is gone.
        if metadata.annotations.contains_key(PAUSE_MAP) {
            patch["metadata"]["annotations"] = json!({ PAUSE_MAP: null });
        }
        Write { purpose: Purpose::CleanUp, subject: self.subject(), act: Act::Patch(patch) }
    }

    fn state(&self) -> &'static str {
        match (self.phase, &self.next.ended) {
            (_, Some(Ending::Succeeded)) => states::SUCCEEDED,
            (_, Some(Ending::Failed { .. })) => states::FAILED,
            (Phase::Waits | Phase::ImportingImage, _) => states::LOGGING_INFRA_PREPARED,
            (Phase::ServingRelease, _) => states::PREPARING_REPO,
            (Phase::ReadingRelease, _) => states::REPO_PREPARED,
            (Phase::PreparingNodes, _) => states::PREPARING_NODES,
            (Phase::UpgradingServices, _) => states::UPGRADING_SYSTEM_SERVICES,
            (Phase::UpgradingNodes | Phase::Ended, _) => states::UPGRADING_NODES,
        }
    }

    fn labels(&self) -> Vec<(&'static str, Option<&'static str>)> {
        let mut all = vec![(labels::STATE, Some(self.state()))];
        // An older one has lost it to the latest.
        if self.known.is_none() {
            all.push((labels::LATEST, Some("true")));
        }
        if self.next.ended.is_some() {
            let word = if self.next.cleaned { cleanup::SUCCEEDED } else { cleanup::PENDING };
            all.push((labels::CLEANUP, Some(word)));
        }
        all
    }
}

/// A node that takes part, with its Machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub node: &'a Node,
    pub machine: &'a Machine,
}

impl<'a> Member<'a> {
    pub fn name(&self) -> &'a str {
        &self.node.metadata.name
    }

    /// The Secret by which Rancher's planner and we talk about the node.
    pub fn plan_secret(&self, cluster: &'a Cluster) -> Option<&'a Secret> {
        plan_secret(cluster, self.machine)
    }
}

/// The Secret that holds the plan of a machine.
pub(crate) fn plan_secret<'a>(cluster: &'a Cluster, machine: &Machine) -> Option<&'a Secret> {
    let own = |secret: &&Secret| secret.metadata.labels.get(MACHINE_NAME) == Some(&machine.metadata.name);
    cluster.secrets.in_namespace(FLEET_NAMESPACE).find(own)
}

/// The nodes that take part, by name, and those that do not, with the reason.
pub(super) fn members(cluster: &Cluster) -> (Vec<Member<'_>>, Vec<(&Node, String)>) {
    let machines: BTreeMap<&str, &Machine> = cluster
        .cluster_api
        .machines
        .in_namespace(FLEET_NAMESPACE)
        .map(|machine| (machine.status.node_ref.name.as_str(), machine))
        .collect();
    let (mut members, mut others) = (Vec::new(), Vec::new());
    for node in cluster.nodes.iter() {
        let name = &node.metadata.name;
        let is_managed = node.metadata.labels.get(node_marks::MANAGED).is_some_and(|value| value == "true");
        match machines.get(name.as_str()) {
            Some(machine) if is_managed => members.push(Member { node, machine }),
            Some(_) => others.push((node, format!("Node {name} has no label {}=true", node_marks::MANAGED))),
            None => others.push((node, format!("Node {name} has no Machine in {FLEET_NAMESPACE}"))),
        }
    }
    (members, others)
}
