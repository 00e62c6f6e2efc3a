//! Empties a node: looks at its pods, decides with [`drover_core::drain`], acts, and looks again when one changes.

mod flags;
mod look;
pub(crate) mod publish;
mod removing;

use std::collections::BTreeMap;
use std::time::Duration;

use drover_clock::{Clock, later};
use drover_core::decision::{Subject, Wait};
use drover_core::drain::{Decision, Memory, OnTimeout, Options, PodSeen, Refusal, Removal, Verdict, View, decide};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::json;

use crate::api::{Api, ApiError, object};
pub use flags::DrainFlags;
use look::Look;
use publish::Publication;
use removing::Asking;

/// Events that come together are looked at together.
const COALESCE: Duration = Duration::from_millis(100);
/// A server that cannot be reached is asked again after this time.
const UNREACHABLE: Duration = Duration::from_secs(2);
/// How often a cordon is tried again when somebody else changed the Node meanwhile.
const RACES: usize = 10;

/// One drain of one node.
#[derive(Debug, Clone)]
pub struct DrainOrder {
    pub node: String,
    pub options: Options,
    /// Only pods with these labels; empty: all of them.
    pub pod_selector: String,
    /// Pods are listed in pages of this size; 0: all at once.
    pub chunk_size: usize,
    /// Wait until the volumes of the drained pods are detached.
    pub wait_for_volumes: bool,
    /// Ask the server what it would do, without doing it.
    pub dry_run: bool,
    /// The pod that this drain runs in: what it waits for is published there.
    pub own_pod: Option<Subject>,
}

/// What happens, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Saying {
    Cordoned,
    /// Somebody has cordoned it before.
    AlreadyCordoned,
    Uncordoned,
    /// In kubectl's words.
    Warning(String),
    Removing(Removal),
    Removed(Removal),
    /// The server says no to an eviction; it is tried again.
    Refused {
        removal: Removal,
        message: String,
        again_after: Duration,
    },
    /// The server is asked again.
    Unreachable(String),
    /// What holds the drain up has changed.
    Waits(Vec<Wait>),
}

#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    #[error("cannot {act}: {cause}")]
    Api { act: String, cause: ApiError },
    #[error("{}", .0.join("; "))]
    Blocked(Vec<String>),
    #[error("time is up; still there: {}", .0.join(", "))]
    TimedOut(Vec<String>),
}

/// Cordons a node, unless somebody has; true if it did.
pub async fn cordon(client: Client, clock: Clock, node: &str, dry_run: bool) -> Result<bool, DrainError> {
    set_unschedulable(&Api::new(client, clock), node, true, dry_run).await
}

/// Empties a node. Dropping the future stops it; what was asked to go still goes.
pub async fn drain(
    client: Client,
    clock: Clock,
    order: &DrainOrder,
    tell: &mut (dyn FnMut(Saying) + Send),
) -> Result<(), DrainError> {
    let api = Api::new(client, clock);
    let cordoned = set_unschedulable(&api, &order.node, true, order.dry_run).await?;
    tell(if cordoned { Saying::Cordoned } else { Saying::AlreadyCordoned });
    let mut drain = Drain {
        look: Look::new(api.clone(), clock, order),
        publication: Publication::new(api.clone(), order.own_pod.clone(), &order.node),
        asking: Asking::new(api.clone()),
        started: clock.now(),
        memory: Memory::default(),
        removing: BTreeMap::new(),
        warned: Vec::new(),
        waits: Vec::new(),
        clock,
        order,
        tell,
        api,
    };
    let result = drain.run().await;
    drain.publication.publish(&[], clock.now()).await;
    let gives_back = matches!(result, Err(DrainError::TimedOut(_))) && order.options.on_timeout == OnTimeout::Uncordon;
    if gives_back && cordoned {
        set_unschedulable(&drain.api, &order.node, false, order.dry_run).await?;
        (drain.tell)(Saying::Uncordoned);
    }
    result
}

