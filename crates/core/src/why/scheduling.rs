//! Why no node takes a pod.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::link::{Certainty, Chain, Link, Outlook};
use super::node;
use crate::cluster::{Cluster, Node, ObjectRef, PersistentVolumeClaim, Pod};
use crate::placement::{Obstacle, Places};

/// So long a scheduler may take to look at a pod.
const USUAL: SignedDuration = SignedDuration::from_secs(60);

pub fn holds(cluster: &Cluster, pod: &Pod) -> Chain {
    let created = pod.metadata.creation_timestamp;
    if !pod.spec.scheduling_gates.is_empty() {
        let statement = format!("{} waits behind a scheduling gate", ObjectRef::of(pod).in_words());
        return vec![link(cluster, pod, statement).since(created).remedy("whoever set the gate has to take it away")];
    }
    let refusal = pod.condition("PodScheduled").filter(|condition| condition.status == "False");
    let since = refusal.and_then(|condition| condition.last_transition_time).or(created);
    if let Some(chain) = unbound(cluster, pod) {
        return chain;
    }
    let Some(refusal) = refusal else {
        let is_new = created.is_some_and(|created| cluster.looked_at.duration_since(created) < USUAL);
        let statement = format!("{}: no scheduler has looked at it", ObjectRef::of(pod).in_words());
        let link = Link { certainty: Certainty::Likely, ..link(cluster, pod, statement) };
        let link = link.since(created).outlook(Outlook::Maybe).remedy("look whether kube-scheduler works");
        return vec![if is_new { link.as_usual() } else { link }];
    };
    let mut chain = nearest_miss(cluster, pod).unwrap_or_else(|| {
        // The scheduler knows more filters than are reckoned here.
        let statement = format!("no node takes {}: {}", ObjectRef::of(pod).in_words(), refusal.message);
        vec![link(cluster, pod, statement).outlook(Outlook::Maybe)]
    });
    if let Some(first) = chain.first_mut() {
        first.since = since;
    }
    chain
}

/// The pod mounts a claim that is not there or has no volume.
fn unbound(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    if cluster.blind_to("PersistentVolumeClaim").is_some() {
        return None;
    }
    let namespace = &pod.metadata.namespace;
    let statement = |what: &str| format!("{} waits for {what}", ObjectRef::of(pod).in_words());
    for name in pod.claims() {
        let object = ObjectRef::new("PersistentVolumeClaim", namespace, name);
        let Some(claim) = cluster.claims.get(namespace, name) else {
            return Some(vec![
                link(cluster, pod, statement(&object.in_words())),
                super::pod::missing("PersistentVolumeClaim", namespace, name),
            ]);
        };
        if claim.status.phase != "Bound" && !waits_for_pod(cluster, claim) {
            return Some(vec![link(cluster, pod, statement(&object.in_words())), no_volume(cluster, claim, object)]);
        }
    }
    None
}

/// Its volume is made where the pod goes: the claim waits for the pod, not the other way round.
fn waits_for_pod(cluster: &Cluster, claim: &PersistentVolumeClaim) -> bool {
    let class = claim.spec.storage_class_name.as_deref().and_then(|name| cluster.storage_classes.named(name));
    claim.status.phase == "Pending" && class.is_some_and(|class| class.volume_binding_mode == "WaitForFirstConsumer")
}

fn no_volume(cluster: &Cluster, claim: &PersistentVolumeClaim, object: ObjectRef) -> Link {
    let events = cluster.events_about(&object);
    let told = events.into_iter().rev().find(|event| event.is_warning());
    let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
    let is_class_gone = !class.is_empty()
        && cluster.blind_to("StorageClass").is_none()
        && cluster.storage_classes.named(class).is_none();
    let name = object.in_words();
    let statement = match (claim.status.phase.as_str(), told) {
        ("Lost", _) => format!("{name} has lost its volume {}", claim.spec.volume_name),
        _ if is_class_gone => format!("{name} has no volume: there is no StorageClass {class}"),
        (_, Some(event)) => format!("{name} has no volume: {}", event.message),
        (phase, None) => format!("{name} has no volume, it is {phase}"),
    };
    let remedy = format!("kubectl describe pvc -n {} {}", object.namespace, object.name);
    Link::proven(object, statement).since(claim.metadata.creation_timestamp).remedy(remedy)
}

