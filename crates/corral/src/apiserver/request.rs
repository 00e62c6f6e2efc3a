//! From a URL to what is asked for.

use std::{borrow::Cow, str::FromStr};

use http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;

use super::{
    status::{Answer, bad_request, method_not_allowed},
    view::About,
};

/// Where a request goes.
#[derive(Debug, PartialEq)]
pub(crate) enum Route {
    Healthy,
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources {
        group: String,
        version: String,
    },
    OpenApiIndex,
    /// `/openapi/v2`
    OpenApiWhole,
    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`
    OpenApi {
        group: String,
        version: String,
    },
    Objects(Path),
}

/// A resource, an object or a part of one, as the URL names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub plural: String,
    pub name: String,
    pub subresource: String,
    /// In the old form: `/api/v1/watch/…`.
    pub watch: bool,
    /// What stands behind the part of an object that passes requests on.
    pub rest: String,
}

impl Route {
    /// None for a path that leads nowhere.
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<_> = path.trim_matches('/').split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
        Some(match parts.as_slice() {
            ["readyz" | "healthz" | "livez", ..] => Route::Healthy,
            ["version"] => Route::Version,
            ["api"] => Route::CoreVersions,
            ["apis"] => Route::Groups,
            ["openapi", "v2"] => Route::OpenApiWhole,
            ["openapi", "v3"] => Route::OpenApiIndex,
            ["openapi", "v3", "api", version] => Route::OpenApi { group: String::new(), version: (*version).into() },
            ["openapi", "v3", "apis", group, version] => {
                Route::OpenApi { group: (*group).into(), version: (*version).into() }
            }
            ["apis", group] => Route::Group((*group).into()),
            ["api", version] => Route::Resources { group: String::new(), version: (*version).into() },
            ["apis", group, version] => Route::Resources { group: (*group).into(), version: (*version).into() },
            ["api", version, rest @ ..] => Route::Objects(Path::parse("", version, rest)?),
            ["apis", group, version, rest @ ..] => Route::Objects(Path::parse(group, version, rest)?),
            _ => return None,
        })
    }
}

fn decoded(part: &str) -> Cow<'_, str> {
    percent_decode_str(part).decode_utf8_lossy()
}

impl Path {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let path = |namespace: &str, plural: &str, name: &str, subresource: &str| Path {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            plural: plural.into(),
            name: name.into(),
            subresource: subresource.into(),
            watch: false,
            rest: String::new(),
        };
        if let ["watch", rest @ ..] = rest {
            return Some(Path { watch: true, ..Path::parse(group, version, rest)? });
        }
        Some(match rest {
            // A namespace is an object, too, and these are its parts.
            ["namespaces", name, part @ ("status" | "finalize")] => path("", "namespaces", name, part),
            ["namespaces", namespace, plural] => path(namespace, plural, "", ""),
            ["namespaces", namespace, plural, name] => path(namespace, plural, name, ""),
            ["namespaces", namespace, plural, name, part] => path(namespace, plural, name, part),
            [plural, name, "proxy", further @ ..] => {
                Path { rest: further.join("/"), ..path("", plural, name, "proxy") }
            }
            [plural] => path("", plural, "", ""),
            [plural, name] => path("", plural, name, ""),
            [plural, name, part] => path("", plural, name, part),
            _ => return None,
        })
    }
}

/// What a request wants to do to what its URL names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wish {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Wish {
    pub fn of(method: &Method, path: &Path, query: &Query) -> Answer<Self> {
        Ok(match (method, path.name.is_empty()) {
            (&Method::GET, _) if path.watch && path.subresource.is_empty() => Wish::Watch,
            (&Method::GET, true) if query.watch => Wish::Watch,
            (&Method::GET, true) => Wish::List,
            (&Method::GET, false) => Wish::Get,
            (&Method::POST, true) => Wish::Create,
            // Parts of objects are created by a POST: an eviction, a binding.
            (&Method::POST, false) if !path.subresource.is_empty() => Wish::Create,
            (&Method::PUT, false) => Wish::Update,
            (&Method::PATCH, false) => Wish::Patch,
            (&Method::DELETE, false) => Wish::Delete,
            (&Method::DELETE, true) => Wish::DeleteCollection,
            _ => return Err(method_not_allowed()),
        })
    }
}

impl Wish {
    /// What the answer to it holds.
    pub fn about(self) -> About {
        match self {
            Wish::List | Wish::DeleteCollection => About::List,
            Wish::Watch => About::Watch,
            _ => About::Object,
        }
    }
}

/// What stands after the question mark.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Query {
    pub watch: bool,
    pub label_selector: String,
    pub field_selector: String,
    pub resource_version: String,
    pub resource_version_match: String,
    pub limit: usize,
    pub token: String,
    pub timeout_seconds: Option<u64>,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    /// Everything that was said about dry runs; there is one right value.
    pub dry_run: Vec<String>,
    pub field_validation: String,
    pub field_manager: String,
    pub force: Option<bool>,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub follow: bool,
    pub tail_lines: Option<i64>,
    pub limit_bytes: Option<i64>,
    pub include_object: String,
    pub container: String,
    pub command: Vec<String>,
    pub stdin: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since_seconds: Option<i64>,
    pub since_time: String,
}

impl Query {
    pub fn parse(uri: &Uri) -> Answer<Self> {
        let mut query = Query::default();
        let Some(text) = uri.query() else { return Ok(query) };
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "watch" => query.watch = truth(&value),
                "labelSelector" => query.label_selector = value.into_owned(),
                "fieldSelector" => query.field_selector = value.into_owned(),
                "resourceVersion" => query.resource_version = value.into_owned(),
                "resourceVersionMatch" => query.resource_version_match = value.into_owned(),
                // Less than none is none.
                "limit" => {
                    query.limit = usize::try_from(number::<i64>(&value)?.unwrap_or_default()).unwrap_or_default()
                }
                "continue" => query.token = value.into_owned(),
                "timeoutSeconds" => query.timeout_seconds = number(&value)?,
                "allowWatchBookmarks" => query.bookmarks = truth(&value),
                "sendInitialEvents" => query.send_initial_events = Some(truth(&value)),
                "fieldValidation" => query.field_validation = value.into_owned(),
                "fieldManager" => query.field_manager = value.into_owned(),
                "force" => query.force = Some(truth(&value)),
                "dryRun" => query.dry_run.push(value.into_owned()),
                "gracePeriodSeconds" => query.grace_period_seconds = number(&value)?,
                "orphanDependents" => query.orphan_dependents = Some(truth(&value)),
                "propagationPolicy" => query.propagation_policy = Some(value.into_owned()),
                "follow" => query.follow = truth(&value),
                "tailLines" => query.tail_lines = number(&value)?,
                "limitBytes" => query.limit_bytes = number(&value)?,
                "container" => query.container = value.into_owned(),
                "command" => query.command.push(value.into_owned()),
                "stdin" => query.stdin = truth(&value),
                "previous" => query.previous = truth(&value),
                "timestamps" => query.timestamps = truth(&value),
                "sinceSeconds" => query.since_seconds = number(&value)?,
                "sinceTime" => query.since_time = value.into_owned(),
                "includeObject" => query.include_object = value.into_owned(),
                // The original ignores what it does not know, too.
                _ => {}
            }
        }
        Ok(query)
    }
}

fn truth(value: &str) -> bool {
    !matches!(value, "" | "false" | "0")
}

fn number<N: FromStr>(value: &str) -> Answer<Option<N>> {
    match value {
        "" => Ok(None),
        value => value
            .parse()
            .map(Some)
            .map_err(|_| bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))),
    }
}

/// The media type of the body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let whole = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(path: &str) -> Path {
        match Route::parse(path).unwrap() {
            Route::Objects(path) => path,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn urls_name_resources_objects_and_parts() {
        let pod = objects("/api/v1/namespaces/shop/pods/cart-0/eviction");
        assert_eq!(
            (&*pod.namespace, &*pod.plural, &*pod.name, &*pod.subresource),
            ("shop", "pods", "cart-0", "eviction")
        );

        let all = objects("/apis/batch/v1/jobs");
        assert_eq!((&*all.group, &*all.version, &*all.namespace, &*all.plural), ("batch", "v1", "", "jobs"));
    }

    #[test]
    fn a_namespace_is_an_object_and_a_place() {
        assert_eq!(objects("/api/v1/namespaces/shop").name, "shop");
        assert_eq!(objects("/api/v1/namespaces/shop/status").subresource, "status");
        assert_eq!(objects("/api/v1/namespaces/shop/pods").namespace, "shop");
    }
}
