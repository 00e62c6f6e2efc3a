//! Runs the steps of an Upgrade inside a Job: looks, decides with [`drover_core::harvester::steps`], acts, and looks again
//! when something changes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use drover_api::harvester::jobs::types;
use drover_clock::{Clock, later};
use drover_core::decision::{Act, Purpose, Subject, Wait};
use drover_core::guest::tanzu::addons::Served;
use drover_core::guest::{Object, Side};
use drover_core::harvester::followed::by_step;
use drover_core::harvester::steps::brought::{TRY_AGAIN, namespace_of, shown};
use drover_core::harvester::steps::{Done, HostDeed, Kind, Next, Order, Tried, next};
use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::act::Hands;
use crate::api::Api;
use crate::drain::publish::Publication;
use crate::guest::discover;
use crate::harvester::Repositories;
use crate::mirror::Mirror;

/// Longer than any step takes.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
/// Everything is looked at again after this time, should an event have been lost.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// From a write that was refused to the next try.
const PAUSE: Duration = Duration::from_secs(2);
/// No file of a release takes longer to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done to the machine that the step runs on.
pub trait Host: Debug + Send + Sync {
    /// Does it, or says why not. Done twice it does no harm.
    fn act(&self, deed: HostDeed) -> BoxFuture<'static, Result<(), String>>;
}

/// A machine that nothing is done to yet.
#[derive(Debug, Clone, Copy)]
pub struct NoHost;

impl Host for NoHost {
    fn act(&self, deed: HostDeed) -> BoxFuture<'static, Result<(), String>> {
        let what = match deed {
            HostDeed::RecoverAgent => "look after Rancher's agent on a machine".to_owned(),
            HostDeed::InstallSystem { os } => format!("install {os} on a machine"),
        };
        Box::pin(async move { Err(format!("this release of Drover cannot {what}")) })
    }
}

/// What the arguments of a Job's container ask for; none if they ask for something else.
pub fn order(args: &[String]) -> Option<Order> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (kind, flags) = match args.as_slice() {
        ["apply-manifests", flags @ ..] => (Kind::Manifests, flags),
        ["node", types::PRE_DRAIN, flags @ ..] => (Kind::PreDrain, flags),
        ["node", types::POST_DRAIN, flags @ ..] => (Kind::PostDrain, flags),
        ["node", types::SINGLE_NODE_UPGRADE, flags @ ..] => (Kind::SingleNode, flags),
        ["node", types::RESTORE_VM, flags @ ..] => (Kind::RestoreVms, flags),
        _ => return None,
    };
    let value = |flag: &str| {
        let at = flags.iter().position(|one| *one == flag)?;
        flags.get(at + 1).map(|value| (*value).to_owned())
    };
    Some(Order { kind, upgrade: value("--upgrade")?, node: value("--node").unwrap_or_default() })
}

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("{0}")]
    Impossible(String),
    #[error("the machine: {0}")]
    Host(String),
}

/// What a step reaches beside the API server.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    pub host: &'a dyn Host,
    pub repositories: &'a dyn Repositories,
}

/// What happens, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Saying {
    Does(String),
    /// The same of a write, and why it is made.
    Writes(Purpose, String),
    Waits(Vec<Wait>),
}

