//! Nodes and the Machines that they are.

use drover_api::cluster_api::machine::{OF_NODE, phases};
use drover_api::harvester::upgrade::annotations;
use drover_api::harvester::{FLEET_NAMESPACE, node};
use drover_api::rancher::machine_plan::annotations as handshake;
use jiff::{SignedDuration, Timestamp};

use super::intent::{is_harvester, is_upgrading};
use super::upgrades::switch;
use super::{Check, Finding, Intent, Scope, Severity, path, some_of};
use crate::cluster::{Cluster, Lease, Node, ObjectRef, cluster_api, condition, looks};

/// What the images of a Harvester release take at most.
const NEW_IMAGES: u64 = 13 << 30;
/// When kubelets begin to delete images, unless they are told otherwise.
const GARBAGE_THRESHOLD: u64 = 85;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-NODE-001",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A node is not ready",
        consequence: "a node that does not answer can be neither drained nor upgraded; the upgrade waits for it without end.",
        remedy: "find out what its kubelet says, or remove the node",
        reads: &["Node"],
        look: not_ready,
    },
    Check {
        code: "DRV-NODE-002",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A node is cordoned",
        consequence: "with it and the node that is upgraded two are out at once; pods and replicas of volumes may find no place.",
        remedy: "uncordon the node, or accept the check if it is meant to stay out",
        reads: &["Node"],
        look: cordoned,
    },
    Check {
        code: "DRV-NODE-003",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A node lacks the label harvesterhci.io/managed",
        consequence: "the upgrade's Plans leave the node out, while its scripts count all nodes: it stays at \"Waiting for plan … to complete\" without end.",
        remedy: "find out why the node has no Machine; Rancher sets the label once it has one",
        reads: &["Node"],
        look: unmanaged,
    },
    Check {
        code: "DRV-NODE-004",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A Node has no Machine",
        consequence: "Rancher plans upgrades by Machines: the node is never upgraded, and the upgrade never ends.",
        remedy: "remove the node from the cluster and let it join again",
        reads: &["Node", "Machine"],
        look: node_without_machine,
    },
    Check {
        code: "DRV-NODE-005",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A Machine has no Node",
        consequence: "Rancher waits for that Machine before it goes on with others.",
        remedy: "delete the Machine if its node is gone for good",
        reads: &["Node", "Machine"],
        look: machine_without_node,
    },
    Check {
        code: "DRV-NODE-006",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "There are not as many Machines as Nodes",
        consequence: "the upgrade counts both, and never finds that all are done.",
        remedy: "look at DRV-NODE-004 and DRV-NODE-005 for which",
        reads: &["Node", "Machine"],
        look: count,
    },
    Check {
        code: "DRV-NODE-007",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A Machine is not running",
        consequence: "Rancher takes the cluster for unprovisioned and plans nothing.",
        remedy: "look at the conditions of the Machine",
        reads: &["Machine"],
        look: machine_not_running,
    },
    Check {
        code: "DRV-NODE-008",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "A node has a taint of something that did not end",
        consequence: "new pods stay away from the node, so that the pods of the next one may find no place.",
        remedy: "remove the taint once nothing needs it any more",
        reads: &["Node"],
        look: tainted,
    },
    Check {
        code: "DRV-NODE-009",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "An earlier upgrade left drain marks behind",
        consequence: "Rancher waits for an answer that nobody gives, or takes the node for one in drain: it is never upgraded.",
        remedy: "remove the annotations once no upgrade is under way",
        reads: &["Node", "Secret", "Upgrade"],
        look: stale_marks,
    },
    Check {
        code: "DRV-NODE-010",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A disk would be too full for the new images",
        consequence: "the kubelet deletes images that the upgrade has just brought, and pods on the node cannot start.",
        remedy: "make room on the node, for example by deleting images that nothing uses: crictl rmi --prune",
        reads: &["Node", "Kubelet"],
        look: disk,
    },
    Check {
        code: "DRV-NODE-011",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A node is short of disk, memory or processes",
        consequence: "the kubelet evicts pods and takes no new ones; what is moved there does not start.",
        remedy: "free what the node is short of",
        reads: &["Node"],
        look: pressure,
    },
    Check {
        code: "DRV-NODE-012",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "The clock of a node is off",
        consequence: "certificates that are made during the upgrade are not yet valid elsewhere, and etcd and leases misbehave.",
        remedy: "set up time synchronisation on the node: chronyc tracking",
        reads: &["Node", "Lease"],
        look: clock,
    },
    Check {
        code: "DRV-NODE-013",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A node does not tell its address",
        consequence: "Harvester refuses the Upgrade: it cannot ask the kubelet for its disk.",
        remedy: "restart RKE2 on the node, which writes the annotation",
        reads: &["Node"],
        look: no_address,
    },
];

