//! `drover upgrade`: what a person does to an Upgrade of Harvester, to a TanzuKubernetesCluster, or to a Cluster of Cluster API, while it
//! runs.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use drover_api::marks::ACCEPT;
use drover_clock::Clock;
use drover_core::cluster::{Cluster, ObjectRef};
use drover_core::guest::levers::Refusal;
use drover_core::preflight::{Intent, Severity, examine};
use drover_operator::clusters::{ClusterError, ClusterVerbs, Started};
use drover_operator::guest::TanzuVerbs;
use drover_operator::harvester::verbs::Verbs;
use drover_operator::{connect, survey};
use jiff::SignedDuration;
use kube::Client;

use crate::args::{ConnectionArgs, MACHINE_TIMEOUT, Usage, machine_timeout};
use crate::output::print;

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Raises a TanzuKubernetesCluster to a version; or a Cluster of Cluster API: its control plane, and its workers once that is done
    Start(Start),
    /// Lets nodes of an Upgrade wait before they are drained, one or all that have not begun; or a whole guest cluster
    Pause(OnNodes),
    /// Lets paused nodes go on, one or all; or a whole guest cluster
    Resume(OnNodes),
    /// Lets an Upgrade or a TanzuKubernetesCluster that has failed take up what has failed
    Retry(Retry),
    /// Lets an Upgrade go on without a node that has failed, or that does not boot its new system
    Skip(OnNode),
    /// Calls an Upgrade off: the node at work reaches a safe state, the others stay as they are
    Abort(OnUpgrade),
}

#[derive(Debug, Args)]
struct Start {
    /// The guest cluster, as tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", value_parser = cluster)]
    cluster: Target,
    /// The version of Kubernetes; of a TanzuKubernetesCluster that of a distribution, or the beginning of one
    #[arg(long, value_name = "VERSION")]
    to: String,
    /// Stay until a Cluster of Cluster API is done: its workers are raised when their turn comes, and it is paused if a new machine fails
    #[arg(long)]
    wait: bool,
    /// How long each new machine may take to become a Node, with --wait
    #[arg(long, value_name = "DURATION", default_value = MACHINE_TIMEOUT, value_parser = machine_timeout, requires = "wait")]
    machine_timeout: SignedDuration,
    /// Leave a Cluster of Cluster API to an operator with the controller cluster, which begins when its turn comes and does all that --wait does
    #[arg(long, conflicts_with = "wait")]
    by_operator: bool,
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
    /// The Upgrade or the guest cluster, as upgrade/NAME, tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", value_parser = target)]
    target: Target,
    /// The node of an Upgrade [default: all that it can be said of]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct Retry {
    /// The Upgrade or the TanzuKubernetesCluster, as upgrade/NAME or tkc/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", value_parser = retried)]
    target: Target,
    /// The node of an Upgrade that has failed [default: whatever has failed]
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

/// What is started, paused, resumed and tried again.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    Upgrade(String),
    Tanzu(String, String),
    Cluster(String, String),
}

fn name(object: &str) -> Result<String, String> {
    match object.split_once('/') {
        Some(("upgrade", name)) if !name.is_empty() && !name.contains('/') => Ok(name.to_owned()),
        _ => Err("give an Upgrade as upgrade/NAME; Plans are paused by the annotation drover.dev/paused".to_owned()),
    }
}

fn cluster(object: &str) -> Result<Target, String> {
    match object.split('/').collect::<Vec<_>>()[..] {
        [kind, namespace, name] if !namespace.is_empty() && !name.is_empty() && ["tkc", "cluster"].contains(&kind) => {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            Ok(if kind == "tkc" { Target::Tanzu(namespace, name) } else { Target::Cluster(namespace, name) })
        }
        _ => Err("give a guest cluster as tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME; an Upgrade begins when it is created"
            .to_owned()),
    }
}

fn target(object: &str) -> Result<Target, String> {
    match object.starts_with("cluster/") || object.starts_with("tkc/") {
        true => cluster(object),
        false => name(object).map(Target::Upgrade),
    }
}

fn retried(object: &str) -> Result<Target, String> {
    match target(object)? {
        Target::Cluster(..) => {
            Err("Cluster API tries again by itself; give upgrade/NAME or tkc/NAMESPACE/NAME".to_owned())
        }
        other => Ok(other),
    }
}

