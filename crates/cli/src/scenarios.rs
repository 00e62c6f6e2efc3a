//! Which scenario is meant: a file, or a built-in one by its name.

use std::path::Path;

use anyhow::anyhow;
use drover_sim::Scenario;

/// Those that need no file.
pub fn built_in() -> anyhow::Result<Vec<Scenario>> {
    Ok(drover_sim::scenario::built_in()?)
}

/// The scenario that `--scenario` names, or the first built-in one.
pub fn find(named: Option<&Path>) -> anyhow::Result<Scenario> {
    let built_in = built_in()?.into_iter().find(|scenario| named.is_none_or(|name| name == Path::new(&scenario.name)));
    match (built_in, named) {
        (Some(scenario), _) => Ok(scenario),
        (None, Some(path)) => {
            Scenario::read(path).map_err(|error| anyhow!("{error}; `drover demo --list` names those that need no file"))
        }
        (None, None) => Ok(Scenario::default()),
    }
}

/// What it is about, in a sentence: its own, or what it upgrades.
pub fn about(scenario: &Scenario) -> String {
    if scenario.about.is_empty() { describe(scenario) } else { scenario.about.clone() }
}

/// What it upgrades.
pub fn describe(scenario: &Scenario) -> String {
    let nodes = if scenario.nodes == 1 { "node" } else { "nodes" };
    let at_once = if scenario.concurrency == 1 {
        "one at a time".to_owned()
    } else {
        format!("{} at a time", scenario.concurrency)
    };
    format!("{} {nodes} from {} to {}, {at_once}", scenario.nodes, scenario.from, scenario.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_scenario_needs_no_file() {
        assert_eq!(find(Some(Path::new("three-nodes"))).unwrap().name, "three-nodes");
        assert_eq!(find(None).unwrap().name, "three-nodes");
        assert!(find(Some(Path::new("no-such-file.yaml"))).is_err());
    }

    #[test]
    fn a_scenario_is_described_by_what_it_upgrades() {
        assert_eq!(describe(&Scenario::default()), "3 nodes from v1.33.0 to v1.34.0, one at a time");
    }
}
