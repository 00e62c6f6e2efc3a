//! An API server that refuses some requests, each with a code.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use drover_corral::apiserver::{ApiBody, ApiService};
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use kube::client::Body;
use serde_json::json;
use tower::Service;

/// Which requests are refused, and how.
type Refuses = Arc<dyn Fn(&Request<Body>) -> Option<StatusCode> + Send + Sync>;

#[derive(Clone)]
struct Refusing {
    inner: ApiService,
    refuses: Refuses,
}

/// A client of `inner` whose requests are refused where `refuses` says so.
pub fn client(
    inner: ApiService,
    refuses: impl Fn(&Request<Body>) -> Option<StatusCode> + Send + Sync + 'static,
) -> kube::Client {
    kube::Client::new(Refusing { inner, refuses: Arc::new(refuses) }, "default")
}

impl Service<Request<Body>> for Refusing {
    type Response = Response<Either<ApiBody, Full<Bytes>>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(code) = (self.refuses)(&request) {
            let status = json!({ "kind": "Status", "status": "Failure", "code": code.as_u16(), "message": "refused" });
            let mut response = Response::new(Either::Right(Full::new(Bytes::from(status.to_string()))));
            *response.status_mut() = code;
            return Box::pin(async move { Ok(response) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(|response| response.map(Either::Left)) })
    }
}