fn not_ready(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let silent = intent.nodes(cluster).into_iter().filter(|node| !node.is_ready());
    let finding = |node: &Node| {
        let name = &node.metadata.name;
        let said = node.ready().map(|ready| ready.message.trim()).filter(|said| !said.is_empty());
        let why = said.map(|said| format!(": {said}")).unwrap_or_default();
        Finding::new(format!("node {name} is not ready, please wait for it to be ready{why}"))
            .on(node)
            .remedy(format!("kubectl describe node {name}"))
    };
    silent.map(finding).collect()
}

fn cordoned(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let cordoned = intent.nodes(cluster).into_iter().filter(|node| node.spec.unschedulable);
    // Drover's own claim cordons, too: what it holds it gives back.
    let cordoned = cordoned.filter(|node| !node.metadata.labels.contains_key(drover_api::marks::NODE_CLAIM));
    let finding = |node: &Node| {
        let name = &node.metadata.name;
        let finding = Finding::new(format!("node {name} is unschedulable, please wait for it to be schedulable"))
            .on(node)
            .remedy(format!("kubectl uncordon {name}"));
        if is_harvester(cluster) { finding } else { finding.only(Severity::Risks) }
    };
    cordoned.map(finding).collect()
}

fn unmanaged(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let is_bare = |node: &&Node| node.metadata.labels.get(node::MANAGED).is_none_or(|value| value != "true");
    let finding = |node: &Node| {
        let name = &node.metadata.name;
        let sentence = match node.metadata.labels.is_empty() {
            true => format!("node {name} has no labels"),
            false => format!("node {name} has no expected label {}", node::MANAGED),
        };
        Finding::new(sentence)
            .on(node)
            .remedy(format!("kubectl label node {name} {}=true, once it has a Machine (DRV-NODE-004)", node::MANAGED))
    };
    cluster.nodes.iter().filter(is_bare).map(finding).collect()
}

/// The Machines of the cluster that Harvester runs on.
fn machines(cluster: &Cluster) -> impl Iterator<Item = &cluster_api::Machine> {
    cluster.cluster_api.machines.in_namespace(FLEET_NAMESPACE)
}

fn node_without_machine(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |node: &Node| {
        let name = &node.metadata.name;
        let sentence = match node.metadata.annotations.get(OF_NODE) {
            // The misprint is what people search for.
            None if node.metadata.annotations.is_empty() => format!("node {name} has no nnnotations"),
            None => format!("node {name} has no expected annotation {OF_NODE}, check the cluster provision"),
            Some(machine) => match cluster.cluster_api.machines.get(FLEET_NAMESPACE, machine) {
                None => format!("node {name} refers to machine {machine}, but the machine does not exist"),
                Some(found) => match found.status.node_ref.name.as_str() {
                    other if other != name && !other.is_empty() => format!(
                        "node {name} refers to machine {machine}, but the machine refers to another node {other}"
                    ),
                    _ => return None,
                },
            },
        };
        Some(Finding::new(sentence).on(node).remedy(format!(
            "remove the node and let it join again: kubectl delete node {name}, after its VMs and volumes have left"
        )))
    };
    cluster.nodes.iter().filter_map(finding).collect()
}

