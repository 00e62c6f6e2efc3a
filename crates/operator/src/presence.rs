//! Tells on the Node that the operator runs on that it has started, as system-upgrade-controller does.

use drover_api::plan::events::NORMAL;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Api;

/// Events about Nodes, which have no namespace, are kept here.
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Who is present, and where.
#[derive(Debug, Clone)]
pub struct Presence {
    pub controller: String,
    pub identity: String,
    pub node: String,
}

impl Presence {
    pub async fn starting(&self, api: &Api, now: Timestamp) {
        self.tell(api, "Starting", format!("{} stands for election as {}", self.controller, self.identity), now).await;
    }

    pub async fn started(&self, api: &Api, now: Timestamp) {
        self.tell(api, "Started", format!("{} runs as {}", self.controller, self.identity), now).await;
    }

    /// An Event more or less: whoever may not write it is told once, and goes on.
    async fn tell(&self, api: &Api, reason: &str, message: String, now: Timestamp) {
        if let Err(error) = api.post(EVENTS, &self.event(reason, &message, now)).await {
            tracing::warn!("cannot tell on Node {} that {message}: {error}", self.node);
        }
    }

    fn event(&self, reason: &str, message: &str, now: Timestamp) -> Value {
        let time = format!("{now:.0}");
        let name = format!("{}.{}.{:x}", self.node, reason.to_lowercase(), now.as_microsecond());
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": name, "namespace": "default" },
            // As kubelets do, and so that `kubectl describe node` shows it: the name stands for the uid.
            "involvedObject": { "kind": "Node", "name": self.node, "uid": self.node },
            "type": NORMAL,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": { "component": self.controller, "host": self.node },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_as_kubelets_tell() {
        let presence = Presence { controller: "suc".to_owned(), identity: "pod-1".to_owned(), node: "n1".to_owned() };

        let event = presence.event("Started", "suc runs as pod-1", "2026-01-01T12:00:00.5Z".parse().unwrap());

        assert_eq!(event["involvedObject"], json!({ "kind": "Node", "name": "n1", "uid": "n1" }));
        assert_eq!(event["source"], json!({ "component": "suc", "host": "n1" }));
        assert_eq!(event["firstTimestamp"], "2026-01-01T12:00:00Z");
    }
}
