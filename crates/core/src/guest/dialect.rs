//! The versions of Cluster API that machines are described in.
//!
//! Everything else works on [`super::view::Machine`]; what differs between the versions stands here.

use serde_json::{Value, json};

use super::order::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    V1alpha2,
    V1beta1,
}

impl Dialect {
    /// The newest of those that a server has; none if it has none that is spoken here.
    pub fn of(versions: &[String]) -> Option<Self> {
        [Dialect::V1beta1, Dialect::V1alpha2]
            .into_iter()
            .find(|one| versions.iter().any(|version| version == one.version()))
    }

    pub fn version(self) -> &'static str {
        match self {
            Dialect::V1alpha2 => "v1alpha2",
            Dialect::V1beta1 => "v1beta1",
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
            Dialect::V1beta1 => format!("v{version}"),
        }
    }

    /// A new machine gets data of its own.
    pub fn clear_bootstrap_data(self, bootstrap: &mut Value) {
        let field = match self {
            Dialect::V1alpha2 => "data",
            Dialect::V1beta1 => "dataSecretName",
        };
        if let Some(fields) = bootstrap.as_object_mut() {
            fields.remove(field);
        }
    }

    /// Why a machine has failed for good, if it says so.
    pub fn failure(self, status: &Value) -> Option<String> {
        let (reason, message) = match self {
            Dialect::V1alpha2 => ("errorReason", "errorMessage"),
            Dialect::V1beta1 => ("failureReason", "failureMessage"),
        };
        let said: Vec<&str> = [&status[reason], &status[message]].into_iter().filter_map(Value::as_str).collect();
        let failed = status["phase"].as_str().is_some_and(|phase| phase.eq_ignore_ascii_case("failed"));
        match said.as_slice() {
            [] if failed => Some("it gives no reason".to_owned()),
            [] => None,
            said => Some(said.join(": ")),
        }
    }

    /// As kubeadm of the time has a token that is to be made anew.
    pub fn empty_token(self) -> Value {
        json!({})
    }
}
