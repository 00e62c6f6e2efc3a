//! Asks channels over HTTP: one GET, no redirect followed, over the proxy that the environment names, trusting the roots of the
//! system.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use drover_core::decision::Question;
use drover_core::plan::Answer;
use futures::future::BoxFuture;
use http::{Request, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::channels::Channels;

/// Which cluster asks.
const CLUSTER_ID: &str = "X-SUC-Cluster-ID";
/// What it has followed so far.
const LATEST_VERSION: &str = "X-SUC-Latest-Version";

#[derive(Debug, Clone)]
pub struct HttpChannels {
    proxies: Arc<Matcher>,
    /// Read from the system when the first channel is asked.
    trusted: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Default for HttpChannels {
    fn default() -> Self {
        HttpChannels { proxies: Arc::new(Matcher::from_env()), trusted: Arc::default() }
    }
}

impl Channels for HttpChannels {
    fn ask(&self, question: Question, cluster: Option<String>) -> BoxFuture<'static, Result<Answer, String>> {
        let channels = self.clone();
        Box::pin(async move { channels.get(&question, cluster.as_deref()).await })
    }
}

impl HttpChannels {
    async fn get(&self, question: &Question, cluster: Option<&str>) -> Result<Answer, String> {
        let uri: Uri = question.url.parse().map_err(|error| format!("it is no URL: {error}"))?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("it is no URL that begins with http:// or https://".to_owned()),
        };
        let host = uri.host().ok_or("the URL names no host")?.to_owned();
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let proxy = self.proxies.intercept(&uri);
        let stream = match &proxy {
            Some(proxy) => over_proxy(proxy, &host, port, is_secure).await?,
            None => dial(&host, port).await?,
        };
        let request = request(&uri, question, cluster, proxy.as_ref().filter(|_| !is_secure))?;
        if !is_secure {
            return exchange(stream, request).await;
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|error| format!("{host} is no name: {error}"))?;
        let stream = TlsConnector::from(self.trusted()?).connect(name, stream).await;
        exchange(stream.map_err(|error| format!("{host} cannot be trusted: {error}"))?, request).await
    }

    fn trusted(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(known) = self.trusted.get() {
            return Ok(known.clone());
        }
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(
                "this machine has no certificates of authorities: mount /etc/ssl, or set $SSL_CERT_FILE".to_owned()
            );
        }
        let config = trusting(roots)?;
        Ok(self.trusted.get_or_init(|| config).clone())
    }
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// `proxy` is the one that forwards the request as it is, if there is such a one.
fn request(
    uri: &Uri,
    question: &Question,
    cluster: Option<&str>,
    proxy: Option<&Intercept>,
) -> Result<Request<Empty<bytes::Bytes>>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let target = if proxy.is_some() { uri.to_string() } else { path.to_owned() };
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let mut request = Request::get(target).header(header::HOST, host).header(header::USER_AGENT, "drover");
    if let Some(cluster) = cluster {
        request = request.header(CLUSTER_ID, cluster);
    }
    if !question.latest_version.is_empty() {
        request = request.header(LATEST_VERSION, &question.latest_version);
    }
    if let Some(login) = proxy.and_then(Intercept::basic_auth) {
        request = request.header(header::PROXY_AUTHORIZATION, login.clone());
    }
    request.body(Empty::new()).map_err(|error| format!("it cannot be asked: {error}"))
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    TcpStream::connect((bare, port)).await.map_err(|error| format!("{host}:{port} cannot be reached: {error}"))
}

async fn over_proxy(proxy: &Intercept, host: &str, port: u16, is_secure: bool) -> Result<TcpStream, String> {
    let uri = proxy.uri();
    if uri.scheme_str() != Some("http") {
        return Err(format!("the proxy {uri} is not one that speaks plain HTTP"));
    }
    let mut stream = dial(uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80)).await?;
    if is_secure {
        tunnel(&mut stream, proxy, host, port).await.map_err(|cause| format!("the proxy {uri} {cause}"))?;
    }
    Ok(stream)
}

/// Asks the proxy to pass on whatever comes next.
async fn tunnel(stream: &mut TcpStream, proxy: &Intercept, host: &str, port: u16) -> Result<(), String> {
    const LONGEST_ANSWER: usize = 8192;
    let login = proxy.basic_auth().and_then(|login| login.to_str().ok());
    let login = login.map(|login| format!("Proxy-Authorization: {login}\r\n")).unwrap_or_default();
    let greeting = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{login}\r\n");
    let broke_off = |error: std::io::Error| format!("broke off: {error}");
    stream.write_all(greeting.as_bytes()).await.map_err(broke_off)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.map_err(broke_off)?);
        if answer.len() > LONGEST_ANSWER {
            return Err("does not speak HTTP".to_owned());
        }
    }
    let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    match first.split_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("refuses: {first}")),
    }
}

async fn exchange<S>(stream: S, request: Request<Empty<bytes::Bytes>>) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broke_off = |error: hyper::Error| format!("it broke off: {error}");
    let (mut sender, connection) =
        http1::Builder::new().title_case_headers(true).handshake(TokioIo::new(stream)).await.map_err(broke_off)?;
    let exchange = async move {
        let answer = sender.send_request(request).await?;
        let location = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        Ok(Answer { status: answer.status().as_u16(), location: location.map(str::to_owned) })
    };
    // The connection is driven only for as long as the answer's head takes; its body is not of interest. A server may
    // close it in the moment in which it answers: whether there is an answer, the exchange itself knows.
    let driven = async move {
        drop(connection.await);
        std::future::pending().await
    };
    tokio::select! {
        biased;
        answer = exchange => answer.map_err(broke_off),
        never = driven => never,
    }
}