fn machine_without_node(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |machine: &cluster_api::Machine| {
        let (name, node) = (&machine.metadata.name, &machine.status.node_ref.name);
        let sentence = match node.as_str() {
            "" => format!("machine {name} has empty NodeRef, check the cluster provision"),
            node if cluster.nodes.named(node).is_none() => {
                format!("machine {name} refers to node {node}, but the node does not exist")
            }
            _ => return None,
        };
        let remedy = format!(
            "if its node is gone for good: kubectl -n {FLEET_NAMESPACE} delete machine.cluster.x-k8s.io {name}"
        );
        Some(Finding::new(sentence).on(machine).remedy(remedy))
    };
    machines(cluster).filter_map(finding).collect()
}

fn count(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let (nodes, all) = (cluster.nodes.len(), machines(cluster).count());
    if nodes == 0 {
        return vec![Finding::new("no node was listed, this shall not happen")];
    }
    if nodes == all {
        return Vec::new();
    }
    let sentence = format!("nodes({nodes}) and machines({all}) do not match, check the cluster provision");
    let of_machines: Vec<&str> = machines(cluster).map(|machine| machine.status.node_ref.name.as_str()).collect();
    let alone = cluster.nodes.iter().filter(|node| !of_machines.contains(&node.metadata.name.as_str()));
    vec![Finding::new(sentence).about(alone.map(ObjectRef::of))]
}

fn machine_not_running(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let idle = machines(cluster).filter(|machine| !machine.status.phase.eq_ignore_ascii_case(phases::RUNNING));
    let finding = |machine: &cluster_api::Machine| {
        let phase = if machine.status.phase.is_empty() { "unknown" } else { &machine.status.phase };
        Finding::new(format!("machine {} is not running, but {phase}", path(machine)))
            .on(machine)
            .remedy(format!("kubectl -n {FLEET_NAMESPACE} describe machine.cluster.x-k8s.io {}", machine.metadata.name))
    };
    idle.map(finding).collect()
}

fn tainted(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    // Those that somebody puts on a node for a time; taints of roles and of users' own are meant to stay.
    const FOR_A_TIME: [&str; 4] = [
        node::DRAIN_TAINT,
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "node.cloudprovider.kubernetes.io/shutdown",
    ];
    let mut findings = Vec::new();
    for tainted in intent.nodes(cluster) {
        let name = &tainted.metadata.name;
        for taint in tainted.spec.taints.iter().filter(|taint| FOR_A_TIME.contains(&taint.key.as_str())) {
            let sentence = format!("node {name} has the taint {}", taint.in_words());
            let remedy = format!("kubectl taint node {name} {}-", taint.key);
            findings.push(Finding::new(sentence).on(tainted).remedy(remedy));
        }
    }
    findings
}

fn stale_marks(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    const MARKS: [&str; 5] = [
        handshake::DRAIN_OPTIONS,
        handshake::PRE_DRAIN,
        handshake::DRAIN_DONE,
        handshake::UNCORDON,
        handshake::POST_DRAIN,
    ];
    if is_upgrading(cluster, intent) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for secret in cluster.secrets.in_namespace(FLEET_NAMESPACE) {
        let is_there = |mark: &&str| secret.metadata.annotations.get(*mark).is_some_and(|value| !value.is_empty());
        let there: Vec<&str> = MARKS.into_iter().filter(is_there).collect();
        if !there.is_empty() {
            let removals: Vec<String> = there.iter().map(|mark| format!("{mark}-")).collect();
            let remedy =
                format!("kubectl -n {FLEET_NAMESPACE} annotate secret {} {}", secret.metadata.name, removals.join(" "));
            let sentence =
                format!("secret {} still carries {}, and no upgrade is under way", path(secret), there.join(", "));
            findings.push(Finding::new(sentence).on(secret).remedy(remedy));
        }
    }
    let waiting = |one: &&Node| one.metadata.annotations.contains_key(node::PENDING_OS_IMAGE);
    for marked in cluster.nodes.iter().filter(waiting) {
        let name = &marked.metadata.name;
        let sentence = format!("node {name} still carries {}, and no upgrade is under way", node::PENDING_OS_IMAGE);
        let remedy = format!("kubectl annotate node {name} {}-", node::PENDING_OS_IMAGE);
        findings.push(Finding::new(sentence).on(marked).remedy(remedy));
    }
    findings
}

