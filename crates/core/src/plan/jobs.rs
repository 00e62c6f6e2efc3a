//! The Jobs of a Plan: which is on which node, which is made, which has to go.

use std::collections::BTreeMap;

use drover_api::node::{HOSTNAME, OS, WINDOWS};
use drover_api::plan::labels;
use serde_json::json;

use super::decide::{View, Wish};
use super::job::{self, JobOrder};
use super::names;
use super::nodes::{Look, Steps};
use crate::claims::{Claim, Claims};
use crate::decision::{Act, Purpose, Subject, Write};
use crate::seen::{JobSeen, NodeSeen, Outcome};

/// The Jobs of one Plan, by the node that they are for.
pub(super) struct Jobs<'a> {
    by_node: BTreeMap<&'a str, Vec<&'a JobSeen>>,
}

impl<'a> Jobs<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let mut by_node: BTreeMap<&'a str, Vec<&'a JobSeen>> = BTreeMap::new();
        for job in &view.jobs {
            if let Some(node) = job.meta.labels.get(labels::NODE) {
                by_node.entry(node).or_default().push(job);
            }
        }
        Jobs { by_node }
    }

    pub fn on(&self, node: &str) -> &[&'a JobSeen] {
        self.by_node.get(names::label(node).as_str()).map_or(&[], Vec::as_slice)
    }
}

/// Makes the Job of a taken node; or says which Job of the same name has to go first.
pub(super) enum Making<'a> {
    Create(Write),
    InTheWay(&'a JobSeen),
    /// There is nothing to make it of: the Plan is not valid or not resolved.
    Nothing,
}

pub(super) fn make<'a>(look: &Look<'a>, node: &NodeSeen, claim: &Claim) -> Making<'a> {
    let view = look.view;
    let (Some(hash), Ok(version), Ok(spec)) = (&look.wish.hash, &look.wish.version, &view.plan.spec) else {
        return Making::Nothing;
    };
    let node_labels = &node.meta.labels;
    let order = JobOrder {
        plan: &view.plan.meta,
        spec,
        node: &node.meta.name,
        hostname: node_labels.get(HOSTNAME).unwrap_or(&node.meta.name),
        shares_short_name: shares_short_name(view, &node.meta.name),
        is_windows: is_windows(node),
        hash,
        version,
        template: &look.wish.template,
        claim: &claim.id,
        settings: view.settings,
    };
    let job = job::job(&order);
    let name = job.metadata.name.clone().unwrap_or_default();
    // A finished Job of an earlier claim may have the name that is needed now.
    if let Some(old) = view.jobs.iter().find(|job| job.meta.name == name) {
        return Making::InTheWay(old);
    }
    let subject = Subject::job(&view.plan.meta.namespace, &name);
    Making::Create(Write { purpose: Purpose::CreateJob, subject, act: Act::Create(json!(job)) })
}

pub(super) fn is_windows(node: &NodeSeen) -> bool {
    node.meta.labels.get(OS).is_some_and(|os| os == WINDOWS)
}

/// Names are sorted, and so those with one short name stand close together.
fn shares_short_name(view: &View<'_>, node: &str) -> bool {
    let short = names::short(node);
    let with_domain = format!("{short}.");
    let qualified = view.nodes.range(with_domain.clone()..).take_while(|(name, _)| name.starts_with(&with_domain));
    let bare = view.nodes.contains_key(short).then_some(short);
    qualified.map(|(name, _)| name.as_str()).chain(bare).any(|name| name != node)
}

/// Jobs that run for no claim: a dead leader's, or of something that the Plan no longer asks for.
pub(super) fn delete_stale(view: &View<'_>, wish: &Wish, claims: &Claims, steps: &mut Steps) {
    let by_id: BTreeMap<_, _> = claims.nodes.values().map(|claim| (&claim.id, claim)).collect();
    for job in &view.jobs {
        let claimed = job.claim.as_ref().is_some_and(|claim| by_id.contains_key(claim));
        let ours = job.claim.is_some() && job.meta.deletion_timestamp.is_none();
        let stale = if claimed { is_outdated(job, wish) } else { job.outcome.is_none() };
        if ours && stale {
            steps.writes.push(delete(job).into());
        }
    }
}

pub(super) fn delete(job: &JobSeen) -> Write {
    Write {
        purpose: Purpose::DeleteJob,
        subject: Subject::job(&job.meta.namespace, &job.meta.name),
        act: Act::Delete { uid: job.meta.uid.clone() },
    }
}

/// A Job is replaced when its Plan asks for another version or other containers by now, and a failed one once anything that
/// counts has changed. One that runs or has run with other Secrets of the same version is not interrupted.
pub(super) fn is_outdated(job: &JobSeen, wish: &Wish) -> bool {
    let (Some(hash), Ok(version)) = (&wish.hash, &wish.version) else { return false };
    let is_other = job.meta.labels.get(labels::VERSION) != Some(version)
        || job.template.as_ref().is_some_and(|template| *template != wish.template);
    match job.outcome {
        Some(Outcome::Complete) => false,
        None => is_other,
        Some(Outcome::Failed { .. }) => is_other || !job.meta.labels.values().any(|value| value == hash.as_str()),
    }
}
