//! Feeds requests to the embedded API server: the first line is `METHOD TARGET CONTENT-TYPE`, the rest is the body.
#![no_main]

use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use http::Request;
use kube::client::Body;
use libfuzzer_sys::fuzz_target;
use tower::Service as _;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, body) = input.split_at(end);
    let Ok(line) = std::str::from_utf8(line) else { return };
    let mut words = line.split(' ');
    let (method, target, kind) = (words.next(), words.next(), words.next());
    let request = Request::builder()
        .method(method.unwrap_or_default())
        .uri(target.unwrap_or_default())
        .header("content-type", kind.unwrap_or_default());
    let Ok(request) = request.body(Body::from(body.get(1..).unwrap_or_default().to_vec())) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().expect("a time"));
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 100 });
        let before = server.digest();
        let response = server.service("fuzz").call(request).await.expect("an answer");
        if !response.status().is_success() {
            assert_eq!(server.digest(), before);
        }
    });
});
