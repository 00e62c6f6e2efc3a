//! How a scenario tells the simulated machines what to do: annotations on Nodes and on pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::scheduler::amounts::amount;

/// On a Node: `simulated` gives it a kubelet of this world. Other Nodes are left alone.
pub const KUBELET: &str = "corral.drover.dev/kubelet";
pub const SIMULATED: &str = "simulated";

/// On a pod (from its Job's template): how long its containers run, such as `30s`, or `never` to hang. With a
/// container's name appended (`corral.drover.dev/duration.prepare`) it means that container alone.
pub const DURATION: &str = "corral.drover.dev/duration";
/// On a pod: the exit code of its containers; with `.<container>` appended, of that one.
pub const EXIT_CODE: &str = "corral.drover.dev/exit-code";

/// On a pod: from the start of its containers to their readiness, such as `5s`, or `never`. Without it the delay of a
/// readiness probe counts, if there is one.
pub const READY_AFTER: &str = "corral.drover.dev/ready-after";
/// On a pod: how long its containers take to end after they were told to, such as `20s`, or `never` to be killed.
pub const STOP_DURATION: &str = "corral.drover.dev/stop-duration";
/// On a pod: how long its preStop hooks take, before the containers are told.
pub const PRE_STOP: &str = "corral.drover.dev/pre-stop";
/// On a pod: what its containers leave as their last words when they fail (the termination message).
pub const LAST_WORDS: &str = "corral.drover.dev/last-words";
/// On a pod: what a container prints when it starts.
pub const LOG: &str = "corral.drover.dev/log";

/// On a Job: when a pod of it failed last. The world writes it, since the pod may be gone before its back-off ends.
pub const LAST_FAILURE: &str = "corral.drover.dev/last-failure";

/// On a Node: the same for every container that a Job runs there. It wins over what the pod says, so that a
/// scenario can make one node slow or faulty.
pub const JOB_DURATION: &str = "corral.drover.dev/job-duration";
pub const JOB_EXIT_CODE: &str = "corral.drover.dev/job-exit-code";

/// On a pod or a Node: how long the machine is away after an upgrade has succeeded there, such as `20s`, or `never` if it
/// does not come back.
pub const REBOOT: &str = "corral.drover.dev/reboot";
/// On a Node: it goes down once more when it has been back for this long. The world takes it off then.
pub const REBOOT_AGAIN: &str = "corral.drover.dev/reboot-again";
/// On a Node: `silent` for a machine that goes away without a word, so that its Node stays Ready until its Lease lapses.
pub const SHUTDOWN: &str = "corral.drover.dev/shutdown";
pub const SILENT: &str = "silent";

/// On a Node: the machine is switched off until this moment, or for ever with `never`, and has booted anew when it is
/// back. The world sets it for the reboots it makes; whoever else sets it takes the machine away.
pub const DOWN_UNTIL: &str = "corral.drover.dev/down-until";
pub const NEVER: &str = "never";

/// On a pod: the version that its machine's kubelet has when the pod has succeeded. Without it a pod with a container
/// `upgrade` leaves the version that its environment or its label names, in the form of a kubelet's.
pub const KUBELET_VERSION: &str = "corral.drover.dev/kubelet-version";
/// On a pod: the operating system that its machine has when the pod has succeeded.
pub const OS_IMAGE: &str = "corral.drover.dev/os-image";
/// On a Node: `true` for a machine on which upgrades succeed and change nothing.
pub const KEEPS_VERSION: &str = "corral.drover.dev/keeps-version";

/// On a Node: `never` for a machine whose kubelet is not restarted when another version is installed: it runs the old one until the
/// annotation goes, or the machine boots.
pub const KUBELET_RESTART: &str = "corral.drover.dev/kubelet-restart";
/// On a Node: the version that is installed and does not run. The world writes it.
pub const INSTALLED_VERSION: &str = "corral.drover.dev/installed-version";

/// On a pod or a Node: images that cannot be pulled, separated by commas, or `*` for all.
pub const MISSING_IMAGES: &str = "corral.drover.dev/missing-images";

/// On a Node: the size of its disk, such as `100Gi`. Only a machine with a disk keeps a list of images, collects them,
/// and comes under pressure.
pub const DISK: &str = "corral.drover.dev/disk";
/// On a Node: how much of its disk is used by what is neither image nor pod. On a pod: how much it uses.
pub const DISK_USED: &str = "corral.drover.dev/disk-used";
/// On a pod: the size of its containers' images; with `.<container>` appended, of that one's.
pub const IMAGE_SIZE: &str = "corral.drover.dev/image-size";

