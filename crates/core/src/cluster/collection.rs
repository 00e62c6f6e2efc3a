//! A cluster from what somebody has collected: a folder, a support bundle.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Deserialize;

use super::{Cause, Cluster, LOOKS, RESOURCES, Resource, Unseen, resource_of};

/// A cluster that is filled piece by piece. What was not collected is noted as unseen in the end.
#[derive(Debug)]
pub struct Collection {
    cluster: Cluster,
    /// The kinds of which something was there, or which were said to have no objects.
    kinds: BTreeSet<String>,
    groups: BTreeSet<String>,
    newest: Option<Timestamp>,
    now: Timestamp,
    /// A document of the collection says that nothing was left out.
    complete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Head {
    api_version: String,
    kind: String,
    metadata: Dates,
    spec: Spec,
    /// Of a `Survey`, which says when somebody looked and whether everything was looked at.
    looked_at: Option<Timestamp>,
    complete: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Dates {
    creation_timestamp: Option<Timestamp>,
}

/// Leases are renewed all the time: the newest tells when the objects were collected.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    renew_time: Option<Timestamp>,
}

impl Collection {
    pub fn new(now: Timestamp) -> Self {
        let (kinds, groups) = (BTreeSet::new(), BTreeSet::new());
        Collection { cluster: Cluster::new(now), kinds, groups, newest: None, now, complete: false }
    }

    /// Takes one object, as JSON.
    pub fn take(&mut self, json: &str) {
        let head: Head = serde_json::from_str(json).unwrap_or_default();
        self.saw(&head.api_version, &head.kind);
        self.complete |= head.complete && head.kind == "Survey";
        let seen = head.looked_at.or(head.spec.renew_time).or(head.metadata.creation_timestamp);
        self.newest = self.newest.max(seen);
        self.cluster.take(json.as_bytes());
    }

    /// Objects of this kind were asked for; there need not be any.
    pub fn saw(&mut self, api_version: &str, kind: &str) {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.groups.insert(group.to_owned());
        let known = resource_of(group, kind).map_or(kind, |resource| resource.kind);
        self.kinds.insert(known.to_owned());
    }

    /// `poddisruptionbudgets`, or `volumes.longhorn.io`.
    pub fn saw_resource(&mut self, name: &str) {
        let is_meant =
            |resource: &&Resource| resource.name() == name || resource.is_built_in() && resource.plural == name;
        if let Some(resource) = RESOURCES.iter().find(is_meant) {
            self.kinds.insert(resource.kind.to_owned());
        }
    }

    /// A file of this resource cannot be read: what else is known of the kind is not all.
    pub fn could_not_read(&mut self, resource: &str, file: &str) {
        let known = RESOURCES.iter().find(|known| known.name() == resource);
        let kind = known.map_or(resource, |known| known.kind).to_owned();
        self.kinds.insert(kind.clone());
        let cause = Cause::Unreadable(format!("{file} is cut off or holds no list"));
        self.cluster.unseen.push(Unseen { kind, object: None, cause });
    }

    /// What was not collected counts as unseen; but where no object of a product is there, the product is not, either.
    pub fn finish(mut self) -> Cluster {
        self.cluster.looked_at = self.newest.unwrap_or(self.now);
        if self.complete {
            return self.cluster;
        }
        let miss = |kind: &str| Unseen { kind: kind.to_owned(), object: None, cause: Cause::NotCollected };
        for resource in RESOURCES.iter().filter(|resource| !self.kinds.contains(resource.kind)) {
            if resource.is_built_in() || self.groups.contains(resource.group) {
                self.cluster.unseen.push(miss(resource.kind));
            }
        }
        if !self.cluster.contents.is_empty() {
            self.kinds.insert("SecretContents".to_owned());
        }
        if !self.cluster.templates.is_empty() || !self.groups.contains("cluster.x-k8s.io") {
            self.kinds.insert("MachineTemplate".to_owned());
        }
        let looks = LOOKS.iter().filter(|look| !self.kinds.contains(**look));
        self.cluster.unseen.extend(looks.map(|look| miss(look)));
        self.cluster
    }
}
