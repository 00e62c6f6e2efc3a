//! What a pod that has succeeded leaves on its machine: another version, another system, a reboot, images.

use drover_api::harvester::jobs::{self as harvester, stock};
use drover_api::plan::{jobs::variables, labels};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{KubeletOptions, Machine};
use crate::world::annotations::{self, KUBELET_VERSION, Lasts, OS_IMAGE, REBOOT};
use crate::world::outcome::stamp;

/// A pod with a container of this name and a version label upgrades its machine, as those of Plans do.
const UPGRADE_CONTAINER: &str = "upgrade";

/// `drover node preload`.
const PRELOAD: &str = "preload";

/// `drover node apply-plan`.
const APPLY_PLAN: &str = "apply-plan";

/// How distributions mark their builds of a version. A tag or a label cannot hold the `+` that comes before the mark.
const BUILD_MARKS: [&str; 2] = ["k3s", "rke2r"];

#[derive(Clone, Debug, PartialEq)]
pub struct Upgraded {
    pub kubelet_version: Option<String>,
    pub os_image: Option<String>,
    /// What was missing of images is there.
    pub loads_images: bool,
    /// Until when the machine is away; the last moment that there is if it does not come back.
    pub down_until: Option<Timestamp>,
}

/// None for a pod that is no upgrade.
pub fn by(pod: &Pod, machine: &Machine, options: &KubeletOptions, now: Timestamp) -> Option<Upgraded> {
    let said = pod.metadata.annotations.as_ref();
    let text = |key: &str| said.and_then(|all| all.get(key)).cloned();
    let kubelet_version =
        text(KUBELET_VERSION).or_else(|| plan_version(pod).or_else(|| version_of_plan(pod)).map(in_full));
    let os_image = text(OS_IMAGE);
    let loads_images = machine.missing_images.is_some() && is_preload(pod);
    if kubelet_version.is_none() && os_image.is_none() && !loads_images {
        return None;
    }
    let reboot = machine.reboot.or(annotations::lasts_for_all(said, REBOOT)).or(options.reboot.map(Lasts::For));
    // Nobody reboots for images.
    let down_until = reboot.filter(|_| !loads_images).map(|lasts| match lasts {
        Lasts::For(time) => later(stamp(now).0, time),
        Lasts::Forever => Timestamp::MAX,
    });
    Some(Upgraded { kubelet_version, os_image, loads_images, down_until })
}

/// The pods of a Harvester upgrade's first Plan load its images, by the steps of Drover or of the release.
fn is_preload(pod: &Pod) -> bool {
    let of_upgrade = |labels: &std::collections::BTreeMap<String, String>| labels.contains_key(harvester::UPGRADE);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let args = containers.filter(|container| container.name == UPGRADE_CONTAINER).filter_map(|one| one.args.as_ref());
    let loads = |args: &Vec<String>| {
        args.first().is_some_and(|first| first == stock::PREPARE) || args.get(1).is_some_and(|step| step == PRELOAD)
    };
    pod.metadata.labels.as_ref().is_some_and(of_upgrade) && args.into_iter().any(loads)
}

/// The version that the Plan of this pod is about.
fn plan_version(pod: &Pod) -> Option<&str> {
    let upgrade = pod.spec.as_ref()?.containers.iter().find(|container| container.name == UPGRADE_CONTAINER)?;
    let all = pod.metadata.labels.as_ref()?;
    // The Plans of a Harvester upgrade load images or touch files: Rancher's agent raises the kubelet.
    if all.contains_key(harvester::UPGRADE) {
        return None;
    }
    let label = all.get(labels::VERSION)?;
    Some(variable(upgrade, variables::PLAN_LATEST_VERSION).unwrap_or(label))
}

/// The version that `drover node apply-plan` installs, which the planner runs where no agent does.
fn version_of_plan(pod: &Pod) -> Option<&str> {
    let upgrade = pod.spec.as_ref()?.containers.iter().find(|container| container.name == UPGRADE_CONTAINER)?;
    let args: Vec<&str> = upgrade.args.iter().flatten().map(String::as_str).collect();
    let flags = args.strip_prefix(&["node", APPLY_PLAN])?;
    let at = flags.iter().position(|flag| *flag == "--kubernetes-version")?;
    flags.get(at + 1).copied()
}

fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    let found = container.env.iter().flatten().find(|variable| variable.name == name)?;
    found.value.as_deref().filter(|value| !value.is_empty())
}

/// `v1.34.1-k3s1` as the kubelet of that build says it: `v1.34.1+k3s1`.
fn in_full(version: &str) -> String {
    match version.rsplit_once('-') {
        Some((base, build)) if BUILD_MARKS.iter().any(|mark| build.starts_with(mark)) => format!("{base}+{build}"),
        _ => version.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_written_as_the_kubelet_of_that_build_does() {
        assert_eq!(in_full("v1.34.1-k3s1"), "v1.34.1+k3s1");
        assert_eq!(in_full("v1.34.1-rc1-rke2r1"), "v1.34.1-rc1+rke2r1");
        assert_eq!(in_full("v1.34.1+k3s1"), "v1.34.1+k3s1");
        assert_eq!(in_full("v1.35.0-rc.1"), "v1.35.0-rc.1");
    }
}
