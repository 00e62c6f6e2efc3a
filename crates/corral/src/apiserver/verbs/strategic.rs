//! Strategic merge: a merge patch that knows which lists are maps by another name.
//!
//! Built-in kinds only, as in the original. It understands `$patch`, `$retainKeys`, `$setElementOrder` and
//! `$deleteFromPrimitiveList`.

use serde_json::Value;

use crate::apiserver::object::Object;

/// How a list takes a patch.
enum List {
    /// Element by element, matched by this field.
    By(&'static str),
    /// As a set of plain values.
    Set,
    /// As a whole.
    Whole,
}

/// The lists of built-in kinds that are merged; field names do not clash among the kinds that are served.
fn list(field: &str) -> List {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "resourceClaimStatuses"
        | "secrets"
        | "allocatedResourcesStatus" => List::By("name"),
        "ports" => List::By("containerPort"),
        "volumeMounts" => List::By("mountPath"),
        "volumeDevices" => List::By("devicePath"),
        "hostAliases" | "podIPs" | "hostIPs" => List::By("ip"),
        "topologySpreadConstraints" => List::By("topologyKey"),
        "conditions" | "addresses" => List::By("type"),
        "ownerReferences" => List::By("uid"),
        "finalizers" | "podCIDRs" => List::Set,
        _ => List::Whole,
    }
}

/// Applies a patch, or says why it cannot be.
pub(super) fn merge(object: &mut Object, patch: &Object) -> Result<(), String> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *object = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(format!("unknown patch type: {other}")),
    }
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        object.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(found)), Value::Array(gone)) = (object.get_mut(field), value) {
                found.retain(|item| !gone.contains(item));
            }
        } else if !name.starts_with('$') {
            merge_field(object, name, value, patch.get(&format!("$setElementOrder/{name}")))?;
        }
    }
    // An order may be stated for a list that is not otherwise changed.
    for (name, order) in patch {
        if let Some(field) = name.strip_prefix("$setElementOrder/")
            && !patch.contains_key(field)
            && let (Some(Value::Array(items)), Value::Array(order)) = (object.get_mut(field), order)
        {
            let before = items.clone();
            put_in_order(items, &before, order, &list(field));
        }
    }
    Ok(())
}

fn merge_field(object: &mut Object, name: &str, value: &Value, order: Option<&Value>) -> Result<(), String> {
    match (object.get_mut(name), value) {
        (_, Value::Null) => {
            object.remove(name);
        }
        (Some(Value::Object(found)), Value::Object(changes)) => merge(found, changes)?,
        (Some(Value::Array(found)), Value::Array(changes)) => {
            merge_list(found, changes, &list(name))?;
            if let Some(Value::Array(order)) = order {
                let before = found.clone();
                put_in_order(found, &before, order, &list(name));
            }
        }
        (_, value) => {
            object.insert(name.into(), clean(value));
        }
    }
    Ok(())
}

fn merge_list(found: &mut Vec<Value>, changes: &[Value], how: &List) -> Result<(), String> {
    let key = match how {
        List::Whole => {
            *found = changes.iter().map(clean).collect();
            return Ok(());
        }
        List::Set => {
            let missing: Vec<_> = changes.iter().filter(|item| !found.contains(item)).cloned().collect();
            found.extend(missing);
            return Ok(());
        }
        List::By(key) => *key,
    };
    if changes.iter().any(|change| change["$patch"] == "replace" && change.get(key).is_none()) {
        let kept = changes.iter().filter(|change| change.get("$patch").is_none());
        *found = kept.map(clean).collect();
        return Ok(());
    }
    for change in changes {
        let Value::Object(change) = change else {
            return Err(format!("an element of a list that is merged by {key} is no object"));
        };
        let Some(wanted) = change.get(key) else {
            return Err(format!("map: {} does not contain declared merge key: {key}", Value::Object(change.clone())));
        };
        let place = found.iter().position(|item| item.get(key) == Some(wanted));
        match (place, change.get("$patch").and_then(Value::as_str)) {
            (Some(place), Some("delete")) => {
                found.remove(place);
            }
            (None, Some("delete")) => {}
            (Some(place), _) => {
                if let Value::Object(item) = &mut found[place] {
                    merge(item, change)?;
                }
            }
            (None, _) => found.push(Value::Object(without_directives(change))),
        }
    }
    Ok(())
}

