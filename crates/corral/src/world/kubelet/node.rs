//! What a kubelet says of its machine in the Node's status.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::node::HOSTNAME;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::conditions::{self, READY};
use super::upgrade::Upgraded;
use super::{Machine, uuid};
use crate::world::annotations::{DOWN_UNTIL, INSTALLED_VERSION, Lasts, MISSING_IMAGES, NEVER, REBOOT_AGAIN};
use crate::world::events::Note;
use crate::world::outcome::{Action, Outcome, sooner};

const SHUTTING_DOWN: &str = "node is shutting down";

/// How long a machine is away the second time if nothing says how long it takes to boot.
const SECOND_REBOOT: Duration = Duration::from_secs(30);

/// Registers a new Node, and keeps `Ready`, bootID and the like true. What the Node's maker has set is kept.
pub fn post_status(node: &Node, default_version: &str, now: Timestamp) -> Outcome {
    let Some(machine) = Machine::of(node) else { return Outcome::nothing() };
    let away = machine.away_until(now).filter(|moment| *moment < Timestamp::MAX);
    if machine.silent && machine.away_until(now).is_some() {
        return Outcome { actions: Vec::new(), wake: away };
    }
    if let Some(labelled) = with_labels(node, &machine) {
        return Outcome::act(vec![Action::UpdateNode(Box::new(labelled))]);
    }
    if let Some(restarted) = restarted(node, &machine, now) {
        return Outcome::act(vec![Action::NodeStatus(Box::new(restarted))]);
    }
    let second = second_reboot(&machine, now);
    if let Some((_, until)) = second.filter(|(from, _)| *from <= now) {
        return Outcome::act(vec![Action::UpdateNode(Box::new(gone_again(node, until)))]);
    }
    let mut status = node.status.clone().unwrap_or_default();
    let booted_before = status.node_info.as_ref().map(|info| info.boot_id.clone()).filter(|boot| !boot.is_empty());
    describe(&mut status, &machine, default_version, now);
    if machine.away_until(now).is_some() {
        conditions::set(&mut status, READY, false, "KubeletNotReady", SHUTTING_DOWN, now);
    } else {
        for (kind, reason, message) in NO_PRESSURE {
            // A machine with a disk says itself how that is.
            if kind != conditions::DISK_PRESSURE || !machine.has_disk || !conditions::is_known(&status, kind) {
                conditions::set(&mut status, kind, false, reason, message, now);
            }
        }
        conditions::set(&mut status, READY, true, "KubeletReady", "kubelet is posting ready status", now);
    }
    let wake = sooner(away, second.map(|(from, _)| from));
    if node.status.as_ref() == Some(&status) {
        return Outcome { actions: Vec::new(), wake };
    }
    let boot = status.node_info.as_ref().map(|info| info.boot_id.clone()).unwrap_or_default();
    let mut actions = vec![Action::NodeStatus(Box::new(Node { status: Some(status), ..node.clone() }))];
    if booted_before.is_some_and(|before| before != boot) {
        let sentence = format!("Node {} has been rebooted, boot id: {boot}", machine.name);
        let event = Note::warning("Rebooted", sentence).by("kubelet").on(&machine.name).about(node);
        actions.push(Action::Note(Box::new(event)));
    }
    Outcome { actions, wake }
}

/// From when to when a machine is away that goes down once more after it has been back for a while.
fn second_reboot(machine: &Machine, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let from = later(machine.booted(now)?, machine.reboot_again?);
    let lasts = match machine.reboot {
        Some(Lasts::For(time)) => time,
        _ => SECOND_REBOOT,
    };
    Some((from, later(from, lasts)))
}

/// The Node once its kubelet runs what was installed before: somebody has restarted it, or the machine is on its way through a boot.
fn restarted(node: &Node, machine: &Machine, now: Timestamp) -> Option<Node> {
    let version = machine.installed.clone().filter(|_| machine.restarts || machine.away_until(now).is_some())?;
    let mut node = node.clone();
    run(&mut node, version);
    Some(node)
}

