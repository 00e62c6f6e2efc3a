//! The flags of a drain, as `kubectl drain` has them, and some more: for the command line and for the container of a Job.

use clap::{Args, Parser, ValueEnum};
use drover_core::decision::Subject;
use drover_core::drain::{OnTimeout, Options};
use drover_core::plan::duration::GoDuration;
use jiff::SignedDuration;

use super::DrainOrder;

#[derive(Debug, Clone, Args)]
pub struct DrainFlags {
    /// Remove pods without a controller, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    force: Option<bool>,
    /// Leave pods of DaemonSets where they are
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    ignore_daemonsets: Option<bool>,
    /// Remove pods with an emptyDir, whose contents are lost
    #[arg(
        long,
        alias = "delete-local-data",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    delete_emptydir_data: Option<bool>,
    /// Seconds that each pod has to end; negative: as the pod itself says
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// How long to try, such as 5m; 0s: for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    timeout: SignedDuration,
    /// What to do when the timeout is over
    #[arg(long, value_enum, value_name = "WHAT", default_value = "fail")]
    on_timeout: TimeoutFlag,
    /// Only pods with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pod_selector: String,
    /// Delete instead of evicting: budgets are not asked
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    disable_eviction: Option<bool>,
    /// Do not wait for pods that have been ending for longer than this many seconds; 0: wait
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    skip_wait_for_delete_timeout: i64,
    /// How many pods may be on their way out at a time; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    at_once: usize,
    /// Wait until the volumes of the removed pods are detached from the node
    #[arg(long)]
    wait_for_volumes: bool,
    /// Ask for pods in pages of this size; 0: all at once
    #[arg(long, value_name = "N", default_value_t = 500)]
    chunk_size: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TimeoutFlag {
    /// Give up; the node stays cordoned
    Fail,
    /// Give up, and uncordon the node if this command has cordoned it
    Uncordon,
    /// Delete the pods that are left, past their budgets
    Delete,
}

/// A length of time as kubectl reads it.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let length = GoDuration::parse(text).ok_or("not a duration such as 30s or 1h30m")?;
    if length.is_negative() {
        return Err("a duration cannot be negative here".to_owned());
    }
    Ok(length.into())
}

impl DrainFlags {
    /// The node and the flags in the arguments of a Job's container; none if they ask for something else.
    pub fn of_container(args: &[String]) -> Option<(String, DrainFlags)> {
        #[derive(Parser)]
        struct Called {
            node: String,
            #[command(flatten)]
            flags: DrainFlags,
        }
        let called = Called::try_parse_from(args).ok().filter(|_| args.first().is_some_and(|verb| verb == "drain"))?;
        Some((called.node, called.flags))
    }

    pub fn order(&self, node: &str, own_pod: Option<Subject>) -> DrainOrder {
        DrainOrder {
            node: node.to_owned(),
            options: self.options(),
            pod_selector: self.pod_selector.clone(),
            chunk_size: self.chunk_size,
            wait_for_volumes: self.wait_for_volumes,
            dry_run: false,
            own_pod,
        }
    }

    fn options(&self) -> Options {
        Options {
            force: self.force.unwrap_or(false),
            ignore_daemon_sets: self.ignore_daemonsets.unwrap_or(false),
            delete_empty_dir_data: self.delete_emptydir_data.unwrap_or(false),
            grace_seconds: (self.grace_period >= 0).then_some(self.grace_period),
            timeout: self.timeout.is_positive().then_some(self.timeout),
            on_timeout: match self.on_timeout {
                TimeoutFlag::Fail => OnTimeout::Fail,
                TimeoutFlag::Uncordon => OnTimeout::Uncordon,
                TimeoutFlag::Delete => OnTimeout::Delete,
            },
            disable_eviction: self.disable_eviction.unwrap_or(false),
            skip_ending_after: (self.skip_wait_for_delete_timeout > 0).then_some(self.skip_wait_for_delete_timeout),
            at_once: (self.at_once > 0).then_some(self.at_once),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(line: &str) -> DrainOrder {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (node, flags) = DrainFlags::of_container(&args).unwrap();
        flags.order(&node, None)
    }

    #[test]
    fn the_arguments_of_a_jobs_drain_container_are_understood() {
        let order = called(
            "drain n1 --pod-selector !upgrade.cattle.io/controller,x=y --ignore-daemonsets --delete-emptydir-data \
             --force --timeout 1m30s --grace-period 60 --disable-eviction=true --skip-wait-for-delete-timeout 45",
        );
        assert_eq!(order.node, "n1");
        assert_eq!(order.pod_selector, "!upgrade.cattle.io/controller,x=y");
        assert_eq!(
            order.options,
            Options {
                force: true,
                ignore_daemon_sets: true,
                delete_empty_dir_data: true,
                grace_seconds: Some(60),
                timeout: Some(SignedDuration::from_secs(90)),
                on_timeout: OnTimeout::Fail,
                disable_eviction: true,
                skip_ending_after: Some(45),
                at_once: None,
            }
        );
    }

    #[test]
    fn without_flags_nothing_is_removed_that_could_be_missed() {
        assert_eq!(called("drain n1").options, Options::default());
        assert_eq!(called("drain n1 --force=false --ignore-daemonsets=false").options, Options::default());
        assert_eq!(called("drain n1 --timeout 60ns").options.timeout, Some(SignedDuration::from_nanos(60)));
    }

    #[test]
    fn the_arguments_of_another_container_are_no_drain() {
        assert!(DrainFlags::of_container(&["cordon".to_owned(), "n1".to_owned()]).is_none());
        assert!(DrainFlags::of_container(&[]).is_none());
    }
}
