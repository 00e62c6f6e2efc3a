//! Differences that are known, each with its reason.

use std::cell::Cell;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::compare::{Difference, Place};
use crate::error::{Error, Result};

/// The list; it remembers which entries have excused something.
#[derive(Debug, Default)]
pub struct Known {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    script: Regex,
    ask: Regex,
    at: Regex,
    why: String,
    met: Cell<bool>,
}

/// An entry as it is written: patterns that have to match the whole of what they are about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The script's name; `generated-…` for generated ones.
    script: String,
    /// The step.
    #[serde(default = "anything")]
    ask: String,
    /// The place in the answer.
    #[serde(default = "anything")]
    at: String,
    why: String,
}

fn anything() -> String {
    ".*".into()
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
        let fields: Vec<Fields> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let entries = fields.into_iter().map(|fields| {
            let whole = |text: &str| Regex::new(&format!("^(?:{text})$")).map_err(|error| error.to_string());
            Ok(Entry {
                script: whole(&fields.script)?,
                ask: whole(&fields.ask)?,
                at: whole(&fields.at)?,
                why: fields.why,
                met: Cell::new(false),
            })
        });
        Ok(Known { entries: entries.collect::<std::result::Result<_, String>>()? })
    }

    /// What is left of a difference when everything known is taken away.
    pub fn unexcused(&self, difference: Difference) -> Option<Difference> {
        let excused = |place: &Place| {
            let meets = |entry: &&Entry| {
                entry.script.is_match(&difference.script)
                    && entry.ask.is_match(&difference.step)
                    && entry.at.is_match(&place.pointer)
            };
            self.entries.iter().find(meets).inspect(|entry| entry.met.set(true)).is_some()
        };
        let places: Vec<Place> = difference.places.iter().filter(|place| !excused(place)).cloned().collect();
        (!places.is_empty()).then_some(Difference { places, ..difference })
    }

    /// Entries that have excused nothing, and belong in the list no longer.
    pub fn unmet(&self) -> Vec<String> {
        let unmet = self.entries.iter().filter(|entry| !entry.met.get());
        unmet.map(|entry| format!("{} {} {} ({})", entry.script, entry.ask, entry.at, entry.why)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn difference() -> Difference {
        let place = |pointer: &str| Place { pointer: pointer.into(), real: Some(json!(1)), corral: None };
        let places = vec![place("/body/spec/a"), place("/body/spec/b")];
        Difference { script: "pods".into(), number: 1, step: "GET /a".into(), places }
    }

    #[test]
    fn only_what_is_listed_is_excused() {
        let known = Known::parse("- { script: pods, at: /body/spec/a, why: because }").unwrap();
        let left = known.unexcused(difference()).unwrap();
        assert_eq!(left.places.len(), 1);
        assert_eq!(left.places[0].pointer, "/body/spec/b");
        assert!(known.unmet().is_empty());
    }

    #[test]
    fn an_entry_that_excuses_nothing_is_told() {
        let known = Known::parse("- { script: nodes, why: because }").unwrap();
        assert!(known.unexcused(difference()).is_some());
        assert_eq!(known.unmet(), ["^(?:nodes)$ ^(?:.*)$ ^(?:.*)$ (because)"]);
    }
}
