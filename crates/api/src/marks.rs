//! Everything that Drover writes on other people's objects: who writes it, when, and when it goes.
//!
//! A mark on a Node is temporary. It is gone when the upgrade ends, however it ends, and a mark whose owner is gone is
//! undone. A newer Drover must be able to read what an older one wrote, so a meaning never changes under its name.

/// The field manager of every write.
pub const FIELD_MANAGER: &str = "drover";

/// What all keys of ours begin with. They are never copied from a Plan to its Jobs.
pub const PREFIX: &str = "drover.dev/";

/// Annotation of a Plan: its claims, that is, the nodes that Drover may take out of service, and the leader's epoch.
///
/// The leader writes it, guarded by the Plan's resourceVersion, before it touches a node; so however many operators
/// act, they cannot claim more nodes than the Plan allows. A node's entry goes when the node is back in service.
pub const CLAIMS: &str = "drover.dev/claims";

/// Label and annotation of a Node: the claim that it is taken under.
///
/// The label holds the claim's id; every Job of ours requires it. The annotation holds, as JSON, who took the Node,
/// whether the cordon is ours, how often its Job has failed, and that it has ended while the Node is waited for. Both
/// come in the one patch that takes the Node out of service, guarded by its resourceVersion, and go in the one patch that gives it back. A cordoned Node whose
/// annotation does not say that the cordon is ours stays cordoned.
pub const NODE_CLAIM: &str = "drover.dev/claim";

/// Label and annotation of a Job: the id of the claim that it was made under.
///
/// Written when the Job is created, and never changed. Its pod runs only where the Node's label [`NODE_CLAIM`] has the
/// same value: a Job that a dead leader's request creates late never starts.
pub const JOB_CLAIM: &str = "drover.dev/claim";

/// Annotation of a Job's pod: what its drain waits for, as JSON.
///
/// The drain itself writes it while something holds it up; the operator tells it with the Plan's own waits. It goes when
/// the drain goes on, or with the pod. A drain that may not patch pods writes it on the Node that it drains, for as long
/// as that is claimed; there it goes with the claim at the latest.
pub const WAITS: &str = "drover.dev/waits";

/// Annotation of a Job: a digest of what the Plan asked for when the Job was made.
///
/// Written when the Job is created. A Job whose Plan asks for something else by now is replaced.
pub const JOB_TEMPLATE: &str = "drover.dev/template";

/// Annotation of a Node: a Plan has given up on it, and goes on with others ([`ON_FAILURE`] is [`CONTINUE`]).
///
/// It holds, as JSON, which Plan, what failed, and whether the cordon is ours. It comes when the claim ends, and goes
/// when the Node is tried again, leaves the Plan, or the Plan is deleted; a cordon of ours goes with it.
pub const NODE_FAILED: &str = "drover.dev/failed";

/// Annotation of a Node, by a person: try again now what has failed on it, whatever the value. Drover takes it away.
pub const NODE_RETRY: &str = "drover.dev/retry";

/// Annotation of a Plan, by a person: what becomes of a node whose Job fails; [`RETRY`] if it is not there.
pub const ON_FAILURE: &str = "drover.dev/on-failure";
/// The node stays claimed and is tried again, with growing pauses.
pub const RETRY: &str = "retry";
/// After the third failure the claim ends, and the Plan goes on with other nodes.
pub const CONTINUE: &str = "continue";

/// Annotation of a Plan, by a person: unless `false`, no node is started. Those at work go on.
pub const PAUSED: &str = "drover.dev/paused";

/// Annotation of a Plan, by a person: Plans, as `NAMESPACE/NAME` or `NAME`, that must be complete first. Of a TanzuKubernetesCluster or
/// a Cluster of Cluster API: others of its kind that must be as they are asked for.
pub const AFTER: &str = "drover.dev/after";

/// Annotation of a Plan, by a person: an object and an expression over it that must be true when a node is started.
pub const GATE: &str = "drover.dev/gate";

/// Annotation of a Plan, by a person: codes of what is done although Drover would rather not, separated by commas.
pub const ACCEPT: &str = "drover.dev/accept";
/// A code for [`ACCEPT`]: follow the channel to a lower version.
pub const CHANNEL_DOWNGRADE: &str = "ChannelDowngrade";

