//! The two sides: Corral, fresh for every script and on a clock of its own, and one real kube-apiserver for all.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_lab::{Lab, LabOptions};
use http::{HeaderValue, Request, Response, header};
use kube::Client;
use kube::client::Body;
use tokio::runtime::{Builder, Runtime};

use crate::answers::{Answered, play};
use crate::error::{Error, Result};
use crate::script::Script;

/// Whom the servers think that they talk to; managedFields tell.
const ACTOR: &str = "difference";

/// A server that answers scripts.
pub trait Side {
    fn answers(&self, script: &Script) -> Result<Vec<Answered>>;
}

/// The embedded server, on a virtual clock.
#[derive(Debug, Default)]
pub struct Corral;

impl Side for Corral {
    fn answers(&self, script: &Script) -> Result<Vec<Answered>> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().map_err(Error::Runtime)?;
        runtime.block_on(async {
            let epoch = "2026-01-01T12:00:00Z".parse().unwrap_or_default();
            let clock = Clock::virtual_from(epoch);
            let server =
                ApiServer::new(Options { clock, seed: 1, latency: Duration::from_millis(1), watch_window: 10_000 });
            let connection = Connection { client: server.client(ACTOR), server: Server::Corral(&server) };
            play(&connection, script, &namespace(script, 1)).await
        })
    }
}

/// A real etcd and kube-apiserver, started for this.
pub struct Real {
    lab: Lab,
    client: Client,
    runtime: Runtime,
    plays: Cell<usize>,
}

impl fmt::Debug for Real {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Real").field("lab", &self.lab).finish_non_exhaustive()
    }
}

impl Real {
    pub fn start() -> Result<Self> {
        let lab = Lab::up(&LabOptions { api_server_only: true, ..LabOptions::default() })?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
        let kubeconfig = Some(lab.kubeconfig().to_owned());
        let client = runtime.block_on(drover_operator::connect(&drover_operator::Connection {
            kubeconfig,
            context: None,
            server: None,
        }))?;
        Ok(Real { lab, client, runtime, plays: Cell::new(0) })
    }
}

impl Side for Real {
    fn answers(&self, script: &Script) -> Result<Vec<Answered>> {
        self.plays.set(self.plays.get() + 1);
        let connection = Connection { client: self.client.clone(), server: Server::Real(&self.lab) };
        self.runtime.block_on(play(&connection, script, &namespace(script, self.plays.get())))
    }
}

/// Another one for each play, so that a script can be played twice to one server.
fn namespace(script: &Script, play: usize) -> String {
    format!("ns-{}-{play}", script.name)
}

/// A client of one of them.
pub(crate) struct Connection<'a> {
    client: Client,
    server: Server<'a>,
}

enum Server<'a> {
    Corral(&'a ApiServer),
    Real(&'a Lab),
}

impl Connection<'_> {
    pub async fn send(&self, mut request: Request<Body>) -> kube::Result<Response<Body>> {
        request.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static(ACTOR));
        self.client.send(request).await
    }

    pub fn compact(&self) -> Result<()> {
        match self.server {
            Server::Corral(server) => server.compact(),
            Server::Real(lab) => lab.compact()?,
        }
        Ok(())
    }
}
