//! A call to a webhook: one POST over TLS.

use std::{io, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use drover_clock::Clock;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

use crate::apiserver::{
    label_selector,
    object::{Object, at},
    store::Store,
};

/// The most that a webhook may answer.
const ANSWER_LIMIT: usize = 3 * 1024 * 1024;

/// Where a webhook is.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// As it stands in errors.
    url: String,
    /// What is connected to.
    address: (String, u16),
    /// What its certificate has to be for.
    host: String,
    path: String,
    authority: Vec<u8>,
}

impl Endpoint {
    /// From a `clientConfig`: a URL, or a service with endpoints that can be reached.
    pub fn find(store: &Store, config: &Value, seconds: u64) -> Result<Self, String> {
        let authority = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).unwrap_or_default();
        if let Some(url) = config["url"].as_str() {
            return Endpoint::at(url, authority);
        }
        let service = &config["service"];
        let [namespace, name, path] =
            ["namespace", "name", "path"].map(|field| service[field].as_str().unwrap_or_default());
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        let host = format!("{name}.{namespace}.svc");
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        let url = format!("https://{host}:{port}{path}");
        let address = service_address(store, namespace, name, port)
            .map_err(|why| format!("Post \"{url}?timeout={seconds}s\": {why}"))?;
        Ok(Endpoint { url, address, host, path, authority })
    }

    fn at(url: &str, authority: Vec<u8>) -> Result<Self, String> {
        let unusable = || format!("Post {url:?}: the webhook's URL cannot be used");
        let uri: http::Uri = url.parse().map_err(|_| unusable())?;
        let host = uri.host().ok_or_else(unusable)?.trim_matches(['[', ']']).to_string();
        let port = uri.port_u16().unwrap_or(443);
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
        Ok(Endpoint { url: url.into(), address: (host.clone(), port), host, path, authority })
    }
}

/// The first ready endpoint behind a port of a service.
fn service_address(store: &Store, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let key = format!("{namespace}/{name}");
    let found = store.find("", "services").and_then(|services| services.objects.get(key.as_str()));
    let service = found.and_then(|stored| stored.object().ok()).ok_or_else(|| format!("service {name:?} not found"))?;
    let ports = at(&service, &["spec", "ports"]).and_then(Value::as_array);
    let declared = ports.into_iter().flatten().find(|declared| declared["port"] == port);
    let declared = declared.ok_or_else(|| format!("service {name:?} has no port {port}"))?;
    if let Some(host) = at(&service, &["spec", "externalName"]).and_then(Value::as_str) {
        return Ok((host.into(), port));
    }
    let selector = serde_json::json!({ "matchLabels": { "kubernetes.io/service-name": name } });
    let wanted = label_selector::from_object(&selector);
    let slices = store.find("discovery.k8s.io", "endpointslices").map(|found| &found.objects);
    for (key, stored) in slices.into_iter().flatten() {
        let is_of_service =
            key.starts_with(&format!("{namespace}/")) && wanted.iter().all(|label| label.holds(&stored.labels));
        if let Some(slice) = is_of_service.then(|| stored.object().ok()).flatten()
            && let Some(address) = ready_address(&slice, &declared["name"])
        {
            return Ok(address);
        }
    }
    Err(format!("no endpoints available for service {name:?}"))
}

fn ready_address(slice: &Object, port_name: &Value) -> Option<(String, u16)> {
    let ports = slice.get("ports")?.as_array()?;
    let name = port_name.as_str().unwrap_or_default();
    let port = ports.iter().find(|port| port["name"].as_str().unwrap_or_default() == name)?["port"].as_u64()?;
    let endpoints = slice.get("endpoints")?.as_array()?;
    let ready = endpoints.iter().find(|endpoint| endpoint["conditions"]["ready"] != false)?;
    Some((ready["addresses"][0].as_str()?.into(), u16::try_from(port).ok()?))
}

/// Sends a review and reads the answer.
pub(super) async fn post(clock: Clock, endpoint: &Endpoint, body: &Value, seconds: u64) -> Result<Value, String> {
    let url = format!("{}?timeout={seconds}s", endpoint.url);
    let failed = |why: String| format!("Post {url:?}: {why}");
    let asked = exchange(endpoint, body, seconds);
    let limit = clock.sleep(Duration::from_secs(seconds));
    tokio::select! {
        biased;
        answer = asked => answer.map_err(failed),
        () = limit => Err(failed("context deadline exceeded".into())),
    }
}

async fn exchange(endpoint: &Endpoint, body: &Value, seconds: u64) -> Result<Value, String> {
    let (host, port) = &endpoint.address;
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connect: connection refused".into(),
            _ => error.to_string(),
        };
        format!("dial tcp {host}:{port}: {why}")
    })?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| error.to_string())?;
    let stream = connector(&endpoint.authority)?
        .connect(name, stream)
        .await
        .map_err(|error| format!("tls: failed to verify certificate: x509: {error}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let talking = tokio::spawn(connection);
    let separator = if endpoint.path.contains('?') { '&' } else { '?' };
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}{separator}timeout={seconds}s", endpoint.path))
        .header(header::HOST, &endpoint.host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string());
    let read = match answer {
        Ok(answer) => {
            let code = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
            body.map(|body| (code, body.to_bytes())).map_err(|error| error.to_string())
        }
        Err(why) => Err(why),
    };
    talking.abort();
    let (code, bytes) = read?;
    if !code.is_success() {
        return Err(format!(
            "an error on the server (\"{}\") has prevented the request from succeeding",
            String::from_utf8_lossy(&bytes).trim()
        ));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
}

/// Trusts the webhook's own authority, and no other.
fn connector(authority: &[u8]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        let certificate = certificate.map_err(|error| format!("the caBundle cannot be read: {error}"))?;
        roots.add(certificate).map_err(|error| format!("the caBundle cannot be used: {error}"))?;
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
