//! What must hold of many guest clusters: no more of them are at work at once than may be, whoever has died or acts beside others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Change, Checker, is_finished};
use crate::known::Known;

const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

impl Checker {
    /// An operator lets the control plane of a cluster be updated, or points its workers at other templates: it stands among those
    /// that may, and with it there are not too many at work.
    pub(super) fn check_turn(&mut self, known: &Known, change: &Change<'_>) {
        let Some(limit) = self.guest_limit.filter(|limit| *limit > 0 && change.is_by_an_operator()) else { return };
        let Some(after) = change.after else { return };
        let began = match change.kind {
            "Job" => has_pods(after) && !change.before.is_some_and(has_pods),
            _ => change.before.is_some_and(|before| {
                before["spec"]["template"] != after["spec"]["template"]
                    || before["spec"]["paused"] == true && after["spec"]["paused"] != true
            }),
        };
        if !began {
            return;
        }
        let name = after["metadata"]["labels"][CLUSTER].as_str().unwrap_or_default();
        // Clusters that are left to an operator as they are, without one of these, are written down nowhere.
        let is_tanzu = known.named("TanzuKubernetesCluster").any(|(_, tkc, _)| tkc == name);
        if is_tanzu && !noted(known).contains(name) {
            self.violation(format!("the update of {name} goes on, and {name} is not among those that may"));
        }
        let mut at_work = at_work(known);
        at_work.insert(name.to_owned());
        if at_work.len() > limit {
            self.violation(format!("the clusters {at_work:?} are at work, and {limit} may be at once"));
        }
    }

    /// No more may than the limit says, and nobody is struck off who is at work.
    pub(super) fn check_places(&mut self, known: &Known, change: &Change<'_>) {
        let Some(limit) = self.guest_limit.filter(|limit| *limit > 0 && change.is_by_an_operator()) else { return };
        let all = |map: Option<&Value>| map.map(|map| names(map, false)).unwrap_or_default();
        let (before, after) = (all(change.before), all(change.after));
        let may = change.after.map(|map| names(map, true)).unwrap_or_default();
        if may.len() > limit {
            self.violation(format!("{may:?} may be updated, and only {limit} may be at once"));
        }
        if let Some(name) = before.difference(&after).find(|name| has_job_at_work(known, name)) {
            self.violation(format!("{name} is not counted any more, and its control plane is updated"));
        }
    }
}

/// The clusters that may be updated, as the operators have written them down.
fn noted(known: &Known) -> BTreeSet<String> {
    known.all("ConfigMap").flat_map(|map| names(map, true)).collect()
}

/// Those that may, or all that are counted.
fn names(map: &Value, that_may: bool) -> BTreeSet<String> {
    let text = map["metadata"]["annotations"]["drover.dev/claims"].as_str().unwrap_or_default();
    let taken: Value = serde_json::from_str(text).unwrap_or_default();
    let all = taken["clusters"].as_object().into_iter().flatten();
    let listed = all.filter(|(_, place)| !that_may || place["beyond"] != true);
    listed.filter_map(|(name, _)| name.split('/').nth(1).map(str::to_owned)).collect()
}

/// A Job has or will have pods.
fn has_pods(job: &Value) -> bool {
    job["spec"]["parallelism"] != 0 && !is_finished(job)
}

fn has_job_at_work(known: &Known, cluster: &str) -> bool {
    let is_one = |job: &&Value| job["metadata"]["labels"][CLUSTER] == cluster && has_pods(job);
    known.all("Job").any(|job| is_one(&job))
}

/// The names of the clusters whose machines are on their way: a Job updates the control plane, or workers of two kinds are there.
fn at_work(known: &Known) -> BTreeSet<String> {
    let cluster = |object: &Value| object["metadata"]["labels"][CLUSTER].as_str().map(str::to_owned);
    let jobs = known.all("Job").filter(|job| has_pods(job)).filter_map(cluster);
    let rolls = |deployment: &&Value| {
        let uid = &deployment["metadata"]["uid"];
        let owned = |set: &&Value| {
            let mut owners = set["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == *uid)
        };
        let is_old = |set: &&Value| {
            set["spec"]["template"]["spec"] != deployment["spec"]["template"]["spec"]
                && set["status"]["replicas"].as_u64().unwrap_or(0) > 0
        };
        deployment["spec"]["paused"] != true && known.all("MachineSet").filter(owned).any(|set| is_old(&set))
    };
    let rolling = known.all("MachineDeployment").filter(rolls).filter_map(cluster);
    jobs.chain(rolling).collect()
}
