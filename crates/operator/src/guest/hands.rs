//! Does one thing after the other, in either cluster and in etcd.

use std::time::Duration;

use bytes::Bytes;
use drover_clock::Clock;
use drover_core::decision::Act;
use drover_core::drain::{OnTimeout, Options};
use drover_core::guest::{Side, Write};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::books::Books;
use super::{ETCD_PATIENCE, Guest};
use crate::api::{Api, ApiError};
use crate::drain::{DrainError, DrainOrder, drain};

/// How many seconds pods on a Node that is silent have to be gone, as Cluster API has it.
const SILENCE: i64 = 300;

pub struct Hands {
    pub api: Api,
    pub guest: Option<Guest>,
    pub clock: Clock,
}

impl Hands {
    fn side(&self, side: Side) -> Result<Api, String> {
        match (side, &self.guest) {
            (Side::Management, _) => Ok(self.api.clone()),
            (Side::Guest, Some(guest)) => Ok(Api::new(guest.client.clone(), self.clock)),
            (Side::Guest, None) => Err("the guest cluster cannot be reached".to_owned()),
        }
    }

    /// The answer is the newest that is known of the object, a refusal's as well: whoever lost a race reads it at once.
    pub async fn write(&self, write: &Write, books: &mut Books) -> Result<(), String> {
        let api = self.side(write.object.side)?;
        match send(&api, write).await {
            Ok(body) => {
                let value: Option<Value> = serde_json::from_slice(&body).ok();
                books.learn(&write.object, value.filter(|value| value["kind"] != "Status"));
                Ok(())
            }
            Err(error) => {
                if matches!(error.code(), Some(404 | 409)) {
                    look(&api, write, books).await;
                }
                // What was to go is gone; what was to be made is there, and is looked at.
                let is_gone = matches!(write.act, Act::Delete { .. }) && error.code() == Some(404);
                if is_gone { Ok(()) } else { Err(error.to_string()) }
            }
        }
    }

    /// Of a Node that is silent pods are not waited for until they have gone.
    pub async fn drain(&self, node: &str, limit: SignedDuration, is_silent: bool) -> Result<(), DrainError> {
        let Some(guest) = &self.guest else { return Ok(()) };
        let order = DrainOrder {
            node: node.to_owned(),
            options: Options {
                force: true,
                ignore_daemon_sets: true,
                delete_empty_dir_data: true,
                grace_seconds: None,
                timeout: Some(limit),
                on_timeout: OnTimeout::Fail,
                disable_eviction: false,
                skip_ending_after: is_silent.then_some(SILENCE),
                at_once: None,
            },
            pod_selector: String::new(),
            chunk_size: 500,
            wait_for_volumes: false,
            dry_run: false,
            own_pod: None,
        };
        drain(guest.client.clone(), self.clock, &order, &mut |_| {}).await
    }

    pub async fn move_leader(&self, from: u64, to: u64) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Err("the guest cluster cannot be reached".to_owned()) };
        self.in_time(guest.etcd.move_leader(from, to)).await
    }

    pub async fn remove_member(&self, id: u64) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Err("the guest cluster cannot be reached".to_owned()) };
        self.in_time(guest.etcd.remove(id)).await
    }

    async fn in_time(&self, deed: impl Future<Output = Result<(), String>>) -> Result<(), String> {
        let limit: Duration = self.clock.on_the_wall(ETCD_PATIENCE);
        let silent = |_| Err(format!("no answer within {} s", ETCD_PATIENCE.as_secs()));
        tokio::time::timeout(limit, deed).await.unwrap_or_else(silent)
    }
}

/// Asks for one change.
pub async fn send(api: &Api, write: &Write) -> Result<Bytes, ApiError> {
    let manager = format!("fieldManager={}", drover_api::marks::FIELD_MANAGER);
    let path = write.object.path();
    match &write.act {
        Act::Create(body) => api.post(&format!("{}?{manager}", write.object.collection()), body).await,
        Act::Patch(patch) => api.patch(&format!("{path}?{manager}"), patch).await,
        Act::PatchStatus(patch) => api.patch(&format!("{path}/status?{manager}"), patch).await,
        Act::Delete { uid } => {
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background", "preconditions": { "uid": uid },
            });
            api.delete(&path, &options).await
        }
        Act::Call { part } => api.put(&format!("{path}/{part}"), &json!({})).await,
    }
}

/// Reads the object of a lost race.
async fn look(api: &Api, write: &Write, books: &mut Books) {
    match api.get(&write.object.path()).await {
        Ok(body) => books.learn(&write.object, serde_json::from_slice(&body).ok()),
        Err(ApiError::Refused { code: 404, .. }) => books.learn(&write.object, None),
        Err(_) => {}
    }
}
