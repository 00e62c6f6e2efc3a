//! Why a pod is not up, or not gone.

use jiff::SignedDuration;

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::{Explanation, budget, ending, node, scheduling};
use crate::cluster::{Cluster, ContainerStatus, Event, ObjectRef, Pod, Terminated};

/// So long a pod may take to start before that is worth a word.
const USUAL_START: SignedDuration = SignedDuration::from_mins(5);

const PULL_FAILURES: [&str; 6] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
];
const START_FAILURES: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreStartHookError",
    "PostStartHookError",
];
/// Events that say why a pod with a node does not start.
const START_EVENTS: [&str; 5] =
    ["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady", "FailedMapVolume"];

pub fn explain(cluster: &Cluster, pod: &Pod) -> Explanation {
    let mut causes: Vec<Cause> = holds(cluster, pod).and_then(Cause::of).into_iter().collect();
    let is_leaving = cluster.nodes.named(&pod.spec.node_name).is_some_and(|node| node.spec.unschedulable);
    if is_leaving && let Some(mut chain) = budget::forbids(cluster, pod) {
        chain.insert(0, Link::proven(ObjectRef::of(pod), "it has to leave its cordoned node").as_usual());
        causes.extend(Cause::of(chain));
    }
    sort(&mut causes);
    Explanation {
        object: ObjectRef::of(pod),
        summary: summary(pod),
        complete: causes.is_empty(),
        driver: None,
        causes,
        unseen: Vec::new(),
    }
}

fn summary(pod: &Pod) -> String {
    let state = match (pod.is_ending(), pod.is_ready(), pod.status.phase.as_str()) {
        (true, _, _) => "ending",
        (false, true, _) => "ready",
        (false, false, "") => "not looked at by anybody yet",
        (false, false, "Running") => "running, not ready",
        (false, false, phase) => phase,
    };
    match pod.spec.node_name.as_str() {
        "" => format!("{state}, on no node"),
        node => format!("{state}, on Node {node}"),
    }
}

/// What keeps a pod from being up, from the pod down; nothing if it is, or has done its work.
pub fn holds(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    if pod.is_ending() {
        return ending::holds(cluster, pod);
    }
    match pod.status.phase.as_str() {
        "Succeeded" => None,
        "Failed" => Some(vec![failed(cluster, pod)]),
        _ if pod.spec.node_name.is_empty() => Some(scheduling::holds(cluster, pod)),
        _ if pod.is_ready() => None,
        _ => Some(not_up(cluster, pod)),
    }
}

fn not_up(cluster: &Cluster, pod: &Pod) -> Chain {
    let down = cluster.nodes.named(&pod.spec.node_name).and_then(|host| node::down(cluster, host));
    if let Some(down) = down {
        let statement = format!("{} is on Node {}, which is down", ObjectRef::of(pod).in_words(), pod.spec.node_name);
        let mut chain = vec![link(cluster, pod, statement)];
        chain.extend(down);
        return chain;
    }
    let container = pod.container_statuses().find_map(|status| container(cluster, pod, status));
    container.or_else(|| by_events(cluster, pod)).unwrap_or_else(|| vec![starting(cluster, pod)])
}

/// What is wrong with one container.
fn container(cluster: &Cluster, pod: &Pod, status: &ContainerStatus) -> Option<Chain> {
    let (name, own) = (ObjectRef::of(pod).in_words(), &status.name);
    let waiting = status.state.waiting.as_ref();
    let reason = waiting.map(|waiting| waiting.reason.as_str()).unwrap_or_default();
    let message = waiting.map(|waiting| waiting.message.as_str()).unwrap_or_default();
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let image = containers.into_iter().find(|container| container.name == *own).map(|container| &container.image);
    let image = image.map(String::as_str).unwrap_or_default();
    if PULL_FAILURES.contains(&reason) {
        let told = told(cluster, pod, &["Failed"]).filter(|event| event.message.contains("pull"));
        let why = told.map_or(message, |event| event.message.as_str());
        let statement = format!("the image {image} of {name} cannot be pulled on Node {}: {why}", pod.spec.node_name);
        let link = link(cluster, pod, statement).since(told.and_then(Event::first_seen).or(begun(pod)));
        return Some(vec![
            link.outlook(Outlook::Maybe)
                .remedy("check the name of the image, the registry, and what the node may pull with"),
        ]);
    }
    if START_FAILURES.contains(&reason) {
        return Some(config(cluster, pod, own, message));
    }
    let crashed = status.last_state.terminated.as_ref().or(status.state.terminated.as_ref());
    let crashed = crashed.filter(|end| end.exit_code != 0);
    if let (true, Some(end)) = (reason == "CrashLoopBackOff" || status.state.terminated.is_some(), crashed) {
        let statement = format!("container {own} of {name} crashes: {}", ended(end));
        let logs = format!("kubectl logs -n {} {} -c {own} --previous", pod.metadata.namespace, pod.metadata.name);
        return Some(vec![link(cluster, pod, statement).since(end.finished_at).outlook(Outlook::Maybe).remedy(logs)]);
    }
    None
}

