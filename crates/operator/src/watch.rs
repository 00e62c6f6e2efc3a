//! Watching without driving: follows the cluster by watches, and tells over HTTP what it sees. It writes nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use drover_clock::{Clock, between, later};
use drover_core::cluster::Cluster;
use drover_core::metrics;
use drover_core::status::overview;
use drover_core::why::explain_all;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use crate::api::Api;
use crate::mirror::Mirror;

/// A client that does not finish its request in this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pages are written anew no more often than this.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// And no less, since some of what is told is a matter of time: a kubelet that falls silent, a step that takes too long.
const AT_LEAST_EVERY: Duration = Duration::from_secs(15);
/// How long to wait before accepting again when the machine is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const JSON: &str = "application/json";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// How to watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// Where to answer.
    pub listen: SocketAddr,
    pub clock: Clock,
}

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
}

/// What one look came to, ready to be sent.
#[derive(Debug, Clone)]
struct Pages {
    status: Bytes,
    waits: Bytes,
    metrics: Bytes,
}

impl Pages {
    fn of(cluster: &Cluster) -> Self {
        let (overview, explanations) = (overview(cluster), explain_all(cluster));
        Pages {
            metrics: metrics::text(&overview, &explanations).into(),
            status: serde_json::to_vec(&overview).unwrap_or_default().into(),
            waits: serde_json::to_vec(&explanations).unwrap_or_default().into(),
        }
    }
}

/// A watcher that listens already.
#[derive(Debug)]
pub struct Watcher {
    listener: TcpListener,
    options: WatchOptions,
}

impl Watcher {
    pub async fn bind(options: WatchOptions) -> Result<Self, WatchError> {
        let address = options.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| WatchError::Listen { address, source })?;
        Ok(Watcher { listener, options })
    }

    /// Where it answers: the port is the one that the system has chosen, where none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.options.listen)
    }

    /// Looks and answers until `stop` ends.
    pub async fn run(self, client: Client, stop: impl Future<Output = ()>) {
        let (pages, latest) = channel(None);
        tokio::select! {
            biased;
            () = stop => {}
            () = tell_news(client, self.options.clock, pages) => {}
            () = answer(self.listener, latest) => {}
        }
    }
}

async fn tell_news(client: Client, clock: Clock, pages: Sender<Option<Arc<Pages>>>) {
    let mut mirror = Mirror::begin(Api::new(client, clock), clock).await;
    loop {
        let began = clock.now();
        if let Some(cluster) = mirror.cluster() {
            pages.send_replace(Some(Arc::new(Pages::of(cluster))));
        }
        // What many news change is worked out once, and a large cluster leaves time for other things.
        let took = between(began, clock.now());
        let next = later(began, AT_MOST_EVERY.max(took * 10));
        let at_the_latest = later(began, AT_LEAST_EVERY);
        let mut tells = false;
        loop {
            let until = if tells { next } else { at_the_latest };
            tokio::select! {
                biased;
                () = clock.sleep_until(until) => break,
                news = mirror.hear() => tells |= news,
            }
        }
    }
}

async fn answer(listener: TcpListener, latest: Receiver<Option<Arc<Pages>>>) {
    let mut conversations = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                conversations.spawn(converse(stream, latest.clone()));
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        // Ended conversations are not kept.
        while conversations.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, latest: Receiver<Option<Arc<Pages>>>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let pages = latest.borrow().clone();
        async move { Ok::<_, Infallible>(reply(request.method(), request.uri().path(), pages.as_deref())) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // Whoever hangs up has heard enough.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

fn reply(method: &http::Method, path: &str, pages: Option<&Pages>) -> Response<Full<Bytes>> {
    if method != http::Method::GET && method != http::Method::HEAD {
        return page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "this only answers GET\n".into());
    }
    let Some(pages) = pages else {
        return page(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the cluster has not been looked at yet\n".into());
    };
    match path {
        "/healthz" => page(StatusCode::OK, PLAIN, "ok\n".into()),
        "/metrics" => page(StatusCode::OK, METRICS, pages.metrics.clone()),
        "/waits" => page(StatusCode::OK, JSON, pages.waits.clone()),
        "/status" => page(StatusCode::OK, JSON, pages.status.clone()),
        _ => page(StatusCode::NOT_FOUND, PLAIN, "there are /healthz, /metrics, /waits and /status\n".into()),
    }
}

fn page(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
