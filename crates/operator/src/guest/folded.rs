//! An object that is kept as text: a tree of JSON takes several times as much.

use std::borrow::Cow;
use std::collections::BTreeMap;

use drover_core::guest::Kept;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ledger::{Key, key_of};
use crate::head::Head;

/// An object as text, and what is asked of it without reading that.
#[derive(Debug, Clone)]
pub struct Folded {
    pub key: Key,
    kind: &'static str,
    revision: u64,
    text: Box<str>,
}

impl Folded {
    /// As a server tells of it: what is large and never read is left out, and it says what it is.
    pub fn told(api_version: &str, kind: &'static str, json: &str) -> Option<Self> {
        let head = Head::of(json.as_bytes())?;
        let fields = pruned(json, &LARGE)?;
        let text = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}",{}"#, fields.strip_prefix('{')?);
        Some(Folded { revision: head.revision(), key: (head.namespace, head.name), kind, text: text.into() })
    }

    /// Of an object that was unfolded.
    pub fn of(kind: &'static str, object: &Value) -> Self {
        Folded { key: key_of(object), kind, revision: object.revision(), text: object.to_string().into() }
    }

    pub fn unfolded(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }
}

impl Kept for Folded {
    fn kind(&self) -> &str {
        self.kind
    }

    fn name(&self) -> &str {
        &self.key.1
    }

    fn revision(&self) -> u64 {
        self.revision
    }
}

/// What is large and never read, or said anew.
const LARGE: [&[&str]; 6] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "managedFields"],
    &["status", "bootstrapData"],
    &["spec", "bootstrap", "data"],
    // Of KubeadmConfigs: machines are compared by how they join, and copied by those who read them anew.
    &["spec", "files"],
];

/// The text of an object without fields at these paths. No tree is made of it: what stays for long would lie scattered among what does not.
fn pruned(json: &str, paths: &[&[&str]]) -> Option<String> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json).ok()?;
    let mut text = String::with_capacity(json.len());
    for (name, value) in fields {
        let of_it = paths.iter().filter(|path| path.first() == Some(&&*name)).map(|path| &path[1..]);
        let below: Vec<&[&str]> = of_it.collect();
        if below.iter().any(|path| path.is_empty()) {
            continue;
        }
        text.push(if text.is_empty() { '{' } else { ',' });
        text += &serde_json::to_string(&name).ok()?;
        text.push(':');
        let inner = if below.is_empty() { None } else { pruned(value.get(), &below) };
        text += inner.as_deref().unwrap_or(value.get());
    }
    if text.is_empty() {
        text.push('{');
    }
    text.push('}');
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(json: &str) -> Option<Folded> {
        Folded::told("cluster.x-k8s.io/v1alpha2", "Machine", json)
    }

    #[test]
    fn what_is_large_and_never_read_is_left_out_and_all_else_is_kept_as_it_was() {
        let told = json!({
            "metadata": {
                "name": "a", "namespace": "team", "resourceVersion": "7", "managedFields": [{ "manager": "x" }],
                "annotations": { "note": "\"quoted\" \n and {brackets}" },
            },
            "spec": {
                "bootstrap": { "data": "long", "configRef": { "name": "a" } }, "data": "stays",
                "files": [{ "path": "/etc/a", "content": "long" }],
            },
            "status": { "bootstrapData": "long", "phase": "running" },
        });
        let mut expected = told.clone();
        (expected["apiVersion"], expected["kind"]) = (json!("cluster.x-k8s.io/v1alpha2"), json!("Machine"));
        let left_out = [
            ("/metadata", "managedFields"),
            ("/status", "bootstrapData"),
            ("/spec/bootstrap", "data"),
            ("/spec", "files"),
        ];
        for (path, field) in left_out {
            expected.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(field);
        }

        let one = kept(&told.to_string()).unwrap();

        assert_eq!(one.unfolded().unwrap(), expected);
        assert_eq!((one.kind(), one.name(), one.revision(), one.key.0.as_str()), ("Machine", "a", 7, "team"));
        assert!(kept(r#"{ "metadata": {} }"#).is_none(), "what has no name is nothing");
        let bare =
            kept(r#"{ "kind": "Machine", "metadata": { "name": "b" }, "spec": { "bootstrap": { "data": "x" } } }"#);
        assert_eq!(bare.unwrap().unfolded().unwrap()["spec"], json!({ "bootstrap": {} }));
    }
}
