//! A few strings in one allocation, for the labels and fields that selectors look at.

use serde_json::Value;

use super::object::Object;

/// Strings one after the other, each ended by a NUL; for a map, each key before its value. A store of many objects cannot afford a tree of strings
/// for each of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packed(Box<str>);

impl Packed {
    /// The string values of a JSON object.
    pub fn from_object(object: Option<&Object>) -> Self {
        let entries = object.into_iter().flatten();
        Packed::from_pairs(entries.filter_map(|(key, value)| Some((key.as_str(), Value::as_str(value)?))))
    }

    pub fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Packed::from_values(pairs.flat_map(|(key, value)| [key, value]))
    }

    /// Values without keys, to be found by their place.
    pub fn from_values<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for value in values {
            // A NUL cannot stand in a valid label; dropping it keeps the rest in place whatever comes in.
            value.split('\0').for_each(|part| text.push_str(part));
            text.push('\0');
        }
        Packed(text.into_boxed_str())
    }

    /// The value at a place; empty if there is none.
    pub fn nth(&self, place: usize) -> &str {
        self.0.split('\0').nth(place).unwrap_or_default()
    }

    pub fn get(&self, wanted: &str) -> Option<&str> {
        let mut parts = self.0.split_terminator('\0');
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            if key == wanted {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_map_finds_each_of_its_keys_and_no_value_as_a_key() {
        let packed = Packed::from_pairs([("app", "web"), ("empty", ""), ("web", "x")].into_iter());

        assert_eq!(packed.get("app"), Some("web"));
        assert_eq!(packed.get("empty"), Some(""));
        assert_eq!(packed.get("web"), Some("x"));
        assert_eq!(packed.get("x"), None);
    }

    #[test]
    fn values_without_keys_are_found_by_their_place() {
        let packed = Packed::from_values(["node-1", "", "Running"].into_iter());

        assert_eq!((packed.nth(0), packed.nth(1), packed.nth(2), packed.nth(3)), ("node-1", "", "Running", ""));
    }
}
