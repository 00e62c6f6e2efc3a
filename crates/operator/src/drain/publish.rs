//! Tells the operator what a drain waits for: an annotation on the pod that it runs in, or on the Node that it drains.

use drover_api::marks::{FIELD_MANAGER, NODE_CLAIM, WAITS};
use drover_core::decision::{Subject, Wait};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::{Api, ApiError, object};

/// An annotation has to stay small; what holds a drain up is rarely more.
const SHOWN: usize = 10;
/// A budget that lets one pod go after the other refuses each of them for a moment: that is no news.
const WORTH_TELLING: SignedDuration = SignedDuration::from_secs(10);

pub(crate) struct Publication {
    api: Api,
    place: Place,
    node: Subject,
    told: Vec<String>,
}

/// Where it is told.
enum Place {
    Pod(Subject),
    /// Where the Job's service account may not patch pods, as with the role that system-upgrade-controller brings. Every
    /// drain may patch its Node, and the operator sees that in any case.
    Node,
    /// Outside a Job nobody reads it; and some servers do not let it be told.
    Nowhere,
}

impl Publication {
    pub fn new(api: Api, pod: Option<Subject>, node: &str) -> Self {
        let place = pod.map_or(Place::Nowhere, Place::Pod);
        Publication { api, place, node: Subject::node(node), told: Vec::new() }
    }

    /// When the next of these waits will have lasted long enough to be told.
    pub fn due(&self, waits: &[Wait], now: Timestamp) -> Option<Timestamp> {
        let moments = waits.iter().filter_map(|wait| wait.since.checked_add(WORTH_TELLING).ok());
        let is_heard = !matches!(self.place, Place::Nowhere);
        moments.filter(|moment| is_heard && *moment > now).min()
    }

    /// Tells what has held the drain up for a while, if that is news. A drain goes on whether or not it can tell.
    pub async fn publish(&mut self, waits: &[Wait], now: Timestamp) {
        let lasts = |wait: &&Wait| now.duration_since(wait.since) >= WORTH_TELLING;
        let waits: Vec<&Wait> = waits.iter().filter(lasts).take(SHOWN).collect();
        let sentences: Vec<String> = waits.iter().map(|wait| wait.sentence.clone()).collect();
        if sentences == self.told {
            return;
        }
        let value = if waits.is_empty() { Value::Null } else { Value::String(json!(waits).to_string()) };
        if let Place::Pod(pod) = &self.place {
            let patch = json!({ "metadata": { "annotations": { WAITS: value } } });
            match self.patch(pod, &patch).await {
                Ok(()) => return self.told = sentences,
                Err(error) if error.is_forbidden() => self.place = Place::Node,
                Err(error) => return tracing::warn!("cannot publish on {pod} what the drain waits for: {error}"),
            }
        }
        if let Place::Node = self.place {
            match self.tell_on_node(&value).await {
                Ok(()) => self.told = sentences,
                // Somebody else has changed it at the same moment: the next look tells again.
                Err(error) if error.code() == Some(409) => {}
                Err(error) => {
                    let node = &self.node;
                    tracing::warn!("cannot publish on {node} what the drain waits for: {error}; grant patch on pods");
                    self.place = Place::Nowhere;
                }
            }
        }
    }

    /// Only while the Node is claimed: what is told later nobody would take away.
    async fn tell_on_node(&self, value: &Value) -> Result<(), ApiError> {
        let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
        let node: Value = serde_json::from_slice(&self.api.get(&object(&self.node)).await?).map_err(unreadable)?;
        if !node["metadata"]["labels"][NODE_CLAIM].is_string() {
            return Ok(());
        }
        let version = &node["metadata"]["resourceVersion"];
        let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { WAITS: value } } });
        self.patch(&self.node, &patch).await
    }

    async fn patch(&self, subject: &Subject, patch: &Value) -> Result<(), ApiError> {
        self.api.patch(&format!("{}?fieldManager={FIELD_MANAGER}", object(subject)), patch).await.map(drop)
    }
}
