//! Requests as the engine makes them: raw, each with a timeout, none repeated.
//!
//! Answers stay bytes: what is kept of an object is decoded straight from them.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use drover_clock::Clock;
use drover_core::decision::{Kind, Subject};
use futures::StreamExt;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// No request of ours takes longer, but a watch.
const TIMEOUT: Duration = Duration::from_secs(10);

const APPLY_PATCH: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
/// Of an object only its metadata; a server that cannot do so sends all of it.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

/// The same in a watch, whose events tell of one object each.
const METADATA_OF_ONE: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiError {
    /// The server answered, and said no.
    #[error("{message}")]
    Refused { code: u16, reason: String, message: String, causes: Vec<String>, retry_after: Option<Duration> },
    /// Nobody knows whether it happened.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl ApiError {
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// How long the server wants to be left alone, if it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ApiError::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// The resourceVersion is older than what the server remembers.
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }
}

/// What of a `Status` is read.
#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Details,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
    #[serde(default)]
    retry_after_seconds: u64,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    message: String,
}

/// A refusal as the server words it, whatever it sent.
pub fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let message =
        if status.message.is_empty() { String::from_utf8_lossy(body).trim().to_owned() } else { status.message };
    let message = if message.is_empty() { code.to_string() } else { message };
    let code = if status.code == 0 { code.as_u16() } else { status.code };
    let said = headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let said = said.map(Duration::from_secs);
    let Details { causes, retry_after_seconds } = status.details;
    ApiError::Refused {
        code,
        reason: status.reason,
        message,
        causes: causes.into_iter().map(|cause| cause.message).collect(),
        retry_after: said.or((retry_after_seconds > 0).then(|| Duration::from_secs(retry_after_seconds))),
    }
}

