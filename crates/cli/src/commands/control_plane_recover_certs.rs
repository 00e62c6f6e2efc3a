//! `drover control-plane-recover-certs`: brings back certificate Secrets of a guest cluster that were lost or broken.

use clap::Args;
use drover_clock::Clock;
use drover_operator::connect;
use drover_operator::guest::{Recovered, recover_certificates};

use crate::args::ConnectionArgs;
use crate::output::print;

#[derive(Debug, Args)]
pub struct ControlPlaneRecoverCertsArgs {
    /// The namespace of the guest cluster
    #[arg(long, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// The name of the guest cluster
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Only say which Secrets would be made or put right
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub fn run(args: &ControlPlaneRecoverCertsArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&args.connection.connection()).await?;
        let (namespace, name) = (&args.cluster_namespace, &args.cluster_name);
        let made = recover_certificates(client, Clock::real(), namespace, name, args.dry_run).await?;
        if made.is_empty() {
            return print(&format!("every certificate Secret of Cluster {namespace}/{name} is there and whole\n"));
        }
        let note = if args.dry_run { " (dry run)" } else { "" };
        let line = |one: &Recovered| {
            let how = if one.was_missing { "created" } else { "put right" };
            format!("{} {how}{note}\n", one.secret)
        };
        print(&made.iter().map(line).collect::<String>())
    })
}
