//! Objects of a cluster that Rancher has provisioned and that is as it should be: where a made-up cluster begins.

use drover_api::cluster_api::labels::CLUSTER_NAME as CAPI_CLUSTER;
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::rancher::machine_plan::{NAME_SUFFIX, STATE_SUFFIX, STATE_TYPE, TYPE, annotations, keys, labels};
use drover_api::rancher::provisioning_cluster::LOCAL;
use serde_json::{Value, json};

use super::options::Version;
use super::plan::{self, Wanted};
use super::{checksum, planner};

/// A machine of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Seed {
    pub machine: String,
    pub node: String,
    pub address: String,
    pub etcd: bool,
    pub control_plane: bool,
    pub worker: bool,
}

/// The clusters, the machines and their plan Secrets. The first machine with etcd is the one that the others have joined.
pub fn settled(seeds: &[Seed], kubernetes_version: &str, rancher: &str) -> Vec<Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": { "name": LOCAL, "namespace": FLEET_NAMESPACE },
            "spec": { "kubernetesVersion": kubernetes_version, "rkeConfig": { "provisionGeneration": 1 } },
        }),
        json!({
            "apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
            "metadata": { "name": LOCAL, "namespace": FLEET_NAMESPACE },
            "spec": {
                "clusterName": LOCAL, "kubernetesVersion": kubernetes_version, "provisionGeneration": 1,
                "upgradeStrategy": {},
            },
            "status": { "agentConnected": true, "configGeneration": 0 },
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": { "name": LOCAL, "namespace": FLEET_NAMESPACE },
            "spec": {}, "status": { "phase": "Provisioned", "infrastructureReady": true, "observedGeneration": 1 },
        }),
        json!({
            "apiVersion": "management.cattle.io/v3", "kind": "Setting",
            "metadata": { "name": "server-version" }, "value": rancher,
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": STATE_TYPE,
            "metadata": { "name": format!("{LOCAL}{STATE_SUFFIX}"), "namespace": FLEET_NAMESPACE },
        }),
    ];
    let init = seeds.iter().find(|seed| seed.etcd).map(|seed| seed.machine.as_str());
    let server = seeds.iter().find(|seed| seed.etcd).map(|seed| format!("https://{}:9345", seed.address));
    for seed in seeds {
        objects.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": {
                "name": seed.machine, "namespace": FLEET_NAMESPACE, "labels": { CAPI_CLUSTER: LOCAL },
            },
            "spec": { "clusterName": LOCAL },
            "status": {
                "phase": "Running", "infrastructureReady": true, "nodeRef": { "kind": "Node", "name": seed.node },
                "nodeInfo": { "kubeletVersion": kubernetes_version },
            },
        }));
        let is_init = init == Some(seed.machine.as_str());
        objects.push(secret(seed, is_init, server.as_deref(), kubernetes_version, rancher));
    }
    objects
}

fn secret(seed: &Seed, is_init: bool, server: Option<&str>, kubernetes_version: &str, rancher: &str) -> Value {
    let rancher = Version::read(Some(rancher));
    let plan = plan::desired(&Wanted {
        kubernetes_version,
        provision_generation: 1,
        config_generation: 0,
        node: &seed.node,
        server: server.filter(|_| !is_init),
        etcd: seed.etcd,
        control_plane: seed.control_plane,
        rancher,
    });
    let mut tags = json!({
        labels::MACHINE_NAME: seed.machine, labels::CLUSTER_NAME: LOCAL, CAPI_CLUSTER: LOCAL,
        labels::MACHINE_ID: seed.machine, labels::NODE_NAME: seed.node,
    });
    let roles = [
        (labels::ETCD_ROLE, seed.etcd),
        (labels::CONTROL_PLANE_ROLE, seed.control_plane),
        (labels::WORKER_ROLE, seed.worker),
        (labels::INIT_NODE, is_init),
    ];
    for (role, _) in roles.into_iter().filter(|(_, has)| *has) {
        tags[role] = json!("true");
    }
    let probes: serde_json::Map<String, Value> = plan::probe_names(&plan)
        .into_iter()
        .map(|name| (name, json!({ "healthy": true, "successCount": 1 })))
        .collect();
    let mut data = json!({
        keys::PLAN: plan, keys::APPLIED_PLAN: plan, keys::APPLIED_CHECKSUM: checksum(&plan),
        keys::PROBE_STATUSES: Value::Object(probes).to_string(), "success-count": "1", keys::FAILURE_COUNT: "0",
    });
    if rancher.has_plan_state() {
        data[keys::PLAN_STATE] = json!("succeeded");
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TYPE,
        "metadata": {
            "name": format!("{}{NAME_SUFFIX}", seed.machine), "namespace": FLEET_NAMESPACE, "labels": tags,
            "annotations": {
                annotations::JOIN_URL: format!("https://{}:9345", seed.address),
                planner::PROBES_PASSED: "2026-01-01T00:00:00Z",
                "rke.cattle.io/joined-to": server.filter(|_| !is_init).unwrap_or_default(),
            },
        },
        "stringData": data,
    })
}
