//! `drover status`: how far upgrades are, on one screen.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use drover_core::cluster::{Cluster, ObjectRef};
use drover_core::status::{
    GuestStatus, Guests, Overview, Status, UpgradeStatus, guests, of, of_guest, of_tanzu, of_upgrade, overview,
};

use crate::args::{Format, Usage};
use crate::output::{document, print};
use crate::sources::SourceArgs;

/// How often a watched cluster is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Puts the cursor to the top and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One Plan, Upgrade or guest cluster: plan/NAMESPACE/NAME, upgrade/NAME, tkc/NAMESPACE/NAME, cluster/NAMESPACE/NAME; or
    /// `clusters`, for a table of all guest clusters [default: all, and the nodes]
    #[arg(value_name = "OBJECT")]
    object: Option<String>,
    /// Go on looking, until interrupted
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// What is asked for.
enum Asked {
    Everything,
    Clusters,
    One(ObjectRef),
}

/// What is printed.
enum Shown {
    Plan(Box<Status>),
    Upgrade(Box<UpgradeStatus>),
    Guest(Box<GuestStatus>),
    Guests(Guests),
    All(Box<Overview>),
}

fn asked(object: Option<&str>) -> anyhow::Result<Asked> {
    const KINDS: [&str; 4] = ["Plan", "Upgrade", "TanzuKubernetesCluster", "Cluster"];
    let Some(text) = object else { return Ok(Asked::Everything) };
    if text == "clusters" {
        return Ok(Asked::Clusters);
    }
    let object = ObjectRef::named(text).map_err(|error| Usage(error.to_string()))?;
    if !KINDS.contains(&object.kind.as_str()) {
        bail!(Usage(format!(
            "cannot tell the status of {object}: give plan/NAMESPACE/NAME, upgrade/NAME, tkc/NAMESPACE/NAME, \
             cluster/NAMESPACE/NAME or clusters"
        )));
    }
    Ok(Asked::One(object))
}

pub fn run(args: &StatusArgs, format: Option<Format>) -> anyhow::Result<()> {
    let asked = asked(args.object.as_deref())?;
    let mut last = String::new();
    loop {
        let cluster = args.source.look()?;
        let text = shown(&show(&cluster, &asked)?, &cluster, format)?;
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

fn show(cluster: &Cluster, asked: &Asked) -> anyhow::Result<Shown> {
    let object = match asked {
        Asked::Everything => return Ok(Shown::All(Box::new(overview(cluster)))),
        Asked::Clusters => return Ok(Shown::Guests(guests(cluster))),
        Asked::One(object) => object,
    };
    let (namespace, name) = (&object.namespace, &object.name);
    let found = match object.kind.as_str() {
        "Plan" => cluster.plan(namespace, name).map(|plan| Shown::Plan(Box::new(of(cluster, plan)))),
        "Upgrade" => {
            let upgrade = cluster.harvester.upgrades.get(namespace, name);
            upgrade.map(|upgrade| Shown::Upgrade(Box::new(of_upgrade(cluster, upgrade))))
        }
        "Cluster" => {
            let own = cluster.cluster_api.clusters.get(namespace, name);
            own.map(|own| Shown::Guest(Box::new(of_guest(cluster, own))))
        }
        _ => {
            let guest = cluster.tanzu.clusters.get(namespace, name);
            guest.map(|guest| Shown::Guest(Box::new(of_tanzu(cluster, guest))))
        }
    };
    found.ok_or_else(|| match cluster.blind_to(&object.kind) {
        Some(unseen) => anyhow!("{} could not be looked at: {unseen}", object.in_words()),
        None => anyhow!("there is no {}", object.in_words()),
    })
}

fn shown(shown: &Shown, cluster: &Cluster, format: Option<Format>) -> anyhow::Result<String> {
    let now = cluster.looked_at;
    match (format.filter(|format| *format != Format::Table), shown) {
        (Some(format), Shown::Plan(status)) => document(format, status),
        (Some(format), Shown::Upgrade(status)) => document(format, status),
        (Some(format), Shown::Guest(status)) => document(format, status),
        (Some(format), Shown::Guests(guests)) => document(format, guests),
        (Some(format), Shown::All(overview)) => document(format, overview),
        (None, Shown::Plan(status)) => Ok(status.text(now)),
        (None, Shown::Upgrade(status)) => Ok(status.text(now)),
        (None, Shown::Guest(status)) => Ok(status.text()),
        (None, Shown::Guests(guests)) => Ok(guests.text()),
        (None, Shown::All(overview)) => Ok(overview.text(now)),
    }
}
