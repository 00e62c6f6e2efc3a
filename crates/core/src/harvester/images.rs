//! Images that a node has lost since they were loaded: a kubelet whose disk runs full collects what no container uses, and what
//! was loaded ahead is exactly that. They are loaded again.

use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::plan::labels::plan_hash;

use super::decide::Turn;
use super::preload::{self, Outcome};
use super::{names, nodes};
use crate::cluster::Pod;
use crate::decision::{Act, Purpose, Reason, Subject};

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
    let loading = turn.prepare_plan().zip(seen).map(|(plan, node)| Outcome::of(plan, node));
    if loading == Some(Outcome::Due) {
        turn.next.reloaded.insert(node.clone());
        let sentence = format!("{lacks}: the images are loaded there again");
        let remedy = format!("drover why plan/{CATTLE_NAMESPACE}/{plan}");
        turn.wait_with_remedy(Subject::node(&node), Reason::ImageMissing, sentence, remedy);
        return true;
    }
    let has_result = matches!(loading, Some(Outcome::Carried | Outcome::Unknown));
    if let Some(seen) = seen.filter(|_| has_result && !turn.next.reloaded.contains(&node)) {
        turn.write(Purpose::Provide, Subject::node(&node), Act::Patch(preload::without_result(seen, &plan)));
    }
    // Once is enough: a disk that loses what was just loaded there is full.
    let remedy = match loading {
        Some(Outcome::Carried | Outcome::Unknown | Outcome::Due) => format!(
            "make room on the disk of {node}, then load its images again: kubectl label node {node} {}-",
            plan_hash(&plan)
        ),
        Some(Outcome::LeftOut) => {
            format!("load it on {node}, which somebody has left out: kubectl label node {node} {}-", plan_hash(&plan))
        }
        None => format!("load it on {node}: no images were loaded ahead, as upgrade-config asks"),
    };
    turn.wait_with_remedy(Subject::node(&node), Reason::ImageMissing, lacks, remedy);
    true
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
