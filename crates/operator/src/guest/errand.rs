//! Asks a guest itself, beside all else: which of its Nodes are ready, and whether its add-ons are as they should be; what differs is
//! applied at once.
//!
//! No watch stays open: a guest is asked when its machines or what is wanted of its add-ons change, and again while something is amiss.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::secrets;
use drover_api::marks::FIELD_MANAGER;
use drover_api::tanzu::DISTRIBUTION_LABEL;
use drover_clock::{Clock, later};
use drover_core::guest::tanzu::addons::{
    Deed, Observed, Order, Served, Source, Step, Told, Unread, course, needs, refused, unreachable, unreadable,
};
use drover_core::guest::{cluster_configuration, has_condition};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ear::{News, Visit};
use super::lane::SOON;
use super::ledger::Key;
use super::{Guests, Keys};
use crate::api::{Api, ApiError};

/// A guest does not take longer to say which Nodes it has.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// A whole visit does not take longer: others wait for their turn.
const VISIT: Duration = Duration::from_mins(10);
/// Remembered, managed, applied, defined, overtaken by others, deleted, forgotten: more turns mean that somebody works against it.
const TURNS: usize = 12;
/// What machines join with.
const KUBEADM: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
const DEFINITION: &str = "CustomResourceDefinition";

/// One such visit.
pub struct Errand {
    pub api: Api,
    pub guests: Arc<dyn Guests>,
    pub clock: Clock,
    pub key: Key,
    /// None if add-ons cannot be asked for.
    pub order: Option<Order>,
    pub leading_until: watch::Receiver<Option<Instant>>,
}

impl Errand {
    /// Tells what the guest says. One that does not answer within `patience` is asked again with more of it, if there is more.
    pub async fn run(self, patience: Duration, news: UnboundedSender<News>) {
        let began = self.clock.now();
        let limit = self.clock.on_the_wall(patience);
        let reached = match tokio::time::timeout(limit, self.reach()).await {
            Ok(reached) => reached,
            Err(_) if patience < PATIENCE => {
                let _ = news.send(News::Asked { key: self.key, addons: Visit::Unanswered, is_slow: true });
                return;
            }
            Err(_) => Err(format!("no answer within {} s", patience.as_secs())),
        };
        let nodes = reached.as_ref().ok().map(|(_, nodes)| nodes.iter().filter_map(readiness).collect());
        let configuration = match &reached {
            Ok((guest, _)) => {
                tokio::time::timeout(limit, there(guest, KUBEADM)).await.ok().and_then(Result::ok).flatten()
            }
            Err(_) => None,
        };
        let configuration = configuration.as_ref().and_then(cluster_configuration);
        // A closed desk means that the controller has ended.
        let _ = news.send(News::Nodes { key: self.key.clone(), nodes, configuration });
        let addons = match (&self.order, &reached) {
            (None, _) => Visit::Unasked,
            (Some(order), Err(why)) => Visit::Told(unreachable(order, why)),
            (Some(order), Ok((guest, nodes))) => {
                let limit = self.clock.on_the_wall(VISIT);
                let late = || Some(unreachable(order, &format!("it was not done within {} s", VISIT.as_secs())));
                let told = tokio::time::timeout(limit, self.reconcile(guest, order, nodes)).await;
                told.unwrap_or_else(|_| late()).map_or(Visit::BrokenOff, Visit::Told)
            }
        };
        let is_slow = self.clock.now() > later(began, SOON);
        let _ = news.send(News::Asked { key: self.key, addons, is_slow });
    }

    /// The API of the guest, and its Nodes.
    async fn reach(&self) -> Result<(Api, Vec<Value>), String> {
        let (namespace, name) = &self.key;
        let kubeconfig = kubeconfig_of(&self.api, namespace, name).await.map_err(|error| error.to_string())?;
        let guest = Api::new(self.guests.reach(Keys { kubeconfig, etcd: None }).await?.client, self.clock);
        let list = read(&guest, "/api/v1/nodes").await.map_err(|error| error.to_string())?;
        Ok((guest, list["items"].as_array().cloned().unwrap_or_default()))
    }

