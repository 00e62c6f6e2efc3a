//! Which fields differ between two versions of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    set::FieldSet,
    step,
    types::{Elements, Form, ListType, MapType, TypeId, Types},
};

const METADATA: &str = "f:metadata";

/// The differences from one version to the next. No field is in more than one of them.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    /// Leaves out some fields with everything below them.
    pub fn without(self, fields: &FieldSet) -> Self {
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }

    /// What the new version states that the old one did not.
    pub fn set_anew(&self) -> FieldSet {
        self.modified.clone().union(&self.added)
    }
}

/// Compares two objects of a type, or says what has no place in it. Who manages what is not itself managed, and not
/// compared.
pub(crate) fn compare(
    types: &Types,
    root: TypeId,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Result<Comparison, String> {
    let mut walk = Walk { types, path: vec![], found: Comparison::default() };
    let Form::Map(map) = types.get(root).form(Some(&Value::Object(Map::new()))) else {
        return Ok(walk.found);
    };
    walk.map_fields(map, Some(before), Some(after))?;
    Ok(walk.found)
}

struct Walk<'a> {
    types: &'a Types,
    path: Vec<String>,
    found: Comparison,
}

impl Walk<'_> {
    fn compare(&mut self, id: TypeId, before: Option<&Value>, after: Option<&Value>) -> Result<(), String> {
        // Most of an object stays as it is.
        if before == after {
            return Ok(());
        }
        let kind = self.types.get(id);
        let (was, is) = (kind.form(before), kind.form(after));
        let is_leaf = match (before, after) {
            (_, None) => self.form(was, before, after)?,
            (None, Some(_)) => self.form(is, before, after)?,
            _ if was == is => self.form(is, before, after)?,
            _ => {
                self.form(was, before, after)?;
                self.form(is, before, after)?
            }
        };
        if !is_leaf {
            match (before, after) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
        Ok(())
    }

    /// True if the value is a leaf, which is compared as a whole.
    fn form(&mut self, form: Form<'_>, before: Option<&Value>, after: Option<&Value>) -> Result<bool, String> {
        match form {
            Form::Scalar(_) => self.leaf(before, after),
            Form::List(list) => {
                let [was, is] = [before, after].map(|value| value.and_then(Value::as_array));
                let nothing = |list: Option<&Vec<Value>>| list.is_none_or(Vec::is_empty);
                if list.elements == Elements::Whole || (nothing(was) && nothing(is)) {
                    self.leaf(before, after);
                    return Ok(true);
                }
                self.list_elements(list, was, is)?;
                return Ok(false);
            }
            Form::Map(map) => {
                let [was, is] = [before, after].map(|value| value.and_then(Value::as_object));
                let nothing = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
                if map.whole || (nothing(was) && nothing(is)) {
                    self.leaf(before, after);
                    return Ok(true);
                }
                self.map_fields(map, was, is)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(before), Some(after)) if before != after => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn map_fields(
        &mut self,
        map: &MapType,
        before: Option<&Map<String, Value>>,
        after: Option<&Map<String, Value>>,
    ) -> Result<(), String> {
        let gone =
            before.into_iter().flatten().filter(|(name, _)| after.is_none_or(|after| !after.contains_key(*name)));
        for (name, value) in gone {
            self.map_field(map, name, Some(value), None)?;
        }
        for (name, value) in after.into_iter().flatten() {
            self.map_field(map, name, before.and_then(|before| before.get(name)), Some(value))?;
        }
        Ok(())
    }

    fn map_field(
        &mut self,
        map: &MapType,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), String> {
        let is_of_managers = || name == "managedFields" && matches!(self.path.as_slice(), [only] if only == METADATA);
        if is_of_managers() || before == after {
            return Ok(());
        }
        let step = step::field(name);
        let Some(id) = map.field(name) else {
            return Err(format!(
                "{}: field not declared in schema",
                step::shown(&self.path) + &step::shown_step(&step)
            ));
        };
        self.path.push(step);
        let done = self.compare(id, before, after);
        self.path.pop();
        done
    }

    fn list_elements(
        &mut self,
        list: &ListType,
        before: Option<&Vec<Value>>,
        after: Option<&Vec<Value>>,
    ) -> Result<(), String> {
        let mut sides: BTreeMap<String, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, elements) in [before, after].into_iter().enumerate() {
            for (place, element) in elements.into_iter().flatten().enumerate() {
                let step = list
                    .step(self.types, element)
                    .map_err(|why| format!("{}: element {place}: {why}", step::shown(&self.path)))?;
                sides.entry(step).or_default()[side].push(element);
            }
        }
        for (step, [was, is]) in sides {
            self.path.push(step);
            let done = self.element(list, &was, &is);
            self.path.pop();
            done?;
        }
        Ok(())
    }

    /// Compares the elements with one key. Where a key stands more than once, its elements are one leaf.
    fn element(&mut self, list: &ListType, before: &[&Value], after: &[&Value]) -> Result<(), String> {
        match (before, after) {
            ([] | [_], [] | [_]) => self.compare(list.element, before.first().copied(), after.first().copied())?,
            ([_, _, ..], [_, _, ..]) if before != after => self.found.modified.insert(&self.path),
            ([_, _, ..], [_, _, ..]) => {}
            ([_, _, ..], _) => {
                if let Some(after) = after.first() {
                    self.compare(list.element, None, Some(after))?;
                }
                self.found.removed.insert(&self.path);
            }
            (_, _) => {
                if let Some(before) = before.first() {
                    self.compare(list.element, Some(before), None)?;
                }
                self.found.added.insert(&self.path);
            }
        }
        Ok(())
    }
}
