//! Which writes a webhook or a policy wants to be asked about.

use serde_json::Value;

use super::{Operation, Review};
use crate::apiserver::{
    label_selector,
    object::{Meta, Object},
    packed::Packed,
    store::Store,
    verbs::Target,
};

/// What is known of a write before its object is.
pub(super) struct Request<'a> {
    pub operation: Operation,
    pub target: &'a Target,
    pub subresource: &'a str,
}

impl Request<'_> {
    pub fn of<'a>(review: &Review<'a>) -> Request<'a> {
        Request { operation: review.operation, target: review.target, subresource: review.subresource }
    }

    /// The version through which the first rule that applies wants to see the object. `Equivalent` rules also see it
    /// when it is written through another version.
    pub fn matching_version(&self, rules: &Value, policy: &Value) -> Option<String> {
        let rules = rules.as_array()?;
        let applies = |version: &str| rules.iter().any(|rule| self.applies(rule, version));
        if applies(&self.target.version) {
            return Some(self.target.version.clone());
        }
        if policy == "Exact" {
            return None;
        }
        self.target.resource.versions.iter().find(|version| applies(version)).cloned()
    }

    fn applies(&self, rule: &Value, version: &str) -> bool {
        let resource = &self.target.resource;
        let names = |field: &str, wanted: &str| {
            let listed = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            listed.into_iter().any(|name| name == "*" || name == wanted)
        };
        let is_in_scope = match rule["scope"].as_str() {
            Some("Cluster") => self.target.namespace.is_empty(),
            Some("Namespaced") => !self.target.namespace.is_empty(),
            _ => true,
        };
        let listed = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_named = listed.into_iter().any(|name| {
            let (plural, part) = name.split_once('/').unwrap_or((name, ""));
            let is_resource = plural == "*" || plural == resource.id.plural;
            let is_part = part == self.subresource || part == "*";
            // A lone star covers every resource, and no part of one.
            is_resource && is_part
        });
        let listed = rule["resourceNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let named: Vec<_> = listed.collect();
        is_in_scope
            && is_named
            && (named.is_empty() || named.contains(&self.target.name.as_str()))
            && names("operations", self.operation.name())
            && names("apiGroups", &resource.id.group)
            && names("apiVersions", version)
    }
}

/// Whether the selectors of a webhook or a policy cover an object and its namespace.
pub(super) fn is_selected(store: &Store, review: &Review<'_>, stated: &Value) -> bool {
    let is_namespace = review.target.resource.id.group.is_empty() && review.target.resource.id.plural == "namespaces";
    let in_namespace = match is_namespace {
        true => either(review, &stated["namespaceSelector"]),
        false if review.target.namespace.is_empty() => true,
        false => {
            let namespace = namespace_object(store, &review.target.namespace);
            fits(namespace.as_ref(), &stated["namespaceSelector"])
        }
    };
    in_namespace && either(review, &stated["objectSelector"])
}

pub(super) fn namespace_object(store: &Store, name: &str) -> Option<Object> {
    store.get(&crate::apiserver::namespaces::id(), name)?.object().ok()
}

/// An object is covered before or after the write.
fn either(review: &Review<'_>, selector: &Value) -> bool {
    is_empty(selector) || [review.new, review.old].into_iter().flatten().any(|object| fits(Some(object), selector))
}

fn fits(object: Option<&Object>, selector: &Value) -> bool {
    if is_empty(selector) {
        return true;
    }
    let labels = object.and_then(|object| object.meta("labels")).and_then(Value::as_object);
    let labels = Packed::from_object(labels);
    label_selector::from_object(selector).iter().all(|requirement| requirement.holds(&labels))
}

fn is_empty(selector: &Value) -> bool {
    selector.as_object().is_none_or(|fields| fields.is_empty())
}
