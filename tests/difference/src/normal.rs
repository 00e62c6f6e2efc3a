//! Makes equal what differs by chance: uids, resourceVersions, times, generated names, addresses, tokens.
//!
//! What is replaced keeps its identity: the same uid is the same `<uid of Pod a 1>` all through a script, and an object
//! whose version changed shows another `<version …>`. So an update that should have changed nothing cannot hide.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

/// How the groups end that scripts define.
const CUSTOM_GROUPS: &str = "example.com";

/// What has been seen in one run of one script.
#[derive(Debug)]
pub(crate) struct Normal {
    namespace: String,
    /// How each uid is shown.
    uids: BTreeMap<String, String>,
    /// How many uids objects of a kind and name have had.
    bearers: BTreeMap<String, usize>,
    versions: BTreeMap<String, Vec<String>>,
    /// What names were asked to be generated from, and what came of it.
    prefixes: BTreeMap<String, Regex>,
    generated: BTreeMap<String, String>,
}

impl Normal {
    pub fn new(namespace: &str) -> Self {
        Normal {
            namespace: namespace.into(),
            uids: BTreeMap::new(),
            bearers: BTreeMap::new(),
            versions: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            generated: BTreeMap::new(),
        }
    }

    /// A name will be generated from this: five letters are added to it.
    pub fn expect_generated(&mut self, prefix: &str) {
        let escaped = regex::escape(prefix);
        if let Ok(pattern) = Regex::new(&format!("{escaped}[bcdfghjklmnpqrstvwxz2456789]{{5}}\\b")) {
            self.prefixes.insert(prefix.into(), pattern);
        }
    }

    pub fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(object) => self.object(object),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn object(&mut self, object: &mut Map<String, Value>) {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            self.metadata(&kind, metadata);
        }
        match kind.as_str() {
            "Table" => ages(object),
            "Status" => {
                order(object);
                order_errors(object);
            }
            _ => {}
        }
        let is_own = |value: &Value| value.as_str().is_some_and(|text| text.contains(&self.namespace));
        if object.get("groupVersion").is_some_and(is_own) {
            // They follow from the group, whose name is another one in each run.
            for resource in object.get_mut("resources").and_then(Value::as_array_mut).into_iter().flatten() {
                if resource.get("storageVersionHash").is_some() {
                    resource["storageVersionHash"] = json!("<hash>");
                }
            }
        }
        if object.contains_key("serverAddress") {
            object.insert("serverAddress".into(), json!("<address>"));
        }
        // In the order of the names, so that the first uid is the same one whatever order the server writes.
        let mut names: Vec<String> = object.keys().cloned().collect();
        names.sort_unstable();
        let replaced = names.into_iter().filter_map(|name| {
            let mut value = object.remove(&name)?;
            self.value(&mut value);
            Some((self.text(&name), value))
        });
        let replaced: Map<String, Value> = replaced.collect();
        *object = replaced;
    }

    fn metadata(&mut self, kind: &str, metadata: &mut Map<String, Value>) {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (uid, version, name) = (text("uid"), text("resourceVersion"), text("name"));
        if !uid.is_empty() {
            let name = self.text(&name);
            self.uid(&uid, &format!("{kind} {name}"));
        }
        if !version.is_empty() && version != "0" {
            // A list's version is that of the whole store, where a real server writes for itself, too.
            let shown = match uid.as_str() {
                "" => "<version>".into(),
                uid => self.version(uid, &version),
            };
            metadata.insert("resourceVersion".into(), json!(shown));
        }
        if metadata.get("continue").is_some_and(|token| token != "") {
            metadata.insert("continue".into(), json!("<token>"));
        }
        if let Some(Value::Array(entries)) = metadata.get_mut("managedFields") {
            // A server sorts them by time, too, and a second may pass between two requests or not.
            let key =
                |entry: &Value| ["operation", "manager", "apiVersion", "subresource"].map(|part| text_of(entry, part));
            entries.sort_by_key(key);
        }
    }

    fn version(&mut self, uid: &str, version: &str) -> String {
        let object = self.uid(uid, "");
        let seen = self.versions.entry(uid.into()).or_default();
        let place = seen.iter().position(|found| found == version).unwrap_or_else(|| {
            seen.push(version.into());
            seen.len() - 1
        });
        format!("<version {} of {object}>", place + 1)
    }

    /// A uid is named after who bears it, so that one object more on one side does not rename all that follow.
    fn uid(&mut self, uid: &str, bearer: &str) -> String {
        if let Some(shown) = self.uids.get(uid) {
            return shown.clone();
        }
        let count = self.bearers.entry(bearer.into()).or_default();
        *count += 1;
        let shown = format!("{bearer} {count}").trim().to_owned();
        self.uids.insert(uid.into(), shown.clone());
        shown
    }

    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (prefix, pattern) in &self.prefixes {
            let generated = &mut self.generated;
            let shown = pattern.replace_all(&text, |found: &Captures<'_>| {
                let number = generated.len() + 1;
                generated.entry(found[0].into()).or_insert_with(|| format!("{prefix}<generated {number}>")).clone()
            });
            text = shown.into_owned();
        }
        let text = text.replace(&self.namespace, "<ns>");
        let text = UID.replace_all(&text, |found: &Captures<'_>| format!("<uid of {}>", self.uid(&found[0], "")));
        let text = TIME.replace_all(&text, |found: &Captures<'_>| match found.name("fraction") {
            Some(_) => "<time with fraction>",
            None => "<time>",
        });
        let text = IN_MESSAGES.replace_all(&text, "$before<number>");
        let text = IN_PARENTHESES.replace_all(&text, "$before(<number>)");
        let text = IN_TEXT.replace_all(&text, "$before<number>");
        let text = CHANGES.replace(&text, "$before");
        CLUSTER_IP.replace_all(&text, "<address>").into_owned()
    }
}

