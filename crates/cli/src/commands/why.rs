//! `drover why`: what holds something up, since when, and what would help.

use anyhow::anyhow;
use clap::Args;
use drover_core::cluster::ObjectRef;
use drover_core::why::{Unexplained, explain, explain_all};

use crate::args::{Format, Usage};
use crate::output::{print, print_document};
use crate::sources::{Further, SourceArgs};

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// What to explain: upgrade/NAME, plan/NAMESPACE/NAME, node/NAME, pod/NAMESPACE/NAME, or a tkc, cluster, machine, vm, vmi,
    /// vmim, volume, managedchart, vmimage or upgradelog, as KIND/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", required_unless_present = "all")]
    object: Option<String>,
    /// Everything in the cluster that waits
    #[arg(long, conflicts_with = "object")]
    all: bool,
    /// Look into the guest cluster as well, with the kubeconfig in its Secret NAME-kubeconfig, an administrator's: which pods and
    /// budgets hold up a drain there, and why Nodes are not ready
    #[arg(long, conflicts_with = "all")]
    into_guest: bool,
    #[command(flatten)]
    source: SourceArgs,
}

pub fn run(args: &WhyArgs, format: Option<Format>) -> anyhow::Result<()> {
    // A name that cannot be read is said before anything is looked at.
    let object = args.object.as_deref().map(ObjectRef::named).transpose().map_err(|error| Usage(error.to_string()))?;
    let inside = object.clone().filter(|_| args.into_guest);
    if args.into_guest && (!args.source.is_live() || !inside.as_ref().is_some_and(ObjectRef::is_guest)) {
        let sentence = "--into-guest goes with tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME of a live cluster";
        return Err(Usage(sentence.to_owned()).into());
    }
    let cluster = args.source.look_further(&Further { inside, ..Further::default() })?;
    let explanations = match &object {
        Some(object) => vec![explain(&cluster, object).map_err(told)?],
        None => explain_all(&cluster),
    };
    match (format.filter(|format| *format != Format::Table), explanations.as_slice()) {
        (Some(format), [one]) if object.is_some() => print_document(format, one),
        (Some(format), all) => print_document(format, &all),
        (None, []) => print("nothing waits\n"),
        (None, all) => {
            let texts = all.iter().map(|one| one.text(cluster.looked_at));
            print(&texts.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn told(error: Unexplained) -> anyhow::Error {
    match error {
        Unexplained::Kind(_) => Usage(error.to_string()).into(),
        Unexplained::NotThere(_) | Unexplained::Unseen { .. } => anyhow!(error),
    }
}
