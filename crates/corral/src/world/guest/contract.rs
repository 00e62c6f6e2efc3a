//! What differs between the versions of Cluster API that machines are described in: where data to boot with is, how phases are written,
//! where a failure is said, and what conditions there are.
//!
//! A kind has the same fields here in either version; those that a version does not know stay empty. Which one an object is of
//! follows from its own `apiVersion`.

use drover_api::cluster_api::machine::annotations::{DELETE_FIRST, DELETE_FIRST_V1ALPHA2};
use drover_api::cluster_api::machine::{MachineStatus, conditions};
use drover_api::cluster_api::machine_deployment::annotations as revisions;
use drover_api::cluster_api::{BOOTSTRAP_GROUP, GROUP, secrets};
use drover_api::foreign::LooseCondition;
use jiff::Timestamp;

use crate::world::loose;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contract {
    /// As the guest clusters of vSphere 7 have it.
    #[default]
    V1alpha2,
    /// As Cluster API has it since 1.0.
    V1beta1,
}

impl Contract {
    pub fn of(api_version: &str) -> Self {
        if api_version.ends_with("/v1alpha2") { Contract::V1alpha2 } else { Contract::V1beta1 }
    }

    pub fn version(self) -> &'static str {
        match self {
            Contract::V1alpha2 => "v1alpha2",
            Contract::V1beta1 => "v1beta1",
        }
    }

    pub fn api_version(self) -> String {
        format!("{GROUP}/{}", self.version())
    }

    pub fn bootstrap_api_version(self) -> String {
        format!("{BOOTSTRAP_GROUP}/{}", self.version())
    }

    /// A version of Kubernetes, given without `v`, as Machines hold it.
    pub fn kubernetes(self, version: &str) -> String {
        match self {
            Contract::V1alpha2 => version.to_owned(),
            Contract::V1beta1 => format!("v{version}"),
        }
    }

    pub fn phase(self, phase: &str) -> String {
        match self {
            Contract::V1alpha2 => phase.to_lowercase(),
            Contract::V1beta1 => phase.to_owned(),
        }
    }

    /// The value of the label of Machines of a control plane.
    pub fn role(self) -> &'static str {
        match self {
            Contract::V1alpha2 => "true",
            Contract::V1beta1 => "",
        }
    }

    /// Of Secrets that belong to a cluster.
    pub fn secret_type(self) -> &'static str {
        match self {
            Contract::V1alpha2 => "Opaque",
            Contract::V1beta1 => secrets::TYPE,
        }
    }

    /// On a Machine of a set: it goes first.
    pub fn delete_first(self) -> &'static str {
        match self {
            Contract::V1alpha2 => DELETE_FIRST_V1ALPHA2,
            Contract::V1beta1 => DELETE_FIRST,
        }
    }

    /// On a set: which template of its deployment it is.
    pub fn revision(self) -> &'static str {
        match self {
            Contract::V1alpha2 => revisions::REVISION_V1ALPHA2,
            Contract::V1beta1 => revisions::REVISION,
        }
    }

    /// On a set: how many Machines its deployment wants, and may have at most.
    pub fn sizes(self) -> [&'static str; 2] {
        match self {
            Contract::V1alpha2 => [revisions::DESIRED_REPLICAS_V1ALPHA2, revisions::MAX_REPLICAS_V1ALPHA2],
            Contract::V1beta1 => [revisions::DESIRED_REPLICAS, revisions::MAX_REPLICAS],
        }
    }

    pub fn has_failed(self, status: &MachineStatus) -> bool {
        match self {
            Contract::V1alpha2 => status.error_reason.is_some() || status.error_message.is_some(),
            Contract::V1beta1 => status.failure_reason.is_some() || status.failure_message.is_some(),
        }
    }

    /// A Machine says that it has failed for good.
    pub fn fail(self, status: &mut MachineStatus, reason: String, message: Option<String>) {
        match self {
            Contract::V1alpha2 => (status.error_reason, status.error_message) = (Some(reason), message),
            Contract::V1beta1 => (status.failure_reason, status.failure_message) = (Some(reason), message),
        }
    }

    /// How far a Machine is, where that is said by conditions.
    pub fn describe(self, status: &mut MachineStatus, now: Timestamp) {
        if self == Contract::V1alpha2 {
            return;
        }
        let is_booted = status.bootstrap_ready == Some(true);
        let has_infrastructure = status.infrastructure_ready == Some(true);
        let is_node = status.node_ref.is_some();
        let [_, bootstrap] = conditions::BOOTSTRAP_READY;
        let said = [
            (bootstrap, is_booted, "WaitingForDataSecret"),
            (conditions::INFRASTRUCTURE_READY, has_infrastructure, "WaitingForInfrastructure"),
            (conditions::NODE_HEALTHY, is_node, "WaitingForNodeRef"),
            (drover_api::cluster_api::conditions::READY, is_booted && has_infrastructure, "WaitingForInfrastructure"),
        ];
        for (type_, is_true, reason) in said {
            tell(status, type_, (!is_true).then_some((reason, "")), now);
        }
    }
}

/// Sets a condition: true, or false for a reason.
pub fn tell(status: &mut MachineStatus, type_: &str, trouble: Option<(&str, &str)>, now: Timestamp) {
    let all = status.conditions.get_or_insert_default();
    let said = LooseCondition {
        type_: type_.to_owned(),
        status: if trouble.is_none() { "True" } else { "False" }.to_owned(),
        reason: trouble.map(|(reason, _)| reason.to_owned()),
        message: trouble.map(|(_, message)| message.to_owned()).filter(|message| !message.is_empty()),
        last_transition_time: Some(loose::text(now)),
        ..LooseCondition::default()
    };
    match all.iter_mut().find(|one| one.type_ == type_) {
        Some(known) if known.status == said.status => {
            (known.reason, known.message) = (said.reason, said.message);
        }
        Some(known) => *known = said,
        None => all.push(said),
    }
}
