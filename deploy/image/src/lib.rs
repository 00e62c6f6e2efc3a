//! Container images without a container engine: an OCI archive, written file by file.
//!
//! The same files give the same bytes, and so the same digest, on every machine.

mod archive;
mod build;
mod drover;

use std::io;
use std::path::PathBuf;

pub use archive::{Image, ImageFile};
pub use build::{archives, static_binary};
pub use drover::drover;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {act} {}: {source}", path.display())]
    File { act: &'static str, path: PathBuf, source: io::Error },

    #[error("cannot build {package} for an image: cargo ended with {status}")]
    Build { package: String, status: String },

    #[error("an image of Drover needs the certificates of the public authorities, and {} is not there: install the package ca-certificates", path.display())]
    NoAuthorities { path: PathBuf },
}

/// Names the file and the act in an error of the file system.
trait OnFile<T> {
    fn on_file(self, act: &'static str, path: &std::path::Path) -> Result<T>;
}

impl<T> OnFile<T> for io::Result<T> {
    fn on_file(self, act: &'static str, path: &std::path::Path) -> Result<T> {
        self.map_err(|source| Error::File { act, path: path.to_owned(), source })
    }
}
