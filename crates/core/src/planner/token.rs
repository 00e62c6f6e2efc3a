//! Drain options as the token by which both sides of the handshake know what is meant: compared byte by byte.

use std::collections::BTreeMap;

use drover_api::rancher::provisioning_cluster::{DrainHook, DrainOptions};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::drain::{OnTimeout, Options};

/// One try of a drain, if the options do not say how long.
const ONE_TRY: i64 = 600;

/// One line of JSON with sorted keys, as Rancher 2.12 writes it. The only machine of a cluster is not drained, though its
/// hooks are called.
pub fn of(options: &DrainOptions, alone: bool) -> String {
    let flag = |value: Option<bool>| json!(value.unwrap_or(false));
    let number = |value: Option<i64>| json!(value.unwrap_or(0));
    let mut fields: BTreeMap<&str, Value> = BTreeMap::from([
        ("deleteEmptyDirData", flag(options.delete_empty_dir_data)),
        ("disableEviction", flag(options.disable_eviction)),
        ("enabled", json!(options.enabled.unwrap_or(false) && !alone)),
        ("force", flag(options.force)),
        ("gracePeriod", number(options.grace_period)),
        ("skipWaitForDeleteTimeoutSeconds", number(options.skip_wait_for_delete_timeout_seconds)),
        ("timeout", number(options.timeout)),
    ]);
    fields.extend(options.ignore_daemon_sets.map(|ignores| ("ignoreDaemonSets", json!(ignores))));
    fields.extend(options.ignore_errors.filter(|ignores| *ignores).map(|ignores| ("ignoreErrors", json!(ignores))));
    for (key, hooks) in [("preDrainHooks", &options.pre_drain_hooks), ("postDrainHooks", &options.post_drain_hooks)] {
        let named: Vec<Value> = hooks.iter().flatten().map(|hook| json!({ "annotation": hook.annotation })).collect();
        if !named.is_empty() {
            fields.insert(key, json!(named));
        }
    }
    json!(fields).to_string()
}

/// What a token says; one that cannot be read asks for nothing.
pub fn read(token: &str) -> DrainOptions {
    serde_json::from_str(token).unwrap_or_default()
}

/// A node is taken out of service for it.
pub fn takes_out(options: &DrainOptions) -> bool {
    options.enabled == Some(true) || hooks(&options.pre_drain_hooks).chain(hooks(&options.post_drain_hooks)).count() > 0
}

/// The annotations by which owners of hooks answer; a hook without one is not waited for.
pub fn hooks(hooks: &Option<Vec<DrainHook>>) -> impl Iterator<Item = &str> {
    let named = hooks.iter().flatten().filter_map(|hook| hook.annotation.as_deref());
    named.filter(|annotation| !annotation.is_empty())
}

/// How to empty the node. A grace period of 0 is what nobody has set: then each pod has its own.
pub fn drain(options: &DrainOptions) -> Options {
    let seconds = |value: Option<i64>| value.filter(|seconds| *seconds > 0);
    Options {
        force: options.force == Some(true),
        ignore_daemon_sets: options.ignore_daemon_sets != Some(false),
        delete_empty_dir_data: options.delete_empty_dir_data == Some(true),
        grace_seconds: seconds(options.grace_period),
        timeout: Some(SignedDuration::from_secs(seconds(options.timeout).unwrap_or(ONE_TRY))),
        on_timeout: OnTimeout::Fail,
        disable_eviction: options.disable_eviction == Some(true),
        skip_ending_after: seconds(options.skip_wait_for_delete_timeout_seconds),
        at_once: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_emptied_as_the_options_say() {
        let asked = json!({ "enabled": true, "force": true, "ignoreDaemonSets": false, "deleteEmptyDirData": true,
            "gracePeriod": 30, "timeout": 90, "disableEviction": true, "skipWaitForDeleteTimeoutSeconds": 7 });
        let whole = Options {
            force: true,
            ignore_daemon_sets: false,
            delete_empty_dir_data: true,
            grace_seconds: Some(30),
            timeout: Some(SignedDuration::from_secs(90)),
            on_timeout: OnTimeout::Fail,
            disable_eviction: true,
            skip_ending_after: Some(7),
            at_once: None,
        };
        assert_eq!(drain(&read(&asked.to_string())), whole);
    }

    #[test]
    fn what_the_options_leave_open_is_gentle_and_ends() {
        let zeros = json!({ "gracePeriod": 0, "timeout": 0, "skipWaitForDeleteTimeoutSeconds": 0 });
        for asked in [json!({}), zeros] {
            let options = drain(&read(&asked.to_string()));
            assert!(options.ignore_daemon_sets && !options.force && !options.disable_eviction);
            assert!(!options.delete_empty_dir_data);
            assert_eq!((options.grace_seconds, options.skip_ending_after), (None, None));
            assert_eq!(options.timeout, Some(SignedDuration::from_secs(ONE_TRY)));
        }
    }
}
