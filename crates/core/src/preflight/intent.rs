//! What somebody wants to do to the cluster.

use std::collections::BTreeSet;

use drover_api::harvester::setting::names;
use serde::Deserialize;

use super::Scope;
use super::versions::Release;
use crate::accepted::codes;
use crate::cluster::{Cluster, Meta, Node, ObjectRef, cluster_api, harvester, tanzu};
use crate::plan::selector::Selector;
use crate::seen::PlanSeen;

/// What is to be checked for, and what of it is accepted.
#[derive(Debug, Clone)]
pub struct Intent {
    pub asked: Asked,
    /// As users name it: `plan/system-upgrade/server`.
    pub name: String,
    /// The codes of risks that somebody takes.
    pub accepted: BTreeSet<String>,
}

/// Why nothing can be said of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownObject {
    #[error("there is no {0}, or it cannot be seen")]
    NotThere(String),
    #[error("{0} names nothing: give plan/NAMESPACE/NAME, upgrade/NAME, tkc/NAMESPACE/NAME or cluster/NAMESPACE/NAME")]
    NotAName(String),
}

#[derive(Debug, Clone)]
pub enum Asked {
    /// Nothing in particular: would an upgrade of the nodes go well?
    Anything,
    /// A version of Harvester where there is one, else of Kubernetes.
    Version(String),
    Upgrade(Box<harvester::Upgrade>),
    Plan(Box<PlanSeen>),
    Guest(Box<tanzu::GuestCluster>),
    Cluster(Box<cluster_api::Cluster>),
}

impl Intent {
    pub fn anything() -> Self {
        Intent { asked: Asked::Anything, name: "the cluster".to_owned(), accepted: BTreeSet::new() }
    }

    pub fn version(version: &str) -> Self {
        Intent { asked: Asked::Version(version.to_owned()), name: version.to_owned(), accepted: BTreeSet::new() }
    }

    pub fn upgrade(upgrade: harvester::Upgrade) -> Self {
        let name = format!("upgrade/{}", upgrade.metadata.name);
        let accepted = codes(&upgrade.metadata.annotations);
        Intent { asked: Asked::Upgrade(Box::new(upgrade)), name, accepted }
    }

    pub fn plan(plan: PlanSeen) -> Self {
        let name = format!("plan/{}/{}", plan.meta.namespace, plan.meta.name);
        let accepted = codes(&plan.meta.annotations);
        Intent { asked: Asked::Plan(Box::new(plan)), name, accepted }
    }

    pub fn guest(guest: tanzu::GuestCluster) -> Self {
        let name = format!("tkc/{}/{}", guest.metadata.namespace, guest.metadata.name);
        let accepted = codes(&guest.metadata.annotations);
        Intent { asked: Asked::Guest(Box::new(guest)), name, accepted }
    }

    pub fn cluster(cluster: cluster_api::Cluster) -> Self {
        let name = format!("cluster/{}/{}", cluster.metadata.namespace, cluster.metadata.name);
        let accepted = codes(&cluster.metadata.annotations);
        Intent { asked: Asked::Cluster(Box::new(cluster)), name, accepted }
    }

    /// What an object of the cluster asks for, by the name that users give it.
    pub fn named(cluster: &Cluster, object: &str) -> Result<Self, UnknownObject> {
        let unknown = || UnknownObject::NotThere(object.to_owned());
        match object.split('/').collect::<Vec<_>>()[..] {
            ["plan" | "plans" | "plans.upgrade.cattle.io", namespace, name] => {
                cluster.plan(namespace, name).cloned().map(Intent::plan).ok_or_else(unknown)
            }
            ["upgrade" | "upgrades" | "upgrades.harvesterhci.io", name] => {
                let mut all = cluster.harvester.upgrades.iter();
                all.find(|upgrade| upgrade.metadata.name == name).cloned().map(Intent::upgrade).ok_or_else(unknown)
            }
            ["tkc" | "tanzukubernetescluster" | "tanzukubernetesclusters", namespace, name] => {
                cluster.tanzu.clusters.get(namespace, name).cloned().map(Intent::guest).ok_or_else(unknown)
            }
            ["cluster" | "clusters" | "clusters.cluster.x-k8s.io", namespace, name] => {
                cluster.cluster_api.clusters.get(namespace, name).cloned().map(Intent::cluster).ok_or_else(unknown)
            }
            _ => Err(UnknownObject::NotAName(object.to_owned())),
        }
    }

    /// What a manifest asks for; none if it is of no kind that asks for an upgrade.
    pub fn of_manifest(json: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        #[derive(Default)]
        struct Head {
            api_version: String,
            kind: String,
        }
        let head: Head = serde_json::from_slice(json)?;
        let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
        Ok(Some(match (group, head.kind.as_str()) {
            ("upgrade.cattle.io", "Plan") => Intent::plan(PlanSeen::decode(json)?),
            ("harvesterhci.io", "Upgrade") => Intent::upgrade(serde_json::from_slice(json)?),
            ("run.tanzu.vmware.com", "TanzuKubernetesCluster") => Intent::guest(serde_json::from_slice(json)?),
            ("cluster.x-k8s.io", "Cluster") => Intent::cluster(serde_json::from_slice(json)?),
            _ => return Ok(None),
        }))
    }

