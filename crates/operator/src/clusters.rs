//! What a person does to a Cluster of Cluster API: starts an upgrade, pauses it, and lets it go on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use drover_api::marks::FIELD_MANAGER;
use drover_clock::Clock;
use drover_core::cluster::cluster_api::Cluster as Guest;
use drover_core::cluster::{Cluster, ObjectRef, RESOURCES, Resource};
use drover_core::guest::levers::{self, Awaited, Lever, Next, Refusal};
use jiff::SignedDuration;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::followed::{Followed, Source};
use crate::api::{Api, ApiError};
use crate::survey::{groups, version_of};

mod followed;
mod keeper;

pub use keeper::{Keeper, KeeperOptions};

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot {act}: {cause}")]
    Api { act: String, cause: ApiError },
    #[error("there is no Cluster {0}, or the cluster that was asked has no Cluster API")]
    NotThere(String),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(
        "{why}; {cluster} is paused, so that no other machine goes the same way: mend it, then drover upgrade resume {cluster}"
    )]
    Halted { why: String, cluster: String },
}

/// What was refused is tried again after this time.
const AGAIN: Duration = Duration::from_secs(5);
/// Until something is told.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// One Cluster, for somebody who changes it.
#[derive(Debug)]
pub struct ClusterVerbs {
    api: Api,
    clock: Clock,
    namespace: String,
    name: String,
}

/// What became of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The objects that ask for the version now.
    pub raised: Vec<ObjectRef>,
    /// What was left to an operator before, and is so no longer.
    pub taken_back: Option<String>,
}

/// What is known of it, and where an API server has that.
struct Look {
    cluster: Cluster,
    paths: BTreeMap<&'static str, String>,
    /// All that was read.
    sources: Vec<Source>,
}

