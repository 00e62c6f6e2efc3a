//! Names of what an Upgrade makes: users and scripts know them.

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{names, repository};

use crate::plan::names::join;

pub fn repository(upgrade: &str) -> String {
    format!("{}{upgrade}", names::REPO_PREFIX)
}

/// Where the release is served.
pub fn repository_url(upgrade: &str) -> String {
    format!("http://{}.{NAMESPACE}/{}", repository(upgrade), repository::PATH)
}

/// Where a file of the release is: below its repository, unless it says a URL itself.
pub fn file_url(upgrade: &str, path: &str) -> String {
    match path.contains("://") {
        true => path.to_owned(),
        false => format!("{}/{}", repository_url(upgrade), path.trim_start_matches('/')),
    }
}

pub fn prepare(upgrade: &str) -> String {
    plan(upgrade, names::PREPARE)
}

pub fn plan(upgrade: &str, suffix: &str) -> String {
    format!("{upgrade}-{suffix}")
}

pub fn log(upgrade: &str) -> String {
    join(&[upgrade, names::UPGRADE_LOG])
}

pub fn apply_manifests(upgrade: &str) -> String {
    join(&[upgrade, names::APPLY_MANIFESTS])
}

/// The Job of a type for a node.
pub fn node_job(upgrade: &str, job_type: &str, node: &str) -> String {
    join(&[upgrade, job_type, node])
}

/// The ConfigMap that holds which VMs are started again, by node.
pub fn restore_list(upgrade: &str) -> String {
    join(&[upgrade, names::RESTORE_VM])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_users_know_them() {
        let upgrade = "hvst-upgrade-9gmg2";
        assert_eq!(repository(upgrade), "upgrade-repo-hvst-upgrade-9gmg2");
        assert_eq!(repository_url(upgrade), "http://upgrade-repo-hvst-upgrade-9gmg2.harvester-system/harvester-iso");
        assert_eq!(prepare(upgrade), "hvst-upgrade-9gmg2-prepare");
        assert_eq!(apply_manifests(upgrade), "hvst-upgrade-9gmg2-apply-manifests");
        assert_eq!(node_job(upgrade, "post-drain", "node1"), "hvst-upgrade-9gmg2-post-drain-node1");
        assert_eq!(log(upgrade), "hvst-upgrade-9gmg2-upgradelog");
        assert!(node_job(upgrade, "single-node-upgrade", &"n".repeat(60)).len() <= 63);
    }
}
