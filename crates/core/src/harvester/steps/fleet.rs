//! Fleet, which deploys the charts: its agent, and what it has not brought to where it should be.

use drover_api::fleet::bundle::READY;
use drover_api::fleet::cluster::conditions;
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::SignedDuration;

use super::Scene;
use super::manifests::Standing;
use crate::cluster::harvester::Bundle;
use crate::cluster::{condition, is_true};
use crate::decision::{Kind, Reason, Subject, Wait};

/// How long its agent is waited for: the charts that need it tell what they wait for themselves.
const FOR_ITS_AGENT: SignedDuration = SignedDuration::from_secs(60);
/// Bundles of others, which nobody has asked about, hold up nobody for longer.
const FOR_BUNDLES: SignedDuration = SignedDuration::from_secs(90);

/// The agent of Fleet has to be there before charts are raised.
pub(super) fn agent(scene: &Scene<'_>) -> Standing {
    let Some(cluster) = scene.cluster.harvester.fleet_clusters.get(FLEET_NAMESPACE, LOCAL) else {
        return Standing::Done;
    };
    let missing =
        [conditions::IMPORTED, conditions::READY].into_iter().find(|kind| !is_true(&cluster.status.conditions, kind));
    let Some(kind) = missing else { return Standing::Done };
    let said = condition(&cluster.status.conditions, kind).map(|one| one.said()).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    let sentence = format!("Cluster {FLEET_NAMESPACE}/{LOCAL} of Fleet is not {}{said}", kind.to_lowercase());
    let generation = cluster.status.agent_deployed_generation + 1;
    let remedy = format!(
        "look at its agent: kubectl -n cattle-fleet-local-system get pods; to deploy it anew: kubectl -n {FLEET_NAMESPACE} patch \
         clusters.fleet.cattle.io {LOCAL} --type merge -p '{{\"spec\":{{\"redeployAgentGeneration\":{generation}}}}}'"
    );
    Standing::Limited(wait(scene, sentence).with_remedy(remedy), FOR_ITS_AGENT)
}

/// All that Fleet deploys is there.
pub(super) fn bundles(scene: &Scene<'_>) -> Standing {
    let mut all = scene.cluster.harvester.bundles.in_namespace(FLEET_NAMESPACE);
    let Some(bundle) = all.find(|bundle| !is_true(&bundle.status.conditions, READY)) else { return Standing::Done };
    let name = &bundle.metadata.name;
    let said = said(bundle).map(|said| format!(": {said}")).unwrap_or_default();
    let remedy = format!("kubectl -n {FLEET_NAMESPACE} describe bundles.fleet.cattle.io {name}");
    let wait = wait(scene, format!("Bundle {FLEET_NAMESPACE}/{name} is not ready{said}"));
    Standing::Limited(wait.with_remedy(remedy), FOR_BUNDLES)
}

fn said(bundle: &Bundle) -> Option<&str> {
    condition(&bundle.status.conditions, READY).map(|one| one.said()).filter(|said| !said.is_empty())
}

fn wait(scene: &Scene<'_>, sentence: String) -> Wait {
    let subject = Subject::new(Kind::Upgrade, NAMESPACE, &scene.order.upgrade);
    Wait::new(subject, Reason::ServiceNotReady, sentence, scene.now)
}
