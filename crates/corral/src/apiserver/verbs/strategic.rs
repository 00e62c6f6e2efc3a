//! Strategic merge: a merge patch that knows which lists are maps by another name.
//!
//! Built-in kinds only, as in the original; which lists are merged, and by what, is in their schemas. It understands
//! `$patch`, `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList`.

use serde_json::Value;

use crate::apiserver::{
    fields::{ListPatch, Place},
    gotext::printed,
    object::Object,
    status::{Answer, bad_request, unexplained},
};

/// Applies a patch, or says why it cannot be.
pub(super) fn merge(place: Place<'_>, object: &mut Object, patch: &Object) -> Answer<()> {
    match patch.get("$patch") {
        Some(directive) if directive == "replace" => {
            *object = without_directives(patch);
            return Ok(());
        }
        Some(directive) if directive == "delete" => {
            object.clear();
            return Ok(());
        }
        Some(directive) if directive != "merge" => return Err(unknown_directive(directive, patch)),
        _ => {}
    }
    retain(object, patch)?;
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(found)), Value::Array(gone)) = (object.get_mut(field), value) {
                found.retain(|item| !gone.contains(item));
            }
        } else if !name.starts_with('$') {
            merge_field(place, object, name, value, patch.get(&format!("$setElementOrder/{name}")))?;
        }
    }
    // An order may be stated for a list that is not otherwise changed.
    for (name, order) in patch {
        if let Some(field) = name.strip_prefix("$setElementOrder/")
            && !patch.contains_key(field)
            && let (Some(Value::Array(items)), Value::Array(order)) = (object.get_mut(field), order)
        {
            let before = items.clone();
            put_in_order(items, &before, order, &place.list(field));
        }
    }
    Ok(())
}

fn unknown_directive(directive: &Value, patch: &Object) -> Box<kube::core::Status> {
    let shown = printed(&Value::Object(patch.clone()));
    unexplained(&format!("unknown patch type: {} in map: {shown}", printed(directive)))
}

/// Drops all fields but those that `$retainKeys` names, if it is there.
fn retain(object: &mut Object, patch: &Object) -> Answer<()> {
    let Some(kept) = patch.get("$retainKeys") else { return Ok(()) };
    let kept = kept.as_array().ok_or_else(|| bad_request("invalid patch format of retainKeys"))?;
    let is_kept = |name: &String| kept.iter().any(|kept| kept == name);
    if patch.iter().any(|(name, value)| !name.starts_with('$') && !value.is_null() && !is_kept(name)) {
        return Err(bad_request("invalid patch format of retainKeys"));
    }
    object.retain(|name, _| is_kept(name));
    Ok(())
}

fn merge_field(place: Place<'_>, object: &mut Object, name: &str, value: &Value, order: Option<&Value>) -> Answer<()> {
    match (object.get_mut(name), value) {
        (_, Value::Null) => {
            object.remove(name);
        }
        (Some(Value::Object(found)), Value::Object(changes)) if !place.replaces(name) => {
            merge(place.field(name), found, changes)?;
        }
        (Some(Value::Array(found)), Value::Array(changes)) => {
            if let Some(Value::Array(order)) = order {
                check_order(changes, order, &place.list(name))?;
            }
            let before = found.clone();
            merge_list(place.elements(name), found, changes, &place.list(name))?;
            // Unless it says otherwise, the order in which a patch brings elements is the one that it wants.
            if place.list(name) != ListPatch::Whole {
                let order = order.and_then(Value::as_array).unwrap_or(changes);
                put_in_order(found, &before, order, &place.list(name));
            }
        }
        (_, value) => {
            object.insert(name.into(), clean(value));
        }
    }
    Ok(())
}

