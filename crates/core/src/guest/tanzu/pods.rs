//! The pods of a Job that updates a control plane: why they do not start, and why they have failed.

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::CONTAINER;
use jiff::SignedDuration;
use serde_json::Value;

use super::job::namespace_in;
use super::{Reason, View, Wait, belongs_to, text};
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side};

/// So long a pod may take to start before somebody should look.
const START: SignedDuration = SignedDuration::from_mins(15);
/// So long a Job may take to have a pod before that is said.
pub const POD: SignedDuration = SignedDuration::from_mins(1);
/// Containers whose image cannot be had wait for one of these.
const WITHOUT_IMAGE: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];
/// Containers that wait for this are about to start.
const ABOUT_TO_START: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// Those that a Job has made, the newest last. Pods of an earlier Job of the name are not its own.
fn of_job<'a>(view: &View<'a>, job: &Value) -> Vec<&'a Value> {
    let mut pods: Vec<&Value> = view.system.all(Collection::Pods).filter(|pod| belongs_to(pod, job)).collect();
    let age = |pod: &Value| {
        (text(&pod["metadata"]["creationTimestamp"]).to_owned(), text(&pod["metadata"]["name"]).to_owned())
    };
    pods.sort_by_key(|pod| age(pod));
    pods
}

/// A pod that goes on although its Job is gone: another Job beside it would replace what it makes, and the other way round.
pub fn left_behind(view: &View<'_>, jobs: &[&Value]) -> Option<Wait> {
    let has_job = |pod: &Value| jobs.iter().any(|job| belongs_to(pod, job));
    let is_left = |pod: &&Value| {
        pod["metadata"]["labels"][CLUSTER_NAME] == view.name()
            && namespace_in(&pod["spec"]) == Some(view.namespace())
            && !has_ended(pod)
            && !has_job(pod)
    };
    let pod = view.system.all(Collection::Pods).find(is_left)?;
    // One that works ends by itself, and may take as long as an update does. Any other is about to end.
    let is_limited = pod["status"]["phase"] != "Running" || !pod["metadata"]["deletionTimestamp"].is_null();
    let object = object(pod);
    let sentence = format!("{object}, whose Job is gone, has not ended yet");
    let remedy = format!(
        "it ends by itself, or with its time to end; where its node is off for certain: kubectl delete {} --force",
        object.arguments()
    );
    let wait = view.wait(object, Reason::ControlPlaneUpdating, sentence).with_remedy(remedy);
    Some(if is_limited { wait.at_most(view, START) } else { wait })
}

/// A Job has pods that have not ended. Whoever may not read pods goes by what the Job counts.
pub fn are_left(view: &View<'_>, job: &Value) -> bool {
    of_job(view, job).into_iter().any(|pod| !has_ended(pod)) || job["status"]["active"].as_u64().unwrap_or(0) > 0
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

fn object(pod: &Value) -> Object {
    Object { api_version: "v1".to_owned(), kind: "Pod".to_owned(), ..Object::of(Side::Management, pod) }
}

fn state(pod: &Value) -> &Value {
    let mut containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    containers.find(|one| one["name"] == CONTAINER).map_or(&Value::Null, |one| &one["state"])
}

/// Why the last pod that failed has done so, in its own words, or else in those of the kubelet.
pub fn last_words(view: &View<'_>, job: &Value) -> Option<String> {
    let pods = of_job(view, job);
    let failed = pods.iter().rev().find(|pod| pod["status"]["phase"] == "Failed")?;
    let end = &state(failed)["terminated"];
    let words = text(&end["message"]).split_whitespace().collect::<Vec<_>>().join(" ");
    let why = match (words.as_str(), text(&end["reason"]), text(&failed["status"]["reason"])) {
        ("", "" | "Error", "") => return None,
        ("", "" | "Error", reason) => format!("{} was ended: {reason}", object(failed)),
        ("", reason, _) => format!("{} was ended: {reason}", object(failed)),
        (words, ..) => words.to_owned(),
    };
    Some(why)
}

/// Nobody makes a pod for a Job. Whoever may not read pods goes by what the Job counts.
pub fn without(view: &View<'_>, job: &Value) -> Option<Wait> {
    if !of_job(view, job).is_empty() || job["status"]["active"].as_u64().unwrap_or(0) > 0 {
        return None;
    }
    let object = super::control_plane::job_object(job);
    let arguments = object.arguments();
    let (why, remedy) = match job["spec"]["suspend"] == true {
        true => {
            ("is suspended", format!("kubectl patch {arguments} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'"))
        }
        false => (
            "has no pod",
            format!(
                "kubectl describe {arguments}: its Events say what is refused (a quota, a webhook, a service account that is not \
                 there); without any, look whether kube-controller-manager runs"
            ),
        ),
    };
    let sentence = format!("{object} {why}: nobody is at work on the control plane");
    Some(view.wait(object, Reason::JobNotStarted, sentence).with_remedy(remedy).at_most(view, START))
}

/// The newest pod does not start, and says why.
pub fn unstarted(view: &View<'_>, job: &Value) -> Option<Wait> {
    let pods = of_job(view, job);
    let pod = pods.last().filter(|pod| pod["status"]["phase"] == "Pending")?;
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let unscheduled = conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
    let waiting = &state(pod)["waiting"];
    let why = match (unscheduled, text(&waiting["reason"])) {
        (Some(unscheduled), _) => text(&unscheduled["message"]).to_owned(),
        (None, reason) if ABOUT_TO_START.contains(&reason) => return None,
        (None, reason) => format!("{reason}: {}", text(&waiting["message"])),
    };
    let object = object(pod);
    let sentence = format!(
        "{object} of {} does not start: {}",
        super::control_plane::job_object(job),
        why.trim_end_matches([' ', ':'])
    );
    let setting = match WITHOUT_IMAGE.contains(&text(&waiting["reason"])) {
        true => "which image Jobs run is said by --job-image",
        false => "where Jobs may run is said by --guest-job-node-selector",
    };
    let remedy = format!("kubectl describe {}; {setting} of the operator", object.arguments());
    Some(view.wait(object, Reason::JobNotStarted, sentence).with_remedy(remedy).at_most(view, START))
}
