//! Marks whose Plan is gone: nobody else will undo them.

use std::collections::{BTreeMap, BTreeSet};

use super::marking::{release, undo_set_aside};
use crate::claims::Owner;
use crate::decision::{Purpose, Write};
use crate::seen::{JobSeen, NodeSeen};

/// The writes that free the nodes which a deleted Plan of `namespace` left marked. A node whose Job still runs is left
/// alone until the garbage collector has taken the Job, which goes after its pods.
pub fn undo_orphaned_marks<'a>(
    namespace: &str,
    plan_uids: &BTreeSet<&str>,
    nodes: &BTreeMap<String, NodeSeen>,
    jobs: impl Iterator<Item = &'a JobSeen> + Clone,
) -> Vec<Write> {
    let is_gone = |owner: &Owner| owner.namespace == namespace && !plan_uids.contains(owner.uid.as_str());
    let runs = |node: &NodeSeen| {
        jobs.clone().any(|job| job.outcome.is_none() && job.claim.is_some() && job.claim == node.claim)
    };
    let orphaned = nodes.values().filter_map(|node| match (&node.mark, &node.set_aside) {
        (Some(mark), _) => (is_gone(&mark.owner) && !runs(node))
            .then(|| Write { purpose: Purpose::UndoMarks, ..release(node, mark, BTreeMap::new()) }),
        (None, Some(record)) => is_gone(&record.owner).then(|| undo_set_aside(node, record)),
        (None, None) => None,
    });
    orphaned.collect()
}
