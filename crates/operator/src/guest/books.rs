//! What is known of the two clusters, kept up by watches.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::{BOOTSTRAP_GROUP, labels, secrets};
use drover_clock::{Clock, between};
use drover_core::guest::{Collection, Dialect, Object, Seen, Side};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::etcd::Authority;
use crate::api::{Api, ApiError};
use crate::follow::{self, Listener, follow};

/// How long a guest cluster may take to tell of itself before it counts as away.
const FIRST_ANSWER: std::time::Duration = std::time::Duration::from_secs(30);
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Where something is told of, by collection and, where that is more than one, by path.
type Source = (Collection, String);

enum News {
    Listed { source: Source, objects: Vec<Value>, as_of: u64 },
    Changed(Source, Value),
    Gone(Source, Value),
    Watching(Source),
    Unseen { source: Source, forbidden: bool, why: String },
}

/// They end with it.
pub struct Books {
    seen: Seen,
    news: UnboundedReceiver<News>,
    ear: UnboundedSender<News>,
    watches: JoinSet<()>,
    api: Api,
    clock: Clock,
    namespace: String,
    cluster: String,
    /// Of whom nothing was heard yet.
    awaited: BTreeSet<Source>,
    /// Who cannot be seen, and why.
    unseen: BTreeMap<Source, (bool, String)>,
    infrastructure: BTreeSet<String>,
    /// The version of each group of infrastructure that Machines name without one.
    versions: BTreeMap<String, String>,
    /// Why the version of a group is not known.
    unversioned: BTreeMap<String, String>,
    follows_guest: bool,
    unreachable: Option<String>,
}

