//! ValidatingAdmissionPolicies: rules in CEL about writes, in force where a binding says so.

use drover_cel::{Bindings, Environment, Value as Cel};
use serde_json::{Value, json};

use super::{
    Review,
    chain::GROUP,
    expressions::{self, evaluate},
    matching::{Request, is_selected},
    review::name_of,
};
use crate::apiserver::{
    ApiServer, label_selector,
    object::{Meta, Object, at, text},
    status::{Answer, denied_by_policy},
    store::Store,
};

const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";
const MESSAGE_LIMIT: usize = 5 * 1024;

/// A policy, a binding that puts it in force, and the version through which it looks at the object.
struct InForce {
    policy: Object,
    binding: Object,
    version: String,
}

/// What a policy has against a write.
struct Objection {
    message: String,
    reason: String,
}

pub(super) fn any_concerned(store: &Store, request: &Request<'_>) -> bool {
    !in_force(store, request).is_empty()
}

/// The policies that have a rule for such a write.
fn in_force(store: &Store, request: &Request<'_>) -> Vec<InForce> {
    let mut found = vec![];
    let Some(policies) = store.find(GROUP, POLICIES) else { return found };
    for (_, stored) in store.find(GROUP, BINDINGS).map(|bindings| &bindings.objects).into_iter().flatten() {
        let Ok(binding) = stored.object() else { continue };
        let named = policies.objects.get(text(&binding, &["spec", "policyName"]));
        let Some(policy) = named.and_then(|stored| stored.object().ok()) else { continue };
        let version = covered(request, at(&policy, &["spec", "matchConstraints"]));
        let narrowed = at(&binding, &["spec", "matchResources"]).filter(|stated| !stated["resourceRules"].is_null());
        let version = version.filter(|_| narrowed.is_none() || covered(request, narrowed).is_some());
        if let Some(version) = version {
            found.push(InForce { policy, binding, version });
        }
    }
    found
}

/// The version in which a write is covered by what is stated, and not excepted.
fn covered(request: &Request<'_>, stated: Option<&Value>) -> Option<String> {
    let stated = stated?;
    let excepted = request.matching_version(&stated["excludeResourceRules"], &stated["matchPolicy"]);
    let version = request.matching_version(&stated["resourceRules"], &stated["matchPolicy"]);
    version.filter(|_| excepted.is_none())
}

/// Asks every policy in force. The first objection that a binding turns into a refusal counts.
pub(super) fn validate(server: &ApiServer, review: &Review<'_>) -> Answer<()> {
    server.store().with(|store| {
        for InForce { policy, binding, version } in in_force(store, &Request::of(review)) {
            let constraints = at(&policy, &["spec", "matchConstraints"]).cloned().unwrap_or_default();
            let narrowed = at(&binding, &["spec", "matchResources"]).cloned().unwrap_or_default();
            if !is_selected(store, review, &constraints) || !is_selected(store, review, &narrowed) {
                continue;
            }
            for objection in objections(store, review, &policy, &binding, &version) {
                raise(review, &policy, &binding, &objection)?;
            }
        }
        Ok(())
    })
}

/// Does with an objection what the binding says.
fn raise(review: &Review<'_>, policy: &Object, binding: &Object, objection: &Objection) -> Answer<()> {
    let actions = at(binding, &["spec", "validationActions"]);
    let is_to =
        |action: &str| actions.and_then(Value::as_array).is_some_and(|actions| actions.contains(&json!(action)));
    let (policy, binding, message) = (policy.name(), binding.name(), &objection.message);
    if is_to("Warn") {
        let about = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}'");
        review.warnings.add(format!("Validation failed for {about}: {message}"));
    }
    if !is_to("Deny") {
        return Ok(());
    }
    let why = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}");
    let target = review.target;
    Err(denied_by_policy(&target.resource.id, name_of(review, target), &why, &objection.reason))
}

