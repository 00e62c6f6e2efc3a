//! Fleet's agent on the local cluster, without which nothing of a Bundle is deployed.
//!
//! Models Fleet 0.13 as far as the fields go that upgrades read: a Cluster whose agent is a Deployment says `Imported`, and `Ready` while that is
//! available; `spec.redeployAgentGeneration`, raised, deploys the agent anew. Left out: registration, the agent's own certificates and
//! its Lease, BundleDeployments, and clusters other than the local one. A cluster without the object has an agent that nobody sees.

use drover_api::fleet::cluster::{Cluster, conditions};
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::agenda::{Key, Look};
use super::look::Wake;
use super::outcome::{Action, Outcome};
use super::{Part, World, loose};
use crate::apiserver::{Answer, Direct};

const PART: Part = Part::Charts;
pub const AGENT_NAMESPACE: &str = "cattle-fleet-local-system";
pub const AGENT: &str = "fleet-agent";
/// On the agent's pods: which deployment of it they are of.
const GENERATION: &str = "corral.drover.dev/agent-generation";

/// The local cluster of Fleet with its agent: where a made-up cluster begins.
pub fn settled() -> [Value; 3] {
    [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": AGENT_NAMESPACE } }),
        json!(deployment(1)),
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": LOCAL, "namespace": FLEET_NAMESPACE },
            "spec": { "redeployAgentGeneration": 1 },
            "status": { "agentDeployedGeneration": 1, "conditions": [
                { "type": conditions::IMPORTED, "status": "True" }, { "type": conditions::READY, "status": "True" },
            ]},
        }),
    ]
}

fn deployment(generation: i64) -> Deployment {
    let tags = json!({ "app": AGENT });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": AGENT, "namespace": AGENT_NAMESPACE, "labels": tags },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": tags },
            "template": {
                "metadata": { "labels": tags, "annotations": { GENERATION: generation.to_string() } },
                "spec": { "containers": [{ "name": AGENT, "image": "rancher/fleet-agent:v0.13.4" }] },
            },
        },
    });
    serde_json::from_value(deployment).unwrap_or_default()
}

pub fn reconcile(cluster: &Cluster, agent: Option<&Deployment>, now: Timestamp) -> Outcome {
    let wanted = cluster.spec.as_ref().and_then(|spec| spec.redeploy_agent_generation).unwrap_or(0);
    let mut after = cluster.clone();
    let status = after.status.get_or_insert_default();
    let mut actions = Vec::new();
    if status.agent_deployed_generation.unwrap_or(0) < wanted {
        actions.push(match agent {
            None => Action::create(&deployment(wanted)),
            Some(known) => {
                let mut renewed = known.clone();
                renewed.spec = deployment(wanted).spec;
                Action::update(&renewed)
            }
        });
        status.agent_deployed_generation = Some(wanted);
    }
    loose::set_as_wrangler(&mut status.conditions, conditions::IMPORTED, "True", "", "", now);
    match is_up(agent) {
        true => loose::set_as_wrangler(&mut status.conditions, conditions::READY, "True", "", "", now),
        false => {
            let why = format!("Deployment {AGENT_NAMESPACE}/{AGENT} is not available");
            loose::set_as_wrangler(&mut status.conditions, conditions::READY, "False", "Error", &why, now);
        }
    }
    actions.extend(Action::change(cluster, &after));
    Outcome::act(actions)
}

fn is_up(agent: Option<&Deployment>) -> bool {
    let status = agent.and_then(|agent| agent.status.as_ref());
    status.and_then(|status| status.available_replicas).unwrap_or(0) > 0
}

impl World {
    /// What Fleet is asked to deploy moves only then.
    pub(super) fn has_fleet_agent(&self) -> Answer<bool> {
        let cluster = self.read_for::<Cluster>(PART, FLEET_NAMESPACE, LOCAL)?;
        let agent = self.read_for::<Deployment>(PART, AGENT_NAMESPACE, AGENT)?;
        Ok(cluster.is_none() || is_up(agent.as_ref()))
    }

