//! Amounts such as `1500m` or `2Gi`, in the one form in which Kubernetes writes each.

const MALFORMED: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const UNKNOWN_SUFFIX: &str = "unable to parse quantity's suffix";

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10^-9 on, in steps of 10^3.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// `number` × 10^`exponent`, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quantity {
    number: i128,
    exponent: i32,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

/// The canonical form of an amount: `1024Mi` is `1Gi`, `0.5` is `500m`, and `2000` is `2k`.
pub fn canonical(text: &str) -> Result<String, &'static str> {
    Ok(Quantity::parse(text)?.to_text())
}

/// Whether an amount is no whole number.
pub fn is_fraction(text: &str) -> bool {
    Quantity::parse(text).is_ok_and(|quantity| quantity.exponent < 0)
}

/// How many parts an amount has, of which `scale` make a unit, rounded away from zero; none if it is malformed or too large.
pub fn count(text: &str, scale: i64) -> Option<i128> {
    let Quantity { number, exponent, .. } = Quantity::parse(text).ok()?;
    let scaled = number.checked_mul(i128::from(scale))?;
    let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
    match exponent {
        0.. => scaled.checked_mul(factor),
        _ => Some(scaled / factor + (scaled % factor).signum()),
    }
}

/// Compares two amounts; none if one is malformed.
pub fn compare(left: &str, right: &str) -> Option<std::cmp::Ordering> {
    let (left, right) = (Quantity::parse(left).ok()?, Quantity::parse(right).ok()?);
    let exponent = left.exponent.min(right.exponent);
    let scaled = |quantity: Quantity| {
        let factor = 10_i128.checked_pow((quantity.exponent - exponent).unsigned_abs())?;
        quantity.number.checked_mul(factor)
    };
    Some(scaled(left)?.cmp(&scaled(right)?))
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(MALFORMED);
        }
        let number: i128 = format!("0{whole}{fraction}").parse().map_err(|_| MALFORMED)?;
        let number = if text.starts_with('-') { -number } else { number };
        let exponent = -(fraction.len() as i32);
        if let Some(power) = BINARY[1..].iter().position(|known| *known == suffix) {
            let number = number.checked_mul(1024_i128.pow(power as u32 + 1)).ok_or(MALFORMED)?;
            return Ok(Quantity { number, exponent, form: Form::Binary }.rounded());
        }
        if let Some(place) = DECIMAL.iter().position(|known| *known == suffix) {
            let exponent = exponent + 3 * place as i32 - 9;
            return Ok(Quantity { number, exponent, form: Form::Decimal }.rounded());
        }
        let stated = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
        let stated = stated.filter(|power| power.abs() < 100).ok_or(UNKNOWN_SUFFIX)?;
        Ok(Quantity { number, exponent: exponent + stated, form: Form::Exponent }.rounded())
    }

    /// Nothing is counted more finely than in billionths; what is smaller is rounded away from zero.
    fn rounded(mut self) -> Self {
        while self.exponent < -9 {
            let rest = self.number % 10;
            self.number = self.number / 10 + rest.signum();
            self.exponent += 1;
        }
        while self.number != 0 && self.number % 10 == 0 {
            self.number /= 10;
            self.exponent += 1;
        }
        if self.number == 0 {
            self.exponent = 0;
        }
        self
    }

    fn to_text(self) -> String {
        match self.form {
            Form::Binary => {
                self.binary().unwrap_or_else(|| self.decimal(|power| DECIMAL[(power / 3 + 3) as usize].into()))
            }
            Form::Decimal => self.decimal(|power| DECIMAL[(power / 3 + 3).clamp(0, 9) as usize].into()),
            Form::Exponent => self.decimal(|power| if power == 0 { String::new() } else { format!("e{power}") }),
        }
    }

    /// In powers of 1024; none for what is too small to be written so.
    fn binary(self) -> Option<String> {
        let factor = 10_i128.checked_pow(self.exponent.unsigned_abs())?;
        let mut number = match self.exponent {
            0.. => self.number.checked_mul(factor)?,
            _ => self.number / factor + (self.number % factor).signum(),
        };
        if (-1023..=1023).contains(&number) {
            return None;
        }
        let mut power = 0;
        while number % 1024 == 0 && power < BINARY.len() - 1 {
            number /= 1024;
            power += 1;
        }
        Some(format!("{number}{}", BINARY[power]))
    }

    /// With a power of ten that is a multiple of three.
    fn decimal(self, suffix: impl Fn(i32) -> String) -> String {
        let Quantity { mut number, mut exponent, .. } = self;
        while exponent % 3 != 0 || exponent > 18 {
            number = number.saturating_mul(10);
            exponent -= 1;
        }
        format!("{number}{}", suffix(exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_one_form() {
        for (written, kept) in [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100Mi", "100Mi"),
            ("512Ki", "512Ki"),
            ("0.5Mi", "512Ki"),
            ("1Ki", "1Ki"),
            ("0.1Ki", "102400m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("2000", "2k"),
            ("1e3", "1e3"),
            ("5E3", "5e3"),
            ("0", "0"),
            ("0.0000000001", "1n"),
            ("-2", "-2"),
            ("+3", "3"),
            ("8", "8"),
            ("32Gi", "32Gi"),
        ] {
            assert_eq!(canonical(written).as_deref(), Ok(kept), "{written}");
        }
    }

    #[test]
    fn parts_of_an_amount_are_counted_exactly_in_every_notation() {
        for (text, scale, parts) in [
            ("250m", 1000, 250),
            ("1.5", 1000, 1500),
            ("8", 1000, 8000),
            ("1.1", 1000, 1100),
            ("100u", 1000, 1),
            ("-100u", 1000, -1),
            ("2Gi", 1, 2 << 30),
            ("0.5Gi", 1000, 500 << 30),
            ("1e3", 1, 1000),
            ("5k", 1, 5000),
            ("9007199254740993", 1, 9_007_199_254_740_993),
        ] {
            assert_eq!(count(text, scale), Some(parts), "{text}");
        }
        for nonsense in ["soon", "", ".", "Gi", "1e99"] {
            assert_eq!(count(nonsense, 1000), None, "{nonsense}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        assert_eq!(canonical("much"), Err(MALFORMED));
        assert_eq!(canonical(""), Err(MALFORMED));
        assert_eq!(canonical("1.2.3"), Err(MALFORMED));
        assert_eq!(canonical("1Zi"), Err(UNKNOWN_SUFFIX));
    }

    #[test]
    fn amounts_are_compared_by_what_they_mean() {
        assert_eq!(compare("1Gi", "1024Mi"), Some(std::cmp::Ordering::Equal));
        assert_eq!(compare("1500m", "2"), Some(std::cmp::Ordering::Less));
        assert_eq!(compare("1", "x"), None);
    }
}
