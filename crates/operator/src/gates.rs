//! Follows the one object that a gate is over.

use std::time::Duration;

use drover_clock::Clock;
use drover_core::plan::{GateSeen, Target};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::api::{Api, ApiError, refusal};
use crate::inbox::Message;

/// The server ends a watch after this time.
const WATCH_SECONDS: u64 = 290;
/// A watch that outlasts that is dead.
const SILENCE: Duration = Duration::from_secs(320);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Tells the object, and each change of it, for ever; or why it cannot be read.
pub async fn keep(api: Api, clock: Clock, target: Target, inbox: UnboundedSender<Message>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let tell = |seen: GateSeen| inbox.send(Message::GateSeen { target: target.clone(), seen }).is_ok();
        match follow(&api, &clock, &target, &tell).await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(error) if error.is_expired() => {}
            Err(error) => drop(tell(GateSeen::Unseen(error.to_string()))),
        }
        if inbox.is_closed() {
            return;
        }
        clock.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// From a list to the end of a watch.
async fn follow(api: &Api, clock: &Clock, target: &Target, tell: &impl Fn(GateSeen) -> bool) -> Result<(), ApiError> {
    let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
    let objects = format!("{}?fieldSelector=metadata.name%3D{}", target.collection(), target.name);
    let mut list: Value = serde_json::from_slice(&api.get(&objects).await?).map_err(unreadable)?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    tell(match list["items"].as_array_mut().and_then(Vec::pop) {
        Some(object) => GateSeen::Object(object),
        None => GateSeen::Missing,
    });
    let query = format!("{objects}&watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
    let mut lines = api.watch(&query).await?;
    loop {
        let line = tokio::time::timeout(clock.on_the_wall(SILENCE), lines.next()).await;
        let Some(line) = line.unwrap_or(Err(ApiError::Timeout))? else { return Ok(()) };
        let mut line: Value = serde_json::from_slice(&line).map_err(unreadable)?;
        let object = line["object"].take();
        let told = match line["type"].as_str() {
            Some("ADDED" | "MODIFIED") => tell(GateSeen::Object(object)),
            Some("DELETED") => tell(GateSeen::Missing),
            Some("ERROR") => {
                let body = object.to_string();
                return Err(refusal(StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new(), body.as_bytes()));
            }
            _ => true,
        };
        if !told {
            return Ok(());
        }
    }
}
