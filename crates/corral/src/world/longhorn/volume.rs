//! One volume: where it is attached, which of its replicas are well, and what is rebuilt.
//!
//! Models `volume_controller.go`, `volume_attachment_controller.go`, `engine_controller.go` and `replica_controller.go` of
//! longhorn-manager 1.10.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_api::longhorn::engine::{self, Engine, EngineSpec, modes, states as instance_states};
use drover_api::longhorn::replica::{Replica, ReplicaSpec};
use drover_api::longhorn::volume::{Volume, robustness, states};
use drover_api::longhorn::volume_attachment::{Ticket, VolumeAttachment, VolumeAttachmentSpec, types};
use drover_clock::later;
use jiff::Timestamp;

use super::Settings;
use crate::world::annotations::{self, Lasts, REBUILD_DURATION, REBUILDING_SINCE};
use crate::world::kubelet::{digest, hex};
use crate::world::outcome::{Action, Outcome, sooner};
use crate::world::workloads::template::controlled_by;
use crate::world::{loose, pods};

/// How long a replica is rebuilt if nothing else is said.
const REBUILDING: Duration = Duration::from_secs(20);

/// What is known of a node that may keep replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// Its instance manager runs.
    pub running: bool,
    /// New replicas may be put there.
    pub schedulable: bool,
    pub cordoned: bool,
    pub replicas: usize,
}

pub struct Scene<'a> {
    pub volume: &'a Volume,
    pub attachment: Option<&'a VolumeAttachment>,
    /// Its own, by name; others that carry its label are nobody's.
    pub engine: Option<&'a Engine>,
    pub replicas: &'a [Replica],
    /// The nodes of the pods that use its claim, those first that came first.
    pub users: &'a [String],
    pub hosts: &'a BTreeMap<String, Host>,
    pub settings: &'a Settings,
}

pub fn engine_name(volume: &str) -> String {
    format!("{volume}-e-0")
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Outcome {
    if scene.volume.metadata.deletion_timestamp.is_some() {
        return Outcome::nothing();
    }
    let tickets = tickets(scene);
    let wanted = node_wanted(scene, &tickets);
    let mut actions = Vec::new();
    actions.extend(keep_tickets(scene, tickets));
    let host = scene.hosts.get(&wanted).copied().unwrap_or_default();
    let served = !wanted.is_empty() && host.running;
    let (replicas, wake) = tend_replicas(scene, served, &mut actions, now);
    actions.extend(keep_engine(scene, &wanted, served, &replicas));
    actions.extend(describe(scene, &wanted, served, &replicas));
    Outcome { actions, wake }
}

/// Those of pods follow the pods; those by hand stay until somebody takes them back, or the node is cordoned if that is set.
fn tickets(scene: &Scene<'_>) -> BTreeMap<String, Ticket> {
    let known = scene.attachment.and_then(|one| one.spec.as_ref()?.attachment_tickets.clone()).unwrap_or_default();
    let cordoned = |ticket: &Ticket| {
        let node = ticket.node_id.as_deref().unwrap_or_default();
        scene.hosts.get(node).is_some_and(|host| host.cordoned)
    };
    let by_hand = known.into_iter().filter(|(_, ticket)| {
        ticket.r#type.as_deref() != Some(types::CSI) && !(scene.settings.detach_when_cordoned && cordoned(ticket))
    });
    let of_pods = scene.users.iter().map(|node| {
        let id = format!("csi-{}", hex(&digest(&[pods::name(&scene.volume.metadata), node])));
        let ticket = Ticket {
            id: Some(id.clone()),
            r#type: Some(types::CSI.into()),
            node_id: Some(node.clone()),
            ..Ticket::default()
        };
        (id, ticket)
    });
    by_hand.chain(of_pods).collect()
}

fn keep_tickets(scene: &Scene<'_>, tickets: BTreeMap<String, Ticket>) -> Option<Action> {
    let volume = pods::name(&scene.volume.metadata);
    let Some(known) = scene.attachment else {
        let mut attachment = VolumeAttachment::named(volume);
        attachment.metadata.namespace = scene.volume.metadata.namespace.clone();
        attachment.metadata.owner_references = Some(vec![controlled_by(scene.volume)]);
        attachment.spec = Some(VolumeAttachmentSpec {
            volume: Some(volume.into()),
            attachment_tickets: Some(tickets),
            ..VolumeAttachmentSpec::default()
        });
        return Some(Action::create(&attachment));
    };
    let mut after = known.clone();
    after.spec.get_or_insert_default().attachment_tickets = Some(tickets);
    Action::change(known, &after)
}

/// A volume stays where it is as long as somebody there wants it; pods come before hands.
fn node_wanted(scene: &Scene<'_>, tickets: &BTreeMap<String, Ticket>) -> String {
    let here = scene.volume.spec.as_ref().and_then(|spec| spec.node_id.clone()).unwrap_or_default();
    let nodes: Vec<&String> = tickets.values().filter_map(|ticket| ticket.node_id.as_ref()).collect();
    if nodes.contains(&&here) {
        return here;
    }
    scene.users.first().or(nodes.first().copied()).cloned().unwrap_or_default()
}

/// How a replica is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Health {
    Well,
    Rebuilding,
    Lost,
}

