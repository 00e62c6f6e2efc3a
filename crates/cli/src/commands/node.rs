//! `drover node` and `drover apply-manifests`: the steps of a Harvester upgrade, as its Jobs run them.

use std::io::Write as _;

use anyhow::bail;
use clap::{Args, Subcommand};
use drover_api::harvester::jobs::variables::POD_NAME;
use drover_api::marks::EXECUTOR;
use drover_clock::Clock;
use drover_core::decision::{Kind as ObjectKind, Subject};
use drover_core::harvester::steps::{Kind, Order};
use drover_operator::connect;
use drover_operator::harvester::HttpRepositories;
use drover_operator::harvester::steps::{NoHost, Reach, Saying, run as run_steps};

use crate::args::ConnectionArgs;

/// Where the kubelet puts the namespace of a pod with a service account.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

#[derive(Debug, Args)]
pub struct NodeArgs {
    #[command(subcommand)]
    step: NodeStep,
}

#[derive(Debug, Subcommand)]
enum NodeStep {
    /// Loads the images of the release on this machine; not in this release
    Preload,
    /// Empties a node of VMs before it is drained
    PreDrain(OnNode),
    /// Brings the new system to a node on which Kubernetes was raised
    PostDrain(OnNode),
    /// Brings the only node of a cluster to the release
    SingleNodeUpgrade(OnNode),
    /// Starts the VMs again that were stopped for a node
    RestoreVm(OnNode),
    /// Carries out the plan of this machine, where no system-agent does; not in this release
    ApplyPlan(ApplyPlan),
}

#[derive(Debug, Args)]
struct ApplyPlan {
    /// The node
    #[arg(long, value_name = "NODE")]
    node: String,
    /// The file with the plan
    #[arg(long, value_name = "FILE")]
    plan: std::path::PathBuf,
    /// The version of Kubernetes that it installs
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: String,
}

#[derive(Debug, Args)]
struct OnNode {
    /// The node
    #[arg(long, value_name = "NODE")]
    node: String,
    #[command(flatten)]
    upgrade: OfUpgrade,
}

#[derive(Debug, Args)]
struct OfUpgrade {
    /// The Upgrade that the step is of
    #[arg(long, value_name = "NAME")]
    upgrade: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub struct ApplyManifestsArgs {
    #[command(flatten)]
    upgrade: OfUpgrade,
}

pub fn run(args: &NodeArgs) -> anyhow::Result<()> {
    let (kind, step) = match &args.step {
        NodeStep::Preload => bail!(
            "this release of Drover cannot load images on a machine: set imagePreloadOption.strategy.type in the setting \
             upgrade-config to skip, and load them before"
        ),
        NodeStep::PreDrain(step) => (Kind::PreDrain, step),
        NodeStep::PostDrain(step) => (Kind::PostDrain, step),
        NodeStep::SingleNodeUpgrade(step) => (Kind::SingleNode, step),
        NodeStep::RestoreVm(step) => (Kind::RestoreVms, step),
        NodeStep::ApplyPlan(step) => bail!(
            "this release of Drover cannot install Kubernetes {} on {} by the plan {}: let rancher-system-agent carry out the plans of this \
             machine, and take the annotation {EXECUTOR} off its Cluster and its Machine",
            step.kubernetes_version,
            step.node,
            step.plan.display()
        ),
    };
    carry_out(&step.upgrade, kind, &step.node)
}

pub fn apply_manifests(args: &ApplyManifestsArgs) -> anyhow::Result<()> {
    carry_out(&args.upgrade, Kind::Manifests, "")
}

fn carry_out(args: &OfUpgrade, kind: Kind, node: &str) -> anyhow::Result<()> {
    let order = Order { kind, upgrade: args.upgrade.clone(), node: node.to_owned() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&args.connection.connection()).await?;
        let reach = Reach { host: &NoHost, repositories: &HttpRepositories };
        run_steps(client, Clock::real(), &order, own_pod(), reach, &mut say).await?;
        Ok(())
    })
}

/// One line a saying, for the log of the pod. Whoever does not read it keeps nothing from going on.
fn say(saying: Saying) {
    let mut out = std::io::stdout().lock();
    let _ = match saying {
        Saying::Does(what) | Saying::Writes(_, what) => writeln!(out, "{what}"),
        Saying::Waits(waits) => {
            waits.iter().try_for_each(|wait| writeln!(out, "waits: {}: {}", wait.reason, wait.sentence))
        }
    };
}

fn own_pod() -> Option<Subject> {
    let name = std::env::var(POD_NAME).ok()?;
    let namespace = std::fs::read_to_string(NAMESPACE).ok()?.trim().to_owned();
    Some(Subject::new(ObjectKind::Pod, &namespace, &name))
}
