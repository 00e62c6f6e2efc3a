//! The instance manager of one node: the pod that engines and replicas run in, and the budget that keeps it there.
//!
//! Models `instance_manager_controller.go` and `node_controller.go` of longhorn-manager 1.10.

use std::collections::BTreeMap;

use drover_api::longhorn::NAMESPACE;
use drover_api::longhorn::instance_manager::{
    InstanceManager, InstanceManagerSpec, RUNNING, STARTING, STOPPED, UNKNOWN, labels,
};
use drover_api::longhorn::node::{Node as LonghornNode, conditions};
use drover_api::longhorn::setting::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::notes::Notes;
use crate::world::annotations::{DURATION, NEVER};
use crate::world::kubelet::{digest, hex};
use crate::world::outcome::{Action, Outcome};
use crate::world::workloads::template::controlled_by;
use crate::world::{loose, pods};

const IMAGE: &str = "longhornio/longhorn-instance-manager:v1.10.0";

/// How the node of a manager is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub ready: bool,
    pub cordoned: bool,
}

pub struct Scene<'a> {
    pub node: &'a LonghornNode,
    pub place: Place,
    pub manager: Option<&'a InstanceManager>,
    pub pod: Option<&'a Pod>,
    pub budget: Option<&'a PodDisruptionBudget>,
    pub drain_policy: &'a str,
    pub notes: &'a Notes,
    /// Whether the manager of this name has a budget.
    pub is_guarded: &'a dyn Fn(&str) -> bool,
}

