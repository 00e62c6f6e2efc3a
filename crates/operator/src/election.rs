//! Who leads: one Lease, our own election.
//!
//! No clock of another machine is trusted. A Lease counts as lapsed when its record has not changed for its duration as
//! measured here; one's own is held only until a deadline that ends before any other could see it lapse.

use std::time::Duration;

use bytes::Bytes;
use drover_clock::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::{Api, ApiError};
use crate::inbox::Message;

/// Longer than any process runs.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

#[derive(Debug, Clone)]
pub struct ElectionOptions {
    /// Whoever does not stand for election leads at once, and for ever.
    pub stands: bool,
    pub namespace: String,
    pub name: String,
    /// How long others leave an unchanged Lease alone.
    pub lease_duration: Duration,
    /// How long one's own is held without being renewed; shorter than the duration.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl ElectionOptions {
    pub fn new(namespace: &str, name: &str) -> Self {
        ElectionOptions {
            stands: true,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Stands for election for ever; tells the engine and its hands when it leads and when no longer.
#[derive(Debug)]
pub struct Candidate {
    api: Api,
    clock: Clock,
    options: ElectionOptions,
    /// Unique to this process: whoever starts again is somebody else.
    identity: String,
    leading_until: watch::Sender<Option<Instant>>,
    inbox: UnboundedSender<Message>,
    seen: Option<Record>,
    /// The Lease as it was answered when it was last taken or renewed.
    ours: Option<Value>,
}

/// Whose the Lease is.
enum Standing {
    Ours,
    Theirs,
    /// The Lease changed between reading and writing it: whoever led still does until the deadline.
    Unclear,
}

/// A Lease as last seen, and when it was first seen so.
#[derive(Debug)]
struct Record {
    spec: Value,
    since: Instant,
}

impl Candidate {
    /// A candidate, and until when it leads, for those who write in its name.
    pub fn new(
        api: Api,
        clock: Clock,
        options: ElectionOptions,
        identity: String,
        inbox: UnboundedSender<Message>,
    ) -> (Self, watch::Receiver<Option<Instant>>) {
        let (leading_until, seen_by_others) = watch::channel(None);
        let candidate = Candidate { api, clock, options, identity, leading_until, inbox, seen: None, ours: None };
        (candidate, seen_by_others)
    }

    pub async fn stand(mut self) {
        if !self.options.stands {
            self.set(Some(Instant::now() + FOR_EVER));
            return;
        }
        let mut said = None;
        loop {
            let asked = Instant::now();
            match self.campaign().await {
                Ok(Standing::Ours) => self.set(Some(asked + self.clock.on_the_wall(self.options.renew_deadline))),
                Ok(Standing::Theirs) => self.set(None),
                Ok(Standing::Unclear) => {}
                Err(error) => {
                    let sentence =
                        format!("cannot hold the Lease {}/{}: {error}", self.options.namespace, self.options.name);
                    if said.as_ref() != Some(&sentence) {
                        let remedy = if error.is_forbidden() {
                            "; grant get, create and update on leases.coordination.k8s.io"
                        } else {
                            ""
                        };
                        tracing::warn!("{sentence}{remedy}");
                    }
                    said = Some(sentence);
                }
            }
            if self.leading_until.borrow().is_some_and(|until| Instant::now() >= until) {
                self.set(None);
            }
            if self.inbox.is_closed() {
                return;
            }
            self.clock.sleep(self.options.retry_period).await;
        }
    }

    fn set(&self, until: Option<Instant>) {
        let led = self.leading_until.borrow().is_some();
        self.leading_until.send_replace(until);
        if led != until.is_some() {
            // A closed inbox means that the operator has ended, and this task with it.
            let _ = self.inbox.send(Message::Leading(until.is_some()));
        }
    }

    /// Takes or renews the Lease if it is free, lapsed or ours. One's own is renewed unread: had anybody taken it since, it would have
    /// another version, and the server would refuse.
    async fn campaign(&mut self) -> Result<Standing, ApiError> {
        if let Some(lease) = self.ours.take() {
            let standing = self.renew(lease).await?;
            if !matches!(standing, Standing::Unclear) {
                return Ok(standing);
            }
        }
        match self.api.get(&lease_path(&self.options)).await {
            Ok(body) => self.renew(read(&body)?).await,
            Err(error) if error.code() == Some(404) => self.create().await,
            Err(error) => Err(error),
        }
    }

    async fn renew(&mut self, mut lease: Value) -> Result<Standing, ApiError> {
        let spec = lease["spec"].clone();
        let holder = spec["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let mine = holder == self.identity;
        if !mine && !holder.is_empty() && !self.has_lapsed(&spec) {
            return Ok(Standing::Theirs);
        }
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0);
        let acquired = if mine { spec["acquireTime"].clone() } else { Value::Null };
        let transitions = if mine { transitions } else { transitions + 1 };
        lease["spec"] = self.spec(acquired, transitions);
        let answer = self.api.put(&lease_path(&self.options), &lease).await;
        self.standing(answer)
    }

    async fn create(&mut self) -> Result<Standing, ApiError> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": self.options.name, "namespace": self.options.namespace },
            "spec": self.spec(Value::Null, 0),
        });
        let answer = self.api.post(&collection_path(&self.options), &lease).await;
        self.standing(answer)
    }

    fn standing(&mut self, answer: Result<Bytes, ApiError>) -> Result<Standing, ApiError> {
        match answer {
            Ok(body) => {
                // One that cannot be read is ours all the same, and is read anew the next time.
                self.ours = read(&body).ok();
                Ok(Standing::Ours)
            }
            Err(error) if error.code() == Some(409) => Ok(Standing::Unclear),
            Err(error) => Err(error),
        }
    }

    fn has_lapsed(&mut self, spec: &Value) -> bool {
        let now = Instant::now();
        if self.seen.as_ref().is_none_or(|seen| seen.spec != *spec) {
            self.seen = Some(Record { spec: spec.clone(), since: now });
        }
        let duration = spec["leaseDurationSeconds"].as_u64().map_or(self.options.lease_duration, Duration::from_secs);
        self.seen.as_ref().is_some_and(|seen| now >= seen.since + self.clock.on_the_wall(duration))
    }

    fn spec(&self, acquired: Value, transitions: i64) -> Value {
        let now = micros(self.clock.now());
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.options.lease_duration.as_secs().max(1),
            "acquireTime": if acquired.is_null() { json!(now) } else { acquired },
            "renewTime": now,
            "leaseTransitions": transitions,
        })
    }
}

fn read(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::Unreadable(error.to_string()))
}

/// Gives the Lease back, so that the next operator need not wait for it to lapse. Best effort: a Lease that could not
/// be given back lapses.
pub async fn resign(api: &Api, options: &ElectionOptions, identity: &str) {
    if !options.stands {
        return;
    }
    let path = lease_path(options);
    let Ok(body) = api.get(&path).await else { return };
    let Ok(mut lease) = serde_json::from_slice::<Value>(&body) else { return };
    if lease["spec"]["holderIdentity"] == identity {
        lease["spec"]["holderIdentity"] = json!("");
        if let Err(error) = api.put(&path, &lease).await {
            tracing::warn!("cannot give back the Lease {}/{}: {error}", options.namespace, options.name);
        }
    }
}

fn collection_path(options: &ElectionOptions) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", options.namespace)
}

fn lease_path(options: &ElectionOptions) -> String {
    format!("{}/{}", collection_path(options), options.name)
}

/// Leases keep microseconds.
fn micros(moment: Timestamp) -> String {
    format!("{moment:.6}")
}
