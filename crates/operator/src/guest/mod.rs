//! Carries out the update of a guest cluster's control plane: follows both clusters, decides with [`drover_core::guest`], acts.
//! [`Clusters`] keeps whole TanzuKubernetesClusters as they are asked for, and begins such updates.
//!
//! An update is one try, as a Job makes it: it ends when no machine differs, or when something takes too long. Whoever begins anew goes
//! on from there.

mod books;
mod clusters;
mod desk;
mod ear;
mod errand;
pub mod etcd;
mod etcdctl;
mod folded;
mod hands;
mod lane;
mod ledger;
mod real;
mod recovery;
mod shift;
mod word;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use drover_api::cluster_api::secrets;
use drover_clock::{Clock, later};
use drover_core::guest::{
    Deed, Dialect, Failure, Member, Next, Object, Order, View, Wait, cordons_of_a_failed_try, decide, warnings,
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;

pub use self::clusters::{Clusters, ClustersOptions, LIMIT};
pub use self::real::RealGuests;
pub use self::recovery::{Recovered, RecoveryError, recover_certificates};
pub use self::word::{TanzuVerbs, WordError};

pub(crate) use self::errand::{discover, kubeconfig_of};

use self::books::Books;
use self::etcd::Authority;
use self::hands::Hands;
use crate::api::{Api, ApiError};
use crate::drain::DrainError;

/// Everything is looked at again after this time, should an event have been lost.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// From what was refused to the next try.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is tried to leave a note behind when a try ends.
const NOTES: usize = 5;
/// No answer of etcd takes longer.
const ETCD_PATIENCE: Duration = Duration::from_secs(60);
/// How long the API server of the management cluster may take to say which versions it has.
const DISCOVERY_TRIES: usize = 60;

/// The API of a guest cluster and its etcd.
#[derive(Clone)]
pub struct Guest {
    pub client: Client,
    pub etcd: Arc<dyn Etcd>,
}

impl Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest").field("etcd", &self.etcd).finish_non_exhaustive()
    }
}

/// What opens a guest cluster.
#[derive(Clone)]
pub struct Keys {
    pub kubeconfig: String,
    /// Of its etcd; without it that is reached by what its pods have.
    pub etcd: Option<Authority>,
}

impl Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("etcd", &self.etcd).finish_non_exhaustive()
    }
}

/// Where guest clusters are reached.
pub trait Guests: Debug + Send + Sync {
    /// The cluster that these keys open, or why it cannot be reached.
    fn reach(&self, keys: Keys) -> BoxFuture<'static, Result<Guest, String>>;
}

/// The etcd of a guest cluster. Each deed can be asked for twice.
pub trait Etcd: Debug + Send + Sync {
    fn members(&self) -> BoxFuture<'static, Result<Vec<Member>, String>>;
    fn move_leader(&self, from: u64, to: u64) -> BoxFuture<'static, Result<(), String>>;
    fn remove(&self, id: u64) -> BoxFuture<'static, Result<(), String>>;
}

/// What happens, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Saying {
    Does(String),
    /// What whoever asked should know; it goes on.
    Warns(String),
    /// It is tried again.
    Refused(String),
    /// What is waited for has changed.
    Waits(Vec<Wait>),
}

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error("{0}")]
    Failed(Failure),
    #[error("cannot drain Node {node} of the guest cluster: {cause}; {remedy}")]
    Drain { node: String, cause: DrainError, remedy: String },
    #[error("time is up: cannot {what}: {cause}")]
    Refused { what: String, cause: String },
    #[error("cannot ask for the versions of cluster.x-k8s.io: {0}")]
    Discovery(ApiError),
    #[error(
        "the management cluster has no version of cluster.x-k8s.io that is spoken here (v1alpha2, v1beta1, v1beta2); it has: {0}"
    )]
    NoClusterApi(String),
    #[error("cannot read {what}: {cause}")]
    Forbidden { what: String, cause: String },
    #[error("there is no Secret {0} with the kubeconfig of the guest cluster")]
    NoKubeconfig(String),
}

/// Carries out an order to its end. Dropping the future stops it.
pub async fn update(
    client: Client,
    guests: &dyn Guests,
    clock: Clock,
    order: &Order,
    tell: &mut (dyn FnMut(Saying) + Send),
) -> Result<(), UpdateError> {
    // Machines are given their time, not what somebody sets the clock to meanwhile.
    let clock = clock.steady();
    let api = Api::new(client, clock);
    let dialect = dialect(&api, clock).await?;
    let books = Books::open(api.clone(), clock, &order.namespace, &order.cluster, dialect);
    let update = Update {
        hands: Hands { api, guest: None, clock },
        started: clock.now(),
        drained: BTreeSet::new(),
        told: Vec::new(),
        refused: None,
        unseen: None,
        is_warned: false,
        books,
        guests,
        clock,
        order,
        dialect,
        tell,
    };
    update.end().await
}

