//! What runs inside the simulated kubelets: the real drain, in the container of a Job that is made for it, and where a
//! Plan lets it prepare its nodes; the real steps of a Harvester upgrade, in the containers of its Jobs; and the real update of a
//! guest's control plane.
//!
//! The kubelet of the world starts the container and waits for its exit code; the program itself is the one that
//! `drover drain`, `drover node`, `drover apply-manifests` or `drover control-plane-upgrade` runs, against the same API. It dies with its machine and its
//! pod, and begins anew with them. What the steps do to their machine, the world does when the pod has succeeded. A stock release brings its
//! own steps, in an image that no simulated machine can run: of those there is a model ([`crate::stock`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drover_api::harvester::jobs::CONTAINER as APPLY;
use drover_api::plan::jobs::containers::{DRAIN, PREPARE};
use drover_api::plan::jobs::variables::NODE_NAME;
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::CONTAINER as UPDATE;
use drover_clock::Clock;
use drover_core::decision::{Kind, Subject};
use drover_core::guest::Order as GuestOrder;
use drover_core::harvester::steps::{HostDeed, Order as StepsOrder};
use drover_corral::apiserver::{ApiServer, Change, Direct};
use drover_corral::world::annotations::{EXIT_CODE, LAST_WORDS, OS_IMAGE, REBOOT, down_until};
use drover_operator::drain::{DrainFlags, DrainOrder, drain};
use drover_operator::harvester::Repositories;
use drover_operator::harvester::steps::{self, Host, Reach, Saying};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use tokio::task::{AbortHandle, JoinSet};

use crate::guests::Updates;
use crate::{stock, updates};

/// How a program reaches its clusters.
pub struct Way {
    /// To the cluster that its pod is in.
    pub client: kube::Client,
    /// To guest clusters, if there are any.
    pub updates: Option<Updates>,
    /// Comes when the program dies, and never where none does.
    pub died: BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way").field("updates", &self.updates).finish_non_exhaustive()
    }
}

/// A way for each run of a program, by whom it acts as.
pub type Ways = Arc<dyn Fn(&str) -> Way + Send + Sync>;

/// Is told what the steps of an upgrade do and wait for.
pub type Listener = Arc<dyn Fn(&Saying) + Send + Sync>;

/// A program that dies begins anew in its container after this time, so that no Job runs out of tries by it.
pub(crate) const RESTART: Duration = Duration::from_secs(1);
/// How long a machine is away that boots another system.
const REBOOTS_FOR: &str = "20s";

/// The containers that this module runs, for the kubelets to leave alone.
pub fn run_elsewhere(prepares_by_drain: bool) -> BTreeSet<String> {
    let prepare = prepares_by_drain.then(|| PREPARE.to_owned());
    prepare.into_iter().chain([DRAIN, APPLY].map(str::to_owned)).collect()
}

/// Runs until the future is dropped. With `updates`, Jobs update the control planes of guest clusters; `repositories` serve what steps read of a
/// release.
pub async fn run(
    server: ApiServer,
    ways: Ways,
    updates: bool,
    repositories: Arc<dyn Repositories>,
    listener: Listener,
) {
    // Before the first reading, so that nothing slips through between the two.
    let mut changes = server.changes();
    let mut machines = Machines {
        direct: server.direct("node/drain"),
        clock: server.clock(),
        ways,
        updates,
        server,
        repositories,
        listener,
        running: BTreeMap::new(),
        gone: BTreeSet::new(),
        programs: JoinSet::new(),
    };
    machines.look_at_all();
    loop {
        tokio::select! {
            biased;
            change = changes.recv() => match change {
                Some(change) => machines.look(&change),
                None => return,
            },
            Some(ended) = machines.programs.join_next() => {
                if let Ok(ended) = ended {
                    machines.report(ended);
                }
            }
        }
    }
}

/// One run of a program: a container that is started again is another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RunId {
    /// Of the pod.
    uid: String,
    container: String,
    restarts: i32,
}

/// A program that came to its end by itself.
struct Ended {
    namespace: String,
    pod: String,
    run: RunId,
    exit_code: i32,
    /// What it leaves to those who look at its pod.
    last_words: Option<String>,
}

struct Machines {
    server: ApiServer,
    listener: Listener,
    ways: Ways,
    updates: bool,
    repositories: Arc<dyn Repositories>,
    direct: Direct,
    clock: Clock,
    running: BTreeMap<RunId, Running>,
    /// Nodes that were deleted and have not registered again.
    gone: BTreeSet<String>,
    programs: JoinSet<Ended>,
}

struct Running {
    node: String,
    namespace: String,
    pod: String,
    program: AbortHandle,
}

