//! Objects from files: YAML or JSON, one or many a file, Lists too, as `kubectl get -o yaml` prints them.

use std::path::{Path, PathBuf};

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

/// All objects of the given files and folders, as one `v1` List.
pub fn read_all(paths: &[PathBuf]) -> Result<Value, ObjectsError> {
    let mut items = Vec::new();
    for path in paths {
        for file in files(path)? {
            items.extend(read_file(&file)?);
        }
    }
    Ok(json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items }))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A folder stands for its `.yaml`, `.yml` and `.json` files, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, ObjectsError> {
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

fn read_file(path: &Path) -> Result<Vec<Value>, ObjectsError> {
    let text = std::fs::read_to_string(path).map_err(|cause| ObjectsError::Read { path: shown(path), cause })?;
    read_text(&text).map_err(|cause| ObjectsError::Strange { path: shown(path), cause })
}

fn read_text(text: &str) -> Result<Vec<Value>, String> {
    // JSON is read as such: it is exact about numbers, and much faster for large lists.
    let documents: Vec<Value> = match serde_json::from_str(text) {
        Ok(document) => vec![document],
        Err(_) => serde_saphyr::from_multiple(text).map_err(|error| error.without_snippet().to_string())?,
    };
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        unfold(document, &mut objects)?;
    }
    Ok(objects)
}

/// A list stands for its items.
fn unfold(document: Value, objects: &mut Vec<Value>) -> Result<(), String> {
    let Some(kind) = document["kind"].as_str().map(str::to_owned) else {
        return Err("one has no kind".to_owned());
    };
    if kind != "List" && !(kind.ends_with("List") && document["items"].is_array()) {
        objects.push(document);
        return Ok(());
    }
    let api_version = document["apiVersion"].clone();
    let Value::Array(items) = document["items"].clone() else { return Ok(()) };
    for mut item in items {
        if !item.is_object() {
            return Err("a list holds something that is no object".to_owned());
        }
        // The items of a typed list, such as a NodeList, need not repeat what they are.
        if kind != "List" && item["kind"].is_null() {
            item["kind"] = json!(kind.trim_end_matches("List"));
            item["apiVersion"] = api_version.clone();
        }
        unfold(item, objects)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let objects = read_text(text).unwrap();
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
        assert_eq!(read_text(list).unwrap()[0]["apiVersion"], "v1");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(read_text("just: text").is_err());
        assert!(read_text("{ [").is_err());
        assert!(read_text("kind: NodeList\nitems: [a]").is_err());
    }
}