/// Which version of Cluster API the management cluster has.
async fn dialect(api: &Api, clock: Clock) -> Result<Dialect, UpdateError> {
    #[derive(Deserialize)]
    struct Group {
        #[serde(default)]
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let path = format!("/apis/{}", drover_api::cluster_api::GROUP);
    for tries in 1.. {
        match api.get(&path).await {
            Ok(body) => {
                let group: Group = serde_json::from_slice(&body).unwrap_or(Group { versions: Vec::new() });
                let versions: Vec<String> = group.versions.into_iter().map(|one| one.version).collect();
                return Dialect::of(&versions).ok_or_else(|| UpdateError::NoClusterApi(versions.join(", ")));
            }
            Err(error) if error.code() == Some(404) => return Err(UpdateError::NoClusterApi("none".to_owned())),
            Err(error) if error.is_forbidden() || tries >= DISCOVERY_TRIES => {
                return Err(UpdateError::Discovery(error));
            }
            Err(_) => clock.sleep(PAUSE).await,
        }
    }
    Err(UpdateError::NoClusterApi("none".to_owned()))
}

struct Update<'a> {
    books: Books,
    hands: Hands,
    guests: &'a dyn Guests,
    clock: Clock,
    order: &'a Order,
    dialect: Dialect,
    started: Timestamp,
    drained: BTreeSet<String>,
    told: Vec<Wait>,
    /// What is refused again and again, and since when.
    refused: Option<(String, Timestamp)>,
    /// Since when the management cluster has not told all, and what was last said of it.
    unseen: Option<(Timestamp, String)>,
    is_warned: bool,
    tell: &'a mut (dyn FnMut(Saying) + Send),
}

