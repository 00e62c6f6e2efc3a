//! Requests from bytes, for the embedded API server: none makes it panic, and one that is refused changes nothing.
//!
//! A request is a line `METHOD TARGET CONTENT-TYPE` and the body behind it; a line of three dashes is before the next.

use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use http::Request;
use kube::client::Body;
use tower::Service as _;

/// More requests of one input than these are not sent.
const MOST: usize = 16;
const BETWEEN: &[u8] = b"\n---\n";

/// Sends what an input holds to a server of its own.
pub fn play(input: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().expect("a time"));
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 100 });
        for request in split(input).into_iter().take(MOST).filter_map(request) {
            let shown = format!("{} {}", request.method(), request.uri());
            let before = server.digest();
            let response = server.service("fuzz").call(request).await.expect("an answer");
            if !response.status().is_success() {
                assert_eq!(server.digest(), before, "{shown} was refused with {}", response.status());
            }
        }
    });
}

fn split(mut input: &[u8]) -> Vec<&[u8]> {
    let mut parts = vec![];
    while let Some(place) = input.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        parts.push(&input[..place]);
        input = &input[place + BETWEEN.len()..];
    }
    parts.push(input);
    parts
}

/// None for what no client could send.
fn request(part: &[u8]) -> Option<Request<Body>> {
    let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
    let mut words = std::str::from_utf8(&part[..end]).ok()?.split(' ');
    let (method, target, kind) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let request = Request::builder().method(method).uri(target).header("content-type", kind);
    request.body(Body::from(part.get(end + 1..).unwrap_or_default().to_vec())).ok()
}
