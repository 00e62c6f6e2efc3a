//! A Plan as its engine sees it, whoever drives it.
//!
//! The decision that is taken on it is the engine's own. What another controller has under way is seen as if the engine
//! had claimed it: its Jobs count as ours, and so do the nodes that they are for.

use std::collections::BTreeMap;

use drover_api::plan::jobs::CONTROLLER_NAME;
use drover_api::plan::{KIND, conditions, labels};
use jiff::{SignedDuration, Timestamp};

use super::Driver;
use crate::claims::{Claim, ClaimId, Mark, Owner};
use crate::cluster::{Cluster, EngineNamespace};
use crate::decision::Decision;
use crate::plan::job::JobSettings;
use crate::plan::{Answer, GateSeen, Heard, Target, View, decide, names};
use crate::seen::{JobSeen, NodeSeen, Outcome, PlanSeen, PodSeen, SecretSeen};

/// Everything that a decision about one Plan rests on.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    plan: PlanSeen,
    nodes: BTreeMap<String, NodeSeen>,
    jobs: Vec<JobSeen>,
    pods: Vec<&'a PodSeen>,
    secrets: BTreeMap<String, SecretSeen>,
    plans: BTreeMap<String, PlanSeen>,
    channels: BTreeMap<String, Heard>,
    gates: BTreeMap<Target, GateSeen>,
    settings: JobSettings,
}

/// The Jobs that carry a Plan's label.
pub fn jobs_of<'a>(cluster: &'a Cluster, plan: &PlanSeen) -> impl Iterator<Item = &'a JobSeen> {
    let room = cluster.engine.namespaces.get(&plan.meta.namespace);
    let name = plan.meta.name.clone();
    room.into_iter()
        .flat_map(|room| room.jobs.values())
        .filter(move |job| job.meta.labels.get(labels::PLAN) == Some(&name))
}

impl<'a> Scene<'a> {
    pub fn of(cluster: &'a Cluster, plan: &PlanSeen, driver: Driver) -> Self {
        let none = EngineNamespace::default();
        let room = cluster.engine.namespaces.get(&plan.meta.namespace);
        let pods = room.into_iter().flat_map(|room| room.pods.values());
        let room = room.unwrap_or(&none);
        let mut scene = Scene {
            plan: plan.clone(),
            nodes: cluster.engine.nodes.clone(),
            jobs: jobs_of(cluster, plan).cloned().collect(),
            pods: pods.filter(|pod| pod.meta.labels.get(labels::PLAN) == Some(&plan.meta.name)).collect(),
            secrets: secrets(cluster, plan, room),
            plans: room.plans.clone(),
            channels: heard(plan, cluster.looked_at),
            gates: BTreeMap::new(),
            settings: JobSettings { controller: CONTROLLER_NAME.to_owned(), ..JobSettings::default() },
        };
        if driver == Driver::SystemUpgradeController {
            scene.adopt();
        }
        scene
    }

    /// What the engine would do and wait for now.
    pub fn decide(&self, now: Timestamp) -> Decision {
        let view = View {
            me: &self.plan.claims.holder,
            plan: &self.plan,
            nodes: &self.nodes,
            jobs: self.jobs.iter().collect(),
            pods: self.pods.clone(),
            secrets: &self.secrets,
            settings: &self.settings,
            plans: &self.plans,
            claiming: Default::default(),
            channels: &self.channels,
            gates: &self.gates,
            poll_interval: SignedDuration::MAX,
            status_written: None,
            trouble: Vec::new(),
        };
        decide(&view, now)
    }

    /// Takes what another controller has under way for ours.
    fn adopt(&mut self) {
        for job in self.jobs.iter().filter(|job| job.outcome == Some(Outcome::Complete)) {
            if let Some((began, ended)) = job.began.zip(job.ended) {
                self.plan.claims.note_duration(ended.duration_since(began).as_secs());
            }
        }
        let latest = self.plan.status.latest_hash.clone();
        let label = labels::plan_hash(&self.plan.meta.name);
        let by_label: BTreeMap<String, String> =
            self.nodes.keys().map(|name| (names::label(name), name.clone())).collect();
        for job in self.jobs.iter_mut().filter(|job| job.claim.is_none()) {
            let is_latest = job.meta.labels.get(&label) == Some(&latest);
            let name = job.meta.labels.get(labels::NODE).and_then(|node| by_label.get(node));
            let Some((name, node)) = name.and_then(|name| Some((name, self.nodes.get_mut(name)?))) else { continue };
            let is_updated = node.meta.labels.get(&label) == Some(&latest);
            if is_updated || node.claim.is_some() || !is_latest && job.outcome.is_some() {
                continue;
            }
            let id = ClaimId::from(job.meta.uid.as_str());
            let meta = &self.plan.meta;
            let owner = Owner {
                kind: KIND.to_owned(),
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
            };
            node.mark = Some(Box::new(Mark { owner, cordoned: node.unschedulable, done: None, failed: None }));
            node.claim = Some(id.clone());
            job.claim = Some(id.clone());
            let since = job.began.unwrap_or_default();
            self.plan.claims.nodes.insert(name.clone(), Claim { id, owner: meta.uid.clone(), since });
        }
    }
}

/// A Secret of which only the metadata may be read, or that cannot be seen at all, counts as there.
fn secrets(cluster: &Cluster, plan: &PlanSeen, room: &EngineNamespace) -> BTreeMap<String, SecretSeen> {
    let mut secrets = room.secrets.clone();
    let named = plan.spec.iter().flat_map(|spec| &spec.secrets).map(|secret| &secret.name);
    for name in named {
        let is_there = cluster.secrets.get(&plan.meta.namespace, name).is_some();
        if is_there || cluster.blind_to("Secret").is_some() {
            secrets.entry(name.clone()).or_insert_with(|| SecretSeen::unread(name));
        }
    }
    secrets
}

/// What the channel has answered, as far as the Plan's status tells: nobody else is asked.
fn heard(plan: &PlanSeen, now: Timestamp) -> BTreeMap<String, Heard> {
    let Some(url) = plan.spec.as_ref().ok().map(|spec| &spec.channel).filter(|url| !url.is_empty()) else {
        return BTreeMap::new();
    };
    let resolved = plan.status.conditions.iter().find(|condition| condition.type_ == conditions::LATEST_RESOLVED);
    let answer = match resolved {
        Some(condition) if condition.status == conditions::TRUE => {
            Ok(Answer { status: 302, location: Some(format!("/{}", plan.status.latest_version)) })
        }
        Some(condition) if !condition.message.is_empty() => {
            let prefix = conditions::channel_failed("");
            Err(condition.message.strip_prefix(&prefix).unwrap_or(&condition.message).to_owned())
        }
        _ => return BTreeMap::new(),
    };
    let failures = u32::from(answer.is_err());
    let heard = Heard { url: url.clone(), at: now, pending: false, answer, failures };
    BTreeMap::from([(plan.meta.name.clone(), heard)])
}
