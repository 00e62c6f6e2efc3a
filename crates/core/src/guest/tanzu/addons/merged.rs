//! How an object is changed on a guest whose API server cannot apply, as before Kubernetes 1.16: it is merged here, and written as a whole.
//!
//! What others have set stays. What an earlier manifest says and the newer one does not goes, as far as the images of the machines that are there
//! still tell it.

use serde_json::{Map, Value};

/// `live` with all that is `wanted`, and without what the manifests of before say beyond that.
pub fn merged(live: &Value, wanted: &Value, before: &[&Value]) -> Value {
    match (live, wanted) {
        (_, Value::Null) => live.clone(),
        (Value::Object(live), Value::Object(wanted)) => Value::Object(fields(live, wanted, before)),
        (Value::Array(live), Value::Array(wanted)) => match (by_name(live), by_name(wanted)) {
            (Some(live), Some(wanted)) => Value::Array(items(&live, &wanted, before)),
            // Nobody can tell whose the items of other lists are: such a list is one value.
            _ => Value::Array(wanted.clone()),
        },
        _ => wanted.clone(),
    }
}

fn fields(live: &Map<String, Value>, wanted: &Map<String, Value>, before: &[&Value]) -> Map<String, Value> {
    let mut fields = live.clone();
    fields.retain(|key, _| wanted.contains_key(key) || before.iter().all(|before| before[key].is_null()));
    for (key, value) in wanted {
        let before: Vec<&Value> = before.iter().map(|before| &before[key]).collect();
        let known = live.get(key).unwrap_or(&Value::Null);
        fields.insert(key.clone(), merged(known, value, &before));
    }
    fields.retain(|_, value| !value.is_null());
    fields
}

/// Those that are wanted, in their order, and then those of others.
fn items(live: &[(&str, &Value)], wanted: &[(&str, &Value)], before: &[&Value]) -> Vec<Value> {
    let named = |list: &[(&str, &Value)], name: &str| list.iter().any(|(one, _)| *one == name);
    let earlier = |name: &str| -> Vec<&Value> {
        let lists = before.iter().filter_map(|list| by_name(list.as_array()?));
        lists.flatten().filter(|(one, _)| *one == name).map(|(_, item)| item).collect()
    };
    let of_ours = wanted.iter().map(|(name, item)| {
        let known = live.iter().find(|(one, _)| one == name).map_or(&Value::Null, |(_, known)| *known);
        merged(known, item, &earlier(name))
    });
    let of_others = live.iter().filter(|(name, _)| !named(wanted, name) && earlier(name).is_empty());
    of_ours.chain(of_others.map(|(_, item)| (*item).clone())).collect()
}

/// The items of a list of containers, volumes, variables and the like; none if they have not each a name of its own.
fn by_name(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let named: Option<Vec<(&str, &Value)>> = list.iter().map(|item| Some((item["name"].as_str()?, item))).collect();
    named.filter(|named| {
        let mut names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        names.len() == named.len()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_have_set_stays_and_what_a_manifest_no_longer_says_goes_where_it_is_known() {
        let live = json!({
            "metadata": { "name": "a", "labels": { "theirs": "x", "of-old": "y" } },
            "data": { "mtu": "1440", "typha": "none", "theirs": "z" },
        });
        let wanted = json!({ "metadata": { "name": "a", "labels": { "ours": "" } }, "data": { "mtu": "1500" } });
        let before = json!({ "metadata": { "name": "a", "labels": { "of-old": "y" } }, "data": { "mtu": "1440", "typha": "none" } });

        let after = merged(&live, &wanted, &[&before]);
        assert_eq!(after["metadata"]["labels"], json!({ "theirs": "x", "ours": "" }));
        assert_eq!(after["data"], json!({ "mtu": "1500", "theirs": "z" }));

        let unknown = merged(&live, &wanted, &[]);
        assert_eq!(unknown["data"], json!({ "mtu": "1500", "typha": "none", "theirs": "z" }));
    }

    #[test]
    fn containers_are_told_apart_by_their_names() {
        let spec = |containers: Value| json!({ "template": { "spec": { "containers": containers } } });
        let live = spec(json!([
            { "name": "install", "image": "cni:3.8" },
            { "name": "node", "image": "node:3.8", "terminationMessagePath": "/dev/termination-log",
              "env": [{ "name": "LOG", "value": "info" }, { "name": "THEIRS", "value": "1" }] },
            { "name": "sidecar", "image": "theirs" },
        ]));
        let before = spec(json!([
            { "name": "install", "image": "cni:3.8" },
            { "name": "node", "image": "node:3.8", "env": [{ "name": "LOG", "value": "info" }] },
        ]));
        let wanted = spec(json!([{ "name": "node", "image": "node:3.14", "env": [{ "name": "MTU", "value": "0" }] }]));

        let after = merged(&live, &wanted, &[&before]);

        let node = json!({
            "name": "node", "image": "node:3.14", "terminationMessagePath": "/dev/termination-log",
            "env": [{ "name": "MTU", "value": "0" }, { "name": "THEIRS", "value": "1" }],
        });
        assert_eq!(after, spec(json!([node, { "name": "sidecar", "image": "theirs" }])));
    }

    #[test]
    fn other_lists_are_as_they_are_wanted() {
        let live = json!({ "rules": [{ "verbs": ["get"] }, { "verbs": ["list"] }], "args": ["-a"] });
        let wanted = json!({ "rules": [{ "verbs": ["get", "watch"] }], "args": ["-b", "-c"] });
        assert_eq!(merged(&live, &wanted, &[]), wanted);
    }
}
