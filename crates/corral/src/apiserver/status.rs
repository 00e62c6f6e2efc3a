//! Every way in which the server says no, worded as the original words it.

use kube::core::{
    Status,
    response::{StatusCause, StatusDetails, reason},
};
use serde_json::{Value, json};

use super::resources::ResourceId;

/// What a request ends in: what was asked for, or a [`Status`] that says why not.
pub type Answer<T> = Result<T, Box<Status>>;

/// One thing that is wrong with an object, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldError {
    reason: &'static str,
    field: String,
    body: String,
}

impl FieldError {
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let body = if detail.is_empty() { "Required value".into() } else { format!("Required value: {detail}") };
        FieldError { reason: "FieldValueRequired", field: field.into(), body }
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let body = format!("Invalid value: {}: {detail}", shown(value));
        FieldError { reason: "FieldValueInvalid", field: field.into(), body }
    }

    /// For a value that is not shown.
    pub fn invalid_unshown(field: impl Into<String>, detail: &str) -> Self {
        let body = format!("Invalid value: {detail}");
        FieldError { reason: "FieldValueInvalid", field: field.into(), body }
    }

    /// For a value that the original shows in a form of its own.
    pub fn duplicate_as(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let body = format!("Duplicate value: {shown}: {detail}");
        FieldError { reason: "FieldValueDuplicate", field: field.into(), body }
    }

    /// For a value that is no JSON but is shown in a form of its own.
    pub fn invalid_as(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let body = format!("Invalid value: {shown}: {detail}");
        FieldError { reason: "FieldValueInvalid", field: field.into(), body }
    }

    /// Of a value that the original shows in a form of its own.
    pub fn invalid_as_shown(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let body = format!("Invalid value: {shown}: {detail}");
        FieldError { reason: "FieldValueInvalid", field: field.into(), body }
    }

    pub fn wrong_type(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let body = format!("Invalid value: \"{value}\": {detail}");
        FieldError { reason: "FieldValueTypeInvalid", field: field.into(), body }
    }

    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[String]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let body = format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        FieldError { reason: "FieldValueNotSupported", field: field.into(), body }
    }

    pub fn too_long(field: impl Into<String>, limit: u64) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let body = format!("Too long: may not be more than {limit} {unit}");
        FieldError { reason: "FieldValueTooLong", field: field.into(), body }
    }

    pub fn too_many(field: impl Into<String>, found: usize, limit: u64) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let body = format!("Too many: {found}: must have at most {limit} {unit}");
        FieldError { reason: "FieldValueTooMany", field: field.into(), body }
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let body = format!("Duplicate value: {}", shown(value));
        FieldError { reason: "FieldValueDuplicate", field: field.into(), body }
    }

    /// For a value that names something that is not there.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        let body = format!("Not found: {}", shown(value));
        FieldError { reason: "FieldValueNotFound", field: field.into(), body }
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        FieldError { reason: "FieldValueForbidden", field: field.into(), body: format!("Forbidden: {detail}") }
    }

    /// The same, of what stands below a field.
    pub fn below(self, above: &str) -> Self {
        let field = if self.field.is_empty() { above.into() } else { format!("{above}.{}", self.field) };
        FieldError { field, ..self }
    }

    /// Whether the object is so wrong that rules about it make no sense.
    pub fn blocks_rules(&self) -> bool {
        let blocking = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        blocking.contains(&self.reason)
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.field, self.body)
    }
}

/// A value as field errors show it: strings in quotes, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

fn failure(code: u16, reason: &str, message: String) -> Status {
    Status::failure(&message, reason).with_code(code)
}

/// Names the resource and object that a refusal is about.
fn about(resource: &ResourceId, name: &str) -> StatusDetails {
    StatusDetails { name: name.into(), group: resource.group.clone(), kind: resource.plural.clone(), ..none() }
}

fn none() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: vec![],
        retry_after_seconds: 0,
    }
}

pub(crate) fn cause(reason: &str, message: &str, field: &str) -> StatusCause {
    StatusCause { reason: reason.into(), message: message.into(), field: field.into() }
}

pub(crate) fn not_found(resource: &ResourceId, name: &str) -> Box<Status> {
    let message = format!("{} {name:?} not found", resource.qualified());
    failure(404, reason::NOT_FOUND, message).with_details(about(resource, name)).boxed()
}

/// No such path, group, version or resource.
pub(crate) fn no_such_resource() -> Box<Status> {
    failure(404, reason::NOT_FOUND, "the server could not find the requested resource".into())
        .with_details(none())
        .boxed()
}

pub(crate) fn already_exists(resource: &ResourceId, name: &str, deleting: bool) -> Box<Status> {
    let deleting = if deleting { "object is being deleted: " } else { "" };
    let message = format!("{deleting}{} {name:?} already exists", resource.qualified());
    failure(409, reason::ALREADY_EXISTS, message).with_details(about(resource, name)).boxed()
}

pub(crate) fn no_unique_name(resource: &ResourceId, name: &str) -> Box<Status> {
    let message = format!(
        "{} {name:?} already exists, the server was not able to generate a unique name for the object",
        resource.qualified()
    );
    let details = StatusDetails { retry_after_seconds: 1, ..about(resource, name) };
    failure(409, reason::ALREADY_EXISTS, message).with_details(details).boxed()
}

pub(crate) fn conflict(resource: &ResourceId, name: &str, why: &str) -> Box<Status> {
    let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
    failure(409, reason::CONFLICT, message).with_details(about(resource, name)).boxed()
}

/// The object was changed since the caller read it.
pub(crate) fn stale(resource: &ResourceId, name: &str) -> Box<Status> {
    conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )
}

