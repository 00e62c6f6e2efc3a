//! The update of a TanzuKubernetesCluster: what its owner asks for is compared with what there is, and what differs is rolled out,
//! add-ons before the control plane, and that before the workers. One that is new is made first ([`creation`]).
//!
//! [`decide`] sees objects of the management cluster, and what [`addons`] tells of the guest. The control plane is updated by a Job, which runs
//! `drover control-plane-upgrade`; workers by pointing their MachineDeployment at new templates. What differs is said in the
//! status before anything is done about it. A rollout of workers that gets nowhere is halted, and can be taken back.

pub mod addons;
pub mod between;
mod classes;
mod control_plane;
mod creation;
mod decide;
mod defaults;
mod difference;
mod distribution;
mod job;
mod leaving;
pub mod places;
mod pods;
mod publish;
mod rollout;
pub mod verbs;
mod wanted;
mod watched;
mod workers;

#[cfg(test)]
mod tests;

pub use decide::{decide, forsaken, order_of_addons, standing};
pub(crate) use distribution::Parts;
pub use job::Settings;
pub use watched::{Spent, Watched};

use std::collections::BTreeMap;

use drover_api::cluster_api::labels;
use drover_api::cluster_api::secrets::KUBECONFIG;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::seen::{Collection, Seen};
use super::view::time;
use super::wait::{Object, Side, Write};

/// Everything one decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The TanzuKubernetesCluster.
    pub tkc: &'a Value,
    /// What is in its namespace.
    pub own: &'a Seen,
    /// What is in no namespace: the images and the classes.
    pub global: &'a Seen,
    /// What is where the Jobs are.
    pub system: &'a Seen,
    /// Of the guest, which Nodes are ready; none if it was not asked, or does not answer.
    pub nodes: Option<&'a BTreeMap<String, bool>>,
    /// The ClusterConfiguration that its machines join with; none as long as it has not told.
    pub configuration: Option<&'a Value>,
    /// What became of its add-ons; none if it was not asked yet.
    pub addons: Option<&'a addons::Told>,
    /// Who is updated now, where that is limited.
    pub places: Option<places::Places<'a>>,
    /// The clusters that come before this one.
    pub after: &'a [between::Predecessor],
    pub settings: &'a Settings,
    /// What whoever looks has counted so far, and what its steady clock shows.
    pub watched: &'a Watched,
    pub steady: Timestamp,
    /// What is written down: nothing is measured by it, since anybody can set it.
    pub now: Timestamp,
}

/// What to do, one after the other until one fails; what is waited for; when to look again if nothing changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub writes: Vec<Write>,
    pub waits: Vec<Wait>,
    /// By the steady clock.
    pub look_again: Option<Timestamp>,
    /// What is counted until the next decision.
    pub watched: Watched,
    /// The guest is to be asked for other add-ons than it was.
    pub asks_guest: bool,
    /// The guest is to be asked again after a while: what is waited for is seen there alone.
    pub asks_again: bool,
}

/// Why something does not happen yet, or at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    pub subject: Object,
    pub reason: Reason,
    pub sentence: String,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
    /// Where it may not last for ever.
    pub spent: Option<Spent>,
    pub remedy: Option<String>,
}

/// What was found, or what speaks against it.
type Held<T> = Result<T, Box<Wait>>;

/// Why something waits or has stopped. The names are part of the interface: scripts compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// It is being deleted, and something of it is still there.
    ClusterLeaves,
    /// Cluster API has no such Cluster, and it is not new.
    ClusterMissing,
    /// A Machine of a control plane that is made is not there yet.
    ControlPlaneComing,
    /// A Machine of a cluster that is made did not come.
    CreationFailed,
    /// No image is of the version, or the version contradicts itself.
    VersionUnknown,
    /// The version is lower, or further up than Kubernetes allows.
    VersionRefused,
    /// The image does not tell what it holds.
    ImageInvalid,
    /// What the installation wants of all clusters cannot be read.
    DefaultsInvalid,
    /// Something is asked for that no new machine can change.
    CannotChange,
    /// The guest has not told yet with which configuration its machines join.
    ConfigurationUnknown,
    /// There is no class, or no storage class, that machines are to be made by.
    ClassMissing,
    /// The control plane must have an odd number of machines.
    CountRefused,
    /// The number of machines of a control plane is changed later.
    CountDiffers,
    /// A Machine cannot be compared with what is asked for.
    MachineIncomplete,
    /// An add-on is not applied in its version.
    AddonsNotApplied,
    /// As many clusters are updated as may be at once.
    AnotherClusterFirst,
    /// Its owner has paused it.
    ClusterPaused,
    /// It comes after a cluster that is not done.
    PredecessorFirst,
    /// The order between clusters names one that is not there, or goes in a circle.
    OrderRefused,
    /// What add-ons no longer contain stays for the sake of a Node.
    OldNodesLeft,
    /// Workers are too old for the version of the control plane.
    WorkersTooOld,
    ControlPlaneUpdating,
    /// The pod of the Job that updates the control plane does not start.
    JobNotStarted,
    ControlPlaneUpdateFailed,
    /// The control plane is not as far as the workers are to be.
    ControlPlaneFirst,
    /// There is not the one MachineDeployment that workers belong to.
    WorkersUnclear,
    /// Somebody has paused the MachineDeployment.
    WorkersPaused,
    WorkersRolling,
    MachineProvisioning,
    MachineDeleting,
    NodeNotReady,
    MachinesNotMade,
    /// The workers did not get there, and wait for a person.
    WorkersFailed,
}