type Healths = BTreeMap<String, Health>;

fn tend_replicas(
    scene: &Scene<'_>,
    served: bool,
    actions: &mut Vec<Action>,
    now: Timestamp,
) -> (Healths, Option<Timestamp>) {
    let mut healths = Healths::new();
    let mut wake = None;
    let running = |replica: &Replica| scene.hosts.get(place(replica)).is_some_and(|host| host.running);
    let sound = |replica: &&Replica| failed_at(replica).is_none() && rebuilding_since(replica).is_none();
    // Where all are lost, those that are there again have to do.
    let salvage = !scene.replicas.iter().filter(sound).any(running);
    for replica in scene.replicas {
        let mut after = replica.clone();
        let spec = after.spec.get_or_insert_default();
        spec.desire_state = Some(state(served).into());
        let there = running(replica);
        let mut health = match (failed_at(replica), rebuilding_since(replica)) {
            (Some(_), _) => Health::Lost,
            (None, Some(_)) => Health::Rebuilding,
            (None, None) => Health::Well,
        };
        if served && !there && health != Health::Lost {
            spec.failed_at = Some(loose::text(now));
            forget(&mut after);
            health = Health::Lost;
        } else if served && there && health == Health::Lost {
            spec.failed_at = Some(String::new());
            health = if salvage { Health::Well } else { Health::Rebuilding };
            if !salvage {
                remember(&mut after, now);
            }
        } else if served && there && health == Health::Rebuilding {
            match rebuilt_at(scene, replica) {
                Some(moment) if moment <= now => {
                    spec.healthy_at = Some(loose::text(now));
                    forget(&mut after);
                    health = Health::Well;
                }
                moment => wake = sooner(wake, moment),
            }
        } else if served && spec.healthy_at.as_ref().is_none_or(String::is_empty) && health == Health::Well {
            spec.healthy_at = Some(loose::text(now));
        }
        after.status.get_or_insert_default().current_state =
            Some(state(served && there && health != Health::Lost).into());
        healths.insert(pods::name(&replica.metadata).into(), health);
        actions.extend(Action::change(replica, &after));
    }
    wake = sooner(wake, keep_number(scene, served, &healths, actions, now));
    (healths, wake)
}

/// Makes the replicas that are missing: at once for a new volume, after the interval for those that were lost. Takes the lost
/// ones away that nobody needs any more.
fn keep_number(
    scene: &Scene<'_>,
    served: bool,
    healths: &Healths,
    actions: &mut Vec<Action>,
    now: Timestamp,
) -> Option<Timestamp> {
    let number = usize::try_from(scene.volume.spec.as_ref().and_then(|spec| spec.number_of_replicas).unwrap_or(3));
    let number = number.unwrap_or(0);
    let count = |wanted: Health| healths.values().filter(|health| **health == wanted).count();
    let well = count(Health::Well);
    let lost = scene.replicas.iter().filter(|one| healths.get(pods::name(&one.metadata)) == Some(&Health::Lost));
    if well >= number {
        actions.extend(lost.map(Action::delete));
        return None;
    }
    let alive = well + count(Health::Rebuilding);
    if alive >= number {
        return None;
    }
    let is_new = scene.replicas.is_empty();
    if !is_new {
        if !served || well == 0 {
            return None;
        }
        // One that was lost may come back with its data, and is given time for that: from now, if it was just lost.
        let last = lost.map(|one| failed_at(one).unwrap_or(now)).max();
        if let Some(due) = last.map(|lost| later(lost, scene.settings.replenishment)).filter(|due| now < *due) {
            return Some(due);
        }
    }
    let taken: BTreeSet<&str> = scene.replicas.iter().map(place).collect();
    let mut free: Vec<(&usize, &String)> = scene
        .hosts
        .iter()
        .filter(|(name, host)| host.schedulable && host.running && !taken.contains(name.as_str()))
        .map(|(name, host)| (&host.replicas, name))
        .collect();
    free.sort_unstable();
    let missing = number - alive;
    actions.extend(free.iter().take(missing).map(|(_, node)| {
        let mut replica = replica_on(scene.volume, node);
        if !is_new {
            remember(&mut replica, now);
        }
        Action::create(&replica)
    }));
    None
}

