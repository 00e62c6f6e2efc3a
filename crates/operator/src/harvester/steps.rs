//! Runs the steps of an Upgrade inside a Job: looks, decides with [`drover_core::harvester::steps`], acts, and looks again
//! when something changes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use drover_api::harvester::jobs::types;
use drover_clock::{Clock, later};
use drover_core::decision::{Subject, Wait};
use drover_core::harvester::followed::by_step;
use drover_core::harvester::steps::{HostDeed, Kind, Next, Order, next};
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::act::Hands;
use crate::api::Api;
use crate::drain::publish::Publication;
use crate::mirror::Mirror;

/// Longer than any step takes.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
/// Everything is looked at again after this time, should an event have been lost.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// From a write that was refused to the next try.
const PAUSE: Duration = Duration::from_secs(2);

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

/// What happens, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Saying {
    Does(String),
    Waits(Vec<Wait>),
}

/// Carries out an order to its end. Dropping the future stops it; whoever begins anew goes on from there.
pub async fn run(
    client: Client,
    clock: Clock,
    order: &Order,
    own_pod: Option<Subject>,
    host: &dyn Host,
    tell: &mut (dyn FnMut(Saying) + Send),
) -> Result<(), StepError> {
    let api = Api::new(client, clock);
    let mut mirror = Mirror::of(api.clone(), clock, by_step(order.kind)).await;
    // No election: whoever has made the Job wants it done.
    let (_leads, leading_until) = watch::channel(Some(Instant::now() + FOR_EVER));
    let hands = Hands { api: api.clone(), ears: mirror.ears(), plain_status: Arc::default(), leading_until };
    let mut publication = Publication::of_few(api, own_pod, &order.node);
    let (mut done, mut told): (BTreeSet<HostDeed>, Vec<Wait>) = (BTreeSet::new(), Vec::new());
    loop {
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
                tell(Saying::Does(format!("{deed:?}")));
                host.act(deed.clone()).await.map_err(StepError::Host)?;
                done.insert(deed);
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
                    tell(Saying::Does(format!("{:?} {}", write.purpose, write.subject)));
                }
                let has_written = !writes.is_empty();
                if has_written && let Some(failure) = hands.carry_out(vec![writes]).await {
                    tell(Saying::Does(failure.to_string()));
                    clock.sleep(PAUSE).await;
                }
                // What was written is seen at once, and what is waited for then is told.
                if !has_written {
                    publication.publish(&told, clock.now()).await;
                }
            }
        }
        let due = publication.due(&told, clock.now()).unwrap_or(jiff::Timestamp::MAX);
        let until = due.min(later(clock.now(), LOOK_AGAIN));
        tokio::select! {
            biased;
            _ = mirror.hear() => {}
            () = clock.sleep_until(until) => {}
        }
    }
}
