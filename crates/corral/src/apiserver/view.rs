//! The form in which a client wants its answer: whole objects, their metadata, or a table; in JSON or YAML.

use bytes::Bytes;
use http::{HeaderMap, header};
use jiff::Timestamp;
use kube::core::Status;
use serde_json::{Value, json};

use super::{
    request::Query,
    resources::Resource,
    status::{Answer, bad_request, internal, media_types_accepted, not_acceptable, not_acceptable_as},
    table::{Include, Table, metadata_of},
    verbs::Target,
};

/// What this server can answer in, and what it can stream in.
const ANSWERS: [&str; 2] = ["application/json", "application/yaml"];
const STREAMS: &str = "application/json;stream=watch";

/// What an answer is to look like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    shape: Shape,
    pub yaml: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Shape {
    #[default]
    Whole,
    Table {
        version: &'static str,
        include: Include,
    },
    Metadata {
        version: &'static str,
    },
    MetadataList {
        version: &'static str,
    },
}

/// What a request is about, where that decides what can be accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum About {
    Object,
    List,
    Watch,
}

impl View {
    /// Takes the first form that the client accepts and this server has.
    pub fn negotiate(headers: &HeaderMap, query: &Query, resource: &Resource, about: About) -> Answer<View> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut clauses: Vec<_> =
            accept.split(',').map(Clause::parse).filter(|clause| !clause.kind.is_empty()).collect();
        if clauses.is_empty() {
            return Ok(View::default());
        }
        // Built-in kinds are guarded by a look at the plain media types, without wildcards inside of one.
        let is_named = |clause: &Clause<'_>| clause.kind == "*/*" || ANSWERS.contains(&clause.kind);
        if resource.shape.is_some() && !clauses.iter().any(is_named) {
            return Err(not_acceptable(&representations(about)));
        }
        clauses.sort_by(|left, right| right.quality.total_cmp(&left.quality));
        let Some(view) = clauses.iter().find_map(|clause| clause.view(about)) else {
            return Err(media_types_accepted(&if about == About::Watch { STREAMS.into() } else { ANSWERS.join(", ") }));
        };
        view.with_options(query, resource, about)
    }

    fn with_options(mut self, query: &Query, resource: &Resource, about: About) -> Answer<View> {
        let asked = |what: &str, is: &str, suffix: &str| {
            let name = go_name(resource, suffix);
            not_acceptable_as(&format!("you requested {what}, but the requested object is {is} ({name})"))
        };
        match (&mut self.shape, about) {
            (Shape::Table { include, .. }, _) => {
                *include = match query.include_object.as_str() {
                    "" | "Metadata" => Include::Metadata,
                    "Object" => Include::Whole,
                    "None" => Include::Nothing,
                    other => {
                        return Err(bad_request(format!(
                            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                             'Metadata', 'Object', 'None', or empty"
                        )));
                    }
                }
            }
            (Shape::Metadata { .. }, About::List) => return Err(asked("PartialObjectMetadata", "a list", "List")),
            (Shape::MetadataList { .. }, About::Object) => {
                return Err(asked("PartialObjectMetadataList", "not a list", ""));
            }
            _ => {}
        }
        Ok(self)
    }

    /// Whether objects are shown as they are stored.
    pub fn is_whole(&self) -> bool {
        self.shape == Shape::Whole
    }

    /// An object as the body of an answer, or inside an event of a watch. Only the first table of a watch has a header.
    pub fn object(&self, target: &Target, object: Value, now: Timestamp, is_first: bool) -> Value {
        match &self.shape {
            Shape::Whole => object,
            Shape::Table { version, include } => {
                Table::new(&target.resource, &target.version, version, *include, now).of_one(object, is_first)
            }
            Shape::Metadata { version } | Shape::MetadataList { version } => metadata_of(object, version),
        }
    }

    /// A list; `metadata` is that of the plain one.
    pub fn list(
        &self,
        target: &Target,
        mut metadata: Value,
        objects: impl Iterator<Item = Value>,
        now: Timestamp,
    ) -> Value {
        // Lists of custom resources always say whether they go on; these forms do so only if they do.
        if let Some(fields) = metadata.as_object_mut()
            && fields.get("continue") == Some(&json!(""))
        {
            fields.remove("continue");
        }
        match &self.shape {
            Shape::Table { version, include } => {
                let table = Table::new(&target.resource, &target.version, version, *include, now);
                let rows = objects.map(|object| table.row(object)).collect();
                table.of(metadata, rows, true)
            }
            Shape::Whole | Shape::Metadata { .. } | Shape::MetadataList { .. } => {
                let version = self.metadata_version();
                let items: Vec<_> = objects.map(|object| metadata_of(object, version)).collect();
                // The original has not made a list where there is nothing to put into it.
                let items = if items.is_empty() { Value::Null } else { json!(items) };
                json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                    "metadata": metadata, "items": items,
                })
            }
        }
    }

    fn metadata_version(&self) -> &'static str {
        match self.shape {
            Shape::Table { version, .. } | Shape::Metadata { version } | Shape::MetadataList { version } => version,
            Shape::Whole => "v1",
        }
    }

    /// A body in the form that was asked for, and its media type.
    pub fn encode(&self, body: Bytes) -> Answer<(&'static str, Bytes)> {
        if !self.yaml {
            return Ok((ANSWERS[0], body));
        }
        let failed = |error: &dyn std::fmt::Display| internal(&error.to_string());
        let value: Value = serde_json::from_slice(&body).map_err(|error| failed(&error))?;
        let text = serde_saphyr::to_string(&value).map_err(|error| failed(&error))?;
        Ok((ANSWERS[1], Bytes::from(text)))
    }
}