fn text_of(entry: &Value, part: &str) -> String {
    entry.get(part).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// How old something is, in the cells of a table.
fn ages(table: &mut Map<String, Value>) {
    for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                *cell = json!("<age>");
            }
        }
    }
}

/// What is wrong with the content of a custom object, by its schema or its rules, or with a schema itself, comes in the
/// order of a Go map, another one each time.
fn order(status: &mut Map<String, Value>) {
    let details = status.get("details").unwrap_or(&Value::Null);
    let causes = details["causes"].as_array().cloned().unwrap_or_default();
    let group = text_of(details, "group");
    let in_content = |cause: &&Value| {
        let field = text_of(cause, "field");
        match group.as_str() {
            "apiextensions.k8s.io" => field.contains("openAPIV3Schema"),
            group if group.ends_with(CUSTOM_GROUPS) => {
                ["spec", "status"].iter().any(|part| field.trim_start_matches('.').starts_with(part))
            }
            _ => false,
        }
    };
    let mut sorted: Vec<&Value> = causes.iter().filter(in_content).collect();
    if sorted.len() < 2 {
        return;
    }
    sorted.sort_by_key(|cause| sentence(cause));
    let mut sorted = sorted.into_iter();
    let ordered: Vec<Value> = causes
        .iter()
        .map(|cause| if in_content(&cause) { sorted.next().unwrap_or(cause) } else { cause })
        .cloned()
        .collect();
    let said = status.get("message").and_then(Value::as_str).unwrap_or_default();
    let message = said.replace(&listed(&causes), &listed(&ordered));
    status.insert("message".into(), json!(message));
    status["details"]["causes"] = json!(ordered);
}

/// What does not fit the type of an applied object comes in the order of a Go map, too: a line for each, in the message alone.
fn order_errors(status: &mut Map<String, Value>) {
    let said = status.get("message").and_then(Value::as_str).unwrap_or_default();
    let Some((before, errors)) = said.split_once("errors:\n") else { return };
    let mut errors: Vec<&str> = errors.split('\n').collect();
    errors.sort_unstable();
    let message = format!("{before}errors:\n{}", errors.join("\n"));
    status.insert("message".into(), json!(message));
}

fn sentence(cause: &Value) -> String {
    format!("{}: {}", text_of(cause, "field"), text_of(cause, "message"))
}

/// As a refusal lists what is wrong: everything once.
fn listed(causes: &[Value]) -> String {
    let mut sentences: Vec<String> = vec![];
    for sentence in causes.iter().map(sentence) {
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences.join(", ")
}

#[allow(clippy::expect_used, reason = "the patterns are constants, and every test uses them")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));

/// Times of our days; what a script writes itself is older, and stays.
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(?<fraction>\.\d+)?Z"));

static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+[smhdy])+$"));

static CLUSTER_IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.96\.\d+\.\d+\b"));

/// What a real server appends to the refusal of a pod's update: the changes, for developers, laid out differently each time.
static CHANGES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?s)(?<before>it was previously negative\)|existing ephemeral containers "[^"]*" may not be changed).*"#)
});

