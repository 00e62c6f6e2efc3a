//! The kinds of Longhorn that a drain looks at (group longhorn.io). See <https://longhorn.io/docs/>.

pub mod engine;
pub mod instance_manager;
pub mod node;
pub mod replica;
pub mod setting;
pub mod volume;
pub mod volume_attachment;

pub const NAMESPACE: &str = "longhorn-system";
/// The DaemonSet of Longhorn's managers.
pub const MANAGER: &str = "longhorn-manager";
