//! Tells the operator what a drain waits for: an annotation on the pod that it runs in.

use drover_api::marks::{FIELD_MANAGER, WAITS};
use drover_core::decision::{Subject, Wait};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::{Api, object};

/// An annotation has to stay small; what holds a drain up is rarely more.
const SHOWN: usize = 10;
/// A budget that lets one pod go after the other refuses each of them for a moment: that is no news.
const WORTH_TELLING: SignedDuration = SignedDuration::from_secs(10);

pub(super) struct Publication {
    api: Api,
    /// None outside a Job, and once the server has said that this pod may not be changed.
    pod: Option<Subject>,
    told: Vec<String>,
}

impl Publication {
    pub fn new(api: Api, pod: Option<Subject>) -> Self {
        Publication { api, pod, told: Vec::new() }
    }

    /// Tells what has held the drain up for a while, if that is news. A drain goes on whether or not it can tell.
    pub async fn publish(&mut self, waits: &[Wait], now: Timestamp) {
        let lasts = |wait: &&Wait| now.duration_since(wait.since) >= WORTH_TELLING;
        let waits: Vec<&Wait> = waits.iter().filter(lasts).take(SHOWN).collect();
        let sentences: Vec<String> = waits.iter().map(|wait| wait.sentence.clone()).collect();
        let Some(pod) = self.pod.as_ref().filter(|_| sentences != self.told) else { return };
        let value = if waits.is_empty() { Value::Null } else { Value::String(json!(waits).to_string()) };
        let patch = json!({ "metadata": { "annotations": { WAITS: value } } });
        match self.api.patch(&format!("{}?fieldManager={FIELD_MANAGER}", object(pod)), &patch).await {
            Ok(_) => self.told = sentences,
            Err(error) if error.is_forbidden() => {
                tracing::warn!("cannot publish on {pod} what the drain waits for: {error}; grant patch on pods");
                self.pod = None;
            }
            Err(error) => tracing::warn!("cannot publish on {pod} what the drain waits for: {error}"),
        }
    }
}
