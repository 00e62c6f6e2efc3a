//! Label selectors: what they are written like, and what they demand.
//!
//! Read token by token as the original reads them, because what it says of a malformed one names the token at which it
//! stopped.

use serde_json::{Value, json};

use super::{names, packed::Packed, status::FieldError};

/// One requirement: what it demands of one label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    label: String,
    demand: Demand,
}

#[derive(Clone, Debug, PartialEq)]
enum Demand {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl Requirement {
    pub fn holds(&self, labels: &Packed) -> bool {
        let value = labels.get(&self.label);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.demand {
            Demand::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Demand::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Demand::Exists => value.is_some(),
            Demand::Absent => value.is_none(),
            Demand::Above(limit) => number().is_some_and(|number| number > *limit),
            Demand::Below(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

/// From a selector as it stands in objects: `matchLabels` and `matchExpressions`.
pub(crate) fn from_object(selector: &Value) -> Vec<Requirement> {
    let values = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
    };
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut requirements: Vec<_> = equal
        .map(|(label, value)| Requirement {
            label: label.clone(),
            demand: Demand::In(value.as_str().map(String::from).into_iter().collect()),
        })
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let demand = match expression["operator"].as_str() {
            Some("In") => Demand::In(values(&expression["values"])),
            Some("NotIn") => Demand::NotIn(values(&expression["values"])),
            Some("Exists") => Demand::Exists,
            Some("DoesNotExist") => Demand::Absent,
            // What is not understood selects nothing.
            _ => Demand::In(vec![]),
        };
        requirements.push(Requirement { label: expression["key"].as_str().unwrap_or_default().into(), demand });
    }
    requirements
}

/// From a selector as it stands in a URL: `a=b, c in (d,e), !f`.
pub(crate) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: tokens(text), place: 0 };
    let mut requirements = vec![];
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Symbol("!") => {
                let requirement = parser.requirement();
                requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            }
            other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
        }
        match parser.take() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
            },
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    /// Symbols that mean nothing together.
    Nonsense(&'a str),
    End,
}

impl Token<'_> {
    fn text(&self) -> String {
        match self {
            Token::Word(text) => (*text).into(),
            Token::Symbol(text) => (*text).into(),
            Token::Nonsense(text) => format!("error expected: keyword found '{text}'"),
            Token::End => String::new(),
        }
    }
}

/// The longest first, so that `==` is not taken for two.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = vec![];
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() {
        let is_symbol = |letter: char| matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let (token, length) = if rest.starts_with(is_symbol) {
            match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                None => (Token::Nonsense(&rest[..1]), 1),
            }
        } else {
            let ends = |letter: char| is_symbol(letter) || matches!(letter, ' ' | '\t' | '\r' | '\n');
            let end = rest.find(ends).unwrap_or(rest.len());
            (Token::Word(&rest[..end]), end)
        };
        tokens.push(token);
        rest = rest[length..].trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    place: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.place).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.place += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.take();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.take();
        }
        let Token::Word(label) = token else { return Err(format!("found '{}', expected: identifier", token.text())) };
        if let [first, ..] = names::qualified(label).as_slice() {
            return Err(FieldError::invalid("<nil>", &json!(label), first).to_string());
        }
        let required = |demand| Ok(Requirement { label: label.into(), demand });
        match (absent, self.peek()) {
            (true, _) => return required(Demand::Absent),
            (false, Token::End | Token::Symbol(",")) => return required(Demand::Exists),
            _ => {}
        }
        let demand = match self.take() {
            Token::Word("in") => Demand::In(self.values(label)?),
            Token::Word("notin") => Demand::NotIn(self.values(label)?),
            Token::Symbol("=" | "==") => Demand::In(vec![self.value(label)?]),
            Token::Symbol("!=") => Demand::NotIn(vec![self.value(label)?]),
            Token::Symbol(">") => Demand::Above(self.number(label)?),
            Token::Symbol("<") => Demand::Below(self.number(label)?),
            other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        };
        required(demand)
    }

    /// The one value of an exact match, which may be missing.
    fn value(&mut self, label: &str) -> Result<String, String> {
        let value = match self.peek() {
            Token::End | Token::Symbol(",") => "",
            _ => match self.take() {
                Token::Word(value) => value,
                other => return Err(format!("found '{}', expected: identifier", other.text())),
            },
        };
        check_value(label, value, 0)?;
        Ok(value.into())
    }

    fn number(&mut self, label: &str) -> Result<i64, String> {
        let value = self.value(label)?;
        let wrong = "for 'Gt', 'Lt' operators, the value must be an integer";
        value.parse().map_err(|_| FieldError::invalid("values[0]", &json!(value), wrong).to_string())
    }

    /// `(a, b)`; an empty place between commas is the empty value.
    fn values(&mut self, label: &str) -> Result<Vec<String>, String> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values: Vec<&str> = vec![];
        loop {
            match self.take() {
                Token::Word(value) => {
                    values.push(value);
                    match self.take() {
                        Token::Symbol(",") if self.peek() == Token::Symbol(")") => values.push(""),
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => values.push(""),
                Token::Symbol(")") => {
                    if values.is_empty() {
                        values.push("");
                    }
                    break;
                }
                other if values.is_empty() => {
                    return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()));
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
        values.sort_unstable();
        values.dedup();
        for (place, value) in values.iter().enumerate() {
            check_value(label, value, place)?;
        }
        Ok(values.into_iter().map(String::from).collect())
    }
}

fn check_value(label: &str, value: &str, place: usize) -> Result<(), String> {
    match names::label_value(value).as_slice() {
        [] => Ok(()),
        wrong => {
            Err(FieldError::invalid(format!("values[{place}][{label}]"), &json!(value), &wrong.join("; ")).to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = Packed::from_pairs(labels.iter().copied());
        parse(selector).unwrap().iter().all(|requirement| requirement.holds(&labels))
    }

    #[test]
    fn every_form_of_a_label_selector_is_understood() {
        let web = [("app", "web"), ("tier", "front"), ("size", "10")];
        for selector in [
            "app=web",
            "app==web",
            "app!=db",
            "app in (db, web)",
            "app notin (db)",
            "app",
            "!gone",
            "gone!=x",
            "size>9",
        ] {
            assert!(selects(selector, &web), "{selector} should select {web:?}");
        }
        for selector in
            ["app=db", "app!=web", "app in (db,x)", "app notin (web)", "gone", "!app", "app=web,tier=back", "size<10"]
        {
            assert!(!selects(selector, &web), "{selector} should not select {web:?}");
        }
    }

    #[test]
    fn a_malformed_label_selector_is_refused_where_it_stops_making_sense() {
        for (selector, why) in [
            ("app in (web", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("app under (web)", "unable to parse requirement: found 'under', expected: in, notin, =, ==, !=, gt, lt"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
        ] {
            assert_eq!(parse(selector).unwrap_err(), why, "{selector}");
        }
    }
}
