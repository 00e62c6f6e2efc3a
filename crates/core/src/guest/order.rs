//! What is asked for: which cluster, which version, which changes to what new machines are made of.

use jiff::SignedDuration;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A name of a Node, and so of a machine, has no more letters.
pub const LONGEST_NAME: usize = 63;
/// The original takes whatever an object can be called.
const LONGEST_ID: usize = 253;
/// So much of an id ends the name of a machine.
const ID_IN_NAMES: usize = 40;
/// How long a machine may take if nothing else is said, as the original has it.
pub const MACHINE_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// One update.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub namespace: String,
    pub cluster: String,
    pub version: Version,
    /// New machines are called after it.
    pub id: String,
    pub patches: Patches,
    /// How many machines the control plane is to have; none: as many as it has.
    pub replicas: Option<usize>,
    /// How long a machine may take to come, and to go.
    pub machine_timeout: SignedDuration,
}

/// Lists of RFC 6902.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patches {
    pub infrastructure: Vec<Value>,
    pub bootstrap: Vec<Value>,
    /// On the ClusterConfiguration in the ConfigMap `kubeadm-config`.
    pub kubeadm: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OrderError {
    #[error("{0} is required")]
    Missing(&'static str),
    #[error("{0:?} is no version of Kubernetes, such as v1.16.7 or v1.16.7+vmware.1")]
    Version(String),
    #[error("the upgrade id {0:?} cannot be part of a name: use up to {LONGEST_ID} small letters, digits, '-' and '.'")]
    Id(String),
    #[error("{what} are no list of JSON patches (RFC 6902): {cause}")]
    Patches { what: &'static str, cause: String },
    #[error("a control plane of {0} machines could not do without one of them: ask for an odd number")]
    Replicas(usize),
    #[error("the machine timeout must be longer than nothing")]
    Timeout,
}

/// A version of Kubernetes; build metadata such as `+vmware.2` counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(semver::Version);

impl Version {
    /// With or without `v`; what is left out at the end is 0.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.trim().trim_start_matches('v');
        let end = plain.find(['-', '+']).unwrap_or(plain.len());
        let (numbers, rest) = plain.split_at(end);
        let missing = 2_usize.checked_sub(numbers.matches('.').count())?;
        semver::Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok().map(Version)
    }

    pub fn major(&self) -> u64 {
        self.0.major
    }

    pub fn minor(&self) -> u64 {
        self.0.minor
    }
}

/// How many minor versions a kubelet may be behind an API server of this one: <https://kubernetes.io/releases/version-skew-policy/>.
pub fn may_lag(minor: u64) -> u64 {
    if minor < 28 { 2 } else { 3 }
}

/// Without `v`.
impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a version is one that a hint stands for, either with or without `v`: `v1.15.1` for `v1.15.1+vmware.1`, and not for `v1.15.10`.
pub fn begins_with(version: &str, hint: &str) -> bool {
    let (version, hint) = (bare(version), bare(hint));
    version.strip_prefix(hint).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+', '-']))
}

fn bare(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

impl Patches {
    /// One list as it is given on the command line; empty for none.
    pub fn parse(what: &'static str, text: &str) -> Result<Vec<Value>, OrderError> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let wrong = |cause: String| OrderError::Patches { what, cause };
        let list: Vec<Value> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match list.iter().find(|one| serde_json::from_value::<json_patch::PatchOperation>((*one).clone()).is_err()) {
            Some(one) => Err(wrong(format!("{one} is none"))),
            None => Ok(list),
        }
    }
}

impl Order {
    pub fn check(self) -> Result<Self, OrderError> {
        for (text, what) in [(&self.namespace, "the cluster's namespace"), (&self.cluster, "the cluster's name")] {
            if text.is_empty() {
                return Err(OrderError::Missing(what));
            }
        }
        let is_part = |part: &str| {
            let edge = |letter: Option<char>| {
                letter.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
            };
            let inside = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            edge(part.chars().next()) && edge(part.chars().last()) && part.chars().all(inside)
        };
        if self.id.is_empty() {
            return Err(OrderError::Missing("the upgrade id"));
        }
        if self.id.len() > LONGEST_ID || !self.id.split('.').all(is_part) {
            return Err(OrderError::Id(self.id));
        }
        if let Some(replicas) = self.replicas.filter(|replicas| replicas % 2 == 0) {
            return Err(OrderError::Replicas(replicas));
        }
        if !self.machine_timeout.is_positive() {
            return Err(OrderError::Timeout);
        }
        Ok(self)
    }

    /// What is asked for, in a few letters: machines that are made for it carry it.
    pub fn digest(&self) -> String {
        let Patches { infrastructure, bootstrap, kubeadm } = &self.patches;
        let text = serde_json::json!([self.version.to_string(), infrastructure, bootstrap, kubeadm]).to_string();
        Sha256::digest(text.as_bytes()).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The name of the machine that follows those that were called after `base`.
    pub fn name_after(&self, base: &str) -> String {
        let id = self.id_in_names();
        let room = LONGEST_NAME.saturating_sub(id.len() + 1);
        let base: String = base.chars().take(room).collect();
        format!("{}-{id}", base.trim_end_matches(['-', '.']))
    }

    /// A long id is cut, and told from others that begin so by a digest.
    fn id_in_names(&self) -> String {
        if self.id.len() <= ID_IN_NAMES {
            return self.id.clone();
        }
        let digest: String =
            Sha256::digest(self.id.as_bytes()).iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        let head: String = self.id.chars().take(ID_IN_NAMES.saturating_sub(digest.len() + 1)).collect();
        format!("{}-{digest}", head.trim_end_matches(['-', '.']))
    }
}
