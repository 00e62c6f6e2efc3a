//! Events have two forms, in `v1` and in `events.k8s.io/v1`, and are the same objects in both. They are kept in the first.

use serde_json::json;

use super::object::Object;

pub(crate) const GROUP: &str = "events.k8s.io";
/// What stands for a version of Events where the newer form is meant.
pub(crate) const NEWER: &str = "events.k8s.io/v1";

/// What the fields are called in the newer form, and in the one that is kept.
const FIELDS: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Makes an Event of the newer form one that can be kept.
pub(crate) fn to_kept(event: &mut Object) {
    event.insert("apiVersion".into(), json!("v1"));
    FIELDS.iter().for_each(|(newer, kept)| rename(event, newer, kept));
    for name in ["reportingComponent", "reportingInstance"] {
        event.entry(name).or_insert_with(|| json!(""));
    }
}

/// Shows an Event that is kept in the newer form.
pub(crate) fn to_newer(event: &mut Object) {
    event.insert("apiVersion".into(), json!(NEWER));
    FIELDS.iter().for_each(|(newer, kept)| rename(event, kept, newer));
    // Who tells an Event is always written in the older form, and in the newer one only if somebody does.
    for name in ["reportingController", "reportingInstance"] {
        if event.get(name).is_some_and(|told| told == "") {
            event.remove(name);
        }
    }
}

/// A field selector for Events of the newer form, as one for those that are kept.
pub(crate) fn kept_selector(selector: &str) -> String {
    selector.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")
}

fn rename(event: &mut Object, from: &str, to: &str) {
    if let Some(value) = event.remove(from) {
        event.insert(to.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_in_both_forms() {
        let newer = json!({ "apiVersion": NEWER, "kind": "Event", "note": "n", "regarding": { "name": "p" } });
        let mut event = newer.as_object().unwrap().clone();
        to_kept(&mut event);
        assert_eq!((&event["message"], &event["involvedObject"]["name"]), (&json!("n"), &json!("p")));
        to_newer(&mut event);
        assert_eq!(serde_json::Value::Object(event), newer);
    }
}