fn merge_list(elements: Place<'_>, found: &mut Vec<Value>, changes: &[Value], how: &ListPatch<'_>) -> Answer<()> {
    let key = match how {
        ListPatch::Whole => {
            *found = changes.to_vec();
            return Ok(());
        }
        ListPatch::Set => {
            let missing: Vec<_> = changes.iter().filter(|item| !found.contains(item)).cloned().collect();
            found.extend(missing);
            return Ok(());
        }
        ListPatch::By(key) => *key,
    };
    if changes.iter().any(|change| !change.is_object()) {
        let both = Value::Array(vec![Value::Array(found.clone()), Value::Array(changes.to_vec())]);
        return Err(unexplained(&format!("list element types are not identical: {}", printed(&both))));
    }
    if changes.iter().any(|change| change["$patch"] == "replace") {
        let kept = changes.iter().filter(|change| change.get("$patch").is_none());
        *found = kept.map(clean).collect();
        return Ok(());
    }
    for change in changes.iter().filter_map(Value::as_object) {
        let Some(wanted) = change.get(key) else {
            let shown = printed(&Value::Object(change.clone()));
            return Err(unexplained(&format!("map: {shown} does not contain declared merge key: {key}")));
        };
        let same = |item: &Value| item.get(key) == Some(wanted);
        match change.get("$patch") {
            Some(directive) if directive == "delete" => found.retain(|item| !same(item)),
            Some(directive) if directive != "merge" => return Err(unknown_directive(directive, change)),
            _ => match found.iter_mut().find(|item| same(item)) {
                Some(Value::Object(item)) => merge(elements, item, change)?,
                _ => found.push(Value::Object(without_directives(change))),
            },
        }
    }
    Ok(())
}

/// What a patch brings has to stand in the order that it asks for.
fn check_order(changes: &[Value], order: &[Value], how: &ListPatch<'_>) -> Answer<()> {
    let mut rest = order.iter();
    let is_deleted = |change: &Value| change["$patch"] == "delete";
    let in_order = changes.iter().filter(|change| !is_deleted(change)).all(|change| {
        rest.any(|named| match how {
            ListPatch::By(key) => named.get(key) == change.get(key),
            ListPatch::Set | ListPatch::Whole => named == change,
        })
    });
    if in_order {
        return Ok(());
    }
    let [changes, order] = [changes, order].map(|list| printed(&Value::Array(list.to_vec())));
    let why = format!("The order in patch list:\n{changes}\n doesn't match $setElementOrder list:\n{order}\n");
    Err(unexplained(&why))
}

/// Orders the elements that `order` names. The others keep their places among those of them that were there before;
/// what is new comes first.
fn put_in_order(items: &mut Vec<Value>, before: &[Value], order: &[Value], how: &ListPatch<'_>) {
    let same = |item: &Value, named: &Value| match how {
        ListPatch::By(key) => item.get(key).is_some() && item.get(key) == named.get(key),
        ListPatch::Set | ListPatch::Whole => item == named,
    };
    let place = |list: &[Value], item: &Value| list.iter().position(|named| same(item, named));
    let (mut named, others): (Vec<Value>, Vec<Value>) = items.drain(..).partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    let mut named = named.into_iter().peekable();
    for other in others {
        let stood = place(before, &other);
        let comes_first = |next: &Value| match (stood, place(before, next)) {
            (Some(other), Some(next)) => next < other,
            _ => true,
        };
        while let Some(next) = named.next_if(comes_first) {
            items.push(next);
        }
        items.push(other);
    }
    items.extend(named);
}

fn clean(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(without_directives(object)),
        Value::Array(items) => {
            let kept = items.iter().filter(|item| item.get("$patch").is_none());
            Value::Array(kept.map(clean).collect())
        }
        other => other.clone(),
    }
}