pub fn is_running(manager: &InstanceManager) -> bool {
    manager.status.as_ref().and_then(|status| status.current_state.as_deref()) == Some(RUNNING)
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Outcome {
    let mut actions = Vec::new();
    actions.extend(describe_node(scene, now));
    let Some(manager) = scene.manager else {
        actions.push(Action::create(&manager_on(pods::name(&scene.node.metadata))));
        return Outcome::act(actions);
    };
    actions.extend(keep_pod(scene, manager));
    actions.extend(describe(scene, manager));
    actions.extend(keep_budget(scene, manager));
    Outcome::act(actions)
}

fn describe_node(scene: &Scene<'_>, now: Timestamp) -> Option<Action> {
    let mut after = scene.node.clone();
    let conditions = &mut after.status.get_or_insert_default().conditions;
    let name = pods::name(&scene.node.metadata);
    let down = format!("Kubernetes node {name} not ready: NodeStatusUnknown");
    let ready =
        if scene.place.ready { ("True", None) } else { ("False", Some(("KubernetesNodeNotReady", down.as_str()))) };
    loose::set(conditions, conditions::READY, ready.0, ready.1, now);
    let kept_away = format!("Node {name} is cordoned");
    let open = match scene.place.cordoned {
        false => ("True", None),
        true => ("False", Some(("KubernetesNodeCordoned", kept_away.as_str()))),
    };
    loose::set(conditions, conditions::SCHEDULABLE, open.0, open.1, now);
    Action::change(scene.node, &after)
}

/// A pod that has ended makes room for another one. The pod names its node itself, so a cordon would not keep it away:
/// while there is one, none is made.
fn keep_pod(scene: &Scene<'_>, manager: &InstanceManager) -> Option<Action> {
    match scene.pod {
        Some(pod) if pods::has_ended(pod) && !pods::is_leaving(pod) => Some(Action::delete_pod(pod)),
        Some(_) => None,
        None if scene.place.cordoned || !scene.place.ready => None,
        None => Some(Action::CreatePod(Box::new(pod_of(manager)))),
    }
}

fn describe(scene: &Scene<'_>, manager: &InstanceManager) -> Option<Action> {
    let node = pods::name(&scene.node.metadata);
    let state = match scene.pod {
        _ if !scene.place.ready => UNKNOWN,
        Some(pod) if pods::is_ready(pod) && !pods::is_leaving(pod) => RUNNING,
        Some(pod) if !pods::has_ended(pod) && !pods::is_leaving(pod) => STARTING,
        _ => STOPPED,
    };
    let notes = scene.notes;
    let listed = |names: Vec<&String>| -> Option<BTreeMap<String, Value>> {
        let entry =
            |name: &String| (name.clone(), json!({ "spec": { "name": name }, "status": { "state": "running" } }));
        Some(names.into_iter().map(entry).collect::<BTreeMap<_, _>>()).filter(|all| !all.is_empty())
    };
    let mut after = manager.clone();
    let status = after.status.get_or_insert_default();
    status.current_state = Some(state.into());
    status.instance_engines = listed(notes.engines_on(node).map(|(name, _)| name).collect());
    status.instance_replicas =
        listed(notes.replicas_on(node).filter(|(_, note)| !note.stopped).map(|(name, _)| name).collect());
    Action::change(manager, &after)
}

/// A manager is protected while its node is in service. On a cordoned node the protection ends when nothing there is needed
/// any more; it never comes back there.
fn keep_budget(scene: &Scene<'_>, manager: &InstanceManager) -> Option<Action> {
    if !is_running(manager) {
        return None;
    }
    match scene.budget {
        None if !scene.place.cordoned => Some(Action::create(&budget_of(manager))),
        Some(budget) if scene.place.cordoned && may_go(scene) => Some(Action::delete(budget)),
        _ => None,
    }
}

/// Whether a drain may take the manager of a node, by the node drain policy.
fn may_go(scene: &Scene<'_>) -> bool {
    let (node, notes) = (pods::name(&scene.node.metadata), scene.notes);
    // An engine that no volume accounts for counts like any other.
    if notes.engines_on(node).next().is_some() {
        return false;
    }
    if scene.drain_policy == names::ALWAYS_ALLOW {
        return true;
    }
    let mut replicas = notes.replicas_on(node).map(|(_, note)| note);
    if scene.drain_policy == names::BLOCK_FOR_EVICTION {
        return replicas.next().is_none();
    }
    let protected = |volume: &str| {
        notes
            .replicas_of(volume)
            .filter(|other| other.node != node && other.healthy)
            .any(|other| notes.manager_on(&other.node).is_some_and(|manager| (scene.is_guarded)(&manager.name)))
    };
    let counts = |stopped: bool| scene.drain_policy != names::ALLOW_IF_STOPPED || !stopped;
    replicas.all(|note| !counts(note.stopped) || note.unused || protected(&note.volume))
}

fn manager_labels(node: &str) -> BTreeMap<String, String> {
    let image = hex(&Sha512::digest(IMAGE.as_bytes())[..4]);
    BTreeMap::from(
        [
            (labels::COMPONENT, labels::COMPONENT_VALUE.to_string()),
            ("longhorn.io/managed-by", "longhorn-manager".to_string()),
            (labels::DATA_ENGINE, "v1".to_string()),
            (labels::IMAGE, format!("imi-{image}")),
            (labels::TYPE, labels::TYPE_ALL_IN_ONE.to_string()),
            (labels::NODE, node.to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value)),
    )
}

fn manager_on(node: &str) -> InstanceManager {
    let name = format!("instance-manager-{}", &hex(&digest(&[node, IMAGE]))[..32]);
    let mut manager = InstanceManager::named(&name);
    manager.metadata.namespace = Some(NAMESPACE.into());
    manager.metadata.labels = Some(manager_labels(node));
    manager.spec = Some(InstanceManagerSpec {
        node_id: Some(node.into()),
        image: Some(IMAGE.into()),
        r#type: Some(labels::TYPE_ALL_IN_ONE.into()),
        data_engine: Some("v1".into()),
        ..InstanceManagerSpec::default()
    });
    manager
}

fn node_of(manager: &InstanceManager) -> &str {
    manager.spec.as_ref().and_then(|spec| spec.node_id.as_deref()).unwrap_or_default()
}

fn pod_of(manager: &InstanceManager) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: manager.metadata.name.clone(),
            namespace: manager.metadata.namespace.clone(),
            labels: Some(manager_labels(node_of(manager))),
            annotations: Some([(DURATION.to_string(), NEVER.to_string())].into()),
            owner_references: Some(vec![controlled_by(manager)]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some(node_of(manager).into()),
            restart_policy: Some("Never".into()),
            containers: vec![Container {
                name: "instance-manager".into(),
                image: Some(IMAGE.into()),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn budget_of(manager: &InstanceManager) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: ObjectMeta {
            name: manager.metadata.name.clone(),
            namespace: manager.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(manager_labels(node_of(manager))),
                match_expressions: None,
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
