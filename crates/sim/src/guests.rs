//! Guest clusters without a network: their API servers are in this process, and their etcd is what the world says of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use drover_api::cluster_api::cluster::v1alpha2::Cluster;
use drover_core::guest::Member;
use drover_corral::apiserver::{ApiServer, Direct};
use drover_corral::world::annotations::{AWAY, MEMBER_REMOVAL, REFUSED, SILENT, WORKLOAD_API};
use drover_corral::world::guest::etcd::{Members, NAME, NAMESPACE};
use drover_corral::world::guest::{address, is_reachable};
use drover_operator::guest::{Etcd, Guest, Guests, Keys};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};

use crate::gate::{Gate, Manner};
use crate::sabotage::Sabotage;

/// The API servers of guest clusters, by namespace and name of their Clusters.
pub type Servers = BTreeMap<(String, String), ApiServer>;

/// Whoever asks, through the gate.
#[derive(Debug, Clone)]
pub struct SimulatedGuests {
    pub gate: Gate,
    pub servers: Servers,
    pub operator: String,
}

impl Guests for SimulatedGuests {
    fn reach(&self, keys: Keys) -> BoxFuture<'static, Result<Guest, String>> {
        let is_meant = |(namespace, name): &(String, String)| keys.kubeconfig.contains(&address(namespace, name));
        let found = self.servers.iter().find(|(key, _)| is_meant(key));
        let reached = found.ok_or("no such host".to_owned()).map(|(key, guest)| {
            let (client, management) = (self.client_of(key, guest), self.gate.server());
            let sabotage = self.gate.sabotage();
            Reached { client, management, guest: guest.clone(), key: key.clone(), sabotage }.guest()
        });
        Box::pin(async move { reached })
    }
}

impl SimulatedGuests {
    fn client_of(&self, key: &(String, String), server: &ApiServer) -> kube::Client {
        let (guest, management, key) = (server.direct("gate"), self.gate.server(), key.clone());
        let manner = Arc::new(move || match annotation(&management, &key, WORKLOAD_API).as_deref() {
            Some(SILENT) => Manner::Silent,
            Some(AWAY) => Manner::Refuses,
            _ if is_reachable(&guest) => Manner::Answers,
            _ => Manner::Refuses,
        });
        self.gate.client_of(server, &self.operator, manner)
    }

    /// What a Job does, through the gate.
    pub fn updates(self) -> Updates {
        let (gate, operator) = (self.gate.clone(), self.operator.clone());
        let client = Arc::new(move || gate.client(&operator));
        Updates { client, hears: Some(self.gate.clone()), guests: Arc::new(self) }
    }
}

/// Where the program works that updates the control plane of a guest cluster, in a Job.
#[derive(Clone)]
pub struct Updates {
    /// The cluster that manages.
    pub client: Arc<dyn Fn() -> kube::Client + Send + Sync>,
    pub guests: Arc<dyn Guests>,
    /// Counts what it waits for and fails with.
    pub hears: Option<Gate>,
}

impl std::fmt::Debug for Updates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Updates").field("guests", &self.guests).finish_non_exhaustive()
    }
}

/// Guest clusters in this process, without a gate: faults happen to nobody who asks them.
#[derive(Debug, Clone)]
pub struct OpenGuests {
    pub management: ApiServer,
    pub servers: Servers,
    /// The kubeconfigs that lead to them.
    pub ways: BTreeMap<(String, String), String>,
}

impl Guests for OpenGuests {
    fn reach(&self, keys: Keys) -> BoxFuture<'static, Result<Guest, String>> {
        let is_meant = |(key, _): &(&(String, String), &ApiServer)| self.ways.get(*key) == Some(&keys.kubeconfig);
        let reached = self.servers.iter().find(is_meant).ok_or("no such host".to_owned()).map(|(key, guest)| {
            let (client, management) = (guest.client("control-plane-upgrade"), self.management.clone());
            Reached { client, management, guest: guest.clone(), key: key.clone(), sabotage: None }.guest()
        });
        Box::pin(async move { reached })
    }
}