/// Carries out an order to its end. Dropping the future stops it; whoever begins anew goes on from there.
pub async fn run(
    client: Client,
    clock: Clock,
    order: &Order,
    own_pod: Option<Subject>,
    reach: Reach<'_>,
    tell: &mut (dyn FnMut(Saying) + Send),
) -> Result<(), StepError> {
    let api = Api::new(client, clock);
    let mut mirror = Mirror::of(api.clone(), clock, by_step(order.kind)).await;
    // No election: whoever has made the Job wants it done.
    let (_leads, leading_until) = watch::channel(Some(Instant::now() + FOR_EVER));
    let hands = Hands { api: api.clone(), ears: mirror.ears(), plain_status: Arc::default(), leading_until };
    let mut applier = Applier { api: api.clone(), served: BTreeMap::new() };
    let mut publication = Publication::of_few(api, own_pod, &order.node);
    let (mut done, mut told): (Done, Vec<Wait>) = (Done::default(), Vec::new());
    loop {
        let mut refused = false;
        let now = clock.now();
        let came = match mirror.cluster() {
            Some(cluster) => next(cluster, order, &done, now),
            None => Next::Wait { writes: Vec::new(), waits: Vec::new() },
        };
        match came {
            // Nobody reads what the pod of an ended step has told.
            Next::Done => return Ok(()),
            Next::Fail(why) => return Err(StepError::Impossible(why)),
            Next::Host(deed) => {
                tell(Saying::Does(deed.to_string()));
                reach.host.act(deed.clone()).await.map_err(StepError::Host)?;
                done.host.insert(deed);
                continue;
            }
            Next::Read(url) => {
                tell(Saying::Does(format!("reads {url}")));
                let silent = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
                let read = tokio::time::timeout(clock.on_the_wall(PATIENCE), reach.repositories.file(url.clone()));
                let answer = read.await.unwrap_or_else(|_| silent()).map_err(|why| format!("cannot be read: {why}"));
                done.files.insert(url, Tried { at: clock.now(), answer });
                continue;
            }
            Next::Apply(object) => {
                tell(Saying::Does(format!("applies {}", shown(&object))));
                let answer = applier.apply(&object).await;
                done.applied.insert(shown(&object), Tried { at: clock.now(), answer });
                continue;
            }
            Next::Wait { writes, mut waits } => {
                for wait in &mut waits {
                    let before = told.iter().find(|told| told.sentence == wait.sentence);
                    wait.since = before.map_or(wait.since, |before| before.since);
                }
                if waits != told {
                    tell(Saying::Waits(waits.clone()));
                }
                told = waits;
                for write in &writes {
                    tell(Saying::Writes(write.purpose, format!("{} {}", verb(&write.act), write.subject)));
                }
                let has_written = !writes.is_empty();
                if has_written && let Some(failure) = hands.carry_out(vec![writes]).await {
                    tell(Saying::Does(failure.to_string()));
                    clock.sleep(PAUSE).await;
                    refused = true;
                }
                // What was written is seen at once, and what is waited for then is told.
                if !has_written {
                    publication.publish(&told, clock.now()).await;
                }
            }
        }
        let due = publication.due(&told, clock.now()).unwrap_or(jiff::Timestamp::MAX);
        let again = match done.may_change() {
            // The pause is over; what was heard meanwhile is heeded first.
            _ if refused => Duration::ZERO,
            true => TRY_AGAIN.unsigned_abs(),
            false => LOOK_AGAIN,
        };
        let deadline = told.iter().filter_map(|wait| wait.deadline).min().unwrap_or(jiff::Timestamp::MAX);
        let until = due.min(later(clock.now(), again)).min(deadline.max(later(clock.now(), PAUSE)));
        tokio::select! {
            biased;
            _ = mirror.hear() => {}
            () = clock.sleep_until(until) => {}
        }
    }
}

/// What a write does to its object.
fn verb(act: &Act) -> String {
    match act {
        Act::Create(_) => "creates".to_owned(),
        Act::Patch(_) | Act::PatchStatus(_) => "changes".to_owned(),
        Act::Delete { .. } => "deletes".to_owned(),
        Act::Call { part } => format!("asks for the {part} of"),
    }
}

/// Applies objects of any kind.
struct Applier {
    api: Api,
    /// By `apiVersion`, what the server was asked for once.
    served: BTreeMap<String, BTreeMap<String, Served>>,
}

impl Applier {
    /// Answers with the generation that the object has now, or with what the server says against it.
    async fn apply(&mut self, object: &Value) -> Result<i64, String> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if !self.served.get(&version).is_some_and(|kinds| kinds.contains_key(&kind)) {
            let found = discover(&self.api, &version).await;
            let found = found.map_err(|error| format!("cannot ask which kinds {version} has: {error}"))?;
            self.served.insert(version.clone(), found.unwrap_or_default());
        }
        let served = self.served.get(&version).and_then(|kinds| kinds.get(&kind));
        let served = served.ok_or_else(|| format!("the cluster has no kind {kind} of {version}"))?;
        let mut body = object.clone();
        // A group may serve another version by now.
        body["apiVersion"] = Value::from(served.api_version.clone());
        if served.namespaced {
            body["metadata"]["namespace"] = Value::from(namespace_of(object));
        }
        let path = served.path(&Object::of(Side::Management, &body));
        let manager = drover_api::marks::FIELD_MANAGER;
        let answer = self.api.apply(&format!("{path}?fieldManager={manager}&force=true"), &body).await;
        let answer: Value = serde_json::from_slice(&answer.map_err(|error| error.to_string())?).unwrap_or_default();
        Ok(answer["metadata"]["generation"].as_i64().unwrap_or(0))
    }
}