fn skips_disks(intent: &Intent) -> bool {
    intent.annotation(annotations::SKIP_DISK_CHECK).and_then(switch) == Some(true)
}

fn disk(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let harvester = intent.concerns(Scope::Harvester, cluster);
    if harvester && skips_disks(intent) {
        return Vec::new();
    }
    let coming = if harvester { NEW_IMAGES } else { 0 };
    let concerned = intent.nodes(cluster);
    let finding = |kubelet: &looks::Kubelet| {
        let node = concerned.iter().find(|node| node.metadata.name == kubelet.metadata.name)?;
        let threshold = kubelet.image_garbage_threshold.unwrap_or(GARBAGE_THRESHOLD);
        // In hundredths of a percent, so that it is exact.
        let full = (kubelet.disk_used + coming).checked_mul(10_000)?.checked_div(kubelet.disk_capacity)?;
        (full > threshold * 100).then(|| {
            let (whole, hundredths) = (full / 100, full % 100);
            let will = if harvester { "will reach" } else { "has reached" };
            let when = if harvester { " after loading new images" } else { "" };
            Finding::new(format!(
                "Node \"{}\" {will} {whole}.{hundredths:02}% storage space{when}. It's higher than kubelet image garbage collection threshold {threshold}%.",
                kubelet.metadata.name
            ))
            .on(*node)
        })
    };
    cluster.looks.kubelets.iter().filter_map(finding).collect()
}

fn pressure(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let mut findings = Vec::new();
    for node in intent.nodes(cluster) {
        for (type_, lacks) in [("DiskPressure", "disk"), ("MemoryPressure", "memory"), ("PIDPressure", "process ids")] {
            let short = condition(&node.status.conditions, type_).filter(|condition| condition.is_true());
            if let Some(condition) = short {
                let name = &node.metadata.name;
                let sentence = format!("node {name} is short of {lacks}: {}", condition.message);
                findings.push(Finding::new(sentence).on(node).remedy(format!("kubectl describe node {name}")));
            }
        }
    }
    findings
}

/// Kubelets renew their Leases every 10 seconds by their own clocks: one that is far from the others has another time.
fn clock(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    const AHEAD: SignedDuration = SignedDuration::from_secs(15);
    const BEHIND: SignedDuration = SignedDuration::from_secs(45);
    let ready: Vec<&Node> = intent.nodes(cluster).into_iter().filter(|node| node.is_ready()).collect();
    let renewed = |node: &Node| -> Option<Timestamp> {
        let lease: &Lease = cluster.leases.get("kube-node-lease", &node.metadata.name)?;
        lease.spec.renew_time
    };
    let mut times: Vec<Timestamp> = ready.iter().filter_map(|node| renewed(node)).collect();
    times.sort();
    let usual = if times.len() < 3 { cluster.looked_at } else { times[times.len() / 2] };
    let finding = |node: &&Node| {
        let off = renewed(node)?.duration_since(usual);
        let name = &node.metadata.name;
        let sentence = match off {
            off if off > AHEAD => format!("the clock of node {name} is {} s ahead of the others", off.as_secs()),
            off if off < -BEHIND && times.len() >= 3 => format!(
                "the clock of node {name} is {} s behind the others, or its kubelet has fallen silent",
                -off.as_secs()
            ),
            _ => return None,
        };
        Some(Finding::new(sentence).on(*node))
    };
    ready.iter().filter_map(finding).collect()
}

fn no_address(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if skips_disks(intent) {
        return Vec::new();
    }
    let silent = cluster.nodes.iter().filter(|node| !node.metadata.annotations.contains_key(node::INTERNAL_IP));
    let finding = |node: &Node| {
        Finding::new(format!("node {} doesn't have {} annotation", node.metadata.name, node::INTERNAL_IP)).on(node)
    };
    silent.map(finding).collect()
}

/// Names of nodes, for sentences.
pub fn named<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    some_of(nodes.into_iter().map(|node| node.metadata.name.as_str()))
}
