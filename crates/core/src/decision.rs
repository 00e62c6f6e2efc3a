//! What a decision is made of: writes, waits, and the moment to look again.

use drover_api::plan::NodeCounts;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to do now, what to wait for, and when to look again if nothing changes.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Decision {
    /// Ordered between stages, side by side within one; the first failure ends the batch.
    pub stages: Vec<Vec<Write>>,
    pub waits: Vec<Wait>,
    pub look_again: Option<Timestamp>,
    /// A channel to ask; the answer comes into the next view.
    pub ask: Option<Question>,
    /// The whole cluster is to be looked at: may the upgrade begin? The verdict comes into a later view.
    pub judge: bool,
    /// How far the nodes are when all of this is written; none if they cannot be seen.
    pub counts: Option<NodeCounts>,
}

/// A question to a channel: an HTTP server that answers with a redirect to the latest version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub url: String,
    /// What is known so far; it is told to the server. Empty: nothing.
    pub latest_version: String,
}

impl Decision {
    /// Adds writes that come after all that stand here already.
    pub fn then(&mut self, stage: Vec<Write>) {
        if !stage.is_empty() {
            self.stages.push(stage);
        }
    }

    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.stages.iter().flatten()
    }

    /// Looks again at `moment`, or earlier if something asked for that.
    pub fn look_again_by(&mut self, moment: Timestamp) {
        self.look_again = Some(self.look_again.map_or(moment, |earlier| earlier.min(moment)));
    }
}

/// The kinds that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    Plan,
    Node,
    Job,
    Secret,
    Event,
    Pod,
    Upgrade,
    UpgradeLog,
    VirtualMachineImage,
    VirtualMachine,
    Deployment,
    Service,
    ConfigMap,
    Addon,
    ManagedChart,
    HelmChart,
    ClusterRepo,
    /// Of provisioning.cattle.io.
    Cluster,
    /// `Cluster` of cluster.x-k8s.io.
    CapiCluster,
    /// Of longhorn.io.
    Setting,
    /// Of longhorn.io.
    Engine,
    /// Of longhorn.io.
    VolumeAttachment,
}

/// One object: `Node/n1`, `Job/system-upgrade/apply-…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl Subject {
    pub fn node(name: &str) -> Self {
        Subject { kind: Kind::Node, namespace: String::new(), name: name.to_owned() }
    }

    pub fn plan(namespace: &str, name: &str) -> Self {
        Subject { kind: Kind::Plan, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn job(namespace: &str, name: &str) -> Self {
        Subject::new(Kind::Job, namespace, name)
    }

    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Subject { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{:?}/{}", self.kind, self.name),
            namespace => write!(f, "{:?}/{namespace}/{}", self.kind, self.name),
        }
    }
}

/// One change of one object. It can be printed, recorded, and repeated without harm: a created object has a name
/// that follows from its cause, and a change carries the resourceVersion it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub purpose: Purpose,
    pub subject: Subject,
    pub act: Act,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Create(Value),
    /// A JSON merge patch; its `metadata.resourceVersion` guards it.
    Patch(Value),
    /// The same, on the object's status.
    PatchStatus(Value),
    Delete {
        uid: String,
    },
    /// A request to a part of the object that does something, such as the `stop` of a VirtualMachine.
    Call {
        part: &'static str,
    },
}

