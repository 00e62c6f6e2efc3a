//! When may work on a node start?

use drover_api::plan::{DAYS, TimeWindowSpec};
use jiff::civil::{Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

/// The days and hours of `spec.window`.
#[derive(Clone, Debug)]
pub struct Window {
    days: Vec<Weekday>,
    start: Time,
    end: Time,
    zone: TimeZone,
}

/// Why a window cannot be understood, in the words that follow `spec.window is invalid, `.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WindowProblem {
    #[error("Invalid weekday: {0}")]
    Weekday(String),
    #[error("Invalid weekday, number out of range: {0}")]
    WeekdayNumber(String),
    #[error("unknown time zone {0}")]
    Zone(String),
    #[error("Invalid time format: {0}")]
    Time(String),
}

impl Window {
    pub fn parse(spec: &TimeWindowSpec) -> Result<Self, WindowProblem> {
        let days = spec.days.iter().filter(|day| !day.is_empty()).map(|day| weekday(day)).collect::<Result<_, _>>()?;
        let zone = zone(&spec.time_zone)?;
        Ok(Self { days, zone, start: time(&spec.start_time)?, end: time(&spec.end_time)? })
    }

    /// A window that wraps midnight is open on both sides of it, but each day must itself be listed: on Fridays from
    /// 22:00 to 02:00 is open at 01:00 on Friday, and closed at 01:00 on Saturday.
    pub fn is_open(&self, at: Timestamp) -> bool {
        let now = at.to_zoned(self.zone.clone());
        if !self.days.contains(&now.weekday()) {
            return false;
        }
        let on_this_day = |time: Time| now.date().to_datetime(time).to_zoned(self.zone.clone()).ok();
        let last_moment = self.end.with().subsec_nanosecond(999_999_999).build().unwrap_or(self.end);
        let (Some(start), Some(end)) = (on_this_day(self.start), on_this_day(last_moment)) else { return false };
        let moved = |moment: Zoned, hours: i64| moment.checked_add(hours.hours()).unwrap_or(moment);
        let (start, end) = match (self.start > self.end, now < end) {
            (false, _) => (start, end),
            (true, true) => (moved(start, -24), end),
            (true, false) => (start, moved(end, 24)),
        };
        start <= now && now <= end
    }

    /// When the window that is open at `now` closes; nothing, if it never does.
    pub fn closes_at(&self, now: Timestamp) -> Option<Timestamp> {
        const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);
        let mut at = now;
        // One piece a day at least: what is still open after two weeks is open for ever.
        for _ in 0..15 {
            let after = self.end_of_day_or_window(at)?.checked_add(NANOSECOND).ok()?;
            if !self.is_open(after) {
                return Some(after);
            }
            at = after;
        }
        None
    }

    /// The last moment that `now` is inside for: of the window, or of the day, if the window goes on over midnight.
    fn end_of_day_or_window(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(self.zone.clone());
        let at = |time: Time| now.date().to_datetime(time).to_zoned(self.zone.clone()).ok();
        let end = at(self.end.with().subsec_nanosecond(999_999_999).build().ok()?)?;
        let end = if self.start > self.end && now >= end { at(Time::MAX)? } else { end };
        Some(end.timestamp())
    }
}

fn weekday(day: &str) -> Result<Weekday, WindowProblem> {
    let lower = day.to_lowercase();
    if let Some(index) = DAYS.iter().position(|words| words.contains(&lower.as_str())) {
        return i8::try_from(index)
            .ok()
            .and_then(|index| Weekday::from_sunday_zero_offset(index).ok())
            .ok_or_else(|| WindowProblem::Weekday(day.to_owned()));
    }
    match day.parse::<i64>() {
        Ok(_) => Err(WindowProblem::WeekdayNumber(day.to_owned())),
        Err(_) => Err(WindowProblem::Weekday(day.to_owned())),
    }
}

/// The zones are those that Drover was built with, so that a Plan means the same wherever it runs.
fn zone(name: &str) -> Result<TimeZone, WindowProblem> {
    match name {
        // The local zone is that of a container, which has none.
        "" | "UTC" | "Local" => Ok(TimeZone::UTC),
        name => TimeZoneDatabase::bundled().get(name).map_err(|_| WindowProblem::Zone(name.to_owned())),
    }
}

/// `15:04`, `15:04:05`, `03:04pm`, `15`, `03pm` or `3pm`.
fn time(text: &str) -> Result<Time, WindowProblem> {
    parse_time(text).ok_or_else(|| WindowProblem::Time(text.to_owned()))
}

fn parse_time(text: &str) -> Option<Time> {
    let (clock, afternoon) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(clock), _) => (clock, Some(false)),
        (_, Some(clock)) => (clock, Some(true)),
        _ => (text, None),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let (hour, minute, second) = match (parts[..].first()?, &parts[1..], afternoon) {
        (hour, [], _) => (number(hour, 1..=2)?, 0, 0),
        (hour, [minute], Some(_)) => (number(hour, 2..=2)?, number(minute, 2..=2)?, 0),
        (hour, [minute], None) => (number(hour, 1..=2)?, number(minute, 2..=2)?, 0),
        (hour, [minute, second], None) => {
            (number(hour, 1..=2)?, number(minute, 2..=2)?, number(without_fraction(second)?, 2..=2)?)
        }
        _ => return None,
    };
    let hour = match afternoon {
        None => hour,
        Some(_) if hour > 12 => return None,
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        Some(_) => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

/// Go reads a fraction after the seconds, whether it is asked for or not. The window begins and ends with whole ones.
fn without_fraction(second: &str) -> Option<&str> {
    match second.split_once(['.', ',']) {
        Some((whole, fraction)) => {
            (!fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit())).then_some(whole)
        }
        None => Some(second),
    }
}