/// True if the Node was changed; false if it was so before.
async fn set_unschedulable(api: &Api, node: &str, wanted: bool, dry_run: bool) -> Result<bool, DrainError> {
    #[derive(serde::Deserialize)]
    struct Node {
        metadata: kube::api::ObjectMeta,
        #[serde(default)]
        spec: k8s_openapi::api::core::v1::NodeSpec,
    }
    let act =
        |cause| DrainError::Api { act: format!("{} Node {node}", if wanted { "cordon" } else { "uncordon" }), cause };
    let path = object(&Subject::node(node));
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let mut races = 0;
    loop {
        let body = api.get(&path).await.map_err(act)?;
        let seen: Node = serde_json::from_slice(&body).map_err(|error| act(ApiError::Unreadable(error.to_string())))?;
        if seen.spec.unschedulable.unwrap_or(false) == wanted {
            return Ok(false);
        }
        // Guarded, so that exactly one of several can say that the cordon is its own.
        let patch = json!({
            "metadata": { "resourceVersion": seen.metadata.resource_version },
            "spec": { "unschedulable": wanted.then_some(true) },
        });
        match api.patch(&format!("{path}?fieldManager={}{dry_run}", drover_api::marks::FIELD_MANAGER), &patch).await {
            Ok(_) => return Ok(true),
            Err(error) if error.code() == Some(409) && races < RACES => races += 1,
            Err(error) => return Err(act(error)),
        }
    }
}

/// A drain under way.
struct Drain<'a> {
    api: Api,
    clock: Clock,
    order: &'a DrainOrder,
    tell: &'a mut (dyn FnMut(Saying) + Send),
    look: Look<'a>,
    publication: Publication,
    asking: Asking,
    started: Timestamp,
    memory: Memory,
    /// Pods that were asked to go, by uid, until they are gone.
    removing: BTreeMap<String, Removal>,
    warned: Vec<String>,
    waits: Vec<Wait>,
}

