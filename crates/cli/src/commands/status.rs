//! `drover status`: how far upgrades are, on one screen.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use drover_core::cluster::{Cluster, ObjectRef};
use drover_core::status::{Overview, Status, UpgradeStatus, of, of_upgrade, overview};

use crate::args::{Format, Usage};
use crate::named::object_named;
use crate::output::{document, print};
use crate::sources::SourceArgs;

/// How often a watched cluster is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Puts the cursor to the top and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One Plan or Upgrade: plan/NAMESPACE/NAME, upgrade/NAME [default: all, and the nodes]
    #[arg(value_name = "OBJECT")]
    object: Option<String>,
    /// Go on looking, until interrupted
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// What is printed: one Plan or Upgrade, or everything.
enum Shown {
    Plan(Box<Status>),
    Upgrade(Box<UpgradeStatus>),
    All(Overview),
}

pub fn run(args: &StatusArgs, format: Option<Format>) -> anyhow::Result<()> {
    let object = args.object.as_deref().map(object_named).transpose()?;
    if let Some(object) = object.as_ref().filter(|object| !["Plan", "Upgrade"].contains(&object.kind.as_str())) {
        bail!(Usage(format!("cannot tell the status of {object}: give plan/NAMESPACE/NAME or upgrade/NAME")));
    }
    let mut last = String::new();
    loop {
        let cluster = args.source.look()?;
        let text = shown(&show(&cluster, object.as_ref())?, &cluster, format)?;
        if !args.watch {
            return print(&text);
        }
        if text != last {
            let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
            print(&format!("{clear}{text}"))?;
            last = text;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn show(cluster: &Cluster, object: Option<&ObjectRef>) -> anyhow::Result<Shown> {
    let Some(object) = object else { return Ok(Shown::All(overview(cluster))) };
    let (namespace, name) = (&object.namespace, &object.name);
    let upgrade = cluster.harvester.upgrades.get(namespace, name).filter(|_| object.kind == "Upgrade");
    let plan = cluster.plan(namespace, name).filter(|_| object.kind == "Plan");
    match (plan, upgrade, cluster.blind_to(&object.kind)) {
        (Some(plan), ..) => Ok(Shown::Plan(Box::new(of(cluster, plan)))),
        (_, Some(upgrade), _) => Ok(Shown::Upgrade(Box::new(of_upgrade(cluster, upgrade)))),
        (None, None, Some(unseen)) => Err(anyhow!("{} could not be looked at: {unseen}", object.in_words())),
        (None, None, None) => Err(anyhow!("there is no {}", object.in_words())),
    }
}

fn shown(shown: &Shown, cluster: &Cluster, format: Option<Format>) -> anyhow::Result<String> {
    let now = cluster.looked_at;
    match (format.filter(|format| *format != Format::Table), shown) {
        (Some(format), Shown::Plan(status)) => document(format, status),
        (Some(format), Shown::Upgrade(status)) => document(format, status),
        (Some(format), Shown::All(overview)) => document(format, overview),
        (None, Shown::Plan(status)) => Ok(status.text(now)),
        (None, Shown::Upgrade(status)) => Ok(status.text(now)),
        (None, Shown::All(overview)) => Ok(overview.text(now)),
    }
}
