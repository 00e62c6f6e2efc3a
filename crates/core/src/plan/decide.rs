//! One decision for one Plan, from top to bottom.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::plan::PlanSpec;
use drover_api::plan::conditions::MISSING_CHANNEL_AND_VERSION;
use drover_api::plan::events::VersionSource;
use jiff::{SignedDuration, Timestamp};

use super::channel::{self, Heard};
use super::gate::{GateSeen, Target};
use super::hash::{LatestHash, latest_hash};
use super::job::{JobSettings, template};
use super::nodes::{self, Steps};
use super::status;
use super::validate;
use super::version::munge;
use crate::accepted;
use crate::decision::{Decision, Question, Reason, Wait};
use crate::seen::{JobSeen, NodeSeen, PlanSeen, PodSeen, SecretSeen};

/// Everything one decision rests on, at one moment.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// The operator process that decides: the holder of the epochs it raises.
    pub me: &'a str,
    pub plan: &'a PlanSeen,
    pub nodes: &'a BTreeMap<String, NodeSeen>,
    /// The Jobs that carry this Plan's label, by name.
    pub jobs: Vec<&'a JobSeen>,
    /// The pods of those Jobs, as far as they are seen.
    pub pods: Vec<&'a PodSeen>,
    /// The Secrets of the Plan's namespace, by name.
    pub secrets: &'a BTreeMap<String, SecretSeen>,
    pub settings: &'a JobSettings,
    /// All Plans of the namespace, by name: this one and those that it has to mind.
    pub plans: &'a BTreeMap<String, PlanSeen>,
    /// Plans for which claims are being written at this moment.
    pub claiming: BTreeSet<String>,
    /// What the channels of Plans have answered, by the names of the Plans.
    pub channels: &'a BTreeMap<String, Heard>,
    /// The objects that gates are over, by how the gates name them.
    pub gates: &'a BTreeMap<Target, GateSeen>,
    /// How often a channel is asked.
    pub poll_interval: SignedDuration,
    /// When the Plan's status was last written by this process: at most once a second.
    pub status_written: Option<Timestamp>,
    /// What keeps this process from seeing or writing, if anything does.
    pub trouble: Vec<Trouble>,
}

/// A read or a write that the API server does not let through.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    pub reason: Reason,
    pub sentence: String,
    pub remedy: Option<String>,
    /// Nothing may be decided about nodes: what is known of them may be wrong.
    pub blind: bool,
}

/// What the Plan asks for, as far as it can be read.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    /// `Err` says what is wrong with the Plan, in the words of its condition.
    pub valid: Result<(), Wait>,
    pub version: Result<String, Wait>,
    pub source: VersionSource,
    /// Only there if the Plan is valid and resolved.
    pub hash: Option<LatestHash>,
    /// A digest of what shapes the Jobs: see [`template`].
    pub template: String,
    /// The codes that somebody has accepted, in one text; empty if there are none.
    pub accepted: String,
    /// What is wrong with the channel although a version is known.
    pub channel: Option<Wait>,
    pub ask: Option<Question>,
    pub look_again: Option<Timestamp>,
}

pub fn decide(view: &View<'_>, now: Timestamp) -> Decision {
    let wish = read_wish(view, now);
    let problems = [wish.valid.as_ref().err(), wish.version.as_ref().err(), wish.channel.as_ref()];
    let mut waits: Vec<Wait> = problems.into_iter().flatten().cloned().collect();
    waits.extend(view.trouble.iter().map(|trouble| Wait {
        remedy: trouble.remedy.clone(),
        ..Wait::new(view.plan.subject(), trouble.reason, trouble.sentence.clone(), now)
    }));

    let steps = if view.plan.meta.deletion_timestamp.is_some() {
        Steps { hands_off: true, ..Steps::default() }
    } else if view.trouble.iter().any(|trouble| trouble.blind) {
        Steps { unknown: true, ..Steps::default() }
    } else {
        nodes::next(view, &wish, now)
    };
    waits.extend(steps.waits.iter().cloned());
    status::keep_since(&mut waits, &view.plan.status);

    let counts = (!steps.unknown && !steps.hands_off).then_some(steps.counts);
    let mut decision = Decision { look_again: steps.look_again, ask: wish.ask.clone(), counts, ..Decision::default() };
    wish.look_again.into_iter().for_each(|moment| decision.look_again_by(moment));
    let publication = status::publish(view, &wish, &steps, &waits, now, &mut decision);
    // A write that is refused must not keep the status from saying so: then the status goes first.
    if view.trouble.is_empty() {
        act(&mut decision, steps);
        publication.into_iter().for_each(|stage| decision.then(stage));
    } else {
        publication.into_iter().for_each(|stage| decision.then(stage));
        act(&mut decision, steps);
    }
    decision.waits = waits;
    decision
}

