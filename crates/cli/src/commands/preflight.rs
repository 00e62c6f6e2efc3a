//! `drover preflight`: what would go wrong, said before anything is touched.

mod markdown;
mod text;

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use drover_core::cluster::{Cluster, ObjectRef};
use drover_core::preflight::{Intent, Report, Verdict, examine};
use drover_operator::objects::{self, Found};

use crate::args::{Format, Usage};
use crate::output::{Ended, print, print_document};
use crate::sources::{Further, SourceArgs};

#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// What to check for: plan/NAMESPACE/NAME, upgrade/NAME, tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME
    /// [default: any upgrade of the nodes]
    #[arg(value_name = "OBJECT")]
    object: Option<String>,
    /// Check what this manifest asks for, before it is applied (`-`: from stdin)
    #[arg(short, long, value_name = "FILE", conflicts_with = "object")]
    file: Option<PathBuf>,
    /// Check an upgrade to this version, of Harvester where there is one, else of Kubernetes
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["object", "file"])]
    to: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
}

pub fn run(args: &PreflightArgs, format: Option<Format>) -> anyhow::Result<()> {
    // What cannot be read is said before the cluster is asked.
    let manifests = args.file.as_ref().map(read_manifests).transpose()?;
    let asked = args.object.as_deref().and_then(|object| ObjectRef::named(object).ok());
    let asked = asked.into_iter().chain(manifests.iter().flatten().filter_map(Intent::object));
    let authorities = asked.filter(ObjectRef::is_guest).collect();
    let cluster = args.source.look_further(&Further { authorities, ..Further::default() })?;
    let intents = match (&args.object, manifests, &args.to) {
        (Some(object), ..) => vec![Intent::named(&cluster, object).map_err(|error| Usage(error.to_string()))?],
        (None, Some(intents), _) => intents,
        (None, None, Some(version)) => vec![Intent::version(version)],
        (None, None, None) => vec![Intent::anything()],
    };
    let reports = intents.iter().map(|intent| examine(&cluster, intent)).collect::<Vec<_>>();
    show(&reports, &cluster, format)?;
    match worst(&reports) {
        0 => Ok(()),
        code => Err(Ended(code).into()),
    }
}

fn show(reports: &[Report], cluster: &Cluster, format: Option<Format>) -> anyhow::Result<()> {
    match (format.unwrap_or(Format::Table), reports) {
        (Format::Table, _) => print(&reports.iter().map(text::report).collect::<Vec<_>>().join("\n")),
        (Format::Markdown, _) => {
            print(&reports.iter().map(|report| markdown::report(report, cluster)).collect::<Vec<_>>().join("\n"))
        }
        (format, [report]) => print_document(format, report),
        (format, reports) => print_document(format, &reports),
    }
}

/// 1 if something blocks, else 2 if something could not be checked.
fn worst(reports: &[Report]) -> u8 {
    let has = |verdict: Verdict| reports.iter().any(|report| report.verdict == verdict);
    match (has(Verdict::Blocked), has(Verdict::CouldNotCheck)) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }
}

fn read_manifests(path: &PathBuf) -> anyhow::Result<Vec<Intent>> {
    let shown = path.display();
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the manifest from stdin")?;
        text
    } else {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}; check the path given with -f"))?
    };
    let mut intents = Vec::new();
    let mut broken = None;
    let take = &mut |found: Found<'_>| {
        if let Found::Object(object) = found {
            match Intent::of_manifest(object.as_bytes()) {
                Ok(intent) => intents.extend(intent),
                Err(error) => broken = broken.take().or(Some(error)),
            }
        }
    };
    let read = objects::read_text(&text, take);
    read.map_err(|cause| anyhow::anyhow!("{shown} holds no objects as kubectl reads them: {cause}"))?;
    if let Some(error) = broken {
        bail!("{shown} holds an object that is not what its kind says: {error}");
    }
    if intents.is_empty() {
        bail!("{shown} asks for no upgrade: it holds no Plan, Upgrade, TanzuKubernetesCluster or Cluster");
    }
    Ok(intents)
}
