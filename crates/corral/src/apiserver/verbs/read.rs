//! Read one object or a list, whole or in pages.

use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Unbounded},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Target;
use crate::apiserver::{
    selectors::Selectors,
    status::{Answer, FieldError, bad_request, expired, invalid, not_found, too_large_version},
    store::{Collection, Store, Stored},
};

/// Which objects a list is about.
pub(crate) struct Selection {
    pub selectors: Selectors,
}

impl Selection {
    /// The chosen objects of a collection, in order; of all namespaces if none is named.
    pub fn of<'a>(
        &'a self,
        collection: &'a Collection,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Stored>)> {
        let (start, end) = bounds(namespace);
        let objects = collection.objects.range::<str, _>((start.as_bound(), end.as_bound()));
        let chosen = objects.map(|(key, stored)| (&**key, stored));
        chosen.filter(|(key, stored)| self.selectors.matches(key, stored))
    }
}

/// The keys of one namespace: `ns/` up to what follows the slash.
pub(crate) fn bounds(namespace: &str) -> (Edge, Edge) {
    match namespace {
        "" => (Edge(None), Edge(None)),
        namespace => (Edge(Some(format!("{namespace}/"))), Edge(Some(format!("{namespace}0")))),
    }
}

pub(crate) struct Edge(Option<String>);

impl Edge {
    pub fn as_bound(&self) -> Bound<&str> {
        self.0.as_deref().map_or(Unbounded, Excluded)
    }
}

pub(crate) fn get(store: &Store, target: &Target, version: &str) -> Answer<Arc<Stored>> {
    check_not_in_the_future(store, version)?;
    let id = &target.resource.id;
    store.get(id, &target.key()).cloned().ok_or_else(|| not_found(id, &target.name))
}

/// How a list is asked for.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    pub limit: usize,
    pub token: String,
    pub version: String,
    /// `Exact`, `NotOlderThan` or empty.
    pub version_match: String,
}

/// A page of a list.
pub(crate) struct Page {
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
    pub token: String,
    pub remaining: Option<usize>,
}

/// Where the next page starts, and at which revision the first one was read.
#[derive(Debug, Deserialize, Serialize)]
struct Token {
    #[serde(rename = "rv")]
    revision: Option<u64>,
    #[serde(rename = "start")]
    after: String,
}

impl Token {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    fn decode(text: &str) -> Answer<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| bad_request("invalid continue token: continue key is not valid: not a token of this server"))
    }
}

pub(crate) fn list(store: &Store, target: &Target, selection: &Selection, options: &ListOptions) -> Answer<Page> {
    let collection = store.of(&target.resource.id)?;
    let (revision, after) = starting_point(store, options)?;
    let items = at_revision(collection, revision).map_err(|_| too_old_to_continue(options, &after))?;
    let (start, end) = bounds(&target.namespace);
    let from = if after.is_empty() { start.as_bound() } else { Excluded(after.as_str()) };
    let mut chosen = items.range(from, end.as_bound()).filter(|(key, stored)| selection.selectors.matches(key, stored));

    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    let mut page = Page { revision, items: vec![], token: String::new(), remaining: None };
    let mut last = None;
    for (key, stored) in chosen.by_ref().take(limit) {
        last = Some(key.to_string());
        page.items.push(stored.clone());
    }
    let remaining = chosen.count();
    if remaining > 0
        && let Some(after) = last
    {
        page.token = Token { revision: Some(revision), after }.encode();
        page.remaining = selection.selectors.is_empty().then_some(remaining);
    }
    Ok(page)
}

/// The revision to read at, and the key to go on after.
fn starting_point(store: &Store, options: &ListOptions) -> Answer<(u64, String)> {
    if !options.token.is_empty() {
        let token = Token::decode(&options.token)?;
        return Ok((token.revision.unwrap_or(store.revision), token.after));
    }
    check_match(options)?;
    let asked = check_not_in_the_future(store, &options.version)?;
    let revision = if options.version_match == "Exact" { asked } else { store.revision };
    Ok((revision, String::new()))
}