    /// One turn after another, until nothing differs; none if another operator leads meanwhile.
    async fn reconcile(&self, guest: &Api, order: &Order, nodes: &[Value]) -> Option<Told> {
        let nodes = nodes.iter().filter_map(distribution).collect();
        let mut observed = Observed { nodes, ..Observed::default() };
        let mut turns = 0;
        loop {
            if let Err(told) = look(guest, order, &mut observed).await {
                return Some(*told);
            }
            let course = course(order, &observed);
            turns += 1;
            if course.steps.is_empty() || turns > TURNS {
                return Some(course.told);
            }
            for step in &course.steps {
                if self.leading_until.borrow().is_none_or(|until| Instant::now() >= until) {
                    return None;
                }
                // One that has failed is left alone; the others go on. What it cannot do it is not asked for again.
                let is_in_vain = observed.cannot_apply && matches!(step.deed, Deed::Apply(_));
                if !is_in_vain && step.addon.as_ref().is_none_or(|addon| !observed.failed.contains_key(addon)) {
                    take(guest, order, step, &mut observed).await;
                }
            }
        }
    }
}

/// What the Secret of a cluster says of the way to it.
pub async fn kubeconfig_of(api: &Api, namespace: &str, cluster: &str) -> Result<String, ApiError> {
    let name = format!("{cluster}{}", secrets::KUBECONFIG);
    let secret = read(api, &format!("/api/v1/namespaces/{namespace}/secrets/{name}")).await?;
    let value = secret["data"][secrets::VALUE].as_str().and_then(|value| STANDARD.decode(value).ok());
    let kubeconfig = value.and_then(|value| String::from_utf8(value).ok());
    kubeconfig.ok_or_else(|| ApiError::Unreadable(format!("Secret {namespace}/{name} holds no kubeconfig")))
}

/// Reads what the next decision needs; else what that means for all add-ons.
async fn look(guest: &Api, order: &Order, observed: &mut Observed) -> Result<(), Box<Told>> {
    loop {
        let (versions, objects) = needs(order, observed);
        if versions.is_empty() && objects.is_empty() {
            return Ok(());
        }
        for version in versions {
            match discover(guest, &version).await {
                Ok(kinds) => drop(observed.served.insert(version, kinds)),
                Err(error) => unread(order, observed, Unread::Version(version), &error)?,
            }
        }
        for object in objects {
            let Some(path) = observed.served(&object).map(|served| served.path(&object)) else { continue };
            match there(guest, &path).await {
                Ok(found) => drop(observed.objects.insert(object, found)),
                Err(error) => unread(order, observed, Unread::Object(object), &error)?,
            }
        }
    }
}

/// What a guest has answered with a code concerns those add-ons alone that need it; one that does not answer concerns all.
fn unread(order: &Order, observed: &mut Observed, what: Unread, error: &ApiError) -> Result<(), Box<Told>> {
    tracing::warn!("cannot {what} of the guest cluster: {error}");
    match error.code() {
        Some(code) => {
            what.note(order, observed, code, &error.to_string()).map_err(|why| Box::new(unreadable(order, &why)))
        }
        None => Err(Box::new(unreachable(order, &format!("cannot {what}: {error}")))),
    }
}