fn replica_on(volume: &Volume, node: &str) -> Replica {
    let name = pods::name(&volume.metadata);
    let mut replica = Replica::named(&format!("{name}-r-{}", &hex(&digest(&[name, node, "replica"]))[..8]));
    replica.metadata.namespace = volume.metadata.namespace.clone();
    replica.metadata.labels = Some([(engine::VOLUME.to_string(), name.to_string())].into());
    replica.metadata.owner_references = Some(vec![controlled_by(volume)]);
    replica.spec =
        Some(ReplicaSpec { volume_name: Some(name.into()), node_id: Some(node.into()), ..ReplicaSpec::default() });
    replica
}

fn place(replica: &Replica) -> &str {
    replica.spec.as_ref().and_then(|spec| spec.node_id.as_deref()).unwrap_or_default()
}

fn failed_at(replica: &Replica) -> Option<Timestamp> {
    loose::moment(replica.spec.as_ref()?.failed_at.as_ref())
}

fn rebuilding_since(replica: &Replica) -> Option<Timestamp> {
    loose::moment(replica.metadata.annotations.as_ref()?.get(REBUILDING_SINCE))
}

fn remember(replica: &mut Replica, now: Timestamp) {
    replica.metadata.annotations.get_or_insert_default().insert(REBUILDING_SINCE.into(), loose::text(now));
}

fn forget(replica: &mut Replica) {
    if let Some(annotations) = &mut replica.metadata.annotations {
        annotations.remove(REBUILDING_SINCE);
    }
}

/// When a replica will be well again; never, if the volume is told so.
fn rebuilt_at(scene: &Scene<'_>, replica: &Replica) -> Option<Timestamp> {
    let takes = match annotations::lasts_for_all(scene.volume.metadata.annotations.as_ref(), REBUILD_DURATION) {
        Some(Lasts::Forever) => return None,
        Some(Lasts::For(time)) => time,
        None => REBUILDING,
    };
    Some(later(rebuilding_since(replica)?, takes))
}

fn keep_engine(scene: &Scene<'_>, wanted: &str, served: bool, replicas: &Healths) -> Option<Action> {
    let volume = pods::name(&scene.volume.metadata);
    let Some(known) = scene.engine else {
        let mut engine = Engine::named(&engine_name(volume));
        engine.metadata.namespace = scene.volume.metadata.namespace.clone();
        engine.metadata.labels = Some([(engine::VOLUME.to_string(), volume.to_string())].into());
        engine.metadata.owner_references = Some(vec![controlled_by(scene.volume)]);
        engine.spec = Some(EngineSpec { volume_name: Some(volume.into()), ..EngineSpec::default() });
        return Some(Action::create(&engine));
    };
    let mut after = known.clone();
    let spec = after.spec.get_or_insert_default();
    spec.node_id = Some(wanted.into());
    spec.desire_state = Some(state(!wanted.is_empty()).into());
    let status = after.status.get_or_insert_default();
    status.current_state = Some(state(served).into());
    let mode = |health: Health| match health {
        Health::Well => Some(modes::READ_WRITE),
        Health::Rebuilding => Some(modes::WRITE_ONLY),
        Health::Lost => None,
    };
    let map =
        replicas.iter().filter(|_| served).filter_map(|(name, health)| Some((name.clone(), mode(*health)?.into())));
    status.replica_mode_map = Some(map.collect::<BTreeMap<_, _>>()).filter(|map| !map.is_empty());
    Action::change(known, &after)
}

fn state(running: bool) -> &'static str {
    if running { instance_states::RUNNING } else { instance_states::STOPPED }
}

fn describe(scene: &Scene<'_>, wanted: &str, served: bool, replicas: &Healths) -> Option<Action> {
    let mut after = scene.volume.clone();
    let spec = after.spec.get_or_insert_default();
    spec.node_id = Some(wanted.into());
    let number = usize::try_from(spec.number_of_replicas.unwrap_or(3)).unwrap_or(0);
    let well = replicas.values().filter(|health| **health == Health::Well).count();
    let status = after.status.get_or_insert_default();
    status.state = Some(
        match (wanted.is_empty(), served) {
            (true, _) => states::DETACHED,
            (false, true) => states::ATTACHED,
            (false, false) => states::ATTACHING,
        }
        .into(),
    );
    status.current_node_id = Some(if served { wanted.into() } else { String::new() });
    status.robustness = Some(
        match (served, well) {
            (false, _) => robustness::UNKNOWN,
            (true, 0) => robustness::FAULTED,
            (true, well) if well < number => robustness::DEGRADED,
            (true, _) => robustness::HEALTHY,
        }
        .into(),
    );
    Action::change(scene.volume, &after)
}
