//! An object as JSON, and its metadata by name.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The fields of an object. `serde_json` keeps them sorted, so equal objects have equal bytes.
pub(crate) type Object = Map<String, Value>;

/// The value at a path of field names.
pub(crate) fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(*name))
}

/// The string at a path; empty when there is none.
pub(crate) fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The object that a field holds. Whatever else stood there is replaced by an empty one.
pub(crate) fn child<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let value = object.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(child) => child,
        // Made an object two lines above.
        _ => unreachable!(),
    }
}

/// A copy without the fields that say who manages what: those are half of many objects, and made anew by most writes.
pub(crate) fn without_managers(object: &Object) -> Object {
    let copied = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let others = metadata.iter().filter(|(name, _)| *name != "managedFields");
            let others = others.map(|(name, value)| (name.clone(), value.clone()));
            (name.clone(), Value::Object(others.collect()))
        }
        value => (name.clone(), value.clone()),
    };
    object.iter().map(copied).collect()
}

/// Does something to an object of some of the fields of another.
pub(crate) fn with_some_fields<'a, T>(
    object: &mut Object,
    names: impl Iterator<Item = &'a String>,
    act: impl FnOnce(&mut Object) -> T,
) -> T {
    let mut some: Object = names.filter_map(|name| object.remove_entry(name)).collect();
    let outcome = act(&mut some);
    object.append(&mut some);
    outcome
}

/// Gives a field the value that it has in another object, or none if it has none there.
pub(crate) fn take_from(object: &mut Object, name: &str, other: &Object) {
    // Mostly it has that value already, and comparing costs less than copying.
    if object.get(name) == other.get(name) {
        return;
    }
    match other.get(name) {
        Some(value) => object.insert(name.into(), value.clone()),
        None => object.remove(name),
    };
}

/// Fills a field that is not there.
pub(crate) fn fill(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.into(), value.into());
    }
}

/// Reads and writes `metadata`.
pub(crate) trait Meta {
    fn meta(&self, name: &str) -> Option<&Value>;
    fn meta_mut(&mut self) -> &mut Object;

    fn meta_text(&self, name: &str) -> &str {
        self.meta(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.meta_text("name")
    }

    fn namespace(&self) -> &str {
        self.meta_text("namespace")
    }

    fn uid(&self) -> &str {
        self.meta_text("uid")
    }

    fn resource_version(&self) -> &str {
        self.meta_text("resourceVersion")
    }

    fn generation(&self) -> i64 {
        self.meta("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    fn is_deleting(&self) -> bool {
        self.meta("deletionTimestamp").is_some_and(|at| !at.is_null())
    }

    fn grace_period(&self) -> Option<i64> {
        self.meta("deletionGracePeriodSeconds").and_then(Value::as_i64)
    }

    fn finalizers(&self) -> Vec<&str> {
        self.meta("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn set_meta(&mut self, name: &str, value: impl Into<Value>) {
        self.meta_mut().insert(name.into(), value.into());
    }

    /// Gives a field of the metadata the value that it has in another object.
    fn keep_meta(&mut self, name: &str, other: &Self) {
        if self.meta(name) == other.meta(name) {
            return;
        }
        match other.meta(name).cloned() {
            Some(value) => self.meta_mut().insert(name.into(), value),
            None => self.meta_mut().remove(name),
        };
    }

    fn set_finalizers(&mut self, finalizers: &[String]) {
        match finalizers {
            [] => self.meta_mut().remove("finalizers"),
            some => self.meta_mut().insert("finalizers".into(), json!(some)),
        };
    }
}

impl Meta for Object {
    fn meta(&self, name: &str) -> Option<&Value> {
        self.get("metadata")?.get(name)
    }

    fn meta_mut(&mut self) -> &mut Object {
        child(self, "metadata")
    }
}

/// A moment as objects state it: in UTC, to the second.
pub(crate) fn moment(at: Timestamp) -> Value {
    Value::String(moment_text(at))
}

pub(crate) fn moment_text(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
