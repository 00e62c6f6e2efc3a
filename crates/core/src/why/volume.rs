//! Why Longhorn does not let a node go, and why a volume is not sound.
//!
//! The budget of an instance manager stays as long as a volume needs its node.

use jiff::{SignedDuration, Timestamp};

use super::link::{Cause, Certainty, Chain, Link, Outlook, sort};
use super::{Explanation, node};
use crate::cluster::longhorn::{Engine, Replica, Volume};
use crate::cluster::{Cluster, ObjectRef, Pod};
use drover_api::harvester::node::WITNESS;

const COMPONENT: &str = "longhorn.io/component";
const INSTANCE_MANAGER: &str = "instance-manager";
/// So long Longhorn may take to see that a node is not needed any more.
const USUAL: SignedDuration = SignedDuration::from_mins(5);

/// It runs engines and replicas.
pub fn is_instance_manager(pod: &Pod) -> bool {
    pod.metadata.labels.get(COMPONENT).is_some_and(|component| component == INSTANCE_MANAGER)
}

pub fn explain(cluster: &Cluster, volume: &Volume) -> Explanation {
    let is_sound = !matches!(volume.status.robustness.as_str(), "degraded" | "faulted");
    let chain = if is_sound { Chain::new() } else { unhealthy(cluster, volume) };
    let mut causes: Vec<Cause> = Cause::of(chain).into_iter().collect();
    sort(&mut causes);
    let (state, robustness) = (&volume.status.state, &volume.status.robustness);
    let summary = format!("{robustness}, {state}, for {}", volume.claim());
    let complete = causes.is_empty();
    Explanation { object: ObjectRef::of(volume), summary, complete, driver: None, causes, unseen: Vec::new() }
}

/// From the volume down; empty if the pod is no instance manager, or Longhorn's objects cannot be seen.
pub fn needs(cluster: &Cluster, pod: &Pod) -> Chain {
    let longhorn = &cluster.longhorn;
    if !is_instance_manager(pod) || longhorn.volumes.is_empty() && longhorn.engines.is_empty() {
        return Chain::new();
    }
    last_replica(cluster, pod)
        .or_else(|| orphan(cluster, pod))
        .or_else(|| in_use(cluster, pod))
        .map_or_else(|| not_lifted(cluster, pod), |link| vec![link])
}

fn last_replica(cluster: &Cluster, pod: &Pod) -> Option<Link> {
    let last = cluster.longhorn.last_replicas();
    let is_here = |volume: &&Volume| {
        let last = last.get(&(volume.metadata.namespace.as_str(), volume.metadata.name.as_str()));
        volume.is_attached() && last.is_some_and(|last| last.spec.node_id == pod.spec.node_name)
    };
    let volume = cluster.longhorn.volumes.iter().find(is_here)?;
    let (namespace, name, wanted) = (&volume.metadata.namespace, &volume.metadata.name, volume.spec.number_of_replicas);
    let statement = format!(
        "volume {} has its last sound replica on Node {}, of {wanted} that it wants",
        volume.claim(),
        pod.spec.node_name
    );
    let link = Link::proven(ObjectRef::of(volume), statement);
    if is_rebuilding(cluster, volume) {
        return Some(link.outlook(Outlook::Yes).as_usual());
    }
    // More are wanted: Longhorn makes them, as long as there is room.
    Some(match wanted > 1 {
        true => link.outlook(Outlook::Maybe).remedy(format!(
            "wait until another one is rebuilt: kubectl describe -n {namespace} volumes.longhorn.io {name}"
        )),
        false => {
            link.remedy(format!("give it a second replica: kubectl edit -n {namespace} volumes.longhorn.io {name}"))
        }
    })
}

fn engines_on<'a>(cluster: &'a Cluster, pod: &'a Pod) -> impl Iterator<Item = &'a Engine> {
    let here =
        move |engine: &&Engine| engine.spec.node_id == pod.spec.node_name && engine.status.current_state == "running";
    cluster.longhorn.engines.iter().filter(here)
}

