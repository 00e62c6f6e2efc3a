//! How the parts of an object are merged, from the OpenAPI schema of its kind: which lists are maps by another name,
//! which are sets, and what is taken as a whole.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A type by its place among all types of a schema, since types refer to each other and to themselves.
pub(crate) type TypeId = usize;

/// What a value may be: one, two or all three of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Type {
    pub scalar: Option<Scalar>,
    pub list: Option<ListType>,
    pub map: Option<MapType>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListType {
    pub elements: Elements,
    pub element: TypeId,
}

/// What tells the elements of a list apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Elements {
    /// Nothing: the list is taken as a whole.
    Whole,
    Values,
    Keys(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MapType {
    pub fields: BTreeMap<String, Field>,
    /// The type of fields that are not named; none if there are no others.
    pub others: Option<TypeId>,
    /// Whether it is taken as a whole.
    pub whole: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub id: TypeId,
    pub default: Option<Value>,
    /// How a strategic merge patch treats it.
    pub patch: PatchStrategy,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PatchStrategy {
    /// Whether a map is replaced.
    pub replaces: bool,
    /// Whether a list is merged, by this field of its elements if there is one.
    pub merges: bool,
    pub key: Option<String>,
}

/// The types of one document of schemas.
#[derive(Debug)]
pub(crate) struct Types {
    all: Vec<Type>,
    names: BTreeMap<String, TypeId>,
    /// By group, version and kind.
    kinds: BTreeMap<(String, String, String), TypeId>,
}

/// Anything, taken as a whole.
const UNTYPED: TypeId = 0;
/// Anything: maps field by field, lists as a whole.
const DEDUCED: TypeId = 1;

impl Types {
    /// Reads the schemas of an OpenAPI document, by name.
    pub fn read(document: &[u8]) -> Option<Self> {
        let document: Document = serde_json::from_slice(document).ok()?;
        Some(Types::build(&document.components.schemas))
    }

    fn build(schemas: &BTreeMap<String, Schema>) -> Self {
        let mut builder = Builder { schemas, all: common(), names: BTreeMap::new(), wholes: BTreeMap::new() };
        let mut kinds = BTreeMap::new();
        for (name, schema) in schemas {
            let id = builder.named(name);
            for kind in &schema.kinds {
                kinds.insert((kind.group.clone(), kind.version.clone(), kind.kind.clone()), id);
            }
        }
        let Builder { all, names, .. } = builder;
        Types { all, names, kinds }
    }

    /// The types of a custom kind: its schema, with the metadata that every object has. The second is its root.
    pub fn of_custom(schema: &Value, metadata: &[u8]) -> Option<(Self, TypeId)> {
        const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let document: Document = serde_json::from_slice(metadata).ok()?;
        let mut schemas = document.components.schemas;
        let mut root = schema.clone();
        add_identity(&mut root, true);
        schemas.insert("root".into(), serde_json::from_value(root).ok()?);
        // Of the document only the metadata is needed.
        let mut kept = BTreeMap::new();
        let mut wanted = vec!["root".to_string(), META.to_string()];
        while let Some(name) = wanted.pop() {
            if let Some(schema) = schemas.remove(&name) {
                schema.references(&mut wanted);
                kept.insert(name, schema);
            }
        }
        let types = Types::build(&kept);
        let root = *types.names.get("root")?;
        Some((types, root))
    }

    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(&(group.into(), version.into(), kind.into())).copied()
    }

    pub(super) fn get(&self, id: TypeId) -> &Type {
        // Ids come from here, and the first type always exists.
        self.all.get(id).unwrap_or(&self.all[UNTYPED])
    }
}

/// Custom resources, and resources inside them, say what they are without their schema having to mention it.
fn add_identity(schema: &mut Value, is_root: bool) {
    let Value::Object(node) = schema else { return };
    let is_resource = is_root || node.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    for part in ["items", "additionalProperties"] {
        if let Some(part) = node.get_mut(part) {
            add_identity(part, false);
        }
    }
    if is_resource {
        let properties = crate::apiserver::object::child(node, "properties");
        for name in ["apiVersion", "kind"] {
            properties.insert(name.into(), serde_json::json!({ "type": "string" }));
        }
        let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        properties.insert("metadata".into(), serde_json::json!({ "$ref": metadata }));
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(|schema| add_identity(schema, false));
    }
}

/// The two types that take anything.
fn common() -> Vec<Type> {
    let anything = |whole: bool, id: TypeId| Type {
        scalar: Some(Scalar::Any),
        list: Some(ListType { elements: Elements::Whole, element: UNTYPED }),
        map: Some(MapType { fields: BTreeMap::new(), others: Some(id), whole }),
    };
    vec![anything(true, UNTYPED), anything(false, DEDUCED)]
}

#[derive(Deserialize)]
struct Document {
    components: Components,
}

#[derive(Deserialize)]
struct Components {
    schemas: BTreeMap<String, Schema>,
}

/// What matters here of a schema; the rest is not even read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "allOf")]
    all_of: Vec<Schema>,
    #[serde(rename = "type")]
    kind: Option<String>,
    format: Option<String>,
    default: Option<Value>,
    properties: Option<BTreeMap<String, Schema>>,
    #[serde(rename = "additionalProperties")]
    additional: Option<Additional>,
    items: Option<Box<Schema>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserves_unknown: bool,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Option<String>,
    #[serde(rename = "x-kubernetes-patch-strategy")]
    patch_strategy: Option<String>,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    merge_key: Option<String>,
    #[serde(rename = "x-kubernetes-group-version-kind", deserialize_with = "kinds")]
    kinds: Vec<Kind>,
}