/// Annotation of a Cluster (provisioning.cattle.io), by the operator: what the Upgrade that its planner works for accepts, as in [`ACCEPT`]. It
/// is there for as long as the Upgrade asks.
pub const ACCEPTED: &str = "drover.dev/accepted";

/// Annotation of a machine-plan Secret: the version and generation that its plan is for.
///
/// The planner writes it with the plan that it delivers, and with one that it finds; it stays.
pub const PLANNED: &str = "drover.dev/planned";

/// Annotation of a Cluster (provisioning.cattle.io), or of one of its Machines, by a person: who carries out the plans of its machines,
/// [`EXECUTOR_JOB`], or [`EXECUTOR_AGENT`] as without it. What a Machine says holds for that machine.
pub const EXECUTOR: &str = "drover.dev/executor";
/// A privileged Job on the machine, with Drover's image.
pub const EXECUTOR_JOB: &str = "job";
/// The system-agent of the machine.
pub const EXECUTOR_AGENT: &str = "agent";

/// Label of a Job that carries out the plan of a machine, and of its pods: the name of the Machine.
///
/// Written when the Job is created. A Job whose machine no longer waits for it is deleted.
pub const PLAN_OF: &str = "drover.dev/machine";

/// Label of the webhook configurations that Drover registers, and of the Secret with their certificate.
pub const WEBHOOK: &str = "drover.dev/webhook";

/// Annotation of an Upgrade: how far it is, as JSON.
///
/// The leader writes it, guarded by the Upgrade's resourceVersion, before it does what follows from it: so two operators
/// cannot send two nodes on their way. Unlike the status it survives whoever writes the object without one. It stays.
///
/// On a Cluster with [`UPGRADE_TO`]: where its upgrade stands, as JSON: to which version, how it stands, a sentence, since when, until when, and what
/// would help. Two things follow from it: whether the operator looks at what the cluster is made of (once it is up to date, it does not), and how long it
/// has got nowhere, for the operator that comes next.
pub const PROGRESS: &str = "drover.dev/progress";

/// Annotation of an Upgrade, by a person: whose steps its Jobs run, [`STEPS_RELEASE`] or [`STEPS_DROVER`]. Without it the
/// release decides.
pub const STEPS: &str = "drover.dev/steps";
/// Those of the release's own upgrade image.
pub const STEPS_RELEASE: &str = "release";
pub const STEPS_DROVER: &str = "drover";

/// Annotation of an Upgrade, by a person: what serves its release, [`REPOSITORY_VM`], or a Deployment without it.
pub const REPOSITORY: &str = "drover.dev/repository";
/// A virtual machine that boots the release and serves it, as Harvester had it up to v1.6.
pub const REPOSITORY_VM: &str = "vm";

/// On an Addon whose version an Upgrade has raised: when Harvester had last been at work on it before. While it says the same, it
/// has not noticed yet.
pub const ADDON_BEFORE: &str = "drover.dev/settled-before";

/// On a ClusterRepo: for which Upgrade, and for which generation of the Deployment that serves it, Rancher was asked to read it anew.
pub const READ_FOR: &str = "drover.dev/read-for";

/// Annotation of an Upgrade, by a person: try again what has failed, whatever the value. Drover takes it away.
pub const UPGRADE_RETRY: &str = "drover.dev/retry";

/// Annotation of an Upgrade, by a person: call it off, whatever the value. The node that is at work reaches a safe state, the others
/// stay as they are. Drover takes it away.
pub const UPGRADE_ABORT: &str = "drover.dev/abort";

/// Annotation of an Upgrade that has failed, by a person: nodes, separated by commas, to go on without. Drover takes it away.
pub const UPGRADE_SKIP: &str = "drover.dev/skip";

/// Annotation of the Cluster (cluster.x-k8s.io) that Rancher's planner works on: the Upgrade that has paused it.
///
/// It comes, in one patch with `spec.paused`, when an Upgrade is called off while some nodes are new and others are not: the planner
/// would raise the others at once, without asking. It goes, with the pause, when the next Upgrade has asked the planner.
///
/// On a MachineDeployment: its pause is ours, see [`WORKERS_FAILED`].
pub const HELD: &str = "drover.dev/held";

