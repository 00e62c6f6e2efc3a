//! What happens on one node before it is drained and after Kubernetes was raised there.

use std::collections::BTreeSet;

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::node::{DRAIN_TAINT, DRAINING};
use drover_api::kubevirt::virtual_machine_instance_migration::EVACUATION;
use drover_api::rancher::provisioning_cluster::LOCAL;
use serde_json::{Value, json};

use super::super::cleanup::taints_without_drain;
use super::super::release::is_kubelet_version;
use super::super::{etcd, kubelet};
use super::{HostDeed, Next, Scene, vms, volumes};
use crate::cluster::Node;
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait, Write};

/// Empties the node of VMs, without stopping one that can move, and of volumes that nobody uses.
pub(super) fn pre_drain(scene: &Scene<'_>) -> Next {
    let Some(node) = node(scene) else { return gone(scene) };
    if !scene.done.host.contains(&HostDeed::RecoverAgent) {
        return Next::Host(HostDeed::RecoverAgent);
    }
    let tainted = is_tainted(node);
    // Once VMs are on their way, volumes are rebuilt because of that.
    if !tainted && let Some(wait) = volumes::unhealthy(scene) {
        return wait;
    }
    if let Some(next) = vms::stop_those_that_stay(scene) {
        return next;
    }
    let leaving = leaving(scene);
    if !tainted {
        return Next::Wait { writes: vec![taint(node)], waits: leaving.into_iter().collect() };
    }
    if let Some(wait) = leaving {
        return Next::Wait { writes: Vec::new(), waits: vec![wait] };
    }
    // Another node may have been away while VMs moved.
    volumes::detach_unused(scene).or_else(|| volumes::last_here(scene)).unwrap_or(Next::Done)
}

/// VMs that the taint sends away. One is on its way until its migration is over, wherever it runs by then.
fn leaving(scene: &Scene<'_>) -> Option<Wait> {
    let under_way = scene.cluster.kubevirt.migrations.iter().filter(|migration| {
        !migration.is_over() && migration.metadata.annotations.get(EVACUATION) == Some(&scene.order.node)
    });
    let moving = under_way.map(|migration| format!("{}/{}", migration.metadata.namespace, migration.spec.vmi_name));
    let left: BTreeSet<String> = vms::on_node(scene).map(vms::path).chain(moving).collect();
    let (namespace, name) = left.first()?.split_once('/').unwrap_or_default();
    let names: Vec<&str> = left.iter().map(String::as_str).collect();
    let sentence = format!("VMs are on their way from {}: {}", scene.order.node, names.join(", "));
    let remedy = format!("if one does not get on: virtctl -n {namespace} migrate {name}, or stop it");
    let wait = Wait::new(Subject::node(&scene.order.node), Reason::VmsLeaving, sentence, scene.now);
    Some(wait.with_remedy(remedy))
}

pub(super) fn post_drain(scene: &Scene<'_>) -> Next {
    let Some(node) = node(scene) else { return gone(scene) };
    // What Rancher says of its plan does not prove that RKE2 was restarted.
    if let Some(wait) = kubelet::outdated(node, &scene.release.kubernetes, None, scene.now) {
        return Next::Wait { writes: Vec::new(), waits: vec![wait] };
    }
    if is_tainted(node) {
        let version = node.metadata.resource_version.to_string();
        let patch = json!({
            "metadata": { "resourceVersion": version }, "spec": { "taints": taints_without_drain(node) },
        });
        return scene.write(Subject::node(&scene.order.node), Act::Patch(patch));
    }
    install(scene, node)
}

/// The only node: its VMs are stopped, and Kubernetes is raised under them.
pub(super) fn single(scene: &Scene<'_>) -> Next {
    let Some(node) = node(scene) else { return gone(scene) };
    if !scene.done.host.contains(&HostDeed::RecoverAgent) {
        return Next::Host(HostDeed::RecoverAgent);
    }
    if let Some(next) = vms::stop_those_that_stay(scene) {
        return next;
    }
    // They can go to one that has joined. The taint stays until all is over: none comes back before.
    if let Some(wait) = leaving(scene) {
        let writes = if is_tainted(node) { Vec::new() } else { vec![taint(node)] };
        return Next::Wait { writes, waits: vec![wait] };
    }
    let wanted = &scene.release.kubernetes;
    if let Some(cluster) = scene.cluster.harvester.clusters.get(FLEET_NAMESPACE, LOCAL)
        && cluster.spec.kubernetes_version != *wanted
    {
        let version = cluster.metadata.resource_version.to_string();
        let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "kubernetesVersion": wanted } });
        return scene.write(Subject::new(Kind::Cluster, FLEET_NAMESPACE, LOCAL), Act::Patch(patch));
    }
    if let Some(wait) = old_kubelet(scene, node) {
        return wait;
    }
    install(scene, node)
}

