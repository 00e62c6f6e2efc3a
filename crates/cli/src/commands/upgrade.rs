//! `drover upgrade`: what a person does to an Upgrade of Harvester while it runs.

use clap::{Args, Subcommand};
use drover_clock::Clock;
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
    /// Lets nodes wait before they are drained: one, or all that have not begun
    Pause(OnNodes),
    /// Lets paused nodes go on: one, or all
    Resume(OnNodes),
    /// Lets an Upgrade that has failed take up what has failed
    Retry(OnUpgrade),
    /// Lets an Upgrade that has failed go on without a node that has failed
    Skip(OnNode),
    /// Calls an Upgrade off: the node at work reaches a safe state, the others stay as they are
    Abort(OnUpgrade),
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
    #[command(flatten)]
    upgrade: OnUpgrade,
    /// The node [default: all that it can be said of]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

#[derive(Debug, Args)]
struct OnUpgrade {
    /// The Upgrade, as upgrade/NAME
    #[arg(value_name = "OBJECT", value_parser = name)]
    name: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

fn name(object: &str) -> Result<String, String> {
    match object.split_once('/') {
        Some(("upgrade", name)) if !name.is_empty() && !name.contains('/') => Ok(name.to_owned()),
        _ => Err("give an Upgrade as upgrade/NAME; Plans are paused by the annotation drover.dev/paused".to_owned()),
    }
}

pub fn run(args: &UpgradeArgs) -> anyhow::Result<()> {
    let upgrade = match &args.verb {
        Verb::Pause(on) | Verb::Resume(on) => &on.upgrade,
        Verb::Skip(on) => &on.upgrade,
        Verb::Retry(upgrade) | Verb::Abort(upgrade) => upgrade,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&upgrade.connection.connection()).await?;
        let verbs = Verbs::on(client, Clock::real(), &upgrade.name);
        match &args.verb {
            Verb::Pause(on) => say("paused", &verbs.pause(on.node.as_deref()).await?),
            Verb::Resume(on) => say("resumed", &verbs.resume(on.node.as_deref()).await?),
            Verb::Retry(_) => {
                verbs.retry().await?;
                print(&format!("upgrade/{} takes up what has failed\n", upgrade.name))
            }
            Verb::Skip(on) => {
                verbs.skip(&on.node).await?;
                print(&format!("upgrade/{} goes on without node/{}\n", upgrade.name, on.node))
            }
            Verb::Abort(_) => {
                verbs.abort().await?;
                let name = &upgrade.name;
                print(&format!("upgrade/{name} is called off; drover why upgrade/{name} tells how far it is\n"))
            }
        }
    })
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
}
