//! What a Cluster of Cluster API consists of, as watches tell of it, for somebody who waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_clock::Clock;
use drover_core::cluster::{Cluster, ObjectRef, Resource};
use drover_core::guest::levers;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::api::{Api, ApiError};
use crate::engine::desk::COALESCE;
use crate::follow::{self, Listener};
use crate::head::Head;

/// A kind, in a namespace or in all, and where an API server has it.
#[derive(Debug, Clone)]
pub struct Source {
    pub kind: &'static str,
    /// Without what tells it from kinds of other groups.
    pub bare_kind: &'static str,
    pub api_version: String,
    plural: &'static str,
    /// Empty: all.
    namespace: String,
    pub path: String,
}

impl Source {
    pub fn of(resource: &Resource, version: &str, namespace: &str) -> Self {
        let (api_version, plural) = (format!("{}/{version}", resource.group), resource.plural);
        let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        Source {
            kind: resource.kind,
            bare_kind: resource.bare_kind(),
            path: format!("/apis/{api_version}{place}/{plural}"),
            namespace: namespace.to_owned(),
            api_version,
            plural,
        }
    }

    /// Where one of its objects is.
    pub fn path_to(&self, object: &ObjectRef) -> String {
        format!("/apis/{}/namespaces/{}/{}/{}", self.api_version, object.namespace, self.plural, object.name)
    }
}

enum News {
    Listed(usize, Vec<String>),
    Changed(usize, String),
    Gone(usize, String),
    Unseen(usize, ApiError),
}

/// The objects of all sources, each as it was last told.
pub struct Followed {
    sources: Vec<Source>,
    objects: Vec<BTreeMap<(String, String), (u64, String)>>,
    listed: BTreeSet<usize>,
    news: UnboundedReceiver<News>,
    /// They end with this.
    _tasks: JoinSet<()>,
}

impl Followed {
    pub fn of(api: &Api, clock: Clock, sources: Vec<Source>) -> Self {
        let (to, news) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for (number, source) in sources.iter().enumerate() {
            let collection =
                follow::Collection { path: source.path.clone(), label: "", name: String::new(), metadata_only: false };
            let ear = Ear { number, to: to.clone(), listed: Vec::new() };
            tasks.spawn(follow::follow(api.clone(), clock, collection, ear));
        }
        let objects = sources.iter().map(|_| BTreeMap::new()).collect();
        Followed { sources, objects, listed: BTreeSet::new(), news, _tasks: tasks }
    }

    /// Waits until something is told, or so long; gives back what could not be seen meanwhile.
    pub async fn next(&mut self, clock: Clock, limit: Duration) -> Vec<(String, ApiError)> {
        let first = tokio::time::timeout(clock.on_the_wall(limit), self.news.recv()).await;
        let mut unseen = Vec::new();
        let Ok(Some(first)) = first else { return unseen };
        unseen.extend(self.take(first));
        // What changes at once is looked at once.
        clock.sleep(COALESCE).await;
        while let Ok(more) = self.news.try_recv() {
            unseen.extend(self.take(more));
        }
        unseen
    }

    fn take(&mut self, news: News) -> Option<(String, ApiError)> {
        match news {
            News::Listed(number, objects) => {
                if let Some(known) = self.objects.get_mut(number) {
                    known.clear();
                }
                objects.into_iter().for_each(|object| self.put(number, object));
                self.listed.insert(number);
            }
            News::Changed(number, object) => self.put(number, object),
            News::Gone(number, object) => {
                if let (Some(head), Some(known)) = (Head::of(object.as_bytes()), self.objects.get_mut(number)) {
                    known.remove(&head.key());
                }
            }
            News::Unseen(number, error) => {
                let source = self.sources.get(number)?;
                return Some((format!("watch {}", source.path), error));
            }
        }
        None
    }

    /// The newest is kept, whoever tells of it first: a watch, or the answer to a write.
    fn put(&mut self, number: usize, object: String) {
        let (Some(head), Some(known)) = (Head::of(object.as_bytes()), self.objects.get_mut(number)) else { return };
        let revision = head.revision();
        if known.get(&head.key()).is_none_or(|(known, _)| *known <= revision) {
            known.insert(head.key(), (revision, object));
        }
    }

    /// The answer to a write.
    pub fn learn(&mut self, kind: &str, object: &[u8]) {
        let Ok(object) = std::str::from_utf8(object) else { return };
        let Some(head) = Head::of(object.as_bytes()) else { return };
        let is_in = |source: &Source| source.namespace.is_empty() || source.namespace == head.namespace;
        let is_its = |source: &Source| source.kind == kind && is_in(source);
        if let Some(number) = self.sources.iter().position(is_its) {
            self.put(number, object.to_owned());
        }
    }

    /// Everything was listed once.
    pub fn is_whole(&self) -> bool {
        self.listed.len() == self.sources.len()
    }

    pub fn cluster(&self, now: Timestamp) -> Cluster {
        let mut cluster = levers::seen(now);
        for (source, objects) in self.sources.iter().zip(&self.objects) {
            for (_, object) in objects.values() {
                cluster.take_item(&source.api_version, source.bare_kind, object.as_bytes());
            }
        }
        cluster
    }
}

struct Ear {
    number: usize,
    to: UnboundedSender<News>,
    listed: Vec<String>,
}

impl Ear {
    fn tell(&self, news: News) {
        // Nobody may wait any more.
        let _ = self.to.send(news);
    }
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn item(&mut self, json: &str) {
        self.listed.push(json.to_owned());
    }

    fn listed(&mut self, _: u64) {
        let objects = std::mem::take(&mut self.listed);
        self.tell(News::Listed(self.number, objects));
    }

    fn watching(&mut self) {}

    fn changed(&mut self, json: &str) -> Option<u64> {
        self.tell(News::Changed(self.number, json.to_owned()));
        Head::of(json.as_bytes()).map(|head| head.revision())
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        self.tell(News::Gone(self.number, json.to_owned()));
        Head::of(json.as_bytes()).map(|head| head.revision())
    }

    fn unseen(&mut self, error: &ApiError) {
        self.tell(News::Unseen(self.number, error.clone()));
    }

    fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}
