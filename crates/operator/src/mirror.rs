//! A cluster that is kept up by watches: what is changed or gone is told here, and nothing is asked for twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drover_clock::Clock;
use drover_core::cluster::{Cause, Cluster, FOLLOWED, OF_UPGRADES, ObjectRef, RESOURCES, Resource, Unseen};
use drover_core::decision::{Kind, Subject};
use drover_core::harvester::followed::{Followed, Meanwhile};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use crate::act::Ears;
use crate::api::{Api, ApiError};
use crate::follow::{Collection, Listener, follow, read};
use crate::survey::{cause, groups, path_of, version_of};

/// The contents of Secrets, which only Plans need.
const CONTENTS: &str = "SecretContents";

/// The Leases of operators, as opposed to those of kubelets.
const LEADERS: &str = "OperatorLease";

/// Where objects are followed: their kind, the namespace, and the name if it is only one.
type Place = (&'static str, &'static str, String);

/// What is told of a kind.
enum News {
    Object {
        object: ObjectRef,
        api_version: Arc<str>,
        kind: &'static str,
        json: String,
        metadata_only: bool,
        version: u64,
    },
    /// As of a version; none if somebody was told who knows.
    Gone { kind: &'static str, namespace: String, name: String, version: Option<u64> },
    /// All objects of the kind are here.
    Whole(Place),
    /// And where it is followed.
    Unseen(Unseen, Place),
}

/// A cluster, and the watches that keep it up. They end with it.
pub struct Mirror {
    cluster: Cluster,
    news: UnboundedReceiver<News>,
    ears: UnboundedSender<News>,
    watches: JoinSet<()>,
    /// The groups and versions that the server has, where somebody has asked.
    served: BTreeMap<String, BTreeSet<String>>,
    /// Those watches among them that end before it does.
    meanwhile: BTreeMap<Meanwhile, AbortHandle>,
    api: Api,
    clock: Clock,
    /// Of these nothing was heard yet.
    awaited: BTreeSet<Place>,
    /// Namespaces with Plans, whose Secrets are read.
    plan_namespaces: BTreeSet<String>,
    /// The newest version of each object, where writes are told beside what is watched: an older event is no news then.
    versions: Option<BTreeMap<ObjectRef, u64>>,
}

/// Where these are served there are guest clusters, whose machines are made of templates.
const WITH_TEMPLATES: [&str; 2] = [drover_api::cluster_api::CONTROL_PLANE_GROUP, drover_api::tanzu::GROUP];

/// How long to wait before asking again what a server has.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(1);

impl Mirror {
    /// Begins to follow all kinds that are worth it and that the cluster has.
    pub async fn begin(api: Api, clock: Clock) -> Self {
        let mut cluster = Cluster::new(clock.now());
        let served = groups(&api).await.unwrap_or_else(|error| {
            // Without discovery the kinds of Kubernetes itself are still where they always are.
            cluster.unseen.push(Unseen { kind: "APIGroup".to_owned(), object: None, cause: cause(&error) });
            BTreeMap::new()
        });
        // Templates are of whichever kind a provider has, and none of these is followed.
        if served.keys().any(|group| WITH_TEMPLATES.contains(&group.as_str())) {
            let kind = "MachineTemplate".to_owned();
            cluster.unseen.push(Unseen { kind, object: None, cause: Cause::NotCollected });
        }
        let mut mirror = Mirror::listening(cluster, api, clock);
        for resource in RESOURCES.iter().filter(|resource| FOLLOWED.contains(&resource.kind)) {
            // The definition of Plan may come later; other products are there, or are not.
            let version = version_of(resource, &served).or(resource.versions.first().copied());
            match version.filter(|_| resource.kind == "Plan" || version_of(resource, &served).is_some()) {
                Some(version) => mirror.follow(*resource, version),
                None => mirror.cluster.unseen.push(missing(resource, Cause::NoSuchKind)),
            }
        }
        mirror
    }

    /// Follows these and no others, for somebody who writes, too: what writes are answered with is told here ([`Mirror::ears`]).
    pub async fn of(api: Api, clock: Clock, followed: &[Followed]) -> Self {
        let served = loop {
            // Kinds that have one version only are where they always are.
            if followed.iter().filter_map(|one| resource(one.kind)).all(|resource| resource.versions.len() == 1) {
                break BTreeMap::new();
            }
            match groups(&api).await {
                Ok(served) => break served,
                Err(error) => {
                    tracing::warn!("cannot ask the API server which kinds it has: {error}");
                    clock.sleep(DISCOVERY_PAUSE).await;
                }
            }
        };
        let mut mirror = Mirror::listening(Cluster::new(clock.now()), api, clock);
        (mirror.versions, mirror.served) = (Some(BTreeMap::new()), served);
        for Followed { kind, namespace, label, once } in followed.iter().copied() {
            let Some((resource, version)) = mirror.served_as(kind, namespace) else { continue };
            mirror.hear_of(resource, version, Chosen { label, ..Chosen::default() }, once);
        }
        mirror
    }

