//! Where two servers disagree, place by place.

use std::fmt;

use serde_json::Value;

use crate::answers::Answered;
use crate::recording::GENERATED;

/// One step whose answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub script: String,
    /// Counted from 1.
    pub number: usize,
    pub step: String,
    pub places: Vec<Place>,
}

/// One place in an answer, with what each side has there; none where it has nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub pointer: String,
    pub real: Option<Value>,
    pub corral: Option<Value>,
}

pub fn differences(script: &str, real: &[Answered], corral: &[Answered]) -> Vec<Difference> {
    let steps = real.len().max(corral.len());
    let compared = (0..steps).filter_map(|number| {
        let (real, corral) = (real.get(number), corral.get(number));
        let mut places = vec![];
        compare("", real.map(|answered| &answered.answer), corral.map(|answered| &answered.answer), &mut places);
        let step = real.or(corral).map(|answered| answered.step.clone()).unwrap_or_default();
        (!places.is_empty()).then(|| Difference { script: script.into(), number: number + 1, step, places })
    });
    compared.collect()
}

fn compare(pointer: &str, real: Option<&Value>, corral: Option<&Value>, places: &mut Vec<Place>) {
    match (real, corral) {
        (Some(Value::Object(real)), Some(Value::Object(corral))) => {
            let mut names: Vec<&String> = real.keys().chain(corral.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                compare(&format!("{pointer}/{escaped}"), real.get(name), corral.get(name), places);
            }
        }
        (Some(Value::Array(real)), Some(Value::Array(corral))) => {
            for index in 0..real.len().max(corral.len()) {
                compare(&format!("{pointer}/{index}"), real.get(index), corral.get(index), places);
            }
        }
        (real, corral) if real == corral => {}
        (real, corral) => {
            places.push(Place { pointer: pointer.into(), real: real.cloned(), corral: corral.cloned() });
        }
    }
}

impl Difference {
    pub(crate) fn is_generated(&self) -> bool {
        self.script.strip_prefix(GENERATED).is_some_and(|rest| rest.starts_with('-'))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} step {}: {}", self.script, self.number, self.step)?;
        for place in &self.places {
            writeln!(out, "  {}", place.pointer)?;
            for (sign, name, value) in [('-', "real", &place.real), ('+', "Corral", &place.corral)] {
                if let Some(value) = value {
                    writeln!(out, "    {sign} {name}: {}", short(value))?;
                }
            }
        }
        Ok(())
    }
}

/// Enough of a value to recognise it.
fn short(value: &Value) -> String {
    const LIMIT: usize = 600;
    let text = value.to_string();
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}… ({} letters)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(answer: Value) -> Vec<Answered> {
        vec![Answered { step: "GET /a".into(), answer }]
    }

    #[test]
    fn a_difference_names_the_place_and_both_sides() {
        let real = answered(json!({ "code": 200, "body": { "a": [1, 2], "b": "same" } }));
        let corral = answered(json!({ "code": 200, "body": { "a": [1], "b": "same", "c": true } }));

        let found = differences("pods", &real, &corral);

        let shown = found.iter().map(Difference::to_string).collect::<String>();
        assert_eq!(shown, "pods step 1: GET /a\n  /body/a/1\n    - real: 2\n  /body/c\n    + Corral: true\n");
    }

    #[test]
    fn equal_answers_do_not_differ() {
        let answers = answered(json!({ "code": 200, "body": { "a": [1, 2] } }));
        assert_eq!(differences("pods", &answers, &answers), []);
    }
}
