//! Keeps the certificate and the registration as they should be, whatever others do to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drover_api::harvester::NAMESPACE;
use drover_api::marks::WEBHOOK;
use drover_clock::{Clock, later};
use drover_core::cluster::Cluster;
use drover_core::harvester::admission::Question;
use drover_core::harvester::admission::registration::{self, INCUMBENT, Place};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::rustls::ServerConfig;

use super::certificate::{Certificate, CertificateError};
use crate::api::{Api, ApiError};
use crate::follow::{self, Collection, Listener};

/// The Secret with the certificate.
const SECRET: &str = "drover-webhook-tls";
const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Everything is looked at again after this time, should an event have been lost.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// What is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Secret,
    Mutating,
    Validating,
    /// Of Harvester, whose own controllers may be at work.
    Deployment,
}

impl Part {
    const ALL: [Part; 4] = [Part::Secret, Part::Mutating, Part::Validating, Part::Deployment];

    fn of(question: Question) -> Self {
        match question {
            Question::Mutation => Part::Mutating,
            Question::Validation => Part::Validating,
        }
    }

    /// The name of the one object that matters.
    fn name(self) -> &'static str {
        match self {
            Part::Secret => SECRET,
            Part::Mutating | Part::Validating => registration::NAME,
            Part::Deployment => INCUMBENT,
        }
    }

    fn collection(self, namespace: &str) -> Collection {
        let path = match self {
            Part::Secret => format!("/api/v1/namespaces/{namespace}/secrets"),
            Part::Mutating => format!("{REGISTRATIONS}/{}", registration::plural(Question::Mutation)),
            Part::Validating => format!("{REGISTRATIONS}/{}", registration::plural(Question::Validation)),
            Part::Deployment => format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
        };
        let label = if self == Part::Deployment { "" } else { WEBHOOK };
        Collection { path, label, name: String::new(), metadata_only: false }
    }
}

#[derive(Debug)]
enum Message {
    /// The object is so, or is not there.
    Seen(Part, Option<Box<Value>>),
    Listed(Part),
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("cannot write {what}: {error}")]
    Write { what: String, error: ApiError },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

pub struct Registrar {
    api: Api,
    clock: Clock,
    namespace: String,
    place: Place,
    hosts: Vec<String>,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
    objects: BTreeMap<Part, Value>,
    listed: BTreeSet<Part>,
    shown: Option<Certificate>,
    /// Harvester's own controllers were said to be at work.
    told: Option<String>,
}

impl Registrar {
    pub fn new(
        api: Api,
        clock: Clock,
        namespace: String,
        place: Place,
        tls: watch::Sender<Option<Arc<ServerConfig>>>,
    ) -> Self {
        let hosts = place.hosts();
        Registrar {
            api,
            clock,
            namespace,
            place,
            hosts,
            tls,
            objects: BTreeMap::new(),
            listed: BTreeSet::new(),
            shown: None,
            told: None,
        }
    }

    pub async fn run(mut self) {
        let (ear, mut messages) = unbounded_channel();
        let mut followers = JoinSet::new();
        for part in Part::ALL {
            let listener = Ear { part, to: ear.clone(), found: None };
            followers.spawn(follow::follow(self.api.clone(), self.clock, part.collection(&self.namespace), listener));
        }
        drop(ear);
        let mut pause = FIRST_PAUSE;
        let mut look_again = Timestamp::MAX;
        loop {
            tokio::select! {
                biased;
                message = messages.recv() => match message {
                    Some(message) => self.take(message, &mut messages),
                    None => return,
                },
                () = self.clock.sleep_until(look_again) => {}
            }
            if self.listed.len() < Part::ALL.len() {
                continue;
            }
            look_again = match self.settle().await {
                Ok(renew_at) => {
                    pause = FIRST_PAUSE;
                    renew_at.min(later(self.clock.now(), LOOK_AGAIN))
                }
                Err(trouble) => {
                    tracing::warn!("admission is not registered as it should be: {trouble}");
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    later(self.clock.now(), pause)
                }
            };
        }
    }

