//! One look at a cluster: live, from a folder, or from a support bundle.
//!
//! A survey only reads. Whatever it cannot see it notes ([`drover_core::cluster::Unseen`]) and goes on, so that a
//! missing permission costs the checks that need it and nothing else.

mod bundle;
mod folder;
mod kubelets;
mod live;
mod metrics;
mod pages;
mod servers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drover_clock::Clock;
use drover_core::cluster::{Cluster, ObjectRef};
use kube::Client;

use crate::objects::ObjectsError;

pub(crate) use live::{cause, groups, path_of, version_of};

pub use bundle::{is_bundle, objects as bundle_objects};

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Live,
    /// A folder or a file of objects.
    Folder(PathBuf),
    /// A zip archive: a support bundle, or the logs of an upgrade.
    Bundle(PathBuf),
}

impl Source {
    /// `LIVE`, or the path of a folder, a file or a bundle.
    pub fn parse(text: &str) -> Self {
        let path = Path::new(text);
        match text {
            "LIVE" | "live" => Source::Live,
            _ if is_bundle(path) => Source::Bundle(path.to_owned()),
            _ => Source::Folder(path.to_owned()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error("cannot read the bundle {path}: {cause}")]
    Bundle { path: String, cause: String },
    #[error("the bundle {0} holds logs and no objects; give a support bundle, or a folder of objects")]
    OnlyLogs(String),
}

/// Looks at a live cluster: a bounded number of requests, side by side, each with a limit of its own.
pub async fn live(client: Client, clock: &Clock) -> Cluster {
    live::look(client, clock).await
}

/// Looks further: until when the authorities of these guest clusters are good.
pub async fn authorities(client: Client, clock: &Clock, guests: &[ObjectRef], cluster: &mut Cluster) {
    live::authorities(client, clock, guests, cluster).await;
}

/// Looks into a guest cluster with the kubeconfig in its Secret, an administrator's: only where somebody asks for that.
pub async fn inside(client: Client, clock: &Clock, guest: &ObjectRef, cluster: &mut Cluster) {
    live::inside(client, clock, guest, cluster).await;
}

/// Looks at some kinds of a live cluster, and beyond objects for no longer than `limit`.
pub async fn of_kinds(client: Client, clock: &Clock, kinds: &BTreeSet<&str>, limit: Duration) -> Cluster {
    live::look_at(client, clock, kinds, limit).await
}

/// Reads a folder or a bundle. The moment of the look is that of the newest thing in it, or now if it tells none.
pub fn stored(source: &Source, clock: &Clock) -> Result<Cluster, SurveyError> {
    match source {
        Source::Folder(path) => folder::read(path, clock.now()),
        Source::Bundle(path) => bundle::read(path, clock.now()),
        Source::Live => Ok(Cluster::new(clock.now())),
    }
}
