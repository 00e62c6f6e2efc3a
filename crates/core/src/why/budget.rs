//! Why a PodDisruptionBudget lets a pod not go: too few replicas, pods that are not healthy, budgets that overlap.

use jiff::SignedDuration;

use super::link::{Chain, Link, Outlook};
use super::{pod, vm, volume};
use crate::cluster::{Bound, Cluster, ObjectRef, Pod, PodDisruptionBudget, condition};

/// So long pods may take to become healthy on another node before that is worth a word.
const USUAL_START: SignedDuration = SignedDuration::from_mins(5);

/// What forbids the eviction of a pod, from its budget down; nothing if it may go.
pub fn forbids(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    // The API server asks no budget about pods that do no work.
    if pod.has_ended() || pod.is_ending() || pod.status.phase == "Pending" {
        return None;
    }
    let budgets: Vec<&PodDisruptionBudget> = cluster.budgets_of(pod).collect();
    match budgets.as_slice() {
        [] => None,
        [budget] => refuses(cluster, budget, pod).map(|chain| below(cluster, budget, pod).unwrap_or(chain)),
        [first, second, ..] => Some(vec![overlap(first, second, pod)]),
    }
}

/// Budgets that a product keeps as long as something else has to happen first: that is the cause, and not the budget.
fn below(cluster: &Cluster, budget: &PodDisruptionBudget, pod: &Pod) -> Option<Chain> {
    let cause = match vm::of(cluster, pod) {
        Some(machine) => vm::stays(cluster, machine),
        None => volume::needs(cluster, pod),
    };
    let statement = format!("{} keeps it until that is over", ObjectRef::of(budget).in_words());
    let kept = Link::proven(ObjectRef::of(budget), statement).since(budget.metadata.creation_timestamp).as_usual();
    (!cause.is_empty()).then(|| [vec![kept], cause].concat())
}

fn overlap(first: &PodDisruptionBudget, second: &PodDisruptionBudget, pod: &Pod) -> Link {
    let namespace = &pod.metadata.namespace;
    let (one, other) = (&first.metadata.name, &second.metadata.name);
    let later = if first.metadata.creation_timestamp > second.metadata.creation_timestamp { first } else { second };
    Link::proven(
        ObjectRef::of(later),
        format!(
            "PodDisruptionBudgets {namespace}/{one} and {namespace}/{other} both cover Pod {namespace}/{}: then nobody can evict it",
            pod.metadata.name
        ),
    )
    .since(later.metadata.creation_timestamp)
    .remedy(format!("leave the pod to one of them: kubectl delete pdb -n {namespace} {}", later.metadata.name))
}

fn refuses(cluster: &Cluster, budget: &PodDisruptionBudget, pod: &Pod) -> Option<Chain> {
    let status = &budget.status;
    if status.disruptions_allowed > 0 || !pod.is_ready() && lets_unhealthy_go(budget) {
        return None;
    }
    let name = ObjectRef::of(budget).in_words();
    let link =
        |statement: String| Link::proven(ObjectRef::of(budget), statement).owned_by(cluster.root_owner(&pod.metadata));
    let told = condition(&status.conditions, "DisruptionAllowed");
    if let Some(failed) = told.filter(|condition| condition.reason == "SyncFailed") {
        let statement = format!("{name} cannot be reckoned, and then lets no pod go: {}", failed.message);
        let remedy = "cover pods of one controller that can be scaled, or use minAvailable with a number";
        return Some(vec![link(statement).since(failed.last_transition_time).remedy(remedy)]);
    }
    if status.observed_generation < budget.metadata.generation {
        let statement = format!("{name} was changed, and kube-controller-manager has not looked at it since");
        let link = Link { certainty: super::Certainty::Likely, ..link(statement) };
        return Some(vec![link.outlook(Outlook::Maybe).remedy("look whether kube-controller-manager works")]);
    }
    let since = told.and_then(|condition| condition.last_transition_time);
    if status.expected_pods > 0 && status.desired_healthy >= status.expected_pods {
        return Some(vec![never(cluster, budget, pod, link).since(budget.metadata.creation_timestamp)]);
    }
    let statement = format!(
        "{name} lets no pod go now: {} of {} pods are healthy, and it wants {} ({})",
        status.current_healthy,
        status.expected_pods,
        status.desired_healthy,
        budget.rule()
    );
    let remedy = format!(
        "make the other pods healthy: kubectl get pods -n {} -l '{}'",
        budget.metadata.namespace,
        selector(budget)
    );
    let link = link(statement).since(since).outlook(Outlook::Maybe).remedy(remedy);
    // Pods that were just moved are not healthy at once.
    let lasts = since.or(budget.metadata.creation_timestamp).map(|since| cluster.looked_at.duration_since(since));
    let is_new = lasts.is_some_and(|lasts| lasts < USUAL_START);
    let mut chain = vec![if is_new { link.as_usual() } else { link }];
    chain.extend(who_is_missing(cluster, budget));
    Some(chain)
}

