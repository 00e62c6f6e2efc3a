//! What happened, one line an event, for people: who wrote what field of what.

use bytes::Bytes;
use drover_clock::between;
use drover_corral::apiserver::{Commit, Verb};
use jiff::Timestamp;
use serde_json::Value;

/// How many fields of one write are shown.
const SHOWN: usize = 6;
/// How much of a value is shown.
const LONGEST: usize = 60;

/// Everything that happened in a run. Lines are made when somebody reads them.
#[derive(Debug, Clone, Default)]
pub struct Story {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
enum Entry {
    Commit(Box<Committed>),
    /// What went wrong, or should not have happened.
    Said {
        at: Timestamp,
        who: &'static str,
        what: String,
    },
}

#[derive(Debug, Clone)]
struct Committed {
    at: Timestamp,
    actor: String,
    verb: Verb,
    /// Kind, namespace, name and subresource.
    object: String,
    resource_version: u64,
    before: Option<Bytes>,
    after: Option<Bytes>,
}

impl Story {
    pub fn commit(&mut self, commit: &Commit<'_>) {
        let place = if commit.namespace.is_empty() { String::new() } else { format!("{}/", commit.namespace) };
        let part = if commit.subresource.is_empty() { String::new() } else { format!(" {}", commit.subresource) };
        self.entries.push(Entry::Commit(Box::new(Committed {
            at: commit.at,
            actor: commit.actor.to_owned(),
            verb: commit.verb,
            object: format!("{} {place}{}{part}", commit.resource.kind, commit.name),
            resource_version: commit.resource_version,
            before: commit.before.cloned(),
            after: commit.after.cloned(),
        })));
    }

    pub fn fault(&mut self, at: Timestamp, what: String) {
        self.entries.push(Entry::Said { at, who: "FAULT", what });
    }

    pub fn violation(&mut self, at: Timestamp, what: String) {
        self.entries.push(Entry::Said { at, who: "VIOLATION", what });
    }

    /// One line an event, with times since `started`. That a leader still leads is no event.
    pub fn lines(&self, started: Timestamp) -> Vec<String> {
        self.entries.iter().filter(|entry| !entry.renews_a_lease()).map(|entry| entry.line(started)).collect()
    }
}

impl Entry {
    fn renews_a_lease(&self) -> bool {
        let Entry::Commit(commit) = self else { return false };
        let holder = |bytes: &Option<Bytes>| {
            let lease: Value = serde_json::from_slice(bytes.as_ref()?).ok()?;
            Some(lease["spec"]["holderIdentity"].clone())
        };
        commit.object.starts_with("Lease ")
            && commit.before.is_some()
            && holder(&commit.before) == holder(&commit.after)
    }

    fn line(&self, started: Timestamp) -> String {
        let seconds = |at: Timestamp| between(started, at).as_secs_f64();
        match self {
            Entry::Said { at, who, what } => format!("{:>9.3}s {who:<20} {what}", seconds(*at)),
            Entry::Commit(commit) => {
                let verb = match (commit.verb, &commit.after) {
                    (Verb::Create, _) => "creates",
                    (Verb::Evict, _) => "evicts",
                    (Verb::Delete, None) => "deletes",
                    (Verb::Delete, Some(_)) => "begins to delete",
                    (_, None) => "removes",
                    _ => "changes",
                };
                let (actor, object, version) = (&commit.actor, &commit.object, commit.resource_version);
                let meaning = meaning(commit);
                let colon = if meaning.is_empty() { "" } else { ": " };
                format!("{:>9.3}s {actor:<20} {verb} {object} @{version}{colon}{meaning}", seconds(commit.at))
            }
        }
    }
}

/// What a write changes, in its most telling fields.
fn meaning(commit: &Committed) -> String {
    let parse = |bytes: &Option<Bytes>| {
        bytes.as_ref().and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok()).unwrap_or_default()
    };
    if commit.after.is_none() || commit.object.starts_with("Lease") {
        return String::new();
    }
    let (before, after) = (parse(&commit.before), parse(&commit.after));
    if commit.object.starts_with("Event") {
        return format!("{} {}", brief(&after["reason"]), brief(&after["message"]));
    }
    if commit.before.is_none() {
        let claim = &after["metadata"]["labels"]["drover.dev/claim"];
        return if claim.is_string() { format!("under claim {}", brief(claim)) } else { String::new() };
    }
    let mut changes = Vec::new();
    compare("", &before, &after, &mut changes);
    let more = changes.len().saturating_sub(SHOWN);
    changes.truncate(SHOWN);
    if more > 0 {
        changes.push(format!("and {more} more"));
    }
    changes.join("; ")
}

fn compare(path: &str, before: &Value, after: &Value, changes: &mut Vec<String>) {
    const PASSING: [&str; 6] =
        ["resourceVersion", "managedFields", "generation", "lastUpdateTime", "lastTransitionTime", "lastHeartbeatTime"];
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys.into_iter().filter(|key| !PASSING.contains(&key.as_str())) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, &before[key.as_str()], &after[key.as_str()], changes);
            }
        }
        (old, new) if is_list_of_types(old) && is_list_of_types(new) => {
            for condition in new.as_array().into_iter().flatten() {
                let kind = condition["type"].as_str().unwrap_or_default();
                let known = old.as_array().into_iter().flatten().find(|old| old["type"] == condition["type"]);
                compare(&format!("{path}[{kind}]"), known.unwrap_or(&Value::Null), condition, changes);
            }
        }
        (Value::Null, new @ Value::Object(_)) => {
            compare(path, &Value::Object(serde_json::Map::new()), new, changes);
        }
        (old, new) => changes.push(format!("{} {} → {}", short(path), brief(old), brief(new))),
    }
}

fn is_list_of_types(value: &Value) -> bool {
    let typed = |items: &Vec<Value>| items.iter().all(|item| item["type"].is_string());
    value.is_null() || value.as_array().is_some_and(typed)
}

/// Labels and annotations are known by their keys.
fn short(path: &str) -> String {
    path.replace("metadata.labels.", "label ").replace("metadata.annotations.", "annotation ").replace("metadata.", "")
}

fn brief(value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_told_by_its_fields() {
        let before = json!({ "metadata": { "resourceVersion": "1", "labels": { "a": "b" } }, "spec": {} });
        let after = json!({
            "metadata": { "resourceVersion": "2", "labels": { "a": "b", "drover.dev/claim": "c1" } },
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "now" }] },
        });
        let mut changes = Vec::new();
        compare("", &before, &after, &mut changes);
        assert_eq!(
            changes,
            [
                "label drover.dev/claim none → c1",
                "spec.unschedulable none → true",
                "status.conditions[Ready].status none → True",
                "status.conditions[Ready].type none → Ready",
            ]
        );
    }
}
