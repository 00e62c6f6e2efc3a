//! One place where clients are made.

use std::path::PathBuf;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Where to connect to; what is not given is found as kubectl would.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// The API server's URL, instead of the one that was found.
    pub server: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read the kubeconfig {path}: {cause}; check the path or give another with --kubeconfig")]
    Kubeconfig { path: String, cause: String },
    #[error("no cluster to connect to: {cause}; give one with --kubeconfig FILE or $KUBECONFIG")]
    NoCluster { cause: String },
    #[error("{url} is no URL of an API server: {cause}")]
    Server { url: String, cause: String },
    #[error("cannot make a client for {server}: {cause}")]
    Client { server: String, cause: String },
}

/// A client without kube's own retries: it would repeat a refused eviction for minutes, and a write that timed out
/// although it happened. Reads are retried where they are made; a refused write is decided on anew.
pub async fn connect(connection: &Connection) -> Result<Client, ConnectError> {
    let mut config = read_config(connection).await?;
    if let Some(url) = &connection.server {
        let unusable =
            |cause: http::uri::InvalidUri| ConnectError::Server { url: url.clone(), cause: cause.to_string() };
        config.cluster_url = url.parse().map_err(unusable)?;
    }
    client_of(config)
}

/// A client for the cluster that the text of a kubeconfig leads to.
pub async fn connect_with(kubeconfig: &str) -> Result<Client, ConnectError> {
    let unreadable = |cause: kube::config::KubeconfigError| ConnectError::Kubeconfig {
        path: "of the guest cluster".to_owned(),
        cause: cause.to_string(),
    };
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(unreadable)?;
    let options = KubeConfigOptions::default();
    client_of(Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unreadable)?)
}

fn client_of(mut config: Config) -> Result<Client, ConnectError> {
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    // Watches stay open longer than any one request: each request has a timeout of its own instead.
    config.read_timeout = None;
    let server = config.cluster_url.to_string();
    let builder =
        ClientBuilder::try_from(config).map_err(|error| ConnectError::Client { server, cause: error.to_string() })?;
    Ok(builder.build())
}

async fn read_config(connection: &Connection) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    let Some(path) = &connection.kubeconfig else {
        let found = match connection.context {
            Some(_) => Config::from_kubeconfig(&options).await.map_err(|error| error.to_string()),
            None => Config::infer().await.map_err(|error| error.to_string()),
        };
        return found.map_err(|cause| ConnectError::NoCluster { cause });
    };
    let unreadable = |cause: kube::config::KubeconfigError| ConnectError::Kubeconfig {
        path: path.display().to_string(),
        cause: cause.to_string(),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(unreadable)?;
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unreadable)
}