/// One of the forms that a client accepts.
struct Clause<'a> {
    kind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, value)| value.parse().ok());
        Clause { kind, quality: quality.unwrap_or(1.0), parameters }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    /// None if this server does not have that form.
    fn view(&self, about: About) -> Option<View> {
        let yaml = match self.kind {
            "application/json" | "application/*" | "*/*" => false,
            "application/yaml" if about != About::Watch => true,
            _ => return None,
        };
        if self.parameter("stream").is_some_and(|stream| !matches!(stream, "" | "watch")) {
            return None;
        }
        let asked = ["as", "g", "v"].map(|name| self.parameter(name));
        let version = match asked {
            [None, None, None] => return Some(View { shape: Shape::Whole, yaml }),
            [Some(_), Some("meta.k8s.io"), Some("v1")] => "v1",
            [Some(_), Some("meta.k8s.io"), Some("v1beta1")] => "v1beta1",
            _ => return None,
        };
        let shape = match asked[0] {
            Some("Table") => Shape::Table { version, include: Include::Metadata },
            Some("PartialObjectMetadata") => Shape::Metadata { version },
            Some("PartialObjectMetadataList") => Shape::MetadataList { version },
            _ => return None,
        };
        Some(View { shape, yaml })
    }
}

fn representations(about: About) -> String {
    let mut all = ANSWERS.join(", ");
    if matches!(about, About::List | About::Watch) {
        all = format!("{all}, {STREAMS}");
    }
    all
}

/// What the original calls the type of an object or a list inside itself.
fn go_name(resource: &Resource, suffix: &str) -> String {
    if resource.shape.is_none() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let group = resource.id.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    format!("*{group}.{}{suffix}", resource.id.kind)
}

/// Whether a client takes all groups in one document; one that does not say so gets them one by one.
pub(crate) fn accepts_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses = accept.split(',').map(Clause::parse);
    clauses.any(|clause| {
        let asked = ["as", "g", "v"].map(|name| clause.parameter(name));
        clause.kind == "application/json"
            && asked == [Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")]
    })
}

/// Whether a client would rather have YAML than JSON.
pub(crate) fn prefers_yaml(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses: Vec<_> = accept.split(',').map(Clause::parse).collect();
    clauses.sort_by(|left, right| right.quality.total_cmp(&left.quality));
    let view = clauses.iter().find_map(|clause| clause.view(About::Object));
    view.is_some_and(|view| view.yaml)
}

/// Refuses what could be answered in JSON only, if that is not accepted.
pub(crate) fn check_accepts_json(headers: &HeaderMap) -> Result<(), Box<Status>> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses = accept.split(',').map(Clause::parse).filter(|clause| !clause.kind.is_empty()).peekable();
    let is_json = |clause: Clause<'_>| matches!(clause.kind, "application/json" | "application/*" | "*/*");
    if clauses.peek().is_none() || clauses.any(is_json) { Ok(()) } else { Err(not_acceptable(ANSWERS[0])) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::builtin;

    fn view(accept: &str, about: About) -> Result<View, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        let nodes = builtin::ALL.iter().find(|resource| resource.id.plural == "nodes").unwrap();
        View::negotiate(&headers, &Query::default(), nodes, about).map_err(|status| status.message)
    }

    const TABLE: Shape = Shape::Table { version: "v1", include: Include::Metadata };

    #[test]
    fn the_first_form_that_is_known_is_taken() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(view(accept, About::List).unwrap().shape, TABLE);
        assert_eq!(
            view("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", About::List).unwrap().shape,
            Shape::Whole
        );
        assert!(view("application/json;q=0.5,application/yaml", About::Object).unwrap().yaml);
        assert_eq!(view("*/*", About::Watch).unwrap(), View::default());
    }

    #[test]
    fn what_cannot_be_given_is_refused_with_what_can() {
        assert_eq!(
            view("text/html", About::Object).unwrap_err(),
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
        );
        assert_eq!(
            view("application/json;as=Nothing;g=x;v=v1", About::Object).unwrap_err(),
            "only the following media types are accepted: application/json, application/yaml"
        );
        assert_eq!(
            view("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", About::List).unwrap_err(),
            "you requested PartialObjectMetadata, but the requested object is a list (*core.NodeList)"
        );
        assert!(view("application/vnd.kubernetes.protobuf", About::Object).is_err());
        assert!(view("application/yaml", About::Watch).is_err());
    }
}
