//! `drover operator`: carries out the Plans of a cluster until it is told to stop.

mod identity;
mod settings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use drover_clock::Clock;
use drover_core::guest::tanzu::Settings as GuestSettings;
use drover_core::harvester::Settings;
use drover_operator::clusters::{Keeper, KeeperOptions};
use drover_operator::guest::{Clusters, ClustersOptions, LIMIT as GUEST_LIMIT, RealGuests};
use drover_operator::harvester::{HarvesterOptions, HttpRepositories};
use drover_operator::{
    Connection, ElectionOptions, HttpChannels, Operator, OperatorOptions, Place, Planner, PlannerOptions, WatchOptions,
    Watcher, WebhookOptions, Webhooks, connect,
};
use jiff::SignedDuration;

use crate::args::{Format, MACHINE_TIMEOUT, machine_timeout};
use crate::{logging, signals};
use settings::Environment;

/// kube logs every request that fails, on top of what the operator says about it.
const LOGGED: &str = "info,kube_client=off";
/// Under which the Jobs of guest clusters run; deploy/guest.yaml brings it.
const GUEST_SERVICE_ACCOUNT: &str = "drover-control-plane-upgrade";
/// The Service that deploy/admission.yaml brings.
const WEBHOOK_SERVICE: &str = "drover-webhook";
const LOGGED_FOR_DEBUGGING: &str = "debug,hyper=info,hyper_util=info,rustls=info,kube_client=off";

#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// Which controllers to run; this release has plan, harvester, planner, guest and cluster
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "plan", value_parser = controller)]
    controllers: Vec<Controller>,
    /// The namespace of the Plans and of the Lease [default: $SYSTEM_UPGRADE_CONTROLLER_NAMESPACE, else system-upgrade]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// How the operator is called in Jobs, Events and the Lease
    /// [default: $SYSTEM_UPGRADE_CONTROLLER_NAME, else system-upgrade-controller]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The node that the operator runs on, which Events tell of [default: $SYSTEM_UPGRADE_CONTROLLER_NODE_NAME, else the
    /// machine's name]
    #[arg(long, value_name = "NODE")]
    node_name: Option<String>,
    /// Lead only while holding the Lease; without, every operator acts at once
    /// [default: $SYSTEM_UPGRADE_CONTROLLER_LEADER_ELECT, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,
    /// Log more
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    debug: Option<bool>,
    /// The kubeconfig to connect with [default: $SYSTEM_UPGRADE_CONTROLLER_KUBE_CONFIG, $KUBECONFIG, ~/.kube/config, or the
    /// pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The API server's URL, instead of the kubeconfig's [default: $SYSTEM_UPGRADE_CONTROLLER_MASTER_URL]
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// How many guest clusters are updated at once; 0: all that are asked for
    #[arg(long, value_name = "N", default_value_t = GUEST_LIMIT)]
    guest_limit: usize,
    /// The image of Jobs that run Drover itself, for guest clusters, Harvester and machines without an agent [default: $DROVER_JOB_IMAGE, Drover's
    /// own]
    #[arg(long, value_name = "IMAGE")]
    job_image: Option<String>,
    /// The labels of Nodes on which the Jobs of guest clusters may run, KEY=VALUE and so on; empty: on any [default: those of a control plane]
    #[arg(long, value_name = "LABELS", value_parser = labels)]
    guest_job_node_selector: Option<Labels>,
    /// How long each new machine of a guest cluster may take to become a Node that is ready, and an old one to go
    #[arg(long, value_name = "DURATION", default_value = MACHINE_TIMEOUT, value_parser = machine_timeout)]
    machine_timeout: SignedDuration,
    /// Read for compatibility: one thread does it all
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Read for compatibility
    #[arg(long, hide = true, value_name = "NAME")]
    service_account: Option<String>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Write nothing: only tell over HTTP what upgrades wait for, whoever drives them
    #[arg(long)]
    watch_only: bool,
    /// Where to answer with /metrics, /waits, /status and /healthz
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080", requires = "watch_only")]
    listen: SocketAddr,
    /// Answer the API server's questions about Upgrades of Harvester here, and register for them
    #[arg(long, value_name = "ADDR", conflicts_with = "watch_only")]
    webhook_listen: Option<SocketAddr>,
    /// The Service through which the API server reaches the webhooks [default: drover-webhook in the operator's namespace]
    #[arg(long, value_name = "NS/NAME", requires = "webhook_listen", conflicts_with = "webhook_url")]
    webhook_service: Option<String>,
    /// Where the API server reaches the webhooks, for an operator outside of the cluster
    #[arg(long, value_name = "URL", requires = "webhook_listen")]
    webhook_url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Plan,
    Harvester,
    Planner,
    Guest,
    Cluster,
}

