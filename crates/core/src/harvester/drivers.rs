//! Who drives an Upgrade, by what its managed fields tell.

use drover_api::harvester::upgrade::labels;
use drover_api::marks;
use serde_json::Value;

use crate::managed::Managed;

/// The programs, other than Drover, that have written what only the driver of an Upgrade writes. People with kubectl are none of
/// them: what they change by hand is put right.
pub fn others(json: &[u8]) -> Vec<String> {
    let is_program = |manager: &str| manager != marks::FIELD_MANAGER && !manager.starts_with("kubectl");
    let drives = |fields: &Value| {
        let metadata = &fields["f:metadata"];
        let owns = |part: &str, key: &str| metadata[part].get(format!("f:{key}")).is_some();
        owns("f:labels", labels::STATE)
            || owns("f:labels", labels::CLEANUP)
            || owns("f:annotations", marks::PROGRESS)
            || ["f:conditions", "f:nodeStatuses"].iter().any(|field| fields["f:status"].get(*field).is_some())
    };
    let mut others: Vec<String> = Managed::of(json)
        .into_iter()
        .filter(|managed| is_program(&managed.manager) && drives(&managed.fields))
        .map(|managed| managed.manager)
        .collect();
    others.sort();
    others.dedup();
    others
}

/// Whether Drover has begun an Upgrade: it has written its state, and nobody has since.
pub fn is_ours(json: &[u8]) -> bool {
    let state = format!("f:{}", labels::STATE);
    let owns = |managed: &Managed| managed.fields["f:metadata"]["f:labels"].get(&state).is_some();
    Managed::of(json).iter().any(|managed| managed.manager == marks::FIELD_MANAGER && owns(managed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn managed(manager: &str, fields: Value) -> Value {
        json!({ "manager": manager, "fieldsV1": fields })
    }

    #[test]
    fn whoever_writes_the_state_of_an_upgrade_drives_it() {
        let state = json!({ "f:metadata": { "f:labels": { "f:harvesterhci.io/upgradeState": {} } } });
        let spec =
            json!({ "f:spec": { "f:version": {} }, "f:metadata": { "f:annotations": { "f:example.com/note": {} } } });
        let object = json!({ "metadata": { "managedFields": [
            managed("drover", state.clone()), managed("harvester", state.clone()), managed("kubectl-edit", state),
            managed("Mozilla", spec), managed("other", json!({ "f:status": { "f:nodeStatuses": {} } })),
        ] } });
        assert_eq!(others(object.to_string().as_bytes()), ["harvester", "other"]);
        assert!(is_ours(object.to_string().as_bytes()));
        assert_eq!(others(b"{\"metadata\":{}}"), Vec::<String>::new());
        assert!(!is_ours(b"{\"metadata\":{}}"));
    }
}
