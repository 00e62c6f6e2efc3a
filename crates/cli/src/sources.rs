//! Where a command looks: a live cluster, a folder, or a support bundle.

use clap::Args;
use drover_clock::Clock;
use drover_core::cluster::{Cluster, ObjectRef};
use drover_operator::connect;
use drover_operator::survey::{self, Source};

use crate::args::ConnectionArgs;

/// What of a live cluster is read only for the sake of an object that is asked about.
#[derive(Debug, Default)]
pub struct Further {
    /// Guest clusters whose authorities matter.
    pub authorities: Vec<ObjectRef>,
    /// A guest cluster that is looked into.
    pub inside: Option<ObjectRef>,
}

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
        self.look_further(&Further::default())
    }

    /// Whether a cluster is asked that runs.
    pub fn is_live(&self) -> bool {
        Source::parse(&self.from) == Source::Live
    }

    /// The same, and what is asked for beyond.
    pub fn look_further(&self, further: &Further) -> anyhow::Result<Cluster> {
        let clock = Clock::real();
        let source = Source::parse(&self.from);
        if source != Source::Live {
            return Ok(survey::stored(&source, &clock)?);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let client = connect(&self.connection.connection()).await?;
            let mut cluster = survey::live(client.clone(), &clock).await;
            survey::authorities(client.clone(), &clock, &further.authorities, &mut cluster).await;
            if let Some(guest) = &further.inside {
                survey::inside(client, &clock, guest, &mut cluster).await;
            }
            // Where not even nodes can be asked for, nothing else is worth telling.
            match cluster.blind_to("Node").map(|unseen| &unseen.cause) {
                Some(drover_core::cluster::Cause::Unreachable(why)) => anyhow::bail!("{why}"),
                _ => Ok(cluster),
            }
        })
    }
}