/// Annotation of an Upgrade, by a person: [`DRIVE_ANYWAY`] lets Drover drive it although Harvester itself is at work, for somebody who
/// has switched off Harvester's own upgrade controller; the name of another controller lets Drover go on although that one has
/// written the state of the Upgrade. Names may stand there with commas between them; any other word changes nothing.
pub const DRIVE: &str = "drover.dev/drive";
/// See [`DRIVE`].
pub const DRIVE_ANYWAY: &str = "true";

/// Annotation of a Machine of a guest's control plane: what it was made for, in a few letters.
///
/// Written when the Machine is made, and never changed. A Machine that carries what is asked for was made for it.
pub const CONTROL_PLANE_DIGEST: &str = "drover.dev/control-plane";

/// Annotation of a Machine of a guest's control plane and of a template of workers: what of it was generated, as JSON, by the field.
///
/// Written when it is made. What stands there and is generated no longer is taken away; and it tells with which configuration of the cluster
/// a machine has joined. So it is also written, in one patch with the id of an update, before that tells the guest of another configuration:
/// `null` is what was not there, and goes with the id.
pub const GENERATED: &str = "drover.dev/generated";

/// Label of the ConfigMap with what an installation wants of all guest clusters, by whoever makes it, whatever the value.
pub const DEFAULTS: &str = "drover.dev/guest-defaults";

/// Annotation of a Machine of a guest's control plane: why an update has given up on it, in a sentence.
///
/// The next try makes another machine in its place, unless it is well by then; it goes with the Machine, or when that is well.
pub const MACHINE_FAILED: &str = "drover.dev/failed";

/// Annotation of a Node of a guest's control plane: the machine that is about to go, for which update, and why it has not yet, in a sentence.
///
/// It comes in the one patch that cordons the Node, before that is drained, guarded by its resourceVersion; a Node that somebody has cordoned
/// before does not get it. It goes with the Node, or, with the cordon, when its machine is to stay after all.
pub const NODE_LEAVES: &str = "drover.dev/leaves";

/// Annotation of a Job that updates a guest's control plane: the cluster that it is for, as `NAMESPACE/NAME/UID`.
///
/// Written when the Job is created. All of these Jobs are in one namespace, where a label alone does not tell whose they are.
pub const GUEST: &str = "drover.dev/guest";

/// Finalizer of a TanzuKubernetesCluster while a Job updated its control plane. It is taken off: that of the kind says as much, and stays.
pub const UPDATE_FINALIZER: &str = "drover.dev/control-plane-update";

/// Annotation of a TanzuKubernetesCluster whose cluster Drover makes: the distribution that it is made in, in full, and
/// [`CREATION_DONE`] once it is there.
///
/// It comes, guarded by the resourceVersion, before anything is made, and stays: a cluster that was there once and is gone is never made
/// anew.
pub const CREATION: &str = "drover.dev/creation";
/// For [`CREATION`].
pub const CREATION_DONE: &str = "done";

/// Annotation of a Job that updates a guest's control plane: it was let begin.
///
/// Where the number of clusters at work is limited, a Job is made without pods. This comes in the one patch that lets it have its pod,
/// guarded by its resourceVersion, while the cluster holds its place; so a Job that a dead leader's request makes late does nothing.
pub const BEGUN: &str = "drover.dev/begun";

/// Annotation of a Job that updates a guest's control plane: why it was kept from starting, in a sentence.
///
/// It comes, where the number of clusters at work is limited, in the one patch that takes the Job's pods away, when none of them has started
/// in time: the place goes to another cluster. It goes with the Job, which whoever wants another try deletes.
pub const JOB_FAILED: &str = "drover.dev/failed";

/// Annotation of a Job that has updated a guest's control plane: nothing differed any more when it had ended.
///
/// It stays. What differs afterwards, such as a Machine that is lost, is for another Job, and this one makes way for it.
pub const SETTLED: &str = "drover.dev/settled";

/// Label of the ConfigMap whose annotation [`CLAIMS`] says, as JSON, which guest clusters are updated now.
///
/// It is changed only with its resourceVersion. A cluster's entry goes when the cluster is as it is asked for, or has halted.
pub const PLACES: &str = "drover.dev/places";