/// One kind or several; in operations it is one, in schemas a list.
fn kinds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Kind>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[derive(Clone, Debug, Deserialize)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Additional {
    Allowed(bool),
    Like(Box<Schema>),
}

impl Schema {
    /// The schema that this one stands for, with or without additions of its own.
    fn target(&self) -> Option<&str> {
        let reference = match (&self.reference, self.all_of.as_slice()) {
            (Some(reference), _) => reference,
            (None, [only]) => only.reference.as_ref()?,
            _ => return None,
        };
        reference.rsplit('/').next()
    }

    fn references(&self, found: &mut Vec<String>) {
        found.extend(self.target().map(String::from));
        let parts = self.properties.iter().flat_map(BTreeMap::values).chain(self.items.as_deref());
        parts.for_each(|part| part.references(found));
        if let Some(Additional::Like(schema)) = &self.additional {
            schema.references(found);
        }
    }
}

struct Builder<'a> {
    schemas: &'a BTreeMap<String, Schema>,
    all: Vec<Type>,
    names: BTreeMap<String, TypeId>,
    /// Types that are taken as a whole, or not, only where they are used so.
    wholes: BTreeMap<(TypeId, bool), TypeId>,
}

impl Builder<'_> {
    fn named(&mut self, name: &str) -> TypeId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.all.len();
        // Noted before it is read, since it may refer to itself.
        self.names.insert(name.into(), id);
        self.all.push(Type::default());
        let schemas = self.schemas;
        let read = match (name, schemas.get(name)) {
            ("io.k8s.apimachinery.pkg.api.resource.Quantity", _) => {
                Type { scalar: Some(Scalar::Any), ..Type::default() }
            }
            ("io.k8s.apimachinery.pkg.runtime.RawExtension", _) | (_, None) => common().swap_remove(UNTYPED),
            (_, Some(schema)) => self.read(schema, false),
        };
        self.all[id] = read;
        id
    }

    fn refer(&mut self, schema: &Schema, preserves_unknown: bool) -> TypeId {
        let Some(target) = schema.target() else {
            let read = self.read(schema, preserves_unknown);
            self.all.push(read);
            return self.all.len() - 1;
        };
        let id = self.named(target);
        match schema.map_type.as_deref() {
            Some(how) => self.as_whole(id, how == "atomic"),
            None => id,
        }
    }

    fn as_whole(&mut self, id: TypeId, whole: bool) -> TypeId {
        if let Some(known) = self.wholes.get(&(id, whole)) {
            return *known;
        }
        let mut copy = self.all[id].clone();
        if let Some(map) = &mut copy.map {
            map.whole = whole;
        }
        if let (Some(list), true) = (&mut copy.list, whole) {
            list.elements = Elements::Whole;
        }
        self.all.push(copy);
        let new = self.all.len() - 1;
        self.wholes.insert((id, whole), new);
        new
    }

    fn read(&mut self, schema: &Schema, preserves_unknown: bool) -> Type {
        let preserves_unknown = preserves_unknown || schema.preserves_unknown;
        let scalar = |scalar| Type { scalar: Some(scalar), ..Type::default() };
        match schema.kind.as_deref() {
            Some("object") => Type { map: Some(self.map(schema, preserves_unknown)), ..Type::default() },
            Some("array") => Type { list: Some(self.list(schema, preserves_unknown)), ..Type::default() },
            Some("integer" | "number") => scalar(Scalar::Numeric),
            Some("boolean") => scalar(Scalar::Boolean),
            Some("string") => match schema.format.as_deref() {
                None | Some("" | "byte") => scalar(Scalar::Text),
                Some(_) => scalar(Scalar::Any),
            },
            _ => Type {
                scalar: Some(Scalar::Any),
                list: Some(self.list(schema, preserves_unknown)),
                map: Some(self.map(schema, preserves_unknown)),
            },
        }
    }

    fn map(&mut self, schema: &Schema, preserves_unknown: bool) -> MapType {
        let none = BTreeMap::new();
        let properties = schema.properties.as_ref().unwrap_or(&none);
        let mut fields = BTreeMap::new();
        for (name, member) in properties {
            let id = self.refer(member, preserves_unknown);
            let says = |word: &str| member.patch_strategy.iter().any(|all| all.split(',').any(|one| one == word));
            let patch =
                PatchStrategy { replaces: says("replace"), merges: says("merge"), key: member.merge_key.clone() };
            fields.insert(name.clone(), Field { id, default: member.default.clone(), patch });
        }
        let others = match &schema.additional {
            Some(Additional::Like(schema)) => Some(self.refer(schema, preserves_unknown)),
            Some(Additional::Allowed(allowed)) => allowed.then_some(DEDUCED),
            // Without a word about its fields an object may have any.
            None => (preserves_unknown || properties.is_empty()).then_some(DEDUCED),
        };
        MapType { fields, others, whole: schema.map_type.as_deref() == Some("atomic") }
    }

    fn list(&mut self, schema: &Schema, preserves_unknown: bool) -> ListType {
        let elements = match (schema.list_type.as_deref(), schema.patch_strategy.as_deref()) {
            (Some("set"), _) => Elements::Values,
            (Some("map"), _) => Elements::Keys(schema.list_keys.clone()),
            (Some(_), _) => Elements::Whole,
            (None, Some("merge" | "merge,retainKeys")) => match &schema.merge_key {
                Some(key) => Elements::Keys(vec![key.clone()]),
                None => Elements::Values,
            },
            _ => Elements::Whole,
        };
        let element = match &schema.items {
            Some(items) => self.refer(items, preserves_unknown),
            None => UNTYPED,
        };
        ListType { elements, element }
    }
}