/// The machine boots its new system as soon as the step has ended: whoever was well when it began may be out by now, and while that is
/// installed, too.
fn install(scene: &Scene<'_>, node: &Node) -> Next {
    let deed = HostDeed::InstallSystem { os: scene.release.os.clone() };
    if node.status.node_info.os_image == scene.release.os {
        return Next::Done;
    }
    if let Some(wait) = etcd::risk(scene.cluster, scene.upgrade, &scene.voters, &scene.order.node, scene.now) {
        return Next::Wait { writes: Vec::new(), waits: vec![wait] };
    }
    if scene.done.host.contains(&deed) { Next::Done } else { Next::Host(deed) }
}

fn node<'a>(scene: &Scene<'a>) -> Option<&'a Node> {
    scene.cluster.nodes.named(&scene.order.node)
}

fn gone(scene: &Scene<'_>) -> Next {
    Next::Fail(format!("there is no Node {}", scene.order.node))
}

fn is_tainted(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == DRAIN_TAINT)
}

/// Sends VMs away from the node.
fn taint(node: &Node) -> Write {
    let mut taints: Vec<Value> = node.spec.taints.iter().map(|taint| json!(taint)).collect();
    taints.push(json!({ "key": DRAIN_TAINT, "value": DRAINING, "effect": "NoSchedule" }));
    let version = node.metadata.resource_version.to_string();
    let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } });
    Write { purpose: Purpose::Step, subject: Subject::node(&node.metadata.name), act: Act::Patch(patch) }
}

/// Nobody asks before Kubernetes is raised on the only node: that takes its time.
fn old_kubelet(scene: &Scene<'_>, node: &Node) -> Option<Next> {
    let (runs, wanted) = (&node.status.node_info.kubelet_version, &scene.release.kubernetes);
    if is_kubelet_version(runs, wanted) {
        return None;
    }
    let name = &scene.order.node;
    let sentence = format!("the kubelet of {name} runs {runs}, not {wanted} yet");
    let remedy = format!("on {name}: journalctl -u rke2-server -u rke2-agent -u rancher-system-agent");
    Some(scene.wait_on_node(Reason::PlannerWorks, sentence, Some(remedy)))
}

#[cfg(test)]
mod tests {
    use drover_api::harvester::node::MANAGED;

    use super::super::{Done, Kind as StepKind, Order, next};
    use super::*;
    use crate::cluster::Cluster;

    fn take(cluster: &mut Cluster, object: Value) {
        cluster.take(object.to_string().as_bytes());
    }

