//! How full the disks of nodes are: kubelets know, and the API server passes the question on.

use drover_core::cluster::{ObjectRef, Unseen};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;

use super::live::{Arrival, Desk, cause, document};
use crate::api::{Api, ApiError};

/// One question to each kubelet and one for its settings, this many at the same time.
const AT_ONCE: usize = 16;

pub async fn look(api: &Api, nodes: &[String], desk: Desk) {
    // A right that is missing for one node is missing for all: then one question is enough.
    let Some((first, rest)) = nodes.split_first() else { return };
    if let Err(error) = ask(api, first, &desk).await {
        let forbidden = error.is_forbidden();
        let object = (!forbidden).then(|| ObjectRef::new("Kubelet", "", first));
        let _ = desk.send(Arrival::Unseen(Unseen { kind: "Kubelet".to_owned(), object, cause: cause(&error) }));
        if forbidden {
            return;
        }
    }
    let mut questions = Vec::new();
    for node in rest {
        questions.push(ask_or_miss(api, node, &desk));
    }
    futures::stream::iter(questions).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn ask_or_miss(api: &Api, node: &str, desk: &Desk) {
    if let Err(error) = ask(api, node, desk).await {
        let object = Some(ObjectRef::new("Kubelet", "", node));
        let _ = desk.send(Arrival::Unseen(Unseen { kind: "Kubelet".to_owned(), object, cause: cause(&error) }));
    }
}

#[derive(Deserialize)]
struct Summary {
    node: NodeStats,
}

#[derive(Deserialize)]
struct NodeStats {
    fs: Option<Disk>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Disk {
    used_bytes: u64,
    capacity_bytes: u64,
}

#[derive(Deserialize)]
struct Config {
    kubeletconfig: KubeletConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KubeletConfig {
    #[serde(rename = "imageGCHighThresholdPercent")]
    image_gc_high_threshold_percent: Option<u64>,
}

async fn ask(api: &Api, node: &str, desk: &Desk) -> Result<(), ApiError> {
    let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
    let summary = api.get(&format!("/api/v1/nodes/{node}/proxy/stats/summary?only_cpu_and_memory=false")).await?;
    let summary: Summary = serde_json::from_slice(&summary).map_err(unreadable)?;
    let disk = summary.node.fs.ok_or_else(|| ApiError::Unreadable("it does not tell its disk".to_owned()))?;
    // Where the settings cannot be read, the default holds: the disk is what matters.
    let config = api.get(&format!("/api/v1/nodes/{node}/proxy/configz")).await.ok();
    let config: Option<Config> = config.and_then(|config| serde_json::from_slice(&config).ok());
    let threshold = config.and_then(|config| config.kubeletconfig.image_gc_high_threshold_percent);
    let fields = json!({
        "diskUsed": disk.used_bytes, "diskCapacity": disk.capacity_bytes, "imageGarbageThreshold": threshold,
    });
    let _ = desk.send(document("Kubelet", node, fields));
    Ok(())
}
