//! Which fields a body states more than once, for clients that want to be told.

use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The paths of all fields in a JSON body that it states again; none for what is no JSON.
pub(crate) fn find(body: &[u8]) -> Vec<String> {
    let mut found = vec![];
    let mut reader = serde_json::Deserializer::from_slice(body);
    match (Look { found: &mut found }).deserialize(&mut reader) {
        Ok(()) => found,
        Err(_) => vec![],
    }
}

/// Looks at a value without keeping it. Paths are put together on the way out, since most bodies have no duplicates.
struct Look<'a> {
    found: &'a mut Vec<String>,
}

impl Look<'_> {
    /// Puts a step before the paths that were found below it.
    fn prefix(&mut self, from: usize, step: &str) {
        for path in &mut self.found[from..] {
            let separator = if path.starts_with('[') { "" } else { "." };
            *path = format!("{step}{separator}{path}");
        }
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut place = 0;
        loop {
            let from = self.found.len();
            if items.next_element_seed(Look { found: self.found })?.is_none() {
                return Ok(());
            }
            self.prefix(from, &format!("[{place}]"));
            place += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let mut known: Vec<Cow<'de, str>> = vec![];
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let from = self.found.len();
            fields.next_value_seed(Look { found: self.found })?;
            self.prefix(from, &name);
            match known.contains(&name) {
                true => self.found.push(name.into_owned()),
                false => known.push(name),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn fields_that_are_stated_again_are_named_with_their_place() {
        let body = br#"{"data":{"k":1},"list":[{},{"a":1,"a":2}],"data":{"k":1,"k":2}}"#;
        assert_eq!(find(body), ["list[1].a", "data.k", "data"]);
        assert!(find(br#"{"a":{"a":{"a":1}}}"#).is_empty());
        assert!(find(b"no JSON").is_empty());
    }
}