/// On a VirtualMachineInstance (from its machine's template): how long its memory is copied, such as `30s`, or `never`.
pub const MIGRATION_DURATION: &str = "corral.drover.dev/migration-duration";
/// On a VirtualMachineInstance: `true` for one whose migrations fail when the copying ends.
pub const MIGRATION_FAILS: &str = "corral.drover.dev/migration-fails";

/// On a Volume: how long a replica of it is rebuilt, such as `1m`, or `never`.
pub const REBUILD_DURATION: &str = "corral.drover.dev/rebuild-duration";
/// On a Replica: since when it is rebuilt. The world writes it.
pub const REBUILDING_SINCE: &str = "corral.drover.dev/rebuilding-since";

/// On the infrastructure of a guest's Machine, or on the VirtualMachineImage that it is made of: how long it takes until its
/// virtual machine runs, such as `1m`, or `never`.
pub const PROVISIONING_DURATION: &str = "corral.drover.dev/provisioning-duration";
/// On the same, or on the VirtualMachineImage that it is made of: why its virtual machine can never be made, in a sentence.
pub const PROVISIONING_FAILS: &str = "corral.drover.dev/provisioning-fails";
/// The same: how long it takes until it is gone. On a Machine, `never` for one that does not go.
pub const DELETION_DURATION: &str = "corral.drover.dev/deletion-duration";
/// On the infrastructure of a guest's Machine: [`DIES`] for one on which kubeadm dies between adding a member to etcd and starting it.
pub const JOIN: &str = "corral.drover.dev/join";
pub const DIES: &str = "dies";
/// On a Cluster of Cluster API: `away` while the API of the guest cluster cannot be reached, [`SILENT`] while it takes requests and answers
/// none.
pub const WORKLOAD_API: &str = "corral.drover.dev/workload-api";
pub const AWAY: &str = "away";
/// On a Cluster of Cluster API: `refused` while the guest's etcd lets no member go.
pub const MEMBER_REMOVAL: &str = "corral.drover.dev/member-removal";
pub const REFUSED: &str = "refused";

/// On an RKEControlPlane: what Rancher does wrong, separated by commas: `stale-annotations`, `no-limit`, `silent`.
pub const WEDGES: &str = "corral.drover.dev/wedges";
/// On a Machine of Cluster API: `true` for one that nobody keeps up to date any more.
pub const STALE: &str = "corral.drover.dev/stale";
/// On a Node: `absent` for a machine on which no agent of Rancher runs.
pub const SYSTEM_AGENT: &str = "corral.drover.dev/system-agent";
/// On a Node: how long its agent takes to carry out a plan, such as `1m`, or `never`.
pub const PLAN_DURATION: &str = "corral.drover.dev/plan-duration";
/// On a Node: `true` for a machine on which plans fail.
pub const PLAN_FAILS: &str = "corral.drover.dev/plan-fails";
/// On a Node: the probes that are never well there, separated by commas.
pub const UNHEALTHY_PROBES: &str = "corral.drover.dev/unhealthy-probes";
/// On a plan Secret: since when its node is drained, and since when its agent is at work on which plan. The world writes them.
pub const DRAINING_SINCE: &str = "corral.drover.dev/draining-since";
pub const APPLYING_SINCE: &str = "corral.drover.dev/applying-since";

/// On a VirtualMachineImage: how long its import takes, such as `1m`, or `never` to stall.
pub const IMPORT_DURATION: &str = "corral.drover.dev/import-duration";
/// On a VirtualMachineImage: `true` for one whose import fails in the end, or the words with which it does.
pub const IMPORT_FAILS: &str = "corral.drover.dev/import-fails";
/// On the KubeVirt that is installed: the version of its operator, which raises it to that.
pub const OPERATOR_VERSION: &str = "corral.drover.dev/operator-version";
/// On a Bundle of Fleet or an Addon: how long it takes to be deployed, such as `1m`, or `never`; on the KubeVirt that is installed, how long
/// it takes to be raised.
pub const CHART_DURATION: &str = "corral.drover.dev/chart-duration";
/// On a ClusterRepo: the words with which its downloads fail.
pub const DOWNLOAD_FAILS: &str = "corral.drover.dev/download-fails";
/// On a ClusterRepo: of which version the charts are that were downloaded last. The world writes it.
pub const INDEXED: &str = "corral.drover.dev/indexed";
/// On the newest release of Helm (its Secret): the words with which the Jobs of its HelmChart fail.
pub const HELM_FAILS: &str = "corral.drover.dev/helm-fails";
/// On an Addon: what is deployed of it. The world writes it.
pub const DEPLOYED: &str = "corral.drover.dev/deployed";

