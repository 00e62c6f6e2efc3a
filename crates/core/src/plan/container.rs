//! The containers of a Job's pod: `prepare`, then `drain` or `cordon`, then `upgrade`.

use drover_api::plan::jobs::{REBOOT_CAPABILITY, WINDOWS_USER, containers, variables, volumes};
use drover_api::plan::{ContainerSpec, DrainSpec, VolumeSpec, labels};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, ObjectFieldSelector, SecurityContext, VolumeMount,
    WindowsSecurityContextOptions,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::duration::GoDuration;
use super::image::with_tag;
use super::job::JobOrder;
use super::names;
use super::selector::Selector;

/// What runs before the upgrade, one after the other.
pub fn before(order: &JobOrder<'_>) -> Vec<Container> {
    let prepare = order.spec.prepare.as_ref().map(|prepare| {
        let image = with_tag(&prepare.image, order.version);
        Container {
            security_context: if order.is_windows {
                Some(as_windows_system())
            } else {
                prepare.security_context.clone()
            },
            ..container(order, containers::PREPARE, &ContainerSpec { image, ..prepare.clone() })
        }
    });
    let empty = match &order.spec.drain {
        Some(drain) => Some((containers::DRAIN, drain_args(order.node, drain))),
        None if order.spec.cordon => {
            Some((containers::CORDON, vec![containers::CORDON.to_owned(), order.node.to_owned()]))
        }
        None => None,
    };
    let empty = empty.map(|(name, args)| {
        let settings = order.settings;
        let image = if order.is_windows { &settings.kubectl_image_windows } else { &settings.kubectl_image };
        let (image, volumes) = (image.clone(), order.spec.upgrade.volumes.clone());
        Container {
            security_context: order.is_windows.then(as_windows_system),
            ..container(order, name, &ContainerSpec { image, args, volumes, ..ContainerSpec::default() })
        }
    });
    prepare.into_iter().chain(empty).collect()
}

pub fn upgrade(order: &JobOrder<'_>) -> Container {
    let spec = &order.spec.upgrade;
    let own_default = || if order.is_windows { as_windows_system() } else { free_to_reboot(order) };
    let image = with_tag(&spec.image, order.version);
    Container {
        security_context: Some(spec.security_context.clone().unwrap_or_else(own_default)),
        ..container(order, containers::UPGRADE, &ContainerSpec { image, ..spec.clone() })
    }
}

/// What an upgrade may do if its Plan does not say.
fn free_to_reboot(order: &JobOrder<'_>) -> SecurityContext {
    SecurityContext {
        privileged: Some(order.settings.privileged),
        capabilities: Some(Capabilities { add: Some(vec![REBOOT_CAPABILITY.to_owned()]), ..Capabilities::default() }),
        ..SecurityContext::default()
    }
}

/// Windows has no privileged containers; those that run on the host itself come closest.
fn as_windows_system() -> SecurityContext {
    SecurityContext {
        windows_options: Some(WindowsSecurityContextOptions {
            host_process: Some(true),
            run_as_user_name: Some(WINDOWS_USER.to_owned()),
            ..WindowsSecurityContextOptions::default()
        }),
        ..SecurityContext::default()
    }
}

fn container(order: &JobOrder<'_>, name: &str, spec: &ContainerSpec) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(spec.image.clone()),
        image_pull_policy: Some(order.settings.image_pull_policy.clone()),
        command: some(spec.command.clone()),
        args: some(spec.args.clone()),
        env: Some(environment(order, &spec.envs)),
        env_from: some(spec.env_from.clone()),
        volume_mounts: Some(mounts(order, &spec.volumes)),
        ..Container::default()
    }
}

/// An empty list is left out, as the API server stores it.
pub(super) fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn environment(order: &JobOrder<'_>, own: &[EnvVar]) -> Vec<EnvVar> {
    let field = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), api_version: None }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let text =
        |name: &str, value: &str| EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() };
    // The Plan's own may refer to the first three, and may not hide the last three.
    let mut all = vec![
        field(variables::NODE_NAME, "spec.nodeName"),
        field(variables::POD_NAME, "metadata.name"),
        field(variables::POD_UID, "metadata.uid"),
    ];
    all.extend_from_slice(own);
    all.push(text(variables::PLAN_NAME, &order.plan.name));
    all.push(text(variables::PLAN_LATEST_HASH, order.hash.as_str()));
    all.push(text(variables::PLAN_LATEST_VERSION, order.version));
    all
}

fn mounts(order: &JobOrder<'_>, own: &[VolumeSpec]) -> Vec<VolumeMount> {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let mut all = vec![
        mount(volumes::HOST_ROOT, volumes::HOST_ROOT_PATH, false),
        mount(volumes::POD_INFO, volumes::POD_INFO_PATH, true),
    ];
    for secret in &order.spec.secrets {
        let path = if secret.path.is_empty() { &secret.name } else { &secret.path };
        all.push(mount(&names::secret_volume(&secret.name), &below_secrets(path), true));
    }
    all.extend(own.iter().map(|volume| mount(&volume.name, &volume.destination, false)));
    all
}

