//! Server-side apply: a client states the fields that it cares for, and becomes their manager.

use serde_json::Value;

use super::{
    KindType, NOT_MANAGED, Writer,
    collect::{fields, misfits},
    compare::compare,
    empty_object,
    managers::{Manager, ManagerId, Managers},
    merge::{merge, remove, with_named_fields},
    reset_fields,
    set::FieldSet,
    step, take_from_others,
    taken::Taken,
    update,
};
use crate::apiserver::{
    object::{Meta, Object, child},
    resources::Resource,
};

/// Who is said to manage what an object stated before anybody applied it.
pub(crate) const BEFORE_FIRST: &str = "before-first-apply";
/// What a client that applies by itself remembers of it, and the manager that takes over from it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";

/// A field that somebody else manages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub manager: ManagerId,
    pub path: String,
}

/// Why nothing is applied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    Conflicts(Vec<Conflict>),
    /// What is applied does not fit its kind.
    Misfit(String),
}

/// Applies `config` to `live`, which carries no managed fields itself; `known` are those that it has. The outcome
/// carries the new ones.
pub(crate) fn apply(
    kind: &KindType,
    resource: &Resource,
    live: &Object,
    known: Option<&Value>,
    config: &Object,
    writer: Writer<'_>,
    force: bool,
) -> Result<Object, Refusal> {
    let wrong = misfits(&kind.types, kind.root, config);
    if let [first, ..] = wrong.as_slice() {
        let all = match wrong.len() {
            1 => first.clone(),
            _ => format!("errors:\n  {}", wrong.join("\n  ")),
        };
        return Err(Refusal::Misfit(all));
    }
    let mut managers = Managers::read(known.cloned()).unwrap_or_default();
    if managers.0.is_empty() {
        let version = writer.version.rsplit('/').next().unwrap_or_default();
        let empty = empty_object(resource, version);
        let before = Writer { name: BEFORE_FIRST, ..writer };
        update(kind, resource, &empty, live, &mut managers, before).map_err(Refusal::Misfit)?;
    }
    let act = Act { kind, resource, live, config, writer };
    if writer.name != KUBECTL {
        return act.run(managers, force);
    }
    let mut object = match act.run(managers.clone(), force) {
        Err(Refusal::Conflicts(conflicts)) => act.take_over(managers, conflicts)?,
        other => other?,
    };
    if has_last_applied(&object) {
        remember(&mut object, config);
    }
    Ok(object)
}

struct Act<'a> {
    kind: &'a KindType,
    resource: &'a Resource,
    live: &'a Object,
    config: &'a Object,
    writer: Writer<'a>,
}

impl Act<'_> {
    fn run(&self, mut managers: Managers, force: bool) -> Result<Object, Refusal> {
        let KindType { types, root } = self.kind;
        let merged = merge(types, *root, self.live, self.config).map_err(Refusal::Misfit)?;

        let reset = reset_fields(self.resource, self.writer.subresource);
        let id = ManagerId::new(self.writer.name, true, self.writer.version, self.writer.subresource);
        let set = fields(types, *root, self.config).recursive_difference(&reset);
        let time = managers.get(&id).and_then(|last| last.time.clone());
        let last = managers.take_fields(&id).filter(|last| !last.is_within(&set));
        managers.put(Manager { id: id.clone(), version: self.writer.version.into(), time, fields: set });
        let new = match last {
            Some(last) => self.drop_given_up(merged, &managers, &last),
            None => merged,
        };

        let taken = Taken::between(self.kind, self.resource, self.live, &new, &managers, self.writer);
        let taken = taken.map_err(Refusal::Misfit)?;
        let conflicts = conflicts(&managers, &id, &taken);
        if !force && !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        take_from_others(self.resource, &mut managers, Some(&id), &taken);

        let changed = new != *self.live;
        for manager in managers.0.iter_mut().filter(|manager| manager.id == id) {
            manager.fields = std::mem::take(&mut manager.fields).difference(&NOT_MANAGED);
            if changed {
                manager.time = Some(self.writer.time.into());
            }
        }
        managers.0.retain(|manager| !manager.fields.is_empty());
        let mut object = new;
        if let Some(entries) = managers.write() {
            object.set_meta("managedFields", entries);
        }
        Ok(object)
    }

    /// Takes out what this manager applied last time, does not apply any more, and nobody else manages.
    fn drop_given_up(&self, merged: Object, managers: &Managers, last: &FieldSet) -> Object {
        let KindType { types, root } = self.kind;
        let named = |set: &FieldSet| with_named_fields(types, *root, set);
        let last = named(last);
        let stated = named(&fields(types, *root, &merged));

        let pruned = remove(types, *root, &merged, &last);
        let managed = managers.0.iter().fold(FieldSet::default(), |all, manager| all.union(&manager.fields));
        let kept = named(&fields(types, *root, &pruned)).union(&named(&managed));
        let pruned = remove(types, *root, &merged, &stated.clone().difference(&kept));

        let kept = named(&fields(types, *root, &pruned));
        remove(types, *root, &merged, &stated.difference(&kept).intersection(&last))
    }

    /// What `kubectl apply` has set by itself, and nobody has changed since, is kubectl's to apply on the server.
    fn take_over(&self, managers: Managers, conflicts: Vec<Conflict>) -> Result<Object, Refusal> {
        let own = self.last_applied_fields().unwrap_or_default();
        let own: Vec<String> = own.paths().iter().map(|path| step::shown(path)).collect();
        let left: Vec<_> = conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect();
        if left.is_empty() { self.run(managers, true) } else { Err(Refusal::Conflicts(left)) }
    }

    fn last_applied_fields(&self) -> Option<FieldSet> {
        let KindType { types, root } = self.kind;
        let text = self.live.meta("annotations")?.get(LAST_APPLIED)?.as_str()?;
        let last: Object = serde_json::from_str(text).ok()?;
        if last.get("apiVersion").and_then(Value::as_str) != Some(self.writer.version) {
            return None;
        }
        let since = compare(types, *root, &last, self.live).ok()?;
        let stated = fields(types, *root, &last);
        Some(stated.difference(&since.modified).difference(&since.added).difference(&since.removed))
    }
}

fn conflicts(managers: &Managers, except: &ManagerId, taken: &Taken) -> Vec<Conflict> {
    let others = managers.0.iter().filter(|manager| manager.id != *except);
    let mut conflicts: Vec<_> = others
        .flat_map(|manager| {
            let paths = manager.fields.intersection(taken.of(manager).0).paths();
            paths.into_iter().map(|path| Conflict { manager: manager.id.clone(), path: step::shown(&path) })
        })
        .collect();
    conflicts.sort_by(|one, other| one.manager.cmp(&other.manager));
    conflicts
}

fn has_last_applied(object: &Object) -> bool {
    object
        .meta("annotations")
        .and_then(|all| all.get(LAST_APPLIED))
        .and_then(Value::as_str)
        .is_some_and(|text| !text.is_empty())
}

/// Keeps what a client that applies by itself would remember up to date.
fn remember(object: &mut Object, config: &Object) {
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")) {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{}\n", Value::Object(config));
    child(object.meta_mut(), "annotations").insert(LAST_APPLIED.into(), Value::String(text));
}
