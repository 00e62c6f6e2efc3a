//! Who manages which fields of an object, as its managed fields tell.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// What one program manages.
#[derive(Debug, Clone, Deserialize)]
pub struct Managed {
    #[serde(default)]
    pub manager: String,
    #[serde(default)]
    pub time: Option<Timestamp>,
    #[serde(default, rename = "fieldsV1")]
    pub fields: Value,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    managed_fields: Vec<Managed>,
}

impl Managed {
    /// All entries of an object; none if it cannot be read.
    pub fn of(json: &[u8]) -> Vec<Managed> {
        serde_json::from_slice::<Object>(json).map(|object| object.metadata.managed_fields).unwrap_or_default()
    }
}
