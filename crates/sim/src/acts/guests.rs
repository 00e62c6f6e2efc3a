//! What goes wrong with the machines of guest clusters, and in them.

use std::collections::{BTreeMap, BTreeSet};

use super::{AWHILE, User};
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::vm_operator::virtual_machine::{VirtualMachine, labels, power};
use drover_corral::apiserver::Direct;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

const OF_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// The flag that somebody adds, and what it is to be; the invariants know it, too.
const FLAG: (&str, &str) = ("audit-log-maxage", "30");

/// Whoever is switched off and leaves meanwhile is not switched on again.
pub fn switch_off(user: &User) {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for vm in user.all::<VirtualMachine>() {
        let is_master = vm.labels().get(labels::ROLE).is_some_and(|role| role == labels::CONTROL_PLANE);
        let stays = is_master && vm.metadata.deletion_timestamp.is_none();
        if let Some(cluster) = vm.labels().get(labels::CLUSTER).filter(|_| stays) {
            first.entry(cluster.clone()).or_insert_with(|| vm.name_any());
        }
    }
    let names: BTreeSet<String> = first.into_values().collect();
    let switch = |user: &User, names: &BTreeSet<String>, state: &str| {
        user.change::<VirtualMachine>(|vm| {
            if names.contains(&vm.name_any()) {
                vm.spec.get_or_insert_default().power_state = Some(state.to_owned());
            }
        });
    };
    switch(user, &names, power::OFF);
    let user = user.clone();
    tokio::spawn(async move {
        user.clock.sleep(AWHILE).await;
        switch(&user, &names, power::ON);
    });
}

/// The first worker of each cluster that is not on its way out already.
pub fn lose_machines(user: &User) {
    let mut lost: BTreeMap<(Option<String>, Option<String>), String> = BTreeMap::new();
    let is_worker = |machine: &&Machine| {
        !machine.labels().contains_key(CONTROL_PLANE) && machine.metadata.deletion_timestamp.is_none()
    };
    for machine in user.all::<Machine>().iter().filter(is_worker) {
        let place = (machine.namespace(), machine.labels().get(OF_CLUSTER).cloned());
        lost.entry(place).or_insert_with(|| machine.name_any());
    }
    for ((namespace, _), name) in lost {
        // Gone meanwhile is as good.
        let _ = user.direct.delete::<Machine>(namespace.as_deref(), &name, None);
    }
}

/// A flag more, which stays; and another version, while machines of two are there: whoever updates them has to put it right.
pub fn edit_kubeadm(user: &User, cluster: &(String, String), guest: &Direct) {
    let Some(mut map) = guest.get::<ConfigMap>(Some("kube-system"), "kubeadm-config").ok().flatten() else { return };
    let Some(data) = map.data.as_mut() else { return };
    let Some(text) = data.get("ClusterConfiguration") else { return };
    let Ok(mut configuration) = serde_saphyr::from_str::<Value>(text) else { return };
    configuration["apiServer"]["extraArgs"][FLAG.0] = json!(FLAG.1);
    let machines = user.all::<Machine>();
    let is_master = |machine: &&Machine| {
        let (namespace, name) = cluster;
        machine.namespace().as_ref() == Some(namespace)
            && machine.labels().get(OF_CLUSTER) == Some(name)
            && machine.labels().contains_key(CONTROL_PLANE)
    };
    let versions: BTreeSet<String> =
        machines.iter().filter(is_master).filter_map(|machine| machine.spec.as_ref()?.version.clone()).collect();
    if let Some(oldest) = versions.first().filter(|_| versions.len() > 1) {
        configuration["kubernetesVersion"] = json!(format!("v{}", oldest.trim_start_matches('v')));
    }
    let Ok(text) = serde_saphyr::to_string(&configuration) else { return };
    data.insert("ClusterConfiguration".to_owned(), text);
    if let Err(status) = guest.update(&map) {
        tracing::warn!("the user cannot edit kubeadm-config: {}", status.message);
    }
}
