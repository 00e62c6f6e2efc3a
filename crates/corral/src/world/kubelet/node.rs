//! What a kubelet says of its machine in the Node's status.

use std::collections::BTreeMap;

use drover_api::node::HOSTNAME;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Machine, uuid};
use crate::world::annotations::DOWN_UNTIL;
use crate::world::outcome::{Action, Outcome, stamp};

const READY: &str = "Ready";
const SHUTTING_DOWN: &str = "node is shutting down";

/// Registers a new Node, and keeps `Ready`, bootID and the like true. What the Node's maker has set is kept.
pub fn post_status(node: &Node, default_version: &str, now: Timestamp) -> Outcome {
    let Some(machine) = Machine::of(node) else { return Outcome::nothing() };
    if let Some(labelled) = with_labels(node, &machine) {
        return Outcome::act(vec![Action::UpdateNode(Box::new(labelled))]);
    }
    let mut status = node.status.clone().unwrap_or_default();
    describe(&mut status, &machine, default_version, now);
    let wake = machine.away_until(now);
    match wake {
        Some(_) => set_condition(&mut status, READY, false, "KubeletNotReady", SHUTTING_DOWN, now),
        None => {
            for (kind, reason, message) in NO_PRESSURE {
                set_condition(&mut status, kind, false, reason, message, now);
            }
            set_condition(&mut status, READY, true, "KubeletReady", "kubelet is posting ready status", now);
        }
    }
    if node.status.as_ref() == Some(&status) {
        return Outcome { actions: Vec::new(), wake };
    }
    Outcome { actions: vec![Action::NodeStatus(Box::new(Node { status: Some(status), ..node.clone() }))], wake }
}

/// The Node after an upgrade of its machine: another version, and if the machine reboots, on its way down.
pub fn upgraded(node: &Node, version: &str, down_until: Option<Timestamp>, now: Timestamp) -> Node {
    let mut node = node.clone();
    let status = node.status.get_or_insert_default();
    status.node_info.get_or_insert_default().kubelet_version = version.into();
    if let Some(moment) = down_until {
        set_condition(status, READY, false, "KubeletNotReady", SHUTTING_DOWN, now);
        node.metadata.annotations.get_or_insert_default().insert(DOWN_UNTIL.into(), moment.to_string());
    }
    node
}

const NO_PRESSURE: [(&str, &str, &str); 3] = [
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
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

fn set_condition(status: &mut NodeStatus, kind: &str, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let value = if is_true { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let at = conditions.iter().position(|condition| condition.type_ == kind);
    let before = at.and_then(|at| conditions.get(at));
    if before.is_some_and(|before| before.status == value && before.reason.as_deref() == Some(reason)) {
        return;
    }
    let since = before.filter(|before| before.status == value).and_then(|before| before.last_transition_time.clone());
    let after = NodeCondition {
        type_: kind.into(),
        status: value.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_heartbeat_time: Some(stamp(now)),
        last_transition_time: Some(since.unwrap_or_else(|| stamp(now))),
    };
    match at.and_then(|at| conditions.get_mut(at)) {
        Some(condition) => *condition = after,
        None => conditions.push(after),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::world::annotations::{KUBELET, SIMULATED};

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
                Some(other) => panic!("a kubelet posts its Node only, not {other:?}"),
                None => return (node, outcome.wake),
            }
        }
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
        let (down, wake) = settled(upgraded(&before, "v1.34.4", Some(at(30)), at(10)), at(10));

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
}
