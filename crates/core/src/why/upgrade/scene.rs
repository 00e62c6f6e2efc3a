//! An Upgrade as Drover's engine sees it, whoever drives it.
//!
//! The decision that is taken on it is the engine's own. How far an Upgrade is that Harvester drives itself is read from
//! its labels, conditions and node states, and then seen as if the engine had noted it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use drover_api::harvester::upgrade::{annotations, cleanup, conditions, labels, node_states, states};
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::marks;
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::Timestamp;

use super::super::Driver;
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Condition, condition};
use crate::decision::{Decision, Kind, Reason, Subject, Wait};
use crate::harvester::admission::registration::INCUMBENT;
use crate::harvester::progress::{Ending, NodeProgress, Progress, Step};
use crate::harvester::release::Noted;
use crate::harvester::{Admission, Fetched, Settings, View, decide, names, remedy_of_refusal};

/// In the sentence of a repository that has answered with something else than the release.
const DOES_NOT_TELL: &str = "does not tell the release: ";

/// Everything that a decision about one Upgrade rests on.
pub struct Scene<'a> {
    pub cluster: &'a Cluster,
    pub driver: Driver,
    /// With what the engine would have noted.
    pub upgrade: Cow<'a, Upgrade>,
    pub progress: Progress,
    /// Nodes that pause, by what Harvester itself goes by.
    pub paused: Vec<String>,
    repository: Option<Fetched>,
}

pub fn driver_of(upgrade: &Upgrade) -> Driver {
    // One that may not begin has noted nothing yet; the condition is Drover's own.
    let is_told = condition(&upgrade.status.conditions, conditions::PROGRESSING).is_some();
    if upgrade.metadata.annotations.contains_key(marks::PROGRESS) || is_told {
        Driver::Drover
    } else if upgrade.metadata.labels.contains_key(labels::STATE) || !upgrade.status.conditions.is_empty() {
        Driver::Harvester
    } else {
        Driver::Nobody
    }
}

/// How far an Upgrade is; none if it has not begun.
pub fn progress_of(cluster: &Cluster, upgrade: &Upgrade) -> Option<Progress> {
    match driver_of(upgrade) {
        Driver::Harvester => Some(adopted(cluster, upgrade)),
        _ => Progress::of(upgrade),
    }
}

/// The value of the label that says how far it is.
pub fn state_of(upgrade: &Upgrade) -> &str {
    upgrade.metadata.labels.get(labels::STATE).map(String::as_str).unwrap_or_default()
}

impl<'a> Scene<'a> {
    pub fn of(cluster: &'a Cluster, upgrade: &'a Upgrade) -> Self {
        let driver = driver_of(upgrade);
        let progress = progress_of(cluster, upgrade).unwrap_or_default();
        let repository = heard(upgrade, cluster.looked_at);
        let mut scene =
            Scene { cluster, driver, upgrade: Cow::Borrowed(upgrade), progress, paused: Vec::new(), repository };
        if driver == Driver::Harvester {
            scene.paused = paused(upgrade);
            let annotations = &mut scene.upgrade.to_mut().metadata.annotations;
            annotations.insert(marks::PROGRESS.to_owned(), scene.progress.text());
            // Harvester goes by this map alone, whatever mark a Node carries: who pauses by it is known.
            let all: BTreeMap<&str, &str> =
                cluster.nodes.iter().map(|node| (node.metadata.name.as_str(), annotations::UNPAUSE)).collect();
            annotations.insert(annotations::PAUSE_MAP.to_owned(), serde_json::json!(all).to_string());
            // It drives, and is not another.
            let drivers = cluster.drivers.get(&upgrade.metadata.name).into_iter().flatten().map(String::as_str);
            let drivers: Vec<&str> = drivers.chain([INCUMBENT]).collect();
            annotations.insert(marks::DRIVE.to_owned(), drivers.join(","));
        }
        scene
    }

    /// What the engine would do and wait for now.
    pub fn decide(&self, now: Timestamp) -> Decision {
        let settings = Settings { image: String::new() };
        let view = View {
            cluster: self.cluster,
            upgrade: &self.upgrade,
            settings: &settings,
            repository: self.repository.as_ref(),
            admission: Admission::Waived,
            status_written: None,
            trouble: Vec::new(),
            told: &[],
        };
        let mut decision = decide(&view, now);
        match self.driver {
            Driver::Harvester => self.leave_to_harvester(&mut decision, now),
            // What would be waited for if somebody began is not waited for.
            Driver::Nobody if decision.writes().next().is_some() => decision.waits.clear(),
            _ => {}
        }
        self.add_published(&mut decision);
        decision
    }

