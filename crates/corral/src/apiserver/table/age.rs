//! How long ago something was, in as few letters as say enough.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time since a moment that an object states; `<unknown>` if it states none.
pub(super) fn since(moment: &str, now: Timestamp) -> String {
    match moment.parse::<Timestamp>() {
        Ok(then) => duration(now.duration_since(then).as_secs()),
        Err(_) => "<unknown>".into(),
    }
}

/// `90s`, `5m30s`, `3h5m`, `4d2h`, `2y9d`
pub(super) fn duration(seconds: i64) -> String {
    // A clock may be a little ahead of this one.
    if seconds < -1 {
        return "<invalid>".into();
    }
    match seconds.max(0) {
        seconds if seconds < 2 * MINUTE => format!("{seconds}s"),
        seconds if seconds < 10 * MINUTE => in_two(seconds, (MINUTE, 'm'), (1, 's')),
        seconds if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        seconds if seconds < 8 * HOUR => in_two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        seconds if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        seconds if seconds < 8 * DAY => in_two(seconds, (DAY, 'd'), (HOUR, 'h')),
        seconds if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        seconds if seconds < 8 * YEAR => in_two(seconds, (YEAR, 'y'), (DAY, 'd')),
        seconds => format!("{}y", seconds / YEAR),
    }
}

fn in_two(seconds: i64, (large, large_name): (i64, char), (small, small_name): (i64, char)) -> String {
    let rest = seconds % large / small;
    let whole = format!("{}{large_name}", seconds / large);
    if rest == 0 { whole } else { format!("{whole}{rest}{small_name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_or_three_digits_that_matter() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (4 * DAY + 2 * HOUR, "4d2h"),
            (400 * DAY, "400d"),
            (2 * YEAR + 9 * DAY, "2y9d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(duration(seconds), shown, "{seconds}");
        }
    }

    #[test]
    fn a_moment_that_is_not_stated_is_unknown() {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        assert_eq!(since("2026-01-01T11:59:50Z", now), "10s");
        assert_eq!(since("", now), "<unknown>");
    }
}