/// An engine that no volume accounts for counts like any other, and nobody ever stops it.
fn orphan(cluster: &Cluster, pod: &Pod) -> Option<Link> {
    let of = |engine: &Engine| cluster.longhorn.volumes.get(&engine.metadata.namespace, &engine.spec.volume_name);
    let (engine, why) = engines_on(cluster, pod).find_map(|engine| match of(engine) {
        None => Some((engine, "does not exist")),
        Some(volume) if volume.status.state == "detached" => Some((engine, "is detached")),
        Some(_) => None,
    })?;
    let (namespace, name) = (&engine.metadata.namespace, &engine.metadata.name);
    let statement = format!(
        "Engine {namespace}/{name} still runs on Node {}, and its volume {} {why}: Longhorn keeps the node for it",
        pod.spec.node_name, engine.spec.volume_name
    );
    let remedy = format!(
        "once all volumes are healthy: kubectl -n {namespace} delete engines.longhorn.io {name}, or, if that does not help, the budget: \
         kubectl -n {namespace} delete pdb {}",
        pod.metadata.name
    );
    Some(Link::proven(ObjectRef::of(engine), statement).since(engine.metadata.creation_timestamp).remedy(remedy))
}

/// A volume that is attached there: whatever uses it goes first.
fn in_use(cluster: &Cluster, pod: &Pod) -> Option<Link> {
    let host = &pod.spec.node_name;
    let volumes = engines_on(cluster, pod)
        .filter_map(|engine| cluster.longhorn.volumes.get(&engine.metadata.namespace, &engine.spec.volume_name));
    let volumes: Vec<&Volume> = volumes.collect();
    let is_used = |volume: &Volume| {
        let claim = &volume.status.kubernetes_status;
        let uses =
            |pod: &Pod| pod.metadata.namespace == claim.namespace && pod.claims().any(|name| name == claim.pvc_name);
        claim.pvc_name.is_empty() || cluster.pods_on(host).any(uses)
    };
    let volume = volumes.iter().find(|volume| !is_used(volume)).or(volumes.first()).copied()?;
    let (namespace, name) = (&volume.metadata.namespace, &volume.metadata.name);
    let object = ObjectRef::of(volume);
    if is_used(volume) || is_emptied_lately(cluster, host) {
        let statement = format!("volume {} is in use on Node {host}: whatever uses it goes first", volume.claim());
        return Some(Link::proven(object, statement).outlook(Outlook::Yes).as_usual());
    }
    let statement = format!("volume {} is attached to Node {host}, and no pod there uses it", volume.claim());
    let remedy =
        format!("detach it in Longhorn's user interface: kubectl -n {namespace} describe volumes.longhorn.io {name}");
    Some(Link::proven(object, statement).outlook(Outlook::Maybe).remedy(remedy))
}

fn not_lifted(cluster: &Cluster, pod: &Pod) -> Chain {
    let (namespace, name, host) = (&pod.metadata.namespace, &pod.metadata.name, &pod.spec.node_name);
    let statement = format!("no volume needs Node {host} any more, but Longhorn has not lifted the budget of {name}");
    let remedy = format!("check that all volumes are healthy, then: kubectl -n {namespace} delete pdb {name}");
    let link = Link { certainty: Certainty::Likely, ..Link::proven(ObjectRef::of(pod), statement) };
    let link = link.outlook(Outlook::Maybe).remedy(remedy);
    vec![if is_emptied_lately(cluster, host) { link.as_usual() } else { link }]
}

fn is_emptied_lately(cluster: &Cluster, host: &str) -> bool {
    let since = cluster.nodes.named(host).and_then(|host| node::emptied_since(cluster, host));
    since.is_some_and(|since| cluster.looked_at.duration_since(since) < USUAL)
}

