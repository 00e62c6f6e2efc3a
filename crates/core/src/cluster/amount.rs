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

    #[test]
    fn memory_and_storage_are_shown_in_the_largest_unit_of_which_there_is_one() {
        let cases = [
            ("500m", "0.5"),
            ("1023", "1023"),
            ("1024", "1Ki"),
            ("1023Ki", "1023Ki"),
            ("1024Ki", "1Mi"),
            ("1000Mi", "1000Mi"),
            ("1Gi", "1Gi"),
            ("1Ti", "1Ti"),
            ("2500Ti", "2500Ti"),
        ];
        for resource in ["memory", "ephemeral-storage"] {
            for (text, expected) in cases {
                assert_eq!(Amount::parse(text).unwrap().shown(resource), expected, "{text} of {resource}");
            }
        }
    }

    #[test]
    fn amounts_are_counted_in_whole_units_of_which_a_part_is_one_more() {
        for (text, whole) in [("0", 0), ("1m", 1), ("999m", 1), ("1", 1), ("1001m", 2), ("2", 2)] {
            assert_eq!(Amount::parse(text).unwrap().units(), whole, "{text}");
        }
        let some = Amount::parse("1.5").unwrap();
        assert_eq!((some.scaled(1), some.scaled(1000)), (1, 1500));
        assert_eq!(Amount(i128::MAX).units(), i64::MAX);
    }

    #[test]
    fn amounts_add_up_and_nothing_is_the_least_that_is_left() {
        let (one, two) = (Amount::of(1), Amount::of(2));
        assert_eq!(one.plus(two), Amount::parse("3").unwrap());
        assert_eq!(two.minus(one), one);
        assert_eq!(one.minus(two), Amount::ZERO);
    }

    #[test]
    fn an_amount_is_read_from_a_text_or_a_number() {
        let read = |json: &str| serde_json::from_str::<Amount>(json).map_err(|error| error.to_string());
        assert_eq!(read("2"), Ok(Amount::of(2)));
        assert_eq!(read("0.5"), Ok(Amount(500)));
        assert_eq!(read("\"250m\""), Ok(Amount(250)));
        assert!(read("\"soon\"").unwrap_err().contains("\"soon\" is no quantity"));
    }
}