/// The node that has the least in the way shows what would have to change.
fn nearest_miss(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    let places = Places::of(cluster);
    let mut misses = places.all_obstacles(pod);
    // By the objects it fits: then the scheduler minds something that is not reckoned here.
    if misses.is_empty() || misses.iter().any(|(_, obstacles)| obstacles.is_empty()) {
        return None;
    }
    let tally = tally(&misses);
    // A node that pods of the same owner are being moved away from comes back only when they have gone.
    let siblings = places.homes_of_siblings(pod);
    let is_emptied = |node: &Node| node.spec.unschedulable && siblings.contains(node.metadata.name.as_str());
    misses.sort_by_key(|(node, obstacles)| (is_emptied(node), obstacles.len(), obstacles.first().cloned()));
    // A node that only has to come back is nearer than one that has to change.
    let back = misses.iter().find(|(node, obstacles)| {
        obstacles.iter().all(|obstacle| matches!(obstacle, Obstacle::NotReady | Obstacle::Cordoned))
            && !is_emptied(node)
    });
    let (nearest, obstacles) = back.or(misses.first())?;
    let first = obstacles.first()?;
    let name = ObjectRef::of(pod).in_words();
    let of_pod = |what: String| link(cluster, pod, format!("no node takes {name}: {what}"));
    Some(match first {
        Obstacle::Cordoned | Obstacle::NotReady if back.is_some() => {
            let mut chain = vec![of_pod(format!("it fits on Node {}, which is out of service", nearest.metadata.name))];
            chain.extend(node::out_of_service(cluster, nearest));
            chain
        }
        Obstacle::Volume(volume) => {
            let object = ObjectRef::new("PersistentVolume", "", volume);
            let statement = format!(
                "{} can only be used on its own node, and that does not take the pod ({tally})",
                object.in_words()
            );
            vec![of_pod(tally), Link::proven(object, statement).remedy(format!("kubectl describe pv {volume}"))]
        }
        Obstacle::Taint(taint) => {
            let statement = format!(
                "no node takes {name}: it does not tolerate the taint {taint} of Node {} ({tally})",
                nearest.metadata.name
            );
            vec![link(cluster, pod, statement).remedy(format!(
                "take the taint away (kubectl taint node {} {taint}-), or let the pod tolerate it",
                nearest.metadata.name
            ))]
        }
        Obstacle::Full(resource) | Obstacle::TooSmall(resource) => {
            let needed =
                pod.requests().get(resource).map(|amount| amount.shown(resource)).unwrap_or_else(|| "1".to_owned());
            let most = places.most_free(resource);
            let most = most.map(|(node, free)| format!("; most is free on Node {node}: {}", free.shown(resource)));
            let what = format!("it asks for {resource} {needed}{} ({tally})", most.unwrap_or_default());
            vec![
                of_pod(what)
                    .outlook(Outlook::Maybe)
                    .remedy(format!("free or add {resource}, or let the pod ask for less")),
            ]
        }
        Obstacle::Selector(label) => {
            vec![of_pod(format!("none has the label {label} that it asks for and suits otherwise ({tally})")).remedy(
                format!("kubectl label node {} {label}, or change the pod's nodeSelector", nearest.metadata.name),
            )]
        }
        Obstacle::Neighbour(other) => {
            vec![
                of_pod(format!("it must not be beside Pod {other} ({tally})"))
                    .outlook(Outlook::Maybe)
                    .remedy("add a node, or prefer rather than require that the pods are apart"),
            ]
        }
        Obstacle::Spread(key) => {
            vec![
                of_pod(format!("its spread over {key} would become too uneven ({tally})"))
                    .outlook(Outlook::Maybe)
                    .remedy("add a node, raise maxSkew of the constraint, or let it be ScheduleAnyway"),
            ]
        }
        Obstacle::Affinity | Obstacle::NotReady | Obstacle::Cordoned => {
            vec![of_pod(tally).outlook(Outlook::Maybe).remedy("see which nodes its affinity asks for")]
        }
    })
}

/// `2 lack disk=ssd, 1 is cordoned`: each node by all that is in the way.
fn tally(misses: &[(&Node, Vec<Obstacle>)]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, obstacles) in misses {
        for obstacle in obstacles {
            *counts.entry(words(obstacle)).or_default() += 1;
        }
    }
    let parts: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} {what}")).collect();
    format!("of {} nodes {}", misses.len(), parts.join(", "))
}

fn words(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Selector(label) => format!("without the label {label}"),
        Obstacle::Affinity => "outside its affinity".to_owned(),
        Obstacle::Taint(taint) => format!("with the taint {taint}"),
        Obstacle::Volume(volume) => format!("out of reach of volume {volume}"),
        Obstacle::TooSmall(resource) => format!("with less {resource} than it asks for"),
        Obstacle::Full(resource) => format!("with too little {resource} free"),
        Obstacle::Neighbour(_) => "with a pod that it must be apart from".to_owned(),
        Obstacle::Spread(key) => format!("that its spread over {key} rules out"),
        Obstacle::NotReady => "not Ready".to_owned(),
        Obstacle::Cordoned => "cordoned".to_owned(),
    }
}

fn link(cluster: &Cluster, pod: &Pod, statement: String) -> Link {
    Link::proven(ObjectRef::of(pod), statement)
        .since(pod.metadata.creation_timestamp)
        .owned_by(cluster.root_owner(&pod.metadata))
}
