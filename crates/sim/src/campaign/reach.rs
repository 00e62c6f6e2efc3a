//! What campaigns have to reach: every purpose of a write and every reason of a wait, of all engines. What was not reached was not tested.
//!
//! The lists are whole, or this does not compile.

use std::collections::BTreeMap;

use drover_core::decision::{Purpose, Reason};
use drover_core::guest::Reason as OfControlPlane;
use drover_core::guest::levers::Stand;
use drover_core::guest::tanzu::Reason as OfCluster;
use drover_core::planner::Purpose as OfPlanner;

/// A list of all variants, which a variant more breaks.
macro_rules! whole {
    ($name:ident: $type:ident { $($variant:ident),* $(,)? }) => {
        const $name: &[$type] = {
            // Does not compile while one is missing.
            const fn is_one(one: $type) -> bool {
                match one { $($type::$variant)|* => true }
            }
            assert!($(is_one($type::$variant))&&*);
            &[$($type::$variant),*]
        };
    };
}

whole!(PURPOSES: Purpose {
    RaiseEpoch, ClaimNodes, TakeNode, FenceNode, CreateJob, NoteJobEnd, NoteFailure, ReleaseNode, SetAside, UndoMarks,
    DeleteJob, PublishStatus, Announce, NoteProgress, Provide, AskPlanner, Acknowledge, MarkNode, Hold, Step, CleanUp,
});

whole!(REASONS: Reason {
    PlanInvalid, VersionUnresolved, ChannelFails, ChannelDowngrades, SecretNotFound, PlanPaused, OtherPlanFirst,
    ExclusivePlanActs, GateClosed, GateFails, ConcurrencyReached, WindowClosed, WindowTooShort, TooManyNodesFailed,
    NodeNotReady, NodeClaimedByAnother, JobRunning, NodeSlow, NodeStalled, JobFailed, Soaking, JobBeingDeleted,
    AnotherControllerActs, NoPermission, ApiRefuses, BudgetForbids, EvictionRefused, PodTerminating, VolumeAttached,
    UpgradeInvalid, AnotherUpgradeFirst, ImageNotReady, RepositoryNotReady, ReleaseRefused, ImagesPreloading,
    ImageMissing, NodeUnmanaged, NodeUncounted, NodeJoined, NodePaused, PlannerWorks, PlannerStalls, AnotherNodeIsOut, QuorumAtRisk,
    KubeletOutdated, NodeRebooting, VolumeUnhealthy, VmsLeaving, ServiceNotReady, CleaningUp,
});

whole!(OF_PLANNER: OfPlanner {
    TakeSpec, RaiseEpoch, ElectInitNode, AdoptPlan, ClaimNodes, AskForDrain, TakeNode, CallPreHooks, NoteDrainError,
    NoteDrainDone, DeliverPlan, CreateJob, DeleteJob, NoteApplied, RetryPlan, NoteRetry, KeepAppliedPlan, AskForUncordon,
    CallPostHooks, GiveNodeBack, ClearMarks, ReleaseNode, PublishStatus,
});

whole!(OF_CONTROL_PLANES: OfControlPlane {
    NothingToUpdate, ClusterPaused, AnotherControllerActs, VersionRefused, CertificatesMissing, CertificatesChanged,
    MachineIncomplete, PatchRefused, KubeadmConfigInvalid, GuestUnreachable, EtcdUnreachable, EtcdUnhealthy, EtcdLearner, QuorumAtRisk,
    MachineProvisioning, MachineFailed, NodeMissing, NodeNotMarked, NodeNotReady, ComponentsNotReady, MachineDeleting,
});

whole!(OF_CLUSTERS: OfCluster {
    ClusterLeaves, ClusterMissing, ControlPlaneComing, CreationFailed, VersionUnknown, VersionRefused, ImageInvalid,
    DefaultsInvalid, CannotChange, ConfigurationUnknown, ClassMissing, CountRefused, CountDiffers, MachineIncomplete,
    AddonsNotApplied, AnotherClusterFirst, ClusterPaused, PredecessorFirst, OrderRefused, OldNodesLeft, WorkersTooOld,
    ControlPlaneUpdating, JobNotStarted, ControlPlaneUpdateFailed, ControlPlaneFirst, WorkersUnclear, WorkersPaused,
    WorkersRolling, MachineProvisioning, MachineDeleting, NodeNotReady, MachinesNotMade, WorkersFailed,
});

whole!(OF_LEFT: Stand {
    UpToDate, AnotherClusterFirst, PredecessorFirst, OrderRefused, ClusterPaused, VersionRefused, Outlived,
    AnotherControllerActs, Rolling, Stalled, PartPaused, MachineFailed,
});

