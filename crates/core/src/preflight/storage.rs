//! Volumes that a node takes with it, and work on them that is under way.

use std::collections::BTreeSet;

use drover_api::harvester::node::WITNESS;
use drover_api::harvester::upgrade::annotations;
use drover_api::longhorn::volume::robustness;

use super::{Check, Finding, Intent, Scope, Severity, path, some_of};
use crate::cluster::longhorn::{Backup, Engine, RecurringJob, Volume};
use crate::cluster::{Cluster, ObjectRef};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-VOL-001",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A volume is degraded",
        consequence: "the node with its last sound copies may be the next to go, and Longhorn does not let it be drained.",
        remedy: "wait until the replicas are rebuilt, or lower the number of replicas if there are too few nodes",
        reads: &["Node", "Volume.longhorn.io"],
        look: degraded,
    },
    Check {
        code: "DRV-VOL-002",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A volume has lost its data",
        consequence: "what uses the volume is down already; an upgrade makes its rescue harder.",
        remedy: "salvage the volume, or delete it",
        reads: &["Volume.longhorn.io"],
        look: faulted,
    },
    Check {
        code: "DRV-VOL-003",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A volume has a single replica",
        consequence: "the volume is gone while its node is out; if the node does not come back, its data are lost.",
        remedy: "give the volume a second replica, or shut its workload down and skip detached ones (harvesterhci.io/skipSingleReplicaDetachedVol)",
        reads: &["Node", "Volume.longhorn.io"],
        look: single_replica,
    },
    Check {
        code: "DRV-VOL-004",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "A node holds the last sound replica of a volume",
        consequence: "Longhorn keeps the node from being drained, or the volume stops with it.",
        remedy: "wait until another replica is sound",
        reads: &["Node", "Volume.longhorn.io", "Replica.longhorn.io"],
        look: last_replica,
    },
    Check {
        code: "DRV-VOL-005",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "An engine is left of a volume that is gone, or runs beside the right one",
        consequence: "the budget of its instance manager is never lifted, and the node stays at \"Pre-drained\".",
        remedy: "delete the engine once its volume is gone or healthy elsewhere",
        reads: &["Volume.longhorn.io", "Engine.longhorn.io"],
        look: orphan_engine,
    },
    Check {
        code: "DRV-VOL-006",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A volume wants more replicas than there are nodes for them",
        consequence: "with a node out the volume never gets healthy, and the upgrade waits for that.",
        remedy: "lower the number of replicas",
        reads: &["Node", "Volume.longhorn.io", "Node.longhorn.io"],
        look: too_many_replicas,
    },
    Check {
        code: "DRV-VOL-007",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A backup is under way",
        consequence: "volumes that are being backed up cannot be detached, so that nodes are not emptied.",
        remedy: "wait until the backup is done",
        reads: &["VirtualMachineBackup", "Backup.longhorn.io"],
        look: backing_up,
    },
    Check {
        code: "DRV-VOL-008",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A schedule of backups or snapshots is active",
        consequence: "a backup that begins during the upgrade holds up the node that is drained.",
        remedy: "suspend the schedule for the time of the upgrade",
        reads: &["ScheduleVMBackup"],
        look: scheduled,
    },
    Check {
        code: "DRV-VOL-009",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "A recurring job works on volumes",
        consequence: "it can begin while a node is drained, and keep volumes attached.",
        remedy: "take the job away from its groups for the time of the upgrade",
        reads: &["RecurringJob.longhorn.io"],
        look: recurring,
    },
    Check {
        code: "DRV-VOL-010",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A volume is attached and nothing uses it",
        consequence: "nobody detaches it when its node is drained: the drain waits for it.",
        remedy: "detach the volume, or start what uses it",
        reads: &["Volume.longhorn.io"],
        look: unused,
    },
    Check {
        code: "DRV-VOL-011",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A replica is being rebuilt",
        consequence: "the volume has fewer sound replicas than it seems until that is done.",
        remedy: "wait until the replica is rebuilt",
        reads: &["Engine.longhorn.io"],
        look: rebuilding,
    },
];

