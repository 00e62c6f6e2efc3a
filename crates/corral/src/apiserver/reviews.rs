//! Kinds that are no objects but questions: who am I, may I do this, is this token good.
//!
//! Whoever speaks to this server may do everything, so there are not many answers.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{
    ApiServer,
    object::{Object, moment},
    request::Path,
    service::{ApiBody, json_value},
    status::{Answer, FieldError, invalid, method_not_allowed},
};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Whether a path leads to a question.
pub(super) fn is_review(path: &Path) -> bool {
    matches!(
        (path.group.as_str(), path.version.as_str(), path.plural.as_str()),
        (AUTHENTICATION, "v1", "selfsubjectreviews" | "tokenreviews")
            | (
                AUTHORIZATION,
                "v1",
                "localsubjectaccessreviews"
                    | "selfsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
                    | "subjectaccessreviews"
            )
    ) && path.name.is_empty()
}

/// The question that was sent, with its answer in the status.
pub(super) fn answer(
    server: &ApiServer,
    actor: &str,
    method: &Method,
    path: &Path,
    mut review: Object,
) -> Answer<Response<ApiBody>> {
    if method != Method::POST {
        return Err(method_not_allowed());
    }
    let now = server.clock().now();
    review.entry("metadata").or_insert_with(|| json!({}));
    let status = match path.plural.as_str() {
        "selfsubjectreviews" => {
            review.insert("metadata".into(), json!({ "creationTimestamp": moment(now) }));
            json!({ "userInfo": { "username": actor, "groups": ["system:masters", "system:authenticated"] } })
        }
        "tokenreviews" => token_status(server, review.get("spec").unwrap_or(&Value::Null)),
        "selfsubjectrulesreviews" => {
            review.insert("spec".into(), json!({}));
            json!({
                "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
                "incomplete": false,
            })
        }
        _ => {
            check_question(review.get("spec").unwrap_or(&Value::Null))?;
            json!({ "allowed": true })
        }
    };
    review.insert("status".into(), status);
    Ok(json_value(StatusCode::CREATED, &Value::Object(review)))
}

fn check_question(spec: &Value) -> Answer<()> {
    let named = ["resourceAttributes", "nonResourceAttributes"].iter().filter(|name| !spec[**name].is_null()).count();
    if named == 1 {
        return Ok(());
    }
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let error = FieldError::invalid("spec.resourceAttributes", &spec["resourceAttributes"], why);
    Err(invalid(AUTHORIZATION, "", "", &[error]))
}

fn token_status(server: &ApiServer, spec: &Value) -> Value {
    match server.user_of(spec["token"].as_str().unwrap_or_default()) {
        Some(user) => {
            let groups = ["system:serviceaccounts", "system:authenticated"];
            json!({ "authenticated": true, "user": { "username": user, "groups": groups } })
        }
        None => json!({ "user": {}, "error": "invalid bearer token" }),
    }
}
