//! What an Upgrade rests on: its Version, its UpgradeLog, its repository.

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{COMPONENT, UPGRADE, components};
use drover_api::harvester::upgrade::{annotations, conditions};
use drover_api::harvester::upgrade_log::UpgradeLog;
use drover_api::harvester::version::Version;

use super::codes::{BAD_REQUEST, INTERNAL};
use super::{User, Verdict};
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Meta, condition};
use crate::preflight::switch;

/// A SHA-512, in hexadecimal digits.
const DIGITS: usize = 128;

/// May a Version be so?
pub fn version(version: &Version) -> Verdict {
    let mut verdict = Verdict::default();
    let stated = version.metadata.annotations.iter().flatten();
    for (key, value) in stated {
        match key.as_str() {
            annotations::SKIP_DISK_CHECK if switch(value).is_none() => {
                verdict.refuse(BAD_REQUEST, format!("invalid value {value} for annotation {key}"));
            }
            annotations::MIN_CERTIFICATE_DAYS => match value.parse::<i64>() {
                Err(_) => verdict.refuse(BAD_REQUEST, format!("invalid value {value} for annotation {key}")),
                Ok(..=0) => verdict.refuse(
                    BAD_REQUEST,
                    format!("invalid value {value} for annotation {key}, it should be greater than 0"),
                ),
                Ok(_) => (),
            },
            _ => (),
        }
    }
    let checksum = version.spec.iso_checksum.as_deref().unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_digest = checksum.len() == DIGITS && checksum.bytes().all(is_digit);
    if !checksum.is_empty() && !is_digest {
        verdict.refuse(BAD_REQUEST, format!("invalid isoChecksum {checksum}"));
    }
    verdict
}

/// May an UpgradeLog be created?
pub fn upgrade_log(log: &UpgradeLog, user: &User, cluster: &Cluster) -> Verdict {
    let mut verdict = Verdict::default();
    if !user.is_controller {
        verdict.refuse(BAD_REQUEST, "upgradelog can only be created by the harvester controller");
    }
    let asked = &log.spec.upgrade_name;
    if asked.is_empty() {
        verdict.refuse(BAD_REQUEST, "upgradeName field is not specified");
    }
    if log.metadata.namespace.as_deref() != Some(NAMESPACE) {
        verdict.refuse(BAD_REQUEST, format!("UpgradeLog must be created in namespace {NAMESPACE}"));
    }
    match cluster.harvester.upgrades.get(NAMESPACE, asked) {
        None if asked.is_empty() => (),
        None => verdict.refuse(BAD_REQUEST, format!("referenced upgrade {asked} not found in namespace {NAMESPACE}")),
        Some(upgrade) => {
            if upgrade.spec.log_enabled == Some(false) {
                verdict.refuse(INTERNAL, format!("LogEnabled is false for upgrade {asked}"));
            } else if !awaits_logs(upgrade) {
                verdict.refuse(
                    INTERNAL,
                    format!("cannot create upgradeLog: upgrade {asked} is not initializing or waiting for logging infrastructure"),
                );
            }
        }
    }
    let own = log.metadata.name.as_deref().unwrap_or_default();
    let mut others = cluster.harvester.upgrade_logs.in_namespace(NAMESPACE).filter(|other| other.metadata.name != own);
    if let Some(other) = others.find(|other| !asked.is_empty() && other.spec.upgrade_name == *asked) {
        verdict.refuse(BAD_REQUEST, format!("upgradelog {} already exists for upgrade {asked}", other.metadata.name));
    }
    verdict
}

/// May an UpgradeLog be changed so?
pub fn same_upgrade(before: &UpgradeLog, after: &UpgradeLog) -> Verdict {
    match before.spec.upgrade_name == after.spec.upgrade_name {
        true => Verdict::default(),
        false => Verdict::no(BAD_REQUEST, "spec.upgradeName is immutable and cannot be changed"),
    }
}

fn awaits_logs(upgrade: &Upgrade) -> bool {
    let has = |kind: &str| condition(&upgrade.status.conditions, kind);
    let logs = has(conditions::LOG_READY);
    has(conditions::COMPLETED).is_none() || logs.is_some_and(|logs| logs.status == "Unknown")
}

/// May a Deployment be deleted? The repository of a release is needed until its Upgrade has ended.
pub fn repository(deployment: &Meta, user: &User, cluster: &Cluster) -> Verdict {
    let (namespace, name) = (&deployment.namespace, &deployment.name);
    let is_repository = deployment.labels.get(COMPONENT).is_some_and(|component| component == components::REPO);
    let Some(of) = deployment.labels.get(UPGRADE).filter(|_| is_repository && !user.is_controller) else {
        return Verdict::default();
    };
    let upgrade = cluster.harvester.upgrades.get(namespace, of);
    let ended = |upgrade: &Upgrade| {
        let completed = condition(&upgrade.status.conditions, conditions::COMPLETED);
        upgrade.metadata.deletion_timestamp.is_some()
            || completed.is_some_and(|completed| completed.status != "Unknown")
    };
    match upgrade {
        Some(upgrade) if !ended(upgrade) => Verdict::no(
            INTERNAL,
            format!(
                "cannot delete deployment {namespace}/{name}: upgrade {of} is still in progress (component: {})",
                components::REPO
            ),
        ),
        _ => Verdict::default(),
    }
}
