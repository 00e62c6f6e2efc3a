//! What the planner sees: the objects that plans follow from, each as new as any answer or watch has told.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::marks::PLAN_OF;
use drover_api::rancher::embedded::NAME as RANCHER;
use drover_api::rancher::machine_plan::labels::MACHINE_NAME;
use drover_core::cluster::{Job, Pod};
use drover_core::planner::{CapiClusterSeen, ClusterSeen, ControlPlaneSeen, MachineSeen, NodeSeen, SecretSeen, Target};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::follow::Collection;
use crate::head::Head;

/// A kind that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Cluster,
    ControlPlane,
    CapiCluster,
    Machine,
    Secret,
    Node,
    Deployment,
    /// Those that carry out plans, and their pods.
    Job,
    Pod,
}

impl Part {
    pub const ALL: [Part; 9] = [
        Part::Cluster,
        Part::ControlPlane,
        Part::CapiCluster,
        Part::Machine,
        Part::Secret,
        Part::Node,
        Part::Deployment,
        Part::Job,
        Part::Pod,
    ];

    pub fn path(self, namespace: &str) -> String {
        match self {
            Part::Cluster => format!("/apis/provisioning.cattle.io/v1/namespaces/{namespace}/clusters"),
            Part::ControlPlane => format!("/apis/rke.cattle.io/v1/namespaces/{namespace}/rkecontrolplanes"),
            Part::CapiCluster => format!("/apis/cluster.x-k8s.io/v1beta1/namespaces/{namespace}/clusters"),
            Part::Machine => format!("/apis/cluster.x-k8s.io/v1beta1/namespaces/{namespace}/machines"),
            Part::Secret => format!("/api/v1/namespaces/{namespace}/secrets"),
            Part::Node => "/api/v1/nodes".to_owned(),
            Part::Deployment => format!("/apis/apps/v1/namespaces/{CATTLE_NAMESPACE}/deployments"),
            Part::Job => format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
            Part::Pod => format!("/api/v1/namespaces/{namespace}/pods"),
        }
    }

    pub fn collection(self, namespace: &str) -> Collection {
        let label = match self {
            Part::Secret => MACHINE_NAME,
            Part::Job | Part::Pod => PLAN_OF,
            _ => "",
        };
        Collection { path: self.path(namespace), label, name: String::new(), metadata_only: false }
    }
}

/// Where an object is, and which kind it is of.
pub fn place(target: &Target, namespace: &str, cluster: &str) -> (Part, String, &'static str) {
    let at = |part: Part, name: &str, subresource| (part, format!("{}/{name}", part.path(namespace)), subresource);
    match target {
        Target::Secret(name) => at(Part::Secret, name, ""),
        Target::Node(name) => at(Part::Node, name, ""),
        Target::Job(name) => at(Part::Job, name, ""),
        Target::ControlPlane => at(Part::ControlPlane, cluster, ""),
        Target::ControlPlaneStatus => at(Part::ControlPlane, cluster, "/status"),
        Target::ClusterStatus => at(Part::Cluster, cluster, "/status"),
        Target::CapiClusterStatus => at(Part::CapiCluster, cluster, "/status"),
    }
}

#[derive(Debug, Default)]
pub struct Store {
    pub clusters: BTreeMap<String, ClusterSeen>,
    pub control_planes: BTreeMap<String, ControlPlaneSeen>,
    pub capi_clusters: BTreeMap<String, CapiClusterSeen>,
    pub machines: BTreeMap<String, MachineSeen>,
    pub secrets: BTreeMap<String, SecretSeen>,
    pub nodes: BTreeMap<String, NodeSeen>,
    pub jobs: BTreeMap<String, Job>,
    pub pods: BTreeMap<String, Pod>,
    deployments: BTreeMap<String, Deployment>,
    /// Of all objects, the resourceVersion.
    versions: BTreeMap<(Part, String), u64>,
    listed: BTreeSet<Part>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Deployment {
    spec: DeploymentSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeploymentSpec {
    replicas: Option<i64>,
}

impl Store {
    /// All of a kind, as of one moment. What was written meanwhile is newer and stays.
    pub fn replace(&mut self, part: Part, objects: Vec<String>, resource_version: u64) {
        let names: BTreeSet<String> =
            objects.iter().filter_map(|json| Head::of(json.as_bytes())).map(|head| head.name).collect();
        let known = self.versions.iter().filter(|((of, _), _)| *of == part);
        let gone: Vec<String> = known
            .filter(|((_, name), version)| !names.contains(name) && **version <= resource_version)
            .map(|((_, name), _)| name.clone())
            .collect();
        gone.iter().for_each(|name| self.forget(part, name));
        objects.iter().for_each(|json| self.apply(part, json.as_bytes()));
        self.listed.insert(part);
    }

    /// Takes an object, unless a newer one is known. One that cannot be read is left out: it is told, and the others go on.
    pub fn apply(&mut self, part: Part, json: &[u8]) {
        let Some(head) = Head::of(json) else { return };
        let (version, name) = (head.revision(), head.name);
        let key = (part, name.clone());
        if self.versions.get(&key).is_some_and(|known| *known > version) {
            return;
        }
        let put = match part {
            Part::Cluster => put(&mut self.clusters, name, json),
            Part::ControlPlane => put(&mut self.control_planes, name, json),
            Part::CapiCluster => put(&mut self.capi_clusters, name, json),
            Part::Machine => put(&mut self.machines, name, json),
            Part::Secret => put(&mut self.secrets, name, json),
            Part::Node => put(&mut self.nodes, name, json),
            Part::Deployment => put(&mut self.deployments, name, json),
            Part::Job => put(&mut self.jobs, name, json),
            Part::Pod => put(&mut self.pods, name, json),
        };
        if let Err(error) = put {
            tracing::warn!("{part:?} {} cannot be read and is left out: {error}", key.1);
        }
        self.versions.insert(key, version);
    }

    pub fn forget(&mut self, part: Part, name: &str) {
        match part {
            Part::Cluster => drop(self.clusters.remove(name)),
            Part::ControlPlane => drop(self.control_planes.remove(name)),
            Part::CapiCluster => drop(self.capi_clusters.remove(name)),
            Part::Machine => drop(self.machines.remove(name)),
            Part::Secret => drop(self.secrets.remove(name)),
            Part::Node => drop(self.nodes.remove(name)),
            Part::Deployment => drop(self.deployments.remove(name)),
            Part::Job => drop(self.jobs.remove(name)),
            Part::Pod => drop(self.pods.remove(name)),
        }
        self.versions.remove(&(part, name.to_owned()));
    }

    /// A kind that is not served holds nothing.
    pub fn note_absent(&mut self, part: Part) {
        self.listed.insert(part);
    }

    pub fn is_whole(&self) -> bool {
        self.listed.len() == Part::ALL.len()
    }

    /// Another planner that is at work.
    pub fn incumbent(&self) -> Option<String> {
        let rancher = self.deployments.get(RANCHER)?;
        (rancher.spec.replicas.unwrap_or(1) > 0).then(|| format!("Deployment {CATTLE_NAMESPACE}/{RANCHER}"))
    }
}

fn put<T: DeserializeOwned>(
    shelf: &mut BTreeMap<String, T>,
    name: String,
    json: &[u8],
) -> Result<(), serde_json::Error> {
    let object = serde_json::from_slice(json)?;
    shelf.insert(name, object);
    Ok(())
}
