//! A Kubernetes API server in memory.
//!
//! It is a `tower::Service`, used in process by [`ApiServer::client`] and served over a socket by whoever likes to. All
//! objects live in one store behind one lock; every write is one commit with one resourceVersion.
//!
//! Served is every kind that a real server serves by default, and every kind that a stored definition declares. A request
//! comes in through `service`, is understood in `request` and answered in `requests`; a write goes its way in `write`, which takes the steps of one
//! of the `verbs` on the `store`, by the rules that its kind has in `builtin` or by its `schema`.
//!
//! It speaks JSON and YAML, not protobuf, and has no conversion webhooks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use drover_clock::Clock;
use kube::Client;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

mod admission;
mod age;
mod autoscaler_forms;
mod binding;
mod body;
mod builtin;
mod components;
mod conditions;
mod crds;
mod definition_rules;
mod direct;
mod discovery;
mod duplicates;
mod event_forms;
mod eviction;
mod fields;
mod forms;
mod gotext;
mod identity;
mod kubelet;
mod kubevirt;
mod kubevirt_eviction;
mod label_selector;
mod log;
mod meta_rules;
mod names;
mod namespaces;
mod object;
mod openapi;
mod options;
mod packed;
mod pod_log;
mod protobuf;
mod recorded;
mod request;
mod requests;
mod resources;
mod reviews;
mod saved;
mod scale;
mod schema;
mod selectors;
mod service;
mod status;
mod store;
mod stored;
mod streams;
mod table;
mod tokens;
mod unmanaged;
mod verbs;
mod view;
mod warnings;
mod watch;
mod write;

use self::{
    admission::{Admission, Chain},
    store::{Cause, Locked, Store},
    tokens::Tokens,
    verbs::Target,
    write::{Intent, Write},
};
pub use self::{
    age::Age,
    direct::{Direct, Kind},
    resources::ResourceId,
    service::{ApiBody, ApiService},
    status::Answer,
    store::{Change, Commit, Verb},
};

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub clock: Clock,
    /// Uids and generated names follow from it.
    pub seed: u64,
    /// What every request over the service costs on the clock.
    pub latency: Duration,
    /// How many events are kept for each resource; a watch from before them is told 410.
    pub watch_window: usize,
}

/// The server. Copies share everything.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    store: Arc<Locked>,
    tokens: Tokens,
    admission: Box<dyn Admission>,
    requests: OnceLock<RequestListener>,
    /// Who manages which field is noted of writes from inside the process as well.
    notes_own_managers: bool,
    age: OnceLock<Age>,
}

