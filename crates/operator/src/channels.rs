//! Who asks channels: over HTTP in production, a script in a simulation.

use std::fmt::Debug;
use std::time::Duration;

use drover_core::decision::Question;
use drover_core::plan::Answer;
use futures::future::BoxFuture;

/// No channel may take longer to answer.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Asks channels for the latest version.
pub trait Channels: Debug + Send + Sync {
    /// The answer as it comes, redirects not followed; or why there is none, in words. `cluster` is the uid of the namespace
    /// kube-system, by which channels count clusters.
    fn ask(&self, question: Question, cluster: Option<String>) -> BoxFuture<'static, Result<Answer, String>>;
}

/// Where nobody can be asked.
#[derive(Debug, Clone, Copy)]
pub struct NoChannels;

impl Channels for NoChannels {
    fn ask(&self, _: Question, _: Option<String>) -> BoxFuture<'static, Result<Answer, String>> {
        Box::pin(async { Err("this operator has no network to ask channels over".to_owned()) })
    }
}
