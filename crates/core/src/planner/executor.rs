//! Machines without an agent: a privileged Job on the machine carries out its plan.
//!
//! The plan stands in the Secret either way, and what an agent would note there the planner notes when the Job is done; so all that comes
//! before and after is the same. The Job's name follows from the machine and its plan, and its pod runs only under the claim that the
//! planner holds on the Node.

use drover_api::marks::{EXECUTOR, EXECUTOR_JOB, JOB_CLAIM, NODE_CLAIM, PLAN_OF};
use drover_api::plan::jobs::containers::UPGRADE as CONTAINER;
use drover_api::rancher::machine_plan::keys;
use serde_json::{Map, Value, json};

use super::seen::{NodeSeen, checksum};
use super::tier::Waits;
use super::{Act, Decision, Entry, Purpose, Target, View, Write, node, plan, risk};
use crate::claims::{Claim, Claims};
use crate::cluster::{Job, last_words};
use crate::plan::names::join;

/// How long an ended Job is kept, in seconds: a week.
const KEPT: i64 = 604_800;
/// How often a pod of it may fail before its user is asked.
const TRIES: i32 = 3;
/// Where its pod finds the plan.
const PLAN_FOLDER: &str = "/plan";

/// A Job has to carry out the plan that stands there.
pub fn is_due(view: &View<'_>, entry: &Entry<'_>) -> bool {
    let own = entry.machine.meta.annotations.get(EXECUTOR);
    let asked = own.or_else(|| view.cluster.meta.annotations.get(EXECUTOR));
    let is_planned = entry.node.is_some() && entry.secret.datum(keys::PLAN).is_some();
    asked.is_some_and(|asked| asked == EXECUTOR_JOB) && is_planned && !entry.secret.is_in_sync()
}

/// What is to be done for a machine whose plan a Job carries out.
pub fn carry_out(
    view: &View<'_>,
    entry: &Entry<'_>,
    node: &NodeSeen,
    claims: &Claims,
    decision: &mut Decision,
    waits: &mut Waits,
) {
    let at_work = "waiting for plan to be applied";
    let (Some(claim), Some(name)) = (claims.nodes.get(&node.meta.name), job_name(entry)) else {
        return waits.configuring(entry.name(), at_work);
    };
    if node.claim() != Some(claim.id.as_str()) {
        waits.configuring(entry.name(), at_work);
        return decision.writes.push(take(view, entry, node, claim));
    }
    // Its pod restarts etcd.
    if !view.jobs.contains_key(&name)
        && let Some(why) = risk(view, node, claims)
    {
        return waits.configuring(entry.name(), &why);
    }
    let target = Target::Job(name.clone());
    let (purpose, act) = match view.jobs.get(&name) {
        None => (Purpose::CreateJob, Act::Create(job(view, entry, node, claim, &name))),
        Some(job) if job.is_complete() => {
            waits.configuring(entry.name(), at_work);
            return decision.writes.push(note_applied(entry));
        }
        // It goes first: the next one has its name.
        Some(job) if job.metadata.deletion_timestamp.is_some() => return waits.configuring(entry.name(), at_work),
        // One of another claim gets no pod, or gets it no more.
        Some(job) if job.metadata.labels.get(JOB_CLAIM).map(String::as_str) != Some(claim.id.as_str()) => {
            (Purpose::DeleteJob, gone(job))
        }
        Some(job) => match job.failure() {
            Some(failed) => {
                let words = last_words(view.pods.values(), &job.metadata);
                let words = words.unwrap_or_else(|| failed.said().to_owned());
                waits.configuring(entry.name(), &format!("failure while applying plan: Job {name}: {words}"));
                return decision.writes.extend(node.wants_retry().then(|| Write {
                    purpose: Purpose::RetryPlan,
                    target,
                    act: gone(job),
                }));
            }
            None => {
                waits.configuring(entry.name(), at_work);
                return decision.writes.extend(node.wants_retry().then(|| node::note_retry(node)));
            }
        },
    };
    waits.configuring(entry.name(), at_work);
    decision.writes.push(Write { purpose, target, act });
}

