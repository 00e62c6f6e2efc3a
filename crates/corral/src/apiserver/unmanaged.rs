//! An object as a type of its own, read from what is decoded of it already, without who manages its fields.

use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use super::object::Object;

/// Nothing is searched for the end of a word, and nothing is copied first, as it would be from its text.
pub(super) fn typed<'a, T: Deserialize<'a>>(object: &'a Object) -> Result<T, Error> {
    let fields = object.iter().map(|(name, value)| {
        let field = match value {
            Value::Object(metadata) if name == "metadata" => Field::Metadata(metadata),
            value => Field::Other(value),
        };
        (name.as_str(), field)
    });
    T::deserialize(MapDeserializer::new(fields))
}

enum Field<'a> {
    Metadata(&'a Object),
    Other(&'a Value),
}

impl<'a> IntoDeserializer<'a, Error> for Field<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Field<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Field::Metadata(metadata) => {
                let others = metadata.iter().filter(|(name, _)| *name != "managedFields");
                visitor.visit_map(MapDeserializer::new(others.map(|(name, value)| (name.as_str(), value))))
            }
            Field::Other(value) => value.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Field::Metadata(_) => visitor.visit_some(self),
            Field::Other(value) => value.deserialize_option(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Field::Metadata(_) => self.deserialize_any(visitor),
            Field::Other(value) => value.deserialize_enum(name, variants, visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use drover_api::cluster_api::machine::Machine;
    use k8s_openapi::api::core::v1::{Node, Pod, Secret};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    fn assert_reads_as_its_text<T: DeserializeOwned + PartialEq + Debug>(object: &Value) {
        let mut unmanaged = object.clone();
        unmanaged["metadata"].as_object_mut().unwrap().remove("managedFields");
        let from_text: T = serde_json::from_str(&unmanaged.to_string()).unwrap();
        assert_eq!(typed::<T>(object.as_object().unwrap()).unwrap(), from_text);
    }

    #[test]
    fn what_is_decoded_reads_as_its_text_does() {
        let metadata = json!({
            "name": "one", "namespace": "default", "labels": { "a": "b" }, "creationTimestamp": "2026-01-01T12:00:00Z",
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:data": {} } }], "generation": 3,
        });
        assert_reads_as_its_text::<Secret>(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": true,
            "data": { "key": "dmFsdWU=", "empty": "" }, "type": "Opaque",
        }));
        assert_reads_as_its_text::<Pod>(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "containers": [{
                "name": "c", "resources": { "requests": { "cpu": "100m", "memory": 5 } },
                "livenessProbe": { "httpGet": { "port": 80, "path": "/" }, "periodSeconds": 10 },
            }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        }));
        assert_reads_as_its_text::<Node>(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "unschedulable": true, "taints": null },
        }));
        assert_reads_as_its_text::<Machine>(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": metadata,
            "spec": { "clusterName": "c", "bootstrap": {}, "infrastructureRef": {}, "unknown": { "deep": [1, 2.5, null] } },
            "status": { "phase": "Running" },
        }));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": 7 } });
        assert!(typed::<Node>(node.as_object().unwrap()).is_err());
    }
}
