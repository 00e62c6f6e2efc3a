//! Images that a node has lost since they were loaded: a kubelet whose disk runs full collects what no container uses, and what
//! was loaded ahead is exactly that. They are loaded again.

use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::plan::labels::{DISABLED, plan_hash};

use super::decide::Turn;
use super::{names, nodes, preload};
use crate::cluster::{Node, Pod};
use crate::decision::{Act, Purpose, Reason, Subject};
use crate::seen::PlanSeen;

/// What kubelets say of a container whose image they do not have and cannot get.
const NOT_THERE: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ErrImageNotAvailable"];

/// Sees to it that the pods of a Job find their image; false if none lacks one.
pub(super) fn mend(turn: &mut Turn<'_>, job: &str) -> bool {
    let lacking =
        nodes::pods_of(turn, job).find_map(|pod| Some((pod.spec.node_name.clone(), missing(pod)?.to_owned())));
    let Some((node, image)) = lacking else { return false };
    let lacks = format!("{node} does not have the image {image}");
    let plan = names::prepare(turn.name());
    let seen = turn.cluster().nodes.named(&node);
    let loading = turn.prepare_plan().zip(seen).map(|(plan, node)| Loading::of(plan, node));
    if loading == Some(Loading::Due) {
        turn.next.reloaded.insert(node.clone());
        let sentence = format!("{lacks}: the images are loaded there again");
        let remedy = format!("drover why plan/{CATTLE_NAMESPACE}/{plan}");
        turn.wait_with_remedy(Subject::node(&node), Reason::ImageMissing, sentence, remedy);
        return true;
    }
    if let Some(seen) = seen.filter(|_| loading == Some(Loading::Done) && !turn.next.reloaded.contains(&node)) {
        turn.write(Purpose::Provide, Subject::node(&node), Act::Patch(preload::without_result(seen, &plan)));
    }
    // Once is enough: a disk that loses what was just loaded there is full.
    let remedy = match loading {
        Some(Loading::Done | Loading::Due) => format!(
            "make room on the disk of {node}, then load its images again: kubectl label node {node} {}-",
            plan_hash(&plan)
        ),
        Some(Loading::LeftOut) => {
            format!("load it on {node}, which somebody has left out: kubectl label node {node} {}-", plan_hash(&plan))
        }
        None => format!("load it on {node}: no images were loaded ahead, as upgrade-config asks"),
    };
    turn.wait_with_remedy(Subject::node(&node), Reason::ImageMissing, lacks, remedy);
    true
}

/// How a node stands to the Plan that loads images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loading {
    /// Somebody has left it out of the Plan.
    LeftOut,
    /// It carries a result, and gets no Job. A Plan that was made anew may not have said yet which one: that is no sign that
    /// anything is loaded.
    Done,
    /// It gets a Job, or has one.
    Due,
}

impl Loading {
    fn of(plan: &PlanSeen, node: &Node) -> Self {
        let hash = plan.status.latest_hash.as_str();
        match node.metadata.labels.get(&plan_hash(&plan.meta.name)).map(String::as_str) {
            Some(DISABLED) => Loading::LeftOut,
            Some(carried) if hash.is_empty() || carried == hash => Loading::Done,
            _ => Loading::Due,
        }
    }
}

/// The image that a container of a pod waits for in vain.
fn missing(pod: &Pod) -> Option<&str> {
    let waits = |status: &&crate::cluster::ContainerStatus| {
        status.state.waiting.as_ref().is_some_and(|waiting| NOT_THERE.contains(&waiting.reason.as_str()))
    };
    let waiting = pod.status.container_statuses.iter().find(waits)?;
    let container = pod.spec.containers.iter().find(|container| container.name == waiting.name)?;
    Some(container.image.as_str())
}
