//! Lay one object over another, and take fields out of one.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use super::{
    set::{FieldSet, has_steps, is_member},
    step,
    types::{Elements, Form, ListType, MapType, TypeId, Types},
};

/// The live object with everything that the applied one states, or what has no place.
pub(crate) fn merge(
    types: &Types,
    root: TypeId,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    match types.get(root).map.as_ref().filter(|map| !map.whole) {
        Some(map) => merge_maps(types, map, live, applied),
        None => Ok(applied.clone()),
    }
}

fn merge_values(
    types: &Types,
    id: TypeId,
    live: Option<&Value>,
    applied: Option<&Value>,
) -> Result<Option<Value>, String> {
    let (Some(before), Some(over)) = (live, applied) else {
        // One alone stays as it is.
        return Ok(applied.or(live).cloned());
    };
    match types.get(id).form(Some(over)) {
        Form::Scalar(_) => Ok(Some(over.clone())),
        Form::List(list) => {
            let (was, is) = (before.as_array(), over.as_array());
            let nothing = |list: Option<&Vec<Value>>| list.is_none_or(Vec::is_empty);
            if list.elements == Elements::Whole || (nothing(was) && nothing(is)) {
                return Ok(Some(over.clone()));
            }
            let none = vec![];
            let merged = merge_lists(types, list, was.unwrap_or(&none), is.unwrap_or(&none))?;
            Ok((!merged.is_empty()).then_some(Value::Array(merged)))
        }
        Form::Map(map) => {
            let (was, is) = (before.as_object(), over.as_object());
            let nothing = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
            if map.whole || (nothing(was) && nothing(is)) {
                return Ok(Some(over.clone()));
            }
            let none = Map::new();
            let merged = merge_maps(types, map, was.unwrap_or(&none), is.unwrap_or(&none))?;
            Ok((!merged.is_empty()).then_some(Value::Object(merged)))
        }
    }
}

fn merge_maps(
    types: &Types,
    map: &MapType,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let others = live.iter().filter(|(name, _)| !applied.contains_key(*name));
    let mut merged: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in applied {
        let Some(id) = map.field(name) else {
            return Err(format!("{}: field not declared in schema", step::shown_step(&step::field(name))));
        };
        let value = merge_values(types, id, live.get(name), Some(value)).map_err(|why| format!(".{name}{why}"))?;
        merged.extend(value.map(|value| (name.clone(), value)));
    }
    Ok(merged)
}

