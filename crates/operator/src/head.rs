//! What tells one object from another, and one state of it from the next, read from its text; the rest is passed over.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Object {
    metadata: Head,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    #[serde(default)]
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    resource_version: String,
}

impl Head {
    /// None if that is no object.
    pub fn of(json: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Object>(json).ok().map(|object| object.metadata)
    }

    pub fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    /// Zero, which is older than any, if none is said.
    pub fn revision(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}