impl Books {
    pub fn open(api: Api, clock: Clock, namespace: &str, cluster: &str, dialect: Dialect) -> Self {
        let (ear, news) = unbounded_channel();
        let mut books = Books {
            seen: Seen::default(),
            news,
            ear,
            watches: JoinSet::new(),
            api,
            clock,
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            awaited: BTreeSet::new(),
            unseen: BTreeMap::new(),
            infrastructure: BTreeSet::new(),
            versions: BTreeMap::new(),
            unversioned: BTreeMap::new(),
            follows_guest: false,
            unreachable: None,
        };
        let (group, version) = (drover_api::cluster_api::GROUP, dialect.version());
        let place = |group: &str, plural: &str| format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}");
        let own = format!("{cluster}-");
        books.follow(Collection::Clusters, place(group, "clusters"), "", cluster);
        books.follow(Collection::Machines, place(group, "machines"), "", "");
        books.follow(Collection::Configs, place(BOOTSTRAP_GROUP, "kubeadmconfigs"), "", "");
        books.follow(Collection::Secrets, format!("/api/v1/namespaces/{namespace}/secrets"), "", &own);
        books
    }

    /// Only what the names of which begin so is kept.
    fn follow(&mut self, collection: Collection, path: String, label: &'static str, prefix: &str) {
        let api = self.api.clone();
        self.follow_on(api, collection, path, label, prefix);
    }

    fn follow_on(&mut self, api: Api, collection: Collection, path: String, label: &'static str, prefix: &str) {
        let source = (collection, path.clone());
        self.awaited.insert(source.clone());
        let ear = Ear { source, prefix: prefix.to_owned(), listed: Vec::new(), news: self.ear.clone() };
        let followed = follow::Collection { path, label, name: String::new(), metadata_only: false };
        self.watches.spawn(follow(api, self.clock, followed, ear));
    }

    pub fn follow_guest(&mut self, client: Client) {
        let api = Api::new(client, self.clock);
        let system = |plural: &str| format!("/api/v1/namespaces/kube-system/{plural}");
        self.follow_on(api.clone(), Collection::Nodes, "/api/v1/nodes".to_owned(), "", "");
        self.follow_on(api.clone(), Collection::Pods, system("pods"), "tier=control-plane", "");
        self.follow_on(api.clone(), Collection::ConfigMaps, system("configmaps"), "", "kube");
        let rbac = |plural: &str| format!("/apis/{RBAC}/namespaces/kube-system/{plural}");
        self.follow_on(api.clone(), Collection::Roles, rbac("roles"), "", "kubeadm:");
        self.follow_on(api.clone(), Collection::RoleBindings, rbac("rolebindings"), "", "kubeadm:");
        self.follow_on(api.clone(), Collection::ClusterRoles, format!("/apis/{RBAC}/clusterroles"), "", "kubeadm:");
        let bindings = format!("/apis/{RBAC}/clusterrolebindings");
        self.follow_on(api, Collection::ClusterRoleBindings, bindings, "", "kubeadm:");
        self.follows_guest = true;
        self.unreachable = None;
    }

    pub fn away(&mut self, why: String) {
        self.unreachable = Some(why);
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// What a write was answered with.
    pub fn learn(&mut self, object: &Object, answer: Option<Value>) {
        let Some(collection) = collection_of(object) else { return };
        match answer {
            Some(value) => self.seen.put(collection, value),
            None if collection == Collection::Infrastructure => {
                self.seen.forget(collection, &format!("{}/{}", object.kind, object.name));
            }
            None => self.seen.forget(collection, &object.name),
        }
    }

    pub fn kubeconfig(&self, name: &str) -> Option<String> {
        self.secret(name, secrets::VALUE)
    }

    pub fn authority(&self, name: &str) -> Option<Authority> {
        Some(Authority::new(self.secret(name, secrets::CERTIFICATE)?, self.secret(name, secrets::KEY)?))
    }

    fn secret(&self, name: &str, key: &str) -> Option<String> {
        let secret = self.seen.get(Collection::Secrets, name)?;
        let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    }

    pub fn has_cluster(&self, name: &str) -> bool {
        self.seen.get(Collection::Clusters, name).is_some()
    }

    /// All that the management cluster has to tell was told once.
    pub fn management_is_whole(&self) -> bool {
        let awaits = self.awaited.iter().any(|(collection, _)| !Collection::OF_GUEST.contains(collection));
        !awaits && self.unknown_groups().is_empty()
    }

    /// What the management cluster has not told yet, and why, where it says so.
    pub fn missing(&self) -> Option<(String, Option<String>)> {
        let of_management = |(collection, _): &&Source| !Collection::OF_GUEST.contains(collection);
        let awaited = self.awaited.iter().filter(of_management);
        let paths = awaited.map(|source| (source.1.clone(), self.unseen.get(source).map(|(_, why)| why.clone())));
        let groups = self.unknown_groups().into_iter();
        let groups = groups.map(|group| (format!("/apis/{group}"), self.unversioned.get(&group).cloned()));
        let all: Vec<(String, Option<String>)> = paths.chain(groups).collect();
        all.iter().find(|(_, why)| why.is_some()).or(all.first()).cloned()
    }

    /// The guest has not told all yet, and has not had the time to.
    pub fn guest_is_listed_soon(&self, started: Timestamp) -> bool {
        let awaits = self.awaited.iter().any(|(collection, _)| Collection::OF_GUEST.contains(collection));
        awaits && self.why_unseen().is_none() && between(started, self.clock.now()) < FIRST_ANSWER
    }

    /// What may not be read, and will not be told by waiting.
    pub fn forbidden(&self) -> Option<(String, String)> {
        let found = self.unseen.iter().find(|(source, (forbidden, _))| *forbidden && self.awaited.contains(source));
        found.map(|((_, path), (_, why))| (path.clone(), why.clone()))
    }

    pub fn why_away(&self) -> Option<&str> {
        let awaits = self.awaited.iter().any(|(collection, _)| Collection::OF_GUEST.contains(collection));
        let silent = (awaits || !self.follows_guest).then_some("it has not told of its objects yet");
        self.unreachable.as_deref().or(self.why_unseen()).or(silent)
    }

    fn why_unseen(&self) -> Option<&str> {
        let mut of_guest = self.unseen.iter().filter(|((collection, _), _)| Collection::OF_GUEST.contains(collection));
        of_guest.next().map(|(_, (_, why))| why.as_str())
    }

    /// Waits for news, at most until then, and takes in all that are there.
    pub async fn hear_until(&mut self, moment: Timestamp) {
        let clock = self.clock;
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => self.take(news),
            () = clock.sleep_until(moment) => {}
        }
        self.take_all();
        self.learn_versions().await;
    }

    pub fn take_all(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(news);
        }
        self.follow_infrastructure();
    }

    fn take(&mut self, news: News) {
        match news {
            News::Listed { source, objects, as_of } => {
                // Infrastructure may be of several kinds: a list of one does not tell of the others.
                let is_of_kind = |object: &Value| {
                    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
                    source.0 != Collection::Infrastructure || source.1.ends_with(&format!("/{kind}s"))
                };
                self.seen.keep(source.0, objects, as_of, is_of_kind);
                self.awaited.remove(&source);
                self.unseen.remove(&source);
            }
            News::Changed(source, object) => {
                self.seen.put(source.0, object);
                self.unseen.remove(&source);
            }
            News::Gone(source, object) => {
                self.seen.remove(source.0, &object);
            }
            News::Watching(source) => {
                self.unseen.remove(&source);
            }
            News::Unseen { source, forbidden, why } => {
                self.unseen.insert(source, (forbidden, why));
            }
        }
    }

    /// What the Machines of the control plane name as their infrastructure. Those of others in the namespace are nothing to it: what they are made of
    /// need not even be served.
    fn references(&self) -> impl Iterator<Item = &Value> {
        let is_one = |machine: &&Value| {
            let all = &machine["metadata"]["labels"];
            all[labels::CLUSTER_NAME] == self.cluster && all[labels::CONTROL_PLANE].is_string()
        };
        self.seen.all(Collection::Machines).filter(is_one).map(|machine| &machine["spec"]["infrastructureRef"])
    }

    /// Groups that Machines name without a version, of which it is not known yet.
    fn unknown_groups(&self) -> BTreeSet<String> {
        let named = self.references().filter_map(|reference| reference["apiGroup"].as_str());
        named.filter(|group| !self.versions.contains_key(*group)).map(str::to_owned).collect()
    }

    /// The server says which version of a group it likes best. One that does not answer is asked again with the next news.
    async fn learn_versions(&mut self) {
        for group in self.unknown_groups() {
            let said: Value = match self.api.get(&format!("/apis/{group}")).await {
                Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
                Err(error) => {
                    self.unversioned.insert(group, error.to_string());
                    continue;
                }
            };
            match said["preferredVersion"]["groupVersion"].as_str() {
                Some(version) => drop(self.versions.insert(group, version.to_owned())),
                None => drop(self.unversioned.insert(group, "it names no version that it prefers".to_owned())),
            }
        }
        self.follow_infrastructure();
    }

    /// Machines name the kinds of their infrastructure.
    fn follow_infrastructure(&mut self) {
        let mut paths = Vec::new();
        for reference in self.references() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let known = reference["apiGroup"].as_str().map(|group| self.versions.get(group));
            let api_version = match known {
                Some(None) => continue,
                Some(Some(version)) => version.clone(),
                None => text(&reference["apiVersion"]),
            };
            let object = Object {
                side: Side::Management,
                api_version,
                kind: text(&reference["kind"]),
                namespace: self.namespace.clone(),
                name: String::new(),
            };
            let path = object.collection();
            if !object.kind.is_empty() && !self.infrastructure.contains(&path) && !paths.contains(&path) {
                paths.push(path);
            }
        }
        for path in paths {
            self.infrastructure.insert(path.clone());
            self.follow(Collection::Infrastructure, path, "", "");
        }
    }
}