    fn take(&mut self, first: Message, more: &mut UnboundedReceiver<Message>) {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Seen(part, Some(object)) => {
                    // What we wrote ourselves may be newer than what a watch tells.
                    if self.objects.get(&part).is_none_or(|known| version(known) <= version(&object)) {
                        self.objects.insert(part, *object);
                    }
                }
                Message::Seen(part, None) => drop(self.objects.remove(&part)),
                Message::Listed(part) => drop(self.listed.insert(part)),
            }
            next = more.try_recv().ok();
        }
    }

    /// Makes everything as it should be, and says when the certificate has to be made anew.
    async fn settle(&mut self) -> Result<Timestamp, Trouble> {
        if let Some(who) = self.incumbent() {
            self.withdraw(&who).await?;
            return Ok(Timestamp::MAX);
        }
        self.told = None;
        let certificate = self.certificate().await?;
        if self.shown.as_ref() != Some(&certificate) {
            self.tls.send_replace(Some(certificate.tls()?));
            self.shown = Some(certificate.clone());
        }
        for question in [Question::Validation, Question::Mutation] {
            self.register(question, &certificate.authorities).await?;
        }
        Ok(certificate.renew_at())
    }

    fn incumbent(&self) -> Option<String> {
        let mut cluster = Cluster::new(self.clock.now());
        let deployment = self.objects.get(&Part::Deployment)?;
        cluster.take_item("apps/v1", "Deployment", deployment.to_string().as_bytes());
        registration::incumbent(&cluster)
    }

    /// Two webhooks for the same Upgrades would contradict each other: ours goes.
    async fn withdraw(&mut self, who: &str) -> Result<(), Trouble> {
        if self.told.as_deref() != Some(who) {
            tracing::info!("admission is not registered: {who} answers for Upgrades");
            self.told = Some(who.to_owned());
        }
        for question in [Question::Validation, Question::Mutation] {
            let Some(there) = self.objects.get(&Part::of(question)) else { continue };
            let path = format!("{REGISTRATIONS}/{}/{}", registration::plural(question), registration::NAME);
            let options = json!({ "preconditions": { "uid": there["metadata"]["uid"] } });
            match self.api.delete(&path, &options).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(404) => {}
                Err(error) => return Err(Trouble::Write { what: path, error }),
            }
            self.objects.remove(&Part::of(question));
        }
        Ok(())
    }

    /// The certificate that the Secret holds, or a new one.
    async fn certificate(&mut self) -> Result<Certificate, Trouble> {
        let there = self.objects.get(&Part::Secret);
        let held = there.and_then(|secret| Certificate::read(secret, &self.hosts));
        let now = self.clock.now();
        if let Some(held) = held.as_ref().filter(|held| now < held.renew_at()) {
            return Ok(held.clone());
        }
        let made = Certificate::make(&self.hosts, now, held.as_ref())?;
        let secret = made.secret(&self.namespace, SECRET, &self.hosts);
        let collection = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        self.write(Part::Secret, &collection, secret).await?;
        tracing::info!("made a certificate for {}", self.hosts.join(", "));
        Ok(made)
    }

    async fn register(&mut self, question: Question, authorities: &str) -> Result<(), Trouble> {
        let part = Part::of(question);
        let wanted = registration::configuration(question, &self.place, authorities);
        if self.objects.get(&part).is_some_and(|there| !registration::differs(there, &wanted)) {
            return Ok(());
        }
        self.write(part, &format!("{REGISTRATIONS}/{}", registration::plural(question)), wanted).await
    }

    /// Creates an object, or writes it over the one that was seen. A conflict means that somebody else was faster: what they
    /// wrote is seen soon.
    async fn write(&mut self, part: Part, collection: &str, mut wanted: Value) -> Result<(), Trouble> {
        let what = format!("{collection}/{}", part.name());
        let answer = match self.objects.get(&part) {
            None => self.api.post(collection, &wanted).await,
            Some(there) => {
                wanted["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
                self.api.put(&what, &wanted).await
            }
        };
        let stored = answer
            .and_then(|body| serde_json::from_slice(&body).map_err(|error| ApiError::Unreadable(error.to_string())));
        match stored {
            Ok(stored) => {
                self.objects.insert(part, stored);
                Ok(())
            }
            Err(error) => Err(Trouble::Write { what, error }),
        }
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Tells of one object of a collection.
struct Ear {
    part: Part,
    to: UnboundedSender<Message>,
    /// By a list that is not whole yet.
    found: Option<Box<Value>>,
}

impl Ear {
    fn read(&self, json: &str) -> Option<(Box<Value>, u64, bool)> {
        let object: Value = serde_json::from_str(json).ok()?;
        let (version, is_it) = (version(&object), object["metadata"]["name"] == self.part.name());
        Some((Box::new(object), version, is_it))
    }

    /// A closed inbox means that the registrar has ended, and this with it.
    fn tell(&self, message: Message) {
        let _ = self.to.send(message);
    }
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.found = None;
    }

    fn item(&mut self, json: &str) {
        if let Some((object, _, true)) = self.read(json) {
            self.found = Some(object);
        }
    }

    fn listed(&mut self, _: u64) {
        let found = self.found.take();
        self.tell(Message::Seen(self.part, found));
        self.tell(Message::Listed(self.part));
    }

    fn watching(&mut self) {}

    fn changed(&mut self, json: &str) -> Option<u64> {
        let (object, version, is_it) = self.read(json)?;
        if is_it {
            self.tell(Message::Seen(self.part, Some(object)));
        }
        Some(version)
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        let (_, version, is_it) = self.read(json)?;
        if is_it {
            self.tell(Message::Seen(self.part, None));
        }
        Some(version)
    }

    fn unseen(&mut self, error: &ApiError) {
        tracing::warn!("cannot watch what admission rests on ({:?}): {error}", self.part);
        // Whether Harvester is at work has to be seen; a kind that is not served, or no such namespace, holds nothing.
        if error.code() == Some(404) {
            self.tell(Message::Listed(self.part));
        }
    }

    fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}
