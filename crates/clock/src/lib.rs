//! The one source of time, in three forms: real, scaled and virtual.
//!
//! Everything that waits or stamps takes a [`Clock`], so that an upgrade of hours runs in seconds in a
//! demonstration and in milliseconds, repeatably, in a simulation.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time and waits for it. Cheap to copy; all copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Real,
    /// `speed` seconds pass here for each second of tokio's clock. The virtual clock is this one at speed 1 on a
    /// paused runtime: tokio then jumps to the next timer whenever every task is idle.
    Simulated {
        epoch: Timestamp,
        started: Instant,
        speed: f64,
        step: Option<Step>,
    },
}

/// Somebody sets the clock.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Instant,
    by: SignedDuration,
}

impl Clock {
    /// The wall clock.
    pub fn real() -> Self {
        Clock { form: Form::Real }
    }

    /// Starts at `epoch` and runs `speed` times as fast as the wall clock. Speeds that are no positive number are
    /// taken as 1.
    pub fn scaled(epoch: Timestamp, speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Clock { form: Form::Simulated { epoch, started: Instant::now(), speed, step: None } }
    }

    /// Starts at `epoch` and follows tokio's own clock. Only on a runtime that was built with
    /// `start_paused(true)` and opens no sockets: a paused clock that waits for a socket runs away.
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Clock::scaled(epoch, 1.0)
    }

    /// The same clock, which somebody sets by `by` when `time` has passed. The wall clock is nobody's to set.
    pub fn stepping(self, time: Duration, by: SignedDuration) -> Self {
        match self.form {
            Form::Real => self,
            Form::Simulated { epoch, started, speed, .. } => {
                let at = Instant::now() + self.on_the_wall(time);
                Clock { form: Form::Simulated { epoch, started, speed, step: Some(Step { at, by }) } }
            }
        }
    }

    /// Goes on from what this clock shows now, whatever somebody sets this one to: for deadlines of what runs for a while.
    pub fn steady(self) -> Self {
        let speed = match self.form {
            Form::Real => 1.0,
            Form::Simulated { speed, .. } => speed,
        };
        Clock::scaled(self.now(), speed)
    }

    pub fn now(&self) -> Timestamp {
        match self.form {
            #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
            Form::Real => Timestamp::now(),
            Form::Simulated { epoch, started, speed, step } => {
                let passed = started.elapsed();
                let passed = if speed == 1.0 { passed } else { passed.mul_f64(speed) };
                let now = later(epoch, passed);
                match step.filter(|step| step.at <= Instant::now()) {
                    Some(step) => now.checked_add(step.by).unwrap_or(now),
                    None => now,
                }
            }
        }
    }

    pub async fn sleep(&self, time: Duration) {
        match self.form {
            Form::Real => tokio::time::sleep(time).await,
            Form::Simulated { speed, .. } => tokio::time::sleep(time.div_f64(speed)).await,
        }
    }

    /// Waits until the clock shows `moment`; returns at once if it does already.
    pub async fn sleep_until(&self, moment: Timestamp) {
        self.sleep(between(self.now(), moment)).await;
    }

    /// How long tokio has to wait until `time` has passed on this clock, for timeouts around foreign futures.
    pub fn on_the_wall(&self, time: Duration) -> Duration {
        match self.form {
            Form::Real => time,
            Form::Simulated { speed, .. } => time.div_f64(speed),
        }
    }
}

/// `moment` and `time` after it; the last representable moment where that would overflow.
pub fn later(moment: Timestamp, time: Duration) -> Timestamp {
    SignedDuration::try_from(time).ok().and_then(|time| moment.checked_add(time).ok()).unwrap_or(Timestamp::MAX)
}

/// How long it is from `start` to `end`; nothing if `end` comes first.
pub fn between(start: Timestamp, end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(start)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_virtual_clock_jumps_to_the_end_of_a_sleep() {
        let clock = Clock::virtual_from(noon());
        clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now(), later(noon(), Duration::from_secs(3600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scaled_clock_shows_more_time_than_passes() {
        let clock = Clock::scaled(noon(), 60.0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(clock.now(), later(noon(), Duration::from_secs(120)));
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(clock.now(), later(noon(), Duration::from_secs(180)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_shows_another_time_and_sleeps_as_long() {
        let clock = Clock::virtual_from(noon()).stepping(Duration::from_secs(10), SignedDuration::from_hours(-1));
        clock.sleep(Duration::from_secs(9)).await;
        assert_eq!(clock.now(), later(noon(), Duration::from_secs(9)));
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), "2026-01-01T11:00:10Z".parse().unwrap());
        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), "2026-01-01T11:00:15Z".parse().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_clock_goes_on_when_the_other_one_is_set() {
        let set = Clock::virtual_from(noon()).stepping(Duration::from_secs(10), SignedDuration::from_hours(1));
        let before = set.steady();
        set.sleep(Duration::from_secs(20)).await;
        assert_eq!(before.now(), later(noon(), Duration::from_secs(20)));
        assert_eq!(set.steady().now(), later(noon(), Duration::from_secs(3620)));
    }

    #[tokio::test(start_paused = true)]
    async fn sleeping_until_a_moment_that_has_passed_takes_no_time() {
        let clock = Clock::virtual_from(noon());
        clock.sleep_until("2025-01-01T00:00:00Z".parse().unwrap()).await;
        assert_eq!(clock.now(), noon());
    }
}
