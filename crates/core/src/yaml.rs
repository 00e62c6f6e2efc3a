//! Manifests, read as Kubernetes and its tools read them.

use serde_json::Value;

/// The documents of a text; else what is wrong with it. `0400` is octal, as in YAML 1.1: so the modes of files are written.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.without_snippet().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::documents;

    #[test]
    fn modes_of_files_are_octal_as_kubectl_reads_them() {
        let text = "{ defaultMode: 0400, new: 0o400, text: \"0400\", none: 0, ten: 10, part: 0.5, version: 01.5.0 }\n---\n0755";

        let read = documents(text).unwrap();

        let first = json!({
            "defaultMode": 256, "new": 256, "text": "0400", "none": 0, "ten": 10, "part": 0.5, "version": "01.5.0",
        });
        assert_eq!(read, [first, json!(493)]);
    }
}