    pub(super) fn notice_fleet(&mut self, direct: &Direct, plural: &str, key: &Key) {
        let is_agent = plural == "deployments" && key.0 == AGENT_NAMESPACE && key.1 == AGENT;
        if !self.has(PART) || !is_agent && plural != "clusters" {
            return;
        }
        self.soon(Look::FleetCluster((FLEET_NAMESPACE.into(), LOCAL.into())));
        if is_agent {
            let bundles = direct.list::<drover_api::fleet::bundle::Bundle>().unwrap_or_default();
            for bundle in bundles {
                let name = |text: Option<String>| text.unwrap_or_default();
                self.soon(Look::Bundle((name(bundle.metadata.namespace), name(bundle.metadata.name))));
            }
        }
    }

    pub(super) fn look_at_fleet_cluster(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(cluster) = self.read_for::<Cluster>(PART, &key.0, &key.1)? else { return Ok(None) };
        let agent = self.read_for::<Deployment>(PART, AGENT_NAMESPACE, AGENT)?;
        self.perform(PART, &reconcile(&cluster, agent.as_ref(), now), now)
    }
}

#[cfg(test)]
mod tests {
    use drover_api::fleet::bundle::Bundle;
    use k8s_openapi::api::core::v1::Node;

    use super::super::WorldOptions;
    use super::super::tests::{Cluster as Ground, node};
    use super::*;

    fn with_agent() -> Ground {
        let ground = Ground::new(WorldOptions::default().with([Part::Charts]));
        ground.define_harvester();
        ground.create::<Node>(node("n1"));
        ground.load(settled().into());
        ground.load(super::super::charts::deployed("harvester", "harvester", "1.7.0").into());
        ground
    }

    fn scale(ground: &Ground, replicas: i32) {
        let mut agent: Deployment = ground.get(AGENT_NAMESPACE, AGENT).unwrap();
        agent.spec.get_or_insert_default().replicas = Some(replicas);
        ground.direct.update(&agent).unwrap();
    }

    fn says(ground: &Ground) -> String {
        let status = ground.get::<Cluster>(FLEET_NAMESPACE, LOCAL).unwrap().status.unwrap();
        loose::find(status.conditions.as_ref(), conditions::READY).unwrap().status.clone()
    }

    fn deployed(ground: &Ground) -> bool {
        let bundle = ground.get::<Bundle>(FLEET_NAMESPACE, "mcc-harvester").unwrap();
        let status = bundle.status.unwrap();
        status.observed_generation == bundle.metadata.generation
            && loose::find(status.conditions.as_ref(), conditions::READY).unwrap().is_true()
    }

    #[tokio::test(start_paused = true)]
    async fn without_its_agent_fleet_deploys_nothing_and_says_so() {
        let ground = with_agent();
        ground.until("the agent is there", |ground| says(ground) == "True" && deployed(ground)).await;
        scale(&ground, 0);
        ground.until("Fleet has noticed", |ground| says(ground) == "False").await;
        let mut bundle: Bundle = ground.get(FLEET_NAMESPACE, "mcc-harvester").unwrap();
        bundle.rest.insert("spec".into(), json!({ "helm": { "version": "1.8.0" } }));
        ground.direct.update(&bundle).unwrap();
        ground.passes(600).await;
        assert!(!deployed(&ground));

        scale(&ground, 1);
        ground.until("it is deployed", deployed).await;
        assert_eq!(says(&ground), "True");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_is_gone_is_deployed_anew_when_somebody_asks() {
        let ground = with_agent();
        ground.until("the agent is there", |ground| says(ground) == "True").await;
        ground.direct.delete::<Deployment>(Some(AGENT_NAMESPACE), AGENT, None).unwrap();
        ground.until("Fleet has noticed", |ground| says(ground) == "False").await;
        ground.passes(600).await;
        let mut cluster: Cluster = ground.get(FLEET_NAMESPACE, LOCAL).unwrap();
        cluster.spec.get_or_insert_default().redeploy_agent_generation = Some(2);
        ground.direct.update(&cluster).unwrap();
        ground.until("it is back", |ground| says(ground) == "True").await;
        let status = ground.get::<Cluster>(FLEET_NAMESPACE, LOCAL).unwrap().status.unwrap();
        assert_eq!(status.agent_deployed_generation, Some(2));
    }
}