/// Why a write is made: one word for logs, traces and coverage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A new leader makes the Plan's claims its own before it acts on them.
    RaiseEpoch,
    /// Nodes enter or leave the list of claims on the Plan.
    ClaimNodes,
    /// The claim is marked on the Node, and the Node is cordoned where asked.
    TakeNode,
    /// A claim that is no longer wanted is marked on the Node without a cordon: a late patch of a dead leader
    /// then meets another resourceVersion.
    FenceNode,
    CreateJob,
    /// The Job has ended and its Node has to be waited for: what is known of the end is noted on the Node.
    NoteJobEnd,
    /// A failure is counted on the Node, or that somebody wants another try.
    NoteFailure,
    /// Marks and cordon go, the result label comes.
    ReleaseNode,
    /// The Plan goes on without the Node: it stays cordoned with its failure, and its claim ends.
    SetAside,
    /// Marks whose Plan is gone, or no longer means the Node, are undone.
    UndoMarks,
    /// A Job that belongs to no current claim.
    DeleteJob,
    PublishStatus,
    /// An Event. The only write that may fail without ending the batch.
    Announce,
    /// How far an Upgrade is, is noted on it before anything follows from that.
    NoteProgress,
    /// What an Upgrade needs comes into being: its image, its repository, its Plans.
    Provide,
    /// The planner of the cluster is asked to bring the nodes to another version.
    AskPlanner,
    /// The planner is told that a hook is done.
    Acknowledge,
    /// A Node gets a mark of its Upgrade.
    MarkNode,
    /// Something is set otherwise for as long as an Upgrade takes.
    Hold,
    /// A step of an Upgrade on a node or on the system services.
    Step,
    /// An Upgrade has ended: what it made goes, and what it set otherwise is as before.
    CleanUp,
}

impl Purpose {
    /// Those that Upgrades add.
    pub const OF_UPGRADES: [Purpose; 8] = [
        Purpose::NoteProgress,
        Purpose::Provide,
        Purpose::AskPlanner,
        Purpose::Acknowledge,
        Purpose::MarkNode,
        Purpose::Hold,
        Purpose::Step,
        Purpose::CleanUp,
    ];

    /// Those of Plans, for coverage.
    pub const ALL: [Purpose; 13] = [
        Purpose::RaiseEpoch,
        Purpose::ClaimNodes,
        Purpose::TakeNode,
        Purpose::FenceNode,
        Purpose::CreateJob,
        Purpose::NoteJobEnd,
        Purpose::NoteFailure,
        Purpose::ReleaseNode,
        Purpose::SetAside,
        Purpose::UndoMarks,
        Purpose::DeleteJob,
        Purpose::PublishStatus,
        Purpose::Announce,
    ];
}

/// The only way to say 'not yet'. The status, the Event and every screen print this one value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    pub subject: Subject,
    pub reason: Reason,
    /// For people; holds no running numbers, so that it stays the same while the wait lasts.
    pub sentence: String,
    /// When it was first published.
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Why something waits. The names are part of the interface: scripts compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    PlanInvalid,
    VersionUnresolved,
    /// The channel cannot be asked, or its answer names no version.
    ChannelFails,
    /// The channel names a lower version than the Plan has followed.
    ChannelDowngrades,
    SecretNotFound,
    /// The user has paused the Plan.
    PlanPaused,
    /// A Plan that this one comes after is not complete.
    OtherPlanFirst,
    /// Another exclusive Plan of the namespace holds a claim.
    ExclusivePlanActs,
    /// The Plan's gate is not true.
    GateClosed,
    /// The Plan's gate cannot be read or evaluated.
    GateFails,
    /// The Plan's limit of nodes at once is reached.
    ConcurrencyReached,
    /// The Plan's window is closed: no further node is taken.
    WindowClosed,
    /// The window closes before a node would be done.
    WindowTooShort,
    /// As many nodes have failed as the Plan allows to be out.
    TooManyNodesFailed,
    NodeNotReady,
    NodeClaimedByAnother,
    JobRunning,
    /// A node takes longer than others did.
    NodeSlow,
    /// A node takes so much longer that something is probably wrong with it.
    NodeStalled,
    JobFailed,
    /// The Job has ended well; the Plan's delay after that is not over.
    Soaking,
    JobBeingDeleted,
    /// A Job of this Plan that Drover did not make is at work.
    AnotherControllerActs,
    /// The API server refuses a read or a write for lack of rights.
    NoPermission,
    /// The API server refuses or cannot do a write.
    ApiRefuses,
    /// A PodDisruptionBudget lets a pod not go.
    BudgetForbids,
    /// A pod cannot be evicted, for a reason other than a budget.
    EvictionRefused,
    /// A pod that was asked to go still ends.
    PodTerminating,
    /// A volume that no pod uses, or no longer, is still attached to the node.
    VolumeAttached,
    /// The Upgrade asks for something that cannot be done.
    UpgradeInvalid,
    /// Another Upgrade has to end first.
    AnotherUpgradeFirst,
    /// The image that holds the release is not there yet.
    ImageNotReady,
    /// The repository of the release does not serve it.
    RepositoryNotReady,
    /// What the release says of itself cannot be read, or must not be followed.
    ReleaseRefused,
    /// Images are being loaded on nodes.
    ImagesPreloading,
    /// A node has lost an image that a step needs.
    ImageMissing,
    /// A Node is not part of the upgrade, because nobody manages it.
    NodeUnmanaged,
    /// The steps of a release wait for a Node on which nothing of theirs ever runs.
    NodeUncounted,
    /// A node has joined that the upgrade does not come to.
    NodeJoined,
    /// The user has paused a node.
    NodePaused,
    /// Rancher's planner has not asked for the node yet.
    PlannerWorks,
    /// The planner does not get on with a node that it may drain.
    PlannerStalls,
    /// Another node is out.
    AnotherNodeIsOut,
    /// etcd would lose its quorum.
    QuorumAtRisk,
    /// The planner is done with a node, and its kubelet does not run the new version.
    KubeletOutdated,
    /// A node reboots into its new system.
    NodeRebooting,
    /// A volume has too few sound replicas.
    VolumeUnhealthy,
    /// VMs are on their way to other nodes.
    VmsLeaving,
    /// A system service is not at its version yet.
    ServiceNotReady,
    /// What an Upgrade has made is still being cleared away.
    CleaningUp,
}

