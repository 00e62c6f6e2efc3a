//! The system services: charts, add-ons, and what the scripts of Harvester wait for without a word.

use drover_api::harvester::jobs::names::SKIP_RESTART_AGENT;
use drover_api::harvester::upgrade::states;
use drover_api::harvester::{CATTLE_NAMESPACE, FLEET_NAMESPACE, NAMESPACE};
use drover_api::rancher::provisioning_cluster::LOCAL;

use super::super::link::{Chain, Link, Outlook};
use super::super::{Driver, chart, log, plan as of_plan, vm};
use super::waits::{said, with};
use super::{Asked, Cause, state_of};
use crate::cluster::longhorn::InstanceManager;
use crate::cluster::{Cluster, ObjectRef};
use crate::decision::{Kind, Wait};
use crate::harvester::release::Steps;
use crate::harvester::{names, remedy_of_pause, uncounted};

/// A chart or an add-on that is not at its version.
pub fn not_ready(asked: &Asked<'_>, wait: &Wait) -> Chain {
    if wait.subject.kind == Kind::ManagedChart {
        let chart = asked.cluster.harvester.charts.get(&wait.subject.namespace, &wait.subject.name);
        let below = chart.and_then(|seen| chart::holds(asked.cluster, seen));
        return below.unwrap_or_else(|| said(asked, wait));
    }
    let named =
        asked.cluster.harvester.addons.iter().find(|addon| {
            wait.sentence.contains(&format!("Addon {}/{} ", addon.metadata.namespace, addon.metadata.name))
        });
    let below = named.map(|addon| {
        let (namespace, name) = (&addon.metadata.namespace, &addon.metadata.name);
        let remedy = format!("kubectl -n {namespace} describe addons.harvesterhci.io {name}");
        let link = Link::proven(ObjectRef::of(addon), wait.sentence.clone()).outlook(Outlook::Maybe);
        link.remedy(remedy).as_usual()
    });
    with(asked, wait, below.into_iter().collect())
}

/// What only Harvester's own controllers and scripts wait for, from the Upgrade down. The scripts are the same where Drover drives a stock
/// release.
pub fn of_harvester(asked: &Asked<'_>) -> Vec<Chain> {
    let progress = &asked.scene.progress;
    let is_harvester = match asked.scene.driver {
        Driver::Harvester => true,
        Driver::Drover if progress.steps == Steps::Release && progress.services.is_none() => false,
        _ => return Vec::new(),
    };
    if progress.ended.is_some() {
        return Vec::new();
    }
    let below = match state_of(asked.upgrade) {
        states::PREPARING_LOGGING_INFRA if is_harvester => {
            log::of_upgrade(asked.cluster, &asked.upgrade.metadata.name).into_iter().collect()
        }
        states::UPGRADING_SYSTEM_SERVICES => scripts(asked),
        _ => Vec::new(),
    };
    let own = ObjectRef::of(asked.upgrade);
    let first = |statement: &str| Link::proven(own.clone(), statement).as_usual();
    let named = below.into_iter().map(|below| [vec![first("what the upgrade needs is not ready")], below].concat());
    let vm = asked.scene.repository_vm().filter(|_| is_harvester).and_then(|machine| vm::off(asked.cluster, machine));
    named.chain(vm.map(|below| [vec![first("the release is served by a VM")], below].concat())).collect()
}

/// In the order in which the script `upgrade_manifests.sh` waits.
fn scripts(asked: &Asked<'_>) -> Vec<Chain> {
    let cluster = asked.cluster;
    let name = names::apply_manifests(&asked.upgrade.metadata.name);
    let script = cluster.jobs.get(NAMESPACE, &name).map(|job| {
        let statement = format!("Job {NAMESPACE}/{name} raises the system services");
        Link::proven(ObjectRef::of(job), statement).since(job.status.start_time).as_usual()
    });
    let mut chains: Vec<Chain> = of_skip_restart(asked);
    chains.extend(not_stable(cluster).map(|link| vec![link]));
    chains.extend(chart::of_fleet(cluster).map(|link| vec![link]));
    chains.extend(
        chart::not_ready(cluster).filter(|seen| !seen.spec.paused).filter_map(|seen| chart::holds(cluster, seen)),
    );
    chains.extend(two_managers(cluster).map(|link| vec![link]));
    chains.into_iter().map(|chain| script.iter().cloned().chain(chain).collect()).collect()
}

fn of_skip_restart(asked: &Asked<'_>) -> Vec<Chain> {
    let name = names::plan(&asked.upgrade.metadata.name, SKIP_RESTART_AGENT);
    let Some(plan) = asked.cluster.plan(CATTLE_NAMESPACE, &name) else { return Vec::new() };
    let explanation = of_plan::explain_on(asked.cluster, plan, asked.trail);
    // Drover's engine names these itself, with what lets the script go on.
    let told: Vec<ObjectRef> = match asked.scene.driver {
        Driver::Drover => uncounted(asked.cluster, plan).into_iter().map(ObjectRef::of).collect(),
        _ => Vec::new(),
    };
    let causes = explanation.causes.into_iter().filter(|cause| cause.alarm && !told.contains(&cause.object));
    causes.map(Cause::into_chain).collect()
}

fn not_stable(cluster: &Cluster) -> Option<Link> {
    let local = cluster.cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL)?;
    if !local.spec.paused {
        return None;
    }
    let statement =
        format!("Cluster {FLEET_NAMESPACE}/{LOCAL} is paused (spec.paused): the upgrade of Rancher waits for it");
    Some(Link::proven(ObjectRef::of(local), statement).remedy(remedy_of_pause()))
}

/// The script waits until each node has exactly one instance manager of Longhorn.
fn two_managers(cluster: &Cluster) -> Option<Link> {
    let running = |manager: &&InstanceManager| manager.status.current_state == "running";
    let managers: Vec<&InstanceManager> = cluster.longhorn.instance_managers.iter().filter(running).collect();
    let twice = managers.iter().find(|one| {
        let others = managers.iter().filter(|other| other.spec.node_id == one.spec.node_id);
        others.count() > 1
    })?;
    let old = managers.iter().filter(|other| other.spec.node_id == twice.spec.node_id);
    let old = old.min_by_key(|manager| manager.metadata.creation_timestamp)?;
    let engines: Vec<&str> = old.status.instance_engines.keys().map(String::as_str).collect();
    let kept = match engines.is_empty() {
        true => String::new(),
        false => format!(", and the older one still runs {}", engines.join(", ")),
    };
    let statement = format!("Node {} has more than one instance manager of Longhorn{kept}", old.spec.node_id);
    let remedy = "the older one goes when no volume uses it: detach the volumes of its engines, or raise their engines in Longhorn";
    let link = Link::proven(ObjectRef::of(*old), statement).since(old.metadata.creation_timestamp);
    Some(link.outlook(Outlook::Maybe).remedy(remedy))
}
