//! The versions of Cluster API that machines are described in.
//!
//! Everything else works on [`super::view::Machine`]; what differs between the versions stands here.

use drover_api::cluster_api::machine::annotations;
use serde_json::{Value, json};

use super::order::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    V1alpha2,
    V1beta1,
    V1beta2,
}

impl Dialect {
    /// The newest of those that a server has; none if it has none that is spoken here.
    pub fn of(versions: &[String]) -> Option<Self> {
        [Dialect::V1beta2, Dialect::V1beta1, Dialect::V1alpha2]
            .into_iter()
            .find(|one| versions.iter().any(|version| version == one.version()))
    }

    pub fn version(self) -> &'static str {
        match self {
            Dialect::V1alpha2 => "v1alpha2",
            Dialect::V1beta1 => "v1beta1",
            Dialect::V1beta2 => "v1beta2",
        }
    }

    /// Of Clusters and Machines.
    pub fn api_version(self) -> String {
        format!("{}/{}", drover_api::cluster_api::GROUP, self.version())
    }

    pub fn bootstrap_api_version(self) -> String {
        format!("{}/{}", drover_api::cluster_api::BOOTSTRAP_GROUP, self.version())
    }

    /// A version of Kubernetes as Machines hold it.
    pub fn machine_version(self, version: &Version) -> String {
        match self {
            Dialect::V1alpha2 => version.to_string(),
            Dialect::V1beta1 | Dialect::V1beta2 => format!("v{version}"),
        }
    }

    /// The type of the Secrets with the certificates of a cluster.
    pub fn certificate_type(self) -> &'static str {
        match self {
            Dialect::V1alpha2 => "Opaque",
            Dialect::V1beta1 | Dialect::V1beta2 => drover_api::cluster_api::secrets::TYPE,
        }
    }

    /// On a Machine: its Node is not drained.
    pub fn exclude_draining(self) -> &'static str {
        match self {
            Dialect::V1alpha2 => annotations::EXCLUDE_DRAINING_V1ALPHA2,
            Dialect::V1beta1 | Dialect::V1beta2 => annotations::EXCLUDE_DRAINING,
        }
    }

    /// A new machine gets data of its own.
    pub fn clear_bootstrap_data(self, bootstrap: &mut Value) {
        let field = match self {
            Dialect::V1alpha2 => "data",
            Dialect::V1beta1 | Dialect::V1beta2 => "dataSecretName",
        };
        if let Some(fields) = bootstrap.as_object_mut() {
            fields.remove(field);
        }
    }

    /// Why a machine has failed for good, if it says so.
    pub fn failure(self, status: &Value) -> Option<String> {
        let (reason, message) = match self {
            Dialect::V1alpha2 => ("errorReason", "errorMessage"),
            Dialect::V1beta1 | Dialect::V1beta2 => ("failureReason", "failureMessage"),
        };
        // What is no longer meant to be said has a place of its own.
        let said = if self == Dialect::V1beta2 { &status["deprecated"]["v1beta1"] } else { status };
        let said: Vec<&str> = [&said[reason], &said[message]].into_iter().filter_map(Value::as_str).collect();
        let failed = status["phase"].as_str().is_some_and(|phase| phase.eq_ignore_ascii_case("failed"));
        match said.as_slice() {
            [] if failed => Some("it gives no reason".to_owned()),
            [] => None,
            said => Some(said.join(": ")),
        }
    }

    /// A machine that joins gets a token of its own. One that is empty asks for it, where that may be written at all.
    pub fn renew_token(self, joining: &mut Value) {
        if self != Dialect::V1beta2 {
            joining["discovery"]["bootstrapToken"] = json!({});
            return;
        }
        let Some(discovery) = joining.get_mut("discovery").and_then(Value::as_object_mut) else { return };
        discovery.remove("bootstrapToken");
        if discovery.is_empty()
            && let Some(joining) = joining.as_object_mut()
        {
            joining.remove("discovery");
        }
    }
}

/// Whether a reference leads to a kind of this group: newer versions name no version there.
pub fn is_of_group(reference: &Value, group: &str) -> bool {
    let (version, plain) = (reference["apiVersion"].as_str(), reference["apiGroup"].as_str());
    plain == Some(group) || version.and_then(|version| version.split('/').next()) == Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_a_server_has_is_spoken() {
        let of = |versions: &[&str]| Dialect::of(&versions.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["v1beta1", "v1beta2"]), Some(Dialect::V1beta2));
        assert_eq!(of(&["v1beta1", "v1alpha3"]), Some(Dialect::V1beta1));
        assert_eq!(of(&["v1alpha2"]), Some(Dialect::V1alpha2));
        assert_eq!(of(&["v1alpha3"]), None);
    }

    #[test]
    fn what_has_failed_is_read_where_each_version_says_it() {
        let plain = json!({ "failureReason": "CreateError", "failureMessage": "no room" });
        let newer = json!({ "deprecated": { "v1beta1": plain } });
        assert_eq!(Dialect::V1beta1.failure(&plain).unwrap(), "CreateError: no room");
        assert_eq!(Dialect::V1beta2.failure(&newer).unwrap(), "CreateError: no room");
        assert_eq!(Dialect::V1beta1.failure(&newer), None);
        assert_eq!(Dialect::V1beta2.failure(&json!({ "phase": "Failed" })).unwrap(), "it gives no reason");
    }

    #[test]
    fn a_token_is_asked_for_as_each_version_lets_one() {
        let old = json!({ "discovery": { "bootstrapToken": { "token": "used" } }, "controlPlane": {} });
        let mut older = old.clone();
        Dialect::V1beta1.renew_token(&mut older);
        assert_eq!(older["discovery"], json!({ "bootstrapToken": {} }));
        let mut newer = old.clone();
        Dialect::V1beta2.renew_token(&mut newer);
        assert_eq!(newer, json!({ "controlPlane": {} }), "an empty one is refused");
        let mut none = json!({ "controlPlane": {} });
        Dialect::V1beta2.renew_token(&mut none);
        assert_eq!(none, json!({ "controlPlane": {} }));
    }

    #[test]
    fn references_lead_to_a_group_with_a_version_or_without() {
        let group = "bootstrap.cluster.x-k8s.io";
        assert!(is_of_group(&json!({ "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1" }), group));
        assert!(is_of_group(&json!({ "apiGroup": "bootstrap.cluster.x-k8s.io" }), group));
        assert!(!is_of_group(&json!({ "apiVersion": "bootstrap.cluster.x-k8s.io.example/v1" }), group));
    }
}
