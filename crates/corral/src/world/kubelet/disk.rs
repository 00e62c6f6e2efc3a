//! The disk of a machine: which images lie on it, when they are collected, and who has to go when it runs full.
//!
//! Models `pkg/kubelet/images/image_gc_manager.go` and `pkg/kubelet/eviction` of Kubernetes 1.34 with their defaults, on
//! one file system for everything. The original collects the images first that were used longest ago; no object says
//! when that was, so here the largest go first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerImage, Node, NodeStatus, Pod, PodSpec};

use super::conditions::{self, DISK_PRESSURE};
use super::{Machine, digest};
use crate::world::annotations::{self, DISK, DISK_USED, IMAGE_SIZE};
use crate::world::events::Note;
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

/// Images are collected when more than this share of the disk is used, down to the lower one.
const HIGH_PERCENT: i64 = 85;
const LOW_PERCENT: i64 = 80;
/// Below this share of free space a machine is under pressure (`imagefs.available<15%`).
const PRESSURE_PERCENT: i64 = 15;
/// How often a machine under pressure looks for somebody who has to go.
const HOUSEKEEPING: Duration = Duration::from_secs(10);
/// Pressure lasts for at least this long after it was seen last.
const TRANSITION: Duration = Duration::from_secs(300);
/// Pods with this priority stay.
const CRITICAL: i32 = 2_000_000_000;
const MIB: i64 = 1 << 20;

/// Keeps the list of images true, collects what is not used, and evicts a pod where that does not help.
pub fn keep_house(node: &Node, pods: &[Pod], now: Timestamp) -> Outcome {
    let Some(machine) = Machine::of(node).filter(|machine| machine.away_until(now).is_none()) else {
        return Outcome::nothing();
    };
    let said = node.metadata.annotations.as_ref();
    let Some(capacity) = annotations::bytes(said, DISK, "").filter(|capacity| *capacity > 0) else {
        return Outcome::nothing();
    };
    let mut status = node.status.clone().unwrap_or_default();
    let others = annotations::bytes(said, DISK_USED, "").unwrap_or(0);
    let mut disk =
        Disk { capacity, others: others + pods.iter().filter_map(used_by).sum::<i64>(), images: listed(&status) };
    disk.pull(pods);
    let mut actions = Vec::new();
    if let Some(failure) = disk.collect(pods) {
        actions.push(Action::Note(Box::new(failure.by("kubelet").on(&machine.name).about(node))));
    }
    status.images = Some(disk.list()).filter(|images| !images.is_empty() || status.images.is_some());

    let wake = if disk.is_short() {
        conditions::report(
            &mut status,
            DISK_PRESSURE,
            true,
            "KubeletHasDiskPressure",
            "kubelet has disk pressure",
            now,
        );
        if !machine.disk_pressure {
            let sentence = "Attempting to reclaim ephemeral-storage";
            let event = Note::warning("EvictionThresholdMet", sentence).by("kubelet").on(&machine.name).about(node);
            actions.push(Action::Note(Box::new(event)));
        }
        actions.extend(
            pods.iter()
                .filter(|pod| may_be_evicted(pod))
                .min_by_key(|pod| rank(pod))
                .into_iter()
                .flat_map(|pod| evict(pod, &disk, &machine, now)),
        );
        Some(later(now, HOUSEKEEPING))
    } else {
        relax(&mut status, now)
    };
    if node.status.as_ref() != Some(&status) {
        actions.insert(0, Action::NodeStatus(Box::new(Node { status: Some(status), ..node.clone() })));
    }
    Outcome { actions, wake }
}

/// A pod that comes while the disk is short is not even admitted.
pub fn turn_away(pod: &Pod, now: Timestamp) -> Vec<Action> {
    vec![end(pod, "Pod was rejected: The node had condition: [DiskPressure]. ".into(), now)]
}

pub fn is_critical(spec: &PodSpec) -> bool {
    spec.priority.is_some_and(|priority| priority >= CRITICAL)
}

struct Disk {
    capacity: i64,
    /// What is used beside images.
    others: i64,
    images: BTreeMap<String, i64>,
}

impl Disk {
    fn used(&self) -> i64 {
        self.others + self.images.values().sum::<i64>()
    }

    fn free(&self) -> i64 {
        (self.capacity - self.used()).max(0)
    }

    fn is_short(&self) -> bool {
        self.free() < self.capacity / 100 * PRESSURE_PERCENT
    }

