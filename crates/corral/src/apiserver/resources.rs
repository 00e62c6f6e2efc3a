//! The kinds that are served: their names, and the rules that each follows.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    builtin::shapes,
    builtin::shapes::LazyShape,
    fields::KindType,
    forms::{self, Form},
    object::{Meta, Object, at, take_from},
    packed::Packed,
    scale::Paths,
    schema::shape::METADATA,
    status::{Answer, FieldError},
    store::{Cause, Store},
    table::Column,
};

/// A resource by its group, its plural as in URLs, and its kind as in objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceId {
    pub group: String,
    pub plural: String,
    pub kind: String,
}

impl ResourceId {
    pub fn new(group: &str, plural: &str, kind: &str) -> Self {
        ResourceId { group: group.into(), plural: plural.into(), kind: kind.into() }
    }

    /// `pods`, `jobs.batch`
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// When a change raises `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Generation {
    /// The kind has none.
    Never,
    /// When the spec changes.
    OnSpec,
    /// When the spec or an annotation changes: annotations go on to what is made from it.
    OnSpecOrAnnotations,
    /// When anything outside metadata and status changes, or also in status where it is an ordinary field.
    OnContent,
}

/// What a delete does to dependents if its options do not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dependents {
    Delete,
    Orphan,
    /// The kind has none, so options about them are ignored.
    None,
}

/// What names the objects of a kind may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Naming {
    Subdomain,
    Label,
    /// A label that begins with a letter, for names that become names of hosts in an older sense.
    ServiceLabel,
    /// Whatever can stand between two slashes of a path.
    PathSegment,
}

/// A kind that is served.
pub(crate) struct Resource {
    pub id: ResourceId,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub list_kind: String,
    /// Served versions, the most preferred one first.
    pub versions: Vec<String>,
    /// The version that objects are stored in.
    pub storage_version: String,
    pub namespaced: bool,
    pub naming: Naming,
    /// Whether `/status` exists, and the main endpoint therefore ignores status.
    pub status: bool,
    pub generation: Generation,
    pub dependents: Dependents,
    /// Whether a PUT of something that does not exist creates it.
    pub create_on_update: bool,
    /// Whether a PUT may leave out the resourceVersion.
    pub unconditional_update: bool,
    /// Whether a delete answers with the object rather than with a Status.
    pub returns_deleted: bool,
    /// What objects look like, if that is known beforehand.
    pub shape: Option<&'static LazyShape>,
    pub rules: Arc<dyn Rules>,
    /// How the fields of each version are merged, once that was asked for.
    pub kind_types: OnceLock<BTreeMap<String, KindType>>,
}

impl Resource {
    pub fn api_version(&self, version: &str) -> String {
        if self.id.group.is_empty() { version.into() } else { format!("{}/{version}", self.id.group) }
    }

    pub fn stored_api_version(&self) -> String {
        self.api_version(&self.storage_version)
    }

    /// Where the original keeps the objects of this kind.
    pub fn stored_under(&self) -> String {
        match self.id.qualified().as_str() {
            "nodes" => "minions".into(),
            "services" => "services/specs".into(),
            "endpoints" => "services/endpoints".into(),
            "replicationcontrollers" => "controllers".into(),
            _ if self.shape.is_none() => format!("{}/{}", self.id.group, self.id.plural),
            _ => self.id.plural.clone(),
        }
    }

