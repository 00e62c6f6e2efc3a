//! What somebody has accepted, by its code, in an annotation of the object that asks for the upgrade.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::marks;
use jiff::Timestamp;
use serde::Serialize;

use crate::managed::Managed;

/// The codes that the annotation [`marks::ACCEPT`] names.
pub fn codes(annotations: &BTreeMap<String, String>) -> BTreeSet<String> {
    names(annotations, marks::ACCEPT)
}

/// The same of another annotation.
pub fn names(annotations: &BTreeMap<String, String>, key: &str) -> BTreeSet<String> {
    let codes = annotations.get(key).map(String::as_str).unwrap_or_default();
    codes.split(',').map(str::trim).filter(|code| !code.is_empty()).map(str::to_owned).collect()
}

/// Who wrote the annotation, and when, as far as the object tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Acceptance {
    /// The program, such as `kubectl-annotate`: objects do not tell of people.
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Acceptance {
    /// From the managed fields of an object; none if they do not tell.
    pub fn read(json: &[u8]) -> Option<Self> {
        let field = format!("f:{}", marks::ACCEPT);
        let has_written =
            |managed: &Managed| managed.fields["f:metadata"]["f:annotations"].get(field.as_str()).is_some();
        let last = Managed::of(json).into_iter().filter(has_written).max_by_key(|managed| managed.time)?;
        Some(Acceptance { by: last.manager, at: last.time })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_are_separated_by_commas() {
        let annotations = BTreeMap::from([(marks::ACCEPT.to_owned(), "DRV-VOL-009, ChannelDowngrade,,".to_owned())]);
        assert_eq!(codes(&annotations).into_iter().collect::<Vec<_>>(), ["ChannelDowngrade", "DRV-VOL-009"]);
        assert_eq!(codes(&BTreeMap::new()), BTreeSet::new());
    }

    #[test]
    fn whoever_owns_the_annotation_has_accepted() {
        let owns = |key: &str| json!({ "f:metadata": { "f:annotations": { key: {} } } });
        let object = json!({ "metadata": { "managedFields": [
            { "manager": "helm", "time": "2026-01-01T10:00:00Z", "fieldsV1": owns("f:example.com/other") },
            { "manager": "kubectl-annotate", "time": "2026-01-01T11:00:00Z", "fieldsV1": owns("f:drover.dev/accept") },
        ] } });
        let acceptance = Acceptance::read(object.to_string().as_bytes()).unwrap();
        assert_eq!(acceptance.by, "kubectl-annotate");
        assert_eq!(acceptance.at.unwrap().to_string(), "2026-01-01T11:00:00Z");
        assert_eq!(Acceptance::read(br#"{"metadata":{"name":"x"}}"#), None);
    }
}
