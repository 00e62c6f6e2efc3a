//! Watches that end badly, on the embedded API server in virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod support;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use drover_api::plan::Plan;
use drover_corral::apiserver::{ApiBody, ApiService};
use drover_operator::{Operator, OperatorOptions};
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use kube::client::Body;
use serde_json::json;
use tower::Service;

use support::{Cluster, NAMESPACE};

/// Answers the first watches with an HTTP error instead of a stream.
#[derive(Clone)]
struct RefusesWatches {
    inner: ApiService,
    code: StatusCode,
    left: Arc<AtomicUsize>,
}

impl Service<Request<Body>> for RefusesWatches {
    type Response = Response<Either<ApiBody, Full<Bytes>>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let take_one = |left: usize| left.checked_sub(1);
        if is_watch && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
            let status =
                json!({ "kind": "Status", "status": "Failure", "code": self.code.as_u16(), "message": "too old" });
            let mut response = Response::new(Either::Right(Full::new(Bytes::from(status.to_string()))));
            *response.status_mut() = self.code;
            return Box::pin(async move { Ok(response) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(|response| response.map(Either::Left)) })
    }
}

/// A Plan that is made after the watches were refused is noticed.
async fn is_noticed_after(code: StatusCode) -> bool {
    let cluster = Cluster::new();
    let (server, user, clock) = (&cluster.server, &cluster.user, cluster.clock);
    let left = Arc::new(AtomicUsize::new(12));
    let service = RefusesWatches { inner: server.service("operator"), code, left: left.clone() };
    let client = kube::Client::new(service, "default");
    let operator = Operator::new(client, OperatorOptions::new(NAMESPACE, "operator", clock));
    let running = tokio::spawn(operator.run(std::future::pending()));
    cluster.pass(60).await;
    assert_eq!(left.load(Ordering::SeqCst), 0);

    let plan = json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": { "name": "up", "namespace": NAMESPACE },
        "spec": { "concurrency": 1, "version": "v2", "nodeSelector": {}, "upgrade": { "image": "x" } },
    });
    user.create(&serde_json::from_value::<Plan>(plan).unwrap()).unwrap();
    cluster.pass(5).await;
    running.abort();
    user.get::<Plan>(Some(NAMESPACE), "up").unwrap().unwrap().status.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_410_as_the_answer_to_a_watch_starts_over_with_a_list() {
    assert!(is_noticed_after(StatusCode::GONE).await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_for_a_while_is_opened_again() {
    assert!(is_noticed_after(StatusCode::INTERNAL_SERVER_ERROR).await);
}