    /// What Harvester does otherwise than the engine would.
    fn leave_to_harvester(&self, decision: &mut Decision, now: Timestamp) {
        // It begins with the collection of logs; the engine waits for no logs.
        if state_of(&self.upgrade) == states::PREPARING_LOGGING_INFRA {
            *decision = Decision::default();
        }
        // What can be done about a failure is Harvester's own.
        decision.waits.retain(|wait| wait.reason != Reason::JobFailed);
        // Before 1.7 a VM serves the release.
        if self.repository_vm().is_some() {
            decision.waits.retain(|wait| wait.reason != Reason::RepositoryNotReady);
        }
        let name = &self.upgrade.metadata.name;
        for node in &self.paused {
            let sentence = format!("{node} is paused before its upgrade, as its user has asked");
            let remedy = format!(
                "set {node} to \"unpause\" in the annotation {}: kubectl -n {NAMESPACE} edit upgrades.harvesterhci.io {name}",
                annotations::PAUSE_MAP
            );
            let wait = Wait::new(Subject::node(node), Reason::NodePaused, sentence, now).with_remedy(remedy);
            decision.waits.retain(|other| other.subject != wait.subject);
            decision.waits.push(wait);
        }
    }

    pub fn repository_vm(&self) -> Option<&'a crate::cluster::kubevirt::VirtualMachine> {
        let name = names::repository(&self.upgrade.metadata.name);
        self.cluster.kubevirt.machines.get(NAMESPACE, &name)
    }

    /// What no object tells but the status: what the operator met when it asked or wrote.
    fn add_published(&self, decision: &mut Decision) {
        let Some(published) = condition(&self.upgrade.status.conditions, conditions::PROGRESSING) else { return };
        let reason: Option<Reason> = serde_json::from_value(published.reason.clone().into()).ok();
        let has_begun = Progress::of(&self.upgrade).is_some();
        let Some(reason) = reason.filter(|reason| {
            let is_met = match reason {
                Reason::NoPermission | Reason::ApiRefuses | Reason::ReleaseRefused => true,
                // What speaks against it is found by more than is looked at here.
                Reason::UpgradeInvalid => !has_begun,
                _ => false,
            };
            is_met && decision.waits.iter().all(|wait| wait.reason != *reason)
        }) else {
            return;
        };
        if reason == Reason::ReleaseRefused {
            decision.waits.retain(|wait| wait.reason != Reason::RepositoryNotReady);
        }
        let subject = Subject::new(Kind::Upgrade, NAMESPACE, &self.upgrade.metadata.name);
        let since = published.last_transition_time.unwrap_or(self.cluster.looked_at);
        let wait = Wait::new(subject, reason, published.message.clone(), since);
        decision.waits.push(match reason {
            Reason::UpgradeInvalid => wait.with_remedy(remedy_of_refusal(&self.upgrade.metadata.name)),
            _ => wait,
        });
    }

    /// A node is at work, or waits for its user: those behind it wait for that.
    pub fn has_node_out(&self, decision: &Decision) -> bool {
        self.progress.nodes.values().any(|node| node.step.is_at_work())
            || decision.waits.iter().any(|wait| wait.reason == Reason::NodePaused)
    }
}

/// What the repository has answered, as far as the status tells: nobody else is asked.
fn heard(upgrade: &Upgrade, now: Timestamp) -> Option<Fetched> {
    let told = condition(&upgrade.status.conditions, conditions::PROGRESSING)?;
    let (_, why) = told.message.split_once(DOES_NOT_TELL)?;
    Some(Fetched { at: now, pending: false, answer: Err(why.to_owned()) })
}

/// The nodes that Harvester holds back.
fn paused(upgrade: &Upgrade) -> Vec<String> {
    let text = upgrade.metadata.annotations.get(annotations::PAUSE_MAP);
    let map: BTreeMap<String, String> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let waits =
        |node: &str| upgrade.status.node_statuses.get(node).is_some_and(|status| status.state == node_states::PAUSED);
    map.into_iter().filter(|(node, word)| word == annotations::PAUSE && waits(node)).map(|(node, _)| node).collect()
}

