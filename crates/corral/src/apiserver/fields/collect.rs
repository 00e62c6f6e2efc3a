//! Which fields an object states, and whether all of them have a place in its type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    set::FieldSet,
    step,
    types::{Elements, Form, ListType, MapType, Scalar, TypeId, Types},
};
use crate::apiserver::gotext;

/// Every field that an object states.
pub(crate) fn fields(types: &Types, root: TypeId, object: &Map<String, Value>) -> FieldSet {
    let mut collected = Collected { types, path: vec![], found: FieldSet::default() };
    if let Some(map) = types.get(root).map.as_ref() {
        collected.map(map, object);
    }
    collected.found
}

struct Collected<'a> {
    types: &'a Types,
    path: Vec<String>,
    found: FieldSet,
}

impl Collected<'_> {
    fn value(&mut self, id: TypeId, value: &Value) {
        match (self.types.get(id).form(Some(value)), value) {
            (Form::Scalar(_), _) => self.found.insert(&self.path),
            (Form::List(list), _) if list.elements == Elements::Whole => self.found.insert(&self.path),
            (Form::Map(map), _) if map.whole => self.found.insert(&self.path),
            (Form::List(list), Value::Array(elements)) => self.list(list, elements),
            (Form::Map(map), Value::Object(object)) => self.map(map, object),
            _ => {}
        }
    }

    fn map(&mut self, map: &MapType, object: &Map<String, Value>) {
        for (name, value) in object {
            let Some(id) = map.field(name) else { continue };
            self.path.push(step::field(name));
            self.value(id, value);
            let is_nothing = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            if is_nothing || !map.fields.contains_key(name) {
                self.found.insert(&self.path);
            }
            self.path.pop();
        }
    }

    fn list(&mut self, list: &ListType, elements: &[Value]) {
        let steps: Vec<_> = elements.iter().map(|element| list.step(self.types, element).ok()).collect();
        for (place, element) in elements.iter().enumerate() {
            let Some(step) = &steps[place] else { continue };
            self.path.push(step.clone());
            // Elements that cannot be told apart are one field together.
            if steps.iter().filter(|other| other.as_ref() == Some(step)).count() == 1 {
                self.value(list.element, element);
            }
            self.found.insert(&self.path);
            self.path.pop();
        }
    }
}

/// What of an object has no place in its type, each with its path.
pub(crate) fn misfits(types: &Types, root: TypeId, object: &Value) -> Vec<String> {
    let mut checked = Checked { types, path: vec![], found: vec![] };
    checked.value(root, object);
    checked.found
}

struct Checked<'a> {
    types: &'a Types,
    path: Vec<String>,
    found: Vec<String>,
}

impl Checked<'_> {
    fn wrong(&mut self, why: &str) {
        let path = step::shown(&self.path);
        self.found.push(if path.is_empty() { why.into() } else { format!("{path}: {why}") });
    }

    fn value(&mut self, id: TypeId, value: &Value) {
        match self.types.get(id).form(Some(value)) {
            _ if value.is_null() => {}
            Form::Scalar(scalar) => {
                if let Some(why) = misfit(scalar, value) {
                    self.wrong(&why);
                }
            }
            Form::List(list) => match value {
                Value::Array(elements) => self.list(list, elements),
                other => self.wrong(&format!("expected list, got &{}", gotext::braced(other))),
            },
            Form::Map(map) => match value {
                Value::Object(object) => self.map(map, object),
                other => self.wrong(&format!("expected map, got &{}", gotext::braced(other))),
            },
        }
    }

    fn map(&mut self, map: &MapType, object: &Map<String, Value>) {
        for (name, value) in object {
            self.path.push(step::field(name));
            let known = map.field(name);
            match known {
                Some(id) => self.value(id, value),
                None => self.wrong("field not declared in schema"),
            }
            self.path.pop();
            // The original looks no further after one of these, either.
            if known.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, list: &ListType, elements: &[Value]) {
        let mut seen = BTreeSet::new();
        for (place, element) in elements.iter().enumerate() {
            let step = match list.elements {
                Elements::Whole => format!("i:{place}"),
                _ => match list.step(self.types, element) {
                    Ok(step) => step,
                    Err(why) => return self.wrong(&format!("element {place}: {why}")),
                },
            };
            if !seen.insert(step.clone()) {
                self.wrong(&format!("duplicate entries for key {}", step::shown_step(&step)));
            }
            self.path.push(step);
            self.value(list.element, element);
            self.path.pop();
        }
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match scalar {
        Scalar::Numeric => value.is_number(),
        Scalar::Text => value.is_string(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Any => !value.is_object() && !value.is_array(),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", gotext::type_name(value)),
        Scalar::Text => format!("expected string, got &value.valueUnstructured{{Value:{}}}", gotext::source(value)),
        Scalar::Boolean => format!("expected boolean, got &{}", gotext::braced(value)),
        Scalar::Any => format!("expected any scalar, got &{}", gotext::braced(value)),
    })
}