/// Why a volume has too few sound replicas, from the volume down.
pub fn unhealthy(cluster: &Cluster, volume: &Volume) -> Chain {
    let (namespace, name) = (&volume.metadata.namespace, &volume.metadata.name);
    let claim = volume.claim();
    let object = ObjectRef::of(volume);
    let describe = format!("kubectl -n {namespace} describe volumes.longhorn.io {name}");
    let link =
        |statement: String| Link::proven(object.clone(), statement).outlook(Outlook::Maybe).remedy(describe.clone());
    if volume.status.robustness == "faulted" {
        let restore = "salvage it in Longhorn's user interface, or restore it from a backup";
        return vec![link(format!("volume {claim} has no sound replica left")).outlook(Outlook::No).remedy(restore)];
    }
    let backups = cluster.longhorn.backups.iter().filter(|backup| backup.status.volume_name == *name);
    if backups.into_iter().any(|backup| backup.status.state == "InProgress") {
        let statement = format!("volume {claim} is being backed up, and its replicas are rebuilt after that");
        return vec![link(statement).as_usual()];
    }
    if is_rebuilding(cluster, volume) {
        return vec![link(format!("a replica of volume {claim} is being rebuilt")).outlook(Outlook::Yes).as_usual()];
    }
    let keepers = keepers(cluster);
    let wanted = volume.spec.number_of_replicas;
    if wanted > keepers {
        let nodes = if keepers == 1 { "1 node".to_owned() } else { format!("{keepers} nodes") };
        let statement = format!("volume {claim} wants {wanted} replicas, and only {nodes} can hold one");
        let remedy = format!(
            "kubectl -n {namespace} patch volumes.longhorn.io {name} --type merge -p '{{\"spec\":{{\"numberOfReplicas\":{keepers}}}}}'"
        );
        return vec![link(statement).outlook(Outlook::No).remedy(remedy)];
    }
    let lost =
        |one: &&Replica| one.spec.volume_name == *name && one.metadata.namespace == *namespace && !one.is_sound();
    let hosts = cluster.longhorn.replicas.iter().filter(lost).map(|replica| replica.spec.node_id.as_str());
    let hosts: Vec<_> = hosts.filter_map(|host| cluster.nodes.named(host)).collect();
    if let Some((host, down)) = hosts.iter().find_map(|host| Some((*host, node::down(cluster, host)?))) {
        let statement = format!("volume {claim} has lost its replica on Node {}", host.metadata.name);
        return [vec![link(statement)], down].concat();
    }
    if let Some(host) = hosts.iter().find(|host| host.spec.unschedulable) {
        let statement = format!("volume {claim} has its missing replica on Node {}", host.metadata.name);
        return vec![link(statement).as_usual(), node::cordoned(cluster, host)];
    }
    if is_lost_lately(cluster, volume) {
        let statement = format!("volume {claim} has lost a replica, which Longhorn has yet to rebuild");
        return vec![link(statement).as_usual()];
    }
    let statement = format!("volume {claim} has too few sound replicas, and Longhorn rebuilds none");
    let remedy = format!("is there room on the other nodes? {describe}");
    vec![Link { certainty: Certainty::Likely, ..link(statement) }.remedy(remedy)]
}

fn is_rebuilding(cluster: &Cluster, volume: &Volume) -> bool {
    let Volume { metadata, .. } = volume;
    let of_volume =
        |one: &&Engine| one.spec.volume_name == metadata.name && one.metadata.namespace == metadata.namespace;
    let mut engines = cluster.longhorn.engines.iter().filter(of_volume);
    engines.any(|engine| engine.status.replica_mode_map.values().any(|mode| mode == "WO"))
}

/// A replica has failed just now, or a node that may hold one has just come back.
fn is_lost_lately(cluster: &Cluster, volume: &Volume) -> bool {
    let own = |replica: &&Replica| replica.spec.volume_name == volume.metadata.name;
    let failed = cluster.longhorn.replicas.iter().filter(own).filter_map(|replica| replica.spec.failed_at.parse().ok());
    let back = cluster.nodes.iter().filter_map(|node| node.ready().and_then(|ready| ready.last_transition_time));
    let last: Option<Timestamp> = failed.chain(back).max();
    last.is_some_and(|last| cluster.looked_at.duration_since(last) < USUAL)
}

/// How many nodes can hold replicas.
fn keepers(cluster: &Cluster) -> i64 {
    let open = cluster.longhorn.nodes.iter().filter(|node| node.spec.allow_scheduling).count();
    let hosts = cluster.nodes.iter().filter(|node| !node.metadata.labels.contains_key(WITNESS)).count();
    i64::try_from(if cluster.longhorn.nodes.is_empty() { hosts } else { open }).unwrap_or(i64::MAX)
}
