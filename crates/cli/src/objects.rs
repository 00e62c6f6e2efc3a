//! Objects from files: YAML or JSON, one or many a file, Lists too, as `kubectl get -o yaml` prints them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// All objects of the given files and folders, each as JSON text: of a large cluster only that fits into memory.
pub fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Box<RawValue>>> {
    let mut objects = Vec::new();
    for path in paths {
        for file in files(path)? {
            objects.extend(read_file(&file)?);
        }
    }
    Ok(objects)
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

fn read_file(path: &Path) -> anyhow::Result<Vec<Box<RawValue>>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {}; check the path given with --load", path.display()))?;
    read_text(&text).with_context(|| format!("{} holds no objects as kubectl prints them", path.display()))
}

fn read_text(text: &str) -> anyhow::Result<Vec<Box<RawValue>>> {
    let mut objects = Vec::new();
    // JSON is read as such: it is exact about numbers, and much faster for large lists.
    if let Ok(document) = serde_json::from_str::<&RawValue>(text) {
        unfold(document.get(), &mut objects)?;
        return Ok(objects);
    }
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{}", error.without_snippet()))?;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        unfold(&document.to_string(), &mut objects)?;
    }
    Ok(objects)
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
fn unfold(document: &str, objects: &mut Vec<Box<RawValue>>) -> anyhow::Result<()> {
    let head: Head<'_> = serde_json::from_str(document).context("a list holds something that is no object")?;
    let Some(kind) = head.kind else {
        bail!("one has no kind");
    };
    let items = head.items.and_then(|items| serde_json::from_str::<Vec<&RawValue>>(items.get()).ok());
    let Some(items) = items.filter(|_| kind.ends_with("List")) else {
        if kind != "List" {
            objects.push(RawValue::from_string(document.to_owned())?);
        }
        return Ok(());
    };
    for item in items {
        let own: Head<'_> = serde_json::from_str(item.get()).context("a list holds something that is no object")?;
        match (own.kind, kind.as_str()) {
            (Some(_), _) | (None, "List") => unfold(item.get(), objects)?,
            // The items of a typed list, such as a NodeList, need not repeat what they are.
            (None, kind) => {
                let mut object: Value = serde_json::from_str(item.get())?;
                object["kind"] = json!(kind.trim_end_matches("List"));
                object["apiVersion"] = json!(head.api_version);
                unfold(&object.to_string(), objects)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Value> {
        read_text(text).unwrap().iter().map(|object| serde_json::from_str(object.get()).unwrap()).collect()
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
    fn what_is_no_object_is_refused() {
        assert!(read_text("just: text").is_err());
        assert!(read_text("{ [").is_err());
        assert!(read_text("kind: NodeList\nitems: [a]").is_err());
    }
}
