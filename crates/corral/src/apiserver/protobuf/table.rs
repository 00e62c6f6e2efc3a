//! Which number stands for which field.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

static PACKED: &[u8] = include_bytes!("../recorded/protobuf.zst");

/// More than the table has; what is unpacked is ours, and its size is known.
const SIZE_LIMIT: usize = 4 * 1024 * 1024;

/// A field of a message.
#[derive(Debug, Deserialize)]
#[serde(from = "(u32, String, String, String)")]
pub(super) struct Field {
    pub number: u32,
    /// As in JSON; empty if what it holds is spread into the object around it.
    pub name: String,
    /// A basic type, or the name of a message.
    pub kind: String,
    flags: String,
}

impl From<(u32, String, String, String)> for Field {
    fn from((number, name, kind, flags): (u32, String, String, String)) -> Self {
        Field { number, name, kind, flags }
    }
}

impl Field {
    pub fn is_repeated(&self) -> bool {
        self.flags.contains('r')
    }

    /// Whether it is a map from texts.
    pub fn is_map(&self) -> bool {
        self.flags.contains('m')
    }

    /// Whether JSON leaves it out when it is zero; the wire never does.
    pub fn omits_zero(&self) -> bool {
        self.flags.contains('o')
    }
}

static MESSAGES: LazyLock<BTreeMap<String, Vec<Field>>> = LazyLock::new(|| {
    let table = zstd::bulk::decompress(PACKED, SIZE_LIMIT).unwrap_or_default();
    serde_json::from_slice(&table).unwrap_or_default()
});

pub(super) fn fields(message: &str) -> Option<&'static [Field]> {
    MESSAGES.get(message).map(Vec::as_slice)
}

/// The message that holds objects of a kind.
pub(super) fn message_of(api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let package = match group {
        "" => "core",
        "flowcontrol.apiserver.k8s.io" => "flowcontrol",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    };
    // Options of requests belong to every group.
    let names = [format!("{package}.{version}.{kind}"), format!("meta.v1.{kind}")];
    names.into_iter().find(|name| MESSAGES.contains_key(name))
}
