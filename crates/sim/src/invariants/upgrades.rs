//! Upgrades run where their claim holds, as many as the limit allows, once, and never beside another driver's.

use std::collections::BTreeSet;
use std::time::Duration;

use drover_clock::between;
use serde_json::Value;

use super::{Change, Checker, claim, hash_for, is_at_work, is_cordoned, is_finished, job_of, limit, node_of, plan_of};
use crate::known::Known;

/// How soon an operator notices that another one drives.
const NOTICED: Duration = Duration::from_secs(3);

/// How long a request may be on its way, or the news of what it rests on.
const A_MOMENT: Duration = Duration::from_secs(1);

impl Checker {
    pub(super) fn check_pod(&mut self, known: &Known, change: &Change<'_>) {
        // The pods of a Harvester upgrade run under no claim: its Jobs go where Rancher's planner has made room.
        let is_of_plan = |pod: &&Value| {
            let labels = &pod["metadata"]["labels"];
            // What updates a guest cluster, or installs a chart, takes no node away.
            if ["cluster.x-k8s.io/cluster-name", "helmcharts.helm.cattle.io/chart"]
                .iter()
                .any(|key| labels[*key].is_string())
            {
                return false;
            }
            labels["upgrade.cattle.io/plan"].is_string() || !labels["harvesterhci.io/upgrade"].is_string()
        };
        let Some(pod) = change.after.filter(|pod| job_of(pod).is_some()).filter(is_of_plan) else { return };
        let Some(node) = node_of(pod) else { return };
        let job = job_of(pod).and_then(|job| known.get("Job", change.namespace, job));
        if change.before.is_none_or(|before| node_of(before).is_none()) {
            self.check_bound(known, change, pod, job, node);
        }
        let running = |pod: &Value| pod["status"]["phase"] == "Running";
        if running(pod) && !change.before.is_some_and(running) && !self.is_strangers(pod) {
            self.check_emptied(known, pod, node);
        }
        let succeeded = |pod: &Value| pod["status"]["phase"] == "Succeeded";
        if succeeded(pod) && !change.before.is_some_and(succeeded) {
            self.count_upgrade(pod, node);
        }
    }

    fn check_bound(&mut self, known: &Known, change: &Change<'_>, pod: &Value, job: Option<&Value>, node: &str) {
        if self.is_strangers(pod) {
            return;
        }
        // A Job may be gone before its pod finds a node; the pod still asks for the claim.
        let job_claim = job.and_then(claim).or_else(|| claim_asked_for(pod)).map(str::to_owned);
        let node_claim = known.node(node).and_then(claim).map(str::to_owned);
        if job_claim.is_none() || job_claim != node_claim {
            let words =
                |claim: &Option<String>| claim.clone().map_or("no claim".to_owned(), |id| format!("claim {id}"));
            let (job_claim, node_claim) = (words(&job_claim), words(&node_claim));
            self.violation(format!("pod {} of {job_claim} came to {node}, which is under {node_claim}", change.name));
        }
        let Some(plan) = plan_of(known, pod) else { return };
        let plan_name = plan["metadata"]["name"].as_str().unwrap_or_default();
        let at_work: BTreeSet<&str> = known
            .all("Pod")
            .filter(|pod| is_at_work(pod) && !self.is_strangers(pod))
            .filter(|pod| pod["metadata"]["labels"]["upgrade.cattle.io/plan"] == plan_name)
            .filter_map(node_of)
            // What is no longer part of the cluster is not out of its service.
            .filter(|node| known.node(node).is_some())
            .collect();
        let limit = limit(plan);
        if at_work.len() > limit {
            let at_work = at_work.into_iter().collect::<Vec<_>>().join(", ");
            self.violation(format!("upgrades are at work on {at_work}, the limit is {limit}"));
        }
        let asked = plan["spec"]["cordon"] == true || plan["spec"]["drain"].is_object();
        let cordoned = known.node(node).is_some_and(is_cordoned) || self.uncordoned.contains(node);
        if asked && !cordoned {
            self.violation(format!("an upgrade came to {node}, which is not cordoned although the Plan says so"));
        }
    }

    /// No fault of an operator makes an upgrade run twice on a node.
    fn count_upgrade(&mut self, pod: &Value, node: &str) {
        let plan = pod["metadata"]["labels"]["upgrade.cattle.io/plan"].as_str().unwrap_or_default();
        let result = format!("plan.upgrade.cattle.io/{plan}={}", hash_for(pod, plan).unwrap_or_default());
        let count = self.upgrades.entry((node.to_owned(), result)).or_default();
        *count += 1;
        let count = *count;
        if count > 1 && !self.leave.meddled {
            self.violation(format!("{node} was upgraded {count} times"));
        }
    }