/// Which of the forms that a type allows a value has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'a> {
    Scalar(Scalar),
    List(&'a ListType),
    Map(&'a MapType),
}

impl PartialEq for Form<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Type {
    /// The form of a value; a value of no allowed form has the first that is allowed.
    pub fn form(&self, value: Option<&Value>) -> Form<'_> {
        let fitting = match value {
            Some(Value::Array(_)) => self.list.as_ref().map(Form::List),
            Some(Value::Object(_)) => self.map.as_ref().map(Form::Map),
            Some(Value::Null) | None => None,
            Some(_) => self.scalar.map(Form::Scalar),
        };
        fitting.unwrap_or(match self {
            Type { map: Some(map), .. } => Form::Map(map),
            Type { scalar: Some(scalar), .. } => Form::Scalar(*scalar),
            Type { list: Some(list), .. } => Form::List(list),
            _ => Form::Scalar(Scalar::Any),
        })
    }
}

impl MapType {
    /// The type of a field; none if there is no such field.
    pub fn field(&self, name: &str) -> Option<TypeId> {
        self.fields.get(name).map(|field| field.id).or(self.others)
    }
}

impl ListType {
    /// The step to an element, or why it has none.
    pub fn step(&self, types: &Types, element: &Value) -> Result<String, String> {
        match (&self.elements, element) {
            (Elements::Keys(keys), Value::Object(element)) => self.keyed_step(types, keys, element),
            (Elements::Keys(_), Value::Null) => Err("associative list with keys may not have a null element".into()),
            (Elements::Keys(_), _) => Err("associative list with keys may not have non-map elements".into()),
            (Elements::Values, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            (Elements::Values, Value::Array(_)) => Err("not supported: associative list with lists as elements".into()),
            (Elements::Values, Value::Null) => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            (Elements::Values, value) => Ok(super::step::value(value)),
            (Elements::Whole, _) => Err("invalid indexing of non-associative list".into()),
        }
    }

    fn keyed_step(&self, types: &Types, keys: &[String], element: &Map<String, Value>) -> Result<String, String> {
        let mut found = Map::new();
        for key in keys {
            let default = || {
                let map = types.get(self.element).map.as_ref()?;
                map.fields.get(key)?.default.clone()
            };
            if let Some(value) = element.get(key).cloned().or_else(default) {
                found.insert(key.clone(), value);
            }
        }
        if found.is_empty() {
            let named: Vec<_> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                named.join(" ")
            ));
        }
        Ok(super::step::keys(found))
    }
}
