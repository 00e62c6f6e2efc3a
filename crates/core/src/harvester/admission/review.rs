//! From a review that the API server asks for to its answer.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::harvester::setting::names::UPGRADE_CONFIG;
use drover_api::harvester::upgrade::annotations::PAUSE_MAP;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::codes::{BAD_REQUEST, INTERNAL};
use super::{Verdict, changes, config, nodes, upgrade};
use crate::cluster::harvester::{Setting, Upgrade};
use crate::cluster::{Cluster, Meta, Node};

/// A write that somebody wants to make.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub uid: String,
    pub kind: GroupKind,
    pub operation: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub user_info: UserInfo,
    #[serde(default)]
    pub object: Option<Box<RawValue>>,
    #[serde(default)]
    pub old_object: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

#[derive(Debug, Default, Deserialize)]
pub struct UserInfo {
    #[serde(default)]
    pub username: String,
}

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Harvester's or Drover's own controllers, or the garbage collector, which acts for them.
    pub is_controller: bool,
}

impl User {
    /// The last two are Drover's, as `deploy` has them: who answers here may be another process than who drives.
    const CONTROLLERS: [&str; 4] = [
        "system:serviceaccount:harvester-system:harvester",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:cattle-system:drover",
        "system:serviceaccount:system-upgrade:system-upgrade",
    ];

    /// `own` is the user that Drover itself is. Where that is not known, nobody is refused for who they are.
    pub fn of(name: &str, own: Option<&str>) -> Self {
        User { is_controller: Self::CONTROLLERS.contains(&name) || own.is_none_or(|own| own == name) }
    }
}

/// The two questions that an API server has about a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Should it be changed?
    Mutation,
    /// May it be?
    Validation,
}

/// What the API server is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Response(Value);

impl Response {
    /// As the body of an answer.
    pub fn into_json(self) -> Value {
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": self.0 })
    }

    fn of(uid: &str, verdict: &Verdict) -> Self {
        let mut response = json!({ "uid": uid, "allowed": verdict.is_yes() });
        if let Some(code) = verdict.code() {
            response["status"] = json!({ "code": code, "reason": reason(code), "message": verdict.message() });
        }
        if !verdict.notes.is_empty() {
            response["warnings"] = json!(verdict.notes);
        }
        Response(response)
    }

