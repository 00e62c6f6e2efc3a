//! Which fields an object states, and whether all of them have a place in its type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    set::{FieldSet, Tree, grow},
    step,
    types::{Elements, Form, ListType, MapType, Scalar, TypeId, Types},
};
use crate::apiserver::gotext;

/// Every field that an object states.
pub(crate) fn fields(types: &Types, root: TypeId, object: &Map<String, Value>) -> FieldSet {
    let tree = types.get(root).map.as_ref().map(|map| stated_in_map(types, map, object));
    FieldSet::from(tree.unwrap_or_default())
}

/// What a value states below itself, and whether it is a member itself.
fn stated(types: &Types, id: TypeId, value: &Value) -> (Tree, bool) {
    match (types.get(id).form(Some(value)), value) {
        (Form::Scalar(_), _) => (Tree::new(), true),
        (Form::List(list), _) if list.elements == Elements::Whole => (Tree::new(), true),
        (Form::Map(map), _) if map.whole => (Tree::new(), true),
        (Form::List(list), Value::Array(elements)) => (stated_in_list(types, list, elements), false),
        (Form::Map(map), Value::Object(object)) => (stated_in_map(types, map, object), false),
        _ => (Tree::new(), false),
    }
}

fn stated_in_map(types: &Types, map: &MapType, object: &Map<String, Value>) -> Tree {
    let mut tree = Tree::new();
    for (name, value) in object {
        let Some(id) = map.field(name) else { continue };
        let (below, is_leaf) = stated(types, id, value);
        let is_nothing = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        grow(&mut tree, step::field(name), below, is_leaf || is_nothing || !map.fields.contains_key(name));
    }
    tree
}

fn stated_in_list(types: &Types, list: &ListType, elements: &[Value]) -> Tree {
    let steps: Vec<_> = elements.iter().map(|element| list.step(types, element).ok()).collect();
    let mut tree = Tree::new();
    for (place, element) in elements.iter().enumerate() {
        let Some(step) = &steps[place] else { continue };
        // Elements that cannot be told apart are one field together.
        let is_alone = steps.iter().filter(|other| other.as_ref() == Some(step)).count() == 1;
        let below = if is_alone { stated(types, list.element, element).0 } else { Tree::new() };
        grow(&mut tree, step.clone(), below, true);
    }
    tree
}

/// What of an object has no place in its type, each with its path.
pub(crate) fn misfits(types: &Types, root: TypeId, object: &Map<String, Value>) -> Vec<String> {
    let mut checked = Checked { types, path: vec![], found: vec![] };
    if let Some(map) = types.get(root).map.as_ref() {
        checked.map(map, object);
    }
    checked.found
}

/// Whether a value has its place in a type, with everything in it.
pub(crate) fn fits(types: &Types, id: TypeId, value: &Value) -> bool {
    let mut checked = Checked { types, path: vec![], found: vec![] };
    checked.value(id, value);
    checked.found.is_empty()
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