/// Writes to nodes and Jobs go side by side, each belongs to another claim; what is announced goes before the act that
/// would make it forgotten. Then the claims end and begin; then the new ones are acted on.
fn act(decision: &mut Decision, steps: Steps) {
    let (announcements, writes): (Vec<_>, Vec<_>) =
        steps.writes.into_iter().map(|step| (step.announcement, step.write)).unzip();
    decision.then(announcements.into_iter().flatten().collect());
    decision.then(writes);
    decision.then(steps.claims.into_iter().collect());
    decision.then(steps.takes);
    decision.then(steps.jobs);
}

/// What the Plan asks for. Nothing here looks at a node.
pub(super) fn read_wish(view: &View<'_>, now: Timestamp) -> Wish {
    let plan = view.plan;
    let invalid = |sentence: String| {
        Wait::new(plan.subject(), Reason::PlanInvalid, sentence, now).with_remedy(format!(
            "correct the Plan: kubectl edit -n {} plans.upgrade.cattle.io {}",
            plan.meta.namespace, plan.meta.name
        ))
    };
    let nothing = Wish {
        valid: Ok(()),
        version: Err(channel::unresolved(plan, MISSING_CHANNEL_AND_VERSION, now)),
        source: VersionSource::Version,
        hash: None,
        template: String::new(),
        accepted: accepted::codes(&plan.meta.annotations).into_iter().collect::<Vec<_>>().join(", "),
        channel: None,
        ask: None,
        look_again: None,
    };
    let spec = match &plan.spec {
        Ok(spec) => spec,
        Err(sentence) => return Wish { valid: Err(invalid(sentence.clone())), ..nothing },
    };
    let wish = match (spec.version.as_str(), spec.channel.as_str()) {
        ("", "") => nothing,
        ("", channel) => channel::resolve(view, channel, now, nothing),
        (version, _) => Wish { version: Ok(munge(version)), ..nothing },
    };
    if let Some(problem) = validate::problem(&plan.meta.name, spec) {
        return Wish { valid: Err(invalid(problem)), ..wish };
    }
    // Without a version there is nothing to hash; an empty one still tells whether the Secrets are there.
    if let Some(hash) = published_hash(view, spec) {
        return Wish { hash: wish.version.is_ok().then_some(hash), ..wish };
    }
    let secret = |name: &str| view.secrets.get(name).and_then(|secret| secret.digest.clone());
    match latest_hash(wish.version.as_deref().unwrap_or_default(), spec, &plan.raw, secret) {
        Ok(hash) => {
            let template = wish.version.as_ref().map(|version| template(spec, version));
            Wish { hash: wish.version.is_ok().then_some(hash), template: template.unwrap_or_default(), ..wish }
        }
        Err(missing) => {
            let wait = Wait::new(plan.subject(), Reason::SecretNotFound, missing.to_string(), now)
                .with_remedy(format!("create it in namespace {}, or take it out of spec.secrets", plan.meta.namespace));
            Wish { valid: Err(wait), ..wish }
        }
    }
}

/// The hash that was published, where a Secret is there but must not be read: it cannot be reckoned then.
fn published_hash(view: &View<'_>, spec: &PlanSpec) -> Option<LatestHash> {
    let counted = spec.secrets.iter().filter(|secret| !secret.ignore_updates);
    let mut seen = counted.map(|secret| view.secrets.get(&secret.name));
    let is_unread = seen.any(|secret| secret.is_some_and(|secret| secret.digest.is_none()));
    LatestHash::published(&view.plan.status.latest_hash).filter(|_| is_unread)
}
