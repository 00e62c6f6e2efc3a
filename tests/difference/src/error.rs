//! What can go wrong with a proof, as opposed to what can be proven wrong by it.

use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {act} {}: {source}", path.display())]
    File { act: &'static str, path: PathBuf, source: std::io::Error },

    #[error("{} is no script: {cause}", path.display())]
    NoScript { path: PathBuf, cause: String },

    #[error("{} is no list of known differences: {cause}", path.display())]
    NoList { path: PathBuf, cause: String },

    #[error("there is no script named {0}")]
    Unknown(String),

    #[error("the recording of {script} {why}; record it anew: cargo run -p drover-difference -- record {script}")]
    Stale { script: String, why: &'static str },

    #[error("{script}, {step}: {cause}")]
    Step { script: String, step: String, cause: String },

    #[error(transparent)]
    Lab(#[from] drover_lab::Error),

    #[error(transparent)]
    Connect(#[from] drover_operator::ConnectError),

    #[error("cannot start a runtime: {0}")]
    Runtime(std::io::Error),
}
