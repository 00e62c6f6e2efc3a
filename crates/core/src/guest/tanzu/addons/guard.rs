//! No write to a guest reverts what came after it was decided: a first one is refused if the object is there, a later one unless the
//! object is still the one that was read.
//!
//! A server-side apply makes what is not there, so the first writing is a plain create. What a create wrote is not given up by a later
//! apply of the same manager, as servers keep both apart: a field that a newer manifest drops would stay. So what was created is
//! turned into what was applied before anything else is applied to it, as kubectl does with objects from before server-side apply.

use drover_api::marks::FIELD_MANAGER;
use serde_json::{Value, json};

use super::Deed;
use super::merged::merged;

/// Operations of `metadata.managedFields`.
const UPDATE: &str = "Update";
const APPLY: &str = "Apply";

/// What comes next on the way to `wanted`.
pub fn written(live: Option<&Value>, mut wanted: Value) -> Deed {
    let Some(live) = live else { return Deed::Create(wanted) };
    if let Some(managers) = adopted(&live["metadata"]["managedFields"]) {
        return Deed::Adopt(json!([
            { "op": "replace", "path": "/metadata/managedFields", "value": managers },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"] },
        ]));
    }
    tie(&mut wanted, live);
    Deed::Apply(wanted)
}

/// Nobody has noted who manages which field, as before Kubernetes 1.16: a server that knows apply would take all of it for others', and
/// what a newer manifest drops would stay.
pub fn is_untracked(live: &Value) -> bool {
    live["metadata"]["managedFields"].as_array().is_none_or(Vec::is_empty)
}

/// The same for a guest that cannot apply, or an object that it has kept since then. `before` is what was written there before.
pub fn written_whole(live: Option<&Value>, wanted: Value, before: &[&Value]) -> Deed {
    let Some(live) = live else { return Deed::Create(wanted) };
    let mut whole = merged(live, &wanted, before);
    tie(&mut whole, live);
    Deed::Update(whole)
}

/// To that very version of that very object: the version alone would let a write bring back what is gone.
fn tie(wanted: &mut Value, live: &Value) {
    for field in ["resourceVersion", "uid"] {
        wanted["metadata"][field] = live["metadata"][field].clone();
    }
}

/// The managers, with all that was created by us among what was applied by us; none if they are so already.
fn adopted(managers: &Value) -> Option<Vec<Value>> {
    let managers = managers.as_array()?;
    let is_ours = |entry: &Value, operation: &str| {
        entry["manager"] == FIELD_MANAGER && entry["operation"] == operation && entry["subresource"].is_null()
    };
    let (created, mut rest): (Vec<Value>, Vec<Value>) =
        managers.iter().cloned().partition(|entry| is_ours(entry, UPDATE));
    for mut entry in created.iter().cloned() {
        match rest.iter_mut().find(|known| is_ours(known, APPLY)) {
            Some(known) => unite(&mut known["fieldsV1"], &entry["fieldsV1"]),
            None => {
                entry["operation"] = json!(APPLY);
                rest.push(entry);
            }
        }
    }
    (!created.is_empty()).then_some(rest)
}

/// Sets of fields are trees whose leaves are empty.
fn unite(known: &mut Value, more: &Value) {
    let (Some(known), Some(more)) = (known.as_object_mut(), more.as_object()) else { return };
    for (field, below) in more {
        unite(known.entry(field).or_insert_with(|| json!({})), below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields })
    }

    fn live(managers: Value) -> Value {
        json!({ "metadata": { "name": "a", "uid": "u", "resourceVersion": "7", "managedFields": managers } })
    }

    #[test]
    fn what_is_not_there_is_created() {
        let wanted = json!({ "metadata": { "name": "a" } });
        assert_eq!(written(None, wanted.clone()), Deed::Create(wanted));
    }

    #[test]
    fn what_is_there_is_applied_to_that_very_version_of_that_very_object() {
        let live = live(json!([entry("drover", APPLY, json!({})), entry("kubectl", UPDATE, json!({}))]));
        let Deed::Apply(body) = written(Some(&live), json!({ "metadata": { "name": "a" } })) else { panic!() };
        assert_eq!(body["metadata"], json!({ "name": "a", "uid": "u", "resourceVersion": "7" }));
    }

    #[test]
    fn what_is_written_whole_is_tied_to_it_as_well_whatever_was_written_before() {
        let before = json!({ "metadata": { "name": "a", "uid": "u", "resourceVersion": "3" } });
        let Deed::Update(body) =
            written_whole(Some(&live(json!([]))), json!({ "metadata": { "name": "a" } }), &[&before])
        else {
            panic!()
        };
        assert_eq!((&body["metadata"]["uid"], &body["metadata"]["resourceVersion"]), (&json!("u"), &json!("7")));
    }

    #[test]
    fn what_was_created_is_taken_for_applied_first_and_what_others_manage_stays_theirs() {
        let theirs = entry("kubectl", UPDATE, json!({ "f:data": { "f:theirs": {} } }));
        let mut status = entry("drover", UPDATE, json!({ "f:status": {} }));
        status["subresource"] = json!("status");
        let live = live(json!([
            theirs,
            entry("drover", APPLY, json!({ "f:data": { "f:a": {} } })),
            entry("drover", UPDATE, json!({ "f:data": { ".": {}, "f:b": {} } })),
            status,
        ]));

        let Deed::Adopt(patch) = written(Some(&live), json!({})) else { panic!() };

        let all = entry("drover", APPLY, json!({ "f:data": { "f:a": {}, ".": {}, "f:b": {} } }));
        assert_eq!(patch[0]["value"], json!([theirs, all, status]));
        assert_eq!(patch[1], json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": "7" }));
    }
}