pub fn run(args: &UpgradeArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.verb {
            Verb::Start(start) => begin(start).await,
            Verb::Pause(on) => pause(on).await,
            Verb::Resume(on) => resume(on).await,
            Verb::Retry(on) => retry(on).await,
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

/// Looks at everything once, and refuses what a pre-flight check would block, unless its owner accepts that.
async fn check(client: Client, object: ObjectRef, asks: impl FnOnce(&Cluster) -> Option<Intent>) -> anyhow::Result<()> {
    let clock = Clock::real();
    let mut cluster = survey::live(client.clone(), &clock).await;
    survey::authorities(client, &clock, &[object], &mut cluster).await;
    match asks(&cluster).and_then(|intent| refusal(&cluster, &intent)) {
        Some(refusal) => anyhow::bail!(refusal),
        None => Ok(()),
    }
}

/// What blocks it and is not accepted, in a sentence.
fn refusal(cluster: &Cluster, intent: &Intent) -> Option<String> {
    let report = examine(cluster, intent);
    let blocks = report.findings.iter().filter(|one| one.severity == Severity::Blocks && !one.accepted);
    let said: Vec<String> = blocks.clone().map(|one| format!("{}: {}", one.code, one.sentence)).collect();
    let codes: BTreeSet<&str> = blocks.map(|one| one.code).collect();
    let codes = codes.into_iter().collect::<Vec<_>>().join(",");
    (!said.is_empty()).then(|| {
        format!(
            "{} is not started: {}; drover preflight {} tells what helps; to have it begun nevertheless, annotate it with {ACCEPT}={codes}",
            intent.name,
            said.join("; "),
            intent.name
        )
    })
}

/// What a TanzuKubernetesCluster would ask for.
fn tanzu_intent(cluster: &Cluster, (namespace, name): (&str, &str), version: &str) -> Option<Intent> {
    let mut guest = cluster.tanzu.clusters.get(namespace, name)?.clone();
    guest.spec.distribution.full_version = version.to_owned();
    guest.spec.distribution.version.clear();
    Some(Intent::guest(guest))
}

/// What a Cluster would ask for. Where it is of no class, its control plane is asked, and the version was judged already.
fn cluster_intent(cluster: &Cluster, (namespace, name): (&str, &str), version: &str) -> Option<Intent> {
    let mut own = cluster.cluster_api.clusters.get(namespace, name)?.clone();
    if let Some(topology) = &mut own.spec.topology {
        topology.version = version.to_owned();
    }
    Some(Intent::cluster(own))
}

async fn begin(start: &Start) -> anyhow::Result<()> {
    let client = connect(&start.connection.connection()).await?;
    let (namespace, name) = match &start.cluster {
        Target::Cluster(namespace, name) => (namespace, name),
        Target::Tanzu(..) if start.wait => {
            anyhow::bail!(Usage(
                "--wait is for Clusters of Cluster API: the operator goes on with a TanzuKubernetesCluster".to_owned()
            ))
        }
        Target::Tanzu(..) if start.by_operator => {
            anyhow::bail!(Usage(
                "--by-operator is for Clusters of Cluster API: a TanzuKubernetesCluster is its operator's anyway"
                    .to_owned()
            ))
        }
        Target::Tanzu(namespace, name) => {
            let verbs = TanzuVerbs::on(client.clone(), Clock::real(), namespace, name);
            let version = verbs.would_start(&start.to).await?;
            let object = ObjectRef::new("TanzuKubernetesCluster", namespace, name);
            check(client, object, |cluster| tanzu_intent(cluster, (namespace, name), &version)).await?;
            let version = verbs.start(&start.to).await?;
            return print(&format!(
                "tkc/{namespace}/{name} asks for {version}; drover status tkc/{namespace}/{name} tells how far it is\n"
            ));
        }
        Target::Upgrade(_) => anyhow::bail!(Usage("an Upgrade begins when it is created".to_owned())),
    };
    let is_plane = |object: &ObjectRef| object.kind == "KubeadmControlPlane";
    let verbs = ClusterVerbs::on(client.clone(), Clock::real(), namespace, name);
    if start.by_operator {
        verbs.would_leave(&start.to).await?;
        let object = ObjectRef::new("Cluster", namespace, name);
        check(client, object, |cluster| cluster_intent(cluster, (namespace, name), &start.to)).await?;
        verbs.leave(&start.to).await?;
        return print(&format!(
            "cluster/{namespace}/{name} is left to an operator (drover operator --controllers cluster); drover why cluster/{namespace}/{name} \
             tells how far it is\n"
        ));
    }
    // Workers follow what has begun: it was checked then. Whoever waits may come when all is begun already.
    let begins = match verbs.would_start(&start.to).await {
        Err(ClusterError::Refused(Refusal::ControlPlaneFirst { .. } | Refusal::Nothing(..))) if start.wait => false,
        raised => raised?.iter().any(|object| object.kind != "MachineDeployment"),
    };
    if begins {
        let object = ObjectRef::new("Cluster", namespace, name);
        check(client, object, |cluster| cluster_intent(cluster, (namespace, name), &start.to)).await?;
    }
    if start.wait {
        verbs.follow(&start.to, start.machine_timeout, &mut |sentence| drop(print(&format!("{sentence}\n")))).await?;
        return print(&format!("cluster/{namespace}/{name} is at {}\n", start.to));
    }
    let Started { raised, taken_back } = verbs.start(&start.to).await?;
    if let Some(left) = taken_back {
        print(&format!("cluster/{namespace}/{name} is no longer left to an operator to raise it to {left}\n"))?;
    }
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
        Target::Tanzu(namespace, name) => {
            no_node(on.node.as_deref())?;
            TanzuVerbs::on(client, Clock::real(), namespace, name).pause().await?;
            print(&format!(
                "tkc/{namespace}/{name} paused: nothing is begun, workers stay as they are, a control plane that is at work is finished\n"
            ))
        }
        Target::Cluster(namespace, name) => {
            no_node(on.node.as_deref())?;
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
        Target::Tanzu(namespace, name) => {
            no_node(on.node.as_deref())?;
            TanzuVerbs::on(client, Clock::real(), namespace, name).resume().await?;
            print(&format!("tkc/{namespace}/{name} resumed\n"))
        }
        Target::Cluster(namespace, name) => {
            no_node(on.node.as_deref())?;
            ClusterVerbs::on(client, Clock::real(), namespace, name).resume().await?;
            print(&format!("cluster/{namespace}/{name} resumed\n"))
        }
    }
}

async fn retry(on: &Retry) -> anyhow::Result<()> {
    let client = connect(&on.connection.connection()).await?;
    match &on.target {
        Target::Upgrade(name) => {
            Verbs::on(client, Clock::real(), name).retry(on.node.as_deref()).await?;
            print(&format!("upgrade/{name} takes up what has failed\n"))
        }
        Target::Tanzu(namespace, name) => {
            no_node(on.node.as_deref())?;
            let changed = TanzuVerbs::on(client, Clock::real(), namespace, name).retry().await?;
            print(&format!("tkc/{namespace}/{name} takes up what has failed: {}\n", changed.join(", ")))
        }
        Target::Cluster(..) => anyhow::bail!(Usage("Cluster API tries again by itself".to_owned())),
    }
}

/// Of a guest cluster no single node is paused or tried again.
fn no_node(node: Option<&str>) -> anyhow::Result<()> {
    match node {
        Some(_) => anyhow::bail!(Usage("--node is for Upgrades: a guest cluster is taken as a whole".to_owned())),
        None => Ok(()),
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
        assert_eq!(target("tkc/team/web").unwrap(), Target::Tanzu("team".to_owned(), "web".to_owned()));
        for text in ["cluster/web", "cluster//web", "cluster/a/b/c", "tkc/web", "plan/team/web"] {
            assert!(target(text).is_err() && cluster(text).is_err(), "{text}");
        }
    }

    fn captured(name: &str) -> Cluster {
        let folder = format!("{}/../../tests/clusters/{name}/objects", env!("CARGO_MANIFEST_DIR"));
        survey::stored(&survey::Source::parse(&folder), &Clock::real()).unwrap()
    }

    #[test]
    fn what_a_pre_flight_check_blocks_is_not_started_unless_its_owner_accepts_it() {
        let mut cluster = captured("guest-image-malformed");
        let guest = cluster.tanzu.clusters.iter().next().unwrap().clone();
        let (namespace, name) = (guest.metadata.namespace.as_str(), guest.metadata.name.as_str());
        let asks = |cluster: &Cluster| tanzu_intent(cluster, (namespace, name), "v1.17.8+vmware.1-tkg.1").unwrap();

        let said = refusal(&cluster, &asks(&cluster)).unwrap();

        assert!(said.starts_with(&format!("tkc/{namespace}/{name} is not started: DRV-TKC-002: ")), "{said}");
        let (_, codes) = said.rsplit_once(&format!("{ACCEPT}=")).unwrap();
        let mut accepting = asks(&cluster);
        accepting.accepted = codes.split(',').map(str::to_owned).collect();
        assert_eq!(refusal(&cluster, &accepting), None);
        cluster = Cluster::default();
        assert!(
            tanzu_intent(&cluster, (namespace, name), "v1").is_none(),
            "what cannot be seen is not held against it"
        );
    }

    #[test]
    fn what_cluster_api_tries_again_by_itself_is_not_retried() {
        assert_eq!(retried("tkc/team/web").unwrap(), Target::Tanzu("team".to_owned(), "web".to_owned()));
        assert!(retried("cluster/team/web").is_err());
    }
}
