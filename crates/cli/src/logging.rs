//! The log: one line an event, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::{Format, Usage};

/// Starts the log at `level`, or as `$RUST_LOG` says. May be called once.
pub fn start(level: &str, format: Option<Format>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        Some(Format::Yaml | Format::Markdown) => {
            return Err(Usage("a log is text or JSON: use -o json, or leave -o out".to_owned()).into());
        }
        Some(Format::Json) => log.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
        Some(Format::Table) | None => log.try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}