fn check_match(options: &ListOptions) -> Answer<()> {
    let field = "resourceVersionMatch";
    let error = match (options.version_match.as_str(), options.version.as_str()) {
        ("", _) => return Ok(()),
        (_, "") => FieldError::forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("Exact", "0") => {
            FieldError::forbidden(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        ("Exact" | "NotOlderThan", _) => return Ok(()),
        (other, _) => FieldError::unsupported(field, &json!(other), &["Exact", "NotOlderThan", ""].map(String::from)),
    };
    Err(invalid("meta.k8s.io", "ListOptions", "", &[error]))
}

fn check_not_in_the_future(store: &Store, version: &str) -> Answer<u64> {
    let asked = parse_version(version)?;
    if asked > store.revision { Err(too_large_version(asked, store.revision)) } else { Ok(asked) }
}

fn parse_version(version: &str) -> Answer<u64> {
    read_version(version).map_err(|why| bad_request(format!("invalid resource version: {why}")))
}

/// A resourceVersion as a number, 0 if none is given; or why it is none.
pub(crate) fn read_version(version: &str) -> Result<u64, String> {
    match version {
        "" => Ok(0),
        version => version.parse().map_err(|_| {
            format!(
                "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
            )
        }),
    }
}

/// The objects as they were at a revision: as they are, with what happened since undone.
struct Snapshot<'a> {
    objects: &'a BTreeMap<Box<str>, Arc<Stored>>,
    undone: BTreeMap<&'a str, Option<&'a Arc<Stored>>>,
}

impl<'a> Snapshot<'a> {
    fn range(&self, start: Bound<&str>, end: Bound<&str>) -> impl Iterator<Item = (&'a str, &'a Arc<Stored>)> {
        let unchanged = self.objects.range::<str, _>((start, end)).map(|(key, stored)| (&**key, stored));
        let mut unchanged = unchanged.filter(|(key, _)| !self.undone.contains_key(key)).peekable();
        let undone = self.undone.range::<str, _>((start, end));
        let mut undone = undone.filter_map(|(key, stored)| Some((*key, (*stored)?))).peekable();
        std::iter::from_fn(move || match (unchanged.peek(), undone.peek()) {
            (Some((left, _)), Some((right, _))) if left < right => unchanged.next(),
            (_, Some(_)) => undone.next(),
            (_, None) => unchanged.next(),
        })
    }
}

fn at_revision(collection: &Collection, revision: u64) -> Answer<Snapshot<'_>> {
    let mut undone = BTreeMap::new();
    for event in collection.log.events_since(revision)? {
        undone.entry(&*event.key).or_insert(event.before.as_ref());
    }
    Ok(Snapshot { objects: &collection.objects, undone })
}

fn too_old_to_continue(options: &ListOptions, after: &str) -> Box<kube::core::Status> {
    if options.token.is_empty() {
        return expired("The resourceVersion for the provided list is too old.");
    }
    let mut status = expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let token = Token { revision: None, after: after.into() }.encode();
    status.metadata = Some(ListMeta { continue_: Some(token), ..ListMeta::default() });
    status
}

pub(crate) fn list_metadata(target: &Target, page: &Page) -> Value {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    // Lists of custom resources always say whether they go on.
    if !page.token.is_empty() || target.resource.shape.is_none() {
        metadata["continue"] = json!(page.token);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// A list as JSON, put together from the bytes of its items. Items of built-in kinds do not repeat what they are.
pub(crate) fn list_json(target: &Target, page: &Page) -> Bytes {
    let metadata = list_metadata(target, page);
    let resource = &target.resource;
    let api_version = resource.api_version(&target.version);
    let mut body = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(resource.list_kind),
        json!(api_version)
    )
    .into_bytes();
    for (place, stored) in page.items.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        if resource.shape.is_some() {
            stored.json_untyped(&mut body);
        } else {
            body.extend_from_slice(&stored.json_as(&api_version, &resource.id.kind));
        }
    }
    body.extend_from_slice(b"]}\n");
    Bytes::from(body)
}