impl Drain<'_> {
    async fn run(&mut self) -> Result<(), DrainError> {
        loop {
            let pods = match self.look.at_pods().await {
                Ok(pods) => pods,
                Err(cause) if cause.code().is_none() => {
                    (self.tell)(Saying::Unreachable(cause.to_string()));
                    self.clock.sleep(UNREACHABLE).await;
                    continue;
                }
                Err(cause) => {
                    return Err(DrainError::Api { act: format!("list the pods of Node {}", self.order.node), cause });
                }
            };
            self.notice_the_gone(&pods);
            let decision = self.decide(&pods).await;
            self.say(&decision).await;
            match decision.verdict {
                Verdict::Drained => return Ok(()),
                Verdict::Blocked(sentences) => return Err(DrainError::Blocked(sentences)),
                Verdict::TimedOut => return Err(DrainError::TimedOut(names(&pods, &self.removing, &decision.waits))),
                Verdict::Going => {}
            }
            let acted = !decision.removals.is_empty();
            let tell_at = self.publication.due(&decision.waits, self.clock.now());
            self.remove(decision.removals).await?;
            if self.order.dry_run {
                return Ok(());
            }
            // What was just refused has its own moment to be tried again: the next decision knows it.
            let moments = [decision.look_again, tell_at].into_iter().flatten();
            let until = if acted { Some(self.clock.now()) } else { moments.min() };
            self.look.until_a_change(until.map(|moment| moment.max(later(self.clock.now(), COALESCE)))).await;
        }
    }

    async fn decide(&mut self, pods: &[PodSeen]) -> Decision {
        let daemon_sets = self.look.at_daemon_sets(pods).await;
        let attached = if self.order.wait_for_volumes { self.look.at_volumes(pods).await } else { Default::default() };
        let now = self.clock.now();
        self.memory.attached_since = (!attached.is_empty()).then(|| self.memory.attached_since.unwrap_or(now));
        let view = View {
            node: &self.order.node,
            options: &self.order.options,
            pods,
            daemon_sets: &daemon_sets,
            attached: &attached,
            memory: &self.memory,
            started: self.started,
        };
        let decision = decide(&view, now);
        self.memory.first.get_or_insert_with(|| pods.iter().map(|pod| pod.uid.clone()).collect());
        decision
    }

    fn notice_the_gone(&mut self, pods: &[PodSeen]) {
        let is_there = |uid: &String| pods.iter().any(|pod| pod.uid == *uid);
        self.memory.refusals.retain(|uid, _| is_there(uid));
        let gone: Vec<String> = self.removing.keys().filter(|uid| !is_there(uid)).cloned().collect();
        let mut gone: Vec<Removal> = gone.iter().filter_map(|uid| self.removing.remove(uid)).collect();
        gone.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        gone.into_iter().for_each(|removal| (self.tell)(Saying::Removed(removal)));
    }

    async fn say(&mut self, decision: &Decision) {
        for warning in decision.warnings.iter().filter(|warning| !self.warned.contains(warning)) {
            (self.tell)(Saying::Warning(warning.clone()));
        }
        self.warned.clone_from(&decision.warnings);
        let sentences = |waits: &[Wait]| waits.iter().map(|wait| wait.sentence.clone()).collect::<Vec<_>>();
        if sentences(&self.waits) != sentences(&decision.waits) {
            (self.tell)(Saying::Waits(decision.waits.clone()));
        }
        self.publication.publish(&decision.waits, self.clock.now()).await;
        self.waits.clone_from(&decision.waits);
    }

    /// All side by side: one that is refused holds up no other.
    async fn remove(&mut self, removals: Vec<Removal>) -> Result<(), DrainError> {
        for removal in &removals {
            (self.tell)(Saying::Removing(removal.clone()));
        }
        let answers = join_all(removals.iter().map(|removal| self.asking.ask(self.order, removal))).await;
        let now = self.clock.now();
        for (removal, answer) in removals.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    self.memory.refusals.remove(&removal.uid);
                    self.removing.insert(removal.uid.clone(), removal);
                }
                // Gone already, or another pod of that name by now: both are for the next look.
                Err(error) if matches!(error.code(), Some(404 | 409)) => {}
                Err(cause) if cause.is_forbidden() && !is_namespace_ending(&cause) => {
                    let (namespace, name) = (&removal.namespace, &removal.name);
                    let act = format!("evict Pod {namespace}/{name} from Node {}", self.order.node);
                    return Err(DrainError::Api { act, cause });
                }
                Err(error) => self.note_refusal(removal, &error, now),
            }
        }
        Ok(())
    }

    fn note_refusal(&mut self, removal: Removal, error: &ApiError, now: Timestamp) {
        let (causes, retry_after) = match error {
            ApiError::Refused { causes, retry_after, .. } => (causes.clone(), *retry_after),
            _ => (Vec::new(), None),
        };
        let retry_after = retry_after.and_then(|pause| SignedDuration::try_from(pause).ok());
        let before = self.memory.refusals.get(&removal.uid);
        let code = error.code().unwrap_or(0);
        let refusal = Refusal::new(before, now, retry_after, code, &error.to_string(), causes);
        let again_after = drover_clock::between(now, refusal.again);
        self.memory.refusals.insert(removal.uid.clone(), refusal);
        (self.tell)(Saying::Refused { removal, message: error.to_string(), again_after });
    }
}

/// Nothing can be evicted from a namespace that is being deleted; its pods go by themselves.
fn is_namespace_ending(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused { causes, .. } if causes.iter().any(|cause| cause.contains("is being terminated")))
}

/// What is left when time is up.
fn names(pods: &[PodSeen], removing: &BTreeMap<String, Removal>, waits: &[Wait]) -> Vec<String> {
    let waited = |pod: &PodSeen| {
        removing.contains_key(&pod.uid)
            || waits.iter().any(|wait| wait.subject.namespace == pod.namespace && wait.subject.name == pod.name)
    };
    let left: Vec<String> =
        pods.iter().filter(|pod| waited(pod)).map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    if left.is_empty() { waits.iter().map(|wait| wait.sentence.clone()).collect() } else { left }
}
