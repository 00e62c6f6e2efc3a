//! The settings of the operator's Jobs, by the environment variables of system-upgrade-controller, so that its
//! Deployment's variables can be kept. See <https://github.com/rancher/system-upgrade-controller>.

use drover_api::plan::jobs::environment::{
    ACTIVE_DEADLINE_SECONDS, ACTIVE_DEADLINE_SECONDS_MAX, BACKOFF_LIMIT, CONTROLLER_NAME, CONTROLLER_NAMESPACE,
    IMAGE_PULL_POLICY, KUBECTL_IMAGE, POD_REPLACEMENT_POLICY, PREFIX, PRIVILEGED, TTL_SECONDS_AFTER_FINISH,
};
use std::collections::BTreeMap;

use drover_core::plan::job::JobSettings;

/// Where Plans live unless somebody says otherwise.
pub const NAMESPACE: &str = "system-upgrade";

/// Environment variables by name. An empty one counts as not set.
#[derive(Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    pub fn of_this_process() -> Self {
        let read = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let ours = |(name, value): &(String, String)| name.starts_with(PREFIX) && !value.is_empty();
        Environment(std::env::vars_os().filter_map(read).filter(ours).collect())
    }

    pub fn namespace(&self) -> Option<String> {
        self.0.get(CONTROLLER_NAMESPACE).cloned()
    }

    pub fn job_settings(&self) -> JobSettings {
        let default = JobSettings::default();
        let text = |name: &str, default: String| self.0.get(name).cloned().unwrap_or(default);
        JobSettings {
            controller: text(CONTROLLER_NAME, default.controller),
            active_deadline_seconds: self.read(ACTIVE_DEADLINE_SECONDS, default.active_deadline_seconds),
            active_deadline_seconds_max: self.read(ACTIVE_DEADLINE_SECONDS_MAX, default.active_deadline_seconds_max),
            backoff_limit: self.read(BACKOFF_LIMIT, default.backoff_limit),
            ttl_seconds_after_finished: self.read(TTL_SECONDS_AFTER_FINISH, default.ttl_seconds_after_finished),
            image_pull_policy: text(IMAGE_PULL_POLICY, default.image_pull_policy),
            kubectl_image: text(KUBECTL_IMAGE, default.kubectl_image),
            pod_replacement_policy: text(POD_REPLACEMENT_POLICY, default.pod_replacement_policy),
            privileged: self.read(PRIVILEGED, default.privileged),
        }
    }

    /// A value that cannot be read is told and left out: an operator that does not start would be worse.
    fn read<T: std::str::FromStr + std::fmt::Display>(&self, name: &str, default: T) -> T {
        let Some(text) = self.0.get(name) else { return default };
        text.parse().unwrap_or_else(|_| {
            tracing::warn!("${name} is {text:?}, which cannot be read: {default} is used instead");
            default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn without_variables_everything_is_as_by_default() {
        assert_eq!(environment(&[]).job_settings(), JobSettings::default());
        assert_eq!(environment(&[]).namespace(), None);
    }

    #[test]
    fn the_variables_of_system_upgrade_controller_are_read() {
        let settings = environment(&[
            (CONTROLLER_NAME, "suc"),
            (ACTIVE_DEADLINE_SECONDS, "900"),
            (ACTIVE_DEADLINE_SECONDS_MAX, "1200"),
            (BACKOFF_LIMIT, "99"),
            (IMAGE_PULL_POLICY, "Always"),
            (KUBECTL_IMAGE, "kubectl:1"),
            (POD_REPLACEMENT_POLICY, "Failed"),
            (PRIVILEGED, "false"),
            (TTL_SECONDS_AFTER_FINISH, "60"),
        ])
        .job_settings();
        let expected = JobSettings {
            controller: "suc".to_owned(),
            active_deadline_seconds: 900,
            active_deadline_seconds_max: 1200,
            backoff_limit: 99,
            ttl_seconds_after_finished: 60,
            image_pull_policy: "Always".to_owned(),
            kubectl_image: "kubectl:1".to_owned(),
            pod_replacement_policy: "Failed".to_owned(),
            privileged: false,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_number_that_cannot_be_read_leaves_the_default() {
        let settings = environment(&[(BACKOFF_LIMIT, "many"), (ACTIVE_DEADLINE_SECONDS, "900")]).job_settings();
        assert_eq!(settings.backoff_limit, JobSettings::default().backoff_limit);
        assert_eq!(settings.active_deadline_seconds, 900);
    }
}
