//! What Rancher's planner is at, and what holds it up: its drain, the agent of a machine, its probes, or that it is paused.

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::jobs::{self, types};
use drover_api::rancher::machine_plan::annotations::{DRAIN_DONE, DRAIN_ERROR, POST_DRAIN, PRE_DRAIN, PRE_HOOK};
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::Timestamp;

use super::super::link::{Chain, Link, Outlook};
use super::super::{drain, driver, node, pod};
use super::waits::{node_of, said, with};
use super::{Asked, jobs_of};
use crate::cluster::cluster_api::Machine;
use crate::cluster::harvester::ControlPlane;
use crate::cluster::{Cluster, Node, ObjectRef, Pod, Secret, condition};
use crate::decision::{Kind, Reason, Wait};
use crate::harvester::plan_secret;
use crate::harvester::progress::Step;
use crate::harvester::release::is_kubelet_version;
use crate::harvester::stalling::{USUAL, restart};
use crate::harvester::{remedy_of_kubelet, remedy_of_pause};

const KUBECONFIG: &str = "local-kubeconfig";
/// The pods through which Rancher reaches a cluster.
const AGENT: (&str, &str) = ("app", "cattle-cluster-agent");
const RANCHER: &str = "cattle-system";

pub fn chains(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    if let Some(paused) = paused(asked.cluster) {
        return vec![with(asked, wait, vec![paused])];
    }
    if wait.subject.kind != Kind::Node {
        let chain = with(asked, wait, of_control_plane(asked, wait, None, None));
        return vec![if wait.reason == Reason::PlannerStalls { with_restart(asked, wait, chain) } else { chain }];
    }
    let Some(seen) = node_of(asked, wait) else { return vec![said(asked, wait)] };
    let Some(secret) = secret_of(asked.cluster, seen) else {
        // Without it there is nothing that the planner could talk through.
        let alone = said(asked, wait).into_iter().map(|link| Link { alarm: true, ..link }.outlook(Outlook::Maybe));
        return vec![alone.collect()];
    };
    match asked.scene.progress.step(&seen.metadata.name) {
        Step::PreDrained => drains(asked, wait, seen, secret),
        step => vec![with(asked, wait, of_control_plane(asked, wait, Some(seen), begun(asked, seen, step)))],
    }
}

/// Where nothing was found in the planner's way: whoever asks why has looked.
fn with_restart(asked: &Asked<'_>, wait: &Wait, chain: Chain) -> Chain {
    let helped = |link: Link| match link.remedy == wait.remedy {
        true => link.remedy(restart(asked.cluster)),
        false => link,
    };
    chain.into_iter().map(helped).collect()
}

fn machine_of<'a>(cluster: &'a Cluster, node: &Node) -> Option<&'a Machine> {
    let mut machines = cluster.cluster_api.machines.in_namespace(FLEET_NAMESPACE);
    machines.find(|machine| machine.status.node_ref.name == node.metadata.name)
}

fn secret_of<'a>(cluster: &'a Cluster, node: &Node) -> Option<&'a Secret> {
    plan_secret(cluster, machine_of(cluster, node)?)
}

/// When the step of a node began that the planner is at.
fn begun(asked: &Asked<'_>, node: &Node, step: Step) -> Option<Timestamp> {
    let wanted = match step {
        Step::PreDrained => types::PRE_DRAIN,
        Step::PostDraining => types::POST_DRAIN,
        _ => return jobs_of(asked.cluster, asked.upgrade).iter().filter_map(|job| job.status.completion_time).max(),
    };
    let jobs = jobs_of(asked.cluster, asked.upgrade).into_iter();
    let label = |job: &crate::cluster::Job, key: &str| job.metadata.labels.get(key).cloned().unwrap_or_default();
    let own = jobs.filter(|job| label(job, jobs::NODE) == node.metadata.name && label(job, jobs::JOB_TYPE) == wanted);
    let ended = own.filter_map(|job| job.status.completion_time.or(job.status.start_time)).max();
    // It may have been told later than the Job was done.
    ended.max(asked.scene.progress.planner_since.filter(|_| step == Step::PreDrained))
}

fn paused(cluster: &Cluster) -> Option<Link> {
    let local = cluster.cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL).filter(|local| local.spec.paused)?;
    let statement = format!("Cluster {FLEET_NAMESPACE}/{LOCAL} is paused (spec.paused): Rancher does nothing for it");
    Some(Link::proven(ObjectRef::of(local), statement).remedy(remedy_of_pause()))
}