/// What may pass, in a sentence; else the error.
fn passing(error: ClusterError) -> Result<String, ClusterError> {
    match error {
        ClusterError::Api { act, cause } if cause.code() != Some(403) => {
            Ok(format!("trying again: cannot {act}: {cause}"))
        }
        error => Err(error),
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl ClusterVerbs {
    pub fn on(client: Client, clock: Clock, namespace: &str, name: &str) -> Self {
        ClusterVerbs { api: Api::new(client, clock), clock, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// What would be raised, or why nothing would; nothing is written.
    pub async fn would_start(&self, to: &str) -> Result<Vec<ObjectRef>, ClusterError> {
        let look = self.look().await?;
        let levers = levers::start(&look.cluster, self.own(&look)?, to)?;
        Ok(levers.into_iter().map(|lever| lever.object).collect())
    }

    /// Raises the cluster, or the part of it whose turn it is. What was left to an operator for an older version is taken back.
    pub async fn start(&self, to: &str) -> Result<Started, ClusterError> {
        let mut look = self.look().await?;
        levers::start(&look.cluster, self.own(&look)?, to)?;
        let taken_back = self.take_back(&look, to).await?;
        if taken_back.is_some() {
            look = self.look().await?;
        }
        let mut raised = Vec::new();
        for lever in levers::start(&look.cluster, self.own(&look)?, to)? {
            self.pull(&look, &lever).await?;
            raised.push(lever.object);
        }
        Ok(Started { raised, taken_back })
    }

    /// The version that was left to an operator, if it was older than this.
    async fn take_back(&self, look: &Look, to: &str) -> Result<Option<String>, ClusterError> {
        let own = self.own(look)?;
        let Some(lever) = levers::take_back(own, to) else { return Ok(None) };
        self.pull(look, &lever).await?;
        Ok(Some(levers::asked(own).to_owned()))
    }

    /// What speaks against leaving it to an operator, but for whose turn it is; nothing is written.
    pub async fn would_leave(&self, to: &str) -> Result<(), ClusterError> {
        match self.would_start(to).await {
            Ok(_) => Ok(()),
            Err(ClusterError::Refused(refusal)) if refusal.passes() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Leaves it to an operator to raise the cluster, when its turn comes.
    pub async fn leave(&self, to: &str) -> Result<(), ClusterError> {
        let look = self.look().await?;
        self.pull(&look, &levers::leave(self.own(&look)?, to)?).await.map(drop)
    }

    /// Stays with an upgrade until nothing differs: raises what is next when its turn comes, and pauses the cluster if a new machine fails or
    /// takes longer than `limit`. It looks when something has changed.
    pub async fn follow(
        &self,
        to: &str,
        limit: SignedDuration,
        tell: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), ClusterError> {
        let mut told = String::new();
        let mut say = |sentence: String| {
            if told != sentence {
                tell(&sentence);
                told = sentence;
            }
        };
        let look = loop {
            match self.look().await {
                Ok(look) => break look,
                Err(error) => say(passing(error)?),
            }
            self.clock.sleep(AGAIN).await;
        };
        if let Some(left) = self.take_back(&look, to).await? {
            say(format!("it is no longer left to an operator to raise it to {left}"));
        }
        let mut followed = Followed::of(&self.api, self.clock, look.sources.clone());
        let (mut awaited, steady) = (Awaited::default(), self.clock.steady());
        let mut wait = FOR_EVER;
        loop {
            for (act, cause) in followed.next(self.clock, wait).await {
                say(passing(ClusterError::Api { act, cause })?);
            }
            wait = FOR_EVER;
            if !followed.is_whole() {
                continue;
            }
            let now =
                Look { cluster: followed.cluster(self.clock.now()), paths: look.paths.clone(), sources: Vec::new() };
            awaited.look(&now.cluster, self.own(&now)?, to, steady.now());
            match self.go_on(&now, to, (&awaited, limit), &mut followed, &mut say).await {
                Ok(true) => return Ok(()),
                Ok(false) => wait = awaited.next(limit).unwrap_or(FOR_EVER),
                // Whoever lost a race, or an answer, tries again.
                Err(error) => {
                    say(passing(error)?);
                    wait = AGAIN;
                }
            }
        }
    }

    /// One step; true if nothing is left to be done.
    async fn go_on(
        &self,
        look: &Look,
        to: &str,
        (awaited, limit): (&Awaited, SignedDuration),
        followed: &mut Followed,
        say: &mut (dyn FnMut(String) + Send),
    ) -> Result<bool, ClusterError> {
        match levers::follow(&look.cluster, self.own(look)?, to, awaited, limit)? {
            Next::Done => return Ok(true),
            Next::Waits(waiting) => say(waiting.sentence),
            Next::Raise(levers) => {
                for lever in levers {
                    followed.learn(&lever.object.kind, &self.pull(look, &lever).await?);
                    say(format!("{} is raised to {to}", lever.object.in_words()));
                }
            }
            Next::Halt { lever, why } => {
                self.pull(look, &lever).await?;
                let cluster = format!("cluster/{}/{}", self.namespace, self.name);
                return Err(ClusterError::Halted { why, cluster });
            }
        }
        Ok(false)
    }

    /// Cluster API leaves the cluster as it is, until it is resumed.
    pub async fn pause(&self) -> Result<(), ClusterError> {
        let look = self.look().await?;
        self.pull(&look, &levers::pause(self.own(&look)?)?).await.map(drop)
    }

    pub async fn resume(&self) -> Result<(), ClusterError> {
        let look = self.look().await?;
        self.pull(&look, &levers::resume(self.own(&look)?)?).await.map(drop)
    }

    fn own<'a>(&self, look: &'a Look) -> Result<&'a Guest, ClusterError> {
        let own = look.cluster.cluster_api.clusters.get(&self.namespace, &self.name);
        own.ok_or_else(|| ClusterError::NotThere(format!("{}/{}", self.namespace, self.name)))
    }

    async fn look(&self) -> Result<Look, ClusterError> {
        let act = |cause| ClusterError::Api { act: "ask which kinds the API server has".to_owned(), cause };
        let served = groups(&self.api).await.map_err(act)?;
        let mut look = Look { cluster: levers::seen(self.clock.now()), paths: BTreeMap::new(), sources: Vec::new() };
        let mut spaces = vec![self.namespace.clone()];
        let mut next = 0;
        // Clusters that come before this one may be elsewhere, and others before those.
        while let Some(space) = spaces.get(next).cloned() {
            next += 1;
            for resource in RESOURCES.iter().filter(|resource| levers::READ.contains(&resource.kind)) {
                self.list(resource, &served, &space, &mut look).await?;
            }
            let named = look.cluster.cluster_api.clusters.iter().flat_map(levers::predecessors);
            spaces
                .extend(named.map(|(space, _)| space).filter(|space| !spaces.contains(space)).collect::<BTreeSet<_>>());
        }
        Ok(look)
    }

    async fn list(
        &self,
        resource: &Resource,
        served: &BTreeMap<String, BTreeSet<String>>,
        space: &str,
        look: &mut Look,
    ) -> Result<(), ClusterError> {
        let Some(version) = version_of(resource, served) else { return Ok(()) };
        let (group, plural) = (resource.group, resource.plural);
        let source = Source::of(resource, version, space);
        let path = source.path.clone();
        let act = |cause| ClusterError::Api { act: format!("list {plural} in {space}"), cause };
        let answer = match self.api.get(&path).await {
            Err(error) if error.code() == Some(404) => return Ok(()),
            answer => answer.map_err(act)?,
        };
        let unreadable = |error: serde_json::Error| act(ApiError::Unreadable(error.to_string()));
        let list: List<'_> = serde_json::from_slice(&answer).map_err(unreadable)?;
        for item in list.items {
            look.cluster.take_item(&format!("{group}/{version}"), resource.bare_kind(), item.get().as_bytes());
        }
        look.sources.push(source);
        look.paths.entry(resource.kind).or_insert(path);
        Ok(())
    }

    /// The answer is the object as it is then.
    async fn pull(&self, look: &Look, lever: &Lever) -> Result<Bytes, ClusterError> {
        let Lever { object, patch } = lever;
        let act = |cause| ClusterError::Api { act: format!("change {}", object.in_words()), cause };
        let Some(path) = look.paths.get(object.kind.as_str()) else {
            return Err(ClusterError::NotThere(object.in_words()));
        };
        let path = format!("{path}/{}?fieldManager={FIELD_MANAGER}", object.name);
        self.api.patch(&path, patch).await.map_err(act)
    }
}