    fn changing(uid: &str, patch: &Value) -> Self {
        let patch = STANDARD.encode(patch.to_string());
        Response(json!({ "uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch }))
    }

    /// The cluster could not be looked at in time.
    pub fn could_not_look(request: &Request, why: &str) -> Self {
        Response::of(&request.uid, &Verdict::no(INTERNAL, why))
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        BAD_REQUEST => "BadRequest",
        409 => "Conflict",
        422 => "Invalid",
        _ => "InternalError",
    }
}

/// The kinds that have to be seen before a request can be answered.
pub fn reads(request: &Request, question: Question) -> BTreeSet<&'static str> {
    let kinds: &[&'static str] = match (request.kind.kind.as_str(), request.operation.as_str(), question) {
        ("Upgrade", "CREATE", Question::Validation) => return upgrade::reads_of_create(),
        ("Upgrade", "CREATE", Question::Mutation) => &["Node", "Setting"],
        ("Upgrade", "UPDATE", Question::Validation) => &["Node"],
        ("Upgrade", "DELETE", Question::Validation) => &["Cluster"],
        ("Setting", "CREATE" | "UPDATE", Question::Validation) => &["Node"],
        ("UpgradeLog", "CREATE", Question::Validation) => &["Upgrade", "UpgradeLog"],
        ("Node", "CREATE" | "UPDATE", Question::Validation) => &["Node", "Upgrade"],
        ("Deployment", "DELETE", Question::Validation) => &["Upgrade"],
        _ => &[],
    };
    kinds.iter().copied().collect()
}

/// The answer, by what was seen of the cluster. `own` is the user that Drover itself is.
pub fn answer(request: &Request, question: Question, cluster: &Cluster, own: Option<&str>) -> Response {
    let decided = match question {
        Question::Mutation => return change(request, cluster),
        Question::Validation => decide(request, cluster, own),
    };
    let mut verdict = decided.unwrap_or_else(|error| {
        Verdict::no(BAD_REQUEST, format!("{} {} cannot be read: {error}", request.kind.kind, request.name))
    });
    note_what_was_not_seen(request, cluster, &mut verdict);
    Response::of(&request.uid, &verdict)
}

fn decide(request: &Request, cluster: &Cluster, own: Option<&str>) -> Result<Verdict, serde_json::Error> {
    let user = User::of(&request.user_info.username, own);
    Ok(match (request.kind.group.as_str(), request.kind.kind.as_str(), request.operation.as_str()) {
        ("harvesterhci.io", "Upgrade", "CREATE") => upgrade::create(&object(request)?, cluster),
        ("harvesterhci.io", "Upgrade", "UPDATE") => {
            upgrade::update(&old_object(request)?, &object::<Upgrade>(request)?, cluster)
        }
        ("harvesterhci.io", "Upgrade", "DELETE") => upgrade::delete(&old_object(request)?, cluster),
        ("harvesterhci.io", "Setting", "CREATE" | "UPDATE") if request.name == UPGRADE_CONFIG => {
            config::setting(&object::<Setting>(request)?, cluster)
        }
        ("harvesterhci.io", "Version", "CREATE" | "UPDATE") => changes::version(&object(request)?),
        ("harvesterhci.io", "UpgradeLog", "CREATE") => changes::upgrade_log(&object(request)?, &user, cluster),
        ("harvesterhci.io", "UpgradeLog", "UPDATE") => changes::same_upgrade(&old_object(request)?, &object(request)?),
        ("", "Node", "CREATE") => nodes::join(&request.name, &user, cluster),
        ("", "Node", "UPDATE") => nodes::promotion(&old_object::<Node>(request)?, &object(request)?, cluster),
        ("apps", "Deployment", "DELETE") => {
            changes::repository(&old_object::<Headed>(request)?.metadata, &user, cluster)
        }
        _ => Verdict::default(),
    })
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
struct Headed {
    metadata: Meta,
}

fn object<T: DeserializeOwned>(request: &Request) -> Result<T, serde_json::Error> {
    serde_json::from_str(request.object.as_ref().map_or("null", |object| object.get()))
}

fn old_object<T: DeserializeOwned>(request: &Request) -> Result<T, serde_json::Error> {
    serde_json::from_str(request.old_object.as_ref().map_or("null", |object| object.get()))
}

/// The creation of an Upgrade tells itself. Nodes and repositories are let through: the upgrade survives what they do.
fn note_what_was_not_seen(request: &Request, cluster: &Cluster, verdict: &mut Verdict) {
    if (request.kind.kind.as_str(), request.operation.as_str()) == ("Upgrade", "CREATE") {
        return;
    }
    let is_lenient = matches!(request.kind.kind.as_str(), "Node" | "Deployment");
    for kind in reads(request, Question::Validation) {
        if let Some(unseen) = cluster.blind_to(kind) {
            let sentence = format!("cannot be checked: {unseen}");
            match is_lenient {
                true => verdict.notes.push(sentence),
                false => verdict.refuse(INTERNAL, sentence),
            }
        }
    }
}

/// An Upgrade is told which nodes pause.
fn change(request: &Request, cluster: &Cluster) -> Response {
    let asked = (request.kind.kind.as_str(), request.operation.as_str()) == ("Upgrade", "CREATE");
    let upgrade = object::<Upgrade>(request).ok().filter(|_| asked);
    let pausing = upgrade.as_ref().and_then(|upgrade| upgrade::pause_map(upgrade, cluster));
    let (Some(upgrade), Some(map)) = (upgrade, pausing) else {
        return Response::of(&request.uid, &Verdict::default());
    };
    let mut patch = Vec::new();
    if upgrade.metadata.annotations.is_empty() {
        patch.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    let path = format!("/metadata/annotations/{}", PAUSE_MAP.replace('~', "~0").replace('/', "~1"));
    patch.push(json!({ "op": "add", "path": path, "value": json!(map).to_string() }));
    Response::changing(&request.uid, &Value::Array(patch))
}
