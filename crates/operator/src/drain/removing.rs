//! How a pod is asked to go.

use std::sync::atomic::{AtomicBool, Ordering};

use drover_api::policy;
use drover_core::drain::{Removal, Way};
use serde_json::{Value, json};

use super::DrainOrder;
use crate::api::{Api, ApiError};

/// Asks for one pod after the other, as the server understands it.
pub(super) struct Asking {
    api: Api,
    /// It has refused an Eviction of today, since it is of a version before.
    is_old: AtomicBool,
}

impl Asking {
    pub fn new(api: Api) -> Self {
        Asking { api, is_old: AtomicBool::new(false) }
    }

    pub async fn ask(&self, order: &DrainOrder, removal: &Removal) -> Result<(), ApiError> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            // Another pod of the same name, as StatefulSets make them, is not meant.
            "preconditions": { "uid": removal.uid },
        });
        if let Some(grace) = order.options.grace_seconds {
            options["gracePeriodSeconds"] = json!(grace);
        }
        if order.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let path = format!("/api/v1/namespaces/{}/pods/{}", removal.namespace, removal.name);
        match removal.way {
            Way::Delete => self.api.delete(&path, &options).await.map(drop),
            Way::Evict => self.evict(&format!("{path}/eviction"), removal, &options).await,
        }
    }

    async fn evict(&self, path: &str, removal: &Removal, options: &Value) -> Result<(), ApiError> {
        let mut eviction = json!({
            "apiVersion": policy::VERSION, "kind": policy::KIND,
            "metadata": { "name": removal.name, "namespace": removal.namespace },
            "deleteOptions": options,
        });
        if !self.is_old.load(Ordering::Relaxed) {
            match self.api.post(path, &eviction).await {
                Err(error) if is_of_an_unknown_version(&error) => self.is_old.store(true, Ordering::Relaxed),
                answer => return answer.map(drop),
            }
        }
        // Servers of the versions between understand both: whichever answers behind one address will do.
        eviction["apiVersion"] = json!(policy::VERSION_BEFORE);
        self.api.post(path, &eviction).await.map(drop)
    }
}

fn is_of_an_unknown_version(error: &ApiError) -> bool {
    error.code() == Some(400) && error.to_string().contains(policy::UNKNOWN)
}
