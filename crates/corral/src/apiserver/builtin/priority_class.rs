//! PriorityClasses, and which priority a pod of a class has.

use serde_json::{Value, json};

use super::values::check_unchanged;
use crate::apiserver::{
    object::{Meta, Object, fill},
    resources::{ResourceId, Rules},
    status::FieldError,
    store::Store,
};

/// The classes that every cluster has, and their priorities.
const SYSTEM: [(&str, i64); 2] = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const SYSTEM_PREFIX: &str = "system-";
/// The highest priority that users may give.
const HIGHEST: i64 = 1_000_000_000;

pub(super) struct PriorityClassRules;

impl Rules for PriorityClassRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        fill(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let (name, value) = (object.name(), value(object));
        if name.starts_with(SYSTEM_PREFIX) {
            if let Err(why) = check_system(name, value, object.get("globalDefault") == Some(&json!(true))) {
                let why = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                );
                errors.push(FieldError::forbidden("metadata.name", &why));
            }
        } else if value > HIGHEST {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errors.push(FieldError::forbidden("value", &why));
        }
        let policy = object.get("preemptionPolicy").unwrap_or(&Value::Null);
        if !["PreemptLowerPriority", "Never"].iter().any(|known| policy == known) {
            let known = ["PreemptLowerPriority", "Never"].map(String::from);
            errors.push(FieldError::unsupported("preemptionPolicy", policy, &known));
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        if value(new) != value(old) {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        check_unchanged(new, old, &["preemptionPolicy"], "preemptionPolicy", errors);
    }
}

fn value(class: &Object) -> i64 {
    class.get("value").and_then(Value::as_i64).unwrap_or_default()
}

fn check_system(name: &str, value: i64, is_default: bool) -> Result<(), String> {
    match SYSTEM.iter().find(|(known, _)| *known == name) {
        Some((_, expected)) if value != *expected => Err(format!("value of {name} PriorityClass must be {expected}")),
        Some(_) if is_default => Err(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => Ok(()),
        None => Err(format!("{name} is not a known system priority class")),
    }
}

/// What a class gives a pod: its priority, its name and whether it may push others out.
pub(super) struct Priority {
    pub class: String,
    pub value: i64,
    pub preemption: Option<String>,
}

/// The priority of a pod that names a class, or of one that names none; none if there is no such class.
pub(super) fn of(store: &Store, class: &str) -> Option<Priority> {
    if let Some((name, value)) = SYSTEM.iter().find(|(name, _)| *name == class) {
        let preemption = Some("PreemptLowerPriority".into());
        return Some(Priority { class: name.to_string(), value: *value, preemption });
    }
    let id = ResourceId::new("scheduling.k8s.io", "priorityclasses", "PriorityClass");
    let read = |object: Object| Priority {
        class: object.name().into(),
        value: value(&object),
        preemption: object.get("preemptionPolicy").and_then(Value::as_str).map(String::from),
    };
    if !class.is_empty() {
        return store.get(&id, class)?.object().ok().map(read);
    }
    let classes = store.find(&id.group, &id.plural).into_iter().flat_map(|found| found.objects.values());
    let objects = classes.filter_map(|stored| stored.object().ok());
    let default = objects.filter(|object| object.get("globalDefault") == Some(&json!(true))).min_by_key(value_of);
    Some(default.map(read).unwrap_or(Priority { class: String::new(), value: 0, preemption: None }))
}

fn value_of(class: &Object) -> i64 {
    value(class)
}