    /// What objects look like in a version.
    pub fn shape_in(&self, version: &str) -> Option<&'static LazyShape> {
        match self.form(version) {
            Some(form) => shapes::of(form.shape),
            None => self.shape,
        }
    }

    /// The form in which a version shows objects, if it is not the one in which they are kept.
    pub fn form(&self, version: &str) -> Option<&'static Form> {
        if version == self.storage_version || self.shape.is_none() {
            return None;
        }
        forms::of(&self.api_version(version), &self.id.kind)
    }

    /// The served version that objects call by this name.
    pub fn version_of(&self, api_version: &str) -> Option<&str> {
        self.versions.iter().map(String::as_str).find(|version| self.api_version(version) == api_version)
    }

    /// Makes an object look as those of this kind do, or says what has a wrong type.
    pub fn conform(&self, version: &str, object: &mut Object) -> Result<(), String> {
        self.conform_applied(version, object)?;
        if self.shape_in(version).is_none() {
            self.rules.prune(version, object);
        }
        Ok(())
    }

    /// The same for what was applied: that has no unknown fields, and in custom kinds a null in it stays.
    pub fn conform_applied(&self, version: &str, object: &mut Object) -> Result<(), String> {
        // An empty list asks to forget all managers, and would be dropped like any other empty field.
        if object.get("metadata").is_some_and(|meta| meta["managedFields"].as_array().is_some_and(Vec::is_empty)) {
            object.set_meta("managedFields", json!([{}]));
        }
        if let Some(shape) = self.shape_in(version) {
            return shape.conform(object);
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            METADATA.conform(metadata)?;
        }
        Ok(())
    }

    /// The same for what a strategic merge patch has come to.
    pub fn restore(&self, version: &str, object: &mut Object) -> Result<(), String> {
        match self.shape_in(version) {
            Some(shape) => shape.restore(object),
            None => self.conform(version, object),
        }
    }

    /// The fields of an object that its kind does not have.
    pub fn unknown_fields(&self, version: &str, object: &Object) -> Vec<String> {
        if let Some(shape) = self.shape_in(version) {
            return shape.unknown_fields(object);
        }
        let mut unknown = vec![];
        if let Some(metadata) = object.get("metadata") {
            METADATA.find_unknown("metadata", metadata, &mut unknown);
        }
        unknown.extend(self.rules.unknown_fields(version, object));
        unknown
    }

    /// How the fields of a version are merged; none if its schema is not known.
    pub fn kind_type(&self, version: &str) -> Option<&KindType> {
        let read = || {
            let known = |version: &String| {
                let found = match self.shape {
                    Some(_) => {
                        let own = (self.id.group.as_str(), version.as_str());
                        let (group, version) = version.split_once('/').unwrap_or(own);
                        KindType::of_built_in(group, version, &self.id.kind)
                    }
                    None => self.rules.kind_type(version),
                };
                Some((version.clone(), found?))
            };
            self.versions.iter().filter_map(known).collect()
        };
        self.kind_types.get_or_init(read).get(version)
    }

    /// What is said to everybody who still uses a version.
    pub fn deprecation(&self, version: &str) -> Option<String> {
        if self.shape.is_some() {
            let outdated = self.id.group.is_empty() && self.id.plural == "endpoints";
            let why = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
            return outdated.then(|| why.into());
        }
        self.rules.deprecation(version)
    }

    pub fn serves(&self, version: &str) -> bool {
        self.versions.iter().any(|served| served == version)
    }
}

/// What is particular to a kind. Everything has a default, since most kinds are ordinary in most ways.
pub(crate) trait Rules: Send + Sync {
    /// Drops what the kind does not have, for kinds without a shape.
    fn prune(&self, _version: &str, _object: &mut Object) {}

    /// What [`Rules::prune`] would drop.
    fn unknown_fields(&self, _version: &str, _object: &Object) -> Vec<String> {
        vec![]
    }

    /// How the fields of a version are merged, for kinds without a shape.
    fn kind_type(&self, _version: &str) -> Option<KindType> {
        None
    }

    /// Fills in what users may leave out.
    fn fill_defaults(&self, _version: &str, _object: &mut Object) {}

