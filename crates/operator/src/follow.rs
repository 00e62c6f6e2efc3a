//! Follows all objects of one collection: a list, then a watch from there, for ever; or reads them once.
//!
//! A watch that ends is resumed where it stopped; one whose place is forgotten (410, as an answer or as an event)
//! starts over with a list; anything else is tried again after a pause that grows.

use std::time::Duration;

use drover_clock::Clock;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::{Api, ApiError, escaped, refusal};

const PAGE: usize = 500;
/// The server ends a watch after this time: ten minutes is the longest that other clients ask for, and each end costs a request for each kind.
const WATCH_SECONDS: u64 = 590;
/// A watch without a line, not even a bookmark, for this long is dead.
const SILENCE: Duration = Duration::from_secs(150);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// What is followed.
#[derive(Debug, Clone)]
pub struct Collection {
    pub path: String,
    /// Only objects with this label; empty: all.
    pub label: &'static str,
    /// Only the objects that are called so; empty: all.
    pub name: String,
    /// Of each object only its metadata.
    pub metadata_only: bool,
}

/// Whoever is told of the objects. What cannot be read is its own affair: the others go on.
pub trait Listener: Send {
    /// A list begins: it is told object by object, and counts once it is whole.
    fn begin(&mut self);
    fn item(&mut self, json: &str);
    fn listed(&mut self, resource_version: u64);
    fn watching(&mut self);
    /// Gives back the resourceVersion, if it can be read.
    fn changed(&mut self, json: &str) -> Option<u64>;
    fn gone(&mut self, json: &str) -> Option<u64>;
    /// What is known gets old.
    fn unseen(&mut self, error: &ApiError);
    /// Nobody listens any more.
    fn is_closed(&self) -> bool;
}

pub async fn follow(api: Api, clock: Clock, collection: Collection, listener: impl Listener) {
    keep_up(api, clock, collection, listener, false).await;
}

/// Tells what there is now, and nothing of what becomes of it.
pub async fn read(api: Api, clock: Clock, collection: Collection, listener: impl Listener) {
    keep_up(api, clock, collection, listener, true).await;
}

async fn keep_up(api: Api, clock: Clock, collection: Collection, mut listener: impl Listener, once: bool) {
    let mut pause = FIRST_PAUSE;
    let mut place = None;
    loop {
        let result = async {
            let from = match place {
                Some(place) => place,
                None => list(&api, &collection, &mut listener).await?,
            };
            place = Some(from);
            if once {
                return Ok(());
            }
            watch(&api, &clock, &collection, from, &mut place, &mut listener).await
        };
        let mut asked_for = Duration::ZERO;
        match result.await {
            Ok(()) if once => return,
            Ok(()) => pause = FIRST_PAUSE,
            Err(error) if error.is_expired() => place = None,
            Err(error) => {
                // A kind that is not known (its definition is missing) may come; a lost right may be given back.
                if error.code().is_some() {
                    place = None;
                }
                asked_for = error.retry_after().unwrap_or_default();
                listener.unseen(&error);
            }
        }
        if listener.is_closed() {
            return;
        }
        clock.sleep(pause.max(asked_for)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Collection {
    fn selector(&self) -> String {
        let one = |key: &str, value: &str| {
            if value.is_empty() { String::new() } else { format!("&{key}={}", escaped(value)) }
        };
        let name = if self.name.is_empty() { String::new() } else { format!("metadata.name={}", self.name) };
        one("labelSelector", self.label) + &one("fieldSelector", &name)
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    /// Of an empty list of metadata, the original says that its items are null.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    more: String,
}

/// Reads all pages and tells where a watch goes on.
async fn list(api: &Api, collection: &Collection, listener: &mut impl Listener) -> Result<u64, ApiError> {
    let mut more = String::new();
    listener.begin();
    loop {
        let token = if more.is_empty() { String::new() } else { format!("&continue={}", escaped(&more)) };
        let path = format!("{}?limit={PAGE}{}{token}", collection.path, collection.selector());
        let body = match collection.metadata_only {
            true => api.get_metadata(&path).await?,
            false => api.get(&path).await?,
        };
        let page: Page<'_> = serde_json::from_slice(&body).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        page.items.iter().flatten().for_each(|item| listener.item(item.get()));
        more = page.metadata.more;
        if more.is_empty() {
            let text = page.metadata.resource_version;
            let resource_version =
                text.parse().map_err(|_| ApiError::Unreadable(format!("resourceVersion {text:?} is not a number")))?;
            listener.listed(resource_version);
            return Ok(resource_version);
        }
    }
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
    collection: &Collection,
    from: u64,
    place: &mut Option<u64>,
    listener: &mut impl Listener,
) -> Result<(), ApiError> {
    let query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}");
    let path = format!("{}?{query}{}", collection.path, collection.selector());
    let mut lines = match collection.metadata_only {
        true => api.watch_metadata(&path).await?,
        false => api.watch(&path).await?,
    };
    listener.watching();
    loop {
        let line = match tokio::time::timeout(clock.on_the_wall(SILENCE), lines.next()).await {
            Ok(line) => line?,
            Err(_) => return Err(ApiError::Timeout),
        };
        let Some(line) = line else { return Ok(()) };
        let line: Line<'_> = serde_json::from_slice(&line).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        let json = line.object.get();
        *place = match line.change {
            "ERROR" => return Err(refusal(StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new(), json.as_bytes())),
            "BOOKMARK" => bookmark(json),
            "DELETED" => listener.gone(json),
            _ => listener.changed(json),
        }
        .or(*place);
        if listener.is_closed() {
            return Ok(());
        }
    }
}

fn bookmark(json: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: PageMeta,
    }
    serde_json::from_str::<Bookmark>(json).ok()?.metadata.resource_version.parse().ok()
}