/// The planner has its answer: it drains the node, and then its agent raises Kubernetes there.
fn drains(asked: &Asked<'_>, wait: &Wait, seen: &Node, secret: &Secret) -> Vec<Chain> {
    let (cluster, name) = (asked.cluster, &seen.metadata.name);
    let since = begun(asked, seen, Step::PreDrained);
    let note = |key: &str| secret.metadata.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    if note(DRAIN_DONE).is_some() {
        if let Some(down) = node::down(cluster, seen) {
            return vec![with(asked, wait, down)];
        }
        return vec![with(asked, wait, of_control_plane(asked, wait, Some(seen), since))];
    }
    let left = drain::leftovers(cluster, seen);
    if !left.is_empty() {
        return left.into_iter().map(|below| with(asked, wait, below)).collect();
    }
    if let Some(down) = node::down(cluster, seen) {
        return vec![with(asked, wait, down)];
    }
    let Some(error) = note(DRAIN_ERROR) else {
        return vec![with(asked, wait, of_control_plane(asked, wait, Some(seen), since))];
    };
    let statement = format!("Rancher cannot drain Node {name}: {error}");
    let remedy = format!("it tries again without end; look what is left there: drover why node/{name}");
    vec![with(asked, wait, vec![Link::proven(ObjectRef::of(secret), statement).outlook(Outlook::Maybe).remedy(remedy)])]
}

/// What the planner itself says, and what follows from that.
fn of_control_plane(asked: &Asked<'_>, wait: &Wait, node: Option<&Node>, since: Option<Timestamp>) -> Chain {
    let cluster = asked.cluster;
    let is_late = wait.reason == Reason::PlannerStalls
        || since.is_some_and(|since| cluster.looked_at.duration_since(since) > USUAL);
    let plane = cluster.harvester.control_planes.get(FLEET_NAMESPACE, LOCAL);
    let Some((plane, message)) = plane.and_then(|plane| words(plane).map(|message| (plane, message))) else {
        return match node.filter(|_| is_late) {
            Some(node) => silent(asked, node, since),
            None if is_late => rancher_away(cluster),
            None => Chain::new(),
        };
    };
    let fails = message.contains("failure while applying plan");
    let object = ObjectRef::of(plane);
    let link = Link::proven(object, format!("Rancher's planner says: {message}")).since(since).outlook(Outlook::Maybe);
    let without_rancher = if is_late { rancher_away(cluster) } else { Chain::new() };
    if !without_rancher.is_empty() {
        return [vec![link], without_rancher].concat();
    }
    let below = if is_late || fails { reason(asked, message, node) } else { None };
    match below {
        Some((remedy, below)) => [vec![link.remedy(remedy)], below].concat(),
        None if is_late => vec![link.remedy("kubectl -n cattle-system logs deployment/rancher | grep planner")],
        None => vec![link.as_usual()],
    }
}

/// What the planner waits for, in its own words.
fn words(plane: &ControlPlane) -> Option<&str> {
    let waiting = ["Ready", "Reconciled"].iter().filter_map(|kind| condition(&plane.status.conditions, kind));
    waiting.filter(|said| !said.is_true()).map(|said| said.message.as_str()).find(|said| !said.is_empty())
}

/// Why Rancher, whose planner it is, does not run; empty if it does, or if nobody can tell.
fn rancher_away(cluster: &Cluster) -> Chain {
    let rancher = cluster.deployments.get(RANCHER, "rancher");
    rancher.map(|rancher| driver::without_pods(cluster, rancher)).unwrap_or_default()
}

/// It is the planner's turn for long, and it says nothing.
fn silent(asked: &Asked<'_>, node: &Node, since: Option<Timestamp>) -> Chain {
    let name = &node.metadata.name;
    let Some(secret) = secret_of(asked.cluster, node) else { return Chain::new() };
    let (namespace, own) = (&secret.metadata.namespace, &secret.metadata.name);
    let note = |key: &str| secret.metadata.annotations.get(key).is_some_and(|value| !value.is_empty());
    let step = asked.scene.progress.step(name);
    let statement = match (step, note(DRAIN_DONE)) {
        (Step::PreDrained, true) => {
            format!("Rancher has drained Node {name}, and has neither raised Kubernetes there nor said why")
        }
        (Step::PreDrained, false) => format!(
            "Rancher has its answer ({PRE_HOOK} on Secret {namespace}/{own}), and has neither drained Node {name} nor said why"
        ),
        // It waits for its answer about another one.
        _ if asks_for_another(asked.cluster, secret) => return Chain::new(),
        _ => format!("Rancher has not come to Node {name}, and does not say why"),
    };
    let remedy = format!(
        "what Rancher logs: kubectl -n {RANCHER} logs deployment/rancher | grep -e planner -e drain; then restart it: \
         kubectl -n {RANCHER} rollout restart deployment rancher"
    );
    let link = Link::proven(ObjectRef::of(secret), statement).since(since).outlook(Outlook::Maybe).remedy(remedy);
    [vec![link], rancher_away(asked.cluster)].concat()
}

fn asks_for_another(cluster: &Cluster, secret: &Secret) -> bool {
    let mut others =
        cluster.secrets.in_namespace(FLEET_NAMESPACE).filter(|other| other.metadata.name != secret.metadata.name);
    others.any(|other| [PRE_DRAIN, POST_DRAIN].iter().any(|key| other.metadata.annotations.contains_key(*key)))
}