    /// Sets what only the server may set on a new object, after its name and uid are known.
    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        object.remove("status");
    }

    /// Where its objects keep how many replicas they want and have.
    fn scale(&self, _version: &str) -> Option<Paths> {
        None
    }

    /// Puts back what an update of the main resource may not change.
    fn prepare_update(&self, _new: &mut Object, _old: &Object) {}

    /// Puts back what an update of the status may not change: for built-in kinds the spec, while labels and
    /// annotations may change.
    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        take_from(new, "spec", old);
    }

    /// Puts back what an update of a named part may not change.
    fn prepare_part(&self, _part: &str, _new: &mut Object, _old: &Object) {}

    /// What is wrong with an object, whether new or changed.
    fn validate(&self, _version: &str, _object: &Object, _errors: &mut Vec<FieldError>) {}

    /// What is wrong with an object by the schema of its kind, beyond what was already wrong with the old one. That is
    /// only warned of.
    fn judge(
        &self,
        _version: &str,
        _new: &Object,
        _old: Option<&Object>,
        _errors: &mut Vec<FieldError>,
    ) -> Vec<String> {
        vec![]
    }

    /// The same for a change of the status of a custom kind.
    fn judge_status(&self, _version: &str, _new: &Object, _old: &Object, _errors: &mut Vec<FieldError>) -> Vec<String> {
        vec![]
    }

    /// Sets what follows from other objects on a new one, or refuses it because of them.
    fn admit(&self, _store: &Store, _object: &mut Object) -> Answer<()> {
        Ok(())
    }

    /// Takes what an object needs of what there is only so much of, right before it is stored.
    fn allocate(&self, _store: &mut Store, _cause: &Cause<'_>, _object: &mut Object) -> Answer<()> {
        Ok(())
    }

    /// What is wrong with the status of a built-in kind.
    fn validate_status(&self, _new: &Object, _old: &Object, _errors: &mut Vec<FieldError>) {}

    /// What is wrong with a change of a named part.
    fn validate_part(&self, _part: &str, _new: &Object, _old: &Object, _errors: &mut Vec<FieldError>) {}

    /// What is wrong with a change that is made through a version.
    fn validate_change(&self, _version: &str, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        self.validate_update(new, old, errors);
    }

    /// What is wrong with a change.
    fn validate_update(&self, _new: &Object, _old: &Object, _errors: &mut Vec<FieldError>) {}

    /// Whether the original shows a new object with more than it has kept of it: then the first update keeps it anew,
    /// even one that changes nothing.
    fn is_shown_with_more(&self, _created: &Object) -> bool {
        false
    }

    /// Whether something of its own keeps an object that was deleted, beside finalizers and time.
    fn is_held(&self, _object: &Object) -> bool {
        false
    }

    /// Fields that field selectors can ask for, beside name and namespace.
    fn selectable(&self) -> &[&'static str] {
        &[]
    }

    /// The values of those fields, in the same order.
    fn fields(&self, object: &Object) -> Packed {
        if self.selectable().is_empty() {
            return Packed::default();
        }
        let value = |field: &&str| match at(object, &field.split('.').collect::<Vec<_>>()) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(truth)) => truth.to_string(),
            _ => String::new(),
        };
        let values: Vec<_> = self.selectable().iter().map(value).collect();
        Packed::from_values(values.iter().map(String::as_str))
    }

    /// What a definition says to those who use a version that will go.
    fn deprecation(&self, _version: &str) -> Option<String> {
        None
    }

    /// Whether a version of a custom kind has `/status`.
    fn has_status(&self, _version: &str) -> Option<bool> {
        None
    }

    /// Whether a version of a custom kind has `/scale`.
    fn has_scale(&self, _version: &str) -> bool {
        false
    }

    /// The columns that a custom kind is shown in.
    fn columns(&self, _version: &str) -> Option<&[Column]> {
        None
    }

    /// How many seconds an object has to end by itself before it may be removed, given what was asked for. None for
    /// kinds that are removed at once.
    fn grace_period(&self, _object: &Object, _asked: Option<i64>) -> Option<i64> {
        None
    }
}
