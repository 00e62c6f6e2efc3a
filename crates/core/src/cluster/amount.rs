//! Quantities such as `250m`, `1.5` or `2Gi`, exact.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Amounts by resource, such as `cpu` and `memory`.
pub type Amounts = BTreeMap<String, Amount>;

/// A quantity in thousandths of its unit, rounded up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i128);

impl Amount {
    pub const ZERO: Amount = Amount(0);

    pub fn of(units: i64) -> Self {
        Amount(i128::from(units) * 1000)
    }

    /// None for what is no quantity.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|sign: char| !sign.is_ascii_digit() && !matches!(sign, '.' | '+' | '-'));
        let (number, suffix) = text.split_at(digits.unwrap_or(text.len()));
        // The value is `number * numerator / denominator`, in thousandths.
        let (numerator, denominator): (i128, i128) = match suffix {
            "n" => (1, 1_000_000),
            "u" => (1, 1000),
            "m" => (1, 1),
            "" => (1000, 1),
            "k" => (1000_i128.pow(2), 1),
            "M" => (1000_i128.pow(3), 1),
            "G" => (1000_i128.pow(4), 1),
            "T" => (1000_i128.pow(5), 1),
            "P" => (1000_i128.pow(6), 1),
            "E" => (1000_i128.pow(7), 1),
            "Ki" => (1000 << 10, 1),
            "Mi" => (1000 << 20, 1),
            "Gi" => (1000 << 30, 1),
            "Ti" => (1000 << 40, 1),
            "Pi" => (1000 << 50, 1),
            "Ei" => (1000 << 60, 1),
            exponent => match exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? {
                power @ 0..=15 => (1000 * 10_i128.pow(power.unsigned_abs()), 1),
                power @ -15..0 => (1000, 10_i128.pow(power.unsigned_abs())),
                _ => return None,
            },
        };
        let (sign, number) = match number.strip_prefix('-') {
            Some(number) => (-1, number),
            None => (1, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.len() > 9 {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let denominator = denominator * 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let value = digits.checked_mul(numerator)?;
        let rounded_up = value / denominator + i128::from(value % denominator != 0);
        Some(Amount(sign * rounded_up))
    }

    /// As a plain number: in units for 1, in thousandths for 1000.
    pub fn scaled(self, scale: i64) -> i64 {
        i64::try_from(self.0.saturating_mul(i128::from(scale)) / 1000).unwrap_or(i64::MAX)
    }

    /// In whole units, rounded up.
    pub fn units(self) -> i64 {
        i64::try_from(self.0 / 1000 + i128::from(self.0 % 1000 > 0)).unwrap_or(i64::MAX)
    }

    pub fn plus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }

    /// What is left of it, at least nothing.
    pub fn minus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_sub(other.0).max(0))
    }

    /// For people: memory and storage in the unit that fits, everything else as a number.
    pub fn shown(self, resource: &str) -> String {
        const UNITS: [&str; 5] = ["", "Ki", "Mi", "Gi", "Ti"];
        if !(resource.contains("memory") || resource.contains("storage")) {
            return match self.0 % 1000 {
                0 => (self.0 / 1000).to_string(),
                _ => format!("{}m", self.0),
            };
        }
        let (mut tenths, mut unit) = (self.0 / 100, 0);
        while tenths >= 10240 && unit + 1 < UNITS.len() {
            (tenths, unit) = (tenths / 1024, unit + 1);
        }
        match tenths % 10 {
            0 => format!("{}{}", tenths / 10, UNITS[unit]),
            tenth => format!("{}.{tenth}{}", tenths / 10, UNITS[unit]),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // YAML turns `cpu: 2` into a number.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Text(String),
            Whole(i64),
            Fraction(f64),
        }
        let text = match Wire::deserialize(deserializer)? {
            Wire::Text(text) => text,
            Wire::Whole(number) => number.to_string(),
            Wire::Fraction(number) => number.to_string(),
        };
        Amount::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no quantity")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_every_notation() {
        let thousandths = |text: &str| Amount::parse(text).map(|amount| amount.0);
        assert_eq!(thousandths("250m"), Some(250));
        assert_eq!(thousandths("1.5"), Some(1500));
        assert_eq!(thousandths("100u"), Some(1), "less than a thousandth counts as one");
        assert_eq!(thousandths("2Gi"), Some(1000 << 31));
        assert_eq!(thousandths("0.5Gi"), Some(500 << 30));
        assert_eq!(thousandths("1e3"), Some(1_000_000));
        assert_eq!(thousandths("5k"), Some(5_000_000));
        assert_eq!(thousandths("-1"), Some(-1000));
        for nonsense in ["soon", "", ".", "1e99", "Gi"] {
            assert_eq!(thousandths(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn amounts_are_shown_in_the_unit_that_fits() {
        let shown = |text: &str, resource: &str| Amount::parse(text).unwrap().shown(resource);
        assert_eq!(shown("0.25", "cpu"), "250m");
        assert_eq!(shown("2", "cpu"), "2");
        assert_eq!(shown("1536Mi", "memory"), "1.5Gi");
        assert_eq!(shown("110", "pods"), "110");
    }
}
