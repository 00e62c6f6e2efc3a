//! Name what a schema or a shape does not know, for clients that want to be told rather than have it dropped.

use serde_json::Value;

use super::{Additional, Schema, prune::ALWAYS, shape::Shape};
use crate::apiserver::object::Object;

impl Shape {
    /// The paths of all fields that this shape does not have.
    pub fn unknown_fields(&self, object: &Object) -> Vec<String> {
        let mut found = vec![];
        if let Shape::Struct(shape) = self {
            // Most often there is nothing to be named.
            if object.iter().all(|(name, value)| shape.field(name).is_some_and(|shape| shape.knows_all(value))) {
                return found;
            }
            for (name, value) in object {
                match shape.field(name) {
                    Some(shape) => shape.find_unknown(name, value, &mut found),
                    None => found.push(name.clone()),
                }
            }
        }
        found
    }

    /// Whether a value has no field that this shape does not have.
    pub fn knows_all(&self, value: &Value) -> bool {
        match (self, value) {
            (Shape::Struct(shape), Value::Object(object)) => {
                object.iter().all(|(name, value)| shape.field(name).is_some_and(|shape| shape.knows_all(value)))
            }
            (Shape::Map(shape), Value::Object(object)) => object.values().all(|value| shape.knows_all(value)),
            (Shape::List(shape), Value::Array(items)) => items.iter().all(|item| shape.knows_all(item)),
            _ => true,
        }
    }

    pub fn find_unknown(&self, path: &str, value: &Value, found: &mut Vec<String>) {
        match (self, value) {
            (Shape::Struct(shape), Value::Object(object)) => {
                for (name, value) in object {
                    match shape.field(name) {
                        Some(shape) => shape.find_unknown(&format!("{path}.{name}"), value, found),
                        None => found.push(format!("{path}.{name}")),
                    }
                }
            }
            (Shape::Map(shape), Value::Object(object)) => {
                object.iter().for_each(|(name, value)| shape.find_unknown(&format!("{path}.{name}"), value, found));
            }
            (Shape::List(shape), Value::Array(items)) => {
                let items = items.iter().enumerate();
                items.for_each(|(place, item)| shape.find_unknown(&format!("{path}[{place}]"), item, found));
            }
            _ => {}
        }
    }
}

impl Schema {
    /// The paths of all fields that would be pruned from a whole object.
    pub fn unknown_fields(&self, object: &Object) -> Vec<String> {
        let mut found = vec![];
        self.find_unknown("", object, true, &mut found);
        found
    }

    fn find_unknown(&self, path: &str, object: &Object, is_resource: bool, found: &mut Vec<String>) {
        for (name, value) in object {
            if is_resource && ALWAYS.contains(&name.as_str()) {
                continue;
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match self.properties.get(name).or_else(|| self.additional()) {
                Some(schema) => schema.find_unknown_in(&path, value, found),
                None if self.preserves_unknown || matches!(self.additional, Some(Additional::Allowed(true))) => {}
                None => found.push(path),
            }
        }
    }

    fn find_unknown_in(&self, path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => self.find_unknown(path, object, self.is_embedded_resource, found),
            Value::Array(items) => {
                let schema = self.items.iter();
                for (schema, (place, item)) in
                    schema.flat_map(|schema| items.iter().enumerate().map(move |item| (schema, item)))
                {
                    schema.find_unknown_in(&format!("{path}[{place}]"), item, found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_with_their_place() {
        let pod = json!({ "spec": { "containers": [{ "name": "a", "colour": 1 }], "nodeSelector": { "any": "x" } }, "spc": 1 });
        let unknown = Shape::of::<Pod>().unknown_fields(pod.as_object().unwrap());
        assert_eq!(unknown, ["spc", "spec.containers[0].colour"]);
    }

    #[test]
    fn what_would_be_pruned_is_named_with_its_place() {
        let schema = Schema::parse(&json!({ "properties": { "spec": { "properties": {
            "list": { "items": { "properties": { "a": {} } } },
            "free": { "x-kubernetes-preserve-unknown-fields": true },
        } } } }));
        let object = json!({ "kind": "X", "metadata": {}, "extra": 1,
                             "spec": { "list": [{ "a": 1, "b": 2 }], "free": { "any": 1 } } });
        assert_eq!(schema.unknown_fields(object.as_object().unwrap()), ["extra", "spec.list[0].b"]);
    }
}
