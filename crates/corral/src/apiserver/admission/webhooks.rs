//! Webhooks: others' servers that are asked about writes, and may change or refuse them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::core::Status;
use serde_json::{Value, json};

use super::{
    Review,
    call::{self, Endpoint},
    chain::GROUP,
    expressions,
    matching::{Request, is_selected},
    review::request_json,
};
use crate::apiserver::{
    ApiServer,
    object::{Meta, Object},
    status::{Answer, bad_request, denied, internal},
    store::Store,
};

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// One webhook, and the version through which it looks at the object.
struct Webhook {
    stated: Value,
    version: String,
}

/// Whether any webhook has a rule for such a write.
pub(super) fn any_concerned(store: &Store, request: &Request<'_>) -> bool {
    [MUTATING, VALIDATING].iter().any(|plural| !concerned(store, plural, request).is_empty())
}

/// The webhooks that have a rule for a write, in the order in which they are asked.
fn concerned(store: &Store, plural: &str, request: &Request<'_>) -> Vec<Webhook> {
    let mut webhooks = vec![];
    for (_, stored) in store.find(GROUP, plural).map(|found| &found.objects).into_iter().flatten() {
        let Ok(configuration) = stored.object() else { continue };
        for stated in configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten() {
            if let Some(version) = request.matching_version(&stated["rules"], &stated["matchPolicy"]) {
                webhooks.push(Webhook { stated: stated.clone(), version });
            }
        }
    }
    webhooks
}

/// Asks the mutating webhooks one after the other; each sees what those before it have changed.
pub(super) async fn mutate(server: &ApiServer, review: Review<'_>) -> Answer<Option<Object>> {
    let webhooks = server.store().with(|store| concerned(store, MUTATING, &Request::of(&review)));
    let mut object = review.new.cloned();
    let mut is_changed = false;
    // Who was asked, and whether somebody later has changed the object since.
    let mut asked: Vec<(usize, bool)> = vec![];
    for (place, webhook) in webhooks.iter().enumerate() {
        let review = Review { new: object.as_ref(), ..review };
        let Some(answer) = webhook.ask(server, &review, true).await? else { continue };
        if let Some(changed) = webhook.patched(&review, &answer)? {
            asked.iter_mut().for_each(|(_, is_outdated)| *is_outdated = true);
            object = Some(changed);
            is_changed = true;
        }
        asked.push((place, false));
    }
    for (place, is_outdated) in asked {
        let webhook = &webhooks[place];
        if !is_outdated || webhook.stated["reinvocationPolicy"] != "IfNeeded" {
            continue;
        }
        let review = Review { new: object.as_ref(), ..review };
        let Some(answer) = webhook.ask(server, &review, true).await? else { continue };
        if let Some(changed) = webhook.patched(&review, &answer)? {
            object = Some(changed);
            is_changed = true;
        }
    }
    Ok(object.filter(|_| is_changed))
}

/// Asks the validating webhooks. The first refusal counts.
pub(super) async fn validate(server: &ApiServer, review: &Review<'_>) -> Answer<()> {
    let webhooks = server.store().with(|store| concerned(store, VALIDATING, &Request::of(review)));
    for webhook in webhooks {
        webhook.ask(server, review, false).await?;
    }
    Ok(())
}

impl Webhook {
    fn name(&self) -> &str {
        self.stated["name"].as_str().unwrap_or_default()
    }

