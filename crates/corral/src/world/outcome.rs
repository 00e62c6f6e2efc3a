//! What the parts of the world decide: writes as values, and the moment to look again.

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};

use serde_json::Value;

use super::events::Note;
use super::kubelet::Upgraded;
use super::pods;
use crate::apiserver::{Kind, ResourceId};

/// One write of the world. Objects that were read carry their resourceVersion, so a write that rests on an old
/// reading is refused, and the object is looked at again.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    CreatePod(Box<Pod>),
    /// The whole pod with a new status.
    PodStatus(Box<Pod>),
    BindPod {
        namespace: String,
        name: String,
        node: String,
    },
    /// Takes the Job controller's finalizer off a pod.
    ReleasePod {
        namespace: String,
        name: String,
    },
    /// Asks for a pod's end, as any client would.
    DeletePod {
        namespace: String,
        name: String,
        uid: String,
    },
    /// The kubelet's last word: the containers have stopped, the pod may go.
    RemovePod {
        namespace: String,
        name: String,
        uid: String,
    },
    JobStatus(Box<Job>),
    /// Deletes a Job after its pods.
    DeleteJob {
        namespace: String,
        name: String,
        uid: String,
    },
    NodeStatus(Box<Node>),
    UpdateNode(Box<Node>),
    /// What `kubectl cordon` does.
    Cordon {
        node: String,
    },
    /// What a finished upgrade leaves on its machine.
    MachineUpgraded {
        node: String,
        upgraded: Upgraded,
    },
    CreateLease(Box<Lease>),
    RenewLease(Box<Lease>),
    /// Makes an object the pod's controller.
    AdoptPod {
        namespace: String,
        name: String,
        uid: String,
        owner: Box<OwnerReference>,
    },
    CreateReplicaSet(Box<ReplicaSet>),
    UpdateReplicaSet(Box<ReplicaSet>),
    ReplicaSetStatus(Box<ReplicaSet>),
    DeleteReplicaSet {
        namespace: String,
        name: String,
        uid: String,
    },
    /// The status, and the annotation that says its revision.
    DeploymentStatus(Box<Deployment>),
    StatefulSetStatus(Box<StatefulSet>),
    DaemonSetStatus(Box<DaemonSet>),
    CreateRevision(Box<ControllerRevision>),
    UpdateRevision(Box<ControllerRevision>),
    DeleteRevision {
        namespace: String,
        name: String,
        uid: String,
    },
    CreateSlice(Box<EndpointSlice>),
    UpdateSlice(Box<EndpointSlice>),
    DeleteSlice {
        namespace: String,
        name: String,
        uid: String,
    },
    BudgetStatus(Box<PodDisruptionBudget>),
    Log {
        namespace: String,
        pod: String,
        lines: Vec<String>,
    },
    /// An Event.
    Note(Box<Note>),
    /// A write to an object of whatever kind, those of other products above all.
    Object(Box<ObjectWrite>),
    /// What a drain does to a pod. A budget or a webhook may refuse.
    Evict {
        namespace: String,
        name: String,
        grace_period_seconds: Option<i64>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ObjectWrite {
    pub resource: ResourceId,
    pub deed: Deed,
}

/// What is done to an object, which stands as it is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    Create(Value),
    Update(Value),
    Status(Value),
    Delete { namespace: String, name: String, uid: String },
}

impl Action {
    pub fn create<K: Kind>(object: &K) -> Action {
        Action::to::<K>(Deed::Create(json(object)))
    }

    pub fn update<K: Kind>(object: &K) -> Action {
        Action::to::<K>(Deed::Update(json(object)))
    }

    pub fn status<K: Kind>(object: &K) -> Action {
        Action::to::<K>(Deed::Status(json(object)))
    }

    /// What makes an object from one that was read to what it should be: nothing, if it is so. Where both the object and its
    /// status differ, the status has to wait for the next look, since it rests on another version then.
    pub fn change<K: Kind>(before: &K, after: &K) -> Option<Action> {
        let (before, after) = (json(before), json(after));
        if before == after {
            return None;
        }
        let mut main = (before, after.clone());
        for object in [&mut main.0, &mut main.1] {
            object.as_object_mut().and_then(|object| object.remove("status"));
        }
        let deed = if main.0 == main.1 { Deed::Status(after) } else { Deed::Update(after) };
        Some(Action::to::<K>(deed))
    }

    pub fn delete<K: Kind>(object: &K) -> Action {
        let metadata = object.meta();
        Action::to::<K>(Deed::Delete {
            namespace: pods::namespace(metadata).into(),
            name: pods::name(metadata).into(),
            uid: pods::uid(metadata).into(),
        })
    }

    fn to<K: Kind>(deed: Deed) -> Action {
        let resource = ResourceId::new(&K::group(&()), &K::plural(&()), &K::kind(&()));
        Action::Object(Box::new(ObjectWrite { resource, deed }))
    }

    pub fn delete_pod(pod: &Pod) -> Action {
        Action::DeletePod {
            namespace: pods::namespace(&pod.metadata).into(),
            name: pods::name(&pod.metadata).into(),
            uid: pods::uid(&pod.metadata).into(),
        }
    }
}

/// What cannot be written as JSON is no object, and the server refuses it.
fn json<K: Kind>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// What one part does about one object, in order, and when it looks again if nothing changes before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub actions: Vec<Action>,
    pub wake: Option<Timestamp>,
}

impl Outcome {
    pub fn nothing() -> Self {
        Outcome::default()
    }

    pub fn act(actions: Vec<Action>) -> Self {
        Outcome { actions, wake: None }
    }

    pub fn wait_until(moment: Timestamp) -> Self {
        Outcome { actions: Vec::new(), wake: Some(moment) }
    }
}

/// The earlier of two moments to wake at, where there are any.
pub fn sooner(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// `now` as Kubernetes keeps it, in whole seconds: a status must compare equal to itself when it is read back.
pub fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// `time` doubled for every repetition after the first, at most `cap`.
pub fn doubled(time: Duration, repetitions: u32, cap: Duration) -> Duration {
    let factor = 1_u32.checked_shl(repetitions.saturating_sub(1)).unwrap_or(u32::MAX);
    time.checked_mul(factor).unwrap_or(cap).min(cap)
}

/// The moment `seconds` after `time`; a negative number counts as none.
pub fn seconds_after(time: &Time, seconds: i64) -> Timestamp {
    later(time.0, Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}
