//! Where a command looks: a live cluster, a folder, or a support bundle.

use clap::Args;
use drover_clock::Clock;
use drover_core::cluster::Cluster;
use drover_operator::connect;
use drover_operator::survey::{self, Source};

use crate::args::ConnectionArgs;

#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Where to look: LIVE, a folder or file of objects as `kubectl get -o yaml` prints them, or a support bundle
    #[arg(long, value_name = "LIVE|DIR|BUNDLE", default_value = "LIVE")]
    from: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl SourceArgs {
    /// Looks once; nothing is written anywhere.
    pub fn look(&self) -> anyhow::Result<Cluster> {
        let clock = Clock::real();
        let source = Source::parse(&self.from);
        if source != Source::Live {
            return Ok(survey::stored(&source, &clock)?);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let client = connect(&self.connection.connection()).await?;
            let cluster = survey::live(client, &clock).await;
            // Where not even nodes can be asked for, nothing else is worth telling.
            match cluster.blind_to("Node").map(|unseen| &unseen.cause) {
                Some(drover_core::cluster::Cause::Unreachable(why)) => anyhow::bail!("{why}"),
                _ => Ok(cluster),
            }
        })
    }
}
