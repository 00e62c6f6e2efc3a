//! Moments and durations.

use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};

use crate::{
    eval::{EvalError, Evaluated},
    value::Value,
};

const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

pub(super) fn call(function: &str, is_method: bool, args: &[Value]) -> Option<Evaluated> {
    Some(match (function, args) {
        ("duration", [Value::Duration(_)]) | ("timestamp", [Value::Timestamp(_)]) => Ok(args[0].clone()),
        ("duration", [Value::Int(nanos)]) => Ok(Value::Duration(*nanos)),
        ("duration", [Value::String(text)]) => parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| EvalError::Other(format!("time: invalid duration {text:?}"))),
        ("timestamp", [Value::Int(seconds)]) => moment(Timestamp::from_second(*seconds).ok()),
        ("timestamp", [Value::String(text)]) => text.parse().map(Value::Timestamp).map_err(|_| {
            EvalError::Other(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?}"))
        }),
        ("_+_", [Value::Duration(left), Value::Duration(right)]) => span(left.checked_add(*right)),
        ("_-_", [Value::Duration(left), Value::Duration(right)]) => span(left.checked_sub(*right)),
        ("_+_", [Value::Timestamp(at), Value::Duration(by)]) | ("_+_", [Value::Duration(by), Value::Timestamp(at)]) => {
            moment(at.checked_add(SignedDuration::from_nanos(*by)).ok())
        }
        ("_-_", [Value::Timestamp(at), Value::Duration(by)]) => {
            moment(at.checked_sub(SignedDuration::from_nanos(*by)).ok())
        }
        ("_-_", [Value::Timestamp(left), Value::Timestamp(right)]) => {
            span(i64::try_from(left.duration_since(*right).as_nanos()).ok())
        }
        (_, [Value::Duration(nanos)]) if is_method => part_of_span(function, *nanos)?,
        (_, [Value::Timestamp(at)]) if is_method => part_of_moment(function, at.to_zoned(TimeZone::UTC))?,
        (_, [Value::Timestamp(at), Value::String(zone)]) if is_method => match time_zone(zone) {
            Some(zone) => part_of_moment(function, at.to_zoned(zone))?,
            None => Err(EvalError::Other(format!("unknown time zone {zone}"))),
        },
        _ => return None,
    })
}

fn moment(at: Option<Timestamp>) -> Evaluated {
    at.map(Value::Timestamp).ok_or_else(|| EvalError::Other("timestamp overflow".into()))
}

fn span(nanos: Option<i64>) -> Evaluated {
    nanos.map(Value::Duration).ok_or_else(|| EvalError::Other("duration overflow".into()))
}

fn part_of_span(function: &str, nanos: i64) -> Option<Evaluated> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return None,
    };
    Some(Ok(Value::Int(nanos / unit)))
}

fn part_of_moment(function: &str, at: Zoned) -> Option<Evaluated> {
    let part = match function {
        "getFullYear" => at.year().into(),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => at.day().into(),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => at.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => at.hour().into(),
        "getMinutes" => at.minute().into(),
        "getSeconds" => at.second().into(),
        "getMilliseconds" => at.millisecond().into(),
        _ => return None,
    };
    Some(Ok(Value::Int(part)))
}

/// A zone by name, or by its distance from UTC such as `-08:00`.
fn time_zone(name: &str) -> Option<TimeZone> {
    let Some((hours, minutes)) = name.split_once(':') else { return TimeZone::get(name).ok() };
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let seconds = sign * (hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?);
    jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// Reads a duration such as `1h30m` or `-1.5s`, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let length = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let scale = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(scale.into())?)?;
        if !fraction.is_empty() {
            let share: f64 = format!("0.{fraction}").parse().ok()?;
            total += (share * scale as f64) as i128;
        }
        rest = after;
    }
    i64::try_from(sign * total).ok()
}

/// A duration in seconds, as `string()` gives it.
pub(super) fn shown(nanos: i64) -> String {
    let (whole, part) = (nanos / 1_000_000_000, (nanos % 1_000_000_000).abs());
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    if part == 0 {
        return format!("{whole}s");
    }
    let part = format!("{part:09}");
    format!("{sign}{whole}.{}s", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown_in_seconds() {
        for (text, seconds) in
            [("1h30m", "5400s"), ("-1.5s", "-1.5s"), ("0", "0s"), ("250ms", "0.25s"), ("-10ms", "-0.01s")]
        {
            assert_eq!(parse_duration(text).map(shown).as_deref(), Some(seconds), "{text}");
        }
        for wrong in ["", "1", "h", "1x", "1h-5m"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
