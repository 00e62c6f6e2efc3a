//! The files of the folder `scenarios` are what an editor that knows `schema.json` takes them for.

use std::path::{Path, PathBuf};

use drover_sim::Scenario;
use serde_json::{Map, Value, json};

/// What schemas of types say that a reader may leave aside.
const REMARKS: [&str; 7] = ["$schema", "$defs", "title", "description", "default", "format", "examples"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// A schema (JSON Schema 2020-12), as far as schemas of types go: a keyword that is not known here fails.
struct Schema(Value);

impl Schema {
    fn checked_in() -> Self {
        Schema(serde_json::from_str(&std::fs::read_to_string(folder().join("schema.json")).unwrap()).unwrap())
    }

    /// What is wrong with a document, each with its place; nothing if it is valid.
    fn wrong(&self, document: &Value) -> Vec<String> {
        self.wrong_at("", &self.0, document)
    }

    fn wrong_at(&self, place: &str, schema: &Value, value: &Value) -> Vec<String> {
        let fields = match schema {
            Value::Bool(true) => return Vec::new(),
            Value::Bool(false) => return vec![format!("{place}: nothing may be here")],
            schema => schema.as_object().unwrap(),
        };
        let keywords = fields.iter().filter(|(keyword, _)| !REMARKS.contains(&keyword.as_str()));
        keywords.flat_map(|(keyword, asked)| self.wrong_by(place, keyword, asked, fields, value)).collect()
    }

    /// By one keyword of a schema.
    fn wrong_by(
        &self,
        place: &str,
        keyword: &str,
        asked: &Value,
        schema: &Map<String, Value>,
        value: &Value,
    ) -> Vec<String> {
        let unless =
            |is_so: bool| if is_so { Vec::new() } else { vec![format!("{place}: {keyword} {asked}: {value}")] };
        let listed = || asked.as_array().unwrap().iter();
        let fields = || value.as_object().into_iter().flatten();
        let part = |name: &str| schema.get(name).and_then(Value::as_object);
        match keyword {
            "$ref" => {
                let defined = self.0.pointer(asked.as_str().unwrap().trim_start_matches('#')).unwrap();
                self.wrong_at(place, defined, value)
            }
            "type" if asked.is_array() => unless(listed().any(|one| is_a(one, value))),
            "type" => unless(is_a(asked, value)),
            "const" => unless(value == asked),
            "enum" => unless(listed().any(|one| value == one)),
            "minimum" => unless(value.as_f64().is_none_or(|number| number >= asked.as_f64().unwrap())),
            "maximum" => unless(value.as_f64().is_none_or(|number| number <= asked.as_f64().unwrap())),
            "pattern" => unless(value.as_str().is_none_or(|text| matches(asked, text))),
            "required" => unless(
                value.as_object().is_none_or(|fields| listed().all(|name| fields.contains_key(name.as_str().unwrap()))),
            ),
            "uniqueItems" => unless(
                value
                    .as_array()
                    .is_none_or(|all| all.iter().enumerate().all(|(index, item)| !all[..index].contains(item))),
            ),
            "anyOf" => unless(listed().any(|one| self.wrong_at(place, one, value).is_empty())),
            "oneOf" => unless(listed().filter(|one| self.wrong_at(place, one, value).is_empty()).count() == 1),
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.flat_map(|(index, item)| self.wrong_at(&format!("{place}/{index}"), asked, item)).collect()
            }
            "properties" => {
                let known = fields().filter_map(|(name, value)| Some((name, asked.get(name)?, value)));
                known.flat_map(|(name, asked, value)| self.wrong_at(&format!("{place}/{name}"), asked, value)).collect()
            }
            "patternProperties" => {
                let patterns = asked.as_object().unwrap();
                let met = fields().flat_map(|field| patterns.iter().map(move |pattern| (field, pattern)));
                let met = met.filter(|((name, _), (pattern, _))| matches(&json!(pattern), name));
                met.flat_map(|((name, value), (_, asked))| self.wrong_at(&format!("{place}/{name}"), asked, value))
                    .collect()
            }
            "additionalProperties" => {
                let is_known = |name: &str| {
                    let by_pattern = part("patternProperties").into_iter().flatten();
                    part("properties").is_some_and(|known| known.contains_key(name))
                        || by_pattern.into_iter().any(|(pattern, _)| matches(&json!(pattern), name))
                };
                let others = fields().filter(|(name, _)| !is_known(name));
                others.flat_map(|(name, value)| self.wrong_at(&format!("{place}/{name}"), asked, value)).collect()
            }
            other => panic!("nobody knows what {other} asks for, in {schema:?}"),
        }
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("nobody knows the type {other}"),
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    regex::Regex::new(pattern.as_str().unwrap()).unwrap().is_match(text)
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn every_scenario_is_valid_by_the_schema() {
    let schema = Schema::checked_in();
    let files = folder().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        let wrong = schema.wrong(&yaml(&std::fs::read_to_string(&file).unwrap()));
        assert!(wrong.is_empty(), "{}: {wrong:#?}", file.display());
    }
}

/// What the type refuses, the schema refuses; so an editor says what `drover simulate --scenario` would.
#[test]
fn a_wrong_file_is_refused_by_the_schema_as_by_the_type() {
    let schema = Schema::checked_in();
    for text in [
        "nodez: 3",
        "nodes: many",
        "nodes: -1",
        "concurrency: [1]",
        "cordoned: node-1",
        "plans: [{ spec: {} }, { nome: other }]",
        "machines: { node-1: { colour: red } }",
        "vms: [{ migratable: true }]",
        "harvester: { servers: three }",
        "guest: { clusterApi: v2 }",
        "faults: [{ what: reboot }]",
        "faults: [{ at: { write: 3 }, what: explodes }]",
        "faults: [{ at: { write: 3 }, what: { kindLags: Deployment } }]",
        "faults: [{ at: { purpose: { on: Node/node-1 } }, what: reboot }]",
        "faults: [{ at: { write: 3, time: 1m }, what: reboot }]",
        "expect: { waits: [{ subject: Node/node-1 }] }",
        "untried: [nodesCordoned, everything]",
    ] {
        assert!(!schema.wrong(&yaml(text)).is_empty(), "{text}");
        assert!(Scenario::parse("wrong.yaml", text, Path::new(".")).is_err(), "{text}");
    }
}

/// The types can say no more than the schema: what they write, it takes.
#[test]
fn what_the_types_write_is_valid_by_the_schema() {
    let schema = Schema::checked_in();
    for scenario in drover_sim::scenario::built_in().unwrap() {
        let wrong = schema.wrong(&serde_json::to_value(&scenario).unwrap());
        assert!(wrong.is_empty(), "{}: {wrong:#?}", scenario.name);
    }
}