fn volumes(cluster: &Cluster) -> impl Iterator<Item = &Volume> {
    cluster.longhorn.volumes.iter()
}

fn degraded(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    // With one or two nodes volumes are always degraded.
    if cluster.nodes.len() < 3 {
        return Vec::new();
    }
    let ill: Vec<&Volume> =
        volumes(cluster).filter(|volume| volume.status.robustness == robustness::DEGRADED).collect();
    let Some(first) = ill.first() else { return Vec::new() };
    let names: Vec<String> = ill.iter().map(|volume| volume.claim()).collect();
    let sentence = format!(
        "there are degraded volumes, please check all volumes are healthy: {}",
        some_of(names.iter().map(String::as_str))
    );
    let remedy =
        format!("kubectl -n {} describe volumes.longhorn.io {}", first.metadata.namespace, first.metadata.name);
    vec![Finding::new(sentence).about(ill.into_iter().map(ObjectRef::of)).remedy(remedy)]
}

fn faulted(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let lost = volumes(cluster).filter(|volume| volume.status.robustness == robustness::FAULTED);
    lost.map(|volume| Finding::new(format!("volume {} is faulted", volume.claim())).on(volume)).collect()
}

fn single_replica(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if cluster.nodes.len() < 2 {
        return Vec::new();
    }
    let only_active = intent.annotation(annotations::SKIP_SINGLE_REPLICA).is_some_and(|skip| !skip.is_empty());
    let is_active = |volume: &Volume| matches!(volume.status.state.as_str(), "creating" | "attached" | "attaching");
    let single = volumes(cluster).filter(|volume| volume.spec.number_of_replicas == 1);
    let single: Vec<&Volume> = single.filter(|volume| !only_active || is_active(volume)).collect();
    if single.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = single.iter().map(|volume| volume.claim()).collect();
    let words = match only_active {
        true => {
            "Following PVCs with active single-replica volume, please consider shutdown the corresponding workload before upgrade"
        }
        false => {
            "Following PVCs with single-replica volume, even the volume is detached, upgrade may have potential data integrity concerns"
        }
    };
    vec![Finding::new(format!("{words}: {}", names.join(", "))).about(single.into_iter().map(ObjectRef::of))]
}

fn last_replica(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let drained = super::workloads::drained(cluster, intent);
    let last = cluster.longhorn.last_replicas();
    // A volume that never had another replica is told by a check of its own.
    let several = volumes(cluster).filter(|volume| volume.is_attached() && volume.spec.number_of_replicas > 1);
    let finding = |volume: &Volume| match last.get(&(volume.metadata.namespace.as_str(), volume.metadata.name.as_str()))
    {
        Some(last) if drained.contains(last.spec.node_id.as_str()) => {
            let node = &last.spec.node_id;
            let sentence = format!("node {node} holds the last sound replica of volume {}", volume.claim());
            Some(Finding::new(sentence).on(volume).on(*last).about([ObjectRef::new("Node", "", node)]))
        }
        _ => None,
    };
    several.filter_map(finding).collect()
}

fn orphan_engine(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let running = cluster.longhorn.engines.iter().filter(|engine| engine.status.current_state == "running");
    let finding = |engine: &Engine| {
        let volume = cluster.longhorn.volumes.get(&engine.metadata.namespace, &engine.spec.volume_name);
        let why = match volume {
            None => "does not exist",
            Some(volume) if volume.status.state == "detached" => "is detached",
            Some(_) => return None,
        };
        let name = &engine.metadata.name;
        let sentence = format!(
            "engine {name} runs on node {}, and its volume {} {why}",
            engine.spec.node_id, engine.spec.volume_name
        );
        let remedy = format!("kubectl -n {} delete engines.longhorn.io {name}", engine.metadata.namespace);
        Some(Finding::new(sentence).on(engine).remedy(remedy))
    };
    running.filter_map(finding).collect()
}

