//! Read one object or a list, whole or in pages.

use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Unbounded},
    sync::Arc,
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Target;
use crate::apiserver::{
    body,
    selectors::Selectors,
    status::{Answer, FieldError, bad_request, expired, invalid, not_found, too_large_version, unexplained},
    store::{Collection, Store},
    stored::Stored,
};

/// Which objects a list is about.
pub(crate) struct Selection {
    pub selectors: Selectors,
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
    let asked = read_version(version).map_err(|why| unexplained(&why))?;
    not_in_the_future(store, asked)?;
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
    /// Asked for of a list, which has none.
    pub initial_events: bool,
}

/// A page of a list.
pub(crate) struct Page {
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
    pub token: String,
    pub remaining: Option<usize>,
}

/// Bits behind the last letter are of no interest to the original.
const TOKEN_LETTERS: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The form of a token, as the original names it.
const TOKEN_FORM: &str = "meta.k8s.io/v1";

/// Where the next page starts, and at which revision the first one was read.
#[derive(Debug, Deserialize, Serialize)]
struct Token {
    #[serde(rename = "v")]
    form: String,
    #[serde(rename = "rv")]
    revision: Option<u64>,
    #[serde(rename = "start")]
    after: String,
}

impl Token {
    fn new(revision: Option<u64>, after: String) -> Self {
        Token { form: TOKEN_FORM.into(), revision, after }
    }

    fn encode(&self) -> String {
        TOKEN_LETTERS.encode(json!(self).to_string())
    }

    fn decode(text: &str) -> Answer<Self> {
        let invalid = |why: &str| bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = TOKEN_LETTERS.decode(text).map_err(|_| invalid("illegal base64 data"))?;
        let value = body::value(&bytes).map_err(|why| invalid(&why))?;
        let form = value["v"].as_str().unwrap_or_default();
        if form != TOKEN_FORM {
            return Err(invalid(&format!("server does not recognize this encoded version {form}")));
        }
        serde_json::from_value(value).map_err(|error| invalid(&error.to_string()))
    }
}

pub(crate) fn list(store: &Store, target: &Target, selection: &Selection, options: &ListOptions) -> Answer<Page> {
    let collection = store.of(&target.resource.id)?;
    let (revision, place) = starting_point(store, options)?;
    let items = at_revision(collection, revision).map_err(|_| too_old_to_continue(options, &place))?;
    let (start, end) = bounds(&target.namespace);
    let after = key_after(&target.namespace, &place);
    let from = if after.is_empty() { start.as_bound() } else { Excluded(after.as_str()) };
    let chosen = items.range(from, end.as_bound()).filter(|(key, stored)| selection.selectors.matches(key, stored));

    // From version 0 the original answers out of its cache, which knows no pages.
    let limit = if options.limit == 0 || options.version == "0" { usize::MAX } else { options.limit };
    let mut page = Page { revision, items: vec![], token: String::new(), remaining: None };
    let mut last = None;
    for (key, stored) in chosen.take(limit) {
        last = Some(key.to_string());
        page.items.push(stored.clone());
    }
    // Whether there is more is told before it is known whether any of it is chosen.
    let more = |last: &String| items.range(Excluded(last.as_str()), end.as_bound()).next().is_some();
    if page.items.len() == limit
        && let Some(after) = last.filter(more)
    {
        page.token = Token::new(Some(revision), place_of(&target.namespace, &after)).encode();
        let is_first_of_all = from == Unbounded && items.undone.is_empty();
        let remaining = || match is_first_of_all {
            true => items.objects.len() - page.items.len(),
            false => items.range(Excluded(after.as_str()), end.as_bound()).count(),
        };
        page.remaining = selection.selectors.is_empty().then(remaining);
    }
    Ok(page)
}

/// How a token names the place behind a key: inside of what is listed, and with a letter that no name has.
fn place_of(namespace: &str, key: &str) -> String {
    let inside = key.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')).filter(|_| !namespace.is_empty());
    format!("{}\0", inside.unwrap_or(key))
}

/// The key that a token's place is behind; empty for the beginning.
fn key_after(namespace: &str, place: &str) -> String {
    let inside = place.trim_start_matches('/').trim_end_matches('\0');
    match (namespace, inside) {
        (_, "") => String::new(),
        ("", inside) => inside.into(),
        (namespace, inside) => format!("{namespace}/{inside}"),
    }
}

/// The revision to read at, and the place to go on from.
fn starting_point(store: &Store, options: &ListOptions) -> Answer<(u64, String)> {
    check_match(options)?;
    if !options.token.is_empty() {
        let token = Token::decode(&options.token)?;
        if !matches!(options.version.as_str(), "" | "0") {
            return Err(bad_request("specifying resource version is not allowed when using continue"));
        }
        return Ok((token.revision.unwrap_or(store.revision), token.after));
    }
    let asked = read_version(&options.version);
    let asked = asked.map_err(|why| bad_request(format!("invalid resource version: {why}")))?;
    not_in_the_future(store, asked)?;
    let revision = if options.version_match == "Exact" { asked } else { store.revision };
    Ok((revision, String::new()))
}

fn check_match(options: &ListOptions) -> Answer<()> {
    let field = "resourceVersionMatch";
    let mut errors = vec![];
    let (wanted, version) = (options.version_match.as_str(), options.version.as_str());
    if !wanted.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !options.token.is_empty() {
            errors.push(FieldError::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            let known = ["Exact", "NotOlderThan", ""].map(String::from);
            errors.push(FieldError::unsupported(field, &json!(wanted), &known));
        }
        if (wanted, version) == ("Exact", "0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if options.initial_events {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    match errors.as_slice() {
        [] => Ok(()),
        errors => Err(invalid("meta.k8s.io", "ListOptions", "", errors)),
    }
}

fn not_in_the_future(store: &Store, asked: u64) -> Answer<u64> {
    if asked > store.revision { Err(too_large_version(asked, store.revision)) } else { Ok(asked) }
}

/// A resourceVersion as a number, 0 if none is given; or why it is none.
pub(crate) fn read_version(version: &str) -> Result<u64, String> {
    match version {
        "" => Ok(0),
        version => {
            version.parse().map_err(|_| format!("resourceVersion: Invalid value: {version:?}: {}", no_number(version)))
        }
    }
}

/// What Go says of a text that is no number.
pub(crate) fn no_number(text: &str) -> String {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    format!("strconv.ParseUint: parsing {text:?}: {why}")
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
    let token = Token::new(None, after.into()).encode();
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
            stored.json_untyped(resource.form(&target.version), &mut body);
        } else {
            body.extend_from_slice(&stored.json_as(&api_version, &resource.id.kind));
        }
    }
    body.extend_from_slice(b"]}\n");
    Bytes::from(body)
}