pub type Annotations = BTreeMap<String, String>;

/// How long something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    For(Duration),
    Forever,
}

/// What one container is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    pub lasts: Lasts,
    pub exit_code: i32,
    /// From its start to its readiness.
    pub ready_after: Lasts,
}

/// A scenario's own words for a container: for that container by name, else for all of the pod. What cannot be
/// read counts as not said.
pub fn lasts(annotations: Option<&Annotations>, key: &str, container: &str) -> Option<Lasts> {
    said(annotations, key, container, time)
}

/// The same, for what is said once for all of an object.
pub fn lasts_for_all(annotations: Option<&Annotations>, key: &str) -> Option<Lasts> {
    annotations?.get(key).and_then(|text| time(text))
}

pub fn text<'a>(annotations: Option<&'a Annotations>, key: &str, container: &str) -> Option<&'a str> {
    let annotations = annotations?;
    annotations.get(&format!("{key}.{container}")).or_else(|| annotations.get(key)).map(String::as_str)
}

/// An amount of bytes.
pub fn bytes(annotations: Option<&Annotations>, key: &str, container: &str) -> Option<i64> {
    said(annotations, key, container, |text| amount(text, 1))
}

/// Whether an image is among those that cannot be pulled.
pub fn is_missing(annotations: Option<&Annotations>, image: &str) -> bool {
    let named = annotations.and_then(|all| all.get(MISSING_IMAGES)).map(String::as_str).unwrap_or_default();
    named.split(',').map(str::trim).any(|one| one == "*" || (!one.is_empty() && one == image))
}

pub fn exit_code(annotations: Option<&Annotations>, key: &str, container: &str) -> Option<i32> {
    said(annotations, key, container, |text| text.parse().ok())
}

/// The moment until which a machine is away; the last one that there is if it never comes back.
pub fn down_until(annotations: Option<&Annotations>) -> Option<Timestamp> {
    match annotations?.get(DOWN_UNTIL)?.as_str() {
        NEVER => Some(Timestamp::MAX),
        text => text.parse().ok(),
    }
}

pub fn is_simulated(annotations: Option<&Annotations>) -> bool {
    annotations.and_then(|all| all.get(KUBELET)).is_some_and(|value| value == SIMULATED)
}

fn said<T>(
    annotations: Option<&Annotations>,
    key: &str,
    container: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let annotations = annotations?;
    let own = annotations.get(&format!("{key}.{container}"));
    own.or_else(|| annotations.get(key)).and_then(|text| read(text))
}

fn time(text: &str) -> Option<Lasts> {
    match text {
        NEVER => Some(Lasts::Forever),
        text => duration(text).map(Lasts::For),
    }
}

pub fn duration(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_container_follows_its_own_annotation_before_the_pods() {
        let said = annotations(&[(DURATION, "1m30s"), ("corral.drover.dev/duration.prepare", "2s")]);

        assert_eq!(lasts(Some(&said), DURATION, "prepare"), Some(Lasts::For(Duration::from_secs(2))));
        assert_eq!(lasts(Some(&said), DURATION, "upgrade"), Some(Lasts::For(Duration::from_secs(90))));
    }

    #[test]
    fn a_container_can_be_told_to_hang() {
        assert_eq!(lasts(Some(&annotations(&[(DURATION, "never")])), DURATION, "upgrade"), Some(Lasts::Forever));
    }

    #[test]
    fn images_can_be_missing_by_name_or_all_together() {
        let two = annotations(&[(MISSING_IMAGES, "shop:1, shop:2")]);
        assert!(is_missing(Some(&two), "shop:2") && !is_missing(Some(&two), "shop:3"));
        assert!(is_missing(Some(&annotations(&[(MISSING_IMAGES, "*")])), "shop:3"));
        assert!(!is_missing(None, "shop:3"));
    }

    #[test]
    fn what_cannot_be_read_counts_as_not_said() {
        let said = annotations(&[(DURATION, "soon"), (EXIT_CODE, "none"), (REBOOT, "-3s"), (DOWN_UNTIL, "later")]);

        assert_eq!(lasts(Some(&said), DURATION, "upgrade"), None);
        assert_eq!(exit_code(Some(&said), EXIT_CODE, "upgrade"), None);
        assert_eq!(lasts_for_all(Some(&said), REBOOT), None);
        assert_eq!(down_until(Some(&said)), None);
    }
}
