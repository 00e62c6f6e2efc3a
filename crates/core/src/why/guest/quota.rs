//! What somebody says about a quota, followed to that quota.

use super::super::link::Link;
use crate::cluster::{Amount, Cluster, ObjectRef};

/// As the API server says it: `exceeded quota: NAME, requested: …`.
const EXCEEDED: &str = "exceeded quota: ";

pub fn is_meant(words: &str) -> bool {
    words.to_lowercase().contains("quota")
}

/// The quota that is meant: the one that is named, or else one of the namespace that is used up.
pub fn named(cluster: &Cluster, namespace: &str, words: &str) -> Option<Link> {
    if !is_meant(words) {
        return None;
    }
    let mut quotas = cluster.admission.quotas.in_namespace(namespace);
    let name = words.split_once(EXCEEDED).and_then(|(_, rest)| rest.split([',', ' ', '"']).next());
    let quota = match name {
        Some(name) => cluster.admission.quotas.get(namespace, name),
        None => quotas.find(|quota| used_up(quota).is_some()),
    }?;
    let object = ObjectRef::of(quota);
    let amounts = match (words.split_once(EXCEEDED).and_then(|(_, rest)| rest.split_once(", ")), used_up(quota)) {
        (Some((_, amounts)), _) => format!(": {amounts}"),
        (None, Some(key)) => format!(": {key} is used up"),
        (None, None) => String::new(),
    };
    let remedy =
        format!("raise it, or free something: kubectl -n {namespace} edit resourcequota {}", quota.metadata.name);
    Some(Link::proven(object.clone(), format!("{} leaves no room{amounts}", object.in_words())).remedy(remedy))
}

fn used_up(quota: &crate::cluster::admission::Quota) -> Option<&str> {
    let is_full = |(key, hard): &(&String, &Amount)| quota.status.used.get(*key).is_some_and(|used| used >= *hard);
    quota.status.hard.iter().find(is_full).map(|(key, _)| key.as_str())
}