/// Is told who asks for what.
pub type RequestListener = Box<dyn Fn(&str, &http::request::Parts) + Send + Sync>;

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiServer").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server with the built-in kinds and the namespaces that every cluster has.
    pub fn new(options: Options) -> Self {
        ApiServer::with_admission(options, Box::new(Chain), true)
    }

    /// The same, where what is written inside the process ([`Direct`]) leaves managed fields as they are: nobody who lives there reads them,
    /// and to note them takes a fifth of the time of a simulation.
    pub fn without_own_managers(options: Options) -> Self {
        ApiServer::with_admission(options, Box::new(Chain), false)
    }

    fn with_admission(options: Options, admission: Box<dyn Admission>, notes_own_managers: bool) -> Self {
        let mut store = Store::new(options.seed, options.watch_window);
        for resource in builtin::ALL.iter() {
            store.serve(resource.clone());
        }
        let (store, tokens) = (Arc::new(Locked::new(store)), Tokens::default());
        let (requests, age) = (OnceLock::new(), OnceLock::new());
        let shared = Shared { options, store, tokens, admission, requests, notes_own_managers, age };
        let server = ApiServer { shared: Arc::new(shared) };
        server.create_initial_namespaces();
        server
    }

    /// Whether the two are copies of one.
    pub fn is_same_as(&self, other: &ApiServer) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    fn create_initial_namespaces(&self) {
        let cause = Cause { actor: "apiserver", at: self.clock().now(), verb: Verb::Create, subresource: "" };
        self.store().with(|store| {
            let Some(resource) = store.find("", "namespaces").map(|found| found.resource.clone()) else { return };
            for name in namespaces::INITIAL {
                let target = Target {
                    resource: resource.clone(),
                    version: "v1".into(),
                    namespace: "".into(),
                    name: name.into(),
                };
                let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
                if let Value::Object(object) = object
                    && let Err(status) = write::now(store, &Write::inside(cause, &target), Intent::Create(object))
                {
                    tracing::error!("cannot create namespace {name}: {}", status.message);
                }
            }
        });
    }

    pub fn clock(&self) -> Clock {
        self.shared.options.clock
    }

    fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    fn latency(&self) -> Duration {
        self.shared.options.latency
    }

    fn store(&self) -> &Arc<Locked> {
        &self.shared.store
    }

    fn admission(&self) -> &dyn Admission {
        &*self.shared.admission
    }

    /// Sets what seals the tokens of service accounts, for a server that is reached from outside.
    pub fn set_token_secret(&self, secret: &[u8]) {
        self.shared.tokens.set_secret(secret);
    }

    /// The user of a service account's token; none if it is not a good one of this server.
    pub fn user_of(&self, token: &str) -> Option<String> {
        self.shared.tokens.user(token, self.clock().now())
    }

    /// The server as a service; `actor` is noted in each commit.
    pub fn service(&self, actor: &str) -> ApiService {
        ApiService::new(self.clone(), actor)
    }

    /// A client without a network. Needs a tokio runtime.
    pub fn client(&self, actor: &str) -> Client {
        Client::new(self.service(actor), "default")
    }

    /// Synchronous access without latency, by the same rules.
    pub fn direct(&self, actor: &str) -> Direct {
        Direct::new(self.clone(), actor)
    }

    /// Shows every commit to `observer`, under the store's lock and in commit order. It must not call the server.
    pub fn observe(&self, observer: Box<dyn FnMut(&Commit<'_>) + Send>) {
        self.store().with(|store| store.observe(observer));
    }

    /// Shows every request that comes in from now on to `listener`; those of [`Direct`] are none. The first who asks is told.
    pub fn hear_requests(&self, listener: RequestListener) {
        let _ = self.shared.requests.set(listener);
    }

    fn tell_of(&self, actor: &str, head: &http::request::Parts) {
        if let Some(listener) = self.shared.requests.get() {
            listener(actor, head);
        }
    }

    /// What changes from now on, for controllers inside the process.
    pub fn changes(&self) -> UnboundedReceiver<Change> {
        let (sender, receiver) = unbounded_channel();
        self.store().with(|store| store.listen(sender));
        receiver
    }

    /// Ends the open watches of one actor, or all, as a server that restarts would.
    pub fn cut_watches(&self, actor: Option<&str>) {
        self.store().with(|store| store.cut_watches(actor));
    }

    /// Forgets past events, so that watches from older resourceVersions are told 410.
    pub fn compact(&self) {
        self.store().with(|store| store.compact());
    }

    /// Every object, as a `v1` List; see [`ApiServer::load`].
    pub fn save(&self) -> Value {
        self.store().with(|store| saved::save(store))
    }

    /// Takes in a list that [`ApiServer::save`] or `kubectl get -o json` has given. Only for a fresh server.
    pub fn load(&self, list: &Value) -> Answer<()> {
        self.store().with(|store| saved::load(store, self.clock().now(), list))
    }

    /// Takes in the objects of a large cluster, each still as JSON text. Only for a fresh server.
    pub fn load_text(&self, objects: Vec<Box<RawValue>>) -> Answer<()> {
        self.store().with(|store| saved::load_text(store, self.clock().now(), objects))
    }

    /// A digest of all objects: equal for equal stores.
    pub fn digest(&self) -> String {
        self.store().with(|store| saved::digest(store))
    }
}
