//! `drover drain` and `drover cordon`: kubectl's commands of these names, with their flags and words.
//!
//! They are also what the containers `drain` and `cordon` of an upgrade's Job run.

mod own_pod;

use std::io::Write as _;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use drover_clock::Clock;
use drover_core::drain::{Removal, Way};
use drover_operator::connect;
use drover_operator::drain::{DrainFlags, DrainOrder, Saying, cordon, drain};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;

use crate::args::{ConnectionArgs, Format, Usage};
use crate::output::{print, print_document};

#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    nodes: Nodes,
    #[command(flatten)]
    flags: DrainFlags,
}

#[derive(Debug, Args)]
pub struct CordonArgs {
    #[command(flatten)]
    nodes: Nodes,
}

/// Which nodes, and whether in earnest.
#[derive(Debug, Args)]
struct Nodes {
    /// The nodes
    #[arg(value_name = "NODE")]
    names: Vec<String>,
    /// The nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Only say what would be done: by this program alone, or as the server sees it
    #[arg(long, value_enum, value_name = "HOW", default_value = "none")]
    dry_run: DryRun,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DryRun {
    None,
    Client,
    Server,
}

impl DryRun {
    fn note(self) -> &'static str {
        match self {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}

/// What became of one node, for programs.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    node: String,
    drained: bool,
    /// By this command; false if it was cordoned before.
    cordoned: bool,
    evicted: Vec<String>,
    deleted: Vec<String>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub fn run(args: &DrainArgs, format: Option<Format>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&args.nodes.connection.connection()).await?;
        let nodes = args.nodes.find(&client).await?;
        let mut outcomes = Vec::new();
        for node in &nodes {
            outcomes.push(drain_one(client.clone(), args, node, format).await?);
        }
        if let Some(format) = format.filter(|format| *format != Format::Table) {
            print_document(format, &outcomes)?;
        }
        let failed: Vec<String> = outcomes
            .iter()
            .filter_map(|outcome| Some(format!("cannot drain Node {}: {}", outcome.node, outcome.error.as_ref()?)))
            .collect();
        if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
    })
}

pub fn run_cordon(args: &CordonArgs, format: Option<Format>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let nodes = &args.nodes;
        let client = connect(&nodes.connection.connection()).await?;
        let mut outcomes = Vec::new();
        for node in nodes.find(&client).await? {
            let cordoned = match nodes.dry_run {
                DryRun::Client => true,
                how => cordon(client.clone(), Clock::real(), &node, how == DryRun::Server).await?,
            };
            let word = if cordoned { "cordoned" } else { "already cordoned" };
            let line = format!("node/{node} {word}{}\n", nodes.dry_run.note());
            if format.is_none_or(|format| format == Format::Table) {
                print(&line)?;
            }
            outcomes.push(Outcome { node, cordoned, ..Outcome::default() });
        }
        match format.filter(|format| *format != Format::Table) {
            Some(format) => print_document(format, &outcomes),
            None => Ok(()),
        }
    })
}

async fn drain_one(client: Client, args: &DrainArgs, node: &str, format: Option<Format>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome { node: node.to_owned(), ..Outcome::default() };
    let (note, quiet) = (args.nodes.dry_run.note(), format.is_some_and(|format| format != Format::Table));
    if args.nodes.dry_run == DryRun::Client {
        return Err(
            Usage("--dry-run=client cannot know what the budgets allow: use --dry-run=server".to_owned()).into()
        );
    }
    let mut tell = |saying: Saying| {
        note_down(&mut outcome, &saying);
        // Whoever reads along may have gone; the drain goes on.
        let _ = match say(node, &saying, note) {
            Line::Out(line) if !quiet => std::io::stdout().write_all(line.as_bytes()),
            Line::Err(line) => std::io::stderr().write_all(line.as_bytes()),
            _ => Ok(()),
        };
    };
    let dry_run = args.nodes.dry_run == DryRun::Server;
    let order = DrainOrder { dry_run, ..args.flags.order(node, own_pod::of_this_process()) };
    let result = drain(client, Clock::real(), &order, &mut tell).await;
    outcome.drained = result.is_ok();
    outcome.error = result.err().map(|error| error.to_string());
    if outcome.drained && !quiet {
        print(&format!("node/{node} drained{note}\n"))?;
    }
    Ok(outcome)
}

enum Line {
    Out(String),
    Err(String),
    Nothing,
}

/// In kubectl's words, so that scripts find what they look for.
fn say(node: &str, saying: &Saying, note: &str) -> Line {
    let past = |removal: &Removal| if removal.way == Way::Evict { "evicted" } else { "deleted" };
    match saying {
        Saying::Cordoned => Line::Out(format!("node/{node} cordoned{note}\n")),
        Saying::AlreadyCordoned => Line::Out(format!("node/{node} already cordoned{note}\n")),
        Saying::Uncordoned => Line::Out(format!("node/{node} uncordoned{note}\n")),
        Saying::Warning(warning) => Line::Err(format!("Warning: {warning}\n")),
        Saying::Removing(removal) => {
            let verb = if removal.way == Way::Evict { "evicting" } else { "deleting" };
            Line::Out(format!("{verb} pod {}/{}{note}\n", removal.namespace, removal.name))
        }
        Saying::Removed(removal) => Line::Out(format!("pod/{} {}\n", removal.name, past(removal))),
        Saying::Refused { removal, message, again_after } => Line::Err(format!(
            "error when evicting pods/{:?} -n {:?} (will retry after {}s): {message}\n",
            removal.name,
            removal.namespace,
            again_after.as_secs()
        )),
        Saying::Unreachable(cause) => Line::Err(format!("{cause}; trying again\n")),
        Saying::Waits(waits) => match &waits[..] {
            [] => Line::Nothing,
            waits => Line::Err(waits.iter().map(|wait| format!("waiting: {}\n", wait.sentence)).collect()),
        },
    }
}

fn note_down(outcome: &mut Outcome, saying: &Saying) {
    match saying {
        Saying::Cordoned => outcome.cordoned = true,
        Saying::Uncordoned => outcome.cordoned = false,
        Saying::Warning(warning) => outcome.warnings.push(warning.clone()),
        Saying::Removed(removal) => {
            let list = if removal.way == Way::Evict { &mut outcome.evicted } else { &mut outcome.deleted };
            list.push(format!("{}/{}", removal.namespace, removal.name));
        }
        _ => {}
    }
}

impl Nodes {
    async fn find(&self, client: &Client) -> anyhow::Result<Vec<String>> {
        match (&self.names[..], &self.selector) {
            ([], None) => Err(Usage("name a node, or select some with --selector".to_owned()).into()),
            ([], Some(selector)) => {
                let nodes: Api<Node> = Api::all(client.clone());
                let nodes = nodes.list(&ListParams::default().labels(selector)).await.context("cannot list nodes")?;
                if nodes.items.is_empty() {
                    bail!("no node has the labels {selector}");
                }
                Ok(nodes.items.into_iter().filter_map(|node| node.metadata.name).collect())
            }
            (names, None) => Ok(names.to_vec()),
            (_, Some(_)) => Err(Usage("name nodes or select them with --selector, not both".to_owned()).into()),
        }
    }
}
