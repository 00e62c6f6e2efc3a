//! Simulated kubelets: one for every Node that carries `corral.drover.dev/kubelet: simulated`.
//!
//! Models what the kubelet of Kubernetes 1.34 (`pkg/kubelet`) shows of itself: the Node's status and Lease, the life of
//! the pods bound to it, its disk. What containers do is told by annotations (see [`super::annotations`]). Left out:
//! liveness, sidecars, static pods, and the regular reports that only move heartbeat times.

pub mod disk;
pub mod lease;
pub mod node;
pub mod pod;

mod conditions;
mod containers;
#[cfg(test)]
mod pod_tests;
mod stop;
mod upgrade;

pub use upgrade::Upgraded;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use sha2::{Digest, Sha256};

use super::annotations::{self, Annotations, JOB_DURATION, JOB_EXIT_CODE, KEEPS_VERSION, Lasts, MISSING_IMAGES};
use super::pods;

/// How machines behave where no annotation says otherwise.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// The version of a machine whose Node names none.
    pub version: String,
    /// From binding a pod to its first container.
    pub pod_start: Duration,
    pub init_duration: Duration,
    /// How long the containers of pods run that do not run for ever.
    pub job_duration: Duration,
    /// How long a machine is away after an upgrade; none where upgrades do not reboot.
    pub reboot: Option<Duration>,
    /// How often Leases are renewed; none to have no Leases.
    pub lease_period: Option<Duration>,
    /// Init containers of these names run until their pod's annotation says with which exit code they have ended: whoever
    /// runs their programs outside this world writes it.
    pub run_elsewhere: BTreeSet<String>,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        KubeletOptions {
            version: "v1.34.4".into(),
            pod_start: Duration::from_secs(2),
            init_duration: Duration::from_secs(1),
            job_duration: Duration::from_secs(10),
            reboot: None,
            lease_period: Some(Duration::from_secs(10)),
            run_elsewhere: BTreeSet::new(),
        }
    }
}

/// What a simulated kubelet needs to know of its own Node.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub name: String,
    pub uid: String,
    pub address: String,
    pub down_until: Option<Timestamp>,
    /// It goes away without a word.
    pub silent: bool,
    pub reboot: Option<Lasts>,
    pub reboot_again: Option<Duration>,
    pub keeps_version: bool,
    /// Its kubelet is restarted when another version is installed.
    pub restarts: bool,
    /// What is installed and does not run.
    pub installed: Option<String>,
    /// Its disk is simulated.
    pub has_disk: bool,
    pub disk_pressure: bool,
    lasts: Option<Lasts>,
    exit_code: Option<i32>,
    missing_images: Option<String>,
}

impl Machine {
    /// None for a Node whose kubelet is not simulated.
    pub fn of(node: &Node) -> Option<Machine> {
        let annotations = node.metadata.annotations.as_ref();
        if !annotations::is_simulated(annotations) {
            return None;
        }
        let said = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        Some(Machine {
            name: pods::name(&node.metadata).into(),
            uid: pods::uid(&node.metadata).into(),
            address: address(node),
            down_until: annotations::down_until(annotations),
            silent: said(annotations::SHUTDOWN) == Some(annotations::SILENT),
            reboot: annotations::lasts_for_all(annotations, annotations::REBOOT),
            reboot_again: said(annotations::REBOOT_AGAIN).and_then(annotations::duration),
            keeps_version: said(KEEPS_VERSION) == Some("true"),
            restarts: said(annotations::KUBELET_RESTART) != Some(annotations::NEVER),
            installed: said(annotations::INSTALLED_VERSION).map(Into::into),
            has_disk: said(annotations::DISK).is_some(),
            disk_pressure: conditions::is_true(node, conditions::DISK_PRESSURE),
            lasts: annotations::lasts(annotations, JOB_DURATION, ""),
            exit_code: annotations::exit_code(annotations, JOB_EXIT_CODE, ""),
            missing_images: said(MISSING_IMAGES).map(Into::into),
        })
    }

    /// The moment at which it comes back, if it is switched off.
    pub fn away_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.down_until.filter(|moment| now < *moment)
    }

    /// Whether an image cannot be had there, for all that the machine knows.
    fn lacks(&self, image: &str) -> bool {
        let said = self.missing_images.as_ref();
        said.is_some_and(|said| {
            annotations::is_missing(Some(&Annotations::from([(MISSING_IMAGES.into(), said.clone())])), image)
        })
    }

    /// When it has booted last, if it ever was switched off.
    pub fn booted(&self, now: Timestamp) -> Option<Timestamp> {
        self.down_until.filter(|moment| *moment <= now)
    }
}

fn address(node: &Node) -> String {
    let known = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    let internal = known.and_then(|all| all.iter().find(|address| address.type_ == "InternalIP"));
    match internal {
        Some(address) => address.address.clone(),
        None => {
            let [a, b, c, ..] = digest(&[pods::uid(&node.metadata), "address"]);
            format!("10.{a}.{b}.{c}")
        }
    }
}

/// A value that looks random and follows from its cause: the same machine is the same in every run.
pub fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid(parts: &[&str]) -> String {
    let text = hex(&digest(parts)[..16]);
    let (a, rest) = text.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    format!("{a}-{b}-{c}-{d}-{e}")
}
