//! `drover control-plane-upgrade`: replaces the control plane of a guest cluster, machine by machine, with the flags and the
//! config file of cluster-api-upgrade-tool.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use drover_clock::Clock;
use drover_core::guest::{MACHINE_TIMEOUT, Order, OrderError, Patches, Version, Wait};
use drover_core::plan::duration::GoDuration;
use drover_operator::guest::{RealGuests, Saying, update};
use drover_operator::{Connection, connect};
use jiff::SignedDuration;
use serde::Deserialize;

use crate::last_words;
use crate::output::one_sentence;

#[derive(Debug, Args)]
pub struct ControlPlaneUpgradeArgs {
    /// A YAML or JSON file with any of the values below; flags win over it
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    config: Option<PathBuf>,
    /// The kubeconfig of the management cluster [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the guest cluster
    #[arg(long, value_name = "NAMESPACE")]
    cluster_namespace: Option<String>,
    /// The name of the guest cluster
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The version of Kubernetes to bring its control plane to
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    /// What new machines are called after; the same id goes on with what was begun
    #[arg(long, value_name = "ID")]
    upgrade_id: Option<String>,
    /// JSON patches (RFC 6902) for the infrastructure of new machines
    #[arg(long, value_name = "JSON")]
    infrastructure_patches: Option<String>,
    /// JSON patches for the KubeadmConfig of new machines
    #[arg(long, value_name = "JSON")]
    bootstrap_patches: Option<String>,
    /// JSON patches for the ClusterConfiguration in the ConfigMap kubeadm-config
    #[arg(long, value_name = "JSON")]
    kubeadm_configmap_patches: Option<String>,
    /// How many machines the control plane is to have, an odd number [default: as many as it has]
    #[arg(long, value_name = "N")]
    replicas: Option<usize>,
    /// How long each machine may take to come, and to go [default: 15m]
    #[arg(long, value_name = "DURATION")]
    machine_timeout: Option<String>,
}

/// The config file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    management_cluster: ManagementCluster,
    target_cluster: TargetCluster,
    kubernetes_version: Option<String>,
    #[serde(rename = "upgradeID")]
    upgrade_id: Option<String>,
    patches: ConfigPatches,
    replicas: Option<usize>,
    machine_timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ManagementCluster {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct TargetCluster {
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ConfigPatches {
    infrastructure: Option<String>,
    bootstrap: Option<String>,
    kubeadm_config_map: Option<String>,
}

/// Why a Job has failed is known to its pod alone, and told to the owner of the cluster by its last words.
pub fn run(args: &ControlPlaneUpgradeArgs) -> anyhow::Result<()> {
    let done = carry_out(args);
    done.inspect_err(|error| last_words::leave(&one_sentence(error)))
}

fn carry_out(args: &ControlPlaneUpgradeArgs) -> anyhow::Result<()> {
    let config = match named(&args.config) {
        Some(path) => {
            let shown = path.display();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the config file {shown}"))?;
            read(&text).with_context(|| format!("the config file {shown} is not valid"))?
        }
        None => Config::default(),
    };
    let order = order(args, &config)?;
    let connection = Connection {
        kubeconfig: named(&args.kubeconfig).or(named(&config.management_cluster.kubeconfig)).cloned(),
        context: config.management_cluster.context.clone(),
        server: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&connection).await?;
        update(client, &RealGuests, Clock::real(), &order, &mut say).await?;
        say(Saying::Does(format!("no machine of Cluster {}/{} differs any more", order.namespace, order.cluster)));
        Ok(())
    })
}

/// An empty path is none, as by default under the original.
fn named(path: &Option<PathBuf>) -> Option<&PathBuf> {
    path.as_ref().filter(|path| !path.as_os_str().is_empty())
}

fn read(text: &str) -> anyhow::Result<Config> {
    if text.trim().is_empty() {
        return Ok(Config::default());
    }
    serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{}", error.without_snippet()))
}

