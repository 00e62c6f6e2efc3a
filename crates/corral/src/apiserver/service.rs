//! The server as a `tower::Service`, for clients in the process and for whoever serves it over a socket.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use kube::{client::Body, core::Status};
use serde_json::Value;

use super::{
    ApiServer, discovery,
    openapi::{self, Document},
    pod_log::LogStream,
    request::{Query, Route},
    requests,
    status::{bad_request, internal, method_not_allowed, to_json, too_large_entity},
    view::{accepts_aggregated, check_accepts_json, prefers_yaml},
    warnings::Warnings,
    watch::Watch,
};

/// The most that a body may have, as in the original.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

const PLAIN: &str = "text/plain; charset=utf-8";
const CACHE_CONTROL: &str = "no-cache, private";
/// All groups in one document, as clients ask for it since 1.26.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The server as one actor sees it.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: ApiServer,
    actor: Arc<str>,
}

impl ApiService {
    pub(super) fn new(server: ApiServer, actor: &str) -> Self {
        ApiService { server, actor: actor.into() }
    }

    async fn answer(self, request: Request<Body>) -> Response<ApiBody> {
        let latency = self.server.latency();
        if latency > Duration::ZERO {
            self.server.clock().sleep(latency).await;
        }
        let (head, body) = request.into_parts();
        self.server.tell_of(&self.actor, &head);
        let warnings = Warnings::default();
        let outcome = match collect(body).await {
            Ok(body) => self.route(&head, &body, &warnings).await,
            Err(refusal) => Err(refusal),
        };
        let mut response = outcome.unwrap_or_else(|status| match prefers_yaml(&head.headers) {
            true => in_yaml(refusal(&status), &status),
            false => refusal(&status),
        });
        warnings.write(response.headers_mut());
        if head.method == Method::HEAD {
            *response.body_mut() = ApiBody::once(Bytes::new());
        }
        response
    }

    async fn route(&self, head: &Parts, body: &Bytes, warnings: &Warnings) -> Result<Response<ApiBody>, Box<Status>> {
        let Some(route) = Route::parse(head.uri.path()) else { return Ok(page_not_found()) };
        if matches!(route, Route::Healthy) {
            return Ok(respond(StatusCode::OK, "text/plain; charset=utf-8", ApiBody::from("ok")));
        }
        match route {
            Route::Objects(path) => {
                let query = Query::parse(&head.uri)?;
                requests::answer(&self.server, &self.actor, head, &path, &query, body, warnings).await
            }
            _ if head.method != Method::GET => Err(method_not_allowed()),
            other => self.describe(head, &other),
        }
    }
}

impl ApiService {
    /// What the server says of itself.
    fn describe(&self, head: &Parts, route: &Route) -> Result<Response<ApiBody>, Box<Status>> {
        let server = &self.server;
        if accepts_aggregated(&head.headers)
            && let Some(whole) = discovery::aggregated(server, route)
        {
            let document = Document::new(Bytes::from(format!("{whole}\n")));
            return Ok(tagged(head, document, AGGREGATED, "public"));
        }
        let document = match route {
            // The original leaves it to its library what this is, and that takes it for a text.
            Route::OpenApiIndex => return Ok(tagged(head, openapi::index(server), PLAIN, CACHE_CONTROL)),
            Route::OpenApi { group, version } => openapi::document(server, group, version),
            Route::OpenApiWhole => {
                check_accepts_json(&head.headers)?;
                Some(openapi::whole(server))
            }
            _ => {
                check_accepts_json(&head.headers)?;
                let found = discovery::answer(server, route, host(head))?;
                return Ok(found.map_or_else(page_not_found, |body| json_value(StatusCode::OK, &body)));
            }
        };
        Ok(document.map_or_else(page_not_found, |document| tagged(head, document, "application/json", CACHE_CONTROL)))
    }
}

