//! Which objects a list or watch is about: label selectors and field selectors.

use kube::core::Status;
use serde_json::Value;

use super::{
    packed::Packed,
    resources::Resource,
    status::{Answer, bad_request},
    store::{Stored, key_parts},
};

/// What one requirement demands of one label.
#[derive(Clone, Debug, PartialEq)]
enum Demand {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    label: String,
    demand: Demand,
}

impl Requirement {
    fn holds(&self, labels: &Packed) -> bool {
        let value = labels.get(&self.label);
        match &self.demand {
            Demand::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Demand::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Demand::Exists => value.is_some(),
            Demand::Absent => value.is_none(),
        }
    }
}

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
        let parsed_labels =
            parse_labels(labels).map_err(|why| bad_request(format!("unable to parse requirement: {why}")))?;
        let mut requirements = vec![];
        for (name, value, equal) in parse_fields(fields).map_err(bad_request)? {
            let Some(field) = Field::find(resource, name) else {
                return Err(unknown_field(resource, name));
            };
            requirements.push(FieldRequirement { field, value: value.into(), equal });
        }
        Ok(Selectors { labels: parsed_labels, fields: requirements })
    }

    /// From a selector as it stands in objects: `matchLabels` and `matchExpressions`.
    pub fn from_label_selector(selector: &Value) -> Self {
        let values = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
        };
        let equal = selector["matchLabels"].as_object().into_iter().flatten();
        let mut labels: Vec<_> = equal
            .map(|(label, value)| Requirement {
                label: label.clone(),
                demand: Demand::In(value.as_str().map(String::from).into_iter().collect()),
            })
            .collect();
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let demand = match expression["operator"].as_str() {
                Some("In") => Demand::In(values(&expression["values"])),
                Some("NotIn") => Demand::NotIn(values(&expression["values"])),
                Some("Exists") => Demand::Exists,
                Some("DoesNotExist") => Demand::Absent,
                // What is not understood selects nothing.
                _ => Demand::In(vec![]),
            };
            labels.push(Requirement { label: expression["key"].as_str().unwrap_or_default().into(), demand });
        }
        Selectors { labels, fields: vec![] }
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, key: &str, stored: &Stored) -> bool {
        let (namespace, name) = key_parts(key);
        self.labels.iter().all(|requirement| requirement.holds(&stored.labels))
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

/// `a=b, c in (d,e), !f`
fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    split_outside_parentheses(text)
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(parse_label)
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let (mut depth, mut start) = (0_i32, 0);
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_label(part: &str) -> Result<Requirement, String> {
    let requirement = |label: &str, demand| match label.trim() {
        "" => Err(format!("found '{part}', expected: identifier")),
        label if label.contains(char::is_whitespace) => Err(format!(
            "found '{}', expected: in, notin, =, ==, !=, gt, lt",
            label.split_whitespace().nth(1).unwrap_or("")
        )),
        label => Ok(Requirement { label: label.into(), demand }),
    };
    if let Some(label) = part.strip_prefix('!') {
        return requirement(label, Demand::Absent);
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values.strip_suffix(')').ok_or("found '', expected: ',' or ')'")?;
        let values = values.split(',').map(|value| value.trim().to_string()).collect();
        return match head.trim_end().rsplit_once(char::is_whitespace) {
            Some((label, "in")) => requirement(label, Demand::In(values)),
            Some((label, "notin")) => requirement(label, Demand::NotIn(values)),
            _ => Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", head.trim())),
        };
    }
    let value = |value: &str| vec![value.trim().to_string()];
    if let Some((label, wanted)) = part.split_once("!=") {
        return requirement(label, Demand::NotIn(value(wanted)));
    }
    if let Some((label, wanted)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return requirement(label, Demand::In(value(wanted)));
    }
    requirement(part, Demand::Exists)
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
                .ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))
        })
        .collect()
}

fn unknown_field(resource: &Resource, field: &str) -> Box<Status> {
    let has_own = resource.shape.is_none() || !resource.rules.selectable().is_empty();
    bad_request(match has_own {
        true => format!("field label not supported: {field}"),
        false => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = Packed::from_pairs(labels.iter().copied());
        parse_labels(selector).unwrap().iter().all(|requirement| requirement.holds(&labels))
    }

    #[test]
    fn every_form_of_a_label_selector_is_understood() {
        let web = [("app", "web"), ("tier", "front")];
        for selector in
            ["app=web", "app==web", "app!=db", "app in (db, web)", "app notin (db)", "app", "!gone", "gone!=x"]
        {
            assert!(selects(selector, &web), "{selector} should select {web:?}");
        }
        for selector in ["app=db", "app!=web", "app in (db,x)", "app notin (web)", "gone", "!app", "app=web,tier=back"]
        {
            assert!(!selects(selector, &web), "{selector} should not select {web:?}");
        }
    }

    #[test]
    fn a_malformed_label_selector_is_refused() {
        for selector in ["app in (web", "app under (web)", "=x", "a b"] {
            assert!(parse_labels(selector).is_err(), "{selector}");
        }
    }
}
