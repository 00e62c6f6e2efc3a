//! How a scenario tells the simulated machines what to do: annotations on Nodes and on pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// On a Node: `simulated` gives it a kubelet of this world. Other Nodes are left alone.
pub const KUBELET: &str = "corral.drover.dev/kubelet";
pub const SIMULATED: &str = "simulated";

/// On a pod (from its Job's template): how long its containers run, such as `30s`, or `never` to hang. With a
/// container's name appended (`corral.drover.dev/duration.prepare`) it means that container alone.
pub const DURATION: &str = "corral.drover.dev/duration";
/// On a pod: the exit code of its containers; with `.<container>` appended, of that one.
pub const EXIT_CODE: &str = "corral.drover.dev/exit-code";

/// On a Node: the same for every container that a Job runs there. It wins over what the pod says, so that a
/// scenario can make one node slow or faulty.
pub const JOB_DURATION: &str = "corral.drover.dev/job-duration";
pub const JOB_EXIT_CODE: &str = "corral.drover.dev/job-exit-code";

/// On a pod or a Node: how long the machine is away after an upgrade has succeeded there, such as `20s`.
pub const REBOOT: &str = "corral.drover.dev/reboot";

/// On a Node: the machine is switched off until this moment, and has booted anew when it is back. The world sets it
/// for the reboots it makes; whoever else sets it takes the machine away.
pub const DOWN_UNTIL: &str = "corral.drover.dev/down-until";

pub type Annotations = BTreeMap<String, String>;

/// How long something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    For(Duration),
    Forever,
}

/// What one container is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    pub lasts: Lasts,
    pub exit_code: i32,
}

/// A scenario's own words for a container: for that container by name, else for all of the pod. What cannot be
/// read counts as not said.
pub fn lasts(annotations: Option<&Annotations>, key: &str, container: &str) -> Option<Lasts> {
    said(annotations, key, container, |text| match text {
        "never" => Some(Lasts::Forever),
        text => duration(text).map(Lasts::For),
    })
}

pub fn exit_code(annotations: Option<&Annotations>, key: &str, container: &str) -> Option<i32> {
    said(annotations, key, container, |text| text.parse().ok())
}

pub fn reboot(annotations: Option<&Annotations>) -> Option<Duration> {
    annotations?.get(REBOOT).and_then(|text| duration(text))
}

pub fn down_until(annotations: Option<&Annotations>) -> Option<Timestamp> {
    annotations?.get(DOWN_UNTIL)?.parse().ok()
}

pub fn is_simulated(annotations: Option<&Annotations>) -> bool {
    annotations.and_then(|all| all.get(KUBELET)).is_some_and(|value| value == SIMULATED)
}

fn said<T>(
    annotations: Option<&Annotations>,
    key: &str,
    container: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let annotations = annotations?;
    let own = annotations.get(&format!("{key}.{container}"));
    own.or_else(|| annotations.get(key)).and_then(|text| read(text))
}

fn duration(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_container_follows_its_own_annotation_before_the_pods() {
        let said = annotations(&[(DURATION, "1m30s"), ("corral.drover.dev/duration.prepare", "2s")]);

        assert_eq!(lasts(Some(&said), DURATION, "prepare"), Some(Lasts::For(Duration::from_secs(2))));
        assert_eq!(lasts(Some(&said), DURATION, "upgrade"), Some(Lasts::For(Duration::from_secs(90))));
    }

    #[test]
    fn a_container_can_be_told_to_hang() {
        assert_eq!(lasts(Some(&annotations(&[(DURATION, "never")])), DURATION, "upgrade"), Some(Lasts::Forever));
    }

    #[test]
    fn what_cannot_be_read_counts_as_not_said() {
        let said = annotations(&[(DURATION, "soon"), (EXIT_CODE, "none"), (REBOOT, "-3s"), (DOWN_UNTIL, "later")]);

        assert_eq!(lasts(Some(&said), DURATION, "upgrade"), None);
        assert_eq!(exit_code(Some(&said), EXIT_CODE, "upgrade"), None);
        assert_eq!(reboot(Some(&said)), None);
        assert_eq!(down_until(Some(&said)), None);
    }
}
