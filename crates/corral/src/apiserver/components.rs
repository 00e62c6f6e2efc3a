//! How the parts of the control plane are, as the first versions of Kubernetes tell it. Here they are always well.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{
    request::Path,
    resources::ResourceId,
    service::{ApiBody, json_value},
    status::{Answer, method_not_allowed, not_found},
};

const PARTS: [(&str, &str); 3] = [("controller-manager", "ok"), ("scheduler", "ok"), ("etcd-0", "ok")];
pub(super) const WARNING: &str = "v1 ComponentStatus is deprecated in v1.19+";

pub(super) fn is_asked_for(path: &Path) -> bool {
    path.group.is_empty() && path.plural == "componentstatuses"
}

pub(super) fn answer(method: &Method, path: &Path) -> Answer<Response<ApiBody>> {
    if *method != Method::GET {
        return Err(method_not_allowed());
    }
    let head = |mut object: Value| {
        object["kind"] = json!("ComponentStatus");
        object["apiVersion"] = json!("v1");
        object
    };
    if path.name.is_empty() {
        let items: Vec<Value> = PARTS.iter().map(|(name, word)| part(name, word)).collect();
        let list = json!({ "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items });
        return Ok(json_value(StatusCode::OK, &list));
    }
    let found = PARTS.iter().find(|(name, _)| *name == path.name);
    let id = || ResourceId::new("", "componentstatuses", "ComponentStatus");
    let (name, word) = found.ok_or_else(|| not_found(&id(), &path.name))?;
    Ok(json_value(StatusCode::OK, &head(part(name, word))))
}

fn part(name: &str, word: &str) -> Value {
    json!({ "metadata": { "name": name }, "conditions": [{ "type": "Healthy", "status": "True", "message": word }] })
}