fn number(digits: &str, length: std::ops::RangeInclusive<usize>) -> Option<i8> {
    let good = length.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    good.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        windows: Vec<Vector>,
    }

    #[derive(Deserialize)]
    struct Vector {
        window: TimeWindowSpec,
        at: Timestamp,
        inside: bool,
    }

    fn spec(days: &[&str], start: &str, end: &str, zone: &str) -> TimeWindowSpec {
        TimeWindowSpec {
            days: days.iter().map(|&day| day.to_owned()).collect(),
            start_time: start.to_owned(),
            end_time: end.to_owned(),
            time_zone: zone.to_owned(),
        }
    }

    fn problem(spec: TimeWindowSpec) -> String {
        Window::parse(&spec).unwrap_err().to_string()
    }

    #[test]
    fn windows_are_open_when_those_of_the_original_are() {
        let vectors: Vectors = serde_json::from_str(include_str!("testdata/windows.json")).unwrap();
        assert_eq!(vectors.windows.len(), 6);

        for vector in vectors.windows {
            let window = Window::parse(&vector.window).unwrap();
            assert_eq!(window.is_open(vector.at), vector.inside, "{:?} at {}", vector.window, vector.at);
        }
    }

    #[test]
    fn a_window_over_midnight_is_closed_on_a_day_that_is_not_listed() {
        let window = Window::parse(&spec(&["fr"], "22:00", "02:00", "")).unwrap();

        assert!(window.is_open("2026-11-13T23:00:00Z".parse().unwrap()));
        assert!(!window.is_open("2026-11-14T01:00:00Z".parse().unwrap()));
    }

    #[test]
    fn the_last_second_belongs_to_the_window() {
        let window = Window::parse(&spec(&["sa"], "8", "4pm", "")).unwrap();

        assert!(window.is_open("2026-11-14T16:00:00.999999999Z".parse().unwrap()));
        assert!(!window.is_open("2026-11-14T16:00:01Z".parse().unwrap()));
    }

    #[test]
    fn all_ways_to_write_a_time_are_read() {
        for (text, (hour, minute, second)) in [
            ("15:04", (15, 4, 0)),
            ("8:00", (8, 0, 0)),
            ("15:04:05", (15, 4, 5)),
            ("15:04:05.75", (15, 4, 5)),
            ("15:04:05,5", (15, 4, 5)),
            ("03:04pm", (15, 4, 0)),
            ("15", (15, 0, 0)),
            ("7", (7, 0, 0)),
            ("03pm", (15, 0, 0)),
            ("3pm", (15, 0, 0)),
            ("12am", (0, 0, 0)),
            ("12pm", (12, 0, 0)),
        ] {
            assert_eq!(parse_time(text), Time::new(hour, minute, second, 0).ok(), "{text}");
        }
        for text in
            ["", "xx", "24:00", "15:4", "3:04pm", "13pm", "3PM", "15:04:05pm", "15:04 ", "015", "15:04:05.", "15:04.5"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn it_is_known_when_an_open_window_closes() {
        let closes = |days: &[&str], start: &str, end: &str, zone: &str, at: &str| {
            let window = Window::parse(&spec(days, start, end, zone)).unwrap();
            window.closes_at(at.parse().unwrap()).map(|moment| moment.to_string())
        };
        let friday_evening = "2026-11-13T23:00:00Z";

        assert_eq!(closes(&["fr"], "20:00", "23:30", "", friday_evening).unwrap(), "2026-11-13T23:30:01Z");
        assert_eq!(closes(&["fr"], "22:00", "02:00", "", friday_evening).unwrap(), "2026-11-14T00:00:00Z");
        assert_eq!(closes(&["fr", "sa"], "22:00", "02:00", "", friday_evening).unwrap(), "2026-11-14T02:00:01Z");
        assert_eq!(closes(&["sa"], "00:00", "23:59:59", "Asia/Tokyo", friday_evening).unwrap(), "2026-11-14T15:00:00Z");
        let every_day: Vec<&str> = DAYS.iter().map(|words| words[1]).collect();
        assert_eq!(closes(&every_day, "00:00", "23:59:59", "", friday_evening), None);
    }

    #[test]
    fn every_word_for_a_day_is_read() {
        for (index, words) in DAYS.iter().enumerate() {
            for word in words {
                let day = weekday(word).unwrap();
                assert_eq!(usize::try_from(day.to_sunday_zero_offset()).unwrap(), index, "{word}");
            }
        }
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        assert_eq!(problem(spec(&["su"], "xx", "23:00", "")), "Invalid time format: xx");
        assert_eq!(problem(spec(&["su"], "22:00", "", "")), "Invalid time format: ");
        assert_eq!(problem(spec(&["never"], "22:00", "23:00", "")), "Invalid weekday: never");
        assert_eq!(problem(spec(&["7"], "22:00", "23:00", "")), "Invalid weekday, number out of range: 7");
        assert_eq!(problem(spec(&["su"], "22:00", "23:00", "Mars/Base")), "unknown time zone Mars/Base");
    }
}