impl Reason {
    /// Those that Upgrades add.
    pub const OF_UPGRADES: [Reason; 21] = [
        Reason::UpgradeInvalid,
        Reason::AnotherUpgradeFirst,
        Reason::ImageNotReady,
        Reason::RepositoryNotReady,
        Reason::ReleaseRefused,
        Reason::ImagesPreloading,
        Reason::ImageMissing,
        Reason::NodeUnmanaged,
        Reason::NodeUncounted,
        Reason::NodeJoined,
        Reason::NodePaused,
        Reason::PlannerWorks,
        Reason::PlannerStalls,
        Reason::AnotherNodeIsOut,
        Reason::QuorumAtRisk,
        Reason::KubeletOutdated,
        Reason::NodeRebooting,
        Reason::VolumeUnhealthy,
        Reason::VmsLeaving,
        Reason::ServiceNotReady,
        Reason::CleaningUp,
    ];

    /// The upgrade goes on without what this is about.
    pub fn holds_nothing(self) -> bool {
        matches!(self, Reason::NodeUnmanaged | Reason::NodeJoined)
    }

    /// Those of Plans, for coverage.
    pub const ALL: [Reason; 29] = [
        Reason::PlanInvalid,
        Reason::VersionUnresolved,
        Reason::ChannelFails,
        Reason::ChannelDowngrades,
        Reason::SecretNotFound,
        Reason::PlanPaused,
        Reason::OtherPlanFirst,
        Reason::ExclusivePlanActs,
        Reason::GateClosed,
        Reason::GateFails,
        Reason::ConcurrencyReached,
        Reason::WindowClosed,
        Reason::WindowTooShort,
        Reason::TooManyNodesFailed,
        Reason::NodeNotReady,
        Reason::NodeClaimedByAnother,
        Reason::JobRunning,
        Reason::NodeSlow,
        Reason::NodeStalled,
        Reason::JobFailed,
        Reason::Soaking,
        Reason::JobBeingDeleted,
        Reason::AnotherControllerActs,
        Reason::NoPermission,
        Reason::ApiRefuses,
        Reason::BudgetForbids,
        Reason::EvictionRefused,
        Reason::PodTerminating,
        Reason::VolumeAttached,
    ];
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Wait {
    /// A wait that began now.
    pub fn new(subject: Subject, reason: Reason, sentence: impl Into<String>, now: Timestamp) -> Self {
        Wait { subject, reason, sentence: sentence.into(), since: now, deadline: None, remedy: None }
    }

    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub fn with_deadline(mut self, deadline: Option<Timestamp>) -> Self {
        self.deadline = deadline;
        self
    }
}
