//! The Rancher that Harvester has inside: a Helm release, and the Deployment that it makes.
//! See <https://github.com/rancher/rancher/tree/main/chart>.

/// The name of the release, of its Deployment and of the chart, in `cattle-system`.
pub const NAME: &str = "rancher";
/// The repository of its image.
pub const IMAGE: &str = "rancher/rancher";

/// The values of its chart.
pub mod values {
    pub const IMAGE_TAG: &str = "rancherImageTag";
    /// Newer charts know the tag under this key, too.
    pub const IMAGE: &str = "image";
    pub const TAG: &str = "tag";
}