/// Elements keep the order of the live list, but those that are applied stand in the order in which they are applied.
fn merge_lists(types: &Types, list: &ListType, live: &[Value], applied: &[Value]) -> Result<Vec<Value>, String> {
    let steps = |elements: &[Value]| -> Result<Vec<String>, String> {
        let named = elements.iter().enumerate();
        named.map(|(place, one)| list.step(types, one).map_err(|why| format!(": element {place}: {why}"))).collect()
    };
    let (left, right) = (steps(live)?, steps(applied)?);
    // A key that stands more than once in the live list is not merged with anything.
    let mut lives: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    for (step, element) in left.iter().zip(live) {
        lives.entry(step).and_modify(|known| *known = None).or_insert(Some(element));
    }
    let applies: BTreeMap<&str, &Value> = right.iter().map(String::as_str).zip(applied).collect();
    let merged_element = |step: &str| -> Result<Option<Value>, String> {
        let before = lives.get(step).copied().flatten();
        merge_values(types, list.element, before, applies.get(step).copied())
            .map_err(|why| format!("{}{why}", step::shown_step(step)))
    };

    let mut shared: VecDeque<&str> = right.iter().map(String::as_str).filter(|step| lives.contains_key(step)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged: Vec<&str> = vec![];
    let mut out = vec![];
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.len() || at_right < right.len() {
        if let (Some(mine), Some(theirs)) = (left.get(at_left), right.get(at_right)) {
            if mine == theirs {
                out.extend(merged_element(mine)?);
                merged.push(mine);
                (at_left, at_right) = (at_left + 1, at_right + 1);
                next_shared = shared.pop_front();
                continue;
            }
            if applies.contains_key(mine.as_str()) && next_shared.is_some_and(|next| next != mine) {
                // In both, but not its turn.
                at_left += 1;
                continue;
            }
        }
        if let Some(mine) = left.get(at_left) {
            if !applies.contains_key(mine.as_str()) {
                out.push(live[at_left].clone());
                at_left += 1;
                continue;
            }
            if merged.contains(&mine.as_str()) {
                at_left += 1;
            }
        }
        if let Some(theirs) = right.get(at_right) {
            out.extend(merged_element(theirs)?);
            merged.push(theirs);
            at_right += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok(out)
}

/// An object without some of its fields and elements.
pub(crate) fn remove(
    types: &Types,
    root: TypeId,
    object: &Map<String, Value>,
    fields: &FieldSet,
) -> Map<String, Value> {
    let Some(map) = types.get(root).map.as_ref() else { return object.clone() };
    remove_from_map(types, map, object, fields.tree())
}

/// None where nothing is left.
fn remove_from(types: &Types, id: TypeId, value: &Value, fields: &Map<String, Value>) -> Value {
    match (types.get(id).form(Some(value)), value) {
        (Form::Map(map), Value::Object(object)) if !map.whole => {
            let left = remove_from_map(types, map, object, fields);
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Form::List(list), Value::Array(elements)) if list.elements != Elements::Whole => {
            let left = remove_from_list(types, list, elements, fields);
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Form::Scalar(_), value) => value.clone(),
        // What is taken as a whole goes as a whole.
        _ => Value::Null,
    }
}

fn remove_from_map(
    types: &Types,
    map: &MapType,
    object: &Map<String, Value>,
    fields: &Map<String, Value>,
) -> Map<String, Value> {
    let mut left = Map::new();
    for (name, value) in object {
        match (fields.get(&step::field(name)).and_then(Value::as_object), map.field(name)) {
            (Some(node), _) if is_member(node) => {}
            (Some(node), Some(id)) if has_steps(node) => {
                left.insert(name.clone(), remove_from(types, id, value, node));
            }
            _ => {
                left.insert(name.clone(), value.clone());
            }
        }
    }
    left
}

fn remove_from_list(types: &Types, list: &ListType, elements: &[Value], fields: &Map<String, Value>) -> Vec<Value> {
    let mut left = vec![];
    for element in elements {
        let step = list.step(types, element).unwrap_or_default();
        match fields.get(&step).and_then(Value::as_object) {
            Some(node) if is_member(node) => {}
            Some(node) => left.push(remove_from(types, list.element, element, node)),
            None => left.push(element.clone()),
        }
    }
    left
}

/// A set in which every named field is a member that has a member below it.
pub(crate) fn with_named_fields(types: &Types, root: TypeId, set: &FieldSet) -> FieldSet {
    FieldSet::from(name_fields(types, Some(root), set.tree()))
}

fn name_fields(types: &Types, id: Option<TypeId>, tree: &Map<String, Value>) -> Map<String, Value> {
    let kind = id.map(|id| types.get(id));
    let map = kind.and_then(|kind| kind.map.as_ref());
    let list = kind.and_then(|kind| kind.list.as_ref());
    let mut named = Map::new();
    for (step, node) in super::set::steps(tree) {
        let name = step::name(step);
        let below = match name {
            Some(name) => map.and_then(|map| map.field(name)),
            None => list.map(|list| list.element),
        };
        let is_named = name.is_some_and(|name| map.is_some_and(|map| map.fields.contains_key(name)));
        let mut copy = name_fields(types, below, node);
        if !copy.is_empty() && (is_member(node) || is_named) {
            copy.insert(".".into(), Value::Object(Map::new()));
        }
        named.insert(step.clone(), Value::Object(copy));
    }
    named
}
