//! What the world remembers of a pod: as much as its controllers count by, so that counting reads no objects.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::job::TRACKING;
use super::labels::Labels;
use super::pods;
use super::scheduler::amounts::Amounts;
use super::scheduler::{Neighbours, Request};

/// The annotation by which users say which pods of a ReplicaSet should go first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The object that looks after a pod. Another one may have the same name later.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Owner {
    pub fn of(reference: &OwnerReference) -> Owner {
        Owner { kind: reference.kind.clone(), name: reference.name.clone(), uid: reference.uid.clone() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PodNote {
    pub uid: String,
    pub labels: Labels,
    pub node: Option<String>,
    pub ip: Option<String>,
    pub owner: Option<Owner>,
    /// It waits to be counted by its Job.
    pub tracked: bool,
    pub phase: Phase,
    pub ready: bool,
    /// Since when it is as ready as it is.
    pub ready_since: Option<Timestamp>,
    pub leaving: bool,
    pub created: Timestamp,
    pub restarts: i32,
    pub deletion_cost: i32,
    pub needs: Amounts,
    /// The claims that its volumes are.
    pub claims: Vec<String>,
    /// The pods that it keeps away.
    pub apart: Vec<Neighbours>,
    /// What it asks for, if it waits for a node.
    pub request: Option<Box<Request>>,
}

impl PodNote {
    pub fn of(pod: &Pod) -> PodNote {
        let metadata = &pod.metadata;
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let cost = metadata.annotations.as_ref().and_then(|all| all.get(DELETION_COST)?.parse().ok());
        let ready = pods::condition(pod, pods::READY);
        PodNote {
            uid: pods::uid(metadata).into(),
            labels: metadata.labels.clone().unwrap_or_default(),
            node: pods::node(pod).map(Into::into),
            ip: pod.status.as_ref().and_then(|status| status.pod_ip.clone()),
            owner: pods::controller(metadata).map(Owner::of),
            tracked: pods::has_finalizer(metadata, TRACKING),
            phase: match pods::phase(pod) {
                pods::PENDING => Phase::Pending,
                pods::RUNNING => Phase::Running,
                pods::SUCCEEDED => Phase::Succeeded,
                pods::FAILED => Phase::Failed,
                _ => Phase::Unknown,
            },
            ready: pods::is_ready(pod),
            ready_since: ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0),
            leaving: pods::is_leaving(pod),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            restarts: containers.into_iter().flatten().map(|container| container.restart_count).max().unwrap_or(0),
            deletion_cost: cost.unwrap_or(0),
            needs: pod.spec.as_ref().map(Amounts::requested_by).unwrap_or_default(),
            claims: claims(pod),
            apart: pod
                .spec
                .as_ref()
                .map_or_else(Vec::new, |spec| Neighbours::unwanted(pods::namespace(metadata), spec)),
            request: Request::of(pod).map(Box::new),
        }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Neither ended nor on its way out.
    pub fn is_active(&self) -> bool {
        !self.has_ended() && !self.leaving
    }

    /// The node whose room it takes.
    pub fn occupies(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| !self.has_ended())
    }

    /// Whether it is found by the same ways as `other`, and takes the same room.
    pub fn leads_as(&self, other: &PodNote) -> bool {
        self.labels == other.labels
            && self.node == other.node
            && self.owner == other.owner
            && self.claims == other.claims
            && self.occupies() == other.occupies()
            && self.needs == other.needs
            && self.apart == other.apart
            && self.request.is_some() == other.request.is_some()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

fn claims(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()).map(|claim| claim.claim_name.clone()).collect()
}
