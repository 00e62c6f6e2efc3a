//! Pods: what they ask for, where they are, how their containers do.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::amount::{Amount, Amounts};
use super::parts::{Condition, Meta, condition, is_true};
use super::shelf::Projection;

/// The kubelet's own pods, of which the API server holds only a picture.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The conditions that somebody reads.
const CONDITIONS: [&str; 3] = ["Ready", "PodScheduled", "DisruptionTarget"];

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Empty: it has no node yet.
    pub node_name: String,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Option<Box<Affinity>>,
    pub tolerations: Box<[Toleration]>,
    pub topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    pub scheduling_gates: Box<[IgnoredAny]>,
    pub scheduler_name: String,
    pub containers: Box<[Container]>,
    pub init_containers: Box<[Container]>,
    pub overhead: Amounts,
    pub volumes: Box<[Volume]>,
    pub termination_grace_period_seconds: Option<i64>,
    pub priority: i64,
    pub host_network: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub resources: Resources,
    /// `Always` for an init container that goes on running.
    pub restart_policy: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub requests: Amounts,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<ClaimSource>,
    pub empty_dir: Option<IgnoredAny>,
    pub host_path: Option<IgnoredAny>,
    pub secret: Option<SecretSource>,
    pub config_map: Option<ConfigMapSource>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretSource {
    pub secret_name: String,
    pub optional: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConfigMapSource {
    pub name: String,
    pub optional: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    pub reason: String,
    pub message: String,
    pub conditions: Box<[Condition]>,
    pub start_time: Option<Timestamp>,
    pub nominated_node_name: String,
    pub container_statuses: Box<[ContainerStatus]>,
    pub init_container_statuses: Box<[ContainerStatus]>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub ready: bool,
    pub restart_count: u32,
    pub state: ContainerState,
    pub last_state: ContainerState,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub waiting: Option<Box<Waiting>>,
    pub running: Option<Running>,
    pub terminated: Option<Box<Terminated>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    pub started_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Projection for Pod {
    const KIND: &'static str = "Pod";

    fn metadata(&self) -> &Meta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    /// There are more pods than anything else, and each says a lot that nobody asks for.
    fn slim(&mut self) {
        self.metadata.keep_annotations(|key| key == MIRROR);
        let conditions = std::mem::take(&mut self.status.conditions).into_iter();
        self.status.conditions = conditions.filter(|one| CONDITIONS.contains(&one.kind.as_str())).collect();
    }
}

/// What the pod of a Job that failed last has said of that; none if none has failed.
pub fn last_words<'a>(pods: impl Iterator<Item = &'a Pod>, job: &Meta) -> Option<String> {
    let own = |pod: &&Pod| pod.metadata.owner_references.iter().any(|owner| owner.uid == job.uid);
    let states = pods.filter(own).flat_map(|pod| pod.status.container_statuses.iter());
    let states = states.flat_map(|status| [&status.state, &status.last_state]);
    let failed = states.filter_map(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code != 0);
    let last = failed.max_by_key(|ended| ended.finished_at)?;
    Some(match last.message.trim() {
        "" => format!("it ended with exit code {}", last.exit_code),
        words => words.to_owned(),
    })
}

impl Pod {
    pub fn is_ready(&self) -> bool {
        is_true(&self.status.conditions, "Ready")
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition(&self.status.conditions, kind)
    }

    /// It has run to its end, well or badly.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn has_failed(&self) -> bool {
        self.status.phase == "Failed"
    }

    pub fn is_ending(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn is_mirror(&self) -> bool {
        self.metadata.annotations.contains_key(MIRROR)
    }

    pub fn is_of_daemon_set(&self) -> bool {
        self.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet" && owner.api_version == "apps/v1")
    }

    /// The PersistentVolumeClaims that it mounts.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        let sources = self.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
        sources.map(|source| source.claim_name.as_str())
    }

    /// Its containers' states, those that have to end before the others first.
    pub fn container_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.init_container_statuses.iter().chain(&self.status.container_statuses)
    }

    /// What it takes of a node: its containers together, or its largest init container if that is more, and its overhead.
    /// Init containers that go on running count with the containers.
    pub fn requests(&self) -> Amounts {
        let mut together = Amounts::new();
        for container in &self.spec.containers {
            add(&mut together, &container.resources.requests);
        }
        let (mut peak, mut lasting) = (Amounts::new(), Amounts::new());
        for init in &self.spec.init_containers {
            let mut now = lasting.clone();
            add(&mut now, &init.resources.requests);
            raise(&mut peak, &now);
            if init.restart_policy == "Always" {
                add(&mut together, &init.resources.requests);
                lasting = now;
            }
        }
        raise(&mut together, &peak);
        add(&mut together, &self.spec.overhead);
        together
    }
}

