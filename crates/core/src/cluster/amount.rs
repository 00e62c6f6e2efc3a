//! Quantities such as `250m`, `1.5` or `2Gi`, exact.

use std::collections::BTreeMap;

use drover_api::quantity;
use serde::{Deserialize, Deserializer};

/// Amounts by resource, such as `cpu` and `memory`.
pub type Amounts = BTreeMap<String, Amount>;

/// A quantity in thousandths of its unit, rounded away from zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i128);

impl Amount {
    pub const ZERO: Amount = Amount(0);

    pub fn of(units: i64) -> Self {
        Amount(i128::from(units) * 1000)
    }

    /// None for what is no quantity.
    pub fn parse(text: &str) -> Option<Self> {
        quantity::count(text, 1000).map(Amount)
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