/// What writes are for that say so by verb and kind alone: those of guest clusters, and of a few kinds of Harvester. A test holds what
/// scenarios do to be among these.
const OF_GUESTS: &[&str] = &[
    "DELETE clusters",
    "DELETE configmaps",
    "DELETE jobs",
    "DELETE machines",
    "DELETE virtualmachines",
    "PATCH clusters",
    "PATCH configmaps ClusterConfiguration",
    "PATCH configmaps ClusterStatus",
    "PATCH configmaps",
    "PATCH daemonsets",
    "PATCH deployments",
    "PATCH jobs",
    "PATCH machinedeployments",
    "PATCH machines",
    "PATCH secrets",
    "PATCH tanzukubernetesclusters",
    "PATCH volumeattachments",
    "POST clusterrolebindings",
    "POST clusterroles",
    "POST clusters",
    "POST configmaps",
    "POST daemonsets",
    "POST deployments",
    "POST jobs",
    "POST kubeadmconfigs",
    "POST kubeadmconfigtemplates",
    "POST machinedeployments",
    "POST machines",
    "POST namespaces",
    "POST pods",
    "POST rolebindings",
    "POST roles",
    "POST secrets",
    "POST storageclasses",
    "POST virtualmachines",
    "POST wcpclusters",
    "POST wcpmachines",
    "POST wcpmachinetemplates",
    "PUT configmaps",
    "PUT daemonsets",
    "PUT deployments",
    "PUT virtualmachines",
];

const REFUSED: &str = "it is refused before anything is begun, or the try ends there: tests of the decision hold it";
const UNMET: &str = "no scenario brings it about by itself: whether a schedule of faults does is left to the lot";

/// What no scenario has reached without faults, and why: it is not asked for.
const OUT_OF_REACH: &[(&str, &str)] = &[
    ("NodeJoined", UNMET),
    ("PlannerNoteDrainError", UNMET),
    ("PlannerDeleteJob", UNMET),
    ("ControlPlane/AnotherControllerActs", REFUSED),
    ("ControlPlane/NothingToUpdate", UNMET),
    ("ControlPlane/CertificatesChanged", REFUSED),
    ("ControlPlane/KubeadmConfigInvalid", REFUSED),
    ("ControlPlane/EtcdUnreachable", UNMET),
    ("ControlPlane/EtcdLearner", UNMET),
    ("ControlPlane/QuorumAtRisk", UNMET),
    ("ControlPlane/NodeNotReady", UNMET),
    ("Cluster/ClusterMissing", REFUSED),
    ("Cluster/MachineIncomplete", REFUSED),
    ("Cluster/ConfigurationUnknown", UNMET),
    ("Cluster/OldNodesLeft", UNMET),
    ("Cluster/WorkersRolling", UNMET),
    ("Cluster/MachinesNotMade", UNMET),
    ("Left/Stalled", UNMET),
];

/// How a purpose of a planner is called.
pub fn of_planner(purpose: OfPlanner) -> String {
    format!("Planner{purpose:?}")
}

/// How a reason is called that the update of a control plane waits for, or fails with.
pub fn of_control_plane(reason: OfControlPlane) -> String {
    format!("ControlPlane/{reason:?}")
}

/// How a reason is called that a TanzuKubernetesCluster tells.
pub fn of_cluster(reason: &str) -> String {
    format!("Cluster/{reason}")
}

/// How it is called where a Cluster stands that was left to an operator.
pub fn of_left(stand: &str) -> String {
    format!("Left/{stand}")
}

/// All purposes of writes, by name.
pub fn all_purposes() -> impl Iterator<Item = String> {
    let of_decisions = PURPOSES.iter().map(|purpose| format!("{purpose:?}"));
    let of_planners = OF_PLANNER.iter().map(|purpose| of_planner(*purpose));
    of_decisions.chain(of_planners).chain(OF_GUESTS.iter().map(|purpose| (*purpose).to_owned()))
}

/// All reasons of waits, by name.
pub fn all_reasons() -> impl Iterator<Item = String> {
    let of_control_planes = OF_CONTROL_PLANES.iter().map(|reason| of_control_plane(*reason));
    let of_clusters = OF_CLUSTERS.iter().map(|reason| of_cluster(&reason.to_string()));
    let of_left = OF_LEFT.iter().map(|stand| of_left(&format!("{stand:?}")));
    REASONS.iter().map(ToString::to_string).chain(of_control_planes).chain(of_clusters).chain(of_left)
}

/// Purposes of writes and reasons of waits that were never reached, and could have been.
pub fn not_reached(purposes: &BTreeMap<String, usize>, reasons: &BTreeMap<String, usize>) -> Vec<String> {
    let purposes_missed = all_purposes().filter(|name| !purposes.contains_key(name));
    let reasons_missed = all_reasons().filter(|name| !reasons.contains_key(name));
    let can_be = |name: &String| OUT_OF_REACH.iter().all(|(other, _)| other != name);
    purposes_missed.chain(reasons_missed).filter(can_be).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_reach_is_known_by_its_name_and_has_a_reason() {
        let all: Vec<String> = all_purposes().chain(all_reasons()).collect();
        for (name, why) in OUT_OF_REACH {
            assert!(all.iter().any(|known| known == name), "{name}");
            assert!(!why.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_no_run_has_met_is_not_reached() {
        let met = |names: Vec<String>| -> BTreeMap<String, usize> { names.into_iter().map(|name| (name, 1)).collect() };
        let (purposes, reasons) = (met(all_purposes().collect()), met(all_reasons().collect()));
        assert_eq!(not_reached(&purposes, &reasons), Vec::<String>::new());
        let without = met(all_reasons().filter(|name| name != "Cluster/WorkersFailed").collect());
        assert_eq!(not_reached(&purposes, &without), ["Cluster/WorkersFailed"]);
    }
}