/// Jobs that are at work, or would be, for a machine that does not wait for them: a dead planner's request may land late.
pub fn stray(view: &View<'_>, entries: &[Entry<'_>]) -> Vec<Write> {
    let wanted =
        |name: &String| entries.iter().any(|entry| is_due(view, entry) && job_name(entry).as_ref() == Some(name));
    let stray = view
        .jobs
        .iter()
        .filter(|(name, job)| !job.has_ended() && job.metadata.deletion_timestamp.is_none() && !wanted(name));
    let delete = |(name, job): (&String, &Job)| Write {
        purpose: Purpose::DeleteJob,
        target: Target::Job(name.clone()),
        act: gone(job),
    };
    stray.map(delete).collect()
}

fn gone(job: &Job) -> Act {
    Act::Delete { uid: job.metadata.uid.clone() }
}

fn job_name(entry: &Entry<'_>) -> Option<String> {
    let sum = checksum(&entry.secret.datum(keys::PLAN)?);
    Some(join(&["apply-plan", entry.name(), &sum[..10]]))
}

/// Marks the Node as ours, so that the pod of its Job finds it; whether it is cordoned is a matter of its drain.
fn take(view: &View<'_>, entry: &Entry<'_>, node: &NodeSeen, claim: &Claim) -> Write {
    let of_a_drain = entry.secret.is_in_drain() && node.is_cordoned();
    let cordoned = node.mark().map_or(of_a_drain, |mark| mark.cordoned);
    let act = Act::Patch(node::marked(view, node, claim, cordoned));
    Write { purpose: Purpose::TakeNode, target: Target::Node(node.meta.name.clone()), act }
}

/// The Job ends well only when the probes of the plan do.
fn note_applied(entry: &Entry<'_>) -> Write {
    let secret = entry.secret;
    let text = secret.datum(keys::PLAN).unwrap_or_default();
    let plan: Value = serde_json::from_str(&text).unwrap_or_default();
    let names = plan["probes"].as_object().into_iter().flat_map(Map::keys);
    let well: Map<String, Value> = names.map(|name| (name.clone(), json!({ "healthy": true }))).collect();
    let mut data = plan::data(&[
        (keys::APPLIED_CHECKSUM, &checksum(&text)),
        (keys::PROBE_STATUSES, &Value::Object(well).to_string()),
    ]);
    data[keys::FAILED_CHECKSUM] = Value::Null;
    if secret.datum(keys::PLAN_STATE).is_some() {
        data[keys::PLAN_STATE] = plan::data(&[(keys::PLAN_STATE, "succeeded")])[keys::PLAN_STATE].clone();
    }
    let act = Act::Patch(json!({ "metadata": secret.meta.guard(), "data": data }));
    Write { purpose: Purpose::NoteApplied, target: Target::Secret(secret.meta.name.clone()), act }
}

fn job(view: &View<'_>, entry: &Entry<'_>, node: &NodeSeen, claim: &Claim, name: &str) -> Value {
    let owner = &view.control_plane.meta;
    let labels = json!({ PLAN_OF: entry.name(), JOB_CLAIM: claim.id });
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let field = json!([is("metadata.name", &node.meta.name)]);
    let term = json!({ "matchFields": field, "matchExpressions": [is(NODE_CLAIM, claim.id.as_str())] });
    let pod = json!({
        "restartPolicy": "Never", "automountServiceAccountToken": false,
        "hostIPC": true, "hostPID": true, "hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet",
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } } },
        // As an agent on the machine, it runs whatever keeps others away: the taint by which VMs leave, those of users, of a node that is not Ready.
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{
            "name": CONTAINER, "image": view.image,
            "args": [
                "node", "apply-plan", "--node", node.meta.name, "--plan", format!("{PLAN_FOLDER}/{}", keys::PLAN),
                "--kubernetes-version", view.control_plane.version(),
            ],
            "securityContext": { "privileged": true },
            "volumeMounts": [
                { "name": "host-root", "mountPath": "/host" },
                { "name": "plan", "mountPath": PLAN_FOLDER, "readOnly": true },
            ],
        }],
        "volumes": [
            { "name": "host-root", "hostPath": { "path": "/", "type": "Directory" } },
            { "name": "plan", "secret": { "secretName": entry.secret.meta.name, "items": [{ "key": keys::PLAN, "path": keys::PLAN }] } },
        ],
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": owner.namespace, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane", "name": owner.name, "uid": owner.uid,
            }],
        },
        "spec": {
            "backoffLimit": TRIES, "ttlSecondsAfterFinished": KEPT,
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    })
}
