//! Drop what a schema does not know.

use serde_json::Value;

use super::Schema;
use crate::apiserver::object::Object;

/// What every object has, whatever its schema says.
pub(super) const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Prunes a whole object, of which the schema does not have to name what every object has.
    pub fn prune_root(&self, object: &mut Object) {
        self.prune_object(object, true);
    }

    fn prune(&self, value: &mut Value) {
        match value {
            Value::Object(object) => self.prune_object(object, self.is_embedded_resource),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.prune(item));
                }
            }
            _ => {}
        }
    }

    fn prune_object(&self, object: &mut Object, is_resource: bool) {
        object.retain(|name, value| {
            if is_resource && ALWAYS.contains(&name.as_str()) {
                return true;
            }
            match self.properties.get(name).or_else(|| self.additional()) {
                // A null where none may stand is as good as nothing; where there is a default, that takes its place.
                Some(schema) if value.is_null() => schema.nullable || schema.default.is_some(),
                Some(schema) => {
                    schema.prune(value);
                    true
                }
                None => self.preserves_unknown || matches!(self.additional, Some(super::Additional::Allowed(true))),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(schema: Value, object: Value) -> Value {
        let mut object = object.as_object().unwrap().clone();
        Schema::parse(&schema).prune_root(&mut object);
        Value::Object(object)
    }

    #[test]
    fn a_null_is_dropped_unless_it_is_allowed_or_a_default_will_take_its_place() {
        let schema = json!({ "properties": {
            "a": { "type": "string", "default": "x" },
            "b": { "type": "string", "nullable": true },
            "c": { "type": "string" },
        } });

        assert_eq!(pruned(schema, json!({ "a": null, "b": null, "c": null })), json!({ "a": null, "b": null }));
    }

    #[test]
    fn unknown_fields_are_dropped_at_every_depth() {
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "list": { "type": "array", "items": { "type": "object", "properties": { "a": {} } } },
                "map": { "type": "object", "additionalProperties": { "type": "object", "properties": { "a": {} } } },
            } },
        } });

        let result = pruned(
            schema,
            json!({ "kind": "X", "metadata": { "name": "x" }, "other": 1, "spec": {
                "unknown": 1, "list": [{ "a": 1, "b": 2 }], "map": { "k": { "a": 1, "b": 2 } },
            } }),
        );

        assert_eq!(
            result,
            json!({ "kind": "X", "metadata": { "name": "x" }, "spec": {
                "list": [{ "a": 1 }], "map": { "k": { "a": 1 } },
            } })
        );
    }

    #[test]
    fn unknown_fields_are_kept_where_the_schema_says_so_and_known_ones_are_still_pruned_inside() {
        let schema = json!({ "properties": { "spec": {
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": { "known": { "type": "object", "properties": { "a": {} } } },
        } } });

        let result = pruned(schema, json!({ "spec": { "free": { "x": 1 }, "known": { "a": 1, "b": 2 } } }));

        assert_eq!(result, json!({ "spec": { "free": { "x": 1 }, "known": { "a": 1 } } }));
    }

    #[test]
    fn an_embedded_resource_keeps_its_identity() {
        let schema = json!({ "properties": { "spec": {
            "x-kubernetes-embedded-resource": true, "properties": { "spec": { "properties": { "a": {} } } },
        } } });
        let embedded = json!({ "spec": {
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "a": 1, "b": 2 }, "status": {},
        } });

        let result = pruned(schema, embedded);

        let kept = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "a": 1 } });
        assert_eq!(result, json!({ "spec": kept }));
    }
}