/// Versions inside of messages.
static IN_MESSAGES: LazyLock<Regex> =
    LazyLock::new(|| pattern(concat!(r"(?<before>resource version: |, current: )", r"\d+(?: \(\d+\))?")));

/// Versions inside of objects that are shown as text.
static IN_TEXT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?<before>resourceVersion(?:\\?":\\?"|: "|:))\d+"#));

static IN_PARENTHESES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?<before>ResourceVersion in (?:the precondition|record) )\(\d+\)"));

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(values: &[Value]) -> Vec<Value> {
        let mut normal = Normal::new("ns-test-1");
        let mut values = values.to_vec();
        values.iter_mut().for_each(|value| normal.value(value));
        values
    }

    fn object(uid: char, version: &str) -> Value {
        let uid = format!("{}-0000-4000-8000-{}", uid.to_string().repeat(8), "0".repeat(12));
        json!({ "kind": "Pod", "metadata": { "name": "a", "uid": uid, "resourceVersion": version } })
    }

    #[test]
    fn a_version_that_stays_shows_as_the_same_one() {
        let shown = normal(&[object('a', "17"), object('b', "18"), object('a', "17"), object('a', "19")]);
        let versions: Vec<_> =
            shown.iter().map(|object| object["metadata"]["resourceVersion"].as_str().unwrap()).collect();
        assert_eq!(
            versions,
            ["<version 1 of Pod a 1>", "<version 1 of Pod a 2>", "<version 1 of Pod a 1>", "<version 2 of Pod a 1>"]
        );
    }

    #[test]
    fn generated_names_are_recognised_wherever_they_stand() {
        let mut normal = Normal::new("ns-test-1");
        normal.expect_generated("job-");
        assert_eq!(normal.text("job-x7k2p"), "job-<generated 1>");
        assert_eq!(normal.text("pods \"job-x7k2p\" not found"), "pods \"job-<generated 1>\" not found");
        assert_eq!(normal.text("job-runner"), "job-runner");
    }

    #[test]
    fn what_is_wrong_with_custom_content_is_sorted_and_everything_else_keeps_its_place() {
        let refusal = |group: &str, fields: [&str; 3]| {
            let causes = fields.map(|field| json!({ "field": field, "message": "bad" }));
            let message = format!("T is invalid: [{}: bad]", fields.join(": bad, "));
            json!({ "kind": "Status", "message": message, "details": { "group": group, "causes": causes } })
        };
        let (found, sorted) = (["spec.z", "metadata.name", "spec.a"], ["spec.a", "metadata.name", "spec.z"]);
        let shown = normal(&[refusal("a.example.com", found), refusal("apps", found)]);
        assert_eq!(shown, [refusal("a.example.com", sorted), refusal("apps", found)]);
    }

    #[test]
    fn what_does_not_fit_the_type_of_an_applied_object_is_sorted() {
        let refusal = |errors: [&str; 2]| {
            let message =
                format!("failed to create typed patch object (/g): errors:\n  {}\n  {}", errors[0], errors[1]);
            json!({ "kind": "Status", "message": message })
        };
        assert_eq!(normal(&[refusal([".spec.z: bad", ".spec.a: bad"])]), [refusal([".spec.a: bad", ".spec.z: bad"])]);
    }

    #[test]
    fn times_of_today_go_and_others_stay() {
        let mut normal = Normal::new("ns-test-1");
        assert_eq!(normal.text("2026-01-01T10:00:00Z"), "<time>");
        assert_eq!(normal.text("2026-01-01T10:00:00.123456Z"), "<time with fraction>");
        assert_eq!(normal.text("2001-01-01T10:00:00Z"), "2001-01-01T10:00:00Z");
    }

    #[test]
    fn versions_in_messages_go() {
        let mut normal = Normal::new("ns-test-1");
        assert_eq!(normal.text("too old resource version: 1 (245)"), "too old resource version: <number>");
        let shown = r#"Invalid value: "{\"metadata\":{\"resourceVersion\":\"17\"}}""#;
        assert_eq!(normal.text(shown), shown.replace("17", "<number>"));
        assert_eq!(normal.text("resourceVersion: \"17\""), "resourceVersion: \"<number>\"");
        let large = "Too large resource version: 9999, current: 245";
        assert_eq!(normal.text(large), "Too large resource version: <number>, current: <number>");
    }
}
