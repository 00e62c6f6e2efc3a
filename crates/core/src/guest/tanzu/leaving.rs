//! The end of a cluster, and what sees to it that there is one.
//!
//! As long as anything of a cluster is there, the finalizer of the original holds its TanzuKubernetesCluster: so `kubectl delete` waits until all
//! of it has gone, and tells so. Whoever keeps these clusters takes it off in the end, whether that is Drover or the original.

use drover_api::marks::UPDATE_FINALIZER;
use drover_api::tanzu::tanzu_kubernetes_cluster::FINALIZER;
use serde_json::{Value, json};

use super::publish::{Findings, status};
use super::watched::counted;
use super::{Decision, Reason, View, belongs_to, control_plane, creation, job, places, rollout, text};
use crate::decision::Act;
use crate::guest::wait::{Object, Side, Write};

/// Finalizer of whoever deletes an object and wants to keep what belongs to it.
const ORPHAN: &str = "orphan";

fn finalizers(view: &View<'_>) -> Vec<Value> {
    view.tkc["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}

fn is_held_by(view: &View<'_>, finalizer: &str) -> bool {
    finalizers(view).iter().any(|one| one == finalizer)
}

/// Holds a cluster of which anything is there, or is about to be; none if it is held.
pub fn hold(view: &View<'_>) -> Option<Write> {
    let is_there = view.cluster().is_some_and(|cluster| !creation::is_anothers(view, cluster));
    let lacks = (is_there || creation::has_begun(view)) && !is_held_by(view, FINALIZER);
    let mut all = finalizers(view);
    all.retain(|one| one != UPDATE_FINALIZER);
    let is_of_before = all.len() < finalizers(view).len();
    all.extend(lacks.then(|| json!(FINALIZER)));
    (lacks || is_of_before).then(|| changed(view, &all, "hold a cluster until all of it has gone"))
}

fn released(view: &View<'_>) -> Option<Write> {
    let mut all = finalizers(view);
    all.retain(|one| one != FINALIZER && one != UPDATE_FINALIZER);
    (all.len() < finalizers(view).len()).then(|| changed(view, &all, "hold the cluster no longer"))
}

fn changed(view: &View<'_>, finalizers: &[Value], purpose: &'static str) -> Write {
    let revision = &view.tkc["metadata"]["resourceVersion"];
    let patch = json!({ "metadata": { "resourceVersion": revision, "finalizers": finalizers } });
    Write { object: view.object(), act: Act::Patch(patch), purpose }
}

/// A cluster that goes takes its Jobs along, so that nothing is made of it any more when its machines go; then the Cluster, which takes its Machines
/// along, and what else belongs to it follows by its owners.
pub fn leave(view: &View<'_>) -> Decision {
    let mut found = Findings::default();
    let jobs = job::of_cluster(view);
    let stays = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
    let deletion = |object: Object, of: &Value, purpose: &'static str| {
        let act = Act::Delete { uid: text(&of["metadata"]["uid"]).to_owned() };
        Write { object, act, purpose }
    };
    let left = jobs.iter().filter(|job| stays(job));
    let mut acts: Vec<Write> = left
        .map(|job| deletion(control_plane::job_object(job), job, "clear away the Job of a cluster that goes"))
        .collect();
    let place = places::leave(view).filter(|_| jobs.is_empty());
    // Whoever wants to keep it has said so, and it belongs to nobody soon.
    let cluster = view.cluster().filter(|cluster| belongs_to(cluster, view.tkc) && !is_held_by(view, ORPHAN));
    let remains = view.machines(true).chain(view.machines(false)).next().or(cluster);
    if let Some(job) = jobs.first() {
        let object = control_plane::job_object(job);
        let sentence = format!("{object} has to end before the cluster goes");
        let remedy = format!("kubectl describe {}; its pod has half a minute to end", object.arguments());
        found.waits.push(rollout::limited(view, object, Reason::ClusterLeaves, sentence).with_remedy(remedy));
    } else if cluster.is_none()
        && place.is_none()
        && let Some(write) = released(view)
    {
        // Alone, since it changes the TanzuKubernetesCluster itself, and last: nobody decides on a cluster that is gone.
        return Decision { writes: vec![write], ..Decision::default() };
    } else if let Some(remains) = remains {
        let gone =
            |one: &Value| deletion(Object::of(Side::Management, one), one, "delete the Cluster of a cluster that goes");
        acts.extend(cluster.filter(|one| stays(one)).map(gone));
        let object = Object::of(Side::Management, remains);
        let sentence = format!("{object} has to go with the cluster");
        let remedy = match object.kind.as_str() {
            "Machine" => format!("drover why machine/{}/{}", view.namespace(), object.name),
            _ => format!("kubectl describe {}: whose finalizers it has is said there", object.arguments()),
        };
        found.waits.push(rollout::limited(view, object, Reason::ClusterLeaves, sentence).with_remedy(remedy));
    }
    acts.extend(place);
    let writes = status(view, &found).into_iter().chain(acts).collect();
    let (watched, look_again) = counted(view, &found.waits);
    Decision { writes, waits: found.waits, watched, look_again, ..Decision::default() }
}
