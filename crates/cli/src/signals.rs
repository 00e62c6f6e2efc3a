//! When the user or the system asks this process to end.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Completes at the first SIGINT or SIGTERM. From the call on, neither ends the process by itself.
pub fn stopped() -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
