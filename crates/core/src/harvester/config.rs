//! The setting `upgrade-config`, as a cluster has it.

use drover_api::harvester::setting::names::UPGRADE_CONFIG;

use super::decide::Turn;
use super::progress::Chosen;
use super::upgrade_config::UpgradeConfig;
use crate::cluster::Cluster;

/// What holds: the defaults where the setting is missing or empty; the error says all that is wrong with it.
pub(super) fn of(cluster: &Cluster) -> Result<UpgradeConfig, String> {
    let text = cluster.harvester.settings.named(UPGRADE_CONFIG).map(|setting| setting.effective()).unwrap_or_default();
    if text.is_empty() {
        return Ok(UpgradeConfig::default());
    }
    let config = UpgradeConfig::read(text).map_err(|error| error.to_string())?;
    let problems = config.problems(|node| cluster.nodes.named(node).is_some());
    if problems.is_empty() { Ok(config) } else { Err(problems.join("; ")) }
}

/// What an Upgrade goes by until its end, whatever becomes of the setting. One that an earlier Drover has begun has noted nothing: it goes by
/// the setting as it is.
pub(super) fn chosen(turn: &Turn<'_>) -> Chosen {
    turn.next.chosen.clone().unwrap_or_else(|| Chosen::by(&of(turn.cluster()).unwrap_or_default()))
}
