//! A kubelet that stays at its old version after the planner is done with its node.
//!
//! Rancher calls a plan applied once RKE2 is installed and its probes are well; the old RKE2 passes them, too, if nobody has restarted it.

use drover_api::node::roles::{CONTROL_PLANE, ETCD};
use jiff::Timestamp;

use super::release::is_kubelet_version;
use crate::cluster::Node;
use crate::decision::{Reason, Subject, Wait};

/// The wait for it; none if it runs what it should. `asked` is when the planner was done, as far as that is known.
pub(super) fn outdated(node: &Node, wanted: &str, asked: Option<Timestamp>, now: Timestamp) -> Option<Wait> {
    let (name, runs) = (&node.metadata.name, &node.status.node_info.kubelet_version);
    if is_kubelet_version(runs, wanted) {
        return None;
    }
    let done = asked.map(|at| format!(", although the planner is done there since {at}")).unwrap_or_default();
    let sentence = format!("the kubelet of {name} runs {runs}, not {wanted}{done}");
    let wait = Wait::new(Subject::node(name), Reason::KubeletOutdated, sentence, asked.unwrap_or(now));
    Some(wait.with_remedy(remedy(node)))
}

/// How somebody brings it to its new version.
pub(crate) fn remedy(node: &Node) -> String {
    let is_server = [CONTROL_PLANE, ETCD].iter().any(|role| node.metadata.labels.contains_key(*role));
    let unit = if is_server { "rke2-server" } else { "rke2-agent" };
    format!(
        "restart RKE2 on {}: systemctl restart {unit}; if that hangs, journalctl -u {unit} says why, and rke2-killall.sh and a \
         reboot end it",
        node.metadata.name
    )
}
