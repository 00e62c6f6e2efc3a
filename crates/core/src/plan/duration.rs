//! Lengths of time as Go writes and reads them: `1h30m`, `500ms`. Users know them from `kubectl`.

const NANOSECOND: i128 = 1;
const MICROSECOND: i128 = 1_000 * NANOSECOND;
const MILLISECOND: i128 = 1_000 * MICROSECOND;
const SECOND: i128 = 1_000 * MILLISECOND;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

/// A length of time in nanoseconds, as Go counts it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct GoDuration(i64);

impl GoDuration {
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub fn as_nanos(self) -> i64 {
        self.0
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whole seconds; what is left over is dropped.
    pub fn as_secs(self) -> i64 {
        self.0 / 1_000_000_000
    }

    /// Nothing, if the text is not a duration: it lacks a unit, say, or is more than 292 years.
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, mut rest) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (amount, after) = amount(rest)?;
            let (unit, after) = unit(after)?;
            let whole = amount.whole.checked_mul(unit)?;
            let part = amount.numerator.checked_mul(unit)? / amount.denominator;
            total = total.checked_add(whole)?.checked_add(part)?;
            rest = after;
        }
        i64::try_from(sign * total).ok().map(Self)
    }
}

impl From<GoDuration> for jiff::SignedDuration {
    fn from(duration: GoDuration) -> Self {
        jiff::SignedDuration::from_nanos(duration.0)
    }
}

/// `whole + numerator / denominator`.
struct Amount {
    whole: i128,
    numerator: i128,
    denominator: i128,
}

/// More digits after the point than this cannot change a count of nanoseconds.
const DIGITS_THAT_COUNT: usize = 18;

fn amount(text: &str) -> Option<(Amount, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(DIGITS_THAT_COUNT)];
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i64>().ok().map(i128::from) };
    let denominator = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some((Amount { whole: number(whole)?, numerator: number(fraction)?, denominator }, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit(text: &str) -> Option<(i128, &str)> {
    let (unit, rest) = text.split_at(text.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(text.len()));
    let nanos = match unit {
        "ns" => NANOSECOND,
        // Both letters that look like a micro sign are in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    };
    Some((nanos, rest))
}

impl std::fmt::Display for GoDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanos = i128::from(self.0).abs();
        match nanos {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{nanos}ns"),
            MICROSECOND..MILLISECOND => write!(f, "{}\u{b5}s", decimal(nanos, MICROSECOND)),
            MILLISECOND..SECOND => write!(f, "{}ms", decimal(nanos, MILLISECOND)),
            _ => {
                let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", decimal(nanos % MINUTE, SECOND))
            }
        }
    }
}

/// `nanos / unit`, without zeros at the end.
fn decimal(nanos: i128, unit: i128) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_string() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, text) in [
            (0, "0s"),
            (60, "60ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (2_147_483_647, "2.147483647s"),
            (90_000_000_000, "1m30s"),
            (5_400_000_000_000, "1h30m0s"),
            (3_600_500_000_000, "1h0m0.5s"),
            (-30_000_000_000, "-30s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration(nanos).to_string(), text);
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("30s", 30_000_000_000),
            ("-30s", -30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1µs2ns", 1_002),
            ("+1ms", 1_000_000),
        ] {
            assert_eq!(GoDuration::parse(text), Some(GoDuration(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "5", "5 minutes", "-", "s", ".s", "1d", "h1", "99999999999h", "µ"] {
            assert_eq!(GoDuration::parse(text), None, "{text}");
        }
    }
}
