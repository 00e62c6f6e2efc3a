//! What is checked in a CustomResourceDefinition before its kind is served.

use serde_json::{Value, json};

use super::{
    names,
    object::{Meta, Object, at, text},
    schema::Schema,
    status::FieldError,
};

/// Where a person has said that a group of Kubernetes may have this kind.
const APPROVED: &str = "api-approved.kubernetes.io";
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

pub(crate) fn validate(definition: &Object, errors: &mut Vec<FieldError>) {
    let group = text(definition, &["spec", "group"]);
    let plural = text(definition, &["spec", "names", "plural"]);
    // A change of either is refused for being one.
    let is_new = definition.resource_version().is_empty();
    if is_new && definition.name() != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &json!(definition.name()), why));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let why @ [_, ..] = names::subdomain(group).as_slice() {
        errors.push(FieldError::invalid("spec.group", &json!(group), &why.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    let scope = text(definition, &["spec", "scope"]);
    if scope.is_empty() {
        errors.push(FieldError::required("spec.scope", ""));
    } else if !["Cluster", "Namespaced"].contains(&scope) {
        let known = ["Cluster", "Namespaced"].map(String::from);
        errors.push(FieldError::unsupported("spec.scope", &json!(scope), &known));
    }
    check_approval(definition, group, errors);
    if at(definition, &["spec", "preserveUnknownFields"]) == Some(&json!(true)) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                   instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), why));
    }
    validate_versions(at(definition, &["spec", "versions"]), errors);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(definition, &["spec", "names", name]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
}

/// Groups of Kubernetes itself are not for everybody.
fn check_approval(definition: &Object, group: &str, errors: &mut Vec<FieldError>) {
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let approved = definition.meta("annotations").and_then(|annotations| annotations.get(APPROVED));
    if is_protected && approved.is_none_or(|approved| approved == "") {
        let why = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.push(FieldError::required(format!("metadata.annotations[{APPROVED}]"), &why));
    }
}

/// Versions as the original shows them: by the names that their fields have inside. What is the same in all of them, it
/// keeps in a place of its own.
fn shown_versions(versions: Option<&Value>) -> String {
    let Some(Value::Array(versions)) = versions else { return "null".into() };
    let differs = |name: &str| versions.iter().any(|version| version[name] != versions[0][name]);
    let shown = |version: &Value, name: &str| match differs(name) {
        true if !version[name].is_null() => version[name].to_string(),
        _ => "null".into(),
    };
    let columns = |version: &Value| match version["additionalPrinterColumns"].as_array() {
        Some(columns) if differs("additionalPrinterColumns") => {
            let columns: Vec<_> = columns.iter().map(shown_column).collect();
            format!("[{}]", columns.join(","))
        }
        _ => "null".into(),
    };
    let versions: Vec<_> = versions
        .iter()
        .map(|version| {
            let flag = |name: &str| version[name] == true;
            format!(
                r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":{},"Subresources":{},"AdditionalPrinterColumns":{},"SelectableFields":{}}}"#,
                json!(version["name"].as_str().unwrap_or_default()),
                flag("served"),
                flag("storage"),
                flag("deprecated"),
                version["deprecationWarning"],
                shown(version, "schema"),
                shown(version, "subresources"),
                columns(version),
                shown(version, "selectableFields")
            )
        })
        .collect();
    format!("[{}]", versions.join(","))
}

fn shown_column(column: &Value) -> String {
    let text = |name: &str| json!(column[name].as_str().unwrap_or_default());
    format!(
        r#"{{"Name":{},"Type":{},"Format":{},"Description":{},"Priority":{},"JSONPath":{}}}"#,
        text("name"),
        text("type"),
        text("format"),
        text("description"),
        column["priority"].as_i64().unwrap_or_default(),
        text("jsonPath")
    )
}

/// Every version that something is stored in has to be there still.
pub(crate) fn validate_stored_versions(definition: &Object, errors: &mut Vec<FieldError>) {
    let listed = |path: &[&str]| at(definition, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (stored, versions) = (listed(&["status", "storedVersions"]), listed(&["spec", "versions"]));
    if stored.is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", &Value::Null, why));
        return;
    }
    for (place, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let name = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("status.storedVersions[{place}]"), &json!(name), &why));
        }
    }
    let storage = versions.iter().rfind(|version| version["storage"] == true);
    if let Some(name) = storage.map(|version| &version["name"]).filter(|name| !stored.contains(name)) {
        let why = format!("must have the storage version {}", name.as_str().unwrap_or_default());
        errors.push(FieldError::invalid("status.storedVersions", &json!(stored), &why));
    }
}

/// Complains of fields that say no type, or none that there is.
fn check_types(field: &str, schema: &Value, is_root: bool, errors: &mut Vec<FieldError>) {
    let free = |name: &str| schema[name] == true;
    match schema["type"].as_str().unwrap_or_default() {
        "" if is_root || free("x-kubernetes-int-or-string") || free("x-kubernetes-preserve-unknown-fields") => {}
        "" => {
            let why = "must not be empty for specified object fields";
            errors.push(FieldError::required(format!("{field}.type"), why));
        }
        known if TYPES.contains(&known) => {}
        other => {
            let known = TYPES.map(String::from);
            errors.push(FieldError::unsupported(format!("{field}.type"), &json!(other), &known));
        }
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        check_types(&format!("{field}.properties[{name}]"), below, false, errors);
    }
    if schema["items"].is_object() {
        check_types(&format!("{field}.items"), &schema["items"], false, errors);
    }
    if schema["additionalProperties"].is_object() {
        check_types(&format!("{field}.additionalProperties"), &schema["additionalProperties"], false, errors);
    }
}

fn validate_versions(versions: Option<&Value>, errors: &mut Vec<FieldError>) {
    let listed: &[Value] = versions.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let shown = shown_versions(versions);
    let is_one_schema = listed.iter().all(|version| version["schema"] == listed[0]["schema"]);
    for (place, version) in listed.iter().enumerate() {
        let field = |name: &str| format!("spec.versions[{place}].{name}");
        let name = version["name"].as_str().unwrap_or_default();
        for why in names::service_label(name) {
            errors.push(FieldError::invalid(field("name"), &json!(name), &why));
        }
        match &version["schema"]["openAPIV3Schema"] {
            Value::Object(schema) if schema.get("type").is_none() => {
                let why = "must not be empty at the root";
                errors.push(FieldError::required(field("schema.openAPIV3Schema.type"), why));
            }
            // Where all versions have one schema, the original keeps it in a place of its own.
            Value::Object(_) if is_one_schema && place > 0 => {}
            schema @ Value::Object(_) => {
                let own = field("schema.openAPIV3Schema");
                let place = if is_one_schema { "spec.validation.openAPIV3Schema" } else { own.as_str() };
                check_types(place, schema, true, errors);
                Schema::parse(schema).check_rules(place, errors);
            }
            _ => errors.push(FieldError::required(field("schema.openAPIV3Schema"), "")),
        }
    }
    let names: Vec<_> = listed.iter().map(|version| &version["name"]).collect();
    if (1..names.len()).any(|place| names[..place].contains(&names[place])) {
        errors.push(FieldError::invalid_as("spec.versions", &shown, "must contain unique version names"));
    }
    if listed.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_as("spec.versions", &shown, why));
    }
}

pub(crate) fn validate_update(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    for path in [&["spec", "scope"][..], &["spec", "names", "kind"], &["spec", "group"], &["spec", "names", "plural"]] {
        if text(new, path) != text(old, path) {
            errors.push(FieldError::invalid(path.join("."), &json!(text(new, path)), "field is immutable"));
        }
    }
}
