//! One decision for one Plan, from top to bottom.

use std::collections::BTreeMap;

use drover_api::plan::PlanSpec;
use drover_api::plan::conditions::MISSING_CHANNEL_AND_VERSION;
use jiff::Timestamp;

use super::hash::{LatestHash, latest_hash};
use super::job::JobSettings;
use super::nodes::{self, Step, Steps};
use super::status;
use super::validate;
use super::version::munge;
use crate::decision::{Decision, Reason, Wait, Write};
use crate::seen::{JobSeen, NodeSeen, PlanSeen, SecretSeen};

/// Everything one decision rests on, at one moment.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// The operator process that decides: the holder of the epochs it raises.
    pub me: &'a str,
    pub plan: &'a PlanSeen,
    pub nodes: &'a BTreeMap<String, NodeSeen>,
    /// The Jobs that carry this Plan's label, by name.
    pub jobs: Vec<&'a JobSeen>,
    /// The Secrets of the Plan's namespace, by name.
    pub secrets: &'a BTreeMap<String, SecretSeen>,
    pub settings: &'a JobSettings,
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
    /// Only there if the Plan is valid and resolved.
    pub hash: Option<LatestHash>,
}

pub fn decide(view: &View<'_>, now: Timestamp) -> Decision {
    let wish = read_wish(view, now);
    let mut waits: Vec<Wait> =
        [wish.valid.as_ref().err(), wish.version.as_ref().err()].into_iter().flatten().cloned().collect();
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

    let mut decision = Decision { look_again: steps.look_again, ..Decision::default() };
    let publication = status::publish(view, &wish, &steps, &waits, now, &mut decision);
    let (claims, acts): (Vec<Step>, Vec<Step>) =
        steps.writes.into_iter().partition(|step| step.write.subject == view.plan.subject());
    // Claims and status are guarded by the one resourceVersion of the Plan: the other one comes with the next
    // decision. A write that is refused must not keep the status from saying so: then the status goes first.
    let (claims, publication) = match (view.trouble.is_empty(), claims.is_empty(), publication.is_empty()) {
        (true, false, _) => (claims, Vec::new()),
        (false, _, false) => (Vec::new(), publication),
        _ => (claims, publication),
    };
    let claims: Vec<Write> = claims.into_iter().map(|step| step.write).collect();
    let (before, after) = if steps.claims_last { (Vec::new(), claims) } else { (claims, Vec::new()) };
    decision.then(before);
    if view.trouble.is_empty() {
        act(&mut decision, acts);
        publication.into_iter().for_each(|stage| decision.then(stage));
    } else {
        publication.into_iter().for_each(|stage| decision.then(stage));
        act(&mut decision, acts);
    }
    decision.then(after);
    decision.waits = waits;
    decision
}

/// Writes to nodes and Jobs go side by side, each belongs to another claim; what is announced goes before the act that
/// would make it forgotten.
fn act(decision: &mut Decision, acts: Vec<Step>) {
    let (announcements, writes): (Vec<_>, Vec<_>) =
        acts.into_iter().map(|step| (step.announcement, step.write)).unzip();
    decision.then(announcements.into_iter().flatten().collect());
    decision.then(writes);
}

/// What this release does not do is refused: half of a Plan is worse than none.
fn not_yet(spec: &PlanSpec) -> Option<String> {
    let unknown = if spec.post_complete_delay.is_some() {
        "spec.postCompleteDelay"
    } else if !spec.post_complete_labels.is_empty() {
        "spec.postCompleteLabels"
    } else {
        return None;
    };
    Some(format!("{unknown} is not supported by this release of Drover: take it out of the Plan"))
}

fn read_wish(view: &View<'_>, now: Timestamp) -> Wish {
    let plan = view.plan;
    let invalid = |sentence: String| {
        Wait::new(plan.subject(), Reason::PlanInvalid, sentence, now).with_remedy(format!(
            "correct the Plan: kubectl edit -n {} plans.upgrade.cattle.io {}",
            plan.meta.namespace, plan.meta.name
        ))
    };
    let unresolved = |sentence: &str| {
        Wait::new(plan.subject(), Reason::VersionUnresolved, sentence, now).with_remedy("set spec.version")
    };
    let spec = match &plan.spec {
        Ok(spec) => spec,
        Err(sentence) => {
            return Wish {
                valid: Err(invalid(sentence.clone())),
                version: Err(unresolved(MISSING_CHANNEL_AND_VERSION)),
                hash: None,
            };
        }
    };
    let version = match spec.version.as_str() {
        "" if spec.channel.is_empty() => Err(unresolved(MISSING_CHANNEL_AND_VERSION)),
        "" => Err(unresolved("spec.channel is not followed by this release of Drover")),
        version => Ok(munge(version)),
    };
    if let Some(problem) = validate::problem(&plan.meta.name, spec).or_else(|| not_yet(spec)) {
        return Wish { valid: Err(invalid(problem)), version, hash: None };
    }
    // Without a version there is nothing to hash; an empty one still tells whether the Secrets are there.
    let secret = |name: &str| view.secrets.get(name).map(|secret| secret.digest.clone());
    match latest_hash(version.as_deref().unwrap_or_default(), spec, &plan.raw, secret) {
        Ok(hash) => Wish { valid: Ok(()), hash: version.is_ok().then_some(hash), version },
        Err(missing) => {
            let wait = Wait::new(plan.subject(), Reason::SecretNotFound, missing.to_string(), now)
                .with_remedy(format!("create it in namespace {}, or take it out of spec.secrets", plan.meta.namespace));
            Wish { valid: Err(wait), version, hash: None }
        }
    }
}
