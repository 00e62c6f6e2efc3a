//! The API server on a socket, for `kubectl` and every other client: TLS, a bearer token, HTTP/1.1 and HTTP/2.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use kube::client::Body;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tower::{Service as _, ServiceExt as _};

use self::certificate::Certificate;
use self::token::Token;
use crate::apiserver::{ApiBody, ApiServer};

mod certificate;
mod kubeconfig;
mod token;

#[cfg(test)]
mod tests;

/// A client that does not finish its greeting in this time is not waited for.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait before accepting again when the machine is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The most that a request's body may have, as in the original.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot make a certificate for {address}: {source}")]
    Certificate { address: SocketAddr, source: rcgen::Error },
    #[error("cannot set up TLS for {address}: {source}")]
    Tls { address: SocketAddr, source: tokio_rustls::rustls::Error },
    #[error("cannot draw a token: the system gives no random numbers")]
    Random,
    #[error("cannot write the kubeconfig {path}: {source}")]
    Kubeconfig { path: PathBuf, source: io::Error },
}

/// A server on a socket. It is served until this is dropped.
#[derive(Debug)]
pub struct Served {
    addr: SocketAddr,
    kubeconfig: String,
    accepting: JoinHandle<()>,
}

impl Served {
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What a client needs: address, certificate authority and token, as a kubeconfig.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Writes the kubeconfig in one step, readable by its owner only.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), ServeError> {
        kubeconfig::write(path, &self.kubeconfig)
            .map_err(|source| ServeError::Kubeconfig { path: path.to_path_buf(), source })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves `server` on `listen`; port 0 takes a free one.
pub async fn serve(server: ApiServer, listen: SocketAddr) -> Result<Served, ServeError> {
    let at = |source| ServeError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(at)?;
    let addr = listener.local_addr().map_err(at)?;
    let certificate =
        Certificate::for_address(addr.ip()).map_err(|source| ServeError::Certificate { address: addr, source })?;
    let token = Token::draw().ok_or(ServeError::Random)?;
    server.set_token_secret(token.text().as_bytes());
    let kubeconfig = kubeconfig::render(addr, certificate.authority(), token.text());
    let tls = certificate.into_tls().map_err(|source| ServeError::Tls { address: addr, source })?;

    let door = Door { server, token: Arc::new(token), tls: TlsAcceptor::from(Arc::new(tls)) };
    Ok(Served { addr, kubeconfig, accepting: tokio::spawn(door.accept(listener)) })
}

/// Where clients come in.
#[derive(Clone)]
struct Door {
    server: ApiServer,
    token: Arc<Token>,
    tls: TlsAcceptor,
}

impl Door {
    async fn accept(self, listener: TcpListener) {
        // Connections end with the task that accepts them.
        let mut connections = tokio::task::JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    connections.spawn(self.clone().speak(stream, from));
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn speak(self, stream: TcpStream, from: SocketAddr) {
        // A watch's events are small, and each is wanted at once.
        let _ = stream.set_nodelay(true);
        let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, self.tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!("{from} could not greet: {error}"),
            Err(_) => return tracing::debug!("{from} did not finish its greeting"),
        };
        let service = hyper::service::service_fn(move |request| {
            let door = self.clone();
            async move { Ok::<_, Infallible>(door.answer(request).await) }
        });
        let mut speech = auto::Builder::new(TokioExecutor::new());
        speech.http1().timer(TokioTimer::new());
        speech.http2().timer(TokioTimer::new());
        if let Err(error) = speech.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
            tracing::debug!("the connection from {from} ended: {error}");
        }
    }

    fn is_of_a_service_account(&self, authorization: &str) -> bool {
        let token = authorization.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        token.is_some_and(|(_, token)| self.server.user_of(token.trim()).is_some())
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Either<ApiBody, Full<Bytes>>> {
        let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if !sent.is_some_and(|sent| self.token.admits(sent) || self.is_of_a_service_account(sent)) {
            return refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
        }
        let actor = actor(&request).to_string();
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let message = format!("Request entity too large: limit is {BODY_LIMIT}");
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message);
            }
            Err(error) => {
                let message = format!("the body could not be read: {error}");
                return refusal(StatusCode::BAD_REQUEST, "BadRequest", &message);
            }
        };
        let mut service = self.server.service(&actor);
        match service.ready().await {
            Ok(service) => match service.call(Request::from_parts(head, Body::from(body))).await {
                Ok(response) => response.map(Either::Left),
                Err(never) => match never {},
            },
            Err(never) => match never {},
        }
    }
}

/// The first word of the User-Agent, such as `kubectl`.
fn actor(request: &Request<Incoming>) -> &str {
    let agent = request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    agent.and_then(|agent| agent.split(['/', ' ']).next()).filter(|word| !word.is_empty()).unwrap_or("unknown")
}

fn refusal<B>(code: StatusCode, reason: &str, message: &str) -> Response<Either<B, Full<Bytes>>> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    let mut response = Response::new(Either::Right(Full::from(format!("{status}\n"))));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