/// What the engine would have noted by now.
fn adopted(cluster: &Cluster, upgrade: &Upgrade) -> Progress {
    let status = &upgrade.status;
    let says = |kind: &str| condition(&status.conditions, kind);
    let is_true = |kind: &str| says(kind).is_some_and(Condition::is_true);
    let multiple = status.single_node.is_empty();
    let there = cluster.nodes.iter().map(|node| (node.metadata.name.clone(), node.metadata.uid.clone())).collect();
    let cluster = cluster.harvester.clusters.get(FLEET_NAMESPACE, LOCAL);
    let generation = cluster.map_or(0, |cluster| cluster.spec.rke_config.provision_generation);
    let asked = multiple && says(conditions::NODES_UPGRADED).is_some();
    let nodes = status.node_statuses.iter().map(|(name, node)| {
        let (reason, message) = (node.reason.clone(), node.message.clone());
        (name.clone(), NodeProgress { step: step(&node.state), reason, message })
    });
    Progress {
        previous_version: status.previous_version.clone(),
        marked: Some(there),
        release: noted(&status.repo_info),
        prepared: is_true(conditions::NODES_PREPARED),
        services: says(conditions::SYSTEM_SERVICES_UPGRADED).and_then(ending),
        asked: asked.then_some(generation),
        single_node: status.single_node.clone(),
        nodes: nodes.collect(),
        ended: says(conditions::COMPLETED).and_then(ending).map(|end| with_cause(upgrade, end)),
        cleaned: upgrade.metadata.labels.get(labels::CLEANUP).is_some_and(|word| word == cleanup::SUCCEEDED),
        ..Progress::default()
    }
}

fn ending(said: &Condition) -> Option<Ending> {
    match said.status.as_str() {
        "True" => Some(Ending::Succeeded),
        "False" => Some(Ending::Failed { reason: said.reason.clone(), message: said.message.clone() }),
        _ => None,
    }
}

/// Harvester often says only that it has failed: what part of it has says why.
fn with_cause(upgrade: &Upgrade, end: Ending) -> Ending {
    let Ending::Failed { reason, message } = &end else { return end };
    if !reason.is_empty() || !message.is_empty() {
        return end;
    }
    let parts = [
        conditions::NODES_UPGRADED,
        conditions::SYSTEM_SERVICES_UPGRADED,
        conditions::REPO_READY,
        conditions::IMAGE_READY,
        conditions::LOG_READY,
    ];
    let failed = |kind: &&str| condition(&upgrade.status.conditions, kind).filter(|said| said.status == "False");
    let node = upgrade.status.node_statuses.values().find(|node| node.state == node_states::FAILED);
    let of_node = node.map(|node| (node.reason.clone(), node.message.clone()));
    let of_part = || parts.iter().find_map(failed).map(|said| (said.reason.clone(), said.message.clone()));
    of_node.or_else(of_part).map_or(end, |(reason, message)| Ending::Failed { reason, message })
}

fn step(state: &str) -> Step {
    match state {
        node_states::PRE_DRAINING => Step::PreDraining,
        node_states::PRE_DRAINED => Step::PreDrained,
        node_states::POST_DRAINING => Step::PostDraining,
        node_states::WAITING_REBOOT => Step::WaitingReboot,
        node_states::SUCCEEDED => Step::Succeeded,
        node_states::FAILED => Step::Failed,
        _ => Step::Waits,
    }
}

/// `status.repoInfo`: a few lines of YAML, each a word.
fn noted(text: &str) -> Option<Noted> {
    let field = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
        let found = lines.find(|(name, _)| *name == key);
        found.map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned()).unwrap_or_default()
    };
    // What is left out only Drover's own steps ask for.
    let noted = Noted {
        harvester: field("harvester"),
        harvester_chart: field("harvesterChart"),
        os: field("os"),
        kubernetes: field("kubernetes"),
        rancher: field("rancher"),
        monitoring_chart: field("monitoringChart"),
        logging_chart: field("loggingChart"),
        min_upgradable_version: field("minUpgradableVersion"),
        ..Noted::default()
    };
    (!noted.harvester.is_empty()).then_some(noted)
}