fn add(sum: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let entry = sum.entry(resource.clone()).or_insert(Amount::ZERO);
        *entry = entry.plus(*amount);
    }
}

fn raise(sum: &mut Amounts, to: &Amounts) {
    for (resource, amount) in to {
        let entry = sum.entry(resource.clone()).or_insert(Amount::ZERO);
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::Cluster;

    fn taken(pod: &Value) -> Pod {
        let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
        cluster.take(pod.to_string().as_bytes());
        cluster.pods.get("shop", "a").unwrap().clone()
    }

    fn pod(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "spec": spec})
    }

    #[test]
    fn of_what_a_pod_says_only_what_somebody_reads_is_kept() {
        let mut pod = pod(json!({}));
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x", "note": "of somebody else"});
        let said = ["Initialized", "Ready", "PodScheduled", "DisruptionTarget", "ContainersReady"];
        let conditions: Vec<Value> = said.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        pod["status"] = json!({"conditions": conditions});

        let pod = taken(&pod);

        assert!(pod.is_mirror() && pod.is_ready());
        assert_eq!(pod.metadata.annotations.len(), 1);
        let kept: Vec<&str> = pod.status.conditions.iter().map(|one| one.kind.as_str()).collect();
        assert_eq!(kept, ["Ready", "PodScheduled", "DisruptionTarget"]);
    }

    #[test]
    fn a_pod_takes_what_its_containers_take_together_or_the_largest_before_them() {
        let asks = |cpu: &str| json!({"name": "x", "resources": {"requests": {"cpu": cpu}}});
        let stays =
            |cpu: &str| json!({"name": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let cases = [
            ("the containers together", json!([asks("1"), asks("2")]), json!([]), "3"),
            ("a larger one before them", json!([asks("1")]), json!([asks("4"), asks("2")]), "4"),
            ("a smaller one before them", json!([asks("3")]), json!([asks("2")]), "3"),
            ("one that goes on running", json!([asks("1")]), json!([stays("2")]), "3"),
            ("one that runs beside those after it", json!([asks("1")]), json!([stays("2"), asks("4")]), "6"),
            ("one that starts after the largest", json!([asks("1")]), json!([asks("4"), stays("2")]), "4"),
        ];
        for (case, containers, before, cpu) in cases {
            let spec = json!({"containers": containers, "initContainers": before});
            assert_eq!(taken(&pod(spec.clone())).requests()["cpu"], Amount::parse(cpu).unwrap(), "{case}");

            let overhead = json!({"containers": containers, "initContainers": before, "overhead": {"cpu": "250m"}});
            let with_overhead = Amount::parse(cpu).unwrap().plus(Amount::parse("250m").unwrap());
            assert_eq!(taken(&pod(overhead)).requests()["cpu"], with_overhead, "{case}, with overhead");
        }
    }

    #[test]
    fn only_the_daemon_sets_of_kubernetes_make_a_pod_one_of_theirs() {
        let cases = [
            ("apps/v1", "DaemonSet", true, true),
            ("apps.kruise.io/v1", "DaemonSet", true, false),
            ("apps/v1", "ReplicaSet", true, false),
            ("apps/v1", "DaemonSet", false, false),
        ];
        for (version, kind, controller, expected) in cases {
            let mut pod = pod(json!({}));
            let owner = json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": controller});
            pod["metadata"]["ownerReferences"] = json!([owner]);
            assert_eq!(taken(&pod).is_of_daemon_set(), expected, "{version} {kind} {controller}");
        }
    }
}