/// How a container ended, and how often it may have before.
pub fn ended(end: &Terminated) -> String {
    let code = format!("it ended with code {}", end.exit_code);
    match (end.reason.as_str(), end.message.trim()) {
        ("OOMKilled", _) => "it was killed for using more memory than its limit (OOMKilled)".to_owned(),
        ("" | "Error", "") => code,
        ("" | "Error", message) => format!("{code}: {}", last_line(message)),
        (reason, "") => format!("{code} ({reason})"),
        (reason, message) => format!("{code} ({reason}): {}", last_line(message)),
    }
}

/// Logs can be long; their end says most.
fn last_line(text: &str) -> &str {
    text.trim_end().rsplit('\n').next().unwrap_or(text)
}

/// The container cannot be made: usually something that it refers to is not there.
fn config(cluster: &Cluster, pod: &Pod, container: &str, message: &str) -> Chain {
    let statement = format!("container {container} of {} cannot be made: {message}", ObjectRef::of(pod).in_words());
    let mut chain = vec![link(cluster, pod, statement).since(begun(pod))];
    let quoted = |word: &str| Some(message.split_once(&format!("{word} \""))?.1.split_once('"')?.0.to_owned());
    for (word, kind) in [("secret", "Secret"), ("configmap", "ConfigMap")] {
        if let Some(name) = quoted(word).filter(|_| message.contains("not found")) {
            chain.push(missing(kind, &pod.metadata.namespace, &name));
        }
    }
    chain
}

/// An object that something refers to and that is not there.
pub fn missing(kind: &str, namespace: &str, name: &str) -> Link {
    let object = ObjectRef::new(kind, namespace, name);
    let statement = format!("{} is not there", object.in_words());
    Link::proven(object, statement)
        .remedy(format!("create it in namespace {namespace}, or take it out of what refers to it"))
}

fn by_events(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    let event = told(cluster, pod, &START_EVENTS)?;
    let statement =
        format!("{} cannot start on Node {}: {}", ObjectRef::of(pod).in_words(), pod.spec.node_name, event.message);
    let mut chain = vec![link(cluster, pod, statement).since(event.first_seen()).outlook(Outlook::Maybe)];
    let secrets = pod.spec.volumes.iter().filter_map(|volume| volume.secret.as_ref()).filter(|source| !source.optional);
    let gone = secrets.map(|source| source.secret_name.as_str()).find(|name| {
        cluster.blind_to("Secret").is_none() && cluster.secrets.get(&pod.metadata.namespace, name).is_none()
    });
    chain.extend(
        gone.filter(|_| event.reason == "FailedMount").map(|name| missing("Secret", &pod.metadata.namespace, name)),
    );
    chain.extend(held_elsewhere(cluster, pod));
    Some(chain)
}

/// A volume of the pod is still attached to another node.
fn held_elsewhere(cluster: &Cluster, pod: &Pod) -> Chain {
    let claims = pod.claims().filter_map(|claim| cluster.claims.get(&pod.metadata.namespace, claim));
    let volumes: Vec<&str> =
        claims.map(|claim| claim.spec.volume_name.as_str()).filter(|name| !name.is_empty()).collect();
    let attachment = cluster.attachments.iter().find(|attachment| {
        volumes.contains(&attachment.spec.source.persistent_volume_name.as_str())
            && attachment.status.attached
            && attachment.spec.node_name != pod.spec.node_name
    });
    let Some(attachment) = attachment else { return Chain::new() };
    let (volume, host) = (&attachment.spec.source.persistent_volume_name, &attachment.spec.node_name);
    let statement = format!("volume {volume} is still attached to Node {host}");
    let link = Link::proven(ObjectRef::of(attachment), statement).since(attachment.metadata.creation_timestamp);
    let mut chain = vec![
        link.outlook(Outlook::Maybe).remedy(format!("kubectl describe volumeattachment {}", attachment.metadata.name)),
    ];
    chain.extend(cluster.nodes.named(host).and_then(|host| node::down(cluster, host)).unwrap_or_default());
    chain
}