fn run(node: &mut Node, version: String) {
    node.metadata.annotations.get_or_insert_default().remove(INSTALLED_VERSION);
    let system = node.status.get_or_insert_default().node_info.get_or_insert_default();
    system.kubelet_version = version;
    system.kube_proxy_version.clear();
}

fn gone_again(node: &Node, until: Timestamp) -> Node {
    let mut node = node.clone();
    let annotations = node.metadata.annotations.get_or_insert_default();
    annotations.remove(REBOOT_AGAIN);
    annotations.insert(DOWN_UNTIL.into(), until.to_string());
    node
}

/// The Node after an upgrade of its machine: another version, and if the machine reboots, on its way down.
pub fn upgraded(node: &Node, upgraded: &Upgraded, now: Timestamp) -> Node {
    let mut node = node.clone();
    let machine = Machine::of(&node);
    if machine.as_ref().is_none_or(|machine| !machine.keeps_version) {
        let restarts = machine.as_ref().is_none_or(|machine| machine.restarts) || upgraded.down_until.is_some();
        match upgraded.kubelet_version.clone() {
            Some(version) if restarts => run(&mut node, version),
            Some(version) => {
                node.metadata.annotations.get_or_insert_default().insert(INSTALLED_VERSION.into(), version);
            }
            None => {}
        }
        if let Some(image) = &upgraded.os_image {
            node.status.get_or_insert_default().node_info.get_or_insert_default().os_image.clone_from(image);
        }
    }
    if let Some(moment) = upgraded.down_until {
        if machine.is_none_or(|machine| !machine.silent) {
            let status = node.status.get_or_insert_default();
            conditions::set(status, READY, false, "KubeletNotReady", SHUTTING_DOWN, now);
        }
        let until = if moment == Timestamp::MAX { NEVER.into() } else { moment.to_string() };
        node.metadata.annotations.get_or_insert_default().insert(DOWN_UNTIL.into(), until);
    }
    if upgraded.loads_images {
        node.metadata.annotations.get_or_insert_default().remove(MISSING_IMAGES);
    }
    node
}

