//! The columns of a kind: recorded from the original for built-in kinds, declared by the definition for custom ones.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, cells, jsonpath::JsonPath};
use crate::apiserver::resources::Resource;

/// What the original answers for each built-in resource, by its qualified plural.
static RECORDED: LazyLock<BTreeMap<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../recorded/columns.json")).unwrap_or_default());

/// How a kind is shown, for the time of one answer.
pub(super) enum Columns<'a> {
    BuiltIn { header: &'a Value, cells: cells::Cells },
    Custom(&'a [Column]),
}

impl<'a> Columns<'a> {
    pub fn of(resource: &'a Resource, version: &str) -> Self {
        if let Some(columns) = resource.rules.columns(version) {
            return Columns::Custom(columns);
        }
        match (RECORDED.get(&resource.id.qualified()), cells::of(&resource.id)) {
            (Some(header), Some(cells)) => Columns::BuiltIn { header, cells },
            _ => Columns::BuiltIn {
                header: &PLAIN,
                cells: |object, now| vec![cells::name(object), cells::age(object, now)],
            },
        }
    }

    pub fn header(&self) -> Value {
        match self {
            Columns::BuiltIn { header, .. } => (*header).clone(),
            Columns::Custom(columns) => {
                std::iter::once(name_header()).chain(columns.iter().map(|column| column.header.clone())).collect()
            }
        }
    }

    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Columns::BuiltIn { cells, .. } => cells(object, now),
            Columns::Custom(columns) => std::iter::once(cells::name(object))
                .chain(columns.iter().map(|column| column.cell(object, now)))
                .collect(),
        }
    }
}

/// Name and age, for kinds that show nothing else.
static PLAIN: LazyLock<Value> = LazyLock::new(|| {
    let age = RECORDED.get("configmaps").and_then(|columns| columns.get(2)).cloned();
    json!([name_header(), age])
});

fn name_header() -> Value {
    RECORDED.get("configmaps").and_then(|columns| columns.get(0)).cloned().unwrap_or_default()
}

/// A printer column of a custom kind.
#[derive(Debug)]
pub(crate) struct Column {
    header: Value,
    kind: String,
    path: JsonPath,
}

impl Column {
    /// The columns that one version of a definition declares, or else the age alone.
    pub fn all(version: &Value) -> Vec<Column> {
        match version["additionalPrinterColumns"].as_array().map(Vec::as_slice) {
            None | Some([]) => {
                let described = RECORDED.get("configmaps").and_then(|columns| columns.get(2));
                let description = described.map(|column| column["description"].clone()).unwrap_or_default();
                let age = json!({ "name": "Age", "type": "date", "description": description,
                                  "jsonPath": ".metadata.creationTimestamp" });
                Column::read(&age).into_iter().collect()
            }
            Some(declared) => declared.iter().filter_map(Column::read).collect(),
        }
    }

    fn read(declared: &Value) -> Option<Column> {
        let text = |name: &str| declared[name].as_str().unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            own => own.to_string(),
        };
        let header = json!({
            "name": text("name"), "type": text("type"), "format": text("format"), "description": description,
            "priority": declared["priority"].as_i64().unwrap_or_default(),
        });
        Some(Column { header, kind: text("type").into(), path: JsonPath::parse(path)? })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind.as_str(), value) {
            ("string", value) => json!(printed(value)),
            ("integer", Value::Number(number)) => match number.as_i64() {
                Some(whole) => json!(whole),
                None => json!(number.as_f64().unwrap_or_default() as i64),
            },
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(moment)) => match moment.parse::<Timestamp>() {
                Ok(_) => json!(age::since(moment, now)),
                Err(_) => json!("<invalid>"),
            },
            _ => Value::Null,
        }
    }
}

/// A value as the original prints one into a column of text.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".into(),
        // Go escapes what could be taken for HTML.
        Value::Array(_) | Value::Object(_) => {
            value.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(kind: &str, path: &str) -> Value {
        let object = json!({
            "metadata": { "creationTimestamp": "2026-01-01T11:00:00Z" },
            "spec": { "size": 3, "ratio": 0.5, "tags": ["<x>"], "flag": true, "when": "yesterday" },
        });
        let column = Column::read(&json!({ "name": "X", "type": kind, "jsonPath": path })).unwrap();
        column.cell(&object, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        assert_eq!(cell("integer", ".spec.size"), json!(3));
        assert_eq!(cell("integer", ".spec.ratio"), json!(0));
        assert_eq!(cell("string", ".spec.size"), json!("3"));
        assert_eq!(cell("string", ".spec.tags"), json!(r#"["\u003cx\u003e"]"#));
        assert_eq!(cell("boolean", ".spec.flag"), json!(true));
        assert_eq!(cell("boolean", ".spec.size"), Value::Null);
        assert_eq!(cell("date", ".metadata.creationTimestamp"), json!("60m"));
        assert_eq!(cell("date", ".spec.when"), json!("<invalid>"));
        assert_eq!(cell("string", ".spec.gone"), Value::Null);
    }

    #[test]
    fn a_definition_without_columns_shows_the_age() {
        let columns = Column::all(&json!({}));
        assert_eq!(columns.len(), 1);
        assert_eq!(columns[0].header["name"], "Age");
    }

    #[test]
    fn every_printer_of_a_built_in_kind_has_a_recorded_header_of_its_length() {
        for (qualified, header) in RECORDED.iter() {
            let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
            let id = crate::apiserver::ResourceId::new(group, plural, "");
            if let Some(cells) = cells::of(&id) {
                let empty = cells(&json!({}), Timestamp::UNIX_EPOCH);
                assert_eq!(empty.len(), header.as_array().unwrap().len(), "{qualified}");
            }
        }
    }
}
