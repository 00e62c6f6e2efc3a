//! Amounts of Kubernetes, such as `1500m` and `2Gi`.

use crate::{
    eval::{EvalError, Evaluated},
    value::Value,
};

/// An amount in billionths, which is as fine as the original keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const BILLION: i128 = 1_000_000_000;

pub(super) fn call(function: &str, _: bool, args: &[Value]) -> Option<Evaluated> {
    Some(match (function, args) {
        ("quantity", [Value::String(text)]) => Quantity::parse(text).map(Value::Quantity).ok_or_else(|| {
            let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
            EvalError::Other(why.into())
        }),
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_some())),
        ("sign", [Value::Quantity(amount)]) => Ok(Value::Int(amount.0.signum() as i64)),
        ("isGreaterThan", [Value::Quantity(left), Value::Quantity(right)]) => Ok(Value::Bool(left > right)),
        ("isLessThan", [Value::Quantity(left), Value::Quantity(right)]) => Ok(Value::Bool(left < right)),
        ("compareTo", [Value::Quantity(left), Value::Quantity(right)]) => Ok(Value::Int(left.cmp(right) as i64)),
        ("asApproximateFloat", [Value::Quantity(amount)]) => Ok(Value::Double(amount.0 as f64 / BILLION as f64)),
        ("isInteger", [Value::Quantity(amount)]) => Ok(Value::Bool(amount.whole().is_some())),
        ("asInteger", [Value::Quantity(amount)]) => {
            amount.whole().map(Value::Int).ok_or_else(|| EvalError::Other("cannot convert value to integer".into()))
        }
        ("add", [Value::Quantity(left), right]) => return left.plus(right, 1),
        ("sub", [Value::Quantity(left), right]) => return left.plus(right, -1),
        _ => return None,
    })
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Option<Quantity> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, power): (i128, i32) = match suffix {
            "" => (10, 0),
            "n" => (10, -9),
            "u" => (10, -6),
            "m" => (10, -3),
            "k" => (10, 3),
            "M" => (10, 6),
            "G" => (10, 9),
            "T" => (10, 12),
            "P" => (10, 15),
            "E" => (10, 18),
            "Ki" => (2, 10),
            "Mi" => (2, 20),
            "Gi" => (2, 30),
            "Ti" => (2, 40),
            "Pi" => (2, 50),
            "Ei" => (2, 60),
            other => (10, other.strip_prefix(['e', 'E'])?.parse().ok()?),
        };
        // Digits beyond a billionth matter only in that they round away from zero.
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        let scaled = match base {
            2 => scale(digits.checked_mul(2_i128.checked_pow(power as u32)?)?, 9 - places)?,
            _ => scale(digits, power + 9 - places)?,
        };
        Some(Quantity(sign * scaled))
    }

    fn whole(self) -> Option<i64> {
        (self.0 % BILLION == 0).then(|| i64::try_from(self.0 / BILLION).ok()).flatten()
    }

    fn plus(self, other: &Value, sign: i128) -> Option<Evaluated> {
        let other = match other {
            Value::Quantity(amount) => amount.0,
            Value::Int(number) => i128::from(*number) * BILLION,
            _ => return None,
        };
        let sum = self.0.checked_add(sign * other);
        Some(sum.map(|sum| Value::Quantity(Quantity(sum))).ok_or(EvalError::Overflow))
    }
}

/// A number times a power of ten, rounded up.
fn scale(number: i128, power: i32) -> Option<i128> {
    match u32::try_from(power) {
        Ok(power) => number.checked_mul(10_i128.checked_pow(power)?),
        Err(_) => match 10_i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => Some(number / divisor + i128::from(number % divisor != 0)),
            None => Some(i128::from(number != 0)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_with_different_units_are_comparable() {
        for (left, right) in [("1Gi", "1024Mi"), ("1500m", "1.5"), ("1e3", "1k"), ("1E", "1000P"), ("-5", "-5000m")] {
            assert_eq!(Quantity::parse(left), Quantity::parse(right), "{left} {right}");
            assert!(Quantity::parse(left).is_some());
        }
        for wrong in ["", "Gi", "1.2.3", "1gi", "1 Gi", "e5"] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
    }
}