impl Machines {
    fn look(&mut self, change: &Change) {
        match change.resource.kind.as_str() {
            "Pod" => match self.direct.json(&change.resource, &change.namespace, &change.name) {
                // Pods are many, and few of them drain: the others need not be read.
                Some(json) if !self.mentions_program(&json) => {}
                Some(json) => {
                    if let Ok(pod) = serde_json::from_slice(&json) {
                        self.look_at(&pod);
                    }
                }
                None => self.end_all(|running| running.namespace == change.namespace && running.pod == change.name),
            },
            "Node" if self.is_down(&change.name) => {
                // After a boot the kubelet says what became of its pods; of a Node that registers again nothing is said.
                if self.node(&change.name).is_none() {
                    self.gone.insert(change.name.clone());
                }
                self.end_all(|running| running.node == change.name);
            }
            "Node" if self.gone.remove(&change.name) => self.look_at_all(),
            _ => {}
        }
    }

    fn look_at_all(&mut self) {
        for pod in self.direct.list::<Pod>().unwrap_or_default() {
            self.look_at(&pod);
        }
    }

    fn look_at(&mut self, pod: &Pod) {
        let run = under_way(pod, self.updates);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.end_all_but(&uid, run.as_ref());
        let Some(run) = run.filter(|run| !self.running.contains_key(run)) else { return };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        if !self.is_down(&node) {
            self.start(pod, run, node);
        }
    }

    fn start(&mut self, pod: &Pod, run: RunId, node: String) {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let own_pod = Subject { kind: Kind::Pod, namespace: namespace.clone(), name: name.clone() };
        let program = if run.container == APPLY { "steps" } else { "drain" };
        let actor = format!("{node}/{program}");
        let args = args(pod, &run.container, &node);
        let work = Work {
            task: Task::of(pod, &run.container, &args, own_pod, || self.server.client(&actor)),
            host: SimulatedHost { direct: self.direct.clone(), namespace: namespace.clone(), pod: name.clone() },
            repositories: self.repositories.clone(),
            listener: self.listener.clone(),
            clock: self.clock,
        };
        let (id, place, ways) = (run.clone(), (namespace.clone(), name.clone()), self.ways.clone());
        let program = self.programs.spawn(async move {
            let (exit_code, last_words) = loop {
                let way = ways(&actor);
                tokio::select! {
                    biased;
                    () = way.died => work.clock.sleep(RESTART).await,
                    ended = work.run(way.client, way.updates) => break ended,
                }
            };
            Ended { namespace: place.0, pod: place.1, run: id, exit_code, last_words }
        });
        self.running.insert(run, Running { node, namespace, pod: name, program });
    }

    /// The kubelet learns by an annotation that the program has ended.
    fn report(&mut self, ended: Ended) {
        self.running.remove(&ended.run);
        // Somebody else may change the pod at the same moment: read and write again until it holds, or it is gone.
        while let Ok(Some(mut pod)) = self.direct.get::<Pod>(Some(&ended.namespace), &ended.pod) {
            if pod.metadata.uid.as_ref() != Some(&ended.run.uid) {
                return;
            }
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(format!("{EXIT_CODE}.{}", ended.run.container), ended.exit_code.to_string());
            annotations.extend(ended.last_words.iter().map(|words| (LAST_WORDS.to_owned(), words.clone())));
            match self.direct.update(&pod) {
                Err(status) if status.code == 409 => {}
                _ => return,
            }
        }
    }

    fn mentions_program(&self, json: &[u8]) -> bool {
        let update = self.updates.then_some(UPDATE);
        [DRAIN, APPLY].into_iter().chain(update).any(|program| {
            let name = format!("\"name\":\"{program}\"");
            json.windows(name.len()).any(|part| part == name.as_bytes())
        })
    }

    fn node(&self, name: &str) -> Option<Node> {
        self.direct.get::<Node>(None, name).ok().flatten()
    }

    fn is_down(&self, node: &str) -> bool {
        self.node(node).is_none_or(|node| {
            down_until(node.metadata.annotations.as_ref()).is_some_and(|until| self.clock.now() < until)
        })
    }

    fn end_all_but(&mut self, uid: &str, run: Option<&RunId>) {
        let over: Vec<RunId> =
            self.running.keys().filter(|known| known.uid == uid && Some(*known) != run).cloned().collect();
        over.iter().for_each(|run| self.end(run));
    }

    fn end_all(&mut self, which: impl Fn(&Running) -> bool) {
        let over: Vec<RunId> =
            self.running.iter().filter(|(_, running)| which(running)).map(|(run, _)| run.clone()).collect();
        over.iter().for_each(|run| self.end(run));
    }

    fn end(&mut self, run: &RunId) {
        if let Some(running) = self.running.remove(run) {
            running.program.abort();
        }
    }
}

/// What a container is there for.
enum Task {
    Drain(DrainOrder),
    /// A script of a stock release. It is not ours: nothing goes wrong with its requests.
    Script(stock::Order, kube::Client),
    Steps {
        order: StepsOrder,
        own_pod: Subject,
    },
    Update(GuestOrder),
    /// Nobody understands what it is asked.
    Unknown,
}

