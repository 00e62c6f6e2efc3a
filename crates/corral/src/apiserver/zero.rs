//! Fields that objects of built-in kinds always have, even if there is nothing in them: what the original writes of an
//! object without content.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{object::Object, resources::ResourceId};

/// By qualified plural and version, as `jobs.batch/v1`; recorded from bookmarks of a real server.
static RECORDED: LazyLock<BTreeMap<String, Object>> =
    LazyLock::new(|| serde_json::from_str(include_str!("recorded/empty.json")).unwrap_or_default());

fn recorded(id: &ResourceId, version: &str) -> Option<&'static Object> {
    RECORDED.get(&format!("{}/{version}", id.qualified()))
}

/// An object without content.
pub(crate) fn object(id: &ResourceId, version: &str) -> Object {
    recorded(id, version).cloned().unwrap_or_default()
}