fn too_many_replicas(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let hosts: BTreeSet<&str> = match cluster.longhorn.nodes.is_empty() {
        false => {
            let open = cluster.longhorn.nodes.iter().filter(|node| node.spec.allow_scheduling);
            open.map(|node| node.metadata.name.as_str()).collect()
        }
        true => {
            let hosts = cluster.nodes.iter().filter(|node| !node.metadata.labels.contains_key(WITNESS));
            hosts.map(|node| node.metadata.name.as_str()).collect()
        }
    };
    let room = i64::try_from(hosts.len()).unwrap_or(i64::MAX);
    // Of two nodes nobody expects three replicas to be healthy.
    let wanting = volumes(cluster).filter(|volume| room >= 3 && volume.spec.number_of_replicas > room);
    let finding = |volume: &Volume| {
        let wanted = volume.spec.number_of_replicas;
        let remedy = format!(
            "kubectl -n {} patch volumes.longhorn.io {} --type merge -p '{{\"spec\":{{\"numberOfReplicas\":{room}}}}}'",
            volume.metadata.namespace, volume.metadata.name
        );
        Finding::new(format!("volume {} wants {wanted} replicas, and {room} nodes can hold them", volume.claim()))
            .on(volume)
            .remedy(remedy)
    };
    wanting.map(finding).collect()
}

fn backing_up(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let of_vms = cluster.harvester.backups.iter().filter(|backup| backup.is_under_way());
    let of_vms = of_vms.map(|backup| {
        let sentence =
            format!("please wait until all vmbackups are stopped, for example {} is under processing", path(backup));
        Finding::new(sentence).on(backup)
    });
    let of_volumes = cluster.longhorn.backups.iter().filter(|backup| backup.status.state == "InProgress");
    let of_volumes = of_volumes.map(|backup: &Backup| {
        Finding::new(format!("volume {} is being backed up ({})", backup.status.volume_name, path(backup))).on(backup)
    });
    of_vms.chain(of_volumes).collect()
}

fn scheduled(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let active = cluster.harvester.schedules.iter().filter(|schedule| !schedule.spec.suspend);
    let finding = |schedule: &crate::cluster::harvester::ScheduledBackup| {
        let sentence =
            format!("please suspend all backup/snapshot schedule, for example {} is running", path(schedule));
        let remedy = format!(
            "kubectl -n {} patch schedulevmbackups.harvesterhci.io {} --type merge -p '{{\"spec\":{{\"suspend\":true}}}}'",
            schedule.metadata.namespace, schedule.metadata.name
        );
        Finding::new(sentence).on(schedule).remedy(remedy)
    };
    active.map(finding).collect()
}

fn recurring(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    // Jobs that only tidy up are short and attach nothing for long.
    let heavy =
        |job: &&RecurringJob| matches!(job.spec.task.as_str(), "backup" | "backup-force-create" | "filesystem-trim");
    let active = cluster.longhorn.recurring_jobs.iter().filter(|job| !job.spec.groups.is_empty()).filter(heavy);
    let finding = |job: &RecurringJob| {
        let sentence = format!("recurring job {} ({}, {}) is active", job.metadata.name, job.spec.task, job.spec.cron);
        Finding::new(sentence).on(job)
    };
    active.map(finding).collect()
}

fn unused(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let idle = volumes(cluster).filter(|volume| {
        let status = &volume.status.kubernetes_status;
        let mut workloads = status.workloads_status.iter();
        volume.is_attached() && !status.pvc_name.is_empty() && !workloads.any(|pod| pod.pod_status == "Running")
    });
    idle.map(|volume| Finding::new(format!("volume {} is attached, and no pod uses it", volume.claim())).on(volume))
        .collect()
}

fn rebuilding(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |engine: &Engine| {
        let mut modes = engine.status.replica_mode_map.iter().filter(|(_, mode)| *mode == "WO");
        let (replica, _) = modes.next()?;
        Some(
            Finding::new(format!("replica {replica} of volume {} is being rebuilt", engine.spec.volume_name))
                .on(engine),
        )
    };
    cluster.longhorn.engines.iter().filter_map(finding).collect()
}
