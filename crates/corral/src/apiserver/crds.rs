//! Kinds that users bring: a stored CustomResourceDefinition is served at once, and its objects follow its schema.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    conditions, definition_rules,
    fields::KindType,
    object::{Meta, Object, at, child, fill, moment, text},
    resources::{Dependents, Generation, Naming, Resource, ResourceId, Rules},
    scale::Paths,
    schema::Schema,
    status::{Answer, FieldError},
    store::{Cause, Store, key_parts},
    stored::Stored,
    table::Column,
    verbs::{
        Target,
        delete::{DeleteOptions, Propagation, delete},
    },
};

/// Keeps a deleted definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) fn id() -> ResourceId {
    ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
}

/// Serves the kind that a definition declares. A built-in kind cannot be replaced.
pub(crate) fn serve(store: &mut Store, definition: &Object) {
    if let Some(resource) = resource(definition)
        && !is_built_in(store, &resource.id.group, &resource.id.plural)
    {
        store.serve(Arc::new(resource));
    }
}

/// Serves the kind of a definition no longer.
pub(crate) fn withdraw(store: &mut Store, definition: &Object) {
    let (group, plural) = (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "plural"]));
    if !is_built_in(store, group, plural) {
        store.withdraw(group, plural);
    }
}

fn is_built_in(store: &Store, group: &str, plural: &str) -> bool {
    store.find(group, plural).is_some_and(|collection| collection.resource.shape.is_some())
}

fn resource(definition: &Object) -> Option<Resource> {
    let group = text(definition, &["spec", "group"]);
    let names = at(definition, &["spec", "names"])?;
    let name = |field: &str| names[field].as_str().unwrap_or_default().to_string();
    let list = |field: &str| -> Vec<String> {
        names[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
    };
    let declared = at(definition, &["spec", "versions"])?.as_array()?;
    let named = |version: &Value| version["name"].as_str().map(String::from);
    let served = declared.iter().filter(|version| version["served"] == true);
    let mut versions: Vec<_> = served.filter_map(named).collect();
    versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    let storage = declared.iter().find(|version| version["storage"] == true)?;
    let schemas = declared.iter().filter_map(|version| {
        let deprecation = deprecation(group, &name("kind"), version, &versions, declared);
        Some((named(version)?, Version::new(version, deprecation)))
    });
    let schemas: BTreeMap<_, _> = schemas.collect();
    let status = declared.iter().any(|version| !version["subresources"]["status"].is_null());
    Some(Resource {
        id: ResourceId::new(group, &name("plural"), &name("kind")),
        singular: name("singular"),
        short_names: list("shortNames"),
        categories: list("categories"),
        list_kind: name("listKind"),
        versions,
        storage_version: named(storage)?,
        namespaced: text(definition, &["spec", "scope"]) == "Namespaced",
        naming: Naming::Subdomain,
        status,
        generation: Generation::OnContent,
        dependents: Dependents::Delete,
        create_on_update: false,
        unconditional_update: false,
        returns_deleted: false,
        shape: None,
        rules: Arc::new(CustomRules { status, versions: schemas }),
        kind_types: OnceLock::new(),
    })
}

/// What is said of a version that is marked as deprecated: what its definition says, or which one to use instead.
fn deprecation(group: &str, kind: &str, version: &Value, served: &[String], declared: &[Value]) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.into());
    }
    let name = version["name"].as_str().unwrap_or_default();
    let deprecated = |name: &str| declared.iter().any(|one| one["name"] == name && one["deprecated"] == true);
    let better = served.iter().find(|other| !deprecated(other) && priority(other) > priority(name));
    let instead = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

/// The schema that a definition declares for a version of its kind.
pub(crate) fn schema(store: &Store, group: &str, plural: &str, version: &str) -> Value {
    let definition = store.get(&id(), &format!("{plural}.{group}")).and_then(|stored| stored.object().ok());
    let versions = definition.as_ref().and_then(|definition| at(definition, &["spec", "versions"])?.as_array());
    let declared = versions.into_iter().flatten().find(|declared| declared["name"] == version);
    declared
        .map(|declared| declared["schema"]["openAPIV3Schema"].clone())
        .unwrap_or_else(|| json!({ "type": "object" }))
}

