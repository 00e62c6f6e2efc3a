//! A write as webhooks and policies see it: an AdmissionReview.

use serde_json::{Value, json};

use super::{Review, expressions::shown_as};
use crate::apiserver::{
    object::{Meta, text},
    verbs::Target,
};

/// The groups that everybody belongs to who may talk to this server.
const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

/// The `request` of an AdmissionReview, for somebody who looks at the object through `version`.
pub(super) fn request_json(review: &Review<'_>, version: &str, uid: &str) -> Value {
    let Review { target, subresource, .. } = review;
    let kind = |version: &str| kind_of(review, version);
    let resource = |version: &str| json!({ "group": target.resource.id.group, "version": version, "resource": target.resource.id.plural });
    let mut request = json!({
        "uid": uid,
        "kind": kind(version),
        "resource": resource(version),
        "requestKind": kind(&target.version),
        "requestResource": resource(&target.version),
        "operation": review.operation.name(),
        "userInfo": { "username": review.user, "groups": GROUPS },
        "object": review.new.map(|object| shown_as(review, object, version)),
        "oldObject": review.old.map(|object| shown_as(review, object, version)),
        "dryRun": review.dry_run,
        "options": review.options,
    });
    let name = match review.new.map_or("", |object| object.name()) {
        "" => target.name.as_str(),
        name => name,
    };
    for (field, value) in [("name", name), ("namespace", target.namespace.as_str())] {
        if !value.is_empty() {
            request[field] = json!(value);
        }
    }
    if !subresource.is_empty() {
        request["subResource"] = json!(subresource);
        request["requestSubResource"] = json!(subresource);
    }
    request
}

fn kind_of(review: &Review<'_>, version: &str) -> Value {
    let own = &review.target.resource.id;
    let sent = review.new.filter(|object| !["", own.kind.as_str()].contains(&text(object, &["kind"])));
    let Some(sent) = sent else {
        return json!({ "group": own.group, "version": version, "kind": own.kind });
    };
    let api_version = text(sent, &["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({ "group": group, "version": version, "kind": text(sent, &["kind"]) })
}

/// How a refusal calls the object.
pub(super) fn name_of<'a>(review: &'a Review<'_>, target: &'a Target) -> &'a str {
    match (target.name.as_str(), review.new) {
        ("", Some(object)) if !object.name().is_empty() => object.name(),
        ("", _) => "Unknown",
        (name, _) => name,
    }
}
