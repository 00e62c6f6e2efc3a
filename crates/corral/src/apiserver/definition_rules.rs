//! What is checked in a CustomResourceDefinition before its kind is served.

use serde_json::{Value, json};

use super::{
    names,
    object::{Meta, Object, at, text},
    schema::Schema,
    status::FieldError,
};

pub(crate) fn validate(definition: &Object, errors: &mut Vec<FieldError>) {
    let group = text(definition, &["spec", "group"]);
    let plural = text(definition, &["spec", "names", "plural"]);
    if definition.name() != format!("{plural}.{group}") {
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
    validate_versions(at(definition, &["spec", "versions"]), errors);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(definition, &["spec", "names", name]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
}

fn validate_versions(versions: Option<&Value>, errors: &mut Vec<FieldError>) {
    let listed: &[Value] = versions.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let shown = json!(listed);
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
            schema @ Value::Object(_) => match is_one_schema {
                true if place == 0 => Schema::parse(schema).check_rules("spec.validation.openAPIV3Schema", errors),
                true => {}
                false => Schema::parse(schema).check_rules(&field("schema.openAPIV3Schema"), errors),
            },
            _ => errors.push(FieldError::required(field("schema.openAPIV3Schema"), "")),
        }
    }
    let names: Vec<_> = listed.iter().map(|version| &version["name"]).collect();
    if (1..names.len()).any(|place| names[..place].contains(&names[place])) {
        errors.push(FieldError::invalid("spec.versions", &shown, "must contain unique version names"));
    }
    if listed.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &shown, why));
    }
}

pub(crate) fn validate_update(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    for path in [&["spec", "scope"][..], &["spec", "names", "kind"], &["spec", "group"], &["spec", "names", "plural"]] {
        if text(new, path) != text(old, path) {
            errors.push(FieldError::invalid(path.join("."), &json!(text(new, path)), "field is immutable"));
        }
    }
}