impl Update<'_> {
    /// What stays cordoned after a try that has failed says why.
    async fn end(mut self) -> Result<(), UpdateError> {
        let result = self.run().await;
        if let Err(error) = &result {
            for note in cordons_of_a_failed_try(&self.view(None), &error.to_string()) {
                // It is only for whoever looks at the Node.
                let _ = self.hands.write(&note, &mut self.books).await;
            }
        }
        result
    }

    async fn run(&mut self) -> Result<(), UpdateError> {
        let mut notes = 0;
        loop {
            self.books.take_all();
            if let Some((what, cause)) = self.books.forbidden() {
                return Err(UpdateError::Forbidden { what, cause });
            }
            if !self.books.management_is_whole() {
                self.await_management().await?;
                continue;
            }
            self.unseen = None;
            self.warn();
            self.reach_guest().await?;
            if self.books.guest_is_listed_soon(self.started) {
                self.books.hear_until(later(self.clock.now(), PAUSE)).await;
                continue;
            }
            match self.decide().await {
                Next::Act(deeds) => self.perform(deeds).await?,
                Next::Wait { waits, look_again } => self.wait(waits, look_again).await,
                Next::Done => return Ok(()),
                Next::AskEtcd => self.books.hear_until(later(self.clock.now(), PAUSE)).await,
                Next::Fail(failure) => {
                    // Whoever tries next goes by it: without it, the next try ends here as well.
                    if let Some(note) = &failure.note
                        && notes < NOTES
                        && self.hands.write(note, &mut self.books).await.is_err()
                    {
                        notes += 1;
                        self.clock.sleep(PAUSE).await;
                        continue;
                    }
                    return Err(UpdateError::Failed(failure));
                }
            }
        }
    }

    fn warn(&mut self) {
        if !std::mem::replace(&mut self.is_warned, true) {
            warnings(&self.view(None)).into_iter().for_each(|what| (self.tell)(Saying::Warns(what)));
        }
    }

    /// What the management cluster does not tell is said as soon as it is known why, and waited for no longer than a machine is.
    async fn await_management(&mut self) -> Result<(), UpdateError> {
        let Some((path, why)) = self.books.missing() else { return Ok(()) };
        let what = format!("read {path}");
        let now = self.clock.now();
        let unseen = self.unseen.get_or_insert_with(|| (now, String::new()));
        let deadline = unseen.0.checked_add(self.order.machine_timeout).unwrap_or(Timestamp::MAX);
        if now >= deadline {
            let cause = why.unwrap_or_else(|| "it does not answer".to_owned());
            return Err(UpdateError::Refused { what, cause });
        }
        if let Some(said) = why.map(|why| format!("cannot {what}: {why}")).filter(|said| *said != unseen.1) {
            unseen.1.clone_from(&said);
            (self.tell)(Saying::Refused(said));
        }
        self.books.hear_until(later(now, LOOK_AGAIN).min(deadline)).await;
        Ok(())
    }

    /// Connects to the guest cluster, once there is something to connect with.
    async fn reach_guest(&mut self) -> Result<(), UpdateError> {
        if self.hands.guest.is_some() {
            return Ok(());
        }
        let name = format!("{}{}", self.order.cluster, secrets::KUBECONFIG);
        let Some(kubeconfig) = self.books.kubeconfig(&name) else {
            // Whether there is a cluster at all is said first.
            return match self.books.has_cluster(&self.order.cluster) {
                true => Err(UpdateError::NoKubeconfig(format!("{}/{name}", self.order.namespace))),
                false => Ok(()),
            };
        };
        let etcd = self.books.authority(&format!("{}{}", self.order.cluster, secrets::ETCD));
        match self.guests.reach(Keys { kubeconfig, etcd }).await {
            Ok(guest) => {
                self.books.follow_guest(guest.client.clone());
                self.hands.guest = Some(guest);
            }
            Err(why) => self.books.away(why),
        }
        Ok(())
    }

    /// Decides, asking etcd where that is needed: its answer holds for this moment only.
    async fn decide(&mut self) -> Next {
        let next = decide(&self.view(None));
        let (Next::AskEtcd, Some(guest)) = (&next, &self.hands.guest) else { return next };
        let limit = self.clock.on_the_wall(ETCD_PATIENCE);
        let silent = || Err(format!("no answer within {} s", ETCD_PATIENCE.as_secs()));
        let members = tokio::time::timeout(limit, guest.etcd.members()).await.unwrap_or_else(|_| silent());
        self.books.take_all();
        decide(&self.view(Some(&members)))
    }

    fn view<'a>(&'a self, etcd: Option<&'a Result<Vec<Member>, String>>) -> View<'a> {
        View {
            order: self.order,
            dialect: self.dialect,
            seen: self.books.seen(),
            away: self.books.why_away(),
            etcd,
            drained: &self.drained,
            started: self.started,
            told: &self.told,
            now: self.clock.now(),
        }
    }

    async fn perform(&mut self, deeds: Vec<Deed>) -> Result<(), UpdateError> {
        self.told.clear();
        for deed in deeds {
            let (what, result) = match &deed {
                Deed::Write(write) => {
                    (format!("{}: {}", write.purpose, write.object), self.hands.write(write, &mut self.books).await)
                }
                Deed::Drain { node, machine, is_silent } => {
                    (format!("drain Node {node}"), self.drain(node, machine, *is_silent).await?)
                }
                Deed::MoveLeader { from, to, name } => {
                    (format!("let the member {name} of etcd lead"), self.hands.move_leader(*from, *to).await)
                }
                Deed::RemoveMember { id, name } => {
                    (format!("remove the member {name} of etcd"), self.hands.remove_member(*id).await)
                }
            };
            match result {
                Ok(()) => {
                    self.refused = None;
                    (self.tell)(Saying::Does(what));
                }
                Err(cause) => {
                    let now = self.clock.now();
                    let since = self.refused.take().filter(|(known, _)| *known == what).map_or(now, |(_, since)| since);
                    if now.duration_since(since) >= self.order.machine_timeout {
                        return Err(UpdateError::Refused { what, cause });
                    }
                    (self.tell)(Saying::Refused(format!("cannot {what}: {cause}")));
                    self.refused = Some((what, since));
                    self.books.hear_until(later(self.clock.now(), PAUSE)).await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What passes by itself is tried again; a drain that took too long ends this try.
    async fn drain(
        &mut self,
        node: &str,
        machine: &Object,
        is_silent: bool,
    ) -> Result<Result<(), String>, UpdateError> {
        match self.hands.drain(node, self.order.machine_timeout, is_silent).await {
            Ok(()) => {
                self.drained.insert(node.to_owned());
                Ok(Ok(()))
            }
            Err(DrainError::Api { act, cause }) => Ok(Err(format!("{act}: {cause}"))),
            Err(cause) => {
                let remedy = format!(
                    "to go on without a drain: kubectl annotate {} {}=true",
                    machine.arguments(),
                    self.dialect.exclude_draining()
                );
                Err(UpdateError::Drain { node: node.to_owned(), cause, remedy })
            }
        }
    }

    async fn wait(&mut self, waits: Vec<Wait>, look_again: Option<Timestamp>) {
        let sentences = |waits: &[Wait]| waits.iter().map(|wait| wait.sentence.clone()).collect::<Vec<_>>();
        if sentences(&waits) != sentences(&self.told) {
            (self.tell)(Saying::Waits(waits.clone()));
        }
        self.told = waits;
        let latest = later(self.clock.now(), LOOK_AGAIN);
        self.books.hear_until(look_again.map_or(latest, |moment| moment.min(latest))).await;
    }
}
