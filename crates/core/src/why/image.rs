//! Why an image of Harvester is not imported. CDI does it, with a pod that downloads into a volume.

use drover_api::harvester::virtual_machine_image::conditions;
use jiff::SignedDuration;

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::{Explanation, pod};
use crate::cluster::harvester::VirtualMachineImage;
use crate::cluster::{Cluster, ObjectRef, Pod, condition};

/// So long the download of a release may take.
const USUAL_IMPORT: SignedDuration = SignedDuration::from_mins(30);
/// The label of the pods of CDI, and what it says of those that download.
const CDI: &str = "cdi.kubevirt.io";
const IMPORTER: &str = "importer";

pub fn explain(cluster: &Cluster, image: &VirtualMachineImage) -> Explanation {
    let mut causes: Vec<Cause> = holds(cluster, image).and_then(Cause::of).into_iter().collect();
    sort(&mut causes);
    let imported = condition(&image.status.conditions, conditions::IMPORTED);
    let summary = match imported.map(|said| said.status.as_str()) {
        Some("True") => "imported".to_owned(),
        Some("False") => "not imported".to_owned(),
        _ => format!("imported to {} %", image.status.progress),
    };
    let complete = causes.is_empty();
    Explanation { object: ObjectRef::of(image), summary, complete, driver: None, causes, unseen: Vec::new() }
}

/// From the image down; nothing if it is imported.
pub fn holds(cluster: &Cluster, image: &VirtualMachineImage) -> Option<Chain> {
    let (namespace, name) = (&image.metadata.namespace, &image.metadata.name);
    let object = ObjectRef::of(image);
    let imported = condition(&image.status.conditions, conditions::IMPORTED);
    if imported.is_some_and(|said| said.is_true()) {
        return None;
    }
    let since = image.metadata.creation_timestamp;
    let describe = format!("kubectl -n {namespace} describe virtualmachineimages.harvesterhci.io {name}");
    let said = imported.map(|said| said.said()).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    let link = |statement: String| Link::proven(object.clone(), statement).since(since).remedy(describe.clone());
    let exceeded = condition(&image.status.conditions, conditions::RETRY_LIMIT_EXCEEDED);
    if exceeded.is_some_and(|said| said.is_true()) || imported.is_some_and(|said| said.status == "False") {
        let statement = format!("{} could not be imported{said}", object.in_words());
        return Some([vec![link(statement)], importer(cluster, namespace)].concat());
    }
    let progress = image.status.progress;
    let statement = format!("{} is imported to {progress} %{said}", object.in_words());
    let under_way = link(statement).outlook(Outlook::Maybe);
    let below = importer(cluster, namespace);
    let is_long = since.is_some_and(|since| cluster.looked_at.duration_since(since) > USUAL_IMPORT);
    Some(match (below.is_empty(), is_long) {
        (false, _) => [vec![under_way.as_usual()], below].concat(),
        (true, false) => vec![under_way.as_usual()],
        (true, true) => {
            let statement =
                format!("{} is imported for so long that its download has likely stalled", object.in_words());
            let remedy = format!("is the URL reachable from the cluster, and fast? {describe}");
            vec![Link::likely(object.clone(), statement).since(since).outlook(Outlook::Maybe).remedy(remedy)]
        }
    })
}

/// A pod that downloads and does not get on.
fn importer(cluster: &Cluster, namespace: &str) -> Chain {
    let own = |pod: &&Pod| pod.metadata.labels.get(CDI).is_some_and(|what| what == IMPORTER);
    let mut pods = cluster.pods.in_namespace(namespace).filter(own).filter(|pod| !pod.is_ending());
    let held =
        pods.find_map(|pod| pod::holds(cluster, pod).filter(|chain| chain.last().is_some_and(|link| link.alarm)));
    held.unwrap_or_default()
}
