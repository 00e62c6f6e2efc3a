//! Tells of the objects of a kind, as they change.

use std::collections::BTreeMap;

use drover_core::guest::Kept;
use drover_core::guest::tanzu::addons::Told;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::folded::Folded;
use super::ledger::{Key, Part};
use crate::api::ApiError;
use crate::follow::Listener;

/// What a controller of guest clusters is told.
pub enum News {
    Listed {
        part: Part,
        objects: Vec<Folded>,
        as_of: u64,
    },
    Changed(Part, Folded),
    Gone(Part, Folded),
    Absent(Part),
    /// Of a guest, which Nodes are ready; none if it does not answer. And the ClusterConfiguration that its machines join with, if it
    /// has told.
    Nodes {
        key: Key,
        nodes: Option<BTreeMap<String, bool>>,
        configuration: Option<Value>,
    },
    /// A guest has been asked.
    Asked {
        key: Key,
        addons: Visit,
        /// Whether it took its time.
        is_slow: bool,
    },
}

/// What became of a guest's add-ons when it was asked.
pub enum Visit {
    /// There was nothing to ask of them.
    Unasked,
    /// Not yet, and nothing follows from that: it is to be given more time.
    Unanswered,
    Told(Told),
    /// Another operator may lead by now: it was broken off, whatever was done till then.
    BrokenOff,
}

/// Tells of the objects of a kind.
pub struct Ear {
    pub part: Part,
    pub to: UnboundedSender<News>,
    /// Of a list that is not whole yet.
    pub listed: Vec<Folded>,
}

impl Ear {
    fn tell(&self, news: News) {
        // A closed desk means that the controller has ended, and this with it.
        let _ = self.to.send(news);
    }
}

/// None if the server has not said.
fn told_revision(object: &Folded) -> Option<u64> {
    Some(object.revision()).filter(|revision| *revision > 0)
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn item(&mut self, json: &str) {
        self.listed.extend(self.part.kept(json));
    }

    fn listed(&mut self, resource_version: u64) {
        let objects = std::mem::take(&mut self.listed);
        self.tell(News::Listed { part: self.part, objects, as_of: resource_version });
    }

    fn watching(&mut self) {}

    fn changed(&mut self, json: &str) -> Option<u64> {
        let object = self.part.kept(json)?;
        let revision = told_revision(&object);
        self.tell(News::Changed(self.part, object));
        revision
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        let object = self.part.kept(json)?;
        let revision = told_revision(&object);
        self.tell(News::Gone(self.part, object));
        revision
    }

    fn unseen(&mut self, error: &ApiError) {
        tracing::warn!("guest clusters: cannot watch {}: {error}", self.part.kind);
        let does_without = error.code() == Some(403) && self.part.is_dispensable();
        if error.code() == Some(404) || does_without {
            self.tell(News::Absent(self.part));
        }
    }

    fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}
