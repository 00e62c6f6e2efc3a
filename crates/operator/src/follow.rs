//! Follows all objects of one kind: a list, then a watch from there, for ever.
//!
//! A watch that ends is resumed where it stopped; one whose place is forgotten (410, as an answer or as an event)
//! starts over with a list; anything else is tried again after a pause that grows.

use std::time::Duration;

use drover_clock::Clock;
use drover_core::decision::Kind;
use drover_core::seen::Seen;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::UnboundedSender;

use crate::api::{Api, ApiError, collection, escaped, refusal};
use crate::inbox::Message;

const PAGE: usize = 500;
/// The server ends a watch after this time.
const WATCH_SECONDS: u64 = 290;
/// A watch without a line, not even a bookmark, for this long is dead.
const SILENCE: Duration = Duration::from_secs(150);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

pub async fn follow(api: Api, clock: Clock, kind: Kind, namespace: String, inbox: UnboundedSender<Message>) {
    let mut pause = FIRST_PAUSE;
    let mut place = None;
    loop {
        let result = async {
            let from = match place {
                Some(place) => place,
                None => list(&api, kind, &namespace, &inbox).await?,
            };
            place = Some(from);
            watch(&api, &clock, kind, &namespace, from, &mut place, &inbox).await
        };
        let mut asked_for = Duration::ZERO;
        match result.await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(error) if error.is_expired() => place = None,
            Err(error) => {
                // A kind that is not known (its definition is missing) may come; a lost right may be given back.
                if error.code().is_some() {
                    place = None;
                }
                asked_for = error.retry_after().unwrap_or_default();
                let forbidden = error.is_forbidden();
                let remedy = match (kind, error.code()) {
                    (Kind::Plan, Some(404)) => "; install its definition: drover crds | kubectl apply -f -",
                    _ => "",
                };
                let sentence = format!("cannot watch {}: {error}{remedy}", plural(kind));
                if inbox.send(Message::Unseen { kind, sentence, forbidden }).is_err() {
                    return;
                }
            }
        }
        if inbox.is_closed() {
            return;
        }
        clock.sleep(pause.max(asked_for)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Of all pods, only those of Jobs for Plans are followed.
fn selector(kind: Kind) -> String {
    match kind {
        Kind::Pod => format!("&labelSelector={}", escaped(drover_api::plan::labels::PLAN)),
        _ => String::new(),
    }
}

pub fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Plan => "plans.upgrade.cattle.io",
        Kind::Node => "nodes",
        Kind::Job => "jobs.batch",
        Kind::Secret => "secrets",
        Kind::Event => "events",
        Kind::Pod => "pods",
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    more: String,
}

/// Reads all pages into the inbox and tells where a watch goes on.
async fn list(api: &Api, kind: Kind, namespace: &str, inbox: &UnboundedSender<Message>) -> Result<u64, ApiError> {
    let path = collection(kind, namespace);
    let mut objects = Vec::new();
    let mut more = String::new();
    loop {
        let token = if more.is_empty() { String::new() } else { format!("&continue={}", escaped(&more)) };
        let body = api.get(&format!("{path}?limit={PAGE}{}{token}", selector(kind))).await?;
        let page: Page<'_> = serde_json::from_slice(&body).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        objects.extend(page.items.iter().filter_map(|item| decode(kind, item.get().as_bytes())));
        more = page.metadata.more;
        if more.is_empty() {
            let text = page.metadata.resource_version;
            let resource_version =
                text.parse().map_err(|_| ApiError::Unreadable(format!("resourceVersion {text:?} is not a number")))?;
            // A closed inbox means that the operator has ended, and this task with it.
            let _ = inbox.send(Message::Listed { kind, objects, resource_version });
            return Ok(resource_version);
        }
    }
}

/// An object without metadata that can be read is left out: nothing could be done with it, and the others go on.
fn decode(kind: Kind, json: &[u8]) -> Option<Seen> {
    Seen::decode(kind, json).unwrap_or_else(|error| {
        tracing::warn!("an object among {} cannot be read and is left out: {error}", plural(kind));
        None
    })
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    change: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Follows one watch to its end; `place` is where the next one goes on.
async fn watch(
    api: &Api,
    clock: &Clock,
    kind: Kind,
    namespace: &str,
    from: u64,
    place: &mut Option<u64>,
    inbox: &UnboundedSender<Message>,
) -> Result<(), ApiError> {
    let path = collection(kind, namespace);
    let query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}");
    let mut lines = api.watch(&format!("{path}?{query}{}", selector(kind))).await?;
    // A closed inbox means that the operator has ended, and this task with it.
    let _ = inbox.send(Message::Watching { kind });
    loop {
        let line = match tokio::time::timeout(clock.on_the_wall(SILENCE), lines.next()).await {
            Ok(line) => line?,
            Err(_) => return Err(ApiError::Timeout),
        };
        let Some(line) = line else { return Ok(()) };
        let line: Line<'_> = serde_json::from_slice(&line).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        let json = line.object.get().as_bytes();
        match line.change {
            "ERROR" => return Err(refusal(StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new(), json)),
            "BOOKMARK" => *place = bookmark(json).or(*place),
            change => {
                let Some(seen) = decode(kind, json) else { continue };
                let meta = seen.meta();
                *place = Some(meta.resource_version);
                let message = if change == "DELETED" {
                    let (name, uid) = (meta.name.clone(), meta.uid.clone());
                    Message::Gone { kind, name, uid, resource_version: meta.resource_version }
                } else {
                    Message::Changed(Box::new(seen))
                };
                if inbox.send(message).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

fn bookmark(json: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: PageMeta,
    }
    serde_json::from_slice::<Bookmark>(json).ok()?.metadata.resource_version.parse().ok()
}
