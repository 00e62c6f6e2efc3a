//! What happens to a cluster that is served, at its moments: everything but what is done to an operator's requests,
//! which go elsewhere. Guest clusters are served beside it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use drover_api::cluster_api::secrets;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::{ServeError, Served, serve};
use drover_corral::world::{World, WorldOptions};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::Status;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use crate::acts;
use crate::faults::{Fault, Moment};
use crate::guests::{OpenGuests, Servers, Updates};
use crate::programs::{Way, Ways};
use crate::scenario::Scenario;
use crate::scenario::pattern::Pattern;

/// Why guest clusters are not served.
#[derive(Debug, thiserror::Error)]
pub enum GuestsError {
    #[error("a guest cluster cannot be set up: {}", .0.message)]
    SetUp(Box<Status>),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// The guest clusters of a scenario, each on an address of its own, until this is dropped.
#[derive(Debug, Default)]
pub struct ServedGuests {
    pub servers: Servers,
    ways: BTreeMap<(String, String), String>,
    _served: Vec<Served>,
    _tasks: JoinSet<()>,
}

impl ServedGuests {
    /// Begins; the machines of the cluster that manages them are theirs, too.
    pub async fn start(
        scenario: &Scenario,
        management: &ApiServer,
        options: Options,
        world: &mut WorldOptions,
    ) -> Result<Self, GuestsError> {
        let servers = scenario.guest_servers(options);
        scenario.set_up_guests(&servers).map_err(GuestsError::SetUp)?;
        let (mut ways, mut served, mut tasks) = (BTreeMap::new(), Vec::new(), JoinSet::new());
        for (key, server) in &servers {
            let one = serve(server.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
            ways.insert(key.clone(), one.kubeconfig().to_owned());
            served.push(one);
            world.guests.insert(key.clone(), server.clone());
            tasks.spawn(World::run(server.clone(), Scenario::guest_world()));
        }
        tasks.spawn(lead(management.clone(), ways.clone()));
        Ok(ServedGuests { servers, ways, _served: served, _tasks: tasks })
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        !self.servers.is_empty()
    }

    /// How programs in pods of the cluster that manages them reach it, and them.
    pub fn ways(&self, management: &ApiServer) -> Ways {
        let (servers, ways, management) = (self.servers.clone(), self.ways.clone(), management.clone());
        Arc::new(move |actor| Way {
            client: management.client(actor),
            updates: (!servers.is_empty()).then(|| {
                let client = management.client("control-plane-upgrade");
                let (management, servers, ways) = (management.clone(), servers.clone(), ways.clone());
                let guests = Arc::new(OpenGuests { management, servers, ways });
                Updates { client: Arc::new(move || client.clone()), guests, hears: None }
            }),
            died: Box::pin(std::future::pending()),
        })
    }
}

/// Writes into the Secrets of guest clusters where these are served, those of clusters that are made meanwhile as well.
async fn lead(management: ApiServer, ways: BTreeMap<(String, String), String>) {
    // Before the first look, so that nothing slips through between the two.
    let mut changes = management.changes();
    let direct = management.direct("corral");
    let point = |(namespace, name): &(String, String), way: &String| {
        let secret = direct.get::<Secret>(Some(namespace), &format!("{name}{}", secrets::KUBECONFIG));
        let Ok(Some(mut secret)) = secret else { return };
        let way = ByteString(way.as_bytes().to_vec());
        let data = secret.data.get_or_insert_default();
        if data.get(secrets::VALUE) != Some(&way) {
            data.insert(secrets::VALUE.to_owned(), way);
            // Whoever changed it meanwhile is heard of next.
            let _ = direct.update(&secret);
        }
    };
    ways.iter().for_each(|(key, way)| point(key, way));
    while let Some(change) = changes.recv().await {
        if let Some(name) = change.name.strip_suffix(secrets::KUBECONFIG).filter(|_| change.resource.kind == "Secret") {
            let key = (change.namespace.clone(), name.to_owned());
            ways.get(&key).into_iter().for_each(|way| point(&key, way));
        }
    }
}

/// Lets what the scenario says happen, until all of it has. `guests` are the servers of guest clusters.
pub async fn play(server: ApiServer, scenario: Scenario, guests: Servers) {
    let mut awaited = Vec::new();
    let mut tasks = JoinSet::new();
    for incident in scenario.faults.into_iter().filter(|incident| !incident.what.is_done_to_a_write()) {
        match incident.at {
            Moment::Once(pattern) => awaited.push((pattern, incident.what)),
            Moment::Time(span) => {
                let (server, guests) = (server.clone(), guests.clone());
                tasks.spawn(async move {
                    server.clock().sleep(span.0).await;
                    acts::perform(&incident.what, &server, &guests).await;
                });
            }
            // The writes of an operator that runs elsewhere are not counted.
            Moment::Write(_) | Moment::Purpose(_) => {}
        }
    }
    let (met, mut once) = unbounded_channel();
    let mut left = awaited.len();
    let awaited: Mutex<Vec<(Pattern, Fault)>> = Mutex::new(awaited);
    server.observe(Box::new(move |commit| {
        let Ok(mut awaited) = awaited.lock() else { return };
        let Some(after) = commit.after.filter(|_| !awaited.is_empty()) else { return };
        let Ok(object) = serde_json::from_slice::<Value>(after) else { return };
        let kind = commit.resource.kind.as_str();
        let is_so = |(pattern, _): &(Pattern, Fault)| pattern.fits(kind, commit.namespace, commit.name, &object);
        while let Some(index) = awaited.iter().position(is_so) {
            // Nobody may wait for it any more.
            let _ = met.send(awaited.remove(index).1);
        }
    }));
    while left > 0 {
        let Some(fault) = once.recv().await else { break };
        acts::perform(&fault, &server, &guests).await;
        left -= 1;
    }
    while tasks.join_next().await.is_some() {}
}
