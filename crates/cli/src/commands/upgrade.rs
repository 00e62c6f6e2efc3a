//! `drover upgrade`: what a person does to an Upgrade of Harvester, or to a Cluster of Cluster API, while it runs.

use clap::{Args, Subcommand};
use drover_clock::Clock;
use drover_core::cluster::ObjectRef;
use drover_operator::clusters::ClusterVerbs;
use drover_operator::connect;
use drover_operator::harvester::verbs::Verbs;

use crate::args::{ConnectionArgs, Usage};
use crate::output::print;

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Raises a Cluster of Cluster API to a version: its control plane, and its workers once that is done
    Start(Start),
    /// Lets nodes of an Upgrade wait before they are drained, one or all that have not begun; or a whole Cluster
    Pause(OnNodes),
    /// Lets paused nodes go on, one or all; or a whole Cluster
    Resume(OnNodes),
    /// Lets an Upgrade that has failed take up what has failed
    Retry(OnUpgrade),
    /// Lets an Upgrade that has failed go on without a node that has failed
    Skip(OnNode),
    /// Calls an Upgrade off: the node at work reaches a safe state, the others stay as they are
    Abort(OnUpgrade),
}

#[derive(Debug, Args)]
struct Start {
    /// The Cluster, as cluster/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", value_parser = cluster)]
    cluster: (String, String),
    /// The version of Kubernetes
    #[arg(long, value_name = "VERSION")]
    to: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct OnNode {
    #[command(flatten)]
    upgrade: OnUpgrade,
    /// The node to go on without
    #[arg(long, value_name = "NODE")]
    node: String,
}

#[derive(Debug, Args)]
struct OnNodes {
    /// The Upgrade or the Cluster, as upgrade/NAME or cluster/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", value_parser = target)]
    target: Target,
    /// The node of an Upgrade [default: all that it can be said of]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct OnUpgrade {
    /// The Upgrade, as upgrade/NAME
    #[arg(value_name = "OBJECT", value_parser = name)]
    name: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What is paused and resumed.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    Upgrade(String),
    Cluster(String, String),
}

fn name(object: &str) -> Result<String, String> {
    match object.split_once('/') {
        Some(("upgrade", name)) if !name.is_empty() && !name.contains('/') => Ok(name.to_owned()),
        _ => Err("give an Upgrade as upgrade/NAME; Plans are paused by the annotation drover.dev/paused".to_owned()),
    }
}

fn cluster(object: &str) -> Result<(String, String), String> {
    match object.split('/').collect::<Vec<_>>()[..] {
        ["cluster", namespace, name] if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("give a Cluster of Cluster API as cluster/NAMESPACE/NAME; an Upgrade begins when it is created, a \
                  TanzuKubernetesCluster when its version is changed"
            .to_owned()),
    }
}

fn target(object: &str) -> Result<Target, String> {
    match object.starts_with("cluster/") {
        true => cluster(object).map(|(namespace, name)| Target::Cluster(namespace, name)),
        false => name(object).map(Target::Upgrade),
    }
}

pub fn run(args: &UpgradeArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.verb {
            Verb::Start(start) => begin(start).await,
            Verb::Pause(on) => pause(on).await,
            Verb::Resume(on) => resume(on).await,
            Verb::Retry(upgrade) => {
                upgrade.verbs().await?.retry().await?;
                print(&format!("upgrade/{} takes up what has failed\n", upgrade.name))
            }
            Verb::Skip(on) => {
                on.upgrade.verbs().await?.skip(&on.node).await?;
                print(&format!("upgrade/{} goes on without node/{}\n", on.upgrade.name, on.node))
            }
            Verb::Abort(upgrade) => {
                upgrade.verbs().await?.abort().await?;
                let name = &upgrade.name;
                print(&format!("upgrade/{name} is called off; drover why upgrade/{name} tells how far it is\n"))
            }
        }
    })
}

impl OnUpgrade {
    async fn verbs(&self) -> anyhow::Result<Verbs> {
        Ok(Verbs::on(connect(&self.connection.connection()).await?, Clock::real(), &self.name))
    }
}

async fn begin(start: &Start) -> anyhow::Result<()> {
    let (namespace, name) = &start.cluster;
    let client = connect(&start.connection.connection()).await?;
    let raised = ClusterVerbs::on(client, Clock::real(), namespace, name).start(&start.to).await?;
    let is_plane = |object: &ObjectRef| object.kind == "KubeadmControlPlane";
    raised.iter().try_for_each(|object| print(&format!("{} is raised to {}\n", object.in_words(), start.to)))?;
    match raised.iter().any(is_plane) {
        true => print(&format!(
            "the workers are raised by the same command once the control plane is done; drover status cluster/{namespace}/{name} tells\n"
        )),
        false => Ok(()),
    }
}

async fn pause(on: &OnNodes) -> anyhow::Result<()> {
    let client = connect(&on.connection.connection()).await?;
    match &on.target {
        Target::Upgrade(name) => {
            say("paused", &Verbs::on(client, Clock::real(), name).pause(on.node.as_deref()).await?)
        }
        Target::Cluster(namespace, name) => {
            on.no_node()?;
            ClusterVerbs::on(client, Clock::real(), namespace, name).pause().await?;
            print(&format!("cluster/{namespace}/{name} paused: machines that come or go stay where they are\n"))
        }
    }
}

async fn resume(on: &OnNodes) -> anyhow::Result<()> {
    let client = connect(&on.connection.connection()).await?;
    match &on.target {
        Target::Upgrade(name) => {
            say("resumed", &Verbs::on(client, Clock::real(), name).resume(on.node.as_deref()).await?)
        }
        Target::Cluster(namespace, name) => {
            on.no_node()?;
            ClusterVerbs::on(client, Clock::real(), namespace, name).resume().await?;
            print(&format!("cluster/{namespace}/{name} resumed\n"))
        }
    }
}

impl OnNodes {
    /// Cluster API pauses no single node.
    fn no_node(&self) -> anyhow::Result<()> {
        match &self.node {
            Some(_) => anyhow::bail!(Usage("--node is for Upgrades: a Cluster is paused as a whole".to_owned())),
            None => Ok(()),
        }
    }
}

fn say(done: &str, nodes: &[String]) -> anyhow::Result<()> {
    if nodes.is_empty() {
        anyhow::bail!(Usage(format!("no node can be {done} now")));
    }
    nodes.iter().try_for_each(|node| print(&format!("node/{node} {done}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_named_with_its_kind() {
        assert_eq!(name("upgrade/hvst-upgrade-9gmg2").unwrap(), "hvst-upgrade-9gmg2");
        assert!(name("hvst-upgrade-9gmg2").is_err() && name("plan/a/b").is_err() && name("upgrade/").is_err());
    }

    #[test]
    fn a_cluster_is_named_with_its_namespace() {
        assert_eq!(target("cluster/team/web").unwrap(), Target::Cluster("team".to_owned(), "web".to_owned()));
        assert_eq!(target("upgrade/up").unwrap(), Target::Upgrade("up".to_owned()));
        for text in ["cluster/web", "cluster//web", "cluster/a/b/c", "tkc/team/web"] {
            assert!(target(text).is_err() && cluster(text).is_err(), "{text}");
        }
    }
}
