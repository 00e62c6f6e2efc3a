//! Answers the API server's questions, within the time that it gives.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use drover_clock::Clock;
use drover_core::harvester::admission::registration::{TIMEOUT_SECONDS, path};
use drover_core::harvester::admission::{self, Question, Request as Review, Response as Said};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::api::Api;
use crate::survey;

/// A client that does not finish its greeting or its request in this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before accepting again when the machine is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A review holds an object twice.
const BODY_LIMIT: usize = 8 * 1024 * 1024;
/// Is left of the API server's time for the way there and back.
const WAY: Duration = Duration::from_secs(1);

/// What answers are made of.
struct Desk {
    client: Client,
    clock: Clock,
    /// The user that this process is, once it was asked for.
    own: OnceLock<String>,
}

pub async fn answer(listener: TcpListener, tls: Receiver<Option<Arc<ServerConfig>>>, client: Client, clock: Clock) {
    let desk = Arc::new(Desk { client, clock, own: OnceLock::new() });
    let mut conversations = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without a certificate there is nothing to say yet; nobody was told of this address, either.
                if let Some(tls) = tls.borrow().clone() {
                    conversations.spawn(converse(stream, tls, desk.clone()));
                }
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

async fn converse(stream: TcpStream, tls: Arc<ServerConfig>, desk: Arc<Desk>) {
    let greeting = TlsAcceptor::from(tls).accept(stream);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, greeting).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.reply(request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // Whoever hangs up has heard enough.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// What is read of the body.
#[derive(Deserialize)]
struct Body {
    request: Review,
}

impl Desk {
    async fn reply(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let questions = [Question::Mutation, Question::Validation];
        let asked = questions.into_iter().find(|question| path(*question) == request.uri().path());
        let Some(question) = asked else {
            return page(
                StatusCode::NOT_FOUND,
                format!("there are {} and {}\n", path(questions[0]), path(questions[1])),
            );
        };
        let limit = limit(request.uri().query().unwrap_or_default());
        let body = match Limited::new(request.into_body(), BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return page(StatusCode::BAD_REQUEST, format!("the review cannot be read: {error}\n")),
        };
        let review = match serde_json::from_slice::<Body>(&body) {
            Ok(body) => body.request,
            Err(error) => return page(StatusCode::BAD_REQUEST, format!("this is no AdmissionReview: {error}\n")),
        };
        let said = self.say(&review, question, limit).await;
        let mut response = Response::new(Full::from(said.into_json().to_string()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    async fn say(&self, review: &Review, question: Question, limit: Duration) -> Said {
        let look = async {
            let kinds = admission::reads(review, question);
            tokio::join!(survey::of_kinds(self.client.clone(), &self.clock, &kinds, limit / 2), self.own())
        };
        match tokio::time::timeout(self.clock.on_the_wall(limit), look).await {
            Ok((cluster, own)) => admission::answer(review, question, &cluster, own),
            Err(_) => {
                let why = format!("the cluster could not be looked at within {} s", limit.as_secs());
                Said::could_not_look(review, &why)
            }
        }
    }

    /// The user that this process is. Asked for until it is known; a server that does not say is asked again.
    async fn own(&self) -> Option<&str> {
        if self.own.get().is_none() {
            let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
            let api = Api::new(self.client.clone(), self.clock);
            let answer = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &body).await.ok()?;
            let answer: Value = serde_json::from_slice(&answer).ok()?;
            let name = answer["status"]["userInfo"]["username"].as_str()?.to_owned();
            // Another question may have been answered meanwhile, with the same name.
            let _ = self.own.set(name);
        }
        self.own.get().map(String::as_str)
    }
}

/// How long an answer may take: what the API server says that it waits, less the way.
fn limit(query: &str) -> Duration {
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let seconds = asked.and_then(|text| text.strip_suffix('s')?.parse().ok()).unwrap_or(TIMEOUT_SECONDS);
    Duration::from_secs(seconds.clamp(1, 30)).saturating_sub(WAY).max(WAY / 2)
}

fn page(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_before_the_server_stops_waiting() {
        assert_eq!(limit("timeout=10s"), Duration::from_secs(9));
        assert_eq!(limit("timeout=1s"), Duration::from_millis(500));
        assert_eq!(limit("timeout=90s"), Duration::from_secs(29));
        assert_eq!(limit(""), Duration::from_secs(9));
    }
}
