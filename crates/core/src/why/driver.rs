//! Who acts on a Plan or an Upgrade, and whether they do.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::link::{Certainty, Chain, Link, Outlook};
use super::{pod, scene};
use crate::cluster::{Cluster, Deployment, ObjectRef, Pod};
use crate::decision::{Decision, Purpose, Reason};
use crate::plan::selector::Selector;
use crate::seen::PlanSeen;
use drover_api::plan::conditions;
use drover_api::plan::jobs::CONTROLLER_NAME;

/// So long a controller may take to act.
const USUAL: SignedDuration = SignedDuration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Driver {
    #[serde(rename = "drover")]
    Drover,
    #[serde(rename = "system-upgrade-controller")]
    SystemUpgradeController,
    /// Of Upgrades: the controllers that are part of Harvester itself.
    #[serde(rename = "harvester")]
    Harvester,
    #[serde(rename = "nobody")]
    Nobody,
}

impl Driver {
    pub fn of(cluster: &Cluster, plan: &PlanSeen) -> Self {
        let says = |type_: &str| plan.status.conditions.iter().any(|condition| condition.type_ == type_);
        if !plan.claims.holder.is_empty() || says(conditions::PROGRESSING) {
            Driver::Drover
        } else if !plan.status.conditions.is_empty() || scene::jobs_of(cluster, plan).next().is_some() {
            Driver::SystemUpgradeController
        } else {
            Driver::Nobody
        }
    }
}

/// Is there something to do that nobody does? From the Plan down.
pub fn idles(cluster: &Cluster, plan: &PlanSeen, driver: Driver, decision: &Decision) -> Option<Chain> {
    let acts = decision.writes().filter(|write| !matches!(write.purpose, Purpose::PublishStatus | Purpose::Announce));
    let has_work = acts.into_iter().next().is_some() || driver == Driver::Nobody;
    if !has_work || plan.meta.deletion_timestamp.is_some() {
        return None;
    }
    if let Some(chain) = lease(cluster, plan).or_else(|| absent(cluster, plan)) {
        return Some(chain);
    }
    let last = last_sign(cluster, plan)?;
    // That others wait for nodes which this very decision would start is no reason not to start them.
    let is_held = decision.waits.iter().any(|wait| wait.reason != Reason::ConcurrencyReached);
    if cluster.looked_at.duration_since(last) < USUAL || is_held && driver != Driver::Nobody {
        return None;
    }
    let name = plan.subject();
    let link = |statement: String| Link { certainty: Certainty::Likely, ..Link::proven((&name).into(), statement) };
    Some(vec![match driver {
        Driver::Nobody => link("no controller has looked at this Plan".to_owned()).since(Some(last)).remedy(format!(
            "run drover operator, or system-upgrade-controller, for namespace {}",
            plan.meta.namespace
        )),
        Driver::Drover | Driver::SystemUpgradeController | Driver::Harvester => {
            link("nothing is in the way of the next node, but the controller does not start it".to_owned())
                .since(Some(last))
                .remedy(format!(
                    "restart it: kubectl rollout restart -n {} deployment {CONTROLLER_NAME}",
                    plan.meta.namespace
                ))
        }
    }])
}

/// The latest moment at which somebody did something for the Plan.
fn last_sign(cluster: &Cluster, plan: &PlanSeen) -> Option<Timestamp> {
    let times = plan.status.conditions.iter().filter_map(|condition| condition.last_update_time.parse().ok());
    let jobs = scene::jobs_of(cluster, plan).filter_map(|job| job.ended.max(job.began));
    times.chain(jobs).max().or(plan.meta.creation_timestamp)
}

/// Whoever leads has stopped to renew the Lease.
fn lease(cluster: &Cluster, plan: &PlanSeen) -> Option<Chain> {
    let lease = cluster.leases.get(&plan.meta.namespace, CONTROLLER_NAME)?;
    let renewed = lease.silent_since(cluster.looked_at)?;
    let holder = match lease.spec.holder_identity.as_str() {
        "" => "it was given back".to_owned(),
        holder => format!("{holder} has not renewed it since {renewed}"),
    };
    let statement = format!("nobody leads: the Lease {}/{CONTROLLER_NAME} has lapsed, {holder}", plan.meta.namespace);
    let mut chain = vec![
        Link::proven((&plan.subject()).into(), "no operator acts on this Plan"),
        Link::proven(ObjectRef::of(lease), statement)
            .since(Some(renewed))
            .remedy("look why no operator stands for election"),
    ];
    chain.extend(deployment(cluster, plan).map(|deployment| without_pods(cluster, deployment)).unwrap_or_default());
    Some(chain)
}

/// The controller is installed, and none of its pods works.
fn absent(cluster: &Cluster, plan: &PlanSeen) -> Option<Chain> {
    let deployment = deployment(cluster, plan)?;
    let below = without_pods(cluster, deployment);
    if below.is_empty() {
        return None;
    }
    let mut chain = vec![Link::proven((&plan.subject()).into(), "no controller acts on this Plan")];
    chain.extend(below);
    Some(chain)
}

fn deployment<'a>(cluster: &'a Cluster, plan: &PlanSeen) -> Option<&'a Deployment> {
    let named = |name: &str| cluster.deployments.get(&plan.meta.namespace, name);
    named(CONTROLLER_NAME).or_else(|| named("drover"))
}

/// Why a controller has no pod that works; empty if it has.
pub(super) fn without_pods(cluster: &Cluster, deployment: &Deployment) -> Chain {
    let (namespace, name) = (&deployment.metadata.namespace, &deployment.metadata.name);
    if deployment.status.ready_replicas > 0 {
        return Chain::new();
    }
    if deployment.spec.wanted() == 0 {
        let statement = format!("Deployment {namespace}/{name} is scaled to 0");
        let link = Link::proven(ObjectRef::of(deployment), statement);
        return vec![link.remedy(format!("kubectl scale -n {namespace} deployment/{name} --replicas=1"))];
    }
    let mut chain = vec![
        Link::proven(ObjectRef::of(deployment), format!("no pod of Deployment {namespace}/{name} is ready"))
            .outlook(Outlook::Maybe),
    ];
    let selector = Selector::parse(&deployment.spec.selector).unwrap_or_default();
    let mine = |pod: &&Pod| selector.matches(&pod.metadata.labels);
    let pods = cluster.pods.in_namespace(namespace).filter(mine);
    chain.extend(pods.into_iter().find_map(|pod| pod::holds(cluster, pod)).unwrap_or_default());
    chain
}
