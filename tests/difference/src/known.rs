//! Differences that are known, each with its reason.
//!
//! An entry is about one step of one script, or about one shape of generated requests, and names the places in the
//! answer that differ: everything beside them is held to the original.

use std::cell::Cell;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::compare::{Difference, Place};
use crate::error::{Error, Result};
use crate::recording::GENERATED;
use crate::script::from_yaml;

/// The list; it remembers which of its places have excused something.
#[derive(Debug, Default)]
pub struct Known {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    subject: Subject,
    /// What the real server says there, if that matters.
    says: Option<Regex>,
    places: Vec<Excuse>,
    why: String,
}

#[derive(Debug)]
enum Subject {
    Step { script: String, number: usize },
    Generated { ask: Regex },
}

#[derive(Debug)]
struct Excuse {
    at: String,
    pattern: Regex,
    met: Cell<bool>,
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The script's name; `generated` for all generated ones.
    script: String,
    /// Of a written script: the step, counted from 1.
    #[serde(default)]
    step: Option<usize>,
    /// Of generated ones: a pattern that matches the whole request.
    #[serde(default)]
    ask: Option<String>,
    /// The places in the answer that differ; patterns that match whole for generated requests.
    at: Vec<String>,
    /// A pattern of what the real server says there; anything without one.
    #[serde(default)]
    says: Option<String>,
    why: String,
}

impl TryFrom<Fields> for Entry {
    type Error = String;

    fn try_from(fields: Fields) -> std::result::Result<Self, String> {
        let generated = fields.script == GENERATED;
        let subject = match (fields.step, &fields.ask) {
            (Some(number), None) if !generated => Subject::Step { script: fields.script, number },
            (None, Some(ask)) if generated => Subject::Generated { ask: whole(ask)? },
            _ => return Err(format!("an entry of {} needs `step`, or `ask` if it is generated", fields.script)),
        };
        let places = fields.at.into_iter().map(|at| {
            let pattern = whole(&if generated { at.clone() } else { regex::escape(&at) })?;
            Ok(Excuse { at, pattern, met: Cell::new(false) })
        });
        let says = fields.says.as_deref().map(whole).transpose()?;
        Ok(Entry { subject, says, places: places.collect::<std::result::Result<_, String>>()?, why: fields.why })
    }
}

fn whole(text: &str) -> std::result::Result<Regex, String> {
    Regex::new(&format!("(?s)^(?:{text})$")).map_err(|error| error.to_string())
}

impl Entry {
    fn is_about(&self, difference: &Difference) -> bool {
        match &self.subject {
            Subject::Step { script, number } => *script == difference.script && *number == difference.number,
            Subject::Generated { ask } => difference.is_generated() && ask.is_match(&difference.step),
        }
    }

    fn excuses(&self, place: &Place) -> bool {
        let said = match &place.real {
            Some(Value::String(text)) => text.clone(),
            other => other.as_ref().map(Value::to_string).unwrap_or_default(),
        };
        if self.says.as_ref().is_some_and(|says| !says.is_match(&said)) {
            return false;
        }
        let excuse = self.places.iter().find(|excuse| excuse.pattern.is_match(&place.pointer));
        excuse.inspect(|excuse| excuse.met.set(true)).is_some()
    }

    fn title(&self) -> String {
        match &self.subject {
            Subject::Step { script, number } => format!("{script} step {number}"),
            Subject::Generated { ask } => format!("{GENERATED} {ask}"),
        }
    }
}

impl Known {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            act: "read",
            path: path.to_owned(),
            source,
        })?;
        Known::parse(&text).map_err(|cause| Error::NoList { path: path.to_owned(), cause })
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let fields: Vec<Fields> = from_yaml(text)?;
        let entries = fields.into_iter().map(Entry::try_from).collect::<std::result::Result<_, String>>()?;
        Ok(Known { entries })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is left of a difference when everything known is taken away.
    pub fn unexcused(&self, difference: Difference) -> Option<Difference> {
        let about: Vec<&Entry> = self.entries.iter().filter(|entry| entry.is_about(&difference)).collect();
        let excused = |place: &Place| about.iter().any(|entry| entry.excuses(place));
        let places: Vec<Place> = difference.places.iter().filter(|place| !excused(place)).cloned().collect();
        (!places.is_empty()).then_some(Difference { places, ..difference })
    }

    /// Places that have excused nothing, and belong in the list no longer.
    pub fn unmet(&self) -> Vec<String> {
        let unmet = self.entries.iter().flat_map(|entry| {
            let places = entry.places.iter().filter(|excuse| !excuse.met.get());
            places.map(move |excuse| format!("{} at {} ({})", entry.title(), excuse.at, entry.why))
        });
        unmet.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn difference(script: &str) -> Difference {
        let place = |pointer: &str| Place { pointer: pointer.into(), real: Some(json!(1)), corral: None };
        let places = vec![place("/body/spec/a"), place("/body/spec/b")];
        Difference { script: script.into(), number: 3, step: "GET /a".into(), places }
    }

    fn left(known: &str, script: &str) -> Vec<String> {
        let left = Known::parse(known).unwrap().unexcused(difference(script));
        left.into_iter().flat_map(|left| left.places).map(|place| place.pointer).collect()
    }

    #[test]
    fn only_the_listed_place_of_the_listed_step_is_excused() {
        assert_eq!(left("[{ script: pods, step: 3, at: [/body/spec/a], why: because }]", "pods"), ["/body/spec/b"]);
        assert_eq!(left("[{ script: pods, step: 2, at: [/body/spec/a], why: because }]", "pods").len(), 2);
        assert_eq!(left("[{ script: nodes, step: 3, at: [/body/spec/a], why: because }]", "pods").len(), 2);
    }

    #[test]
    fn generated_requests_are_excused_by_their_shape() {
        let known = "[{ script: generated, ask: GET /.*, at: ['/body/spec/.'], why: because }]";
        assert_eq!(left(known, "generated-1-7"), Vec::<String>::new());
        assert_eq!(left(known, "pods").len(), 2);
    }

    #[test]
    fn only_what_is_said_there_is_excused() {
        let known =
            |says: &str| format!("[{{ script: pods, step: 3, at: [/body/spec/a], says: '{says}', why: because }}]");
        assert_eq!(left(&known("1"), "pods"), ["/body/spec/b"]);
        assert_eq!(left(&known("2"), "pods").len(), 2);
    }

    #[test]
    fn a_place_that_excuses_nothing_is_told() {
        let known = Known::parse("[{ script: pods, step: 3, at: [/body/spec/a, /code], why: because }]").unwrap();
        assert!(known.unexcused(difference("pods")).is_some());
        assert_eq!(known.unmet(), ["pods step 3 at /code (because)"]);
    }

    #[test]
    fn a_whole_script_cannot_be_excused() {
        assert!(Known::parse("[{ script: pods, at: [/code], why: because }]").is_err());
        assert!(Known::parse("[{ script: pods, step: 1, why: because }]").is_err());
        assert!(Known::parse("[{ script: generated, step: 1, at: [/code], why: because }]").is_err());
    }
}
