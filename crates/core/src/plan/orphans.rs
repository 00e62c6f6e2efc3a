//! Marks whose Plan is gone: nobody else will undo them.

use std::collections::{BTreeMap, BTreeSet};

use super::marking::release;
use crate::decision::{Purpose, Write};
use crate::seen::{JobSeen, NodeSeen};

/// The writes that free the nodes which a deleted Plan of `namespace` left marked. A node whose Job still runs is left
/// alone until the garbage collector has taken the Job.
pub fn undo_orphaned_marks<'a>(
    namespace: &str,
    plan_uids: &BTreeSet<&str>,
    nodes: &BTreeMap<String, NodeSeen>,
    jobs: impl Iterator<Item = &'a JobSeen> + Clone,
) -> Vec<Write> {
    let orphaned = nodes.values().filter_map(|node| {
        let mark = node.mark.as_ref()?;
        let gone = mark.owner.namespace == namespace && !plan_uids.contains(mark.owner.uid.as_str());
        let runs = jobs.clone().any(|job| job.outcome.is_none() && job.claim.is_some() && job.claim == node.claim);
        (gone && !runs).then(|| Write { purpose: Purpose::UndoMarks, ..release(node, mark, None) })
    });
    orphaned.collect()
}
