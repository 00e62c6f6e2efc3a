//! The `scale` of an object: how many replicas it wants and has, as an `autoscaling/v1` Scale, whatever its kind calls
//! them.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{
    builtin,
    fields::{
        BEFORE_FIRST, Conflict,
        managers::{Manager, ManagerId, Managers},
        set::FieldSet,
        step,
    },
    gotext::{printed, type_name},
    object::{Meta, Object, at, child, text},
    resources::Resource,
    status::{Answer, FieldError, internal, invalid, no_such_resource, not_found},
    store::Store,
    verbs::{
        Target,
        apply::conflict_status,
        update::{self, Part},
    },
    write::{Draft, Write},
};

/// The version that all scales are of.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where a kind keeps what its scale shows, as names of fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Paths {
    pub spec: Vec<String>,
    pub status: Vec<String>,
    /// Where a selector stands as text; for built-in kinds it is made from `spec.selector`.
    pub selector: Option<Vec<String>>,
}

impl Paths {
    /// From `subresources.scale` of a definition.
    pub fn of_definition(scale: &Value) -> Option<Self> {
        let path = |field: &str| -> Option<Vec<String>> {
            let path = scale[field].as_str()?.strip_prefix('.')?;
            Some(path.split('.').map(String::from).collect())
        };
        Some(Paths {
            spec: path("specReplicasPath")?,
            status: path("statusReplicasPath")?,
            selector: path("labelSelectorPath"),
        })
    }

    /// None for kinds that cannot be scaled.
    pub fn of(target: &Target) -> Option<Self> {
        let id = &target.resource.id;
        let is_built_in = matches!(
            (id.group.as_str(), id.plural.as_str()),
            ("apps", "deployments" | "replicasets" | "statefulsets") | ("", "replicationcontrollers")
        );
        let replicas = |part: &str| vec![part.to_string(), "replicas".into()];
        match is_built_in {
            true => Some(Paths { spec: replicas("spec"), status: replicas("status"), selector: None }),
            false => target.resource.rules.scale(&target.version),
        }
    }

    /// The replicas that a custom object wants have to stand in it before its scale can be read.
    pub fn check_stated(&self, target: &Target, object: &Object) -> Answer<()> {
        if target.resource.shape.is_some() || self.is_stated(object) {
            return Ok(());
        }
        Err(internal(&format!("the spec replicas field {:?} does not exist", self.shown_path())))
    }

    pub fn is_stated(&self, object: &Object) -> bool {
        at(object, &self.spec.iter().map(String::as_str).collect::<Vec<_>>()).is_some()
    }

    /// `.spec.replicas`
    pub fn shown_path(&self) -> String {
        format!(".{}", self.spec.join("."))
    }

    fn number(&self, object: &Object, path: &[String]) -> i64 {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        at(object, &path).and_then(Value::as_i64).unwrap_or_default()
    }

    /// What is wrong with the numbers of a custom object.
    pub fn check(&self, object: &Object, errors: &mut Vec<FieldError>) {
        for path in [&self.spec, &self.status] {
            let field = format!(".{}", path.join("."));
            match number_at(object, path) {
                Ok(number) if number < 0 => {
                    errors.push(FieldError::invalid(field, &json!(number), "should be a non-negative integer"));
                }
                Ok(_) => {}
                Err(why) => {
                    let why = format!("{field} accessor error: {why}");
                    errors.push(FieldError::invalid(field, &json!(0), &why));
                }
            }
        }
    }

