//! What a person does to an Upgrade: pauses and resumes nodes, lets it take up what has failed or go on without it, and calls it off.

use std::collections::BTreeMap;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::node::UPGRADE_PAUSE;
use drover_api::harvester::upgrade::annotations::{PAUSE, PAUSE_MAP, UNPAUSE};
use drover_api::marks::{FIELD_MANAGER, PROGRESS, UPGRADE_ABORT, UPGRADE_RETRY, UPGRADE_SKIP};
use drover_clock::Clock;
use drover_core::cluster::Cluster;
use drover_core::decision::{Kind, Subject};
use drover_core::harvester::progress::{Ending, Progress, Step};
use kube::Client;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, object};

/// How often a change that others keep overtaking is tried.
const ATTEMPTS: u32 = 5;

#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    #[error("cannot {act}: {cause}")]
    Api { act: String, cause: ApiError },
    #[error("Upgrade {0} has not begun: there is nothing to change")]
    NotBegun(String),
    #[error("Upgrade {0} has not failed: there is nothing to try again")]
    NotFailed(String),
    #[error("node {node} has not failed ({state}): only a node that has can be tried again")]
    NodeNotFailed { node: String, state: &'static str },
    #[error(
        "node {node} has not failed ({state}): only a node that has, or that does not boot its new system, can be skipped"
    )]
    NotToBeSkipped { node: String, state: &'static str },
    #[error(
        "node {node} is the only one: there is nothing to go on with; end the upgrade with: drover upgrade abort upgrade/{upgrade}"
    )]
    OnlyNode { node: String, upgrade: String },
    #[error("Upgrade {0} has ended: there is nothing to call off")]
    HasEnded(String),
    #[error("Upgrade {0} has succeeded: there is nothing to pause or to resume")]
    HasSucceeded(String),
    #[error("the annotation {key} of Upgrade {upgrade} cannot be read: drover why upgrade/{upgrade} tells what helps")]
    Unreadable { key: &'static str, upgrade: String },
    #[error("node {node} has begun its upgrade ({state}): only a node that has not can be paused")]
    HasBegun { node: String, state: &'static str },
    #[error("node {0} is not part of the upgrade")]
    NoSuchNode(String),
}

/// One Upgrade, for somebody who changes it.
#[derive(Debug)]
pub struct Verbs {
    api: Api,
    name: String,
}

/// What of an Upgrade is looked at.
struct Look {
    version: u64,
    progress: Progress,
    nodes: Vec<String>,
    map: BTreeMap<String, String>,
}

impl Look {
    fn known(&self, node: &str) -> Result<String, VerbError> {
        let known = self.nodes.iter().find(|known| *known == node);
        known.cloned().ok_or_else(|| VerbError::NoSuchNode(node.to_owned()))
    }
}

/// The nodes that can be paused: the one that is named, or all.
fn to_pause(look: &Look, node: Option<&str>) -> Result<Vec<String>, VerbError> {
    let Some(node) = node else {
        return Ok(look.nodes.iter().filter(|node| look.progress.step(node) == Step::Waits).cloned().collect());
    };
    let (node, step) = (look.known(node)?, look.progress.step(node));
    match step {
        Step::Waits => Ok(vec![node]),
        begun => Err(VerbError::HasBegun { node, state: begun.state() }),
    }
}

impl Verbs {
    pub fn on(client: Client, clock: Clock, name: &str) -> Self {
        Verbs { api: Api::new(client, clock), name: name.to_owned() }
    }

    /// Pauses a node, or all that have not begun; says which.
    pub async fn pause(&self, node: Option<&str>) -> Result<Vec<String>, VerbError> {
        let look = self.look_for_pauses().await?;
        let mut chosen = to_pause(&look, node)?;
        // A mark that comes while the map says `unpause` is taken off again, and would then be missed: what the map says goes first.
        let resumed = |node: &&String| look.map.get(*node).is_some_and(|word| word == UNPAUSE);
        let resumed: Vec<String> = chosen.iter().filter(resumed).cloned().collect();
        self.change_map(&resumed, None).await?;
        // The marks come before the map: one that is missing while it says `pause` counts as taken off where it was there before. One that
        // has failed has none, and puts them on when it is taken up again.
        if look.progress.ended.is_none() {
            for node in &chosen {
                self.mark(node, &json!(self.name)).await?;
            }
            let now = self.look_for_pauses().await?;
            let begun: Vec<String> = chosen.extract_if(.., |node| now.progress.step(node) != Step::Waits).collect();
            for node in &begun {
                self.mark(node, &Value::Null).await?;
            }
            if let Some(node) = begun.into_iter().find(|begun| node == Some(begun.as_str())) {
                let state = now.progress.step(&node).state();
                return Err(VerbError::HasBegun { node, state });
            }
        }
        self.change_map(&chosen, Some(PAUSE)).await?;
        Ok(chosen)
    }

    /// Lets a node go on, or all that are paused; says which.
    pub async fn resume(&self, node: Option<&str>) -> Result<Vec<String>, VerbError> {
        let look = self.look_for_pauses().await?;
        let is_paused = |node: &&String| look.map.get(*node).is_some_and(|word| word == PAUSE);
        let chosen: Vec<String> = match node {
            None => look.nodes.iter().filter(is_paused).cloned().collect(),
            Some(node) => vec![look.known(node)?],
        };
        self.change_map(&chosen, Some(UNPAUSE)).await?;
        for node in &chosen {
            self.mark(node, &Value::Null).await?;
        }
        Ok(chosen)
    }

    /// Lets an Upgrade that has failed take up what has failed; a node that is named has to be among that.
    pub async fn retry(&self, node: Option<&str>) -> Result<(), VerbError> {
        let look = self.look().await?;
        if !matches!(look.progress.ended, Some(Ending::Failed { .. })) {
            return Err(VerbError::NotFailed(self.name.clone()));
        }
        if let Some(node) = node {
            let step = look.progress.step(&look.known(node)?);
            if step != Step::Failed {
                return Err(VerbError::NodeNotFailed { node: node.to_owned(), state: step.state() });
            }
        }
        self.patch_upgrade(look.version, &json!({ UPGRADE_RETRY: node.unwrap_or_default() })).await
    }

    /// Lets an Upgrade go on without a node that has failed, or that does not boot its new system.
    pub async fn skip(&self, node: &str) -> Result<(), VerbError> {
        let look = self.look().await?;
        let name = look.known(node)?;
        if look.progress.single_node == name {
            return Err(VerbError::OnlyNode { node: name, upgrade: self.name.clone() });
        }
        let step = look.progress.step(node);
        let has_failed = step == Step::Failed && look.progress.is_stuck();
        if !has_failed && step != Step::WaitingReboot {
            return Err(VerbError::NotToBeSkipped { node: node.to_owned(), state: step.state() });
        }
        self.patch_upgrade(look.version, &json!({ UPGRADE_SKIP: node })).await
    }

    /// Calls an Upgrade off: the node that is at work reaches a safe state, the others stay as they are.
    pub async fn abort(&self) -> Result<(), VerbError> {
        let look = self.look().await?;
        if look.progress.ended.is_some() && !look.progress.is_stuck() {
            return Err(VerbError::HasEnded(self.name.clone()));
        }
        self.patch_upgrade(look.version, &json!({ UPGRADE_ABORT: "" })).await
    }

    fn subject(&self) -> Subject {
        Subject::new(Kind::Upgrade, NAMESPACE, &self.name)
    }

    async fn look(&self) -> Result<Look, VerbError> {
        let act = |cause| VerbError::Api { act: format!("read Upgrade {NAMESPACE}/{}", self.name), cause };
        let mut cluster = Cluster::default();
        cluster.take(&self.api.get(&object(&self.subject())).await.map_err(act)?);
        let Some(upgrade) = cluster.harvester.upgrades.get(NAMESPACE, &self.name) else {
            return Err(VerbError::NotBegun(self.name.clone()));
        };
        let unreadable = |key| VerbError::Unreadable { key, upgrade: self.name.clone() };
        let progress = Progress::read(upgrade).ok_or_else(|| VerbError::NotBegun(self.name.clone()))?;
        let progress = progress.map_err(|_| unreadable(PROGRESS))?;
        let nodes: Vec<String> = upgrade.status.node_statuses.keys().cloned().collect();
        let map = upgrade.metadata.annotations.get(PAUSE_MAP).map(|text| serde_json::from_str(text)).transpose();
        let mut map: BTreeMap<String, String> = map.map_err(|_| unreadable(PAUSE_MAP))?.unwrap_or_default();
        // One that has failed has no map, and knows who pauses when it is taken up.
        for node in progress.paused.iter().filter(|node| nodes.contains(node)) {
            map.entry(node.clone()).or_insert_with(|| PAUSE.to_owned());
        }
        Ok(Look { version: upgrade.metadata.resource_version, progress, nodes, map })
    }

    async fn look_for_pauses(&self) -> Result<Look, VerbError> {
        let look = self.look().await?;
        match look.progress.ended {
            Some(Ending::Succeeded) => Err(VerbError::HasSucceeded(self.name.clone())),
            _ => Ok(look),
        }
    }

    /// Says a word of these nodes in the map, or takes out what it says of them. The Upgrade changes all the time: who comes too late
    /// looks again.
    async fn change_map(&self, nodes: &[String], word: Option<&str>) -> Result<(), VerbError> {
        for attempt in 1.. {
            let look = self.look().await?;
            let begun = |node: &&String| word == Some(PAUSE) && look.progress.step(node) != Step::Waits;
            if let Some(node) = nodes.iter().find(begun).cloned() {
                let state = look.progress.step(&node).state();
                return Err(VerbError::HasBegun { node, state });
            }
            let mut map = look.map.clone();
            match word {
                Some(word) => map.extend(nodes.iter().map(|node| (node.clone(), word.to_owned()))),
                None => map.retain(|node, _| !nodes.contains(node)),
            }
            if map == look.map {
                return Ok(());
            }
            match self.patch_upgrade(look.version, &json!({ PAUSE_MAP: json!(map).to_string() })).await {
                Err(VerbError::Api { cause, .. }) if cause.code() == Some(409) && attempt < ATTEMPTS => {}
                done => return done,
            }
        }
        Ok(())
    }

    async fn patch_upgrade(&self, version: u64, annotations: &Value) -> Result<(), VerbError> {
        let act = |cause| VerbError::Api { act: format!("annotate Upgrade {NAMESPACE}/{}", self.name), cause };
        let patch = json!({ "metadata": { "resourceVersion": version.to_string(), "annotations": annotations } });
        let path = format!("{}?fieldManager={FIELD_MANAGER}", object(&self.subject()));
        self.api.patch(&path, &patch).await.map(drop).map_err(act)
    }

    async fn mark(&self, node: &str, value: &Value) -> Result<(), VerbError> {
        let act = |cause| VerbError::Api { act: format!("annotate Node {node}"), cause };
        let patch = json!({ "metadata": { "annotations": { UPGRADE_PAUSE: value } } });
        let path = format!("{}?fieldManager={FIELD_MANAGER}", object(&Subject::node(node)));
        self.api.patch(&path, &patch).await.map(drop).map_err(act)
    }
}