    /// Is a check of this scope for what is asked?
    pub fn concerns(&self, scope: Scope, cluster: &Cluster) -> bool {
        let takes_nodes = !matches!(self.asked, Asked::Guest(_) | Asked::Cluster(_));
        match scope {
            Scope::Everything => true,
            Scope::Nodes => takes_nodes,
            Scope::Drains => takes_nodes && self.drains(),
            Scope::Harvester => match &self.asked {
                Asked::Upgrade(_) => true,
                Asked::Anything | Asked::Version(_) => is_harvester(cluster),
                _ => false,
            },
            Scope::Plans => matches!(self.asked, Asked::Plan(_)),
            Scope::Guests => matches!(self.asked, Asked::Guest(_)),
            Scope::ClusterApi => matches!(self.asked, Asked::Cluster(_)),
        }
    }

    /// A Plan drains only where it says so.
    fn drains(&self) -> bool {
        match &self.asked {
            Asked::Plan(plan) => plan.spec.as_ref().is_ok_and(|spec| spec.drain.is_some()),
            _ => true,
        }
    }

    /// The nodes that would be taken out of service.
    pub fn nodes<'a>(&self, cluster: &'a Cluster) -> Vec<&'a Node> {
        let selector = match &self.asked {
            Asked::Guest(_) | Asked::Cluster(_) => return Vec::new(),
            Asked::Plan(plan) => {
                let selector = plan.spec.as_ref().ok().and_then(|spec| spec.node_selector.as_ref());
                let Some(selector) = selector.and_then(|selector| Selector::parse(selector).ok()) else {
                    return Vec::new();
                };
                selector
            }
            _ => Selector::default(),
        };
        cluster.nodes.iter().filter(|node| selector.matches(&node.metadata.labels)).collect()
    }

    /// The Kubernetes release that the nodes of this cluster would have.
    pub fn kubernetes(&self, cluster: &Cluster) -> Option<Release> {
        match &self.asked {
            Asked::Plan(plan) => {
                let spec = plan.spec.as_ref().ok()?;
                let version = if spec.version.is_empty() { &plan.status.latest_version } else { &spec.version };
                Release::of_kubernetes(version)
            }
            Asked::Version(version) if !is_harvester(cluster) || version.contains('+') => {
                Release::of_kubernetes(version)
            }
            _ => None,
        }
    }

    /// The version of Harvester that is asked for, and the Version object that describes it.
    pub fn harvester<'a>(&'a self, cluster: &'a Cluster) -> Option<(&'a str, Option<&'a harvester::Version>)> {
        let name = match &self.asked {
            Asked::Upgrade(upgrade) if upgrade.spec.image.is_empty() => upgrade.spec.version.as_str(),
            Asked::Version(version) if is_harvester(cluster) && !version.contains('+') => version,
            _ => return None,
        };
        let found = cluster.harvester.versions.iter().find(|version| version.metadata.name == name);
        (!name.is_empty()).then_some((name, found))
    }

    /// An annotation of the object that asks.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = match &self.asked {
            Asked::Upgrade(upgrade) => &upgrade.metadata.annotations,
            Asked::Plan(plan) => &plan.meta.annotations,
            Asked::Guest(guest) => &guest.metadata.annotations,
            Asked::Cluster(cluster) => &cluster.metadata.annotations,
            Asked::Anything | Asked::Version(_) => return None,
        };
        annotations.get(key).map(String::as_str)
    }

    /// The object that asks, if it is one.
    pub fn object(&self) -> Option<ObjectRef> {
        Some(match &self.asked {
            Asked::Upgrade(upgrade) => ObjectRef::of(upgrade.as_ref()),
            Asked::Plan(plan) => ObjectRef::from(&plan.subject()),
            Asked::Guest(guest) => ObjectRef::of(guest.as_ref()),
            Asked::Cluster(cluster) => ObjectRef::of(cluster.as_ref()),
            Asked::Anything | Asked::Version(_) => return None,
        })
    }
}

pub fn is_harvester(cluster: &Cluster) -> bool {
    setting(cluster, names::SERVER_VERSION).is_some()
}

/// A setting of Harvester, if it says anything.
pub fn setting<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    let setting = cluster.harvester.settings.named(name)?;
    Some(setting.effective()).filter(|value| !value.is_empty())
}

/// Is an Upgrade at work on charts or nodes, be it the one that is asked for?
pub fn is_upgrading(cluster: &Cluster, intent: &Intent) -> bool {
    use drover_api::harvester::upgrade::{labels, states};
    let own = match &intent.asked {
        Asked::Upgrade(upgrade) => upgrade.metadata.labels.get(labels::STATE).map(String::as_str),
        _ => None,
    };
    matches!(own, Some(states::UPGRADING_SYSTEM_SERVICES | states::UPGRADING_NODES))
        || upgrade_under_way(cluster, intent).is_some()
}

/// The Upgrade that is under way, other than the one that is asked for.
pub fn upgrade_under_way<'a>(cluster: &'a Cluster, intent: &Intent) -> Option<&'a harvester::Upgrade> {
    use drover_api::harvester::upgrade::{labels, states};
    let own: Option<&Meta> = match &intent.asked {
        Asked::Upgrade(upgrade) => Some(&upgrade.metadata),
        _ => None,
    };
    cluster.harvester.upgrades.iter().find(|upgrade| {
        let state = upgrade.metadata.labels.get(labels::STATE).map(String::as_str);
        !matches!(state, Some(states::SUCCEEDED | states::FAILED))
            && own.is_none_or(|own| own.name != upgrade.metadata.name)
    })
}
