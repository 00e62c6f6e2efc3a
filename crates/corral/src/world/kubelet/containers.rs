//! The containers of one pod: how each is started, ends, and is started again.

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    Pod,
};

use super::{digest, hex};
use crate::world::annotations::{LAST_WORDS, Lasts, Script};
use crate::world::outcome::{doubled, sooner, stamp};
use crate::world::pods;

const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

const PULL_ERROR: &str = "ErrImagePull";
const BACK_OFF_PULL: &str = "ImagePullBackOff";

/// What a machine that went away reports of the containers that were running.
const KILLED_BY_REBOOT: i32 = 255;
/// What a container that obeys SIGTERM ends with, and one that had to be killed.
const TERMINATED: i32 = 143;
const KILLED: i32 = 137;

/// A container that has run for this long begins with the shortest pause again.
const COUNTS_AS_WELL: Duration = Duration::from_secs(600);
/// For how long a failed pull shows as such before it shows as backing off.
const PULL_ERROR_SHOWS: Duration = Duration::from_secs(2);

/// How far a container has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    Succeeded,
    Failed,
    /// It waits or runs; something happens at that moment, if ever.
    GoesOn(Option<Timestamp>),
}

/// What just happened to a container.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    Started,
    Ended(i32),
    PullFailed(String),
    BackedOff(String),
}

/// When a container that has ended is started again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Restarts {
    Never,
    OnFailure,
    Always,
}

/// The status of a container that has not been started.
pub fn waiting(container: &Container, reason: &str) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(ContainerState { waiting: Some(because(reason, None)), ..ContainerState::default() }),
        ..ContainerStatus::default()
    }
}

/// One container on its way: `step` takes it as far as it can get at `now`.
pub struct Course<'a> {
    pub pod: &'a Pod,
    pub script: Script,
    pub restarts: Restarts,
    /// Its image cannot be pulled.
    pub lacks_image: bool,
    /// When it may start for the first time.
    pub from: Timestamp,
    pub now: Timestamp,
}

impl Course<'_> {
    pub fn step(&self, status: &mut ContainerStatus, turns: &mut Vec<Turn>) -> Progress {
        let state = status.state.clone().unwrap_or_default();
        if let Some(ended) = state.terminated {
            return match (ended.exit_code, self.restarts) {
                (_, Restarts::Always) => self.start_again(status, ended, turns),
                (0, _) => Progress::Succeeded,
                (_, Restarts::OnFailure) => self.start_again(status, ended, turns),
                (_, Restarts::Never) => Progress::Failed,
            };
        }
        if let Some(running) = state.running {
            return self.run_on(status, &running, turns);
        }
        let crashed = status.last_state.as_ref().and_then(|state| state.terminated.clone());
        match crashed.filter(|_| is_backing_off(status)) {
            Some(ended) => self.start_again(status, ended, turns),
            None if self.now < self.from => Progress::GoesOn(Some(self.from)),
            None => self.pull_and_start(status, turns),
        }
    }

    /// A pull that fails is tried again after ten seconds, then after twice as long each time.
    fn pull_and_start(&self, status: &mut ContainerStatus, turns: &mut Vec<Turn>) -> Progress {
        let (tried, next) = self.pulls();
        let reason = waiting_reason(status).unwrap_or_default().to_string();
        if !self.lacks_image {
            // An image that has turned up meanwhile is found with the next try.
            let due = if reason == BACK_OFF_PULL && self.now < next && tried < self.now { next } else { self.now };
            return if due > self.now { Progress::GoesOn(Some(next)) } else { self.start(status, turns) };
        }
        let shown_until = later(tried, PULL_ERROR_SHOWS);
        let (reason_now, message) = if self.now < shown_until {
            let why = format!(
                "failed to pull and unpack image {0:?}: failed to resolve reference {0:?}: {0}: not found",
                status.image
            );
            (PULL_ERROR, why)
        } else {
            (BACK_OFF_PULL, format!("Back-off pulling image {:?}", status.image))
        };
        if reason != reason_now {
            turns.push(match reason_now {
                PULL_ERROR => Turn::PullFailed(format!("Failed to pull image {:?}: {message}", status.image)),
                _ => Turn::BackedOff(message.clone()),
            });
            let waiting = because(reason_now, Some(message));
            status.state = Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() });
        }
        Progress::GoesOn(Some(if self.now < shown_until { shown_until } else { next }))
    }

    /// The last try to pull the image up to now, and the next one.
    fn pulls(&self) -> (Timestamp, Timestamp) {
        let (mut tried, mut tries) = (self.from, 1);
        loop {
            let next = later(tried, doubled(FIRST_BACKOFF, tries, LONGEST_BACKOFF));
            if next > self.now || next <= tried {
                return (tried, next);
            }
            (tried, tries) = (next, tries + 1);
        }
    }

    fn start(&self, status: &mut ContainerStatus, turns: &mut Vec<Turn>) -> Progress {
        let count = status.restart_count.to_string();
        let id = hex(&digest(&[pods::uid(&self.pod.metadata), &status.name, &count]));
        status.container_id = Some(format!("containerd://{id}"));
        status.image_id = format!("sha256:{}", hex(&digest(&["image", &status.image])));
        status.ready = self.ready_from(self.now).is_some_and(|moment| moment <= self.now);
        status.started = Some(true);
        let running = ContainerStateRunning { started_at: Some(stamp(self.now)) };
        status.state = Some(ContainerState { running: Some(running), ..ContainerState::default() });
        turns.push(Turn::Started);
        Progress::GoesOn(self.next_turn(status, self.now))
    }

    fn run_on(&self, status: &mut ContainerStatus, running: &ContainerStateRunning, turns: &mut Vec<Turn>) -> Progress {
        let since = running.started_at.as_ref().map_or(self.now, |time| time.0);
        match self.ends(since) {
            Some(end) if end <= self.now => {
                end_with(status, self.script.exit_code, self.now);
                self.say_why(status);
                turns.push(Turn::Ended(self.script.exit_code));
                self.step(status, turns)
            }
            _ => {
                status.ready |= self.ready_from(since).is_some_and(|moment| moment <= self.now);
                Progress::GoesOn(self.next_turn(status, since))
            }
        }
    }

    /// A program that fails can leave a message to those who look at its pod.
    fn say_why(&self, status: &mut ContainerStatus) {
        let words = self.pod.metadata.annotations.as_ref().and_then(|told| told.get(LAST_WORDS));
        let ended = status.state.as_mut().and_then(|state| state.terminated.as_mut());
        if let Some(ended) = ended.filter(|ended| ended.exit_code != 0) {
            ended.message = words.cloned();
        }
    }

    /// When a container that runs becomes ready or ends.
    fn next_turn(&self, status: &ContainerStatus, since: Timestamp) -> Option<Timestamp> {
        let ready = self.ready_from(since).filter(|_| !status.ready);
        sooner(self.ends(since), ready)
    }

    fn ready_from(&self, since: Timestamp) -> Option<Timestamp> {
        match self.script.ready_after {
            Lasts::For(time) => Some(later(stamp(since).0, time)),
            Lasts::Forever => None,
        }
    }

    fn ends(&self, since: Timestamp) -> Option<Timestamp> {
        match self.script.lasts {
            Lasts::For(time) => Some(later(stamp(since).0, time)),
            Lasts::Forever => None,
        }
    }

    /// The first restart comes at once, the next after ten seconds, each further one after twice as long.
    fn start_again(
        &self,
        status: &mut ContainerStatus,
        ended: ContainerStateTerminated,
        turns: &mut Vec<Turn>,
    ) -> Progress {
        let restarts = u32::try_from(status.restart_count).unwrap_or(0);
        let pause = match restarts {
            _ if ran_for(&ended) >= COUNTS_AS_WELL => FIRST_BACKOFF,
            0 => Duration::ZERO,
            restarts => doubled(FIRST_BACKOFF, restarts, LONGEST_BACKOFF),
        };
        let due = later(ended.finished_at.as_ref().map_or(self.now, |time| time.0), pause);
        status.last_state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
        if due <= self.now {
            status.restart_count += 1;
            return self.start(status, turns);
        }
        let message = format!(
            "back-off {}s restarting failed container={} pod={}_{}({})",
            pause.as_secs(),
            status.name,
            pods::name(&self.pod.metadata),
            pods::namespace(&self.pod.metadata),
            pods::uid(&self.pod.metadata),
        );
        if !is_backing_off(status) {
            let of =
                (pods::name(&self.pod.metadata), pods::namespace(&self.pod.metadata), pods::uid(&self.pod.metadata));
            let why =
                format!("Back-off restarting failed container {} in pod {}_{}({})", status.name, of.0, of.1, of.2);
            turns.push(Turn::BackedOff(why));
        }
        let waiting = because("CrashLoopBackOff", Some(message));
        status.state = Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() });
        Progress::GoesOn(Some(due))
    }
}