/// Orders the elements that `order` names, and leaves the others where they stood among them.
fn put_in_order(items: &mut Vec<Value>, before: &[Value], order: &[Value], how: &List) {
    let same = |item: &Value, named: &Value| match how {
        List::By(key) => item.get(key).is_some() && item.get(key) == named.get(key),
        List::Set | List::Whole => item == named,
    };
    let rank = |item: &Value| order.iter().position(|named| same(item, named));
    let stood = |item: &Value| before.iter().position(|found| found == item).unwrap_or(usize::MAX);
    let (mut named, others): (Vec<Value>, Vec<Value>) = items.drain(..).partition(|item| rank(item).is_some());
    named.sort_by_key(|item| rank(item));
    let mut named = named.into_iter().peekable();
    for other in others {
        while let Some(next) = named.next_if(|next| stood(next) < stood(&other)) {
            items.push(next);
        }
        items.push(other);
    }
    items.extend(named);
}

fn clean(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(without_directives(object)),
        Value::Array(items) => Value::Array(items.iter().map(clean).collect()),
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

    fn merged(object: Value, patch: Value) -> Value {
        let mut object = object.as_object().unwrap().clone();
        merge(&mut object, patch.as_object().unwrap()).unwrap();
        Value::Object(object)
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
                { "name": "a", "image": "a:2", "env": [{ "name": "X", "value": "1" }, { "name": "Y", "value": "2" }] },
                { "name": "b", "image": "b:1" },
            ] })
        );
    }

    #[test]
    fn directives_delete_and_replace() {
        let pod = json!({ "containers": [{ "name": "a" }, { "name": "b" }], "labels": { "x": "1" } });
        assert_eq!(
            merged(pod.clone(), json!({ "containers": [{ "name": "a", "$patch": "delete" }] }))["containers"],
            json!([{ "name": "b" }])
        );
        assert_eq!(
            merged(pod.clone(), json!({ "containers": [{ "$patch": "replace" }, { "name": "c" }] }))["containers"],
            json!([{ "name": "c" }])
        );
        assert_eq!(merged(pod, json!({ "labels": { "$patch": "replace", "y": "2" } }))["labels"], json!({ "y": "2" }));
    }

    #[test]
    fn a_null_removes_and_tolerations_are_replaced_as_a_whole() {
        let pod = json!({ "nodeName": "n", "tolerations": [{ "key": "a" }] });
        let result = merged(pod, json!({ "nodeName": null, "tolerations": [{ "key": "b" }] }));
        assert_eq!(result, json!({ "tolerations": [{ "key": "b" }] }));
    }

    #[test]
    fn finalizers_are_a_set_from_which_single_ones_can_be_taken() {
        let object = json!({ "finalizers": ["a", "b"] });
        assert_eq!(
            merged(object.clone(), json!({ "finalizers": ["c", "a"] })),
            json!({ "finalizers": ["a", "b", "c"] })
        );
        let taken = merged(object, json!({ "$deleteFromPrimitiveList/finalizers": ["a"] }));
        assert_eq!(taken, json!({ "finalizers": ["b"] }));
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
            json!({ "env": [{ "name": "a" }, { "name": "mine" }, { "name": "b" }] }),
            json!({ "$setElementOrder/env": [{ "name": "b" }, { "name": "a" }, { "name": "c" }], "env": [{ "name": "c" }] }),
        );
        let names: Vec<_> =
            result["env"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["mine", "b", "a", "c"]);
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let patch = json!({ "containers": [{ "image": "x" }] });
        assert!(
            merge(&mut json!({ "containers": [] }).as_object_mut().unwrap().clone(), patch.as_object().unwrap())
                .is_err()
        );
    }
}