/// Labels that are given as one argument.
type Labels = BTreeMap<String, String>;

fn labels(text: &str) -> Result<Labels, String> {
    let label = |one: &str| {
        let (key, value) = one.split_once('=').ok_or_else(|| format!("{one:?} is no label: give KEY=VALUE"))?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(label).collect()
}

fn controller(name: &str) -> Result<Controller, String> {
    match name {
        "plan" => Ok(Controller::Plan),
        "harvester" => Ok(Controller::Harvester),
        "planner" => Ok(Controller::Planner),
        "guest" => Ok(Controller::Guest),
        "cluster" => Ok(Controller::Cluster),
        "logs" => {
            Err("the controller logs is not in this release, only plan, harvester, planner, guest and cluster are"
                .to_owned())
        }
        _ => Err("there is no such controller, only plan, harvester, planner, guest and cluster".to_owned()),
    }
}

pub fn run(args: OperatorArgs, format: Option<Format>) -> anyhow::Result<()> {
    let environment = Environment::of_this_process();
    let debug = args.debug.or(environment.debug()).unwrap_or(false);
    logging::start(if debug { LOGGED_FOR_DEBUGGING } else { LOGGED }, format)?;
    environment.say_what_cannot_be_read();
    let options = options(&args, &environment);
    let job_image = job_image(&args, &environment);
    let webhooks = webhooks(&args, &options.namespace)?;
    let kubeconfig = args.kubeconfig.or_else(|| environment.kubeconfig());
    let server = args.master.or_else(|| environment.server());

    let connection = Connection { kubeconfig, context: args.context, server };
    if args.watch_only {
        return watch(&connection, args.listen);
    }

    // One thread is enough: an operator waits nearly all of the time, and each further one costs memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stopped = signals::stopped()?;
        let client = connect(&connection).await?;
        tracing::info!("drover {} as {}", env!("CARGO_PKG_VERSION"), options.identity);
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let told = async {
            stopped.await;
            tracing::info!("stopping: giving back the Lease");
            // Whoever listens no longer has ended before.
            let _ = stop.send(true);
        };
        let until_told = || {
            let mut stopping = stopping.clone();
            async move { drop(stopping.wait_for(|stops| *stops).await) }
        };
        let runs = |controller: Controller| args.controllers.contains(&controller);
        let planner = runs(Controller::Planner).then(|| {
            let mut planner = PlannerOptions::new(&options.identity, Clock::real());
            planner.image = job_image.clone();
            tracing::info!("plans of machines in namespace {}, Lease {}", planner.namespace, planner.election.name);
            Planner::new(client.clone(), planner).run(until_told())
        });
        let guests = runs(Controller::Guest).then(|| {
            let selector = args.guest_job_node_selector.clone();
            let mut clusters = guests(&options.identity, &job_image, args.machine_timeout, selector);
            clusters.limit = Some(args.guest_limit).filter(|limit| *limit > 0);
            let ElectionOptions { namespace, name, .. } = &clusters.election;
            tracing::info!("TanzuKubernetesClusters, Lease {namespace}/{name}");
            Clusters::new(client.clone(), clusters).run(until_told())
        });
        let clusters = runs(Controller::Cluster).then(|| {
            let mut keeper = KeeperOptions::new(&options.namespace, &options.identity, Clock::real());
            keeper.limit = Some(args.guest_limit).filter(|limit| *limit > 0);
            keeper.machine_timeout = args.machine_timeout;
            let ElectionOptions { namespace, name, .. } = &keeper.election;
            tracing::info!("Clusters of Cluster API that are left to an operator, Lease {namespace}/{name}");
            Keeper::new(client.clone(), keeper).run(until_told())
        });
        let webhooks = match webhooks {
            Some(webhooks) => Some(Webhooks::bind(webhooks).await?.run(client.clone(), until_told())),
            None => None,
        };
        let upgrades = runs(Controller::Plan) || runs(Controller::Harvester);
        let upgrades = upgrades.then(|| {
            let ElectionOptions { namespace, name, .. } = &options.election;
            if options.plans {
                tracing::info!("Plans of namespace {}, Lease {namespace}/{name}", options.namespace);
            }
            if options.harvester.is_some() {
                tracing::info!("Upgrades of Harvester, Lease {namespace}/{name}");
            }
            Operator::new(client, options).run(until_told())
        });
        tokio::join!(told, if_any(upgrades), if_any(planner), if_any(guests), if_any(clusters), if_any(webhooks));
        tracing::info!("stopped");
        Ok(())
    })
}

