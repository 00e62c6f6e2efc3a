//! Carries out writes, stage by stage.
//!
//! Every answer is an event for the store, also a refusal: whoever lost a race reads the object at once instead of
//! waiting for the watch to tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drover_core::decision::{Act, Kind, Purpose, Subject, Write};
use drover_core::seen::Seen;
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::{Api, ApiError, collection, object};
use crate::inbox::Message;

/// So many writes of a stage are under way at a time: more would not be faster, and each needs a connection.
const AT_ONCE: usize = 32;

/// The write that ended a batch, and why.
#[derive(Debug, Clone)]
pub struct Failure {
    pub write: Write,
    pub error: ApiError,
}

impl Failure {
    /// Somebody else was faster: the next decision knows more.
    pub fn is_lost_race(&self) -> bool {
        matches!(self.error.code(), Some(404 | 409))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match self.write.act {
            Act::Create(_) => "create",
            Act::Patch(_) => "patch",
            Act::PatchStatus(_) => "patch the status of",
            Act::Delete { .. } => "delete",
            Act::Call { part } => part,
        };
        write!(f, "cannot {verb} {}: {}", self.write.subject, self.error)
    }
}

/// Who is told what a write was answered with.
pub trait Ears: std::fmt::Debug + Send + Sync {
    /// The object as it is now, none if it is no more; gives back its resourceVersion, where it is known.
    fn hear(&self, subject: &Subject, body: Option<&[u8]>) -> Option<u64>;
}

impl Ears for UnboundedSender<Message> {
    fn hear(&self, subject: &Subject, body: Option<&[u8]>) -> Option<u64> {
        let kind = subject.kind;
        let (message, version) = match body.map(|body| Seen::decode(kind, body)) {
            Some(Ok(Some(seen))) => {
                let version = seen.meta().resource_version;
                (Message::Changed(Box::new(seen)), Some(version))
            }
            Some(_) => return None,
            None => (Message::Missing { kind, name: subject.name.clone() }, None),
        };
        // A closed inbox means that the operator has ended, and this batch with it.
        let _ = self.send(message);
        version
    }
}

/// What a batch needs to act: cheap to clone, one for each batch.
#[derive(Clone, Debug)]
pub struct Hands {
    pub api: Api,
    pub ears: Arc<dyn Ears>,
    /// The definition of Upgrade has no status of its own, as Harvester installs it: it is written with the object.
    pub plain_status: Arc<AtomicBool>,
    /// Until when this process leads. Whoever no longer does, writes nothing.
    pub leading_until: watch::Receiver<Option<Instant>>,
}

impl Hands {
    /// Ordered between stages, side by side within one; the first failure ends the batch after its stage.
    ///
    /// A write that follows one of the same batch to the same object was decided on what that one made of it: it is guarded
    /// by the resourceVersion that the first one was answered with.
    pub async fn carry_out(&self, stages: Vec<Vec<Write>>) -> Option<Box<Failure>> {
        let mut made: BTreeMap<Subject, (String, u64)> = BTreeMap::new();
        for mut stage in stages {
            stage.iter_mut().for_each(|write| guard_anew(write, &made));
            let writes: Vec<_> = stage.iter().map(|write| self.write(write)).collect();
            let results: Vec<_> = stream::iter(writes).buffered(AT_ONCE).collect().await;
            for (write, result) in stage.into_iter().zip(results) {
                match result {
                    Ok(Some(version)) => {
                        let first = made.remove(&write.subject).map(|(first, _)| first);
                        if let Some(guard) = first.or_else(|| guard(&write).map(str::to_owned)) {
                            made.insert(write.subject, (guard, version));
                        }
                    }
                    Ok(None) => {}
                    Err(error) => return Some(Box::new(Failure { write, error })),
                }
            }
        }
        None
    }

    /// Answers with the resourceVersion that the object has now, where it is known.
    async fn write(&self, write: &Write) -> Result<Option<u64>, ApiError> {
        if self.leading_until.borrow().is_none_or(|until| Instant::now() >= until) {
            let message = "this operator no longer leads".to_owned();
            let (causes, retry_after) = (Vec::new(), None);
            return Err(ApiError::Refused { code: 409, reason: "NotLeading".to_owned(), message, causes, retry_after });
        }
        match self.send(write).await {
            Ok(body) => {
                tracing::info!("{:?} {}", write.purpose, write.subject);
                Ok(self.learn(write, &body))
            }
            // Told before, or not to be told: neither keeps an upgrade from going on.
            Err(error) if write.purpose == Purpose::Announce => {
                if error.code() != Some(409) {
                    tracing::warn!("cannot create {}: {error}", write.subject);
                }
                Ok(None)
            }
            // Harvester's webhook lets nobody but Harvester make one, and nobody waits for it.
            Err(error) if write.subject.kind == Kind::UpgradeLog && is_refused_for_good(&error) => {
                tracing::warn!("cannot create {}: {error}", write.subject);
                Ok(None)
            }
            Err(error) => {
                if matches!(error.code(), Some(404 | 409)) {
                    self.look(write).await;
                }
                Err(error)
            }
        }
    }