/// By what name the client reaches this server.
fn host(head: &Parts) -> &str {
    let stated = head.headers.get(header::HOST).and_then(|value| value.to_str().ok());
    stated.or_else(|| head.uri.authority().map(|authority| authority.as_str())).unwrap_or("localhost")
}

/// A document that a client need not read again as long as it has the same tag.
fn tagged(head: &Parts, document: Document, content_type: &'static str, caching: &'static str) -> Response<ApiBody> {
    let tag = format!("\"{}\"", document.tag);
    let known = head.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = match known == Some(tag.as_str()) {
        true => respond(StatusCode::NOT_MODIFIED, content_type, ApiBody::once(Bytes::new())),
        false => respond(StatusCode::OK, content_type, ApiBody::once(document.body)),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

async fn collect(body: Body) -> Result<Bytes, Box<Status>> {
    if body.size_hint().lower() > BODY_LIMIT as u64 {
        return Err(too_large_entity(BODY_LIMIT));
    }
    let collected = http_body_util::Limited::new(body, BODY_LIMIT).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => too_large_entity(BODY_LIMIT),
        false => bad_request(format!("the body could not be read: {error}")),
    })
}

impl tower::Service<Request<Body>> for ApiService {
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // On a task of its own, so that a caller who dies does not undo its write.
        let task = tokio::spawn(self.clone().answer(request));
        Box::pin(async move { Ok(task.await.unwrap_or_else(|error| refusal(&internal(&error.to_string())))) })
    }
}

pub(super) fn json_value(code: StatusCode, body: &Value) -> Response<ApiBody> {
    respond(code, "application/json", ApiBody::once(Bytes::from(format!("{body}\n"))))
}

pub(super) fn respond(code: StatusCode, content_type: &'static str, body: ApiBody) -> Response<ApiBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
    response
}

/// What the original says where it has nothing at all.
pub(super) fn page_not_found() -> Response<ApiBody> {
    respond(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", ApiBody::from("404 page not found\n"))
}

fn refusal(status: &Status) -> Response<ApiBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_value(code, &to_json(status));
    if let Some(seconds) = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|wait| *wait > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The same refusal for a client that reads YAML.
fn in_yaml(mut response: Response<ApiBody>, status: &Status) -> Response<ApiBody> {
    if let Ok(text) = serde_saphyr::to_string(&to_json(status)) {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
        *response.body_mut() = ApiBody::once(Bytes::from(text));
    }
    response
}

/// The body of an answer: a whole one, or one that goes on.
pub struct ApiBody {
    form: Form,
}

enum Form {
    Once(Option<Bytes>),
    Watch(Box<Watch>),
    Log(Box<LogStream>),
}

impl std::fmt::Debug for ApiBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self.form {
            Form::Once(_) => "ApiBody(once)",
            Form::Watch(_) => "ApiBody(watch)",
            Form::Log(_) => "ApiBody(log)",
        })
    }
}

impl ApiBody {
    pub(super) fn once(bytes: Bytes) -> Self {
        ApiBody { form: Form::Once(Some(bytes).filter(|bytes| !bytes.is_empty())) }
    }

    pub(super) fn watch(watch: Watch) -> Self {
        ApiBody { form: Form::Watch(Box::new(watch)) }
    }

    pub(super) fn log(log: LogStream) -> Self {
        ApiBody { form: Form::Log(Box::new(log)) }
    }
}

impl From<&'static str> for ApiBody {
    fn from(text: &'static str) -> Self {
        ApiBody::once(Bytes::from_static(text.as_bytes()))
    }
}

impl http_body::Body for ApiBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.form {
            Form::Once(bytes) => Poll::Ready(bytes.take()),
            Form::Watch(watch) => watch.poll_next(context),
            Form::Log(log) => log.poll_next(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.form, Form::Once(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.form {
            Form::Once(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Form::Watch(_) | Form::Log(_) => SizeHint::default(),
        }
    }
}
