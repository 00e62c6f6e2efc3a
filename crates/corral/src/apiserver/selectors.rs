//! Which objects a list or watch is about: label selectors and field selectors.

use kube::core::Status;
use serde_json::Value;

use super::{
    label_selector::{self, Requirement},
    packed::Packed,
    resources::Resource,
    status::{Answer, bad_request},
    store::key_parts,
    stored::Stored,
};

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Name,
    Namespace,
    /// By its place among the selectable fields of the kind.
    Nth(usize),
}

impl Field {
    fn find(resource: &Resource, name: &str) -> Option<Self> {
        match name {
            "metadata.name" => Some(Field::Name),
            "metadata.namespace" if resource.namespaced => Some(Field::Namespace),
            name => resource.rules.selectable().iter().position(|known| *known == name).map(Field::Nth),
        }
    }
}

/// All requirements of a request; an empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selectors {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

impl Selectors {
    pub fn parse(resource: &Resource, labels: &str, fields: &str) -> Answer<Self> {
        let labels = label_selector::parse(labels).map_err(bad_request)?;
        let mut requirements = vec![];
        for (name, value, equal) in parse_fields(fields).map_err(bad_request)? {
            let Some(field) = Field::find(resource, name) else {
                return Err(unknown_field(resource, name));
            };
            requirements.push(FieldRequirement { field, value: value.into(), equal });
        }
        Ok(Selectors { labels, fields: requirements })
    }

    /// From a selector as it stands in objects: `matchLabels` and `matchExpressions`.
    pub fn from_label_selector(selector: &Value) -> Self {
        Selectors { labels: label_selector::from_object(selector), fields: vec![] }
    }

    /// Whether it selects an object with these labels, whatever its fields are.
    pub fn selects(&self, labels: &Packed) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(labels))
    }

    /// Of what they select, the object with this name.
    pub fn named(mut self, name: &str) -> Self {
        self.fields.push(FieldRequirement { field: Field::Name, value: name.into(), equal: true });
        self
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, key: &str, stored: &Stored) -> bool {
        let (namespace, name) = key_parts(key);
        self.selects(&stored.labels)
            && self.fields.iter().all(|requirement| {
                let found = match requirement.field {
                    Field::Name => name,
                    Field::Namespace => namespace,
                    Field::Nth(place) => stored.fields.nth(place),
                };
                (found == requirement.value) == requirement.equal
            })
    }
}

/// The field, the value, and whether they are to be equal, for each requirement.
fn parse_fields(text: &str) -> Result<Vec<(&str, &str, bool)>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let unequal = part.split_once("!=").map(|(field, value)| (field, value, false));
            let equal = || part.split_once("==").or_else(|| part.split_once('='));
            unequal
                .or_else(|| equal().map(|(field, value)| (field, value, true)))
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))
        })
        .collect()
}

fn unknown_field(resource: &Resource, field: &str) -> Box<Status> {
    if (resource.id.group.as_str(), resource.id.plural.as_str()) == ("batch", "jobs") {
        return bad_request(format!("field label {field:?} not supported for Job"));
    }
    let has_own = resource.shape.is_none() || !resource.rules.selectable().is_empty();
    bad_request(match has_own {
        true => format!("field label not supported: {field}"),
        false => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    })
}
