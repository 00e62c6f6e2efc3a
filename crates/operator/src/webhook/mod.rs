//! Admission: the API server asks here whether an Upgrade, and what it rests on, may be written.
//!
//! What is answered is decided in [`drover_core::harvester::admission`]. Here are the certificate, the registration with the
//! API server, and the server that looks at the cluster and answers in time.

pub(crate) mod certificate;
mod registrar;
mod server;

use std::net::SocketAddr;

use drover_clock::Clock;
pub use drover_core::harvester::admission::registration::Place;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch::channel;

use crate::api::Api;
use registrar::Registrar;

#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// Where to answer.
    pub listen: SocketAddr,
    /// Where the API server finds that.
    pub place: Place,
    /// Where the Secret with the certificate is kept.
    pub namespace: String,
    pub clock: Clock,
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("cannot listen on {address} for admission reviews: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
}

/// The webhooks of one process; they listen already.
#[derive(Debug)]
pub struct Webhooks {
    listener: TcpListener,
    options: WebhookOptions,
}

impl Webhooks {
    pub async fn bind(options: WebhookOptions) -> Result<Self, WebhookError> {
        let address = options.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| WebhookError::Listen { address, source })?;
        Ok(Webhooks { listener, options })
    }

    /// Where they answer: the port is the one that the system has chosen, where none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.options.listen)
    }

    /// The same, found by the API server elsewhere.
    pub fn at(mut self, place: Place) -> Self {
        self.options.place = place;
        self
    }

    /// Answers until `stop` ends. The registration stays: whoever takes over answers under the same name, and an Upgrade is not
    /// taken unasked meanwhile.
    pub async fn run(self, client: Client, stop: impl Future<Output = ()>) {
        let (tls, latest) = channel(None);
        let WebhookOptions { place, namespace, clock, .. } = self.options;
        let registrar = Registrar::new(Api::new(client.clone(), clock), clock, namespace, place, tls);
        tokio::select! {
            biased;
            () = stop => {}
            () = registrar.run() => {}
            () = server::answer(self.listener, latest, client, clock) => {}
        }
    }
}