/// The machine went away under it and has booted since: the container is started anew, or has failed for good.
pub fn lose_to_reboot(status: &mut ContainerStatus, booted: Timestamp, restarts: bool, now: Timestamp) {
    let since = status.state.as_ref().and_then(|state| state.running.as_ref()).and_then(|run| run.started_at.clone());
    // Objects keep whole seconds: what started in the second of the boot started after it.
    if since.is_none_or(|since| since >= stamp(booted)) {
        return;
    }
    end_with(status, KILLED_BY_REBOOT, now);
    if restarts {
        status.last_state = status.state.take();
        status.restart_count += 1;
        status.state =
            Some(ContainerState { waiting: Some(because("ContainerCreating", None)), ..ContainerState::default() });
    }
}

/// Stops a container, whether it runs or not.
pub fn stop(status: &mut ContainerStatus, killed: bool, now: Timestamp) {
    if status.state.as_ref().is_none_or(|state| state.terminated.is_none()) {
        end_with(status, if killed { KILLED } else { TERMINATED }, now);
    }
}

fn end_with(status: &mut ContainerStatus, exit_code: i32, now: Timestamp) {
    let started = status.state.as_ref().and_then(|state| state.running.as_ref()).and_then(|run| run.started_at.clone());
    status.ready = false;
    status.started = Some(false);
    let ended = ContainerStateTerminated {
        container_id: status.container_id.clone(),
        exit_code,
        reason: Some(if exit_code == 0 { "Completed" } else { "Error" }.into()),
        started_at: started,
        finished_at: Some(stamp(now)),
        ..ContainerStateTerminated::default()
    };
    status.state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
}

fn is_backing_off(status: &ContainerStatus) -> bool {
    waiting_reason(status) == Some("CrashLoopBackOff")
}

fn waiting_reason(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

fn ran_for(ended: &ContainerStateTerminated) -> Duration {
    match (&ended.started_at, &ended.finished_at) {
        (Some(start), Some(end)) => drover_clock::between(start.0, end.0),
        _ => Duration::ZERO,
    }
}

fn because(reason: &str, message: Option<String>) -> ContainerStateWaiting {
    ContainerStateWaiting { reason: Some(reason.into()), message }
}
