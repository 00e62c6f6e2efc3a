//! Keeps TanzuKubernetesClusters as their owners ask for them: sees, decides with [`drover_core::guest::tanzu`], acts.
//!
//! Each cluster is decided on by itself: one that is refused or unreachable holds up no other.

use std::sync::Arc;

use drover_api::tanzu::NAMESPACE;
use drover_clock::Clock;
use drover_core::guest::tanzu::Settings;
use kube::Client;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use super::Guests;
use super::ear::Ear;
use super::ledger::PARTS;
use super::shift::Shift;
use crate::api::Api;
use crate::election::{Candidate, ElectionOptions, resign};
use crate::follow;

/// How many clusters are updated at once if nothing else is said.
pub const LIMIT: usize = 5;

#[derive(Debug, Clone)]
pub struct ClustersOptions {
    /// Unique to this process.
    pub identity: String,
    pub election: ElectionOptions,
    pub settings: Settings,
    pub guests: Arc<dyn Guests>,
    /// So many clusters are updated at once; none: all that are asked for.
    pub limit: Option<usize>,
    pub clock: Clock,
}

impl ClustersOptions {
    pub fn new(identity: &str, settings: Settings, guests: Arc<dyn Guests>, clock: Clock) -> Self {
        let election = ElectionOptions::new(NAMESPACE, "drover-guest");
        ClustersOptions { identity: identity.to_owned(), election, settings, guests, limit: Some(LIMIT), clock }
    }
}

/// One such process.
pub struct Clusters {
    client: Client,
    options: ClustersOptions,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clusters").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Clusters {
    pub fn new(client: Client, options: ClustersOptions) -> Self {
        Clusters { client, options }
    }

    /// Runs until `stop` ends, then gives the Lease back. Dropped before that, it ends as a crashed process would.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let ClustersOptions { identity, election, clock, .. } = self.options.clone();
        let api = Api::new(self.client, clock);
        let (desk, news) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for part in PARTS {
            let ear = Ear { part, to: desk.clone(), listed: Vec::new() };
            tasks.spawn(follow::follow(api.clone(), clock, part.followed(), ear));
        }
        let (inbox, turns) = unbounded_channel();
        let (candidate, leading_until) = Candidate::new(api.clone(), clock, election.clone(), identity.clone(), inbox);
        tasks.spawn(candidate.stand());
        let shift = Shift::new(api.clone(), self.options, desk, leading_until);
        tokio::select! {
            biased;
            () = stop => {}
            () = shift.run(news, turns) => {}
        }
        drop(tasks);
        resign(&api, &election, &identity).await;
    }
}
