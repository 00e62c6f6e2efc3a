//! Expressions in CEL about a write: match conditions of webhooks, and everything in policies.

use drover_cel::{Bindings, Environment, EvalError, Program, Type, Value as Cel};
use serde_json::{Value, json};

use super::{Review, matching::namespace_object, review::request_json};
use crate::apiserver::{object::Object, store::Store};

/// The variables that every such expression has.
pub(crate) fn environment() -> Environment {
    ["object", "oldObject", "request", "namespaceObject", "params", "authorizer"]
        .into_iter()
        .fold(Environment::new(), |environment, name| environment.variable(name, Type::Dyn))
}

/// What those variables stand for in a write. `params` is bound by policies.
pub(super) fn bindings(store: &Store, review: &Review<'_>, version: &str) -> Bindings {
    let shown =
        |object: Option<&Object>| object.map_or(Cel::Null, |object| Cel::from_json(&shown_as(review, object, version)));
    let namespace = namespace_object(store, &review.target.namespace);
    let mut request = request_json(review, version, "");
    if let Value::Object(fields) = &mut request {
        ["object", "oldObject", "uid"].iter().for_each(|name| {
            fields.remove(*name);
        });
    }
    Bindings::new()
        .with("object", shown(review.new))
        .with("oldObject", shown(review.old))
        .with("request", Cel::from_json(&request))
        .with("namespaceObject", namespace.map_or(Cel::Null, |object| Cel::from_json(&Value::Object(object))))
        .with("params", Cel::Null)
}

/// An object in the version in which it is looked at.
pub(super) fn shown_as(review: &Review<'_>, object: &Object, version: &str) -> Value {
    let mut object = object.clone();
    let resource = &review.target.resource;
    // What is sent to a part of an object is of another kind.
    if object.get("kind").is_none_or(|kind| *kind == json!(resource.id.kind)) {
        object.insert("kind".into(), json!(resource.id.kind));
        object.insert("apiVersion".into(), json!(resource.api_version(version)));
    }
    Value::Object(object)
}

/// Whether all match conditions hold. A condition that is false decides even if another has failed.
pub(super) fn all_hold(conditions: &Value, bindings: &Bindings) -> Result<bool, String> {
    let mut failures = vec![];
    for condition in conditions.as_array().into_iter().flatten() {
        let source = condition["expression"].as_str().unwrap_or_default();
        match evaluate(source, &environment(), bindings) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(why) => failures.push(why),
        }
    }
    if failures.is_empty() { Ok(true) } else { Err(failures.join(", ")) }
}

/// What an expression comes to, or the sentence that says why it comes to nothing.
pub(super) fn evaluate(source: &str, environment: &Environment, bindings: &Bindings) -> Result<Cel, String> {
    let failed = |error: &dyn std::fmt::Display| format!("expression '{source}' resulted in error: {error}");
    let program = Program::compile(source, environment)
        .map_err(|error| format!("compilation error: compilation failed: {error}"))?;
    program.evaluate(bindings).map_err(|error| failed(&error))
}

/// Binds the variables of a policy in order: each may use those before it, and fails only who asks for it.
pub(super) fn with_variables(variables: &Value, bindings: &mut Bindings) -> Environment {
    let mut environment = environment();
    for variable in variables.as_array().into_iter().flatten() {
        let [name, source] = ["name", "expression"].map(|field| variable[field].as_str().unwrap_or_default());
        let qualified = format!("variables.{name}");
        let (kind, value) = match Program::compile(source, &environment) {
            Ok(program) => (program.kind().clone(), program.evaluate(bindings)),
            Err(error) => (Type::Dyn, Err(EvalError::Other(error.to_string()))),
        };
        let value = value
            .map_err(|error| EvalError::Other(format!("composited variable \"{name}\" fails to evaluate: {error}")));
        environment = environment.variable(qualified.clone(), kind);
        bindings.set(qualified, value);
    }
    environment
}
