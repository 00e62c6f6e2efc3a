//! What comes next, and what is waited for.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::decision::Act;

/// Which of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Side {
    Management,
    Guest,
}

/// One object of either cluster: `Machine/default/my-tkc-control-plane-abcde`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    pub side: Side,
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Object {
    /// Of an object that was read.
    pub fn of(side: Side, value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Object {
            side,
            api_version: text(&value["apiVersion"]),
            kind: text(&value["kind"]),
            namespace: text(&value["metadata"]["namespace"]),
            name: text(&value["metadata"]["name"]),
        }
    }

    /// The path of its collection. Kinds of Cluster API and its providers have the plurals that its contract asks for.
    pub fn collection(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let plural = format!("{}s", self.kind.to_lowercase());
        match self.namespace.as_str() {
            "" => format!("/{root}/{}/{plural}", self.api_version),
            namespace => format!("/{root}/{}/namespaces/{namespace}/{plural}", self.api_version),
        }
    }

    /// As kubectl is asked for it: `-n default machine my-tkc-control-plane-abcde`.
    pub fn arguments(&self) -> String {
        let kind = self.kind.to_lowercase();
        match self.namespace.as_str() {
            "" => format!("{kind} {}", self.name),
            namespace => format!("-n {namespace} {kind} {}", self.name),
        }
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.kind, self.name),
        }
    }
}

/// One change of one object, guarded by what it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub object: Object,
    pub act: Act,
    /// What it is for, in a few words, for the log.
    pub purpose: &'static str,
}

/// What is done, each as often as it is asked for without harm.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    Write(Box<Write>),
    /// The node of a machine that goes is emptied while everything still runs on it.
    Drain {
        node: String,
        machine: Object,
        /// Nobody there would end a pod.
        is_silent: bool,
    },
    MoveLeader {
        from: u64,
        to: u64,
        name: String,
    },
    RemoveMember {
        id: u64,
        name: String,
    },
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// One after the other; the first that fails ends it, and everything is looked at again.
    Act(Vec<Deed>),
    /// Until something changes, or `look_again`.
    Wait {
        waits: Vec<Wait>,
        look_again: Option<Timestamp>,
    },
    /// It cannot be decided without the members of etcd as they are now.
    AskEtcd,
    Done,
    Fail(Failure),
}

/// Why it cannot go on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub reason: Reason,
    pub sentence: String,
    /// What would help.
    pub remedy: String,
    /// What whoever tries again should know, written before this try ends.
    #[serde(skip)]
    pub note: Option<Box<Write>>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.sentence, self.remedy)
    }
}

/// The only way to say 'not yet'.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    pub object: Object,
    pub reason: Reason,
    pub sentence: String,
    pub since: Timestamp,
    /// When it fails.
    pub deadline: Timestamp,
    /// What helps if it does not pass by itself.
    pub remedy: String,
}

/// Why something waits or fails. The names are part of the interface: scripts compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// There is no such Cluster, or nothing that belongs to a control plane.
    NothingToUpdate,
    /// Its owner has paused it: Cluster API does nothing that is asked of it.
    ClusterPaused,
    /// Another controller replaces these Machines.
    AnotherControllerActs,
    /// The version is lower, or further up than Kubernetes allows.
    VersionRefused,
    /// A certificate Secret is missing or cannot be read.
    CertificatesMissing,
    /// A certificate is not the one that the cluster was made with, and nothing shows that somebody has meant that.
    CertificatesChanged,
    /// A Machine cannot be copied.
    MachineIncomplete,
    /// A patch does not apply.
    PatchRefused,
    /// The ConfigMaps of kubeadm are not as they should be.
    KubeadmConfigInvalid,
    /// The API of the guest cluster does not answer.
    GuestUnreachable,
    /// etcd does not say how its members are.
    EtcdUnreachable,
    /// A member of etcd is not well.
    EtcdUnhealthy,
    /// A member of etcd does not vote yet.
    EtcdLearner,
    /// etcd would lose its quorum.
    QuorumAtRisk,
    /// The machine does not run yet.
    MachineProvisioning,
    /// The machine says that it has failed.
    MachineFailed,
    NodeMissing,
    /// kubeadm has not marked the Node as one of the control plane.
    NodeNotMarked,
    NodeNotReady,
    /// A part of the control plane is not well on the new machine.
    ComponentsNotReady,
    /// A Machine is on its way out.
    MachineDeleting,
}

impl Reason {
    /// What helps if this does not pass by itself. Whoever tries again goes on from there.
    pub(super) fn remedy(self, object: &Object) -> String {
        let look = match object.side {
            Side::Management => format!("kubectl describe {}", object.arguments()),
            Side::Guest => format!("in the guest cluster: kubectl describe {}", object.arguments()),
        };
        match self {
            Reason::GuestUnreachable => {
                "see that the address in the Secret …-kubeconfig leads to an API server that runs".to_owned()
            }
            Reason::EtcdUnreachable | Reason::EtcdUnhealthy | Reason::EtcdLearner | Reason::QuorumAtRisk => {
                "in the guest cluster: kubectl -n kube-system logs -l component=etcd; mend the member that is not well"
                    .to_owned()
            }
            Reason::MachineProvisioning | Reason::NodeMissing | Reason::MachineFailed => {
                format!("{look}, and what stands behind it: quota, image, class, what it says on its console")
            }
            Reason::ComponentsNotReady => "in the guest cluster: kubectl -n kube-system get pods -o wide".to_owned(),
            Reason::NodeNotMarked => format!("{look}; label it by hand if kubeadm has broken off"),
            Reason::MachineDeleting => format!("{look}: a budget that holds its drain up, a volume, a finalizer"),
            _ => look,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_says_what_helps_on_the_side_that_its_object_is_on() {
        let object = |side: Side| {
            let value = serde_json::json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" } });
            Object::of(side, &value)
        };
        let said = |reason: Reason| reason.remedy(&object(Side::Guest));
        let look = "in the guest cluster: kubectl describe node n1";
        assert_eq!(said(Reason::NodeNotReady), look);
        assert_eq!(Reason::NodeNotReady.remedy(&object(Side::Management)), "kubectl describe node n1");
        assert_eq!(said(Reason::NodeNotMarked), format!("{look}; label it by hand if kubeadm has broken off"));
        let stuck = format!("{look}: a budget that holds its drain up, a volume, a finalizer");
        assert_eq!(said(Reason::MachineDeleting), stuck);
        let behind = format!("{look}, and what stands behind it: quota, image, class, what it says on its console");
        for reason in [Reason::MachineProvisioning, Reason::NodeMissing, Reason::MachineFailed] {
            assert_eq!(said(reason), behind);
        }
        let etcd =
            "in the guest cluster: kubectl -n kube-system logs -l component=etcd; mend the member that is not well";
        for reason in [Reason::EtcdUnreachable, Reason::EtcdUnhealthy, Reason::EtcdLearner, Reason::QuorumAtRisk] {
            assert_eq!(said(reason), etcd);
        }
        let address = "see that the address in the Secret …-kubeconfig leads to an API server that runs";
        assert_eq!(said(Reason::GuestUnreachable), address);
        let pods = "in the guest cluster: kubectl -n kube-system get pods -o wide";
        assert_eq!(said(Reason::ComponentsNotReady), pods);
    }
}