fn starting(cluster: &Cluster, pod: &Pod) -> Link {
    let name = ObjectRef::of(pod).in_words();
    let running = pod.container_statuses().find(|status| !status.ready && status.state.running.is_some());
    let begun = begun(pod);
    let is_long = begun.is_some_and(|begun| cluster.looked_at.duration_since(begun) > USUAL_START);
    if let Some(status) = running {
        let is_init = pod.status.init_container_statuses.iter().any(|init| init.name == status.name);
        let (what, outlook) = match is_init {
            true => (format!("init container {} of {name} is at work", status.name), Outlook::Yes),
            false => (format!("container {} of {name} runs and is not ready", status.name), Outlook::Maybe),
        };
        let unhealthy = told(cluster, pod, &["Unhealthy"]).filter(|_| !is_init);
        let statement = unhealthy.map_or(what.clone(), |event| format!("{what}: {}", event.message));
        let since = status.state.running.as_ref().and_then(|running| running.started_at);
        let link = link(cluster, pod, statement).since(since).outlook(outlook);
        return if is_init || !is_long && unhealthy.is_none() { link.as_usual() } else { link };
    }
    let statement = format!("{name} is starting on Node {}", pod.spec.node_name);
    let link = Link { certainty: super::Certainty::Likely, ..link(cluster, pod, statement) };
    let link = link
        .since(begun)
        .outlook(Outlook::Maybe)
        .remedy(format!("kubectl describe pod -n {} {}", pod.metadata.namespace, pod.metadata.name));
    if is_long { link } else { link.as_usual() }
}

/// It has ended badly, and nobody starts it again.
fn failed(cluster: &Cluster, pod: &Pod) -> Link {
    let name = ObjectRef::of(pod).in_words();
    let ends = pod.container_statuses().filter_map(|status| Some((status, status.state.terminated.as_ref()?)));
    let bad = ends.into_iter().find(|(_, end)| end.exit_code != 0);
    let logs =
        |container: &str| format!("kubectl logs -n {} {} -c {container}", pod.metadata.namespace, pod.metadata.name);
    match (pod.status.reason.as_str(), bad) {
        (reason, None) => {
            let reason = if reason.is_empty() { "Failed" } else { reason };
            let statement = format!("{name} has failed: {reason}: {}", pod.status.message);
            link(cluster, pod, statement).since(pod.status.start_time)
        }
        (_, Some((status, end))) => {
            let statement = format!("container {} of {name} failed: {}", status.name, ended(end));
            let link = link(cluster, pod, statement).since(end.finished_at).remedy(logs(&status.name));
            // A node that reboots ends its pods; whoever made them makes others. A Job says itself what it makes of it.
            let is_replaced = pod.metadata.controller().is_some_and(|owner| owner.kind != "Job");
            let is_new = end.finished_at.is_some_and(|ended| cluster.looked_at.duration_since(ended) < USUAL_START);
            if is_replaced && is_new { link.outlook(Outlook::Maybe).as_usual() } else { link }
        }
    }
}

fn link(cluster: &Cluster, pod: &Pod, statement: String) -> Link {
    let owner = cluster.root_owner(&pod.metadata);
    Link::proven(ObjectRef::of(pod), statement).since(begun(pod)).owned_by(owner)
}

fn begun(pod: &Pod) -> Option<jiff::Timestamp> {
    pod.status.start_time.or(pod.metadata.creation_timestamp)
}

/// The latest warning about this very pod for one of the reasons.
fn told<'a>(cluster: &'a Cluster, pod: &Pod, reasons: &[&str]) -> Option<&'a Event> {
    let events = cluster.events_about(&ObjectRef::of(pod)).into_iter().rev();
    let same = |event: &&Event| event.involved_object.uid.is_empty() || event.involved_object.uid == pod.metadata.uid;
    events.filter(same).find(|event| event.is_warning() && reasons.contains(&event.reason.as_str()))
}
