//! The Secrets in which Helm 3 keeps its releases.
//! See <https://helm.sh/docs/topics/advanced/#storage-backends>.

pub const TYPE: &str = "helm.sh/release.v1";
/// What the name of a release's Secret begins with; then its name, `.v` and its version.
pub const NAME_PREFIX: &str = "sh.helm.release.v1.";
/// The key that holds the release: JSON, packed by gzip, as base64.
pub const KEY: &str = "release";

pub mod labels {
    pub const OWNER: &str = "owner";
    pub const OWNER_HELM: &str = "helm";
    pub const NAME: &str = "name";
    pub const STATUS: &str = "status";
    pub const VERSION: &str = "version";
}

pub mod statuses {
    pub const DEPLOYED: &str = "deployed";
    pub const SUPERSEDED: &str = "superseded";
}