    pub(super) fn check_job(&mut self, known: &Known, change: &Change<'_>) {
        self.note_foreign(change);
        if !change.is_by_an_operator() {
            return;
        }
        let deleted = |job: &Value| job["metadata"]["deletionTimestamp"].is_string();
        match (change.before, change.after) {
            (None, Some(job)) => self.check_created(known, change, job),
            (Some(job), after) if after.is_none_or(deleted) => self.check_deleted(known, change, job),
            _ => {}
        }
    }

    fn check_created(&mut self, known: &Known, change: &Change<'_>, job: &Value) {
        let Some(plan) = plan_of(known, job) else { return };
        let namespace = change.namespace;
        let secrets = plan["spec"]["secrets"].as_array().into_iter().flatten();
        // Nobody can know of what was deleted while the request was on its way.
        let has_just_gone = |name: &str| {
            let gone = self.gone_secrets.get(&(namespace.to_owned(), name.to_owned()));
            gone.is_some_and(|gone| between(*gone, change.at) < A_MOMENT)
        };
        let missing = secrets
            .filter(|secret| secret["ignoreUpdates"] != true)
            .filter_map(|secret| secret["name"].as_str())
            .find(|name| known.get("Secret", namespace, name).is_none() && !has_just_gone(name));
        if let (Some(missing), false) = (missing, self.leave.meddled && self.leave.late) {
            self.violation(format!("{} made {} although the Secret {missing} is missing", change.actor, change.name));
        }
    }

    pub(super) fn note_secret(&mut self, change: &Change<'_>) {
        let key = (change.namespace.to_owned(), change.name.to_owned());
        match change.after {
            Some(_) => self.gone_secrets.remove(&key),
            None => self.gone_secrets.insert(key, change.at),
        };
    }

    fn check_deleted(&mut self, known: &Known, change: &Change<'_>, job: &Value) {
        let (actor, name) = (change.actor, change.name);
        if is_foreign(job) {
            self.violation(format!("{actor} deleted {name}, which another controller had made"));
            return;
        }
        let node = job["metadata"]["labels"]["upgrade.cattle.io/node"].as_str().unwrap_or_default();
        let Some(plan) = plan_of(known, job) else { return };
        let version = plan["spec"]["version"].as_str().unwrap_or_default().replace('+', "-");
        let current = claim(job).is_some() && known.node(node).and_then(claim) == claim(job);
        let wanted = job["metadata"]["labels"]["upgrade.cattle.io/version"] == version;
        if current && wanted && !is_finished(job) {
            self.violation(format!("{actor} deleted {name}, which was at work on {node} under its claim"));
        }
    }

    /// Jobs of Plans that Drover did not make.
    fn note_foreign(&mut self, change: &Change<'_>) {
        let foreign = change.after.filter(|job| is_foreign(job));
        if foreign.is_some() {
            self.strangers.insert(change.name.to_owned());
        }
        let at_work = foreign.filter(|job| !is_finished(job));
        match at_work {
            Some(_) => drop(self.foreign.entry(change.name.to_owned()).or_insert(change.at)),
            None => drop(self.foreign.remove(change.name)),
        }
    }

    /// While another controller drives a Plan, Drover writes nothing for it.
    pub(super) fn check_only_driver(&mut self, known: &Known, change: &Change<'_>) {
        if !change.is_by_an_operator() || self.leave.late || self.foreign.is_empty() {
            return;
        }
        let about = |plan: &str| match (change.kind, change.after.or(change.before)) {
            ("Plan", _) => change.name == plan,
            ("Job", Some(job)) => job["metadata"]["labels"]["upgrade.cattle.io/plan"] == plan,
            ("Node", Some(node)) => {
                let of = |node: &Value| super::owner(node).and_then(|uid| super::plan_with_uid(known, &uid));
                let owner = of(node).or_else(|| change.before.and_then(of));
                owner.is_some_and(|owner| owner["metadata"]["name"] == plan)
            }
            _ => false,
        };
        let driven = self.foreign.iter().find(|(job, since)| {
            let plan = known.named("Job").find(|(_, name, _)| name == job).map(|(_, _, job)| job);
            let plan = plan.and_then(|job| job["metadata"]["labels"]["upgrade.cattle.io/plan"].as_str());
            plan.is_some_and(about) && between(**since, change.at) > NOTICED
        });
        if let Some(job) = driven.map(|(job, _)| job.clone()) {
            let (actor, kind, name) = (change.actor, change.kind, change.name);
            self.violation(format!("{actor} wrote {kind} {name} while {job} of another controller was at work"));
        }
    }
}

/// Of a Plan, and made by another controller.
fn is_foreign(object: &Value) -> bool {
    object["metadata"]["labels"]["upgrade.cattle.io/plan"].is_string() && claim(object).is_none()
}

/// The claim that a node must carry for a pod to run there.
fn claim_asked_for(pod: &Value) -> Option<&str> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array()?;
    let asked = terms.iter().flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    asked.into_iter().find(|asked| asked["key"] == "drover.dev/claim")?["values"][0].as_str()
}
