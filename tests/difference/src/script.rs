//! A script: requests and watches, in the order in which they happen.
//!
//! Text of the form `${name}` stands for what an earlier answer said (`keep`), and `${ns}` for the namespace that each
//! run of a script has to itself; kinds and objects without a namespace carry it in their names.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::print::print;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    pub about: String,
    /// CustomResourceDefinitions that are served before the first step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Value>,
    pub steps: Vec<Step>,
}

/// One thing that a client does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub enum Step {
    Ask(Ask),
    /// Opens a watch and leaves it open.
    Watch {
        watch: String,
        ask: Ask,
    },
    /// Reads from a watch that is open.
    Read {
        watch: String,
        until: Reading,
    },
    /// Past versions are forgotten, as a server does from time to time.
    Compact,
}

/// How far a watch is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// This many events.
    Events(usize),
    /// Up to the first event of the object with this name.
    To(String),
    /// Until the server ends it.
    End,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Body,
    /// What later steps need of the answer: a name, and where it stands in the body.
    pub keep: BTreeMap<String, String>,
    /// Asked again until this stands in the answer: for what a server does on its own, a moment later.
    pub until: BTreeMap<String, Value>,
    /// The places of the body that are compared; all if it is empty.
    pub show: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Body {
    #[default]
    None,
    Json(Value),
    Text(String),
    /// JSON with this many blanks behind it.
    Padded(Value, usize),
}

/// A step as it is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    compact: bool,

    /// The content type: a word of [`content_type`], or the type itself.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accept: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding: Option<usize>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    keep: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    until: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    show: Vec<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    end: bool,
}

const CONTENT_TYPE: &str = "content-type";
const ACCEPT: &str = "accept";

/// The content types that have a short word in scripts.
const CONTENT_TYPES: [(&str, &str); 7] = [
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("json-patch", "application/json-patch+json"),
    ("merge", "application/merge-patch+json"),
    ("strategic", "application/strategic-merge-patch+json"),
    ("apply", "application/apply-patch+yaml"),
    ("protobuf", "application/vnd.kubernetes.protobuf"),
];

fn content_type(word: &str) -> &str {
    CONTENT_TYPES.iter().find(|(short, _)| *short == word).map_or(word, |(_, long)| long)
}

/// Reads YAML in which `n` and `y` are letters, as in the name of a node, and not truth values.
pub(crate) fn from_yaml<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

impl Script {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            act: "read",
            path: path.to_owned(),
            source,
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let script: Script = from_yaml(&text).map_err(|cause| Error::NoScript { path: path.to_owned(), cause })?;
        Ok(Script { name, ..script })
    }

    /// As a file of it would be; JSON is YAML, too.
    pub fn printed(&self) -> String {
        print(&serde_json::to_value(self).unwrap_or_default())
    }

    /// Changes whenever what is asked changes, and not with comments or layout.
    pub fn digest(&self) -> String {
        // The words of a person do not change what is asked.
        let asked = Script { about: String::new(), ..self.clone() };
        let text = serde_json::to_string(&asked).unwrap_or_default();
        Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Ask {
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Ask { method: method.into(), path: path.into(), ..Ask::default() }
    }

    /// With a body, in the content type that a script's word names.
    pub fn with(mut self, word: &str, body: Body) -> Self {
        self.headers.insert(CONTENT_TYPE.into(), content_type(word).into());
        self.body = body;
        self
    }
}

impl Step {
    /// How the step is called in recordings and reports.
    pub fn title(&self) -> String {
        match self {
            Step::Ask(ask) => format!("{} {}", ask.method, ask.path),
            Step::Watch { watch, ask } => format!("watch {watch}: {} {}", ask.method, ask.path),
            Step::Read { watch, until: Reading::Events(count) } => format!("read {count} of {watch}"),
            Step::Read { watch, until: Reading::To(name) } => format!("read {watch} to {name}"),
            Step::Read { watch, until: Reading::End } => format!("read {watch} to its end"),
            Step::Compact => "compact".into(),
        }
    }
}

impl TryFrom<Fields> for Step {
    type Error = String;

    fn try_from(fields: Fields) -> std::result::Result<Self, String> {
        match fields {
            Fields { compact: true, ask: None, watch: None, read: None, .. } => Ok(Step::Compact),
            Fields { read: Some(watch), ask: None, watch: None, events, to, end, .. } => {
                let until = match (events, to, end) {
                    (Some(count), None, false) => Reading::Events(count),
                    (None, Some(name), false) => Reading::To(name),
                    (None, None, true) => Reading::End,
                    _ => return Err("`read` needs one of `events`, `to` and `end`".into()),
                };
                Ok(Step::Read { watch, until })
            }
            Fields { ask: Some(_), watch: Some(_), read: None, .. } => {
                let watch = fields.watch.clone().unwrap_or_default();
                Ok(Step::Watch { watch, ask: ask_of(fields)? })
            }
            Fields { ask: Some(_), read: None, .. } => Ok(Step::Ask(ask_of(fields)?)),
            _ => Err("a step is one of `ask`, `watch` with `ask`, `read` and `compact`".into()),
        }
    }
}