/// What usually is behind a sentence of the planner that does not change: a remedy, and the object where that is known.
fn reason(asked: &Asked<'_>, message: &str, node: Option<&Node>) -> Option<(String, Chain)> {
    let cluster = asked.cluster;
    let name = node.map(|node| node.metadata.name.as_str()).unwrap_or("the node");
    let expired = || node.and_then(|node| expired(cluster, node)).into_iter().collect::<Chain>();
    if message.contains("waiting for kubelet to update") {
        return Some(stale_machine(asked, node?));
    }
    if message.contains("waiting for cluster agent to connect") {
        let own = |pod: &&Pod| pod.metadata.labels.get(AGENT.0).is_some_and(|app| app == AGENT.1);
        let mut agents = cluster.pods.in_namespace(RANCHER).filter(own);
        let held = agents.find_map(|agent| pod::holds(cluster, agent)).unwrap_or_default();
        let remedy =
            "the agent must be able to log in to Rancher: kubectl -n cattle-system logs -l app=cattle-cluster-agent";
        return Some((remedy.to_owned(), held));
    }
    if message.contains("waiting for probes") {
        let remedy = format!(
            "the probes that are named fail on {name}: are its certificates still valid? ls -l /var/lib/rancher/rke2/server/tls, \
             journalctl -u rke2-server -u rancher-system-agent"
        );
        return Some((remedy, expired()));
    }
    if ["waiting for plan to be applied", "waiting for agent to check in", "failure while applying plan"]
        .iter()
        .any(|words| message.contains(words))
    {
        let remedy = format!(
            "the agent on {name} does not apply its plan: on the node, journalctl -u rancher-system-agent; \
             systemctl restart rancher-system-agent"
        );
        return Some((remedy, expired()));
    }
    None
}

/// A certificate of the node that has ended.
fn expired(cluster: &Cluster, node: &Node) -> Option<Link> {
    let addresses: Vec<&str> = node.status.addresses.iter().map(|address| address.address.as_str()).collect();
    let certificates = cluster.looks.certificates.iter().filter(|certificate| {
        let address = certificate.metadata.name.rsplit_once(':').map_or("", |(address, _)| address);
        addresses.contains(&address)
    });
    let of_kubelet = cluster.looks.kubelet_certificates.named(&node.metadata.name);
    let ends = certificates.filter_map(|certificate| certificate.not_after);
    let end = ends.chain(of_kubelet.and_then(|kubelet| kubelet.not_after)).min()?;
    let name = &node.metadata.name;
    let statement = format!("a certificate of Node {name} has ended at {end}");
    let remedy = format!("on {name}: systemctl stop rke2-server; rke2 certificate rotate; systemctl start rke2-server");
    (end < cluster.looked_at).then(|| Link::proven(ObjectRef::of(node), statement).since(Some(end)).remedy(remedy))
}

/// The kubelet runs the old version.
pub fn not_restarted(asked: &Asked<'_>, node: &Node) -> Link {
    let (name, runs) = (&node.metadata.name, &node.status.node_info.kubelet_version);
    let wanted = asked.scene.progress.release.as_ref().map(|release| release.kubernetes.as_str()).unwrap_or_default();
    let statement = format!("the kubelet of Node {name} runs {runs}, not {wanted}: RKE2 was not restarted");
    Link::proven(ObjectRef::of(node), statement).outlook(Outlook::Maybe).remedy(remedy_of_kubelet(node))
}

/// The kubelet runs the new version, and Cluster API has not noticed.
fn stale_machine(asked: &Asked<'_>, node: &Node) -> (String, Chain) {
    let name = &node.metadata.name;
    let wanted = asked.scene.progress.release.as_ref().map(|release| release.kubernetes.as_str()).unwrap_or_default();
    let runs = &node.status.node_info.kubelet_version;
    if !is_kubelet_version(runs, wanted) {
        return (remedy_of_kubelet(node), vec![not_restarted(asked, node)]);
    }
    let key = drover_api::cluster_api::labels::CLUSTER_NAME;
    let secret = asked.cluster.secrets.get(FLEET_NAMESPACE, KUBECONFIG);
    let bare = secret.filter(|secret| secret.metadata.labels.get(key).is_none_or(|value| value != LOCAL));
    let remedy = "restart what watches for it: kubectl -n cattle-provisioning-capi-system rollout restart deployment \
                  capi-controller-manager";
    let Some(secret) = bare else { return (remedy.to_owned(), Chain::new()) };
    let statement = format!(
        "Secret {FLEET_NAMESPACE}/{KUBECONFIG} has no label {key}={LOCAL}: Cluster API has lost the cluster, and does not see that the \
         kubelet of {name} runs {runs}"
    );
    let label = format!("kubectl -n {FLEET_NAMESPACE} label secret {KUBECONFIG} {key}={LOCAL}");
    (remedy.to_owned(), vec![Link::proven(ObjectRef::of(secret), statement).remedy(label)])
}
