//! Tells the operator what a drain waits for: an annotation on the pod that it runs in.

use drover_api::marks::{FIELD_MANAGER, WAITS};
use drover_core::decision::{Subject, Wait};
use serde_json::{Value, json};

use crate::api::{Api, object};

/// An annotation has to stay small; what holds a drain up is rarely more.
const SHOWN: usize = 10;

pub(super) struct Publication {
    api: Api,
    /// None outside a Job, and once the server has said that this pod may not be changed.
    pod: Option<Subject>,
    stands: bool,
}

impl Publication {
    pub fn new(api: Api, pod: Option<Subject>) -> Self {
        Publication { api, pod, stands: false }
    }

    /// A drain goes on whether or not it can tell.
    pub async fn publish(&mut self, waits: &[Wait]) {
        let Some(pod) = self.pod.as_ref().filter(|_| self.stands || !waits.is_empty()) else { return };
        let value = match waits {
            [] => Value::Null,
            waits => Value::String(json!(waits.iter().take(SHOWN).collect::<Vec<_>>()).to_string()),
        };
        let patch = json!({ "metadata": { "annotations": { WAITS: value } } });
        match self.api.patch(&format!("{}?fieldManager={FIELD_MANAGER}", object(pod)), &patch).await {
            Ok(_) => self.stands = !waits.is_empty(),
            Err(error) if error.is_forbidden() => {
                tracing::warn!("cannot publish on {pod} what the drain waits for: {error}; grant patch on pods");
                self.pod = None;
            }
            Err(error) => tracing::warn!("cannot publish on {pod} what the drain waits for: {error}"),
        }
    }
}