    /// The images of containers that have been started are there.
    fn pull(&mut self, pods: &[Pod]) {
        for pod in pods {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            for container in statuses.into_iter().flatten().filter(|container| container.container_id.is_some()) {
                let said = pod.metadata.annotations.as_ref();
                let size =
                    || annotations::bytes(said, IMAGE_SIZE, &container.name).unwrap_or_else(|| usual(&container.image));
                self.images.entry(container.image.clone()).or_insert_with(size);
            }
        }
    }

    /// Deletes images that no pod uses, if the disk is full enough; what could not be done is answered.
    fn collect(&mut self, pods: &[Pod]) -> Option<Note> {
        if self.used() < self.capacity / 100 * HIGH_PERCENT {
            return None;
        }
        let wanted = self.used() - self.capacity / 100 * LOW_PERCENT;
        let in_use: BTreeSet<&str> = pods.iter().filter(|pod| !pods::has_ended(pod)).flat_map(images_of).collect();
        let unused = self.images.iter().filter(|(name, _)| !in_use.contains(name.as_str()));
        let mut unused: Vec<(i64, String)> = unused.map(|(name, size)| (-size, name.clone())).collect();
        unused.sort();
        let mut freed = 0;
        for (size, name) in unused {
            if freed >= wanted {
                return None;
            }
            self.images.remove(&name);
            freed -= size;
        }
        (freed < wanted).then(|| {
            let sentence = format!(
                "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found {freed} bytes eligible to free."
            );
            Note::warning("FreeDiskSpaceFailed", sentence)
        })
    }

    /// As kubelets list them: the largest first.
    fn list(&self) -> Vec<ContainerImage> {
        let mut images: Vec<(&String, &i64)> = self.images.iter().collect();
        images.sort_by_key(|(name, size)| (-**size, *name));
        images
            .into_iter()
            .map(|(name, size)| ContainerImage { names: Some(vec![name.clone()]), size_bytes: Some(*size) })
            .collect()
    }
}

/// Pressure ends when it has not been seen for a while; answers with that moment if it is to come.
fn relax(status: &mut NodeStatus, now: Timestamp) -> Option<Timestamp> {
    let pressed = conditions::find(status, DISK_PRESSURE).filter(|condition| condition.status == "True")?;
    let seen = pressed.last_heartbeat_time.as_ref().map_or(now, |time| time.0);
    let ends = later(seen, TRANSITION);
    if now < ends {
        return Some(ends);
    }
    conditions::set(status, DISK_PRESSURE, false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now);
    None
}

fn listed(status: &NodeStatus) -> BTreeMap<String, i64> {
    let images = status.images.iter().flatten();
    images.filter_map(|image| Some((image.names.as_ref()?.last()?.clone(), image.size_bytes.unwrap_or(0)))).collect()
}

fn used_by(pod: &Pod) -> Option<i64> {
    annotations::bytes(pod.metadata.annotations.as_ref(), DISK_USED, "").filter(|_| !pods::has_ended(pod))
}

fn images_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = pod.spec.as_ref();
    let all = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.filter_map(|container| container.image.as_deref())
}

/// The size of an image that nobody has said: the same for the same name.
fn usual(image: &str) -> i64 {
    let [first, second, ..] = digest(&["size", image]);
    (50 + i64::from(u16::from_be_bytes([first, second])) % 400) * MIB
}

fn may_be_evicted(pod: &Pod) -> bool {
    let critical = pod.spec.as_ref().is_some_and(is_critical);
    !critical && !pods::has_ended(pod) && !pods::is_leaving(pod)
}

/// The least important pod goes first, of those the one that uses most.
fn rank(pod: &Pod) -> (i32, i64, &str) {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    (priority, -used_by(pod).unwrap_or(0), pods::name(&pod.metadata))
}

fn evict(pod: &Pod, disk: &Disk, machine: &Machine, now: Timestamp) -> Vec<Action> {
    let message = format!(
        "The node was low on resource: ephemeral-storage. Threshold quantity: {}, available: {}Ki. ",
        disk.capacity / 100 * PRESSURE_PERCENT,
        disk.free() / 1024
    );
    let event = Note::warning("Evicted", message.clone()).by("kubelet").on(&machine.name).about(pod);
    vec![end(pod, message, now), Action::Note(Box::new(event))]
}

