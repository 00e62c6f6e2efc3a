//! Which nodes a Plan is for, and in which order they take turns.

use drover_api::node::HOSTNAME;
use drover_api::plan::labels;
use sha2::{Digest, Sha256};

use super::decide::{View, Wish};
use super::hash::LatestHash;
use super::selector::Selector;
use crate::seen::NodeSeen;

/// The nodes that the Plan's selector matches.
pub(super) struct Selection<'a> {
    pub members: Vec<&'a NodeSeen>,
    selector: Option<Selector>,
    label: String,
    hash: Option<&'a LatestHash>,
}

impl<'a> Selection<'a> {
    pub fn of(view: &View<'a>, wish: &'a Wish) -> Self {
        let selector = view.plan.spec.as_ref().ok().and_then(|spec| spec.node_selector.as_ref());
        let mut selection = Selection {
            members: Vec::new(),
            selector: selector.and_then(|selector| Selector::parse(selector).ok()),
            label: labels::plan_hash(&view.plan.meta.name),
            hash: wish.hash.as_ref(),
        };
        selection.members = view.nodes.values().filter(|node| selection.is_member(node)).collect();
        selection
    }

    fn is_member(&self, node: &NodeSeen) -> bool {
        let labels = &node.meta.labels;
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
            && labels.contains_key(HOSTNAME)
            && labels.get(&self.label).is_none_or(|value| value != labels::DISABLED)
    }

    pub fn is_updated(&self, node: &NodeSeen) -> bool {
        self.hash.is_some_and(|hash| node.meta.labels.get(&self.label).is_some_and(|value| value == hash.as_str()))
    }

    /// Selected and not updated yet. While the Plan is not valid, whoever was claimed stays so.
    pub fn is_pending(&self, node: &NodeSeen) -> bool {
        self.hash.is_none() || !self.is_updated(node) && self.is_member(node)
    }
}

/// The order that users of system-upgrade-controller see: even, and the same whoever computes it.
pub(super) fn turn(node: &NodeSeen, view: &View<'_>, hash: &LatestHash) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(&node.meta.uid);
    digest.update(&view.plan.meta.uid);
    digest.update(hash.as_str());
    digest.finalize().into()
}