/// With as many pods as there are, there is nobody to spare.
fn never(cluster: &Cluster, budget: &PodDisruptionBudget, pod: &Pod, link: impl Fn(String) -> Link) -> Link {
    let (status, name) = (&budget.status, ObjectRef::of(budget).in_words());
    let pods = if status.expected_pods == 1 { "the only pod" } else { "all pods" };
    let statement = format!(
        "{name} never lets a pod go: it wants {} of {} healthy, which is {pods} ({})",
        status.desired_healthy,
        status.expected_pods,
        budget.rule()
    );
    let (namespace, own) = (&budget.metadata.namespace, &budget.metadata.name);
    let edit = format!("kubectl edit pdb -n {namespace} {own}");
    let remedy = match (enough(budget), cluster.root_owner(&pod.metadata)) {
        (Some(replicas), Some(owner)) if matches!(owner.kind.as_str(), "Deployment" | "StatefulSet") => {
            let more = if replicas == status.expected_pods + 1 { "one more pod" } else { "more pods" };
            let (kind, name) = (owner.kind.to_lowercase(), &owner.name);
            let scale = format!("kubectl scale -n {namespace} {kind}/{name} --replicas={replicas}");
            format!("run {more}: {scale}; or change the budget: {edit}")
        }
        _ => format!("change the budget: {edit}"),
    };
    link(statement).remedy(remedy)
}

/// The least number of pods under which the budget would let one go; none if no number helps.
pub fn enough(budget: &PodDisruptionBudget) -> Option<i64> {
    let spares = |all: i64| match (&budget.spec.min_available, &budget.spec.max_unavailable) {
        (Some(bound), _) => bound.of(all).is_some_and(|wanted| wanted < all),
        (None, Some(bound)) => bound.of(all).is_some_and(|spare| spare > 0),
        (None, None) => false,
    };
    let from = budget.status.expected_pods.max(1);
    let hopeless = matches!(&budget.spec.min_available, Some(Bound::Share(share)) if share == "100%");
    (from + 1..=from + 100).find(|all| !hopeless && spares(*all))
}

fn lets_unhealthy_go(budget: &PodDisruptionBudget) -> bool {
    let status = &budget.status;
    budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
        || status.desired_healthy > 0 && status.current_healthy >= status.desired_healthy
}

/// The pod of the budget that is not healthy, and why; or that there are fewer than there should be.
fn who_is_missing(cluster: &Cluster, budget: &PodDisruptionBudget) -> Chain {
    let pods = cluster.pods.in_namespace(&budget.metadata.namespace).filter(|pod| budget.covers(pod));
    let unhealthy = pods.filter(|pod| !pod.has_ended() && (!pod.is_ready() || pod.is_ending()));
    let mut chains: Vec<Chain> = unhealthy.filter_map(|pod| pod::holds(cluster, pod)).collect();
    // What needs somebody explains more than what is still starting.
    chains.sort_by_key(|chain| chain.last().map(|link| (!link.alarm, link.outlook)));
    chains.into_iter().next().unwrap_or_default()
}

fn selector(budget: &PodDisruptionBudget) -> String {
    let selector = budget.spec.selector.as_ref();
    let parsed = selector.and_then(|selector| crate::plan::selector::Selector::parse(selector).ok());
    parsed.map(|selector| selector.to_string()).unwrap_or_default()
}