impl Task {
    fn of(pod: &Pod, container: &str, args: &[String], own_pod: Subject, open: impl FnOnce() -> kube::Client) -> Self {
        let task = match container {
            UPDATE => updates::order(pod).map(Task::Update),
            APPLY => match stock::Order::of(pod, container) {
                Some(order) => Some(Task::Script(order, open())),
                None => steps::order(args).map(|order| Task::Steps { order, own_pod }),
            },
            _ => DrainFlags::of_container(args).map(|(node, flags)| Task::Drain(flags.order(&node, Some(own_pod)))),
        };
        task.unwrap_or(Task::Unknown)
    }
}

/// A program, and what it has to hand.
struct Work {
    task: Task,
    host: SimulatedHost,
    repositories: Arc<dyn Repositories>,
    listener: Listener,
    clock: Clock,
}

impl Work {
    /// From its beginning to its end: its exit code, and what it leaves to those who look at its pod.
    async fn run(&self, client: kube::Client, updates: Option<Updates>) -> (i32, Option<String>) {
        match (&self.task, updates) {
            (Task::Update(order), Some(guests)) => {
                let mut tell = |saying| guests.hears.iter().for_each(|gate| gate.hear_update(&saying));
                let client = (guests.client)();
                let done = drover_operator::guest::update(client, &*guests.guests, self.clock, order, &mut tell).await;
                guests.hears.iter().for_each(|gate| gate.hear_end(&done));
                (i32::from(done.is_err()), done.err().map(|error| error.to_string()))
            }
            (Task::Script(order, client), _) => {
                let (order, client, direct) = (order.clone(), client.clone(), self.host.direct.clone());
                let (clock, host, repositories) = (self.clock, &self.host, self.repositories.clone());
                (stock::Script { order, direct, client, clock, host, repositories }.run().await, None)
            }
            (Task::Steps { order, own_pod }, _) => {
                let mut tell = |saying| (self.listener)(&saying);
                let reach = Reach { host: &self.host, repositories: &*self.repositories };
                let done = steps::run(client, self.clock, order, Some(own_pod.clone()), reach, &mut tell).await;
                (i32::from(done.is_err()), None)
            }
            // The words are for a log; what holds it up stands on the pod.
            (Task::Drain(order), _) => (i32::from(drain(client, self.clock, order, &mut |_| {}).await.is_err()), None),
            (Task::Unknown | Task::Update(_), _) => (2, None),
        }
    }
}

/// The program of a pod that runs now and has not ended.
fn under_way(pod: &Pod, updates: bool) -> Option<RunId> {
    let told = |container: &str| {
        let key = format!("{EXIT_CODE}.{container}");
        pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(&key))
    };
    let status = pod.status.as_ref()?;
    let statuses = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let is_running = |status: &&ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let runs = statuses.into_iter().find(is_running)?;
    let is_ours = match runs.name.as_str() {
        DRAIN | APPLY => true,
        UPDATE => updates,
        PREPARE => is_drain(&args(pod, PREPARE, "")),
        _ => false,
    };
    (is_ours && !told(&runs.name)).then(|| RunId {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        container: runs.name.clone(),
        restarts: runs.restart_count,
    })
}

/// The machine of a pod: what is installed on it is there when the pod has succeeded, after a reboot.
#[derive(Debug)]
struct SimulatedHost {
    direct: Direct,
    namespace: String,
    pod: String,
}

impl Host for SimulatedHost {
    fn act(&self, deed: HostDeed) -> BoxFuture<'static, Result<(), String>> {
        let (direct, namespace, name) = (self.direct.clone(), self.namespace.clone(), self.pod.clone());
        Box::pin(async move {
            let HostDeed::InstallSystem { os } = deed else { return Ok(()) };
            while let Ok(Some(mut pod)) = direct.get::<Pod>(Some(&namespace), &name) {
                let annotations = pod.metadata.annotations.get_or_insert_default();
                annotations.insert(OS_IMAGE.to_owned(), os.clone());
                annotations.insert(REBOOT.to_owned(), REBOOTS_FOR.to_owned());
                match direct.update(&pod) {
                    Err(status) if status.code == 409 => {}
                    Err(status) => return Err(status.message),
                    Ok(_) => return Ok(()),
                }
            }
            Err("its pod is gone".to_owned())
        })
    }
}

/// Whether a container with these arguments empties its node.
pub fn is_drain(args: &[String]) -> bool {
    args.first().is_some_and(|verb| verb == DRAIN)
}

/// With the name of the node where they ask for it, as a kubelet expands variables.
fn args(pod: &Pod, container: &str, node: &str) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let args = containers.filter(|one| one.name == container).find_map(|one| one.args.clone()).unwrap_or_default();
    args.iter().map(|arg| arg.replace(&format!("$({NODE_NAME})"), node)).collect()
}
