//! The setting `upgrade-config`: how images are preloaded, which nodes pause, whether VMs are started again.
//!
//! What the setting leaves out has its default. Two spellings of the node option are read: with `strategy` around it, as
//! Harvester's own schema has it, and without.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::harvester::setting::upgrade_config::{
    AUTO, MANUAL, PARALLEL, PRELOAD_STRATEGIES, SEQUENTIAL, SKIP, TIMEOUT_MINUTES,
};
use drover_api::harvester::upgrade::annotations;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeConfig {
    image_preload_option: Option<PreloadOption>,
    #[serde(rename = "restoreVM")]
    restore_vm: Option<bool>,
    log_ready_timeout: Option<String>,
    node_upgrade_option: Option<NodeOption>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct PreloadOption {
    strategy: PreloadStrategy,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct PreloadStrategy {
    #[serde(rename = "type")]
    kind: String,
    concurrency: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeOption {
    strategy: Option<NodeStrategy>,
    #[serde(flatten)]
    bare: NodeStrategy,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStrategy {
    mode: String,
    pause_nodes: Vec<String>,
}

/// How the images of a release get onto the nodes before they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Preload {
    Skip,
    /// So many nodes at once; none: all of them.
    AtOnce(Option<usize>),
}

impl UpgradeConfig {
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Everything that is wrong with it, in Harvester's words; `is_node` knows the nodes of the cluster.
    pub fn problems(&self, is_node: impl Fn(&str) -> bool) -> Vec<String> {
        let mut problems = Vec::new();
        // A setting that says nothing at all is a mistake; what a setting leaves out is not.
        let preload =
            if *self == Self::default() { Some(&PreloadOption::EMPTY) } else { self.image_preload_option.as_ref() };
        if let Some(PreloadOption { strategy }) = preload {
            if !PRELOAD_STRATEGIES.contains(&strategy.kind.as_str()) {
                problems.push(format!("invalid image preload strategy type: {}", strategy.kind));
            }
            if strategy.concurrency < 0 {
                problems.push(format!("invalid image preload concurrency: {}", strategy.concurrency));
            }
        }
        if let Some(strategy) = self.nodes() {
            if !["", AUTO, MANUAL].contains(&strategy.mode.as_str()) {
                problems.push(format!("invalid node upgrade strategy mode: {}", strategy.mode));
            }
            // Otherwise the names are not looked at.
            if strategy.mode == MANUAL {
                problems.extend(strategy.bad_names(is_node));
            }
        }
        let timeout = self.log_ready_timeout.as_deref().unwrap_or_default();
        if !timeout.is_empty() && !timeout.parse().is_ok_and(|minutes: i64| TIMEOUT_MINUTES.contains(&minutes)) {
            problems
                .push(format!("invalid value for image preload timeout: {timeout}: give whole minutes from 1 to 20"));
        }
        problems
    }

    pub fn preload(&self) -> Preload {
        let strategy = self.image_preload_option.as_ref().map(|option| &option.strategy);
        match strategy.map_or((SEQUENTIAL, 1), |strategy| (strategy.kind.as_str(), strategy.concurrency)) {
            (SKIP, _) => Preload::Skip,
            (PARALLEL, number) => Preload::AtOnce(usize::try_from(number).ok().filter(|number| *number > 0)),
            _ => Preload::AtOnce(Some(1)),
        }
    }

    /// VMs that cannot move are stopped and started again.
    pub fn restores_vms(&self) -> bool {
        self.restore_vm == Some(true)
    }

    /// Of the nodes that are there, those that pause before they are drained, each with the word for it.
    pub fn pauses<'a>(&self, nodes: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
        let Some(strategy) = self.nodes().filter(|strategy| strategy.mode == MANUAL) else { return BTreeMap::new() };
        let named = &strategy.pause_nodes;
        let pausing = nodes.filter(|node| named.is_empty() || named.iter().any(|name| name == node));
        pausing.map(|node| (node.to_owned(), annotations::PAUSE.to_owned())).collect()
    }

    fn nodes(&self) -> Option<&NodeStrategy> {
        let option = self.node_upgrade_option.as_ref()?;
        Some(option.strategy.as_ref().unwrap_or(&option.bare))
    }
}

impl PreloadOption {
    const EMPTY: PreloadOption = PreloadOption { strategy: PreloadStrategy { kind: String::new(), concurrency: 0 } };
}

impl NodeStrategy {
    fn bad_names(&self, is_node: impl Fn(&str) -> bool) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<&str> =
            self.pause_nodes.iter().map(String::as_str).filter(|name| !seen.insert(*name)).collect();
        let missing: Vec<&str> = seen.iter().copied().filter(|name| !is_node(name)).collect();
        let mut problems = Vec::new();
        if !twice.is_empty() {
            problems.push(format!("duplicate pause node names: [{}]", twice.into_iter().collect::<Vec<_>>().join(" ")));
        }
        if !missing.is_empty() {
            problems.push(format!("nodes not found: [{}]", missing.join(" ")));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> UpgradeConfig {
        UpgradeConfig::read(text).unwrap()
    }

    fn problems(text: &str) -> Vec<String> {
        read(text).problems(|name| ["node-1", "node-2", "node-3"].contains(&name))
    }

    fn pausing(text: &str) -> Vec<String> {
        read(text).pauses(["node-1", "node-2", "node-3"].into_iter()).into_keys().collect()
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let manual = r#"{"nodeUpgradeOption":{"strategy":{"mode":"manual"}}}"#;
        assert_eq!(problems(manual), Vec::<String>::new());
        let config = read(manual);
        assert_eq!(config.preload(), Preload::AtOnce(Some(1)));
        assert!(!config.restores_vms());
    }

    #[test]
    fn nothing_at_all_is_a_mistake() {
        assert_eq!(problems("{}"), ["invalid image preload strategy type: "]);
        assert!(UpgradeConfig::read("random string").is_err());
    }

    #[test]
    fn each_way_to_preload_is_known() {
        let preload = |strategy: &str| {
            let text = format!(r#"{{"imagePreloadOption":{{"strategy":{strategy}}}}}"#);
            assert_eq!(problems(&text), Vec::<String>::new());
            read(&text).preload()
        };
        assert_eq!(preload(r#"{"type":"skip","concurrency":1}"#), Preload::Skip);
        assert_eq!(preload(r#"{"type":"sequential","concurrency":2}"#), Preload::AtOnce(Some(1)));
        assert_eq!(preload(r#"{"type":"parallel","concurrency":2}"#), Preload::AtOnce(Some(2)));
        assert_eq!(preload(r#"{"type":"parallel"}"#), Preload::AtOnce(None));
    }

    #[test]
    fn mistakes_are_told_all_at_once() {
        let text = r#"{"imagePreloadOption":{"strategy":{"type":"all","concurrency":-1}},"logReadyTimeout":"21",
            "nodeUpgradeOption":{"strategy":{"mode":"manual","pauseNodes":["node-1","node-1","node-100"]}}}"#;
        assert_eq!(
            problems(text),
            [
                "invalid image preload strategy type: all",
                "invalid image preload concurrency: -1",
                "duplicate pause node names: [node-1]",
                "nodes not found: [node-100]",
                "invalid value for image preload timeout: 21: give whole minutes from 1 to 20",
            ]
        );
        assert_eq!(
            problems(r#"{"nodeUpgradeOption":{"mode":"often"}}"#),
            ["invalid node upgrade strategy mode: often"]
        );
    }

    #[test]
    fn both_spellings_of_the_node_option_pause_the_same_nodes() {
        let names = r#""mode":"manual","pauseNodes":["node-2","node-3"]"#;
        assert_eq!(pausing(&format!(r#"{{"nodeUpgradeOption":{{{names}}}}}"#)), ["node-2", "node-3"]);
        assert_eq!(pausing(&format!(r#"{{"nodeUpgradeOption":{{"strategy":{{{names}}}}}}}"#)), ["node-2", "node-3"]);
        assert_eq!(pausing(r#"{"nodeUpgradeOption":{"mode":"manual"}}"#), ["node-1", "node-2", "node-3"]);
    }

    #[test]
    fn names_of_nodes_count_for_nothing_unless_the_mode_is_manual() {
        for text in [
            r#"{"nodeUpgradeOption":{"strategy":{"mode":"auto","pauseNodes":["node-1","gone"]}}}"#,
            r#"{"nodeUpgradeOption":{"strategy":{"pauseNodes":["node-1","gone"]}}}"#,
        ] {
            assert_eq!(problems(text), Vec::<String>::new(), "{text}");
            assert_eq!(pausing(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_node_that_is_not_there_does_not_pause() {
        assert_eq!(pausing(r#"{"nodeUpgradeOption":{"mode":"manual","pauseNodes":["node-2","node-9"]}}"#), ["node-2"]);
    }
}
