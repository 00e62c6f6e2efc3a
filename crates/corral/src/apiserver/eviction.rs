//! Evict a pod, if its disruption budget lets it go.

use kube::core::Status;
use serde_json::{Value, json};

use super::{
    conditions, kubevirt_eviction,
    object::{Meta, Object, at, child, moment, text},
    resources::ResourceId,
    selectors::Selectors,
    status::{Answer, cause, forbidden, not_found, too_many_requests, unexplained},
    store::{Cause, Store},
    stored::Stored,
    verbs::{
        Target,
        delete::{DeleteOptions, Preconditions, check_preconditions, delete},
        read::bounds,
        update::Part,
    },
    write::{self, Intent, Write},
};

/// More pods than this cannot be on their way out of one budget.
const MAX_DISRUPTED: usize = 2000;
/// What the server calls itself where it is its own client.
const SERVER: &str = "kube-apiserver";
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn budgets() -> ResourceId {
    ResourceId::new("policy", "poddisruptionbudgets", "PodDisruptionBudget")
}

pub(crate) fn evict(store: &mut Store, by: &Cause<'_>, target: &Target, options: &DeleteOptions) -> Answer<()> {
    let id = &target.resource.id;
    let Some(stored) = store.get(id, &target.key()) else {
        return Err(not_found(id, &target.name));
    };
    let stored = stored.clone();
    let mut pod = stored.object()?;
    kubevirt_eviction::intercept(store, by, &pod)?;
    let budget = if is_no_loss(&pod) { None } else { budget_of(store, target, &stored)? };
    if let Some(mut budget) = budget
        && is_guarded(&pod, &budget)
    {
        take_one(&mut budget, &target.name, by)?;
        write_budget(store, by, budget)?;
    }
    // As in the original, a pod that turns out to be another one has already cost the budget a disruption.
    check_preconditions(target, &pod, options.preconditions.as_ref())?;

    mark_as_disrupted(&mut pod, by);
    let marked = store.put(by, id, &target.key(), pod)?;
    // The mark is ours: a caller who insists on a version means the one before it.
    let mut options = options.clone();
    if let Some(Preconditions { resource_version: Some(version), .. }) = &mut options.preconditions {
        *version = marked.revision.to_string();
    }
    delete(store, by, target, &options).map(|_| ())
}

/// The server writes the status of a budget as a client of itself.
fn write_budget(store: &mut Store, by: &Cause<'_>, budget: Object) -> Answer<()> {
    let resource = store.of(&budgets())?.resource.clone();
    let (namespace, name) = (budget.namespace().to_string(), budget.name().to_string());
    let target = Target { version: resource.storage_version.clone(), resource, namespace, name };
    let cause = Cause { subresource: "status", ..*by };
    let write = Write { manager: SERVER, ..Write::inside(cause, &target) };
    write::now(store, &write, Intent::Update(Part::Status, budget)).map(drop)
}

/// A pod that does not run, or is on its way out already, is not protected.
fn is_no_loss(pod: &Object) -> bool {
    pod.is_deleting() || matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending")
}

/// The one budget that covers a pod.
fn budget_of(store: &Store, target: &Target, pod: &Stored) -> Answer<Option<Object>> {
    let (start, end) = bounds(&target.namespace);
    let mut found = None;
    for (_, stored) in store.of(&budgets())?.objects.range::<str, _>((start.as_bound(), end.as_bound())) {
        let budget = stored.shared()?;
        // A budget without a selector covers nothing; an empty selector covers the namespace.
        let Some(selector) = at(&budget, &["spec", "selector"]) else { continue };
        if !Selectors::from_label_selector(selector).matches(&target.key(), pod) {
            continue;
        }
        if found.replace(budget).is_some() {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(unexplained(why));
        }
    }
    Ok(found.map(|budget| Object::clone(&budget)))
}

/// An unready pod is no loss either, if the budget says so or is met without it.
fn is_guarded(pod: &Object, budget: &Object) -> bool {
    let ready = at(pod, &["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
    let mut ready = ready.filter(|condition| condition["type"] == "Ready").map(|condition| &condition["status"]);
    if ready.any(|status| status == "True") {
        return true;
    }
    if text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" {
        return false;
    }
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    healthy < desired || desired <= 0
}

fn number(budget: &Object, name: &str) -> i64 {
    at(budget, &["status", name]).and_then(Value::as_i64).unwrap_or_default()
}

/// Takes one disruption from a budget, or says why there is none.
fn take_one(budget: &mut Object, pod: &str, by: &Cause<'_>) -> Answer<()> {
    let name = budget.name().to_string();
    let refused = |message: String, retry: u32| -> Box<Status> {
        too_many_requests(REFUSED, vec![cause("DisruptionBudget", &message, "")], retry)
    };
    if number(budget, "observedGeneration") < budget.generation() {
        return Err(refused(format!("The disruption budget {name} is still being processed by the server."), 10));
    }
    let mut singular = budgets();
    singular.plural = "poddisruptionbudget".into();
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden(&singular, &name, "pdb disruptions allowed is negative", vec![]));
    }
    let disrupted = at(budget, &["status", "disruptedPods"]).and_then(Value::as_object).map_or(0, |pods| pods.len());
    if disrupted > MAX_DISRUPTED {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(&singular, &name, why, vec![]));
    }
    if allowed == 0 {
        let (desired, healthy) = (number(budget, "desiredHealthy"), number(budget, "currentHealthy"));
        let message = format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(refused(message, 0));
    }

    let observed = number(budget, "observedGeneration");
    let status = child(budget, "status");
    status.insert("disruptionsAllowed".into(), json!(allowed - 1));
    child(status, "disruptedPods").insert(pod.into(), moment(by.at));
    if allowed == 1 {
        let exhausted = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": observed,
        });
        conditions::set(status, exhausted, by.at);
    }
    Ok(())
}

fn mark_as_disrupted(pod: &mut Object, by: &Cause<'_>) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null,
    });
    conditions::set(child(pod, "status"), condition, by.at);
}
