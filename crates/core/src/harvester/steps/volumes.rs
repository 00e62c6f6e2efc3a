//! Volumes on a node that is about to go: those in use must be sound elsewhere, and those that nobody uses are detached, since
//! Longhorn keeps a node for as long as an engine runs there.

use drover_api::harvester::node::{MANAGED, WITNESS};
use drover_api::longhorn::engine::{modes, states as instances};
use drover_api::longhorn::volume::states;
use drover_api::longhorn::volume_attachment::types;
use serde_json::{Value, json};

use super::{Next, Scene};
use crate::cluster::Projection;
use crate::cluster::longhorn::{Engine, Ticket, Volume, VolumeAttachment};
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait, Write};

/// Pods use a volume by these: their drain detaches it.
const OF_WORKLOADS: [&str; 2] = [types::CSI, types::SHARE];
const BY_HAND: [&str; 2] = [types::BY_HAND, types::BY_HAND_ON_SCREEN];

/// A node must not go while a volume in use would have too few sound replicas without it. What it has itself, or has lost,
/// does not count: it goes, whatever is there.
pub(super) fn unhealthy(scene: &Scene<'_>) -> Option<Next> {
    let keepers = scene.cluster.nodes.iter().filter(|node| {
        let labels = &node.metadata.labels;
        labels.contains_key(MANAGED) && !labels.contains_key(WITNESS)
    });
    let others = i64::try_from(keepers.count()).unwrap_or(i64::MAX).saturating_sub(1);
    let bad = running(scene).filter_map(|engine| {
        let volume = volume_of(scene, engine)?;
        let wanted = (volume.spec.number_of_replicas - 1).min(others).min(2);
        (sound_elsewhere(scene, engine) < wanted).then(|| volume.claim())
    });
    let bad: Vec<String> = bad.collect();
    if bad.is_empty() {
        return None;
    }
    let sentence = format!("volumes have too few sound replicas on other nodes: {}", bad.join(", "));
    Some(scene.wait_on_node(Reason::VolumeUnhealthy, sentence, Some("wait until Longhorn has rebuilt them".to_owned())))
}

/// Volumes in use that are sound nowhere else. One that has never had another replica stops with its node.
pub(super) fn last_here(scene: &Scene<'_>) -> Option<Next> {
    let last = running(scene).filter_map(|engine| {
        let volume = volume_of(scene, engine)?;
        (volume.spec.number_of_replicas > 1 && sound_elsewhere(scene, engine) < 1).then(|| volume.claim())
    });
    let last: Vec<String> = last.collect();
    if last.is_empty() {
        return None;
    }
    let sentence = format!("volumes have their last sound replica on {}: {}", scene.order.node, last.join(", "));
    Some(scene.wait_on_node(Reason::VolumeUnhealthy, sentence, Some("wait until Longhorn has rebuilt them".to_owned())))
}

/// Takes what nobody uses from the node, and waits for what is still there; nothing if nothing is.
pub(super) fn detach_unused(scene: &Scene<'_>) -> Option<Next> {
    let here = running(scene).filter(|engine| engine.spec.node_id == scene.order.node);
    let kept: Vec<Kept> = here.filter_map(|engine| kept(scene, engine)).collect();
    let remedy = kept.iter().find_map(|one| one.remedy.clone());
    let list: Vec<&str> = kept.iter().map(|one| one.words.as_str()).collect();
    if list.is_empty() {
        return None;
    }
    let node = &scene.order.node;
    let sentence = format!("volumes that no workload uses are attached to {node}: {}", list.join(", "));
    let wait = Wait { remedy, ..Wait::new(Subject::node(node), Reason::VolumeAttached, sentence, scene.now) };
    Some(Next::Wait { writes: kept.into_iter().filter_map(|one| one.write).collect(), waits: vec![wait] })
}

/// A volume that is attached for nobody.
struct Kept {
    /// The volume, and what keeps it.
    words: String,
    write: Option<Write>,
    /// Where nothing of ours helps.
    remedy: Option<String>,
}