fn objections(store: &Store, review: &Review<'_>, policy: &Object, binding: &Object, version: &str) -> Vec<Objection> {
    let params = match params(store, review, policy, binding) {
        Ok(params) => params,
        Err(why) => return failed(policy, why).into_iter().collect(),
    };
    let mut found = vec![];
    for params in params {
        let mut bindings = expressions::bindings(store, review, version);
        bindings.set("params", Ok(params));
        let conditions = at(policy, &["spec", "matchConditions"]).cloned().unwrap_or_default();
        match expressions::all_hold(&conditions, &bindings) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                found.extend(failed(policy, why));
                continue;
            }
        }
        let variables = at(policy, &["spec", "variables"]).cloned().unwrap_or_default();
        let environment = expressions::with_variables(&variables, &mut bindings);
        for validation in at(policy, &["spec", "validations"]).and_then(Value::as_array).into_iter().flatten() {
            let source = validation["expression"].as_str().unwrap_or_default();
            match evaluate(source, &environment, &bindings) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => found.push(objection(validation, &environment, &bindings)),
                Err(why) => found.extend(failed(policy, why)),
            }
        }
    }
    found
}

/// A policy that cannot be asked objects, unless its owner says that it does not matter.
fn failed(policy: &Object, why: String) -> Option<Objection> {
    let is_ignored = text(policy, &["spec", "failurePolicy"]) == "Ignore";
    (!is_ignored).then(|| Objection { message: why, reason: "Invalid".into() })
}

fn objection(validation: &Value, environment: &Environment, bindings: &Bindings) -> Objection {
    let written = |field: &str| validation[field].as_str().map(str::trim).filter(|text| !text.is_empty());
    let made = written("messageExpression").and_then(|source| evaluate(source, environment, bindings).ok());
    let is_usable = |text: &&str| !text.is_empty() && text.len() <= MESSAGE_LIMIT && !text.contains('\n');
    let made = made.as_ref().and_then(Cel::text).map(str::trim).filter(is_usable);
    let message = match made.or(written("message")) {
        Some(message) => message.to_string(),
        None => format!("failed expression: {}", written("expression").unwrap_or_default()),
    };
    Objection { message, reason: written("reason").unwrap_or("Invalid").into() }
}

/// The objects that a policy is evaluated with, once each; a null where it wants none.
fn params(store: &Store, review: &Review<'_>, policy: &Object, binding: &Object) -> Result<Vec<Cel>, String> {
    let (Some(kind), Some(reference)) = (at(policy, &["spec", "paramKind"]), at(binding, &["spec", "paramRef"])) else {
        return Ok(vec![Cel::Null]);
    };
    let api_version = kind["apiVersion"].as_str().unwrap_or_default();
    let (group, _) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let is_kind = |id: &crate::apiserver::ResourceId| id.group == group && kind["kind"] == id.kind;
    let Some(collection) = store.collections().find(|collection| is_kind(&collection.resource.id)) else {
        let kind = format!("{api_version}, Kind={}", kind["kind"].as_str().unwrap_or_default());
        return Err(format!("failed to configure policy: failed to find resource referenced by paramKind: '{kind}'"));
    };
    let namespace = match (collection.resource.namespaced, reference["namespace"].as_str()) {
        (false, _) => "",
        (true, Some(namespace)) => namespace,
        (true, None) => review.target.namespace.as_str(),
    };
    let wanted = label_selector::from_object(&reference["selector"]);
    let chosen = collection.objects.iter().filter(|(key, stored)| {
        let (within, name) = crate::apiserver::store::key_parts(key);
        let is_named = reference["name"].as_str().is_none_or(|wanted| wanted == name);
        within == namespace && is_named && wanted.iter().all(|label| label.holds(&stored.labels))
    });
    let objects: Vec<_> = chosen.filter_map(|(_, stored)| stored.object().ok()).collect();
    if objects.is_empty() && reference["parameterNotFoundAction"] != "Allow" {
        return Err(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
                .into(),
        );
    }
    Ok(objects.into_iter().map(|object| Cel::from_json(&Value::Object(object))).collect())
}
