//! How objects of other products are read: in the shape that they have on the wire, as far as somebody looks at it.

use serde::{Deserialize, Deserializer};

/// Declares what is read of a kind or of a part of it. What is absent or null is as its default: a half-written object
/// is an object whose other half says nothing.
macro_rules! seen {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
            #[serde(rename_all = "camelCase")]
            pub struct $name {
                $(
                    $(#[$field_doc])*
                    #[serde(default, deserialize_with = "crate::cluster::wire::or_default")]
                    pub $field: $type,
                )*
            }
        )*
    };
}

/// Declares the shelves of one product, each with the group and kind of the objects that belong there.
macro_rules! shelves {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = ($group:pat, $kind:pat)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $(pub $field: $crate::cluster::Shelf<$type>,)*
        }

        impl $name {
            /// Puts an object on its shelf; none if it belongs to none of these.
            pub(super) fn put(&mut self, group: &str, kind: &str, json: &[u8]) -> Option<Result<(), serde_json::Error>> {
                match (group, kind) {
                    $(($group, $kind) => Some(self.$field.decode(json).map(drop)),)*
                    _ => None,
                }
            }

            /// Takes an object off its shelf.
            pub(super) fn remove(&mut self, group: &str, kind: &str, namespace: &str, name: &str) {
                match (group, kind) {
                    $(($group, $kind) => self.$field.remove(namespace, name),)*
                    _ => {}
                }
            }
        }
    };
}

pub(super) use {seen, shelves};

pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
