//! The `scale` of an object: how many replicas it wants and has, as an `autoscaling/v1` Scale, whatever its kind calls
//! them.

use serde_json::{Value, json};

use super::{
    object::{Meta, Object, at, text},
    status::{Answer, FieldError, bad_request, invalid},
    verbs::Target,
};

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

    fn number(&self, object: &Object, path: &[String]) -> i64 {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        at(object, &path).and_then(Value::as_i64).unwrap_or_default()
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

    /// The change that a scale asks for, as a merge patch of the object.
    pub fn change(&self, target: &Target, scale: &Value) -> Answer<Value> {
        let name = scale["metadata"]["name"].as_str().unwrap_or_default();
        if name != target.name {
            return Err(bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &json!(replicas), why);
            return Err(invalid("autoscaling", "Scale", &target.name, &[error]));
        }
        let nested = self.spec.iter().rev().fold(json!(replicas), |inner, name| json!({ name: inner }));
        let mut change = nested;
        if let Some(version) = scale["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty()) {
            change["metadata"] = json!({ "resourceVersion": version });
        }
        Ok(change)
    }
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
