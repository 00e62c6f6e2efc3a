//! What the engine hears of the kinds that it follows: all of it goes into its inbox.

use drover_clock::Clock;
use drover_core::decision::Kind;
use drover_core::seen::Seen;
use tokio::sync::mpsc::UnboundedSender;

use crate::api::{Api, ApiError, collection, plural};
use crate::follow::{self, Collection, Listener};
use crate::inbox::Message;

/// Follows the objects of a kind into the inbox.
pub async fn follow(api: Api, clock: Clock, kind: Kind, namespace: String, inbox: UnboundedSender<Message>) {
    // Of all pods, only those of Jobs for Plans are followed.
    let label = if kind == Kind::Pod { drover_api::plan::labels::PLAN } else { "" };
    let followed = Collection { path: collection(kind, &namespace), label, name: String::new(), metadata_only: false };
    follow::follow(api, clock, followed, Ear { kind, inbox, objects: Vec::new() }).await;
}

/// A closed inbox means that the operator has ended, and this with it: what cannot be sent is of no use.
struct Ear {
    kind: Kind,
    inbox: UnboundedSender<Message>,
    /// Of a list that is not whole yet.
    objects: Vec<Seen>,
}

impl Ear {
    fn tell(&self, message: Message) {
        let _ = self.inbox.send(message);
    }

    /// An object without metadata that can be read is left out: nothing could be done with it, and the others go on.
    fn decode(&self, json: &str) -> Option<Seen> {
        Seen::decode(self.kind, json.as_bytes()).unwrap_or_else(|error| {
            tracing::warn!("an object among {} cannot be read and is left out: {error}", plural(self.kind));
            None
        })
    }
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.objects.clear();
    }

    fn item(&mut self, json: &str) {
        self.objects.extend(self.decode(json));
    }

    fn listed(&mut self, resource_version: u64) {
        let objects = std::mem::take(&mut self.objects);
        self.tell(Message::Listed { kind: self.kind, objects, resource_version });
    }

    fn watching(&mut self) {
        self.tell(Message::Watching { kind: self.kind });
    }

    fn changed(&mut self, json: &str) -> Option<u64> {
        let seen = self.decode(json)?;
        let resource_version = seen.meta().resource_version;
        self.tell(Message::Changed(Box::new(seen)));
        Some(resource_version)
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        let seen = self.decode(json)?;
        let meta = seen.meta();
        let (name, uid, resource_version) = (meta.name.clone(), meta.uid.clone(), meta.resource_version);
        self.tell(Message::Gone { kind: self.kind, name, uid, resource_version });
        Some(resource_version)
    }

    fn unseen(&mut self, error: &ApiError) {
        let kind = self.kind;
        let remedy = match (kind, error.code()) {
            (Kind::Plan, Some(404)) => "; install its definition: drover crds --for plan | kubectl apply -f -",
            _ => "",
        };
        let sentence = format!("cannot watch {}: {error}{remedy}", plural(kind));
        self.tell(Message::Unseen { kind, sentence, forbidden: error.is_forbidden() });
    }

    fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }
}