/// Annotation of a MachineDeployment: the place of its cluster that was given back by another process than the one that took it.
///
/// It changes the MachineDeployment's resourceVersion, so that what the other one may still have under way meets a conflict. It stays.
pub const FENCED: &str = "drover.dev/fenced";

/// Annotation of a MachineDeployment: what its Machines were made of before the last change, as `VERSION TEMPLATE TEMPLATE`.
///
/// It comes in the one patch that points the MachineDeployment at other templates, and stays.
pub const LAST_GOOD: &str = "drover.dev/last-good";

/// Annotation of a MachineDeployment: the rollout of its workers got nowhere; as JSON, what was rolled out, and why.
///
/// It comes with a pause of the MachineDeployment that [`HELD`] marks as ours. A person who takes it away wants another try; it also
/// goes when something else is asked for.
pub const WORKERS_FAILED: &str = "drover.dev/failed";

/// Annotation of a Cluster of Cluster API, by a person: the version of Kubernetes that an operator raises it to, its control plane first. It
/// stays.
pub const UPGRADE_TO: &str = "drover.dev/upgrade-to";

/// Annotation of a Cluster of Cluster API: a new Machine of its upgrade has failed; as JSON, which ones have, and why.
///
/// It comes in the one patch that pauses the Cluster (`spec.paused`), guarded by its resourceVersion. A person who resumes the Cluster leaves
/// it there: it is not halted for these Machines again. It goes when every Machine is of the version.
pub const CLUSTER_FAILED: &str = "drover.dev/failed";

/// Annotation of a TanzuKubernetesCluster, by a person: another value has the guest asked once more, and what differs there put back. It stays.
pub const RECONCILE: &str = "drover.dev/reconcile";

/// For [`ON_FAILURE`] on a TanzuKubernetesCluster: workers whose rollout got nowhere go back to what they were before.
pub const RETURN: &str = "return";

/// Label of an object on a guest cluster: the add-on that it belongs to. Written with the object; what an add-on no longer contains is
/// deleted only if it carries it.
pub const ADDON: &str = "drover.dev/addon";

/// Annotation of an object of an add-on: a digest of what was applied. Another one has to be applied.
pub const ADDON_DIGEST: &str = "drover.dev/addon-digest";

/// The ConfigMap on a guest cluster, in `kube-system`, that remembers what was applied for each add-on, and in which distribution. Written
/// before the objects are; without it nothing is ever deleted.
pub const ADDONS_APPLIED: &str = "drover-addons";

/// What the name of the Secret ends with that keeps a copy of a guest cluster's certificates. It belongs to the Cluster, and stays.
pub const CERTIFICATES_BACKUP: &str = "-drover-certificates";

/// Label of that Secret: the name of the Cluster. It does not carry Cluster API's own, by which people look for the certificates themselves.
pub const CERTIFICATES_OF: &str = "drover.dev/certificates-of";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_ours_begin_alike() {
        let claims = [CLAIMS, NODE_CLAIM, JOB_CLAIM, JOB_TEMPLATE, NODE_FAILED, NODE_RETRY, WAITS];
        let ours = [
            ON_FAILURE,
            PAUSED,
            AFTER,
            GATE,
            ACCEPT,
            ACCEPTED,
            PLANNED,
            PROGRESS,
            STEPS,
            DRIVE,
            WEBHOOK,
            CONTROL_PLANE_DIGEST,
        ];
        let ours = ours.into_iter().chain([GUEST, UPDATE_FINALIZER, LAST_GOOD, WORKERS_FAILED, ADDON, ADDON_DIGEST]);
        let ours = ours.chain([
            EXECUTOR,
            RECONCILE,
            PLAN_OF,
            HELD,
            UPGRADE_RETRY,
            UPGRADE_ABORT,
            UPGRADE_SKIP,
            REPOSITORY,
            CERTIFICATES_OF,
            BEGUN,
            JOB_FAILED,
            SETTLED,
            PLACES,
            FENCED,
            NODE_LEAVES,
            UPGRADE_TO,
            CLUSTER_FAILED,
        ]);
        for key in claims.into_iter().chain(ours) {
            assert!(key.starts_with(PREFIX), "{key}");
        }
    }
}
