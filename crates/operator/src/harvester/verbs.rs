//! What a person does to an Upgrade: pauses and resumes nodes, lets it take up what has failed or go on without it, and calls it off.

use std::collections::BTreeMap;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::node::UPGRADE_PAUSE;
use drover_api::harvester::upgrade::annotations::{PAUSE, PAUSE_MAP, UNPAUSE};
use drover_api::marks::{FIELD_MANAGER, UPGRADE_ABORT, UPGRADE_RETRY, UPGRADE_SKIP};
use drover_clock::Clock;
use drover_core::cluster::Cluster;
use drover_core::decision::{Kind, Subject};
use drover_core::harvester::progress::{Ending, Progress, Step};
use kube::Client;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, object};

#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    #[error("cannot {act}: {cause}")]
    Api { act: String, cause: ApiError },
    #[error("Upgrade {0} has not begun: there is nothing to change")]
    NotBegun(String),
    #[error("Upgrade {0} has not failed: there is nothing to try again")]
    NotFailed(String),
    #[error("node {node} has not failed ({state}): only a node that has can be skipped")]
    NodeNotFailed { node: String, state: &'static str },
    #[error("node {0} is the only one: there is nothing to go on with; end the upgrade with: drover upgrade abort")]
    OnlyNode(String),
    #[error("Upgrade {0} has ended: there is nothing to call off")]
    HasEnded(String),
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

impl Verbs {
    pub fn on(client: Client, clock: Clock, name: &str) -> Self {
        Verbs { api: Api::new(client, clock), name: name.to_owned() }
    }

    /// Pauses a node, or all that have not begun; says which.
    pub async fn pause(&self, node: Option<&str>) -> Result<Vec<String>, VerbError> {
        let look = self.look().await?;
        let chosen: Vec<String> = match node {
            None => look.nodes.iter().filter(|node| look.progress.step(node) == Step::Waits).cloned().collect(),
            Some(node) => {
                let step = look.progress.step(node);
                if !look.nodes.iter().any(|known| known == node) {
                    return Err(VerbError::NoSuchNode(node.to_owned()));
                }
                if step != Step::Waits {
                    return Err(VerbError::HasBegun { node: node.to_owned(), state: step.state() });
                }
                vec![node.to_owned()]
            }
        };
        // The marks come first: one that is missing while the map says `pause` counts as taken off.
        for node in &chosen {
            self.mark(node, &json!(self.name)).await?;
        }
        self.write_map(&look, &chosen, PAUSE).await?;
        Ok(chosen)
    }

    /// Lets a node go on, or all that are paused; says which.
    pub async fn resume(&self, node: Option<&str>) -> Result<Vec<String>, VerbError> {
        let look = self.look().await?;
        let is_paused = |node: &&String| look.map.get(*node).is_some_and(|word| word == PAUSE);
        let chosen: Vec<String> = match node {
            None => look.nodes.iter().filter(is_paused).cloned().collect(),
            Some(node) => vec![node.to_owned()],
        };
        self.write_map(&look, &chosen, UNPAUSE).await?;
        for node in &chosen {
            self.mark(node, &Value::Null).await?;
        }
        Ok(chosen)
    }

    /// Lets an Upgrade that has failed take up what has failed.
    pub async fn retry(&self) -> Result<(), VerbError> {
        let look = self.look().await?;
        if !matches!(look.progress.ended, Some(Ending::Failed { .. })) {
            return Err(VerbError::NotFailed(self.name.clone()));
        }
        self.patch_upgrade(look.version, &json!({ UPGRADE_RETRY: "" })).await
    }

    /// Lets an Upgrade that has failed go on without a node that has failed.
    pub async fn skip(&self, node: &str) -> Result<(), VerbError> {
        let look = self.look().await?;
        if !look.nodes.iter().any(|known| known == node) {
            return Err(VerbError::NoSuchNode(node.to_owned()));
        }
        if look.progress.single_node == node {
            return Err(VerbError::OnlyNode(node.to_owned()));
        }
        let step = look.progress.step(node);
        if step != Step::Failed || !look.progress.is_stuck() {
            return Err(VerbError::NodeNotFailed { node: node.to_owned(), state: step.state() });
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
        let progress = Progress::of(upgrade).ok_or_else(|| VerbError::NotBegun(self.name.clone()))?;
        let map = upgrade.metadata.annotations.get(PAUSE_MAP).and_then(|text| serde_json::from_str(text).ok());
        Ok(Look {
            version: upgrade.metadata.resource_version,
            progress,
            nodes: upgrade.status.node_statuses.keys().cloned().collect(),
            map: map.unwrap_or_default(),
        })
    }

    async fn write_map(&self, look: &Look, nodes: &[String], word: &str) -> Result<(), VerbError> {
        let mut map = look.map.clone();
        map.extend(nodes.iter().map(|node| (node.clone(), word.to_owned())));
        if map == look.map {
            return Ok(());
        }
        self.patch_upgrade(look.version, &json!({ PAUSE_MAP: json!(map).to_string() })).await
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