/// What a patch adds where nothing was.
fn without_directives(patch: &Object) -> Object {
    let fields = patch.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    fields.map(|(name, value)| (name.clone(), clean(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::apiserver::fields::KindType;

    fn patched(field: &str, object: Value, patch: Value) -> Answer<Value> {
        let pod = KindType::of_built_in("", "v1", "Pod").unwrap();
        let mut object = json!({ field: object }).as_object().unwrap().clone();
        merge(pod.place(), &mut object, json!({ field: patch }).as_object().unwrap())?;
        Ok(object.remove(field).unwrap())
    }

    /// What becomes of the spec of a pod.
    fn merged(spec: Value, patch: Value) -> Value {
        patched("spec", spec, patch).unwrap()
    }

    #[test]
    fn containers_are_matched_by_name_and_their_variables_too() {
        let result = merged(
            json!({ "containers": [
                { "name": "a", "image": "a:1", "env": [{ "name": "X", "value": "1" }] },
                { "name": "b", "image": "b:1" },
            ] }),
            json!({ "containers": [{ "name": "a", "image": "a:2", "env": [{ "name": "Y", "value": "2" }] }] }),
        );

        assert_eq!(
            result,
            json!({ "containers": [
                { "name": "a", "image": "a:2", "env": [{ "name": "Y", "value": "2" }, { "name": "X", "value": "1" }] },
                { "name": "b", "image": "b:1" },
            ] })
        );
    }

    #[test]
    fn directives_delete_and_replace() {
        let pod = json!({ "containers": [{ "name": "a" }, { "name": "b" }], "nodeSelector": { "x": "1" } });
        assert_eq!(
            merged(pod.clone(), json!({ "containers": [{ "name": "a", "$patch": "delete" }] }))["containers"],
            json!([{ "name": "b" }])
        );
        assert_eq!(
            merged(pod.clone(), json!({ "containers": [{ "$patch": "replace" }, { "name": "c" }] }))["containers"],
            json!([{ "name": "c" }])
        );
        assert_eq!(
            merged(pod, json!({ "nodeSelector": { "$patch": "replace", "y": "2" } }))["nodeSelector"],
            json!({ "y": "2" })
        );
    }

    #[test]
    fn a_null_removes_and_tolerations_are_replaced_as_a_whole() {
        let pod = json!({ "nodeName": "n", "tolerations": [{ "key": "a" }] });
        let result = merged(pod, json!({ "nodeName": null, "tolerations": [{ "key": "b" }] }));
        assert_eq!(result, json!({ "tolerations": [{ "key": "b" }] }));
    }

    #[test]
    fn finalizers_are_a_set_from_which_single_ones_can_be_taken() {
        let meta = |patch: Value| patched("metadata", json!({ "finalizers": ["a", "b"] }), patch).unwrap();
        assert_eq!(meta(json!({ "finalizers": ["c", "a"] })), json!({ "finalizers": ["c", "a", "b"] }));
        assert_eq!(meta(json!({ "$deleteFromPrimitiveList/finalizers": ["a"] })), json!({ "finalizers": ["b"] }));
    }

    #[test]
    fn only_retained_keys_stay() {
        let volumes = json!({ "volumes": [{ "name": "v", "emptyDir": {} }] });
        let patch =
            json!({ "volumes": [{ "name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": { "path": "/" } }] });
        let expected = json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] });
        assert_eq!(merged(volumes, patch), expected);
    }

    #[test]
    fn elements_take_the_order_that_is_asked_for_and_others_keep_their_place() {
        let result = merged(
            json!({ "volumes": [{ "name": "a" }, { "name": "mine" }, { "name": "b" }] }),
            json!({ "$setElementOrder/volumes": [{ "name": "b" }, { "name": "a" }, { "name": "c" }], "volumes": [{ "name": "c" }] }),
        );
        let volumes = result["volumes"].as_array().unwrap();
        let names: Vec<_> = volumes.iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["mine", "b", "a", "c"]);
    }

    #[test]
    fn what_is_not_in_order_is_refused() {
        let spec = || json!({ "containers": [{ "name": "a" }] });
        let refusal = |patch: Value| patched("spec", spec(), patch).unwrap_err().message;
        assert_eq!(
            refusal(json!({ "containers": [{ "image": "x" }] })),
            "map: map[image:x] does not contain declared merge key: name"
        );
        assert_eq!(
            refusal(json!({ "containers": [{ "name": "a", "$patch": "bad" }] })),
            "unknown patch type: bad in map: map[$patch:bad name:a]"
        );
        assert_eq!(
            refusal(json!({ "containers": [{ "name": "a" }], "$setElementOrder/containers": [{ "name": "b" }] })),
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n"
        );
        assert_eq!(
            refusal(json!({ "nodeSelector": {}, "$retainKeys": ["containers"] })),
            "invalid patch format of retainKeys"
        );
    }
}
