//! What a drain sees: the pods of its node, their DaemonSets, their volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_clock::Clock;
use drover_core::drain::{DaemonSet, PodSeen};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{COALESCE, DrainOrder};
use crate::api::{Api, ApiError, escaped};

/// Where pods may be read but not watched, they are looked at again after this time.
const WITHOUT_WATCH: Duration = Duration::from_secs(1);
/// Volumes are not watched: they are looked at again after this time.
const VOLUMES: Duration = Duration::from_secs(2);
/// A watch that says nothing is given up after this time, and the pods are listed again.
const QUIET: Duration = Duration::from_secs(60);

pub(super) struct Look<'a> {
    api: Api,
    clock: Clock,
    order: &'a DrainOrder,
    /// Where a watch goes on from the last list.
    place: String,
    daemon_sets: BTreeMap<(String, String), DaemonSet>,
    /// The PersistentVolumes behind claims of pods on the node, by namespace and claim.
    volumes: BTreeMap<(String, String), Option<String>>,
    attached: bool,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    more: String,
}

fn unreadable(error: serde_json::Error) -> ApiError {
    ApiError::Unreadable(error.to_string())
}

impl<'a> Look<'a> {
    pub fn new(api: Api, clock: Clock, order: &'a DrainOrder) -> Self {
        let (daemon_sets, volumes) = Default::default();
        Look { api, clock, order, place: String::new(), daemon_sets, volumes, attached: false }
    }

    fn pods_path(&self) -> String {
        let mut path = format!("/api/v1/pods?fieldSelector={}", escaped(&format!("spec.nodeName={}", self.order.node)));
        if !self.order.pod_selector.is_empty() {
            path.push_str(&format!("&labelSelector={}", escaped(&self.order.pod_selector)));
        }
        path
    }

    /// All pods of the node, by namespace and name.
    pub async fn at_pods(&mut self) -> Result<Vec<PodSeen>, ApiError> {
        let path = self.pods_path();
        let limit = if self.order.chunk_size > 0 { format!("&limit={}", self.order.chunk_size) } else { String::new() };
        let (mut pods, mut more) = (Vec::new(), String::new());
        loop {
            let token = if more.is_empty() { String::new() } else { format!("&continue={}", escaped(&more)) };
            let body = self.api.get(&format!("{path}{limit}{token}")).await?;
            let list: List<'_> = serde_json::from_slice(&body).map_err(unreadable)?;
            for item in list.items {
                pods.push(PodSeen::decode(item.get().as_bytes()).map_err(unreadable)?);
            }
            more = list.metadata.more;
            if more.is_empty() {
                self.place = list.metadata.resource_version;
                break;
            }
        }
        pods.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        Ok(pods)
    }

    /// Each DaemonSet is looked up once: one that goes in the middle of a drain is no reason to remove its pods.
    pub async fn at_daemon_sets(&mut self, pods: &[PodSeen]) -> BTreeMap<(String, String), DaemonSet> {
        for pod in pods {
            let Some(controller) = pod.controller.as_ref().filter(|controller| controller.is_daemon_set()) else {
                continue;
            };
            let key = (pod.namespace.clone(), controller.name.clone());
            if self.daemon_sets.contains_key(&key) {
                continue;
            }
            let path = format!("/apis/apps/v1/namespaces/{}/daemonsets/{}", key.0, key.1);
            let found = match self.api.get(&path).await {
                Ok(_) => DaemonSet::There,
                Err(error) if error.code() == Some(404) => DaemonSet::Gone(error.to_string()),
                Err(error) => DaemonSet::Unknown(error.to_string()),
            };
            self.daemon_sets.insert(key, found);
        }
        self.daemon_sets.clone()
    }

    /// Volumes of pods that have gone and are still attached to the node. A cluster that does not let them be read, or
    /// has none, has nothing to wait for.
    pub async fn at_volumes(&mut self, pods: &[PodSeen]) -> BTreeSet<String> {
        let in_use: BTreeSet<(String, String)> =
            pods.iter().flat_map(|pod| pod.claims.iter().map(|claim| (pod.namespace.clone(), claim.clone()))).collect();
        for key in &in_use {
            if !self.volumes.contains_key(key) {
                let volume = self.volume_of(key).await;
                self.volumes.insert(key.clone(), volume);
            }
        }
        let left = self.volumes.iter().filter(|(claim, _)| !in_use.contains(*claim));
        let left: BTreeSet<&String> = left.filter_map(|(_, volume)| volume.as_ref()).collect();
        let attached = if left.is_empty() { BTreeSet::new() } else { self.attachments().await };
        let attached: BTreeSet<String> = attached.into_iter().filter(|volume| left.contains(volume)).collect();
        self.attached = !attached.is_empty();
        attached
    }

    async fn volume_of(&self, (namespace, claim): &(String, String)) -> Option<String> {
        #[derive(Deserialize)]
        struct Claim {
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            volume_name: Option<String>,
        }
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}");
        let body = self.api.get(&path).await.ok()?;
        serde_json::from_slice::<Claim>(&body).ok()?.spec.volume_name
    }

    async fn attachments(&self) -> BTreeSet<String> {
        #[derive(Deserialize)]
        struct Attachments {
            items: Vec<Attachment>,
        }
        #[derive(Deserialize)]
        struct Attachment {
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            node_name: String,
            source: Source,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Source {
            persistent_volume_name: Option<String>,
        }
        let Ok(body) = self.api.get("/apis/storage.k8s.io/v1/volumeattachments").await else { return BTreeSet::new() };
        let Ok(list) = serde_json::from_slice::<Attachments>(&body) else { return BTreeSet::new() };
        let here = list.items.into_iter().filter(|attachment| attachment.spec.node_name == self.order.node);
        here.filter_map(|attachment| attachment.spec.source.persistent_volume_name).collect()
    }

    /// Ends when a pod of the node changes, or at `until`. Where pods may not be watched, after a pause.
    pub async fn until_a_change(&self, until: Option<Timestamp>) {
        let changed = async {
            let place = &self.place;
            let path = format!("{}&watch=true&resourceVersion={place}", self.pods_path());
            match self.api.watch(&path).await {
                // Any line will do, also the news that the place is forgotten: the pods are listed again.
                Ok(mut lines) => {
                    drop(lines.next().await);
                    self.clock.sleep(COALESCE).await;
                }
                Err(_) => self.clock.sleep(WITHOUT_WATCH).await,
            }
        };
        let longest = drover_clock::later(self.clock.now(), if self.attached { VOLUMES } else { QUIET });
        let until = until.map_or(longest, |until| until.min(longest));
        tokio::select! {
            biased;
            () = changed => {}
            () = self.clock.sleep_until(until) => {}
        }
    }
}
