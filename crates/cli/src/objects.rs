//! Objects from files: YAML or JSON, one or many a file, Lists too, as `kubectl get -o yaml` prints them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// All objects of the given files and folders, as one `v1` List.
pub fn read_all(paths: &[PathBuf]) -> anyhow::Result<Value> {
    let mut items = Vec::new();
    for path in paths {
        for file in files(path)? {
            items.extend(read_file(&file)?);
        }
    }
    Ok(json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items }))
}

/// A folder stands for its `.yaml`, `.yml` and `.json` files, in the order of their names.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = || format!("cannot read {}; check the path given with --load", path.display());
    if !path.metadata().with_context(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().with_context(unreadable)? {
        let file = entry.with_context(unreadable)?.path();
        let holds_objects = file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if holds_objects && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("the folder {} holds no .yaml, .yml or .json file; check the path given with --load", path.display());
    }
    Ok(files)
}

fn read_file(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {}; check the path given with --load", path.display()))?;
    read_text(&text).with_context(|| format!("{} holds no objects as kubectl prints them", path.display()))
}

fn read_text(text: &str) -> anyhow::Result<Vec<Value>> {
    // JSON is read as such: it is exact about numbers, and much faster for large lists.
    let documents: Vec<Value> = match serde_json::from_str(text) {
        Ok(document) => vec![document],
        Err(_) => serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{}", error.without_snippet()))?,
    };
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        unfold(document, &mut objects)?;
    }
    Ok(objects)
}

/// A list stands for its items.
fn unfold(document: Value, objects: &mut Vec<Value>) -> anyhow::Result<()> {
    let Some(kind) = document["kind"].as_str().map(str::to_owned) else {
        bail!("one has no kind");
    };
    if kind != "List" && !(kind.ends_with("List") && document["items"].is_array()) {
        objects.push(document);
        return Ok(());
    }
    let api_version = document["apiVersion"].clone();
    let Value::Array(items) = document["items"].clone() else { return Ok(()) };
    for mut item in items {
        if !item.is_object() {
            bail!("a list holds something that is no object");
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