    fn listening(cluster: Cluster, api: Api, clock: Clock) -> Self {
        let (ears, news) = unbounded_channel();
        Mirror {
            cluster,
            news,
            ears,
            watches: JoinSet::new(),
            served: BTreeMap::new(),
            meanwhile: BTreeMap::new(),
            api,
            clock,
            awaited: BTreeSet::new(),
            plan_namespaces: BTreeSet::new(),
            versions: None,
        }
    }

    /// What is not served yet is asked for again and again: its definition may come.
    fn served_as(&self, kind: &str, namespace: &'static str) -> Option<(Resource, &'static str)> {
        let resource = resource(kind)?;
        let version = version_of(&resource, &self.served).or(resource.versions.first().copied()).unwrap_or("v1");
        Some((Resource { namespace, ..resource }, version))
    }

    /// Follows these as well from now on, and none of those any more that were asked for here before. Until all of them were heard of, the
    /// cluster is not known.
    pub fn follow_meanwhile(&mut self, wanted: &BTreeSet<Meanwhile>) {
        let over: Vec<Meanwhile> = self.meanwhile.keys().filter(|one| !wanted.contains(*one)).cloned().collect();
        for one in over {
            self.meanwhile.remove(&one).into_iter().for_each(|watch| watch.abort());
            self.forget_all(&one);
        }
        for one in wanted {
            if self.meanwhile.contains_key(one) {
                continue;
            }
            let Some((resource, version)) = self.served_as(one.kind, one.namespace) else { continue };
            // A watch that was ended may have told something last.
            self.forget_all(one);
            let watch = self.hear_of(resource, version, Chosen { name: one.name.clone(), ..Chosen::default() }, false);
            self.meanwhile.insert(one.clone(), watch);
        }
        // Ended tasks are not kept.
        while self.watches.try_join_next().is_some() {}
    }

    fn forget_all(&mut self, of: &Meanwhile) {
        let is_one = |object: &ObjectRef| {
            object.kind == of.kind && object.namespace == of.namespace && (of.name.is_empty() || object.name == of.name)
        };
        let known = self.versions.iter().flat_map(BTreeMap::keys).filter(|object| is_one(object));
        for object in known.cloned().collect::<Vec<ObjectRef>>() {
            if let Some(versions) = &mut self.versions {
                versions.remove(&object);
            }
            self.cluster.forget(of.kind, &object.namespace, &object.name);
        }
        self.awaited.remove(&(of.kind, of.namespace, of.name.clone()));
        if of.name.is_empty() {
            self.cluster.unseen.retain(|unseen| unseen.kind != of.kind);
        }
    }

    /// Who is told what writes are answered with.
    pub fn ears(&self) -> Arc<dyn Ears> {
        Arc::new(Answers(self.ears.clone()))
    }

    fn follow(&mut self, resource: Resource, version: &str) {
        self.hear_of(resource, version, Chosen::default(), false);
    }

    fn hear_of(&mut self, resource: Resource, version: &str, chosen: Chosen, once: bool) -> AbortHandle {
        let metadata_only = resource.kind == "Secret";
        let Chosen { label, name } = chosen;
        let place = (resource.kind, resource.namespace, name.clone());
        let collection = Collection { path: path_of(&resource, version), label, name, metadata_only };
        let ear = Ear::new(resource, version, place.clone(), metadata_only, self.ears.clone());
        self.awaited.insert(place);
        let (api, clock) = (self.api.clone(), self.clock);
        match once {
            true => self.watches.spawn(read(api, clock, collection, ear)),
            false => self.watches.spawn(follow(api, clock, collection, ear)),
        }
    }

    /// The Secrets that Plans of a namespace may name are read: what is in them is part of what a Plan asks for.
    fn follow_contents(&mut self, namespace: &str) {
        let Some(secrets) = RESOURCES.iter().find(|resource| resource.kind == "Secret") else { return };
        if !self.plan_namespaces.insert(namespace.to_owned()) {
            return;
        }
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        let collection = Collection { path, label: "", name: String::new(), metadata_only: false };
        let ear = Ear::new(*secrets, "v1", (CONTENTS, "", String::new()), false, self.ears.clone());
        self.watches.spawn(follow(self.api.clone(), self.clock, collection, ear));
        self.follow_leases(namespace);
    }

