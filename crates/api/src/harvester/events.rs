//! The Events about an Upgrade: type and reason of each.

pub use crate::plan::events::{NORMAL, WARNING};

/// A node is done.
pub const NODE_UPGRADED: &str = "NodeUpgraded";
/// Its user goes on without a node.
pub const NODE_SKIPPED: &str = "NodeSkipped";
pub const NODE_FAILED: &str = "NodeFailed";

/// What the beginning of a phase is told with; its reason is the state itself.
pub fn begins(state: &str) -> &'static str {
    use super::upgrade::states;
    match state {
        states::LOGGING_INFRA_PREPARED => "The upgrade has begun",
        states::PREPARING_REPO => "The image of the release is imported",
        states::REPO_PREPARED => "The repository serves the release",
        states::PREPARING_NODES => "Nodes load the images of the release",
        states::UPGRADING_SYSTEM_SERVICES => "System services are upgraded",
        states::UPGRADING_NODES => "Nodes are upgraded",
        states::SUCCEEDED => "The upgrade has succeeded",
        _ => "The upgrade has failed",
    }
}