fn end(pod: &Pod, message: String, now: Timestamp) -> Action {
    let mut status = pod.status.clone().unwrap_or_default();
    status.phase = Some(pods::FAILED.into());
    status.reason = Some("Evicted".into());
    status.message = Some(message.clone());
    for container in status.container_statuses.iter_mut().flatten() {
        super::containers::stop(container, true, now);
    }
    let conditions = status.conditions.get_or_insert_default();
    pods::set_condition(conditions, "DisruptionTarget", true, Some("TerminationByKubelet"), Some(message), now);
    pods::set_condition(conditions, pods::READY, false, Some("PodFailed"), None, now);
    Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::annotations::{KUBELET, SIMULATED};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    /// A node with a disk of 100 GiB and images of these sizes in GiB.
    fn node(used: i64, images: &[(&str, i64)]) -> Node {
        let images: Vec<Value> =
            images.iter().map(|(name, size)| json!({"names": [name], "sizeBytes": size << 30})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "n1", "uid": "u", "annotations": {
                KUBELET: SIMULATED, DISK: "100Gi", DISK_USED: format!("{used}Gi"),
            }},
            "status": {"images": images, "conditions": [{"type": "DiskPressure", "status": "False"}]},
        }))
        .unwrap()
    }

    fn pod(name: &str, image: &str, priority: i32) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "annotations": {IMAGE_SIZE: "1Gi"}},
            "spec": {"priority": priority, "containers": [{"name": "c", "image": image}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "c", "image": image, "imageID": "i", "ready": true, "restartCount": 0, "containerID": "id"},
            ]},
        }))
        .unwrap()
    }

    fn after(outcome: &Outcome) -> Node {
        let found =
            outcome.actions.iter().find_map(|act| if let Action::NodeStatus(node) = act { Some(node) } else { None });
        (**found.expect("a new status of the node")).clone()
    }

    fn images(node: &Node) -> Vec<&str> {
        let images = node.status.as_ref().unwrap().images.iter().flatten();
        images.map(|image| image.names.as_ref().unwrap()[0].as_str()).collect()
    }

    fn reasons(outcome: &Outcome) -> Vec<&str> {
        outcome
            .actions
            .iter()
            .filter_map(|act| if let Action::Note(note) = act { Some(note.reason()) } else { None })
            .collect()
    }

    #[test]
    fn an_image_that_runs_is_listed() {
        let outcome = keep_house(&node(10, &[("old", 5)]), &[pod("a", "new", 0)], at(0));

        assert_eq!(images(&after(&outcome)), ["old", "new"]);
        assert_eq!(keep_house(&after(&outcome), &[pod("a", "new", 0)], at(1)), Outcome::nothing());
    }

    #[test]
    fn unused_images_are_collected_when_the_disk_is_nearly_full() {
        let full = node(70, &[("used", 10), ("large", 5), ("small", 1), ("tiny", 1)]);

        let outcome = keep_house(&full, &[pod("a", "used", 0)], at(0));

        assert_eq!(images(&after(&outcome)), ["used", "small", "tiny"][..1], "down to 80 % of the disk");
        assert!(!conditions::is_true(&after(&outcome), DISK_PRESSURE));
    }

    #[test]
    fn a_disk_that_stays_full_means_pressure_and_the_least_important_pod_has_to_go() {
        let pods = [pod("a", "used", 1000), pod("b", "used", 0), pod("c", "used", CRITICAL)];
        let outcome = keep_house(&node(88, &[("used", 1)]), &pods, at(0));

        assert!(conditions::is_true(&after(&outcome), DISK_PRESSURE));
        assert_eq!(reasons(&outcome), ["FreeDiskSpaceFailed", "EvictionThresholdMet", "Evicted"]);
        let gone: Vec<&str> = outcome
            .actions
            .iter()
            .filter_map(|act| if let Action::PodStatus(pod) = act { Some(pods::name(&pod.metadata)) } else { None })
            .collect();
        assert_eq!(gone, ["b"]);
        assert_eq!(outcome.wake, Some(at(10)));
    }

    #[test]
    fn pressure_ends_five_minutes_after_it_was_seen_last() {
        let mut pressed = after(&keep_house(&node(90, &[]), &[], at(0)));
        pressed.metadata.annotations.as_mut().unwrap().insert(DISK_USED.into(), "10Gi".into());

        assert_eq!(keep_house(&pressed, &[], at(60)), Outcome::wait_until(at(300)));
        assert!(!conditions::is_true(&after(&keep_house(&pressed, &[], at(300))), DISK_PRESSURE));
    }
}
