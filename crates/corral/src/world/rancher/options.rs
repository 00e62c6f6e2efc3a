//! Drain options, and the token that they become: compared byte by byte, and written otherwise by each version of Rancher.

use drover_api::rancher::provisioning_cluster::{DrainHook, DrainOptions};
use serde_json::{Map, Value, json};

/// A version of Rancher, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// From `v2.12.3`; what cannot be read is taken for the version that is modelled.
    pub fn read(text: Option<&str>) -> Version {
        let plain = text.unwrap_or_default().trim_start_matches('v');
        let mut numbers = plain.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor), patch) => Version(major, minor, patch.unwrap_or(0)),
            _ => Version(2, 12, 0),
        }
    }

    /// Plans say what a node has to be drained for.
    pub fn has_drain_hash(self) -> bool {
        self >= Version(2, 12, 0)
    }

    /// Plans say how far they have come, and one that has failed is not tried again.
    pub fn has_plan_state(self) -> bool {
        self >= Version(2, 15, 0)
    }
}

/// The options as one line of JSON with sorted keys.
pub fn token(options: &DrainOptions, alone: bool, version: Version) -> String {
    let hooks = |hooks: &Option<Vec<DrainHook>>| match hooks {
        Some(hooks) if !hooks.is_empty() => {
            json!(hooks.iter().map(|hook| json!({ "annotation": hook.annotation })).collect::<Vec<Value>>())
        }
        _ => Value::Null,
    };
    let flag = |value: Option<bool>| json!(value.unwrap_or(false));
    let number = |value: Option<i64>| json!(value.unwrap_or(0));
    let errors = flag(options.ignore_errors);
    let mut fields: Map<String, Value> = Map::new();
    let mut put = |key: &str, value: Value| drop(fields.insert(key.into(), value));
    put("deleteEmptyDirData", flag(options.delete_empty_dir_data));
    put("disableEviction", flag(options.disable_eviction));
    // The only machine of a cluster is not drained, though its hooks are called.
    put("enabled", json!(options.enabled.unwrap_or(false) && !alone));
    put("force", flag(options.force));
    put("gracePeriod", number(options.grace_period));
    put("ignoreDaemonSets", json!(options.ignore_daemon_sets));
    put("postDrainHooks", hooks(&options.post_drain_hooks));
    put("preDrainHooks", hooks(&options.pre_drain_hooks));
    put("skipWaitForDeleteTimeoutSeconds", number(options.skip_wait_for_delete_timeout_seconds));
    put("timeout", number(options.timeout));
    match version {
        Version(2, 6, _) => put("IgnoreErrors", errors),
        Version(2, 0..=11, _) => put("ignoreErrors", errors),
        _ if errors == json!(true) => put("ignoreErrors", errors),
        _ => {}
    }
    if version >= Version(2, 12, 0) {
        fields.retain(|_, value| !value.is_null());
    }
    // Whatever order the map keeps, the token has sorted keys.
    let sorted: std::collections::BTreeMap<String, Value> = fields.into_iter().collect();
    serde_json::to_string(&sorted).unwrap_or_default()
}

/// What a token says; one that cannot be read asks for nothing.
pub fn read(token: &str) -> DrainOptions {
    serde_json::from_str(token).unwrap_or_default()
}

pub fn has_hooks(options: &DrainOptions) -> bool {
    annotations(&options.pre_drain_hooks).chain(annotations(&options.post_drain_hooks)).next().is_some()
}

/// The annotations of hooks; a hook without one is not waited for.
pub fn annotations(hooks: &Option<Vec<DrainHook>>) -> impl Iterator<Item = &str> {
    let named = hooks.iter().flatten().filter_map(|hook| hook.annotation.as_deref());
    named.filter(|annotation| !annotation.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harvester() -> DrainOptions {
        serde_json::from_value(json!({
            "enabled": true, "force": true, "ignoreDaemonSets": true, "deleteEmptyDirData": true,
            "preDrainHooks": [{"annotation": "harvesterhci.io/pre-hook"}],
            "postDrainHooks": [{"annotation": "harvesterhci.io/post-hook"}],
        }))
        .unwrap()
    }

    #[test]
    fn each_version_writes_the_token_in_its_own_way() {
        let hooks = r#""postDrainHooks":[{"annotation":"harvesterhci.io/post-hook"}],"preDrainHooks":[{"annotation":"harvesterhci.io/pre-hook"}],"skipWaitForDeleteTimeoutSeconds":0,"timeout":0}"#;
        let head = r#""deleteEmptyDirData":true,"disableEviction":false,"enabled":true,"force":true,"gracePeriod":0,"ignoreDaemonSets":true,"#;
        let token = |version: &str| token(&harvester(), false, Version::read(Some(version)));

        assert_eq!(token("v2.12.1"), format!("{{{head}{hooks}"));
        assert_eq!(token("v2.9.3"), format!("{{{head}\"ignoreErrors\":false,{hooks}"));
        assert_eq!(token("v2.6.9"), format!("{{\"IgnoreErrors\":false,{head}{hooks}"));
    }

    #[test]
    fn the_only_machine_is_not_drained_though_its_hooks_are_called() {
        let options = read(&token(&harvester(), true, Version(2, 12, 0)));
        assert_eq!(options.enabled, Some(false));
        assert!(has_hooks(&options));
    }
}