const NO_PRESSURE: [(&str, &str, &str); 3] = [
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    (conditions::DISK_PRESSURE, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
];

fn with_labels(node: &Node, machine: &Machine) -> Option<Node> {
    let known = node.metadata.labels.clone().unwrap_or_default();
    let mut labels = known.clone();
    for (key, value) in
        [(HOSTNAME, machine.name.as_str()), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")]
    {
        labels.entry(key.into()).or_insert_with(|| value.into());
    }
    (labels != known).then(|| {
        let mut node = node.clone();
        node.metadata.labels = Some(labels);
        node
    })
}

fn describe(status: &mut NodeStatus, machine: &Machine, default_version: &str, now: Timestamp) {
    let resources = || {
        BTreeMap::from(
            [("cpu", "8"), ("memory", "32Gi"), ("ephemeral-storage", "200Gi"), ("pods", "110")]
                .map(|(name, amount)| (name.to_string(), Quantity(amount.into()))),
        )
    };
    status.capacity.get_or_insert_with(resources);
    status.allocatable.get_or_insert_with(resources);
    status.addresses.get_or_insert_with(|| {
        vec![
            NodeAddress { type_: "InternalIP".into(), address: machine.address.clone() },
            NodeAddress { type_: "Hostname".into(), address: machine.name.clone() },
        ]
    });
    let endpoint = Some(DaemonEndpoint { port: 10250 });
    status.daemon_endpoints.get_or_insert(NodeDaemonEndpoints { kubelet_endpoint: endpoint });
    identify(status.node_info.get_or_insert_default(), machine, default_version, now);
}

fn identify(system: &mut NodeSystemInfo, machine: &Machine, default_version: &str, now: Timestamp) {
    let missing = |field: &mut String, value: &dyn Fn() -> String| {
        if field.is_empty() {
            *field = value();
        }
    };
    missing(&mut system.kubelet_version, &|| default_version.into());
    missing(&mut system.machine_id, &|| uuid(&[&machine.uid, "machine"]).replace('-', ""));
    missing(&mut system.system_uuid, &|| uuid(&[&machine.uid, "system"]));
    missing(&mut system.operating_system, &|| "linux".into());
    missing(&mut system.architecture, &|| "amd64".into());
    missing(&mut system.os_image, &|| "Simulated Linux".into());
    missing(&mut system.kernel_version, &|| "6.12.0".into());
    missing(&mut system.container_runtime_version, &|| "containerd://2.1.4".into());
    missing(&mut system.boot_id, &|| uuid(&[&machine.uid, "boot"]));
    if let Some(boot) = machine.booted(now) {
        system.boot_id = uuid(&[&machine.uid, "boot", &boot.to_string()]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::world::annotations::{KEEPS_VERSION, KUBELET, KUBELET_RESTART, SHUTDOWN, SILENT, SIMULATED};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn simulated(name: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": {KUBELET: SIMULATED}},
        }))
        .unwrap()
    }

    /// Does what the kubelet wants until it is content.
    fn settled(mut node: Node, now: Timestamp) -> (Node, Option<Timestamp>) {
        loop {
            let outcome = post_status(&node, "v1.33.5", now);
            match outcome.actions.into_iter().next() {
                Some(Action::UpdateNode(next) | Action::NodeStatus(next)) => node = *next,
                Some(Action::Note(_)) => {}
                Some(other) => panic!("a kubelet posts its Node only, not {other:?}"),
                None => return (node, outcome.wake),
            }
        }
    }

    fn to(version: &str, down_until: Option<Timestamp>) -> Upgraded {
        Upgraded { kubelet_version: Some(version.into()), os_image: None, loads_images: false, down_until }
    }

    fn ready(node: &Node) -> (String, String) {
        let conditions = node.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let ready = conditions.iter().find(|condition| condition.type_ == READY).unwrap();
        (ready.status.clone(), ready.message.clone().unwrap())
    }

    fn system(node: &Node) -> &NodeSystemInfo {
        node.status.as_ref().unwrap().node_info.as_ref().unwrap()
    }

    #[test]
    fn a_new_node_becomes_ready_with_labels_addresses_and_a_version() {
        let (node, wake) = settled(simulated("n1"), at(0));

        assert_eq!(node.metadata.labels.as_ref().unwrap()[HOSTNAME], "n1");
        assert_eq!(ready(&node), ("True".into(), "kubelet is posting ready status".into()));
        assert_eq!(system(&node).kubelet_version, "v1.33.5");
        assert!(!system(&node).boot_id.is_empty());
        assert_eq!(node.status.as_ref().unwrap().addresses.as_ref().unwrap()[1].address, "n1");
        assert_eq!(wake, None);
    }

    #[test]
    fn what_the_maker_of_a_node_has_set_is_kept() {
        let mut node = simulated("n1");
        node.metadata.labels = Some(BTreeMap::from([(HOSTNAME.to_string(), "other".to_string())]));
        node.status = serde_json::from_value(json!({"nodeInfo": {
            "architecture": "arm64", "bootID": "b", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "kubeletVersion": "v1.30.1+k3s1", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
        }}))
        .unwrap();

        let (node, _) = settled(node, at(0));

        assert_eq!(node.metadata.labels.as_ref().unwrap()[HOSTNAME], "other");
        assert_eq!(system(&node).kubelet_version, "v1.30.1+k3s1");
        assert_eq!((system(&node).architecture.as_str(), system(&node).boot_id.as_str()), ("arm64", "b"));
    }

    #[test]
    fn a_node_without_the_annotation_is_left_alone() {
        let mut node = simulated("n1");
        node.metadata.annotations = None;

        assert_eq!(post_status(&node, "v1.33.5", at(0)), Outcome::nothing());
    }

    #[test]
    fn a_rebooting_machine_is_not_ready_and_comes_back_with_another_boot_id() {
        let (before, _) = settled(simulated("n1"), at(0));
        let (down, wake) = settled(upgraded(&before, &to("v1.34.4", Some(at(30))), at(10)), at(10));

        assert_eq!(ready(&down), ("False".into(), "node is shutting down".into()));
        assert_eq!(system(&down).kubelet_version, "v1.34.4");
        assert_eq!(system(&down).boot_id, system(&before).boot_id);
        assert_eq!(wake, Some(at(30)));

        let (back, wake) = settled(down, at(30));
        assert_eq!(ready(&back).0, "True");
        assert_ne!(system(&back).boot_id, system(&before).boot_id);
        assert_eq!(wake, None);
        assert_eq!(settled(back.clone(), at(31)).0, back, "it boots once");
    }

    #[test]
    fn a_machine_may_never_come_back() {
        let (before, _) = settled(simulated("n1"), at(0));
        let (down, wake) = settled(upgraded(&before, &to("v1.34.4", Some(Timestamp::MAX)), at(10)), at(10));

        assert_eq!(down.metadata.annotations.as_ref().unwrap()[DOWN_UNTIL], NEVER);
        assert_eq!((ready(&down).0.as_str(), wake), ("False", None));
    }

    #[test]
    fn a_machine_may_come_back_with_the_version_that_it_had() {
        let mut stubborn = simulated("n1");
        stubborn.metadata.annotations.as_mut().unwrap().insert(KEEPS_VERSION.into(), "true".into());
        let (before, _) = settled(stubborn, at(0));

        assert_eq!(system(&upgraded(&before, &to("v1.34.4", None), at(10))).kubelet_version, "v1.33.5");
    }

    #[test]
    fn a_kubelet_that_nobody_restarts_runs_its_old_version_until_somebody_does_or_the_machine_boots() {
        let mut stuck = simulated("n1");
        stuck.metadata.annotations.as_mut().unwrap().insert(KUBELET_RESTART.into(), NEVER.into());
        let (before, _) = settled(stuck, at(0));
        let (installed, _) = settled(upgraded(&before, &to("v1.34.4", None), at(10)), at(10));
        assert_eq!(system(&installed).kubelet_version, "v1.33.5");

        let mut mended = installed.clone();
        mended.metadata.annotations.as_mut().unwrap().remove(KUBELET_RESTART);
        let (mended, _) = settled(mended, at(20));
        assert_eq!(system(&mended).kubelet_version, "v1.34.4");
        assert!(!mended.metadata.annotations.unwrap().contains_key(INSTALLED_VERSION));

        let mut booted = installed;
        booted.metadata.annotations.as_mut().unwrap().insert(DOWN_UNTIL.into(), at(50).to_string());
        let (booted, _) = settled(settled(booted, at(20)).0, at(50));
        assert_eq!(system(&booted).kubelet_version, "v1.34.4");
    }

    #[test]
    fn a_machine_may_reboot_twice() {
        let mut nervous = simulated("n1");
        nervous.metadata.annotations.as_mut().unwrap().insert(REBOOT_AGAIN.into(), "5s".into());
        let (before, _) = settled(nervous, at(0));
        let (down, _) = settled(upgraded(&before, &to("v1.34.4", Some(at(30))), at(10)), at(10));
        let (back, wake) = settled(down, at(30));
        assert_eq!((ready(&back).0.as_str(), wake), ("True", Some(at(35))));

        let (down, wake) = settled(back.clone(), at(35));
        assert_eq!((ready(&down).0.as_str(), wake), ("False", Some(at(65))));
        let (again, wake) = settled(down, at(65));
        assert_eq!((ready(&again).0.as_str(), wake), ("True", None));
        assert_ne!(system(&again).boot_id, system(&back).boot_id);
    }

    #[test]
    fn a_silent_machine_goes_without_a_word() {
        let mut silent = simulated("n1");
        silent.metadata.annotations.as_mut().unwrap().insert(SHUTDOWN.into(), SILENT.into());
        let (before, _) = settled(silent, at(0));

        let (down, wake) = settled(upgraded(&before, &to("v1.34.4", Some(at(30))), at(10)), at(10));

        assert_eq!((ready(&down).0.as_str(), wake), ("True", Some(at(30))));
        assert_ne!(system(&settled(down, at(30)).0).boot_id, system(&before).boot_id);
    }
}