/// Where an object is kept.
fn collection_of(object: &Object) -> Option<Collection> {
    Some(match (object.side, object.kind.as_str()) {
        (Side::Management, "Cluster") => Collection::Clusters,
        (Side::Management, "Machine") => Collection::Machines,
        (Side::Management, "KubeadmConfig") => Collection::Configs,
        (Side::Management, "Secret") => Collection::Secrets,
        (Side::Management, _) => Collection::Infrastructure,
        (Side::Guest, "Node") => Collection::Nodes,
        (Side::Guest, "ConfigMap") => Collection::ConfigMaps,
        (Side::Guest, "Role") => Collection::Roles,
        (Side::Guest, "RoleBinding") => Collection::RoleBindings,
        (Side::Guest, "ClusterRole") => Collection::ClusterRoles,
        (Side::Guest, "ClusterRoleBinding") => Collection::ClusterRoleBindings,
        (Side::Guest, _) => return None,
    })
}

struct Ear {
    source: Source,
    prefix: String,
    listed: Vec<Value>,
    news: UnboundedSender<News>,
}

impl Ear {
    fn tell(&self, news: News) {
        // Closed with the update.
        let _ = self.news.send(news);
    }

    /// The object as it is kept, if it concerns the update.
    fn kept(&self, mut object: Value) -> Option<Value> {
        if !object["metadata"]["name"].as_str()?.starts_with(&self.prefix) {
            return None;
        }
        // Items of a list of Kubernetes' own kinds do not say what they are.
        let (api_version, kind) = match self.source.0 {
            Collection::Secrets => ("v1", "Secret"),
            Collection::Nodes => ("v1", "Node"),
            Collection::Pods => ("v1", "Pod"),
            Collection::ConfigMaps => ("v1", "ConfigMap"),
            _ => return Some(object),
        };
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        Some(object)
    }
}

fn revision(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn item(&mut self, json: &str) {
        let object: Option<Value> = serde_json::from_str(json).ok();
        self.listed.extend(object.and_then(|object| self.kept(object)));
    }

    fn listed(&mut self, resource_version: u64) {
        let objects = std::mem::take(&mut self.listed);
        self.tell(News::Listed { source: self.source.clone(), objects, as_of: resource_version });
    }

    fn watching(&mut self) {
        self.tell(News::Watching(self.source.clone()));
    }

    fn changed(&mut self, json: &str) -> Option<u64> {
        let object: Value = serde_json::from_str(json).ok()?;
        let revision = revision(&object);
        if let Some(object) = self.kept(object) {
            self.tell(News::Changed(self.source.clone(), object));
        }
        revision
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        let object: Value = serde_json::from_str(json).ok()?;
        let revision = revision(&object);
        if let Some(object) = self.kept(object) {
            self.tell(News::Gone(self.source.clone(), object));
        }
        revision
    }

    fn unseen(&mut self, error: &ApiError) {
        let (source, forbidden) = (self.source.clone(), error.is_forbidden());
        self.tell(News::Unseen { source, forbidden, why: error.to_string() });
    }

    fn is_closed(&self) -> bool {
        self.news.is_closed()
    }
}
