//! Fill in what a schema gives a default for.

use serde_json::Value;

use super::Schema;
use crate::apiserver::object::Object;

impl Schema {
    /// Fills a whole object; its metadata is none of the schema's business.
    pub fn fill_root(&self, object: &mut Object) {
        self.fill_object(object);
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(object) => self.fill_object(object),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.fill(item));
                }
            }
            _ => {}
        }
    }

    fn fill_object(&self, object: &mut Object) {
        for (name, schema) in &self.properties {
            let is_missing = object.get(name).is_none_or(|value| value.is_null() && !schema.nullable);
            if let (Some(default), true) = (&schema.default, is_missing) {
                object.insert(name.clone(), default.clone());
            }
        }
        for (name, value) in object.iter_mut() {
            if let Some(schema) = self.properties.get(name).or_else(|| self.additional()) {
                schema.fill(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(schema: Value, object: Value) -> Value {
        let mut object = object.as_object().unwrap().clone();
        Schema::parse(&schema).fill_root(&mut object);
        Value::Object(object)
    }

    #[test]
    fn defaults_are_filled_in_inside_other_defaults_and_inside_lists() {
        let schema = json!({ "properties": {
            "outer": { "type": "object", "default": {}, "properties": { "inner": { "default": 5 } } },
            "list": { "items": { "properties": { "a": { "default": "x" } } } },
        } });

        let result = filled(schema, json!({ "list": [{}, { "a": "y" }] }));

        assert_eq!(result, json!({ "outer": { "inner": 5 }, "list": [{ "a": "x" }, { "a": "y" }] }));
    }

    #[test]
    fn a_default_takes_the_place_of_a_null_that_is_not_allowed() {
        let schema = json!({ "properties": {
            "a": { "type": "string", "default": "x" },
            "b": { "type": "string", "nullable": true, "default": "x" },
            "c": { "type": "string" },
        } });

        let result = filled(schema, json!({ "a": null, "b": null, "c": null }));

        assert_eq!(result, json!({ "a": "x", "b": null, "c": null }));
    }
}