/// The API server, seen by one operator.
#[derive(Clone)]
pub struct Api {
    client: Client,
    clock: Clock,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    pub fn new(client: Client, clock: Clock) -> Self {
        Api { client, clock }
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub async fn get(&self, path: &str) -> Result<Bytes, ApiError> {
        self.call(Method::GET, path, JSON, Vec::new()).await
    }

    /// The same for a list, of which only the metadata of objects are sent.
    pub async fn get_metadata(&self, path: &str) -> Result<Bytes, ApiError> {
        self.call(Method::GET, path, METADATA, Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Bytes, ApiError> {
        self.call(Method::POST, path, JSON, body.to_string().into_bytes()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Bytes, ApiError> {
        self.call(Method::PUT, path, JSON, body.to_string().into_bytes()).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Bytes, ApiError> {
        self.call(Method::PATCH, path, MERGE_PATCH, body.to_string().into_bytes()).await
    }

    /// A JSON patch (RFC 6902).
    pub async fn json_patch(&self, path: &str, body: &Value) -> Result<Bytes, ApiError> {
        self.call(Method::PATCH, path, JSON_PATCH, body.to_string().into_bytes()).await
    }

    /// Server-side apply.
    pub async fn apply(&self, path: &str, body: &Value) -> Result<Bytes, ApiError> {
        self.call(Method::PATCH, path, APPLY_PATCH, body.to_string().into_bytes()).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Bytes, ApiError> {
        self.call(Method::DELETE, path, JSON, options.to_string().into_bytes()).await
    }

    /// The uid of an object; none if it cannot be read.
    pub async fn uid_of(&self, path: &str) -> Option<String> {
        let object: Value = serde_json::from_slice(&self.get(path).await.ok()?).ok()?;
        object["metadata"]["uid"].as_str().map(str::to_owned)
    }

    async fn call(&self, method: Method, path: &str, content: &str, body: Vec<u8>) -> Result<Bytes, ApiError> {
        let exchange = async {
            let answer = self.send(method, path, content, body).await?;
            let (code, headers) = (answer.status(), answer.headers().clone());
            let body = answer.into_body().collect().await.map_err(|error| ApiError::Unreachable(error.to_string()))?;
            let body = body.to_bytes();
            if code.is_success() { Ok(body) } else { Err(refusal(code, &headers, &body)) }
        };
        let limit = self.clock.on_the_wall(TIMEOUT);
        tokio::time::timeout(limit, exchange).await.unwrap_or(Err(ApiError::Timeout))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Result<http::Response<Body>, ApiError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content)
            .header(http::header::ACCEPT, if content.contains("as=") { content } else { JSON })
            .body(Body::from(body))
            .map_err(|error| ApiError::Unreachable(error.to_string()))?;
        self.client.send(request).await.map_err(|error| ApiError::Unreachable(innermost(&error)))
    }

    /// Opens a watch; its lines come as they arrive.
    pub(crate) async fn watch(&self, path: &str) -> Result<Lines, ApiError> {
        self.open(path, JSON).await
    }

    /// The same, of which only the metadata of objects are sent.
    pub(crate) async fn watch_metadata(&self, path: &str) -> Result<Lines, ApiError> {
        self.open(path, METADATA_OF_ONE).await
    }

    async fn open(&self, path: &str, content: &str) -> Result<Lines, ApiError> {
        let limit = self.clock.on_the_wall(TIMEOUT);
        let opening = self.send(Method::GET, path, content, Vec::new());
        let answer = tokio::time::timeout(limit, opening).await.unwrap_or(Err(ApiError::Timeout))?;
        let (code, headers) = (answer.status(), answer.headers().clone());
        if code.is_success() {
            return Ok(Lines {
                body: answer.into_body().into_data_stream().boxed(),
                rest: BytesMut::new(),
                searched: 0,
            });
        }
        let body = answer.into_body().collect();
        let body = tokio::time::timeout(limit, body).await.map_err(|_| ApiError::Timeout)?;
        let body = body.map_err(|error| ApiError::Unreachable(error.to_string()))?;
        Err(refusal(code, &headers, &body.to_bytes()))
    }
}

/// kube wraps the cause several times; only the last says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The lines of an open watch.
pub(crate) struct Lines {
    body: futures::stream::BoxStream<'static, Result<Bytes, kube::Error>>,
    rest: BytesMut,
    /// So many bytes of the rest hold no end of a line.
    searched: usize,
}

impl Lines {
    /// The next line; none when the server has ended the watch.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            match self.body.next().await {
                Some(Ok(chunk)) => self.rest.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(ApiError::Unreachable(innermost(&error))),
                None => return Ok(None),
            }
        }
    }

    /// The next line of what is there, if it is whole.
    fn take(&mut self) -> Option<Bytes> {
        loop {
            // Only at the start: what is searched already was not written so.
            if self.searched == 0 && self.rest.starts_with(b"{\n") {
                return self.take_indented();
            }
            let Some(end) = memchr::memchr(b'\n', &self.rest[self.searched..]) else {
                self.searched = self.rest.len();
                // The one byte does not tell yet.
                if self.rest[..] == *b"{" {
                    self.searched = 0;
                }
                return None;
            };
            let line = self.rest.split_to(self.searched + end).freeze();
            self.searched = 0;
            self.rest.advance(1);
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// Some servers (that of Cluster API's in-memory provider) write what people can read, over many lines, and nothing between two events.
    fn take_indented(&mut self) -> Option<Bytes> {
        let mut documents = serde_json::Deserializer::from_slice(&self.rest).into_iter::<&RawValue>();
        documents.next()?.ok()?;
        let end = documents.byte_offset();
        Some(self.rest.split_to(end).freeze())
    }
}

/// Group, version and plural of a kind.
fn place(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Plan => ("upgrade.cattle.io", "v1", "plans"),
        Kind::Node => ("", "v1", "nodes"),
        Kind::Job => ("batch", "v1", "jobs"),
        Kind::Secret => ("", "v1", "secrets"),
        Kind::Event => ("", "v1", "events"),
        Kind::Pod => ("", "v1", "pods"),
        Kind::Upgrade => ("harvesterhci.io", "v1beta1", "upgrades"),
        Kind::UpgradeLog => ("harvesterhci.io", "v1beta1", "upgradelogs"),
        Kind::VirtualMachineImage => ("harvesterhci.io", "v1beta1", "virtualmachineimages"),
        Kind::VirtualMachine => ("kubevirt.io", "v1", "virtualmachines"),
        Kind::Deployment => ("apps", "v1", "deployments"),
        Kind::Service => ("", "v1", "services"),
        Kind::ConfigMap => ("", "v1", "configmaps"),
        Kind::Addon => ("harvesterhci.io", "v1beta1", "addons"),
        Kind::ManagedChart => ("management.cattle.io", "v3", "managedcharts"),
        Kind::ClusterRepo => ("catalog.cattle.io", "v1", "clusterrepos"),
        Kind::HelmChart => ("helm.cattle.io", "v1", "helmcharts"),
        Kind::Cluster => ("provisioning.cattle.io", "v1", "clusters"),
        Kind::CapiCluster => ("cluster.x-k8s.io", "v1beta1", "clusters"),
        Kind::Setting => ("longhorn.io", "v1beta2", "settings"),
        Kind::Engine => ("longhorn.io", "v1beta2", "engines"),
        Kind::VolumeAttachment => ("longhorn.io", "v1beta2", "volumeattachments"),
    }
}

/// As kubectl takes it: `jobs.batch`.
pub fn plural(kind: Kind) -> String {
    match place(kind) {
        ("", _, plural) => plural.to_owned(),
        (group, _, plural) => format!("{plural}.{group}"),
    }
}

/// The path of all objects of a kind in a namespace; those of some kinds have none.
pub fn collection(kind: Kind, namespace: &str) -> String {
    let (group, version, plural) = place(kind);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    match kind {
        Kind::Node | Kind::ClusterRepo => format!("{root}/{plural}"),
        _ => format!("{root}/namespaces/{namespace}/{plural}"),
    }
}

pub fn object(subject: &Subject) -> String {
    format!("{}/{}", collection(subject.kind, &subject.namespace), subject.name)
}

/// A value as it stands in a query.
pub fn escaped(token: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    token
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of these pieces, one arriving after the other.
    fn read(pieces: &[&str]) -> Vec<String> {
        let mut lines = Lines { body: futures::stream::empty().boxed(), rest: BytesMut::new(), searched: 0 };
        let mut read = Vec::new();
        for piece in pieces {
            lines.rest.extend_from_slice(piece.as_bytes());
            while let Some(line) = lines.take() {
                read.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        read
    }

    #[test]
    fn events_are_told_line_by_line() {
        assert_eq!(read(&["{\"a\":1}\n\n{\"b\"", ":2}\n{\"c\":3}"]), ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(read(&["{", "\"a\":1}", "\n"]), ["{\"a\":1}"]);
    }

    #[test]
    fn events_over_many_lines_with_nothing_between_them_are_told_apart() {
        let (one, other) = ("{\n \"type\": \"ADDED\",\n \"object\": {}\n}", "{\n \"type\": \"}{\"\n}");
        assert_eq!(read(&[&format!("{one}{other}")]), [one, other]);
        let whole = format!("{one}{other}\n{one}");
        let bytes: Vec<String> = whole.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(read(&bytes), [one, other, one]);
    }
}