/// How much a version is to be preferred: stable over beta over alpha, newer over older, and any other name last.
pub(crate) fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || -> Option<(u8, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            stage => match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
                (Some(minor), _) => Some((2, major, minor.parse().ok()?)),
                (_, Some(minor)) => Some((1, major, minor.parse().ok()?)),
                _ => None,
            },
        }
    };
    parse().unwrap_or_default()
}

/// Starts the end of a definition, and of all its objects with it. None if it may go at once.
pub(crate) fn terminate(store: &mut Store, by: &Cause<'_>, mut object: Object) -> Answer<Option<Arc<Stored>>> {
    if object.is_deleting() {
        return Ok(None);
    }
    let name = object.name().to_string();
    object.set_meta("deletionTimestamp", moment(by.at));
    let mut finalizers: Vec<String> = object.finalizers().into_iter().map(String::from).collect();
    finalizers.push(CLEANUP.into());
    object.set_finalizers(&finalizers);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut object, "Terminating", "InstanceDeletionPending", message, by.at);
    let going = store.put(by, &id(), &name, object.clone())?;

    let group = text(&object, &["spec", "group"]);
    let plural = text(&object, &["spec", "names", "plural"]);
    let Some(collection) = store.find(group, plural).filter(|found| found.resource.shape.is_none()) else {
        finish(store, by, group, plural)?;
        return Ok(Some(going));
    };
    let resource = collection.resource.clone();
    let keys: Vec<String> = collection.objects.keys().map(|key| key.to_string()).collect();
    let options = DeleteOptions { propagation_policy: Some(Propagation::Background), ..DeleteOptions::default() };
    for key in &keys {
        let (namespace, name) = key_parts(key);
        let version = resource.storage_version.clone();
        let target = Target { resource: resource.clone(), version, namespace: namespace.into(), name: name.into() };
        delete(store, by, &target, &options)?;
    }
    if keys.is_empty() {
        finish(store, by, group, plural)?;
    }
    Ok(Some(going))
}

/// Lets a deleted definition go once the last of its objects is gone.
pub(crate) fn finish(store: &mut Store, by: &Cause<'_>, group: &str, plural: &str) -> Answer<()> {
    let name = format!("{plural}.{group}");
    let Some(stored) = store.get(&id(), &name) else { return Ok(()) };
    let left = store.find(group, plural).filter(|collection| collection.resource.shape.is_none());
    let empty = left.is_none_or(|collection| collection.objects.is_empty());
    let mut object = stored.object()?;
    if !object.is_deleting() || !empty {
        return Ok(());
    }
    let kept: Vec<String> = object.finalizers().into_iter().filter(|name| *name != CLEANUP).map(String::from).collect();
    object.set_finalizers(&kept);
    match kept.as_slice() {
        [] => store.remove(by, &id(), &name, object)?,
        _ => store.put(by, &id(), &name, object)?,
    };
    Ok(())
}

fn set_condition(object: &mut Object, kind: &str, reason: &str, message: &str, at: Timestamp) {
    let condition = json!({ "type": kind, "status": "True", "reason": reason, "message": message });
    conditions::set(child(object, "status"), condition, at);
}

/// The rules of definitions themselves.
pub(crate) struct DefinitionRules;

impl Rules for DefinitionRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "conversion", json!({ "strategy": "None" }));
        let names = child(spec, "names");
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_string();
        if !kind.is_empty() {
            fill(names, "singular", kind.to_lowercase());
            fill(names, "listKind", format!("{kind}List"));
        }
    }

    fn prepare_create(&self, object: &mut Object, now: Timestamp) {
        let names = at(object, &["spec", "names"]).cloned().unwrap_or_default();
        object.insert("status".into(), json!({ "acceptedNames": names, "storedVersions": [] }));
        note_stored_version(object);
        set_condition(object, "NamesAccepted", "NoConflicts", "no conflicts found", now);
        set_condition(object, "Established", "InitialNamesAccepted", "the initial names have been accepted", now);
    }

    fn prepare_update(&self, new: &mut Object, _old: &Object) {
        let names = at(new, &["spec", "names"]).cloned().unwrap_or_default();
        child(new, "status").insert("acceptedNames".into(), names);
        note_stored_version(new);
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        definition_rules::validate(object, errors);
        definition_rules::validate_stored_versions(object, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        definition_rules::validate_update(new, old, errors);
    }
}