    /// The scale of an object.
    pub fn show(&self, object: &Object) -> Value {
        let mut metadata = json!({ "name": object.name() });
        for name in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.meta(name) {
                metadata[name] = value.clone();
            }
        }
        let replicas = self.number(object, &self.spec);
        let spec = if replicas == 0 { json!({}) } else { json!({ "replicas": replicas }) };
        let mut status = json!({ "replicas": self.number(object, &self.status) });
        let selector = match &self.selector {
            Some(path) => text(object, &path.iter().map(String::as_str).collect::<Vec<_>>()).to_string(),
            None => at(object, &["spec", "selector"]).map(selector_text).unwrap_or_default(),
        };
        if !selector.is_empty() {
            status["selector"] = json!(selector);
        }
        json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status })
    }

    /// What a scale asks for, once it was found to be one.
    pub fn wanted(&self, target: &Target, scale: &Object) -> Answer<Wanted> {
        let replicas = at(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or_default();
        // Custom objects have checks of their own for it.
        if replicas < 0 && target.resource.shape.is_some() {
            let why = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &json!(replicas), why);
            return Err(invalid("autoscaling", "Scale", &target.name, &[error]));
        }
        let (version, uid) = (scale.resource_version().to_string(), scale.uid().to_string());
        Ok(Wanted { path: self.spec.clone(), replicas, version, uid, applied: false })
    }
}

/// The number at a path, 0 where there is none, or what stands in its way.
fn number_at(object: &Object, path: &[String]) -> Result<i64, String> {
    let misfit = |value: &Value, wanted: &str| {
        format!("{} is of the type {}, expected {wanted}", printed(value), type_name(value))
    };
    let Some((last, above)) = path.split_last() else { return Ok(0) };
    let mut fields = object;
    for name in above {
        match fields.get(name) {
            None | Some(Value::Null) => return Ok(0),
            Some(Value::Object(below)) => fields = below,
            Some(other) => return Err(misfit(other, "map[string]interface{}")),
        }
    }
    match fields.get(last) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_i64().ok_or_else(|| misfit(value, "int64")),
    }
}

/// How many replicas an object is to have, where it keeps that, and which object it has to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    path: Vec<String>,
    replicas: i64,
    version: String,
    uid: String,
    /// Whether it is stated by an apply.
    applied: bool,
}

impl Wanted {
    pub fn by_apply(self) -> Self {
        Wanted { applied: true, ..self }
    }
}

/// The kind of all scales.
pub(crate) fn kind() -> &'static Arc<Resource> {
    static KIND: LazyLock<Arc<Resource>> = LazyLock::new(|| Arc::new(builtin::scale()));
    &KIND
}

pub(crate) fn draft(store: &Store, write: &Write<'_>, wanted: &Wanted) -> Answer<Draft> {
    let target = write.target;
    let Some(current) = store.get(&target.resource.id, &target.key()).cloned() else {
        return Err(not_found(&target.resource.id, &target.name));
    };
    let old = current.shared()?;
    update::check_uid(write, &old, &wanted.uid)?;
    let mut new = Object::clone(&old);
    let had = {
        let (name, above) = wanted.path.split_last().ok_or_else(no_such_resource)?;
        let parent = above.iter().fold(&mut new, |parent, name| child(parent, name));
        let before = parent.insert(name.clone(), json!(wanted.replicas));
        before.and_then(|before| before.as_i64()).unwrap_or_default()
    };
    if !wanted.version.is_empty() {
        new.set_meta("resourceVersion", wanted.version.clone());
    }
    manage(write, wanted, had, &mut new)?;
    update::drafted(write, Part::Main, current, old, new)
}

/// Whoever sets the replicas manages them, by way of the scale; a scale of none says nothing, and so nobody does.
///
/// The original shows the managers of the replicas as managers of a scale, tracks the write among them, and takes them
/// back. Its names for those that update hold the version, and so none of them is known again on the way back: the
/// replicas leave the entry that they stood in, and come back as an entry of their own, even if nothing has changed.
fn manage(write: &Write<'_>, wanted: &Wanted, had: i64, object: &mut Object) -> Answer<()> {
    let resource = &write.target.resource;
    let version = resource.api_version(&write.target.version);
    let path: Vec<String> = wanted.path.iter().map(|name| step::field(name)).collect();
    let mut replicas = FieldSet::default();
    replicas.insert(&path);
    let Some(mut managers) = Managers::read(object.meta("managedFields").cloned()) else { return Ok(()) };
    managers.0.retain(|manager| resource.serves(manager.version.rsplit('/').next().unwrap_or_default()));

    let mut of_scale = of_scale(&managers, &replicas);
    track(write, wanted, had, &mut of_scale)?;
    for manager in &mut managers.0 {
        let is_known_again = of_scale.iter().position(|id| *id == manager.id);
        match is_known_again.filter(|_| manages(manager, &replicas)) {
            Some(place) => drop(of_scale.remove(place)),
            None => manager.fields = std::mem::take(&mut manager.fields).difference(&replicas),
        }
    }
    managers.0.retain(|manager| !manager.fields.is_empty());
    for id in of_scale {
        let time = managers.get(&id).and_then(|known| known.time.clone());
        managers.put(Manager { id, version: version.clone(), time, fields: replicas.clone() });
    }
    match managers.write() {
        Some(entries) => object.set_meta("managedFields", entries),
        None => drop(object.meta_mut().remove("managedFields")),
    }
    Ok(())
}