    /// Three nodes, and a volume with a replica on each, in these modes.
    fn with_replicas(modes: [&str; 3]) -> Cluster {
        let mut cluster = Cluster::default();
        let progress = json!({ "release": { "os": "new", "kubernetes": "v1.34.1+rke2r1" } }).to_string();
        take(
            &mut cluster,
            json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
                "metadata": { "name": "u", "namespace": "harvester-system", "annotations": { "drover.dev/progress": progress } },
            }),
        );
        let meta = |name: &str| json!({ "name": name, "namespace": "longhorn-system" });
        let mut map = json!({});
        for (at, mode) in modes.iter().enumerate() {
            let node = format!("node-{}", at + 1);
            let labels = json!({ MANAGED: "true" });
            take(
                &mut cluster,
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node, "labels": labels } }),
            );
            let replica = format!("r-{}", at + 1);
            map[&replica] = json!(mode);
            take(
                &mut cluster,
                json!({
                    "apiVersion": "longhorn.io/v1beta2", "kind": "Replica", "metadata": meta(&replica), "spec": { "nodeID": node },
                }),
            );
        }
        take(
            &mut cluster,
            json!({
                "apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": meta("v"), "spec": { "numberOfReplicas": 3 },
            }),
        );
        take(
            &mut cluster,
            json!({
                "apiVersion": "longhorn.io/v1beta2", "kind": "Engine", "metadata": meta("v-e"),
                "spec": { "volumeName": "v" }, "status": { "currentState": "running", "replicaModeMap": map },
            }),
        );
        cluster
    }

    fn pre_drain_of_node_1(cluster: &Cluster) -> Next {
        let order = Order { kind: StepKind::PreDrain, upgrade: "u".into(), node: "node-1".into() };
        next(cluster, &order, &Done::to_host([HostDeed::RecoverAgent]), "2026-01-01T12:00:00Z".parse().unwrap())
    }

    fn is_tainted_next(next: &Next) -> bool {
        matches!(next, Next::Wait { writes, .. } if writes.iter().any(|write| write.subject == Subject::node("node-1")))
    }

    #[test]
    fn a_node_waits_until_volumes_are_sound_on_the_others() {
        let Next::Wait { writes, waits } = pre_drain_of_node_1(&with_replicas(["RW", "WO", "RW"])) else { panic!() };
        assert_eq!((writes.len(), waits[0].reason), (0, Reason::VolumeUnhealthy));
        assert!(is_tainted_next(&pre_drain_of_node_1(&with_replicas(["RW", "RW", "RW"]))));
    }

    #[test]
    fn a_replica_that_the_node_itself_has_lost_does_not_hold_it() {
        assert!(is_tainted_next(&pre_drain_of_node_1(&with_replicas(["ERR", "RW", "RW"]))));
    }

    #[test]
    fn a_node_from_which_vms_have_moved_stays_while_it_has_the_last_sound_replica_of_a_volume() {
        let emptied = |modes: [&str; 3]| {
            let mut cluster = with_replicas(modes);
            let taints = json!([{ "key": DRAIN_TAINT, "value": DRAINING, "effect": "NoSchedule" }]);
            let metadata = json!({ "name": "node-1", "labels": { MANAGED: "true" } });
            let node =
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": { "taints": taints } });
            take(&mut cluster, node);
            pre_drain_of_node_1(&cluster)
        };
        let Next::Wait { writes, waits } = emptied(["RW", "ERR", "WO"]) else { panic!() };
        assert_eq!((writes.len(), waits[0].reason), (0, Reason::VolumeUnhealthy));
        assert_eq!(emptied(["RW", "RW", "WO"]), Next::Done);
    }

    #[test]
    fn a_step_begins_with_what_the_host_has_to_do() {
        let order = Order { kind: StepKind::PreDrain, upgrade: "u".into(), node: "node-1".into() };
        let first = next(&with_replicas(["RW"; 3]), &order, &Done::default(), "2026-01-01T12:00:00Z".parse().unwrap());
        assert_eq!(first, Next::Host(HostDeed::RecoverAgent));
    }

    #[test]
    fn after_the_drain_the_kubelet_is_waited_for_and_the_system_comes_last() {
        let mut cluster = with_replicas(["RW"; 3]);
        let order = Order { kind: StepKind::PostDrain, upgrade: "u".into(), node: "node-1".into() };
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let said = next(&cluster, &order, &Done::default(), now);
        assert!(matches!(said, Next::Wait { waits, .. } if waits[0].reason == Reason::KubeletOutdated));

        let info = json!({ "kubeletVersion": "v1.34.1+rke2r1", "osImage": "old" });
        take(
            &mut cluster,
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1" }, "status": { "nodeInfo": info } }),
        );
        let install = HostDeed::InstallSystem { os: "new".into() };
        assert_eq!(next(&cluster, &order, &Done::default(), now), Next::Host(install.clone()));
        assert_eq!(next(&cluster, &order, &Done::to_host([install]), now), Next::Done);
    }

    const TWO: [bool; 2] = [true; 2];

    /// Servers that are well or not, the first of them at the end of its step; `done` is what was done to it.
    fn end_of(kind: StepKind, well: &[bool], accepted: &str, done: &Done) -> Next {
        let mut cluster = Cluster::default();
        let progress = json!({ "release": { "os": "new", "kubernetes": "v1.34.1+rke2r1" } }).to_string();
        let annotations = json!({ "drover.dev/progress": progress, "drover.dev/accept": accepted });
        let metadata = json!({ "name": "u", "namespace": "harvester-system", "annotations": annotations });
        take(&mut cluster, json!({ "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": metadata }));
        for (at, well) in well.iter().enumerate() {
            let status = json!({
                "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1", "osImage": "old" },
                "conditions": [
                    { "type": "Ready", "status": if *well { "True" } else { "Unknown" } },
                    { "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" },
                ],
            });
            let metadata = json!({ "name": format!("node-{}", at + 1) });
            take(&mut cluster, json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status }));
        }
        let order = Order { kind, upgrade: "u".into(), node: "node-1".into() };
        next(&cluster, &order, done, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    fn is_at_risk(next: &Next) -> bool {
        matches!(next, Next::Wait { writes, waits } if writes.is_empty() && waits[0].reason == Reason::QuorumAtRisk)
    }

    #[test]
    fn a_voter_boots_its_new_system_only_while_the_others_are_well() {
        let install = HostDeed::InstallSystem { os: "new".into() };
        let installed = Done::to_host([HostDeed::RecoverAgent, install.clone()]);
        let before = Done::to_host([HostDeed::RecoverAgent]);
        for kind in [StepKind::PostDrain, StepKind::SingleNode] {
            let end = |well: &[bool], accepted: &str, done: &Done| end_of(kind, well, accepted, done);
            assert_eq!(end(&[true; 3], "", &before), Next::Host(install.clone()));
            assert!(is_at_risk(&end(&[true, true, false], "", &before)));
            // The machine boots as soon as the step has ended.
            assert!(is_at_risk(&end(&[true, true, false], "", &installed)));
            assert_eq!(end(&[true; 3], "", &installed), Next::Done);
            assert!(is_at_risk(&end(&TWO, "", &installed)));
            assert_eq!(end(&TWO, "DRV-ETCD-001", &installed), Next::Done);
            assert_eq!(end(&[true], "", &installed), Next::Done, "the only one");
        }
    }
}