    /// Who leads among the operators of Plans.
    fn follow_leases(&mut self, namespace: &str) {
        let Some(leases) = RESOURCES.iter().find(|resource| resource.kind == "Lease") else { return };
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let collection = Collection { path, label: "", name: String::new(), metadata_only: false };
        let ear = Ear::new(*leases, "v1", (LEADERS, "", String::new()), false, self.ears.clone());
        self.watches.spawn(follow(self.api.clone(), self.clock, collection, ear));
    }

    /// The cluster as it is known now; none before every kind was heard of once.
    pub fn cluster(&mut self) -> Option<&Cluster> {
        self.cluster.looked_at = self.clock.now();
        Some(&self.cluster).filter(|_| self.awaited.is_empty())
    }

    /// Waits for news and takes in all that are there; true if they can change what is told.
    pub async fn hear(&mut self) -> bool {
        let Some(first) = self.news.recv().await else { return std::future::pending().await };
        let mut tells = self.take(first);
        while let Ok(next) = self.news.try_recv() {
            tells |= self.take(next);
        }
        tells
    }

    fn take(&mut self, news: News) -> bool {
        match news {
            News::Object { object, api_version, kind, json, metadata_only, version } => {
                if !self.is_newest(&object, version) {
                    return false;
                }
                // It may be readable by now.
                self.cluster.unseen.retain(|unseen| unseen.object.as_ref() != Some(&object));
                match metadata_only {
                    true => self.cluster.take_secret_metadata(json.as_bytes()),
                    false => self.cluster.take_item(&api_version, bare_kind(kind), json.as_bytes()),
                }
                // Who writes through which version of the API is a matter of checks, which are not made here.
                self.cluster.old_versions.clear();
                let namespaces: BTreeSet<String> = match kind {
                    "Plan" if self.versions.is_none() => {
                        self.cluster.plans().map(|plan| plan.meta.namespace.clone()).collect()
                    }
                    _ => BTreeSet::new(),
                };
                namespaces.iter().for_each(|namespace| self.follow_contents(namespace));
                // Heartbeats come all the time, and say nothing as long as they come.
                kind != "Lease"
            }
            News::Gone { kind, namespace, name, version } => {
                if let Some(versions) = &mut self.versions {
                    let object = ObjectRef::new(kind, &namespace, &name);
                    // The next of that name may be known already.
                    let known = versions.get(&object).copied().unwrap_or(0);
                    if version.is_some_and(|version| version < known) {
                        return false;
                    }
                    versions.remove(&object);
                }
                self.cluster.forget(kind, &namespace, &name);
                true
            }
            News::Whole(place) => {
                self.cluster.unseen.retain(|unseen| unseen.kind != place.0 || unseen.object.is_some());
                self.awaited.remove(&place)
            }
            News::Unseen(unseen, place) => {
                let is_new = !self.cluster.unseen.contains(&unseen);
                self.cluster.unseen.retain(|known| known.kind != unseen.kind || known.object.is_some());
                let heard = self.awaited.remove(&place);
                self.cluster.unseen.push(unseen);
                is_new || heard
            }
        }
    }
}

impl Mirror {
    fn is_newest(&mut self, object: &ObjectRef, version: u64) -> bool {
        let Some(versions) = &mut self.versions else { return true };
        let known = versions.entry(object.clone()).or_insert(0);
        let newest = version > *known;
        *known = version.max(*known);
        newest
    }
}

/// A kind by its name, of those that are surveyed and of those that only Upgrades know.
fn resource(kind: &str) -> Option<Resource> {
    RESOURCES.iter().chain(OF_UPGRADES).find(|resource| resource.kind == kind).copied()
}

/// What writes are answered with, on its way to the mirror.
#[derive(Debug)]
struct Answers(UnboundedSender<News>);

impl Ears for Answers {
    fn hear(&self, subject: &Subject, body: Option<&[u8]>) -> Option<u64> {
        let resource = resource(&kind_of(subject.kind))?;
        let (namespace, name) = (subject.namespace.clone(), subject.name.clone());
        let Some(body) = body else {
            let _ = self.0.send(News::Gone { kind: resource.kind, namespace, name, version: None });
            return None;
        };
        let json = String::from_utf8_lossy(body).into_owned();
        let version = serde_json::from_str::<Head>(&json).ok()?.metadata.resource_version.parse().ok()?;
        let api_version = api_version(&resource, resource.versions.first().copied().unwrap_or("v1"));
        let object = ObjectRef::new(resource.kind, &namespace, &name);
        let metadata_only = resource.kind == "Secret";
        // The mirror may be gone.
        let _ = self.0.send(News::Object { object, api_version, kind: resource.kind, json, metadata_only, version });
        Some(version)
    }
}

fn kind_of(kind: Kind) -> String {
    match kind {
        Kind::Cluster => "Cluster.provisioning.cattle.io".to_owned(),
        Kind::CapiCluster => "Cluster".to_owned(),
        Kind::Setting | Kind::Engine | Kind::VolumeAttachment => format!("{kind:?}.longhorn.io"),
        kind => format!("{kind:?}"),
    }
}

fn api_version(resource: &Resource, version: &str) -> Arc<str> {
    match resource.group {
        "" => version.into(),
        group => format!("{group}/{version}").into(),
    }
}

/// As objects spell it.
fn bare_kind(kind: &'static str) -> &'static str {
    kind.split_once('.').map_or(kind, |(kind, _)| kind)
}

fn missing(resource: &Resource, cause: Cause) -> Unseen {
    Unseen { kind: resource.kind.to_owned(), object: None, cause }
}

/// Which objects of a kind; by itself, all.
#[derive(Default)]
struct Chosen {
    label: &'static str,
    name: String,
}

/// Tells the mirror of one kind.
struct Ear {
    resource: Resource,
    api_version: Arc<str>,
    /// As what it counts if it cannot be seen.
    place: Place,
    metadata_only: bool,
    news: UnboundedSender<News>,
    /// Namespaces and names of what is there.
    known: BTreeSet<(String, String)>,
    /// The same, of a list that is not whole yet.
    listed: BTreeSet<(String, String)>,
}

#[derive(Deserialize)]
struct Head {
    metadata: Name,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Name {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    resource_version: String,
}

impl Ear {
    fn new(resource: Resource, version: &str, place: Place, metadata_only: bool, news: UnboundedSender<News>) -> Self {
        let api_version = api_version(&resource, version);
        let (known, listed) = (BTreeSet::new(), BTreeSet::new());
        Ear { resource, api_version, place, metadata_only, news, known, listed }
    }

    fn tell(&self, news: News) {
        // The mirror may be gone.
        let _ = self.news.send(news);
    }

    /// Passes an object on; its name, unless it has none.
    fn pass(&self, json: &str) -> Option<Name> {
        let head: Head = serde_json::from_str(json).ok()?;
        let kind = self.resource.kind;
        let object = ObjectRef::new(kind, &head.metadata.namespace, &head.metadata.name);
        let (api_version, json) = (self.api_version.clone(), json.to_owned());
        let version = head.metadata.resource_version.parse().unwrap_or(0);
        self.tell(News::Object { object, api_version, kind, json, metadata_only: self.metadata_only, version });
        Some(head.metadata)
    }
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn item(&mut self, json: &str) {
        let name = self.pass(json);
        self.listed.extend(name.map(|name| (name.namespace, name.name)));
    }

    fn listed(&mut self, version: u64) {
        let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listed));
        for (namespace, name) in before.difference(&self.known) {
            let (kind, namespace, name) = (self.resource.kind, namespace.clone(), name.clone());
            self.tell(News::Gone { kind, namespace, name, version: Some(version) });
        }
        self.tell(News::Whole(self.place.clone()));
    }

    fn watching(&mut self) {}

    fn changed(&mut self, json: &str) -> Option<u64> {
        let Name { name, namespace, resource_version } = self.pass(json)?;
        self.known.insert((namespace, name));
        resource_version.parse().ok()
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        let Head { metadata: Name { name, namespace, resource_version } } = serde_json::from_str(json).ok()?;
        self.known.remove(&(namespace.clone(), name.clone()));
        let version = resource_version.parse().ok();
        self.tell(News::Gone { kind: self.resource.kind, namespace, name, version });
        version
    }

    fn unseen(&mut self, error: &ApiError) {
        let unseen = Unseen { kind: self.place.0.to_owned(), object: None, cause: cause(error) };
        self.tell(News::Unseen(unseen, self.place.clone()));
    }

    fn is_closed(&self) -> bool {
        self.news.is_closed()
    }
}
