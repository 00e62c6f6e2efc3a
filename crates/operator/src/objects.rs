//! Objects from files: YAML or JSON, one or many a file, Lists too, as `kubectl get -o yaml` prints them.

use std::path::{Path, PathBuf};

use drover_core::yaml;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    #[error("cannot read {path}: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("the folder {0} holds no .yaml, .yml or .json file")]
    Empty(String),
    #[error("{path} holds no objects as kubectl prints them: {cause}")]
    Strange { path: String, cause: String },
}

/// What a file holds, piece by piece, as JSON text: of a large cluster only one file at a time has to fit into memory.
#[derive(Debug, PartialEq)]
pub enum Found<'a> {
    Object(&'a str),
    /// A list that says of what, and that there is none.
    NoneOf {
        api_version: &'a str,
        kind: &'a str,
    },
}

/// All objects of the given files and folders, each as JSON text.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Box<RawValue>>, ObjectsError> {
    let mut objects = Vec::new();
    for path in paths {
        for file in files(path)? {
            read_file(&file, &mut |found| {
                if let Found::Object(text) = found {
                    objects.extend(RawValue::from_string(text.to_owned()));
                }
            })?;
        }
    }
    Ok(objects)
}

/// A folder stands for its `.yaml`, `.yml` and `.json` files, in the order of their names.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ObjectsError> {
    let unreadable = |cause| ObjectsError::Read { path: shown(path), cause };
    if !path.metadata().map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let holds_objects = file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if holds_objects && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(ObjectsError::Empty(shown(path)));
    }
    Ok(files)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub fn read_file(path: &Path, take: &mut dyn FnMut(Found<'_>)) -> Result<(), ObjectsError> {
    let text = std::fs::read_to_string(path).map_err(|cause| ObjectsError::Read { path: shown(path), cause })?;
    read_text(&text, take).map_err(|cause| ObjectsError::Strange { path: shown(path), cause })
}

/// Reads text of one or many documents; the error says what is wrong with the first that is no object.
pub fn read_text(text: &str, take: &mut dyn FnMut(Found<'_>)) -> Result<(), String> {
    // JSON is read as such: it is exact about numbers, and much faster for large lists.
    if let Ok(document) = serde_json::from_str::<&RawValue>(text) {
        return unfold(document.get(), take);
    }
    for document in yaml::documents(text)?.into_iter().filter(|document| !document.is_null()) {
        unfold(&document.to_string(), take)?;
    }
    Ok(())
}

/// What tells a list from an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    kind: Option<String>,
    api_version: Option<String>,
    #[serde(borrow)]
    items: Option<&'a RawValue>,
}

/// A list stands for its items.
fn unfold(document: &str, take: &mut dyn FnMut(Found<'_>)) -> Result<(), String> {
    let head = head(document)?;
    let Some(kind) = head.kind else {
        return Err("one has no kind".to_owned());
    };
    let items = head.items.and_then(|items| serde_json::from_str::<Vec<&RawValue>>(items.get()).ok());
    let Some(items) = items.filter(|_| kind.ends_with("List")) else {
        if kind != "List" {
            take(Found::Object(document));
        }
        return Ok(());
    };
    let item_kind = kind.trim_end_matches("List");
    if items.is_empty() && !item_kind.is_empty() {
        take(Found::NoneOf { api_version: head.api_version.as_deref().unwrap_or_default(), kind: item_kind });
    }
    for item in items {
        match self::head(item.get())?.kind {
            None if !item_kind.is_empty() => {
                // The items of a typed list, such as a NodeList, need not repeat what they are.
                let mut object: Value = serde_json::from_str(item.get()).map_err(|error| error.to_string())?;
                object["kind"] = json!(item_kind);
                object["apiVersion"] = json!(head.api_version);
                unfold(&object.to_string(), take)?;
            }
            _ => unfold(item.get(), take)?,
        }
    }
    Ok(())
}

fn head(document: &str) -> Result<Head<'_>, String> {
    serde_json::from_str(document).map_err(|_| "a list holds something that is no object".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Value> {
        let mut values = Vec::new();
        let mut take = |found: Found<'_>| {
            if let Found::Object(text) = found {
                values.push(serde_json::from_str(text).unwrap());
            }
        };
        read_text(text, &mut take).unwrap();
        values
    }

    fn names(text: &str) -> Vec<String> {
        let objects = values(text);
        objects
            .iter()
            .map(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]).replace('"', ""))
            .collect()
    }

    #[test]
    fn documents_and_lists_are_read_alike() {
        let documents =
            "kind: Node\nmetadata: {name: a}\n---\n---\nkind: List\nitems:\n- kind: Pod\n  metadata: {name: b}\n";
        assert_eq!(names(documents), ["Node/a", "Pod/b"]);
        assert_eq!(names(r#"{"kind":"List","items":[{"kind":"Node","metadata":{"name":"a"}}]}"#), ["Node/a"]);
    }

    #[test]
    fn items_of_a_typed_list_are_of_its_kind() {
        let list = r#"{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#;
        assert_eq!(names(list), ["Node/a"]);
        assert_eq!(values(list)[0]["apiVersion"], "v1");
    }

    #[test]
    fn an_empty_list_says_that_there_is_none() {
        let mut found = Vec::new();
        let text = "kind: PodDisruptionBudgetList\napiVersion: policy/v1\nitems: []\n---\nkind: List\nitems: []\n";
        read_text(text, &mut |piece| found.push(format!("{piece:?}"))).unwrap();
        assert_eq!(found, [r#"NoneOf { api_version: "policy/v1", kind: "PodDisruptionBudget" }"#]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["just: text", "{ [", "kind: NodeList\nitems: [a]", r#"{"kind":"List","items":[{}]}"#] {
            assert!(read_text(text, &mut |_| ()).is_err(), "{text}");
        }
    }
}