fn manages(manager: &Manager, replicas: &FieldSet) -> bool {
    !manager.fields.intersection(replicas).is_empty()
}

/// Those who manage the replicas, as managers of a scale.
fn of_scale(managers: &Managers, replicas: &FieldSet) -> Vec<ManagerId> {
    let found = managers.0.iter().filter(|manager| manages(manager, replicas));
    found.map(|Manager { id, .. }| ManagerId::new(&id.name, id.applies, SCALE_VERSION, &id.subresource)).collect()
}

/// Notes among the managers of a scale who has written it.
fn track(write: &Write<'_>, wanted: &Wanted, had: i64, managers: &mut Vec<ManagerId>) -> Answer<()> {
    let changed = had != wanted.replicas;
    let writer = ManagerId::new(write.manager, wanted.applied, SCALE_VERSION, "scale");
    if wanted.applied {
        if managers.is_empty() && had != 0 {
            managers.push(ManagerId::new(BEFORE_FIRST, false, SCALE_VERSION, "scale"));
        }
        let others = || managers.iter().filter(|manager| **manager != writer);
        if changed && !write.options.force.unwrap_or_default() && others().next().is_some() {
            let path = format!(".{}", wanted.path.join("."));
            let conflict = |manager: &ManagerId| Conflict { manager: manager.clone(), path: path.clone() };
            return Err(conflict_status(&others().map(conflict).collect::<Vec<_>>()));
        }
    } else if managers.is_empty() {
        // What was never tracked stays so.
        return Ok(());
    }
    if changed {
        managers.retain(|manager| wanted.applied && *manager == writer);
    }
    if (changed || wanted.applied) && wanted.replicas != 0 && !managers.contains(&writer) {
        managers.push(writer);
    }
    Ok(())
}

/// A selector of an object as it would stand in a URL.
fn selector_text(selector: &Value) -> String {
    // Older kinds have the labels alone.
    let labels = if selector["matchLabels"].is_null() && selector["matchExpressions"].is_null() {
        selector
    } else {
        &selector["matchLabels"]
    };
    let equal = labels.as_object().into_iter().flatten();
    let mut parts: Vec<_> =
        equal.map(|(label, value)| format!("{label}={}", value.as_str().unwrap_or_default())).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<_> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_string(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_shown_as_a_url_would_have_it() {
        let selector = json!({
            "matchLabels": { "app": "web" },
            "matchExpressions": [
                { "key": "tier", "operator": "In", "values": ["b", "a"] },
                { "key": "old", "operator": "DoesNotExist" },
            ],
        });
        assert_eq!(selector_text(&selector), "!old,app=web,tier in (a,b)");
        assert_eq!(selector_text(&json!({ "app": "web" })), "app=web");
    }

    #[test]
    fn a_definition_names_the_fields_that_its_scale_shows() {
        let declared = json!({ "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready" });
        let paths = Paths::of_definition(&declared).unwrap();
        let object = json!({ "metadata": { "name": "a" }, "spec": { "size": 3 }, "status": { "ready": 2 } });
        let shown = paths.show(object.as_object().unwrap());
        assert_eq!((&shown["spec"]["replicas"], &shown["status"]["replicas"]), (&json!(3), &json!(2)));
    }
}