/// Remembers every version that objects may be stored in.
fn note_stored_version(object: &mut Object) {
    let versions = at(object, &["spec", "versions"]).and_then(Value::as_array);
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| version["name"].clone()) else { return };
    let stored = child(object, "status").entry("storedVersions").or_insert_with(|| json!([]));
    if let Value::Array(stored) = stored
        && !stored.contains(&name)
    {
        stored.push(name);
    }
}

/// One version of a custom kind.
struct Version {
    schema: Schema,
    /// The schema as it was declared.
    declared: Value,
    columns: Vec<Column>,
    has_status: bool,
    scale: Option<Paths>,
    deprecation: Option<String>,
}

impl Version {
    fn new(declared: &Value, deprecation: Option<String>) -> Self {
        let schema = &declared["schema"]["openAPIV3Schema"];
        let has = |part: &str| !declared["subresources"][part].is_null();
        Version {
            schema: Schema::parse(schema),
            declared: schema.clone(),
            columns: Column::all(declared),
            has_status: has("status"),
            scale: Paths::of_definition(&declared["subresources"]["scale"]),
            deprecation,
        }
    }
}

/// The rules of the objects of a custom kind.
struct CustomRules {
    status: bool,
    versions: BTreeMap<String, Version>,
}

impl Rules for CustomRules {
    fn kind_type(&self, version: &str) -> Option<KindType> {
        self.versions.get(version).and_then(|version| KindType::of_custom(&version.declared))
    }

    fn prune(&self, version: &str, object: &mut Object) {
        if let Some(version) = self.versions.get(version) {
            version.schema.prune_root(object);
        }
    }

    fn unknown_fields(&self, version: &str, object: &Object) -> Vec<String> {
        self.versions.get(version).map(|version| version.schema.unknown_fields(object)).unwrap_or_default()
    }

    fn fill_defaults(&self, version: &str, object: &mut Object) {
        if let Some(version) = self.versions.get(version) {
            version.schema.fill_root(object);
        }
    }

    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        if self.status {
            object.remove("status");
        }
    }

    /// Everything but the status stays, its labels and annotations, too.
    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        let status = new.remove("status");
        *new = old.clone();
        match status {
            Some(status) => new.insert("status".into(), status),
            None => new.remove("status"),
        };
    }

    fn has_status(&self, version: &str) -> Option<bool> {
        self.versions.get(version).map(|version| version.has_status)
    }

    fn deprecation(&self, version: &str) -> Option<String> {
        self.versions.get(version)?.deprecation.clone()
    }

    fn has_scale(&self, version: &str) -> bool {
        self.scale(version).is_some()
    }

    fn scale(&self, version: &str) -> Option<Paths> {
        self.versions.get(version)?.scale.clone()
    }

    fn columns(&self, version: &str) -> Option<&[Column]> {
        self.versions.get(version).map(|version| version.columns.as_slice())
    }

    fn judge(&self, version: &str, new: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) -> Vec<String> {
        let Some(version) = self.versions.get(version) else { return vec![] };
        version.schema.validate_root(new, old, errors);
        version.check_further(new, errors);
        version.judge(new, old, errors)
    }

    fn judge_status(&self, version: &str, new: &Object, old: &Object, errors: &mut Vec<FieldError>) -> Vec<String> {
        let Some(version) = self.versions.get(version) else { return vec![] };
        version.schema.validate_status(new, Some(old), errors);
        version.check_further(new, errors);
        version.judge(new, Some(old), errors)
    }
}

impl Version {
    /// What is checked beside the schema: objects inside of the object, and how many replicas it wants and has.
    fn check_further(&self, new: &Object, errors: &mut Vec<FieldError>) {
        for (name, value) in new.iter().filter(|(name, _)| *name != "metadata") {
            self.schema.validate_embedded_field(name, value, errors);
        }
        if let Some(paths) = &self.scale {
            paths.check(new, errors);
        }
    }

    fn judge(&self, new: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) -> Vec<String> {
        if !self.schema.has_rules() {
            return vec![];
        }
        if errors.iter().any(FieldError::blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            errors.push(FieldError::invalid("<nil>", &Value::Null, why));
            return vec![];
        }
        let verdict = self.schema.judge_root(new, old);
        errors.extend(verdict.errors);
        verdict.warnings
    }
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn stable_versions_come_before_beta_and_alpha_ones() {
        let mut versions = ["foo", "v1alpha1", "v1", "v2beta1", "v10", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