/// Flags win over the file; what neither says has its default or is asked for.
fn order(args: &ControlPlaneUpgradeArgs, config: &Config) -> anyhow::Result<Order> {
    let text = |flag: &Option<String>, file: &Option<String>| {
        let said = |text: &&String| !text.is_empty();
        flag.as_ref().filter(said).or(file.as_ref().filter(said)).cloned().unwrap_or_default()
    };
    let version = text(&args.kubernetes_version, &config.kubernetes_version);
    let version = match Version::parse(&version) {
        Some(version) => version,
        None if version.is_empty() => return Err(OrderError::Missing("the version of Kubernetes").into()),
        None => return Err(OrderError::Version(version).into()),
    };
    let timeout = text(&args.machine_timeout, &config.machine_timeout);
    let machine_timeout = match timeout.as_str() {
        "" => MACHINE_TIMEOUT,
        text => GoDuration::parse(text)
            .map(SignedDuration::from)
            .with_context(|| format!("the machine timeout {text:?} is no duration such as 15m or 1h30m"))?,
    };
    let patches = Patches {
        infrastructure: Patches::parse(
            "the infrastructure patches",
            &text(&args.infrastructure_patches, &config.patches.infrastructure),
        )?,
        bootstrap: Patches::parse("the bootstrap patches", &text(&args.bootstrap_patches, &config.patches.bootstrap))?,
        kubeadm: Patches::parse(
            "the kubeadm ConfigMap patches",
            &text(&args.kubeadm_configmap_patches, &config.patches.kubeadm_config_map),
        )?,
    };
    let order = Order {
        namespace: text(&args.cluster_namespace, &config.target_cluster.namespace),
        cluster: text(&args.cluster_name, &config.target_cluster.name),
        version,
        id: text(&args.upgrade_id, &config.upgrade_id),
        patches,
        replicas: args.replicas.or(config.replicas),
        machine_timeout,
    };
    Ok(order.check()?)
}

/// One line a saying, for the log of the pod. Whoever does not read it keeps nothing from going on.
fn say(saying: Saying) {
    let mut out = std::io::stdout().lock();
    let _ = match saying {
        Saying::Does(what) => writeln!(out, "{what}"),
        Saying::Warns(what) => writeln!(out, "warning: {what}"),
        Saying::Refused(why) => writeln!(out, "trying again: {why}"),
        Saying::Waits(waits) => waits.iter().try_for_each(|wait| {
            let Wait { reason, sentence, deadline, remedy, .. } = wait;
            writeln!(out, "waits: {reason}: {sentence} (until {deadline}); if it stays so: {remedy}")
        }),
    };
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Called {
        #[command(flatten)]
        args: ControlPlaneUpgradeArgs,
    }

    fn called(flags: &[&str], file: &str) -> anyhow::Result<Order> {
        let args = std::iter::once("control-plane-upgrade").chain(flags.iter().copied());
        order(&Called::try_parse_from(args).unwrap().args, &read(file).unwrap())
    }

    /// The arguments of the Job that a TanzuKubernetesCluster is updated by.
    #[test]
    fn the_arguments_of_a_tanzu_kubernetes_clusters_job_are_understood() {
        let infrastructure = r#"--infrastructure-patches=[{"op":"replace","path":"/spec/imageName","value":"photon"},{"op":"replace","path":"/spec/className","value":"best-effort-xlarge"}]"#;
        let order = called(
            &[
                "--kubernetes-version=v1.16.7+vmware.1",
                "--upgrade-id=1280807",
                "--cluster-name=my-tkc",
                "--cluster-namespace=default",
                infrastructure,
            ],
            "",
        )
        .unwrap();
        assert_eq!(order.version.to_string(), "1.16.7+vmware.1");
        assert_eq!((order.patches.infrastructure.len(), order.machine_timeout), (2, MACHINE_TIMEOUT));
    }

    #[test]
    fn files_that_are_named_by_nothing_are_none_as_by_default_under_the_original() {
        let Called { args } = Called::try_parse_from(["control-plane-upgrade", "--config=", "--kubeconfig="]).unwrap();
        assert_eq!((named(&args.config), named(&args.kubeconfig)), (None, None));
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_defaults() {
        let file =
            "targetCluster: { namespace: a, name: b }\nkubernetesVersion: 1.16.7\nupgradeID: one\nmachineTimeout: 5m\n";
        let order = called(&["--upgrade-id", "two"], file).unwrap();
        assert_eq!((order.namespace.as_str(), order.cluster.as_str(), order.id.as_str()), ("a", "b", "two"));
        assert_eq!(order.machine_timeout, SignedDuration::from_mins(5));
    }

    #[test]
    fn what_is_wrong_is_said_by_name() {
        let whole = ["--cluster-namespace=a", "--cluster-name=b", "--kubernetes-version=1.16", "--upgrade-id=x"];
        let wrong = |flags: &[&str]| called(flags, "").unwrap_err().to_string();
        assert!(called(&whole, "").is_ok());
        assert_eq!(wrong(&whole[1..]), "the cluster's namespace is required");
        assert!(wrong(&[&whole[..3], &["--upgrade-id=Not_A_Name"]].concat()).contains("Not_A_Name"));
        assert!(wrong(&[&whole[..2], &["--kubernetes-version=new", "--upgrade-id=x"]].concat()).contains("\"new\""));
        assert!(wrong(&[&whole[..], &["--machine-timeout=0s"]].concat()).contains("longer than nothing"));
        assert!(
            wrong(&[&whole[..], &["--bootstrap-patches=[{\"op\":\"explode\"}]"]].concat())
                .contains("bootstrap patches")
        );
    }
}
