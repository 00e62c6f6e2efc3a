//! Until when the certificates of servers are good: each is dialled, shows its certificate, and is left alone.

use std::sync::Arc;
use std::time::Duration;

use drover_core::cluster::certificate::end_of;
use drover_core::cluster::{Cause, ObjectRef, Unseen};
use futures::StreamExt;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::live::{Arrival, Desk, document};

/// For one server.
const LIMIT: Duration = Duration::from_secs(3);
/// Servers that are dialled at the same time.
const AT_ONCE: usize = 32;

/// Dials servers, given by name and `address:port`, and tells of each when its certificate ends.
pub async fn look(servers: &[(String, String)], kind: &'static str, desk: Desk) {
    // Whoever cannot reach the first is outside of the network: then the others are not worth the time.
    let Some((first, rest)) = servers.split_first() else {
        let cause = Cause::Unreachable("no address of such a server is known".to_owned());
        let _ = desk.send(Arrival::Unseen(Unseen { kind: kind.to_owned(), object: None, cause }));
        return;
    };
    if let Err(why) = tell(first, kind, &desk).await {
        let object = (!why.starts_with(NO_WAY)).then(|| ObjectRef::new(kind, "", &first.0));
        let alone = object.is_none();
        let _ = desk.send(Arrival::Unseen(Unseen { kind: kind.to_owned(), object, cause: Cause::Unreachable(why) }));
        if alone {
            return;
        }
    }
    let mut others = Vec::new();
    for server in rest {
        others.push(tell_or_miss(server, kind, &desk));
    }
    futures::stream::iter(others).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn tell_or_miss(server: &(String, String), kind: &str, desk: &Desk) {
    if let Err(why) = tell(server, kind, desk).await {
        let object = Some(ObjectRef::new(kind, "", &server.0));
        let _ = desk.send(Arrival::Unseen(Unseen { kind: kind.to_owned(), object, cause: Cause::Unreachable(why) }));
    }
}

const NO_WAY: &str = "cannot be reached from here";

pub fn with_port(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

async fn tell((name, address): &(String, String), kind: &str, desk: &Desk) -> Result<(), String> {
    let shown = tokio::time::timeout(LIMIT, dial(address)).await;
    let certificate = shown.map_err(|_| format!("{NO_WAY}: no answer within {} s", LIMIT.as_secs()))??;
    let end = end_of(&certificate)?;
    let _ = desk.send(document(kind, name, json!({ "notAfter": end })));
    Ok(())
}

async fn dial(address: &str) -> Result<CertificateDer<'static>, String> {
    let unreachable = |error: std::io::Error| format!("{NO_WAY}: {error}");
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    let peer = stream.peer_addr().map_err(unreachable)?;
    let seen = Arc::new(Looker::default());
    let config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    let name = ServerName::IpAddress(IpAddr::from(peer.ip()));
    let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let shown = seen.0.lock().ok().and_then(|mut shown| shown.take());
    match (shown, shaken) {
        // A server that wants a certificate from us has shown its own by then.
        (Some(shown), _) => Ok(shown),
        (None, Err(error)) => Err(error.to_string()),
        (None, Ok(_)) => Err("it shows no certificate".to_owned()),
    }
}

/// Takes down what it is shown and trusts everything: nothing is ever sent over such a connection.
#[derive(Debug, Default)]
struct Looker(std::sync::Mutex<Option<CertificateDer<'static>>>);

impl ServerCertVerifier for Looker {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Ok(mut shown) = self.0.lock() {
            *shown = Some(certificate.clone().into_owned());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