    /// The `response` of a webhook that has agreed; none if it was not asked, or could not be and need not be.
    async fn ask(&self, server: &ApiServer, review: &Review<'_>, mutating: bool) -> Answer<Option<Value>> {
        let seconds = self.stated["timeoutSeconds"].as_u64().unwrap_or(10);
        let (is_wanted, endpoint, uid) = server.store().with(|store| {
            let is_wanted = is_selected(store, review, &self.stated).then(|| {
                let bindings = expressions::bindings(store, review, &self.version);
                expressions::all_hold(&self.stated["matchConditions"], &bindings)
            });
            let ticket = store.next_ticket();
            let uid = store.identities.uid(store.revision + 1, ticket);
            (is_wanted, Endpoint::find(store, &self.stated["clientConfig"], seconds), uid)
        });
        match is_wanted {
            None | Some(Ok(false)) => return Ok(None),
            Some(Ok(true)) => {}
            Some(Err(why)) => return self.unless_ignored(&why),
        }
        let harmless = ["None", "NoneOnDryRun"].map(|class| json!(class));
        if review.dry_run && !harmless.contains(&self.stated["sideEffects"]) {
            return Err(bad_request(format!("admission webhook {:?} does not support dry run", self.name())));
        }
        let body = json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": request_json(review, &self.version, &uid),
        });
        let answer = match endpoint {
            Ok(endpoint) => call::post(server.clock(), &endpoint, &body, seconds).await,
            Err(why) => Err(why),
        };
        let checked = answer.map_err(|why| format!("failed to call webhook: {why}")).and_then(|answer| {
            response(answer, &uid, mutating).map_err(|why| format!("received invalid webhook response: {why}"))
        });
        let response = match checked {
            Ok(response) => response,
            Err(why) => return self.unless_ignored(&why),
        };
        for warning in response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            review.warnings.add(warning);
        }
        if response["allowed"] != true {
            return Err(self.refusal(&response["status"]));
        }
        Ok(Some(response))
    }

    /// A webhook that cannot be asked refuses, unless its owner says that it does not matter.
    fn unless_ignored(&self, why: &str) -> Answer<Option<Value>> {
        if self.stated["failurePolicy"] == "Ignore" {
            return Ok(None);
        }
        Err(internal(&format!("failed calling webhook {:?}: {why}", self.name())))
    }

    fn refusal(&self, status: &Value) -> Box<Status> {
        let by = format!("admission webhook {:?} denied the request", self.name());
        let message = match (status["message"].as_str(), status["reason"].as_str()) {
            (Some(message), _) if !message.is_empty() => format!("{by}: {message}"),
            (_, Some(reason)) if !reason.is_empty() => format!("{by}: {reason}"),
            _ => format!("{by} without explanation"),
        };
        denied(&message, status)
    }

    /// The object as the webhook wants it, if it wants it otherwise.
    fn patched(&self, review: &Review<'_>, response: &Value) -> Answer<Option<Object>> {
        let Some(patch) = response["patch"].as_str().filter(|patch| !patch.is_empty()) else { return Ok(None) };
        let failed = |why: String| internal(&format!("failed calling webhook {:?}: {why}", self.name()));
        let bytes = STANDARD
            .decode(patch)
            .map_err(|error| failed(format!("received undecodable patch in webhook response: {error}")))?;
        let patch: json_patch::Patch = serde_json::from_slice(&bytes)
            .map_err(|error| failed(format!("received undecodable patch in webhook response: {error}")))?;
        if patch.is_empty() {
            return Ok(None);
        }
        let Some(object) = review.new else {
            let name = self.name();
            let why = "attempted to modify the object, which is not supported for this operation";
            return Err(internal(&format!("admission webhook {name:?} {why}")));
        };
        let mut value = expressions::shown_as(review, object, &self.version);
        json_patch::patch(&mut value, &patch).map_err(|error| internal(&error.to_string()))?;
        let Value::Object(mut changed) = value else { return Err(internal("the patch leaves no object")) };
        // Written on through the version in which it came.
        changed.insert("apiVersion".into(), object.get("apiVersion").cloned().unwrap_or_default());
        let is_same = changed == *object && changed.name() == object.name();
        Ok((!is_same).then_some(changed))
    }
}

/// The response in an answer, if it is one to this request.
fn response(answer: Value, uid: &str, mutating: bool) -> Result<Value, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".into());
    }
    if response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response["uid"].as_str().unwrap_or_default()));
    }
    let [api_version, kind] = ["apiVersion", "kind"].map(|field| answer[field].as_str().unwrap_or_default());
    if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
        return Err(format!("expected webhook response of {expected}, got {api_version}, Kind={kind}"));
    }
    let is_set = |field: &str| response[field].as_str().is_some_and(|text| !text.is_empty());
    match (mutating, is_set("patch"), is_set("patchType")) {
        (true, true, false) => Err("webhook returned response.patch but not response.patchType".into()),
        (true, false, true) => Err("webhook returned response.patchType but not response.patch".into()),
        (false, true, _) => Err("validating webhook may not return response.patch".into()),
        (false, _, true) => Err("validating webhook may not return response.patchType".into()),
        _ => Ok(response.clone()),
    }
}
