//! Harvester's own webhook, which has a Deployment of its own: it stays at work when Harvester's controller is switched off, and to it Drover is
//! anybody.
//!
//! Of what it refuses, this is what requests of operators can meet, in its words, see
//! <https://github.com/harvester/harvester/tree/master/pkg/webhook/resources>. Jobs run as Harvester itself, and are not refused anything.

use drover_api::harvester::upgrade::Upgrade;
use drover_corral::apiserver::ApiServer;
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::asked::Asked;

const SYSTEM: &str = "harvester-system";
/// Where this Service is, the webhook is.
const SERVICE: &str = "harvester-webhook";
const UPGRADE: &str = "harvesterhci.io/upgrade";
const COMPONENT: &str = "harvesterhci.io/upgradeComponent";
const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";

/// HTTP code and words; none if it lets the request pass.
pub(super) fn refusal(server: &ApiServer, asked: &Asked) -> Option<(u16, String)> {
    let direct = server.direct("webhook");
    let is_concerned = matches!(asked.plural.as_str(), "deployments" | "upgrades" | "upgradelogs");
    if asked.is_read() || !is_concerned || !asked.subresource.is_empty() {
        return None;
    }
    direct.get::<Service>(Some(SYSTEM), SERVICE).ok().flatten()?;
    let upgrade = |name: &str| direct.get::<Upgrade>(Some(SYSTEM), name).ok().flatten();
    let said = match (asked.plural.as_str(), &asked.method) {
        ("upgradelogs", &Method::POST) => {
            (400, "upgradelog can only be created by the harvester controller".to_owned())
        }
        ("deployments", &Method::DELETE) => {
            let deployment = direct.get::<Deployment>(Some(&asked.namespace), &asked.name).ok().flatten()?;
            let of = deployment
                .labels()
                .get(UPGRADE)
                .filter(|_| deployment.labels().get(COMPONENT).is_some_and(|component| component == "repo"))?;
            let status = upgrade(of)?.status.unwrap_or_default();
            if status.conditions.iter().any(|said| said.type_ == "Completed" && said.status != "Unknown") {
                return None;
            }
            let place = format!("{}/{}", asked.namespace, asked.name);
            (500, format!("cannot delete deployment {place}: upgrade {of} is still in progress (component: repo)"))
        }
        ("upgrades", &Method::PATCH | &Method::PUT) => {
            let before = upgrade(&asked.name)?.annotations().get(PAUSE_MAP).cloned();
            let map: Value = serde_json::from_str(&after(asked, before)?).ok()?;
            let nodes: Vec<String> = direct.list::<Node>().ok()?.iter().map(ResourceExt::name_any).collect();
            let (gone, _) = map.as_object()?.iter().find(|(node, _)| !nodes.contains(node))?;
            (400, format!("node {gone} does not exist"))
        }
        _ => return None,
    };
    Some((said.0, format!("admission webhook \"validator.harvesterhci.io\" denied the request: {}", said.1)))
}

/// The map as it will be.
fn after(asked: &Asked, before: Option<String>) -> Option<String> {
    match (&asked.body["metadata"]["annotations"], &asked.method) {
        (annotations, &Method::PATCH) if annotations.get(PAUSE_MAP).is_none() => before,
        (annotations, _) => annotations[PAUSE_MAP].as_str().map(str::to_owned),
    }
}

/// What the API server answers with then.
pub(super) fn status(code: u16, message: &str) -> Value {
    let reason = if code == 400 { "BadRequest" } else { "InternalError" };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}
