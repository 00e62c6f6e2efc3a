//! JSON patches as the Go library of 2019 applied them: replacing a field that is not there adds it. Unlike there, removing one that is not
//! there changes nothing.

use serde_json::{Value, json};

/// Why a patch does not apply, in a sentence.
pub fn apply(target: &mut Value, patches: &[Value]) -> Result<(), String> {
    for patch in patches {
        let mut patch = patch.clone();
        let path = patch["path"].as_str().unwrap_or_default().to_owned();
        let is_missing = target.pointer(&path).is_none();
        if patch["op"] == "replace" && is_missing {
            patch["op"] = json!("add");
        }
        // One list is for several objects: what one of them has not need not go from it.
        if patch["op"] == "remove" && is_missing {
            continue;
        }
        let operation: json_patch::PatchOperation =
            serde_json::from_value(patch.clone()).map_err(|error| format!("{patch}: {error}"))?;
        json_patch::patch(target, &[operation]).map_err(|error| format!("{patch}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_a_leaf_that_is_missing_adds_it_and_a_missing_parent_is_an_error() {
        let mut object = json!({ "spec": { "imageName": "old" } });
        let replace = |path: &str| vec![json!({ "op": "replace", "path": path, "value": "new" })];

        assert_eq!(apply(&mut object, &replace("/spec/imageName")), Ok(()));
        assert_eq!(apply(&mut object, &replace("/spec/className")), Ok(()));
        assert_eq!(object, json!({ "spec": { "imageName": "new", "className": "new" } }));
        assert!(apply(&mut object, &replace("/spec/a/b")).is_err());
    }

    #[test]
    fn what_is_not_there_need_not_be_removed() {
        let mut object = json!({ "spec": { "imageName": "old" } });
        let remove = |path: &str| vec![json!({ "op": "remove", "path": path })];

        assert_eq!(apply(&mut object, &remove("/spec/volumes/0")), Ok(()));
        assert_eq!(apply(&mut object, &remove("/spec/imageName")), Ok(()));
        assert_eq!(object, json!({ "spec": {} }));
    }
}