/// Takes one step, and notes what became of it.
async fn take(guest: &Api, order: &Order, step: &Step, observed: &mut Observed) {
    let object = &step.object;
    let Some(served) = observed.served(object) else { return };
    let (path, collection) = (served.path(object), served.collection(object));
    let answer = match &step.deed {
        // A field that is not known is refused, as an apply would.
        Deed::Create(body) => {
            guest.post(&format!("{collection}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict"), body).await
        }
        Deed::Adopt(patch) => guest.json_patch(&format!("{path}?fieldManager={FIELD_MANAGER}"), patch).await,
        Deed::Apply(body) => guest.apply(&format!("{path}?fieldManager={FIELD_MANAGER}&force=true"), body).await,
        Deed::Update(body) => {
            guest.put(&format!("{path}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict"), body).await
        }
        Deed::Delete { uid } => {
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background", "preconditions": { "uid": uid },
            });
            guest.delete(&path, &options).await
        }
    };
    match (&step.deed, answer) {
        (Deed::Adopt(_), Ok(answer)) => {
            observed.objects.insert(object.clone(), serde_json::from_slice(&answer).ok());
        }
        (Deed::Create(body) | Deed::Apply(body) | Deed::Update(body), Ok(answer)) => {
            tracing::info!("{}: {object}", step.purpose());
            observed.objects.insert(object.clone(), serde_json::from_slice(&answer).ok());
            observed.applied.insert(object.clone());
            if object.kind == DEFINITION {
                let group = format!("{}/", body["spec"]["group"].as_str().unwrap_or_default());
                observed.served.retain(|version, _| !version.starts_with(&group));
            }
        }
        (Deed::Delete { .. }, Ok(_)) => {
            tracing::info!("{}: {object}", step.purpose());
            observed.objects.remove(object);
        }
        (Deed::Apply(_), Err(error)) if error.code() == Some(415) => observed.cannot_apply = true,
        // What was changed or is gone meanwhile is read again.
        (_, Err(error)) if error.code() == Some(409) => drop(observed.objects.remove(object)),
        (Deed::Delete { .. } | Deed::Adopt(_), Err(error)) if error.code() == Some(404) => {
            observed.objects.remove(object);
        }
        (_, Err(error)) => {
            let why = refused(order, step, error.code(), &error.to_string());
            tracing::warn!("{why}");
            match &step.addon {
                Some(addon) => drop(observed.failed.insert(addon.clone(), why)),
                // What cannot be remembered is not applied.
                None => {
                    let all = order.addons.iter().filter(|addon| matches!(addon.source, Source::Objects(_)));
                    observed.failed.extend(all.map(|addon| (addon.id.clone(), why.clone())));
                }
            }
        }
    }
}

async fn read(api: &Api, path: &str) -> Result<Value, ApiError> {
    let body = api.get(path).await?;
    serde_json::from_slice(&body).map_err(|error| ApiError::Unreadable(error.to_string()))
}

/// None if it is not there.
async fn there(api: &Api, path: &str) -> Result<Option<Value>, ApiError> {
    match read(api, path).await {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The kinds of a version, or of the one that its group prefers by now; none if there is neither.
pub async fn discover(guest: &Api, version: &str) -> Result<Option<BTreeMap<String, Served>>, ApiError> {
    let root = if version.contains('/') { "apis" } else { "api" };
    if let Some(list) = there(guest, &format!("/{root}/{version}")).await? {
        return Ok(Some(kinds(&list, version)));
    }
    let Some((group, _)) = version.split_once('/') else { return Ok(None) };
    let Some(group) = there(guest, &format!("/apis/{group}")).await? else { return Ok(None) };
    let Some(other) = group["preferredVersion"]["groupVersion"].as_str() else { return Ok(None) };
    Ok(there(guest, &format!("/apis/{other}")).await?.map(|list| kinds(&list, other)))
}

fn kinds(list: &Value, version: &str) -> BTreeMap<String, Served> {
    let resources = list["resources"].as_array().into_iter().flatten();
    let found = resources.filter_map(|resource| {
        let plural = resource["name"].as_str().filter(|name| !name.contains('/'))?.to_owned();
        let served = Served { api_version: version.to_owned(), plural, namespaced: resource["namespaced"] == true };
        Some((resource["kind"].as_str()?.to_owned(), served))
    });
    found.collect()
}

fn readiness(node: &Value) -> Option<(String, bool)> {
    Some((node["metadata"]["name"].as_str()?.to_owned(), has_condition(node, "Ready")))
}

/// A Node, and the distribution that it names.
fn distribution(node: &Value) -> Option<(String, Option<String>)> {
    let label = node["metadata"]["labels"][DISTRIBUTION_LABEL].as_str().map(str::to_owned);
    Some((node["metadata"]["name"].as_str()?.to_owned(), label))
}
