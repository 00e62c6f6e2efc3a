//! The setting `upgrade-config`, when somebody writes it.

use super::Verdict;
use super::codes::{BAD_REQUEST, INVALID};
use crate::cluster::Cluster;
use crate::cluster::harvester::Setting;
use crate::harvester::upgrade_config::UpgradeConfig;

/// May the setting be so? The value counts, or the default where there is no value.
pub fn setting(setting: &Setting, cluster: &Cluster) -> Verdict {
    let mut verdict = Verdict::default();
    let text = setting.effective();
    if text.is_empty() {
        return verdict;
    }
    match UpgradeConfig::read(text) {
        Err(error) => verdict.refuse(INVALID, format!("the setting upgrade-config is no JSON: {error}")),
        Ok(config) => {
            for problem in config.problems(|node| cluster.nodes.named(node).is_some()) {
                let code = if problem.starts_with("nodes not found") { BAD_REQUEST } else { INVALID };
                verdict.refuse(code, problem);
            }
        }
    }
    verdict
}
