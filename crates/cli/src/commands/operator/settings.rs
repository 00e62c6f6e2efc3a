//! The settings of the operator's Jobs, by the environment variables of system-upgrade-controller, so that its
//! Deployment's variables can be kept. See <https://github.com/rancher/system-upgrade-controller>.

use drover_api::plan::jobs::DROVER_IMAGE;
use drover_api::plan::jobs::environment::{
    self as variable, ACTIVE_DEADLINE_SECONDS, ACTIVE_DEADLINE_SECONDS_MAX, BACKOFF_LIMIT, CONTROLLER_NAME,
    CONTROLLER_NAMESPACE, IMAGE_PULL_POLICY, JOB_IMAGE, KUBECTL_IMAGE, KUBECTL_IMAGE_WINDOWS, POD_REPLACEMENT_POLICY,
    PREFIX, PRIVILEGED, TTL_SECONDS_AFTER_FINISH,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drover_core::plan::duration::GoDuration;
use drover_core::plan::job::JobSettings;
use drover_operator::ElectionOptions;

/// What the variables of its election begin with.
const ELECTION_PREFIX: &str = "CATTLE_ELECTION_";

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
        let ours = |(name, value): &(String, String)| {
            let is_one = name.starts_with(PREFIX) || name.starts_with(ELECTION_PREFIX) || name == JOB_IMAGE;
            is_one && !value.is_empty()
        };
        Environment(std::env::vars_os().filter_map(read).filter(ours).collect())
    }

    pub fn namespace(&self) -> Option<String> {
        self.0.get(CONTROLLER_NAMESPACE).cloned()
    }

    pub fn node_name(&self) -> Option<String> {
        self.0.get(variable::CONTROLLER_NODE_NAME).cloned()
    }

    pub fn kubeconfig(&self) -> Option<PathBuf> {
        self.0.get(variable::CONTROLLER_KUBE_CONFIG).map(PathBuf::from)
    }

    pub fn server(&self) -> Option<String> {
        self.0.get(variable::CONTROLLER_MASTER_URL).cloned()
    }

    pub fn debug(&self) -> Option<bool> {
        self.flag(variable::CONTROLLER_DEBUG)
    }

    pub fn leader_elect(&self) -> Option<bool> {
        self.flag(variable::CONTROLLER_LEADER_ELECT)
    }

    /// An interval of a minute or less is not taken.
    pub fn poll_interval(&self) -> Option<Duration> {
        self.duration(variable::POLLING_INTERVAL).filter(|interval| *interval > Duration::from_secs(60))
    }

    pub fn election(&self, default: ElectionOptions) -> ElectionOptions {
        let or = |name: &str, default: Duration| self.duration(name).unwrap_or(default);
        ElectionOptions {
            lease_duration: or(variable::ELECTION_LEASE_DURATION, default.lease_duration),
            renew_deadline: or(variable::ELECTION_RENEW_DEADLINE, default.renew_deadline),
            retry_period: or(variable::ELECTION_RETRY_PERIOD, default.retry_period),
            ..default
        }
    }

    /// Whether to debug is known before anything can be logged: what could not be read then is said now.
    pub fn say_what_cannot_be_read(&self) {
        for name in [variable::CONTROLLER_DEBUG, variable::CONTROLLER_LEADER_ELECT] {
            if self.0.contains_key(name) && self.flag(name).is_none() {
                tracing::warn!("${name} is neither true nor false: it is left out");
            }
        }
    }

    /// The words that Go reads as true and false.
    fn flag(&self, name: &str) -> Option<bool> {
        match self.0.get(name)?.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        }
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        let text = self.0.get(name)?;
        let duration = GoDuration::parse(text).and_then(|duration| u64::try_from(duration.as_nanos()).ok());
        if duration.is_none() {
            tracing::warn!("${name} is {text:?}, which is no duration such as 45s: the default is used instead");
        }
        duration.map(Duration::from_nanos)
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
            kubectl_image_windows: text(KUBECTL_IMAGE_WINDOWS, default.kubectl_image_windows),
            pod_replacement_policy: text(POD_REPLACEMENT_POLICY, default.pod_replacement_policy),
            privileged: self.read(PRIVILEGED, default.privileged),
        }
    }

    /// What Jobs run whose program is Drover itself. Where drains are left to an image with kubectl, that one has no such program.
    pub fn job_image(&self) -> String {
        let for_drains = || self.0.get(KUBECTL_IMAGE).filter(|image| is_drover(image));
        self.0.get(JOB_IMAGE).or_else(for_drains).cloned().unwrap_or_else(|| DROVER_IMAGE.to_owned())
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

/// Whatever registry it is in, and whatever version it is of.
fn is_drover(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split(['@', ':']).next() == Some("drover")
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
            (KUBECTL_IMAGE_WINDOWS, "kubectl:2"),
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
            kubectl_image_windows: "kubectl:2".to_owned(),
            pod_replacement_policy: "Failed".to_owned(),
            privileged: false,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn jobs_whose_program_is_drover_never_run_an_image_with_kubectl() {
        let read = |pairs: &[(&str, &str)]| environment(pairs).job_image();
        assert_eq!(read(&[]), DROVER_IMAGE);
        assert_eq!(read(&[(KUBECTL_IMAGE, "rancher/kubectl:v1.30.2")]), DROVER_IMAGE);
        for own in ["reg.example.com:5000/tools/drover:v1@sha256:0f", "drover"] {
            assert_eq!(read(&[(KUBECTL_IMAGE, own)]), own);
        }
        let both = [(KUBECTL_IMAGE, "rancher/kubectl:v1.30.2"), (JOB_IMAGE, "reg.example.com/upgrades:v1")];
        assert_eq!(read(&both), "reg.example.com/upgrades:v1");
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let read = |value: &str| environment(&[(variable::POLLING_INTERVAL, value)]).poll_interval();
        assert_eq!(read("61s"), Some(Duration::from_secs(61)));
        for useless in ["1m", "soon", "-5m"] {
            assert_eq!(read(useless), None, "{useless}");
        }
        let election =
            environment(&[(variable::ELECTION_LEASE_DURATION, "45s")]).election(ElectionOptions::new(NAMESPACE, "suc"));
        assert_eq!((election.lease_duration.as_secs(), election.retry_period.as_secs()), (45, 2));
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let read = |value: &str| environment(&[(variable::CONTROLLER_LEADER_ELECT, value)]).leader_elect();
        assert_eq!((read("true"), read("0"), read("yes")), (Some(true), Some(false), None));
    }

    #[test]
    fn a_number_that_cannot_be_read_leaves_the_default() {
        let settings = environment(&[(BACKOFF_LIMIT, "many"), (ACTIVE_DEADLINE_SECONDS, "900")]).job_settings();
        assert_eq!(settings.backoff_limit, JobSettings::default().backoff_limit);
        assert_eq!(settings.active_deadline_seconds, 900);
    }
}