/// An absolute path as it is; any other below the folder for Secrets, without `.`, `..` and empty steps.
fn below_secrets(path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let mut steps: Vec<&str> = volumes::SECRETS_PATH.split('/').skip(1).collect();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

/// The arguments of `kubectl drain`. Pods of Plans' Jobs stay: one of them does the work.
fn drain_args(node: &str, drain: &DrainSpec) -> Vec<String> {
    // A selector that cannot be read has been refused long before a Job is made.
    let chosen = drain.pod_selector.as_ref().and_then(|selector| Selector::parse(selector).ok()).unwrap_or_default();
    let pods = chosen.without(labels::CONTROLLER).to_string();
    let mut args = vec![containers::DRAIN.to_owned(), node.to_owned(), "--pod-selector".to_owned(), pods];
    let mut add = |arg: &str| args.push(arg.to_owned());
    if drain.ignore_daemon_sets.unwrap_or(true) {
        add("--ignore-daemonsets");
    }
    if drain.delete_local_data.unwrap_or(true) && drain.delete_emptydir_data.unwrap_or(true) {
        add("--delete-emptydir-data");
    }
    if drain.force {
        add("--force");
    }
    if let Some(timeout) = &drain.timeout {
        add("--timeout");
        match timeout {
            IntOrString::Int(nanos) => add(&GoDuration::from_nanos(i64::from(*nanos)).to_string()),
            IntOrString::String(text) => add(text),
        }
    }
    if let Some(seconds) = drain.grace_period {
        add("--grace-period");
        add(&seconds.to_string());
    }
    if drain.disable_eviction {
        add("--disable-eviction=true");
    }
    if drain.skip_wait_for_delete_timeout > 0 {
        add("--skip-wait-for-delete-timeout");
        add(&drain.skip_wait_for_delete_timeout.to_string());
    }
    args
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn args(drain: Value) -> String {
        drain_args("n1", &serde_json::from_value(drain).unwrap())[2..].join(" ")
    }

    #[test]
    fn a_drain_without_options_leaves_daemonsets_and_empties_scratch_space() {
        let drain = drain_args("n1.example", &DrainSpec::default());

        assert_eq!(
            drain,
            [
                "drain",
                "n1.example",
                "--pod-selector",
                "!upgrade.cattle.io/controller",
                "--ignore-daemonsets",
                "--delete-emptydir-data",
            ]
        );
    }

    #[test]
    fn every_option_of_a_drain_has_its_place() {
        let drain = json!({
            "timeout": "5m",
            "gracePeriod": -1,
            "force": true,
            "disableEviction": true,
            "skipWaitForDeleteTimeout": 60,
            "podSelector": {
                "matchLabels": { "x": "y" },
                "matchExpressions": [{ "key": "component", "operator": "NotIn", "values": ["z", "a"] }],
            },
        });

        assert_eq!(
            args(drain),
            "--pod-selector component notin (a,z),!upgrade.cattle.io/controller,x=y --ignore-daemonsets \
             --delete-emptydir-data --force --timeout 5m --grace-period -1 --disable-eviction=true \
             --skip-wait-for-delete-timeout 60"
        );
    }

    #[test]
    fn what_a_plan_switches_off_is_left_out_of_the_drain() {
        assert!(!args(json!({ "ignoreDaemonSets": false })).contains("--ignore-daemonsets"));
        assert!(args(json!({ "ignoreDaemonSets": true })).contains("--ignore-daemonsets"));
        for flag in ["deleteLocalData", "deleteEmptydirData"] {
            assert!(!args(json!({ flag: false })).contains("--delete-emptydir-data"), "{flag}");
            assert!(args(json!({ flag: true })).contains("--delete-emptydir-data"), "{flag}");
        }
    }

    #[test]
    fn a_timeout_that_is_a_number_counts_nanoseconds() {
        assert!(args(json!({ "timeout": 60 })).ends_with("--timeout 60ns"));
        assert!(args(json!({ "timeout": 2_000_000_000 })).ends_with("--timeout 2s"));
    }

    #[test]
    fn only_a_positive_time_to_skip_is_passed_on() {
        for (seconds, passed) in [(-1, false), (0, false), (1, true)] {
            let args = args(json!({ "skipWaitForDeleteTimeout": seconds }));
            assert_eq!(args.contains("--skip-wait-for-delete-timeout"), passed, "{seconds}");
        }
    }

    #[test]
    fn a_secret_is_mounted_where_its_path_says() {
        assert_eq!(below_secrets("/run/secret/having-path"), "/run/secret/having-path");
        assert_eq!(below_secrets("certs/ca"), "/run/system-upgrade/secrets/certs/ca");
        assert_eq!(below_secrets("./a//../b"), "/run/system-upgrade/secrets/b");
        assert_eq!(below_secrets("../../../../x"), "/x");
    }
}