    async fn send(&self, write: &Write) -> Result<bytes::Bytes, ApiError> {
        let path = object(&write.subject);
        let manager = format!("fieldManager={}", drover_api::marks::FIELD_MANAGER);
        match &write.act {
            Act::Create(body) => {
                let path = collection(write.subject.kind, &write.subject.namespace);
                self.api.post(&format!("{path}?{manager}"), body).await
            }
            Act::Patch(patch) => self.change(&format!("{path}?{manager}"), &path, patch).await,
            Act::PatchStatus(patch) if write.subject.kind == Kind::Upgrade => self.tell_upgrade(&path, patch).await,
            Act::PatchStatus(patch) => self.change(&format!("{path}/status?{manager}"), &path, patch).await,
            Act::Call { part } => self.api.put(&call(&write.subject, part), &json!({})).await,
            Act::Delete { uid } => {
                // A Job that is gone has no pod at work any more: it goes after them.
                let policy = if write.subject.kind == Kind::Job { "Foreground" } else { "Background" };
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions",
                    "propagationPolicy": policy, "preconditions": { "uid": uid },
                });
                self.api.delete(&path, &options).await
            }
        }
    }

    /// Writes the status of an Upgrade, which stands for itself or goes with the object: its definition may be Harvester's, or Drover's,
    /// and somebody may replace the one by the other. Which it is shows in the answer.
    async fn tell_upgrade(&self, path: &str, patch: &Value) -> Result<bytes::Bytes, ApiError> {
        let manager = format!("fieldManager={}", drover_api::marks::FIELD_MANAGER);
        let (own, plain) = (format!("{path}/status?{manager}"), format!("{path}?{manager}"));
        if self.plain_status.load(Ordering::Relaxed) {
            let answer = self.change(&plain, path, patch).await?;
            if carries(&answer, patch) {
                return Ok(answer);
            }
            self.plain_status.store(false, Ordering::Relaxed);
        }
        match self.change(&own, path, patch).await {
            Err(error) if error.code() == Some(404) => {
                let answer = self.change(&plain, path, patch).await;
                self.plain_status.store(answer.is_ok(), Ordering::Relaxed);
                answer
            }
            answer => answer,
        }
    }

    /// A merge patch; where only `update` is granted, the same as a read and a guarded update.
    async fn change(&self, path: &str, object: &str, patch: &Value) -> Result<bytes::Bytes, ApiError> {
        match self.api.patch(path, patch).await {
            Err(error) if error.code() == Some(403) => {
                let Ok(current) = self.api.get(object).await else { return Err(error) };
                let Ok(mut changed) = serde_json::from_slice::<Value>(&current) else { return Err(error) };
                merge(&mut changed, patch);
                self.api
                    .put(path, &changed)
                    .await
                    .map_err(|refused| if refused.is_forbidden() { error } else { refused })
            }
            answer => answer,
        }
    }

    /// The answer to a write is the newest that is known of its object.
    fn learn(&self, write: &Write, body: &[u8]) -> Option<u64> {
        let gone = matches!(write.act, Act::Delete { .. }) && !is_object(body);
        self.tell(write, (!gone).then_some(body))
    }

    /// Reads the object of a lost race.
    async fn look(&self, write: &Write) {
        match self.api.get(&object(&write.subject)).await {
            Ok(body) => drop(self.tell(write, Some(&body))),
            Err(error) if error.code() == Some(404) => drop(self.tell(write, None)),
            Err(_) => {}
        }
    }

    fn tell(&self, write: &Write, body: Option<&[u8]>) -> Option<u64> {
        let is_told = write.subject.kind != Kind::Event && !matches!(write.act, Act::Call { .. });
        if is_told { self.ears.hear(&write.subject, body) } else { None }
    }
}

/// The server has understood, and will not take it another time, either.
fn is_refused_for_good(error: &ApiError) -> bool {
    matches!(error.code(), Some(400 | 422))
}

/// Whether an object says what was written into its status: where that stands for itself, a write with the object leaves it as it is.
fn carries(body: &[u8], patch: &Value) -> bool {
    let said = |object: &Value| -> Vec<(Value, Value, Value)> {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.map(|one| (one["type"].clone(), one["status"].clone(), one["message"].clone())).collect()
    };
    serde_json::from_slice(body).is_ok_and(|object: Value| said(&object) == said(patch))
}

/// Where KubeVirt is told to do something with a VM.
fn call(subject: &Subject, part: &str) -> String {
    let group = drover_api::kubevirt::SUBRESOURCES_GROUP;
    format!("/apis/{group}/v1/namespaces/{}/virtualmachines/{}/{part}", subject.namespace, subject.name)
}

/// The resourceVersion that a patch is guarded by.
fn guard(write: &Write) -> Option<&str> {
    match &write.act {
        Act::Patch(patch) | Act::PatchStatus(patch) => patch["metadata"]["resourceVersion"].as_str(),
        Act::Create(_) | Act::Delete { .. } | Act::Call { .. } => None,
    }
}

/// `made` holds, for each object that this batch has changed, the version before its first change and after its last.
fn guard_anew(write: &mut Write, made: &BTreeMap<Subject, (String, u64)>) {
    let Some((first, last)) = made.get(&write.subject) else { return };
    if guard(write) == Some(first)
        && let Act::Patch(patch) | Act::PatchStatus(patch) = &mut write.act
    {
        patch["metadata"]["resourceVersion"] = json!(last.to_string());
    }
}

/// A delete answers with the object if a finalizer keeps it, else with a Status.
fn is_object(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Answer {
        kind: String,
    }
    serde_json::from_slice::<Answer>(body).is_ok_and(|answer| answer.kind != "Status")
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match target.as_object_mut() {
            Some(fields) if value.is_null() => drop(fields.remove(key)),
            Some(fields) => merge(fields.entry(key.clone()).or_insert(Value::Null), value),
            None => {}
        }
    }
}
