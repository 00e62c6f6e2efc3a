//! The pod that an instance runs in: one for each instance, a second one while it migrates.
//!
//! Models `pkg/virt-controller/services/template.go` of KubeVirt 1.6, without devices, networks and the helpers beside the
//! guest.

use std::collections::BTreeMap;

use drover_api::kubevirt::virtual_machine_instance::{VirtualMachineInstance, launcher};
use drover_api::kubevirt::virtual_machine_instance_migration::VirtualMachineInstanceMigration;
use drover_api::node::HOSTNAME;
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaimVolumeSource, Pod, PodAffinityTerm, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::Value;

use crate::world::annotations::{DURATION, NEVER};
use crate::world::pods;
use crate::world::workloads::template::controlled_by;

/// How much longer a pod may take to end than its guest.
const BEYOND_THE_GUEST: i64 = 15;
const GUEST_GRACE: i64 = 30;

/// The pod in which an instance starts.
pub fn pod(instance: &VirtualMachineInstance) -> Pod {
    let metadata = &instance.metadata;
    let name = pods::name(metadata);
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.insert(launcher::LABEL.into(), launcher::LABEL_VALUE.into());
    labels.insert(launcher::CREATED_BY.into(), pods::uid(metadata).into());
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.insert(launcher::DOMAIN.into(), name.into());
    // A guest runs until it is told to stop, though its pod is never started again.
    annotations.insert(DURATION.into(), NEVER.into());
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}{name}-", launcher::NAME_PREFIX)),
            namespace: metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controlled_by(instance)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec(instance)),
        status: None,
    }
}

/// The pod that takes an instance over: on another node than any other pod of it.
pub fn target(instance: &VirtualMachineInstance, migration: &VirtualMachineInstanceMigration) -> Pod {
    let mut pod = pod(instance);
    let uid = pods::uid(&migration.metadata).to_string();
    pod.metadata.labels.get_or_insert_default().insert(launcher::MIGRATION.into(), uid.clone());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("kubevirt.io/migrationJobName".into(), pods::name(&migration.metadata).into());
    let apart = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some(BTreeMap::from([(
                launcher::CREATED_BY.into(),
                pods::uid(&instance.metadata).to_string(),
            )])),
            match_expressions: None,
        }),
        topology_key: HOSTNAME.into(),
        ..PodAffinityTerm::default()
    };
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let away = affinity.pod_anti_affinity.get_or_insert_default();
    away.required_during_scheduling_ignored_during_execution.get_or_insert_default().push(apart);
    pod
}

fn spec(instance: &VirtualMachineInstance) -> PodSpec {
    let spec = instance.spec.clone().unwrap_or_default();
    let claims = claims(instance);
    let volumes: Vec<Volume> = claims
        .iter()
        .map(|(name, claim)| Volume {
            name: name.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.clone(),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    let guest = spec.termination_grace_period_seconds.unwrap_or(GUEST_GRACE);
    PodSpec {
        restart_policy: Some("Never".into()),
        node_selector: spec.node_selector,
        affinity: spec.affinity,
        tolerations: spec.tolerations,
        termination_grace_period_seconds: Some(guest + BEYOND_THE_GUEST),
        containers: vec![Container {
            name: launcher::CONTAINER.into(),
            image: Some("registry.suse.com/suse/sles/15.7/virt-launcher:1.6".into()),
            resources: spec.domain.and_then(|domain| domain.resources),
            ..Container::default()
        }],
        volumes: Some(volumes).filter(|volumes| !volumes.is_empty()),
        ..PodSpec::default()
    }
}

/// The volumes of an instance that are claims: the name of each, and of its claim.
pub fn claims(instance: &VirtualMachineInstance) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map(String::from);
    let volumes = instance.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    volumes
        .filter_map(|volume| {
            let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
            Some((text(&volume["name"])?, claim.or_else(|| text(&volume["dataVolume"]["name"]))?))
        })
        .collect()
}

/// The migration that a pod was made for.
pub fn migration_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(launcher::MIGRATION).map(String::as_str)
}
