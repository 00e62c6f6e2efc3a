//! Labels and annotations of the Job for one node, and of its pod.

use std::collections::BTreeMap;

use drover_api::marks;
use drover_api::plan::labels::{self, objectset};
use sha1::{Digest, Sha1};

use super::job::JobOrder;
use super::names::{self, hex};
use crate::seen::Meta;

/// What Job and pod share: who they are for, and what the user put on the Plan.
pub fn of_pod(order: &JobOrder<'_>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([
        (labels::CONTROLLER.to_owned(), order.settings.controller.clone()),
        (labels::EXCLUSIVE.to_owned(), order.spec.exclusive.to_string()),
        (labels::NODE.to_owned(), names::label(order.node)),
        (labels::PLAN.to_owned(), order.plan.name.clone()),
        (labels::VERSION.to_owned(), order.version.to_owned()),
        (labels::plan_hash(&order.plan.name), order.hash.to_string()),
    ]);
    all.extend(users_own(&order.plan.labels, &[labels::CATTLE_KEYS]));
    all
}

/// The claim is on the Job alone: a pod is bound to it by its node affinity.
pub fn of_job(order: &JobOrder<'_>) -> BTreeMap<String, String> {
    let mut all = of_pod(order);
    all.insert(objectset::HASH.to_owned(), objectset_hash(order));
    all.insert(marks::JOB_CLAIM.to_owned(), order.claim.to_string());
    all
}

pub fn annotations_of_pods(plan: &Meta) -> BTreeMap<String, String> {
    users_own(&plan.annotations, &[labels::CATTLE_KEYS, labels::KUBECTL_KEYS]).collect()
}

pub fn annotations_of_job(order: &JobOrder<'_>, ttl_seconds: i32) -> BTreeMap<String, String> {
    let mut all = annotations_of_pods(order.plan);
    all.extend([
        (labels::TTL_SECONDS_AFTER_FINISHED.to_owned(), ttl_seconds.to_string()),
        (objectset::ID.to_owned(), order.settings.controller.clone()),
        (objectset::OWNER_GVK.to_owned(), objectset::PLAN_GVK.to_owned()),
        (objectset::OWNER_NAME.to_owned(), order.plan.name.clone()),
        (objectset::OWNER_NAMESPACE.to_owned(), order.plan.namespace.clone()),
        (marks::JOB_CLAIM.to_owned(), order.claim.to_string()),
        (marks::JOB_TEMPLATE.to_owned(), order.template.to_owned()),
    ]);
    all
}

/// Without the keys that belong to controllers. Ours are among those: the claims on the Plan change all the time.
pub fn users_own(
    all: &BTreeMap<String, String>,
    others: &'static [&'static str],
) -> impl Iterator<Item = (String, String)> {
    all.iter()
        .filter(|(key, _)| !key.starts_with(marks::PREFIX) && !others.iter().any(|other| key.contains(other)))
        .map(|(key, value)| (key.clone(), value.clone()))
}

/// By this label the original finds the Jobs that it applied for a Plan.
fn objectset_hash(order: &JobOrder<'_>) -> String {
    let mut hash = Sha1::new();
    for part in [&order.settings.controller, objectset::PLAN_GVK, &order.plan.name, &order.plan.namespace] {
        hash.update(part);
    }
    hex(&hash.finalize())
}