async fn if_any(controller: Option<impl Future<Output = ()>>) {
    if let Some(controller) = controller {
        controller.await;
    }
}

/// Looks and tells, until it is stopped.
fn watch(connection: &Connection, listen: SocketAddr) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let stopped = signals::stopped()?;
        let client = connect(connection).await?;
        let options = WatchOptions { listen, clock: Clock::real() };
        let watcher = Watcher::bind(options).await?;
        tracing::info!(
            "drover {} only watches, and answers on http://{}",
            env!("CARGO_PKG_VERSION"),
            watcher.address()
        );
        watcher.run(client, stopped).await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// How guest clusters are kept.
fn guests(
    identity: &str,
    image: &str,
    machine_timeout: SignedDuration,
    node_selector: Option<Labels>,
) -> ClustersOptions {
    let settings = GuestSettings {
        image: image.to_owned(),
        service_account: GUEST_SERVICE_ACCOUNT.to_owned(),
        machine_timeout,
        node_selector,
    };
    ClustersOptions::new(identity, settings, Arc::new(RealGuests), Clock::real())
}

/// Whether and how to answer the API server.
fn webhooks(args: &OperatorArgs, namespace: &str) -> anyhow::Result<Option<WebhookOptions>> {
    let Some(listen) = args.webhook_listen else { return Ok(None) };
    let place = match (&args.webhook_url, &args.webhook_service) {
        (Some(url), _) if url.starts_with("https://") => Place::Url(url.clone()),
        (Some(url), _) => bail!("{url} is no URL that an API server calls: give https://HOST:PORT"),
        (None, Some(service)) => match service.split_once('/') {
            Some((namespace, name)) => Place::Service { namespace: namespace.to_owned(), name: name.to_owned() },
            None => bail!("{service} names no Service: give NAMESPACE/NAME"),
        },
        (None, None) => Place::Service { namespace: namespace.to_owned(), name: WEBHOOK_SERVICE.to_owned() },
    };
    Ok(Some(WebhookOptions { listen, place, namespace: namespace.to_owned(), clock: Clock::real() }))
}

fn job_image(args: &OperatorArgs, environment: &Environment) -> String {
    args.job_image.clone().unwrap_or_else(|| environment.job_image())
}

