//! JSON patches as the Go library of 2019 applied them: replacing a field that is not there adds it.

use serde_json::{Value, json};

/// Why a patch does not apply, in a sentence.
pub fn apply(target: &mut Value, patches: &[Value]) -> Result<(), String> {
    for patch in patches {
        let mut patch = patch.clone();
        let path = patch["path"].as_str().unwrap_or_default().to_owned();
        if patch["op"] == "replace" && target.pointer(&path).is_none() {
            patch["op"] = json!("add");
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
}