pub(crate) fn forbidden(resource: &ResourceId, name: &str, why: &str, causes: Vec<StatusCause>) -> Box<Status> {
    let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
    failure(403, reason::FORBIDDEN, message).with_details(StatusDetails { causes, ..about(resource, name) }).boxed()
}

/// `kind` is what the refusal calls the object: mostly its kind, for some checks its plural.
pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Box<Status> {
    let mut sentences: Vec<String> = vec![];
    for error in errors {
        let sentence = error.to_string();
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    let errors_text = match sentences.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let qualified = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
    let causes = errors.iter().map(|error| cause(error.reason, &error.body, &error.field)).collect();
    let details = StatusDetails { name: name.into(), group: group.into(), kind: kind.into(), causes, ..none() };
    failure(422, reason::INVALID, format!("{qualified} {name:?} is invalid: {errors_text}"))
        .with_details(details)
        .boxed()
}

pub(crate) fn bad_request(message: impl Into<String>) -> Box<Status> {
    failure(400, reason::BAD_REQUEST, message.into()).boxed()
}

pub(crate) fn method_not_allowed() -> Box<Status> {
    failure(405, reason::METHOD_NOT_ALLOWED, "the server does not allow this method on the requested resource".into())
        .with_details(none())
        .boxed()
}

pub(crate) fn not_acceptable(accepted: &str) -> Box<Status> {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {accepted}");
    failure(406, reason::NOT_ACCEPTABLE, message).with_details(none()).boxed()
}

/// A form of the answer that the server knows of and does not give here.
pub(crate) fn not_acceptable_as(message: &str) -> Box<Status> {
    failure(406, reason::NOT_ACCEPTABLE, message.into()).boxed()
}

pub(crate) fn media_types_accepted(accepted: &str) -> Box<Status> {
    not_acceptable_as(&format!("only the following media types are accepted: {accepted}"))
}

pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Box<Status> {
    failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message.into()).boxed()
}

/// A patch in a form that there is for no kind at all.
pub(crate) fn unknown_patch() -> Box<Status> {
    failure(415, reason::UNSUPPORTED_MEDIA_TYPE, "415: Unsupported Media Type".into()).with_details(none()).boxed()
}

pub(crate) fn too_large_entity(limit: usize) -> Box<Status> {
    let message = format!("Request entity too large: limit is {limit}");
    failure(413, reason::REQUEST_ENTITY_TOO_LARGE, message).boxed()
}

pub(crate) fn expired(message: impl Into<String>) -> Box<Status> {
    failure(410, reason::EXPIRED, message.into()).boxed()
}

pub(crate) fn too_old(asked: u64, oldest: u64) -> Box<Status> {
    expired(format!("too old resource version: {asked} ({oldest})"))
}

pub(crate) fn too_large_version(asked: u64, current: u64) -> Box<Status> {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let causes = vec![cause("ResourceVersionTooLarge", "Too large resource version", "")];
    failure(504, reason::TIMEOUT, message)
        .with_details(StatusDetails { causes, retry_after_seconds: 1, ..none() })
        .boxed()
}

pub(crate) fn too_many_requests(message: &str, causes: Vec<StatusCause>, retry_after_seconds: u32) -> Box<Status> {
    failure(429, reason::TOO_MANY_REQUESTS, message.into())
        .with_details(StatusDetails { causes, retry_after_seconds, ..none() })
        .boxed()
}

pub(crate) fn internal(why: &str) -> Box<Status> {
    failure(500, reason::INTERNAL_ERROR, format!("Internal error occurred: {why}"))
        .with_details(StatusDetails { causes: vec![cause("", why, "")], ..none() })
        .boxed()
}

/// An apply of fields that others manage.
pub(crate) fn apply_conflict(message: &str, causes: Vec<StatusCause>) -> Box<Status> {
    failure(409, reason::CONFLICT, message.into()).with_details(StatusDetails { causes, ..none() }).boxed()
}

/// A server that this one has to ask does not answer.
pub(crate) fn unavailable(message: &str) -> Box<Status> {
    failure(503, reason::SERVICE_UNAVAILABLE, message.into()).boxed()
}

/// The refusal of a webhook, with what it says beside the message.
pub(crate) fn denied(message: &str, status: &Value) -> Box<Status> {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let mut refusal = failure(code.unwrap_or(400), status["reason"].as_str().unwrap_or_default(), message.into());
    if let Ok(details) = serde_json::from_value(status["details"].clone()) {
        refusal = refusal.with_details(details);
    }
    refusal.boxed()
}

/// The refusal of a policy, for the reason that it states.
pub(crate) fn denied_by_policy(resource: &ResourceId, name: &str, why: &str, stated: &str) -> Box<Status> {
    let mut refusal = forbidden(resource, name, why, vec![cause("", why, "")]);
    refusal.code = match stated {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    refusal.reason = stated.into();
    refusal
}

/// A patch that does not apply; the original says no more about it.
pub(crate) fn patch_rejected() -> Box<Status> {
    let message = "the server rejected our request due to an error in our request";
    failure(422, reason::INVALID, message.into()).with_details(none()).boxed()
}

/// An error of the store that the original passes on without a reason.
pub(crate) fn unexplained(message: &str) -> Box<Status> {
    failure(500, "", message.into()).boxed()
}

/// The answer to a delete that took effect at once.
pub(crate) fn deleted(resource: &ResourceId, name: &str, uid: &str) -> Value {
    let mut details = json!({ "name": name, "kind": resource.plural, "uid": uid });
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// A refusal as it goes over the wire.
pub(crate) fn to_json(status: &Status) -> Value {
    let mut body = serde_json::to_value(status).unwrap_or_default();
    body["kind"] = json!("Status");
    body["apiVersion"] = json!("v1");
    if body.get("metadata").is_none() {
        body["metadata"] = json!({});
    }
    body
}