fn ask_of(fields: Fields) -> std::result::Result<Ask, String> {
    let line = fields.ask.unwrap_or_default();
    let (method, path) = line.split_once(' ').ok_or_else(|| format!("`{line}` is not of the form `GET /path`"))?;
    let body = match (fields.body, fields.text, fields.padding) {
        (Some(body), None, None) => Body::Json(body),
        (Some(body), None, Some(blanks)) => Body::Padded(body, blanks),
        (None, Some(text), None) => Body::Text(text),
        (None, None, None) => Body::None,
        _ => return Err("`body` and `text` exclude each other, and `padding` needs a body".into()),
    };
    let mut headers = fields.headers;
    match (&fields.content_type, &body) {
        (Some(word), _) => drop(headers.insert(CONTENT_TYPE.into(), content_type(word).into())),
        (None, Body::None) => {}
        (None, _) => drop(headers.entry(CONTENT_TYPE.into()).or_insert_with(|| content_type("json").into())),
    }
    if let Some(accept) = fields.accept {
        headers.insert(ACCEPT.into(), accept);
    }
    let (keep, until, show) = (fields.keep, fields.until, fields.show);
    Ok(Ask { method: method.into(), path: path.trim().into(), headers, body, keep, until, show })
}

impl From<Step> for Fields {
    fn from(step: Step) -> Self {
        match step {
            Step::Compact => Fields { compact: true, ..Fields::default() },
            Step::Read { watch, until } => {
                let fields = Fields { read: Some(watch), ..Fields::default() };
                match until {
                    Reading::Events(count) => Fields { events: Some(count), ..fields },
                    Reading::To(name) => Fields { to: Some(name), ..fields },
                    Reading::End => Fields { end: true, ..fields },
                }
            }
            Step::Watch { watch, ask } => Fields { watch: Some(watch), ..Fields::from(Step::Ask(ask)) },
            Step::Ask(ask) => {
                let (body, text, padding) = match ask.body {
                    Body::None => (None, None, None),
                    Body::Json(body) => (Some(body), None, None),
                    Body::Text(text) => (None, Some(text), None),
                    Body::Padded(body, blanks) => (Some(body), None, Some(blanks)),
                };
                let line = Some(format!("{} {}", ask.method, ask.path));
                let Ask { headers, keep, until, show, .. } = ask;
                Fields { ask: line, headers, body, text, padding, keep, until, show, ..Fields::default() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(steps: &str) -> std::result::Result<Script, String> {
        from_yaml(&format!("about: a test\nsteps:\n{steps}"))
    }

    #[test]
    fn a_body_is_json_unless_the_step_says_otherwise() {
        let script = script("- { ask: POST /a, body: {} }\n- { ask: PATCH /a, as: merge, body: {} }").unwrap();
        let types: Vec<_> = script
            .steps
            .iter()
            .map(|step| match step {
                Step::Ask(ask) => ask.headers[CONTENT_TYPE].as_str(),
                _ => "",
            })
            .collect();
        assert_eq!(types, ["application/json", "application/merge-patch+json"]);
    }

    #[test]
    fn a_single_letter_is_no_truth_value() {
        let script = script("- { ask: POST /a, body: { nodeName: n, ready: true } }").unwrap();
        let Step::Ask(Ask { body: Body::Json(body), .. }) = &script.steps[0] else { unreachable!() };
        assert_eq!(body, &serde_json::json!({ "nodeName": "n", "ready": true }));
    }

    #[test]
    fn a_step_that_is_two_things_is_refused() {
        assert!(script("- { ask: GET /a, read: pods, end: true }").is_err());
        assert!(script("- { read: pods }").is_err());
        assert!(script("- { ask: GET }").is_err());
    }

    #[test]
    fn what_is_written_back_is_the_same_script() {
        let written = "- { ask: POST /a, body: {a: 1}, keep: {uid: /metadata/uid} }\n- { compact: true }\n\
                       - { watch: w, ask: GET /b }\n- { read: w, to: last }";
        let script = script(written).unwrap();
        let again: Script = serde_json::from_value(serde_json::to_value(&script).unwrap()).unwrap();
        assert_eq!(again, script);
    }

    #[test]
    fn the_digest_follows_what_is_asked_and_not_how_it_is_described() {
        let (first, second) = (script("- { ask: GET /a }").unwrap(), script("- { ask: GET /b }").unwrap());
        let renamed = Script { about: "other words".into(), ..first.clone() };
        assert_eq!(first.digest(), renamed.digest());
        assert_ne!(first.digest(), second.digest());
    }
}