/// One of them.
#[derive(Clone)]
struct Reached {
    client: kube::Client,
    management: ApiServer,
    guest: ApiServer,
    /// Of the Cluster, whose annotations tell what is wrong with it.
    key: (String, String),
    /// A planted bug in whoever asks.
    sabotage: Option<Sabotage>,
}

impl std::fmt::Debug for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reached").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Reached {
    fn guest(self) -> Guest {
        Guest { client: self.client.clone(), etcd: Arc::new(SimulatedEtcd(self)) }
    }
}

fn is_cut_off(management: &ApiServer, key: &(String, String)) -> bool {
    matches!(annotation(management, key, WORKLOAD_API).as_deref(), Some(AWAY | SILENT))
}

fn annotation(management: &ApiServer, (namespace, name): &(String, String), key: &str) -> Option<String> {
    let cluster = management.direct("gate").get::<Cluster>(Some(namespace), name).ok().flatten()?;
    cluster.metadata.annotations?.remove(key)
}

/// Ends the watches of a guest cluster when it is cut off, as a network does.
pub async fn cut_off(management: ApiServer, guest: ApiServer, key: (String, String)) {
    let mut changes = management.changes();
    let mut was_away = false;
    while let Some(change) = changes.recv().await {
        if change.resource.kind == "Cluster" {
            let is_away = is_cut_off(&management, &key);
            if std::mem::replace(&mut was_away, is_away) != is_away && is_away {
                guest.cut_watches(None);
            }
        }
    }
}

/// Its members are read as they are; a change is a write like any other, to which faults happen.
#[derive(Debug, Clone)]
struct SimulatedEtcd(Reached);

impl SimulatedEtcd {
    fn change(
        &self,
        change: impl FnOnce(&Members, &Direct) -> Result<Members, String> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), String>> {
        let guests = self.0.clone();
        Box::pin(async move {
            let direct = guests.guest.direct("etcd");
            let known = direct.get::<ConfigMap>(Some(NAMESPACE), NAME).map_err(|status| status.message.clone())?;
            let after = change(&Members::read(&direct), &direct)?;
            let mut map: ConfigMap = serde_json::from_value(after.object()).map_err(|error| error.to_string())?;
            map.metadata.resource_version = known.and_then(|known| known.metadata.resource_version);
            let maps: Api<ConfigMap> = Api::namespaced(guests.client.clone(), NAMESPACE);
            maps.replace(NAME, &PostParams::default(), &map).await.map(drop).map_err(|error| error.to_string())
        })
    }
}

impl Etcd for SimulatedEtcd {
    fn members(&self) -> BoxFuture<'static, Result<Vec<Member>, String>> {
        let (guest, cut_off) = (self.0.guest.direct("etcd"), is_cut_off(&self.0.management, &self.0.key));
        let sabotage = self.0.sabotage;
        let read = |guest: &Direct| {
            let members = Members::read(guest).0.into_iter();
            let read = members.map(|one| Member {
                healthy: Members::is_well(guest, &one),
                id: one.id,
                name: one.name,
                learner: one.learner,
                leader: one.leader,
            });
            let mut read: Vec<Member> = read.collect();
            sabotage.into_iter().for_each(|sabotage| sabotage.rewrite_members(&mut read));
            read
        };
        let answer =
            if cut_off || !is_reachable(&guest) { Err("connection refused".to_owned()) } else { Ok(read(&guest)) };
        Box::pin(async move { answer })
    }

    fn move_leader(&self, _: u64, to: u64) -> BoxFuture<'static, Result<(), String>> {
        self.change(move |members, guest| members.led_by(guest, to))
    }

    fn remove(&self, id: u64) -> BoxFuture<'static, Result<(), String>> {
        let refused = annotation(&self.0.management, &self.0.key, MEMBER_REMOVAL).as_deref() == Some(REFUSED);
        self.change(move |members, guest| match refused {
            true => Err("etcdserver: request timed out".to_owned()),
            false if members.0.iter().all(|member| member.id != id) => Ok(members.clone()),
            false => members.without(guest, id),
        })
    }
}