/// What is said on the command line wins over the environment.
fn options(args: &OperatorArgs, environment: &Environment) -> OperatorOptions {
    let mut settings = environment.job_settings();
    settings.controller = args.name.clone().unwrap_or(settings.controller);
    let namespace = args.namespace.clone().or_else(|| environment.namespace());
    let namespace = namespace.unwrap_or_else(|| settings::NAMESPACE.to_owned());

    let mut options = OperatorOptions::new(&namespace, &identity::of_this_process(), Clock::real());
    options.election = environment.election(ElectionOptions::new(&namespace, &settings.controller));
    options.election.stands = args.leader_elect.or(environment.leader_elect()).unwrap_or(true);
    options.settings = settings;
    options.poll_interval = environment.poll_interval().unwrap_or(options.poll_interval);
    options.channels = Arc::new(HttpChannels::default());
    options.plans = args.controllers.contains(&Controller::Plan);
    options.harvester = args.controllers.contains(&Controller::Harvester).then(|| HarvesterOptions {
        settings: Settings { image: job_image(args, environment) },
        repositories: Arc::new(HttpRepositories),
        asks_machines: true,
    });
    options.node = args.node_name.clone().or_else(|| environment.node_name()).or_else(|| Some(identity::hostname()));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> OperatorArgs {
        use clap::{Args as _, FromArgMatches as _};
        let command = OperatorArgs::augment_args(clap::Command::new("operator"));
        OperatorArgs::from_arg_matches(&command.get_matches_from([&["operator"], args].concat())).unwrap()
    }

    #[test]
    fn the_flags_of_system_upgrade_controller_are_read() {
        let args = read(&[
            "--debug",
            "--leader-elect=false",
            "--name=suc",
            "--namespace=cattle-system",
            "--node-name=n1",
            "--threads=2",
            "--service-account=x",
            "--master=https://example.com",
        ]);
        let options = options(&args, &Environment::default());

        assert_eq!(args.debug, Some(true));
        assert_eq!((options.namespace.as_str(), options.settings.controller.as_str()), ("cattle-system", "suc"));
        assert_eq!((options.election.namespace.as_str(), options.election.name.as_str()), ("cattle-system", "suc"));
        assert!(!options.election.stands);
        assert_eq!(options.node.as_deref(), Some("n1"));
        assert!(super::options(&read(&[]), &Environment::default()).election.stands);
    }

    #[test]
    fn how_long_a_machine_may_take_is_a_quarter_of_an_hour_unless_something_else_is_said() {
        let of = |args: &[&str]| read(args).machine_timeout;

        assert_eq!(of(&[]), drover_core::guest::MACHINE_TIMEOUT);
        assert_eq!(of(&["--machine-timeout=1h30m"]), SignedDuration::from_mins(90));
        assert!(machine_timeout("0s").is_err_and(|why| why.contains("longer than nothing")));
        assert!(machine_timeout("soon").is_err_and(|why| why.contains("no duration such as 15m or 1h30m")));
    }

    #[test]
    fn the_api_server_finds_the_webhooks_by_a_service_or_a_url() {
        let of = |args: &[&str]| webhooks(&read(&[&["--webhook-listen=0.0.0.0:9443"], args].concat()), "drover");
        let service = |namespace: &str, name: &str| Place::Service { namespace: namespace.into(), name: name.into() };

        assert_eq!(of(&[]).unwrap().unwrap().place, service("drover", "drover-webhook"));
        assert_eq!(of(&["--webhook-service=a/b"]).unwrap().unwrap().place, service("a", "b"));
        assert_eq!(of(&["--webhook-url=https://host:1"]).unwrap().unwrap().place, Place::Url("https://host:1".into()));
        assert!(of(&["--webhook-url=http://host:1"]).is_err());
        assert!(of(&["--webhook-service=b"]).is_err());
        assert!(webhooks(&read(&[]), "drover").unwrap().is_none());
    }

    #[test]
    fn controllers_of_later_releases_are_refused_by_name() {
        assert_eq!(controller("plan"), Ok(Controller::Plan));
        assert_eq!(
            controller("logs").unwrap_err(),
            "the controller logs is not in this release, only plan, harvester, planner, guest and cluster are"
        );
        assert_eq!(controller("guest"), Ok(Controller::Guest));
        assert_eq!(controller("cluster"), Ok(Controller::Cluster));
        assert_eq!(
            controller("plans").unwrap_err(),
            "there is no such controller, only plan, harvester, planner, guest and cluster"
        );
    }
}