fn kept(scene: &Scene<'_>, engine: &Engine) -> Option<Kept> {
    let Some(volume) = volume_of(scene, engine) else {
        // One that was not seen may be there.
        let is_seen = scene.cluster.unseen.iter().all(|unseen| unseen.kind != Volume::KIND);
        return is_seen.then(|| orphan(engine, "whose volume is gone"));
    };
    let is_left = volume.status.state == states::DETACHED && engine.spec.desire_state != instances::STOPPED;
    if is_left {
        return Some(orphan(engine, "whose volume is detached"));
    }
    // Longhorn itself is about to stop what does not belong here.
    if !volume.is_attached() || volume.status.current_node_id != scene.order.node {
        return None;
    }
    let attachment = scene.cluster.longhorn.attachments.get(&volume.metadata.namespace, &volume.metadata.name)?;
    let tickets = &attachment.spec.attachment_tickets;
    let here = || tickets.iter().filter(|(_, ticket)| ticket.node_id == scene.order.node);
    if here().any(|(_, ticket)| OF_WORKLOADS.contains(&ticket.r#type.as_str())) {
        return None;
    }
    let is_by_hand = |(_, ticket): &(&String, &Ticket)| BY_HAND.contains(&ticket.r#type.as_str());
    let (by_hand, others): (Vec<_>, Vec<_>) = here().partition(is_by_hand);
    let others: Vec<&str> = others.iter().map(|(_, ticket)| ticket.r#type.as_str()).collect();
    let claim = volume.claim();
    if !others.is_empty() {
        let (namespace, name) = (&volume.metadata.namespace, &volume.metadata.name);
        let remedy = format!(
            "Longhorn works on it, and lets it go when that is done: kubectl -n {namespace} describe volumes.longhorn.io {name}"
        );
        return Some(Kept { words: format!("{claim} ({})", others.join(", ")), write: None, remedy: Some(remedy) });
    }
    // A volume that has never had another replica stops with its node, whoever detaches it.
    if volume.spec.number_of_replicas > 1 && sound_elsewhere(scene, engine) < 1 {
        let remedy = format!("wait until a replica of {claim} is sound on another node");
        return Some(Kept { words: format!("{claim} (its last sound replica)"), write: None, remedy: Some(remedy) });
    }
    let write = Some(by_hand).filter(|tickets| !tickets.is_empty()).map(|tickets| detach(attachment, &tickets));
    Some(Kept { words: claim, write, remedy: None })
}

/// An engine that no volume accounts for: Longhorn never stops it. Its replicas hold the data, and stay.
fn orphan(engine: &Engine, why: &str) -> Kept {
    let (namespace, name) = (&engine.metadata.namespace, &engine.metadata.name);
    let write = engine.metadata.deletion_timestamp.is_none().then(|| Write {
        purpose: Purpose::Step,
        subject: Subject::new(Kind::Engine, namespace, name),
        act: Act::Delete { uid: engine.metadata.uid.clone() },
    });
    let remedy = format!("if it does not go: kubectl -n {namespace} describe engines.longhorn.io {name}");
    Kept { words: format!("Engine {namespace}/{name}, {why}"), write, remedy: Some(remedy) }
}

fn detach(attachment: &VolumeAttachment, tickets: &[(&String, &Ticket)]) -> Write {
    let version = attachment.metadata.resource_version.to_string();
    let gone: serde_json::Map<String, Value> = tickets.iter().map(|(id, _)| ((*id).clone(), Value::Null)).collect();
    let (namespace, name) = (&attachment.metadata.namespace, &attachment.metadata.name);
    Write {
        purpose: Purpose::Step,
        subject: Subject::new(Kind::VolumeAttachment, namespace, name),
        act: Act::Patch(json!({ "metadata": { "resourceVersion": version }, "spec": { "attachmentTickets": gone } })),
    }
}

fn running<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Engine> {
    scene.cluster.longhorn.engines.iter().filter(|engine| engine.status.current_state == instances::RUNNING)
}

fn volume_of<'a>(scene: &Scene<'a>, engine: &Engine) -> Option<&'a Volume> {
    scene.cluster.longhorn.volumes.get(&engine.metadata.namespace, &engine.spec.volume_name)
}

/// How many sound replicas are left without the node of the step.
fn sound_elsewhere(scene: &Scene<'_>, engine: &Engine) -> i64 {
    let sound = engine.status.replica_mode_map.iter().filter(|(name, mode)| {
        let replica = scene.cluster.longhorn.replicas.get(&engine.metadata.namespace, name);
        *mode == modes::READ_WRITE && replica.is_some_and(|replica| replica.spec.node_id != scene.order.node)
    });
    i64::try_from(sound.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use drover_api::harvester::node::DRAIN_TAINT;

    use super::super::{Done, HostDeed, Kind as StepKind, Order, next};
    use super::*;
    use crate::cluster::{Cause, Cluster, Unseen};

    fn of_longhorn(kind: &str, name: &str, spec: Value, status: Value) -> Value {
        let metadata = json!({ "name": name, "namespace": "longhorn-system", "uid": name, "resourceVersion": "7" });
        json!({ "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec, "status": status })
    }

    /// `node-1` is being emptied, and the volume `data` is attached there with these tickets; its two replicas are in these modes.
    fn attached(tickets: Value, modes: [&str; 2]) -> Cluster {
        let progress = json!({ "release": { "os": "new", "kubernetes": "v1.34.1+rke2r1" } }).to_string();
        let annotations = json!({ "drover.dev/progress": progress });
        let taint = json!({ "key": DRAIN_TAINT, "value": "draining", "effect": "NoSchedule" });
        let metadata = json!({ "name": "u", "namespace": "harvester-system", "annotations": annotations });
        let at = json!({ "numberOfReplicas": 2 });
        let mut all = vec![
            json!({ "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": metadata }),
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1" }, "spec": { "taints": [taint] } }),
            of_longhorn("Volume", "data", at, json!({ "state": "attached", "currentNodeID": "node-1" })),
            of_longhorn("VolumeAttachment", "data", json!({ "attachmentTickets": tickets }), json!({})),
        ];
        for (node, mode) in ["node-1", "node-2"].into_iter().zip(modes) {
            all.push(of_longhorn("Replica", &format!("{mode}-{node}"), json!({ "nodeID": node }), json!({})));
        }
        let map = json!({ format!("{}-node-1", modes[0]): modes[0], format!("{}-node-2", modes[1]): modes[1] });
        all.push(engine("data-e-0", "data", json!({ "currentState": "running", "replicaModeMap": map })));
        let mut cluster = Cluster::default();
        all.iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
        cluster
    }

    fn engine(name: &str, volume: &str, status: Value) -> Value {
        let spec = json!({ "volumeName": volume, "nodeID": "node-1", "desireState": "running" });
        of_longhorn("Engine", name, spec, status)
    }

    fn ticket(kind: &str) -> Value {
        json!({ "t": { "id": "t", "type": kind, "nodeID": "node-1" } })
    }

    fn pre_drain(cluster: &Cluster) -> Next {
        let order = Order { kind: StepKind::PreDrain, upgrade: "u".into(), node: "node-1".into() };
        next(cluster, &order, &Done::to_host([HostDeed::RecoverAgent]), "2026-01-01T12:00:00Z".parse().unwrap())
    }

    fn kept_by(cluster: &Cluster) -> (Vec<Write>, String) {
        let Next::Wait { writes, waits } = pre_drain(cluster) else { panic!("{:?}", pre_drain(cluster)) };
        assert_eq!((waits.len(), waits[0].reason), (1, Reason::VolumeAttached));
        (writes, waits[0].sentence.clone())
    }

    #[test]
    fn a_volume_that_was_attached_by_hand_is_detached_and_named() {
        let (writes, sentence) = kept_by(&attached(ticket("longhorn-api"), ["RW", "RW"]));
        assert_eq!(sentence, "volumes that no workload uses are attached to node-1: data");
        let gone = json!({ "metadata": { "resourceVersion": "7" }, "spec": { "attachmentTickets": { "t": null } } });
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0].subject, Subject::new(Kind::VolumeAttachment, "longhorn-system", "data"));
        assert_eq!(writes[0].act, Act::Patch(gone));
    }

    #[test]
    fn a_volume_whose_ticket_is_gone_is_waited_for_until_its_engine_has_stopped() {
        let (writes, _) = kept_by(&attached(json!({}), ["RW", "RW"]));
        assert_eq!(writes, []);
        let mut cluster = attached(json!({}), ["RW", "RW"]);
        cluster.take(engine("data-e-0", "data", json!({ "currentState": "stopped" })).to_string().as_bytes());
        assert_eq!(pre_drain(&cluster), Next::Done);
    }

    #[test]
    fn a_volume_that_a_pod_uses_goes_with_the_pod() {
        assert_eq!(pre_drain(&attached(ticket("csi-attacher"), ["RW", "RW"])), Next::Done);
        assert_eq!(pre_drain(&attached(ticket("share-manager-controller"), ["RW", "RW"])), Next::Done);
    }

    #[test]
    fn a_volume_is_not_detached_with_its_last_sound_replica_nor_under_a_backup() {
        let (writes, sentence) = kept_by(&attached(ticket("longhorn-ui"), ["RW", "WO"]));
        assert_eq!(writes, []);
        assert!(sentence.ends_with("data (its last sound replica)"), "{sentence}");
        let (writes, sentence) = kept_by(&attached(ticket("backup-controller"), ["RW", "RW"]));
        assert_eq!(writes, []);
        assert!(sentence.ends_with("data (backup-controller)"), "{sentence}");
    }

    #[test]
    fn no_engine_goes_where_volumes_cannot_be_seen() {
        let mut cluster = attached(ticket("csi-attacher"), ["RW", "RW"]);
        cluster.take(engine("lost-e-1", "lost", json!({ "currentState": "running" })).to_string().as_bytes());
        let cause = Cause::Unreachable("503 Service Unavailable".to_owned());
        cluster.unseen.push(Unseen { kind: "Volume.longhorn.io".to_owned(), object: None, cause });
        assert_eq!(pre_drain(&cluster), Next::Done);
    }

    #[test]
    fn an_engine_that_no_volume_accounts_for_goes() {
        let mut cluster = attached(ticket("csi-attacher"), ["RW", "RW"]);
        cluster.take(engine("lost-e-1", "lost", json!({ "currentState": "running" })).to_string().as_bytes());
        let (writes, sentence) = kept_by(&cluster);
        assert!(sentence.ends_with("Engine longhorn-system/lost-e-1, whose volume is gone"), "{sentence}");
        assert_eq!(writes[0].act, Act::Delete { uid: "lost-e-1".into() });
        assert_eq!(writes[0].subject, Subject::new(Kind::Engine, "longhorn-system", "lost-e-1"));
    }
}