impl Reason {
    /// An update that has begun goes on only after a person has done something.
    pub(crate) fn stops(self) -> bool {
        self.remedy().is_some()
    }

    /// Only a person ends it, also where that is no failure of an update.
    pub(crate) fn needs_somebody(self) -> bool {
        let of_people = [Reason::ClusterMissing, Reason::ClusterPaused, Reason::WorkersPaused, Reason::CannotChange];
        self.stops() || of_people.contains(&self)
    }

    /// What that person can do, where the wait itself does not know better: nothing stops without a remedy.
    fn remedy(self) -> Option<&'static str> {
        match self {
            Reason::VersionUnknown => Some("ask for a version of: kubectl get virtualmachineimages"),
            Reason::VersionRefused => Some("ask for another version"),
            Reason::ImageInvalid => Some("synchronise the content library again, or ask for another version"),
            Reason::DefaultsInvalid => Some("mend the ConfigMap that it names"),
            Reason::ClassMissing => Some("ask for a class that is there, or have this one made"),
            Reason::CountRefused => Some("ask for an odd number of machines"),
            Reason::MachineIncomplete => Some("bring back what is missing, or delete what refers to it"),
            Reason::CreationFailed => Some("look at the Machine that it names; deleted, it is made again"),
            Reason::OrderRefused => Some("mend the annotation drover.dev/after"),
            Reason::WorkersTooOld => Some("bring the workers to the version before first"),
            Reason::ControlPlaneUpdateFailed => Some("look at the Job that it names; deleted, another try begins"),
            Reason::WorkersUnclear => Some("leave one MachineDeployment with the label of the cluster"),
            Reason::WorkersFailed => Some("look at the Machines of the MachineDeployment that it names"),
            Reason::ClusterLeaves
            | Reason::ClusterMissing
            | Reason::ControlPlaneComing
            | Reason::CannotChange
            | Reason::ConfigurationUnknown
            | Reason::CountDiffers
            | Reason::AddonsNotApplied
            | Reason::AnotherClusterFirst
            | Reason::ClusterPaused
            | Reason::PredecessorFirst
            | Reason::OldNodesLeft
            | Reason::ControlPlaneUpdating
            | Reason::JobNotStarted
            | Reason::ControlPlaneFirst
            | Reason::WorkersPaused
            | Reason::WorkersRolling
            | Reason::MachineProvisioning
            | Reason::MachineDeleting
            | Reason::NodeNotReady
            | Reason::MachinesNotMade => None,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl<'a> View<'a> {
    fn name(&self) -> &'a str {
        self.tkc["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn namespace(&self) -> &'a str {
        self.tkc["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// `NAMESPACE/NAME`
    fn key(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    fn uid(&self) -> &'a str {
        self.tkc["metadata"]["uid"].as_str().unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.tkc["metadata"]["annotations"][key].as_str()
    }

    fn object(&self) -> Object {
        Object::of(Side::Management, self.tkc)
    }

    fn kubeconfig(&self) -> Object {
        Object {
            side: Side::Management,
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: self.namespace().to_owned(),
            name: format!("{}{KUBECONFIG}", self.name()),
        }
    }

    fn cluster(&self) -> Option<&'a Value> {
        self.own.get(Collection::Clusters, self.name())
    }

    /// Machines of this cluster, those of its control plane or the others.
    fn machines(&self, of_control_plane: bool) -> impl Iterator<Item = &'a Value> {
        let name = self.name();
        let is_one = move |machine: &&Value| {
            let all = &machine["metadata"]["labels"];
            all[labels::CLUSTER_NAME] == name && all[labels::CONTROL_PLANE].is_string() == of_control_plane
        };
        self.own.all(Collection::Machines).filter(is_one)
    }

    /// A wait that began when it was first published, or now.
    fn wait(&self, subject: Object, reason: Reason, sentence: impl Into<String>) -> Wait {
        let known = self.published(&subject, reason);
        let since = known.and_then(|wait| time(&wait["since"])).unwrap_or(self.now);
        let remedy = reason.remedy().map(str::to_owned);
        Wait { subject, reason, sentence: sentence.into(), since, deadline: None, spent: None, remedy }
    }
}

impl Wait {
    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// An object names this one among its owners: by its uid, since another one may have had the name.
fn belongs_to(object: &Value, owner: &Value) -> bool {
    owners(object).any(|one| one["uid"] == owner["metadata"]["uid"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
