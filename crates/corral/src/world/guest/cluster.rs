//! The Cluster controller, and the infrastructure of a whole cluster: the address at which its API is to be found, the kubeconfig that
//! leads there, and the end of all that belongs to it.
//!
//! Models `controllers/cluster_controller*.go` of Cluster API 0.2.9, and the load balancer of vSphere with Kubernetes 7.0 as far as it
//! takes time. A Cluster without infrastructure is left alone until it is deleted; those that have been running for a while are such.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::cluster::v1alpha2::Cluster;
use drover_api::cluster_api::cluster::{Endpoint, FINALIZER, phases};
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_deployment::v1alpha2::MachineDeployment;
use drover_api::cluster_api::secrets;
use drover_api::wcp::wcp_cluster::{self, WCPCluster};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::seeds::AUTHORITY;
use super::{Steps, address, adopt, drop_finalizer, is_of_control_plane, owned_by};
use crate::world::outcome::Action;
use crate::world::pods;

/// How long a load balancer takes to have an address.
const BALANCER: Duration = Duration::from_secs(5);
/// Without the certificate of the cluster there is no kubeconfig yet.
const KUBECONFIG_AGAIN: Duration = Duration::from_secs(30);

pub struct Scene<'a> {
    pub cluster: &'a Cluster,
    pub infrastructure: Option<&'a WCPCluster>,
    /// All of the cluster.
    pub machines: &'a [Machine],
    pub deployments: &'a [MachineDeployment],
    pub has_authority: bool,
    pub has_kubeconfig: bool,
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Steps {
    if scene.cluster.metadata.deletion_timestamp.is_some() {
        return end(scene);
    }
    if scene.cluster.spec.as_ref().is_none_or(|spec| spec.infrastructure_ref.is_none()) {
        return Steps::default();
    }
    tend(scene, now)
}

fn tend(scene: &Scene<'_>, now: Timestamp) -> Steps {
    let mut actions = Vec::new();
    let mut after = scene.cluster.clone();
    let finalizers = after.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    if let Some(infrastructure) = scene.infrastructure {
        let mut owned = infrastructure.clone();
        adopt(&mut owned.metadata, owned_by(scene.cluster, &scene.cluster.api_version));
        actions.extend(Action::change(infrastructure, &owned));
    }
    let status = after.status.get_or_insert_default();
    let told = scene.infrastructure.and_then(|one| one.status.as_ref()).filter(|told| told.ready == Some(true));
    if let Some(told) = told {
        status.infrastructure_ready = Some(true);
        status.api_endpoints.clone_from(&told.api_endpoints);
    }
    let has_node = |machine: &Machine| machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    if scene.machines.iter().any(|machine| is_of_control_plane(machine) && has_node(machine)) {
        status.control_plane_initialized = Some(true);
    }
    let is_ready = status.infrastructure_ready == Some(true);
    status.phase = Some(if is_ready { phases::PROVISIONED } else { phases::PROVISIONING }.to_lowercase());
    actions.extend(Action::change(scene.cluster, &after));
    let lacks_kubeconfig = is_ready && !scene.has_kubeconfig;
    if lacks_kubeconfig && scene.has_authority {
        actions.push(Action::create(&kubeconfig_secret(scene.cluster)));
    }
    let wake = (lacks_kubeconfig && !scene.has_authority).then(|| later(now, KUBECONFIG_AGAIN));
    Steps { own: actions, guest: Vec::new(), wake }
}

/// Machines first, then the infrastructure; then it may go.
fn end(scene: &Scene<'_>) -> Steps {
    let mut after = scene.cluster.clone();
    after.status.get_or_insert_default().phase = Some(phases::DELETING.to_lowercase());
    let mut actions: Vec<Action> = Action::change(scene.cluster, &after).into_iter().collect();
    if !actions.is_empty() {
        return Steps::own(actions);
    }
    let stays = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
    actions.extend(scene.deployments.iter().filter(|one| stays(&one.metadata)).map(Action::delete));
    actions.extend(scene.machines.iter().filter(|one| stays(&one.metadata)).map(Action::delete));
    if !scene.machines.is_empty() || !scene.deployments.is_empty() {
        return Steps::own(actions);
    }
    match scene.infrastructure {
        Some(infrastructure) if stays(&infrastructure.metadata) => actions.push(Action::delete(infrastructure)),
        Some(_) => {}
        None => {
            drop_finalizer(&mut after.metadata, FINALIZER);
            actions.push(Action::update(&after));
        }
    }
    Steps::own(actions)
}

/// What leads to a cluster.
pub fn kubeconfig(namespace: &str, name: &str) -> String {
    let server = address(namespace, name);
    let way = json!({ "server": server, "certificate-authority-data": STANDARD.encode(AUTHORITY) });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "admin",
        "clusters": [{ "name": name, "cluster": way }],
        "users": [{ "name": "admin", "user": { "token": "simulated" } }],
        "contexts": [{ "name": "admin", "context": { "cluster": name, "user": "admin" } }],
    });
    kubeconfig.to_string()
}

fn kubeconfig_secret(cluster: &Cluster) -> Secret {
    let (namespace, name) = (pods::namespace(&cluster.metadata), pods::name(&cluster.metadata));
    let text = kubeconfig(namespace, name);
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{name}{}", secrets::KUBECONFIG)),
            namespace: Some(namespace.to_owned()),
            owner_references: Some(vec![owned_by(cluster, &cluster.api_version)]),
            ..ObjectMeta::default()
        },
        data: Some([(secrets::VALUE.to_owned(), ByteString(text.into_bytes()))].into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// The infrastructure of a cluster has an address a while after the Cluster has taken it over.
pub fn balance(infrastructure: &WCPCluster, now: Timestamp) -> Steps {
    let mut after = infrastructure.clone();
    if infrastructure.metadata.deletion_timestamp.is_some() {
        drop_finalizer(&mut after.metadata, wcp_cluster::FINALIZER);
        return Steps::own(Action::change(infrastructure, &after).into_iter().collect());
    }
    let finalizers = after.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == wcp_cluster::FINALIZER) {
        finalizers.push(wcp_cluster::FINALIZER.into());
    }
    let is_owned = infrastructure.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Cluster");
    let made = infrastructure.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
    let has_address = later(made, BALANCER);
    if is_owned && now >= has_address {
        let status = after.status.get_or_insert_default();
        let endpoint = Endpoint { host: Some("192.0.2.1".into()), port: Some(6443), ..Endpoint::default() };
        status.ready = Some(true);
        status.api_endpoints = Some(vec![endpoint]);
    }
    let own = Action::change(infrastructure, &after).into_iter().collect();
    Steps { own, guest: Vec::new(), wake: (now < has_address).then_some(has_address) }
}
