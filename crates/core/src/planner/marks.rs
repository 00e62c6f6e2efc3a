//! What the planner writes on plan Secrets.

pub use drover_api::marks::PLANNED;
use drover_api::rancher::machine_plan::annotations::{
    DRAIN_DONE, DRAIN_ERROR, DRAIN_OPTIONS, POST_DRAIN, PRE_DRAIN, UNCORDON,
};

/// That a drain of the node has begun, and was not cleared away.
pub const OF_A_DRAIN: [&str; 4] = [DRAIN_OPTIONS, PRE_DRAIN, UNCORDON, POST_DRAIN];
/// All that goes when a drain is over, beside the answers to hooks.
pub const CLEARED: [&str; 6] = [DRAIN_OPTIONS, PRE_DRAIN, DRAIN_DONE, UNCORDON, POST_DRAIN, DRAIN_ERROR];
