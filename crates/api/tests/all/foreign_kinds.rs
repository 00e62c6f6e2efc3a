//! Objects of other products survive being read and written: what a type does not name is kept.

use drover_api::{cluster_api, fleet, harvester, helm, kubevirt, longhorn, rancher, vm_operator, wcp};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// An object of a kind with fields that no version of it has ever had, at every level that all kinds share.
fn strange<K: Resource<DynamicType = ()>>() -> Value {
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": "one", "annotations": {"kept": "yes"}},
        "spec": {"strange": {"deep": [1, {"still": "here"}]}, "empty": {}},
        "status": {"strange": true, "conditions": [{"type": "Ready", "status": "True"}]},
        "strange": "at the top",
    })
}

fn survives<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>() {
    let object = strange::<K>();
    let read: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object, "{} {}", K::api_version(&()), K::kind(&()));
}

#[test]
fn every_foreign_kind_keeps_the_fields_that_it_does_not_know() {
    survives::<harvester::addon::Addon>();
    survives::<harvester::setting::Setting>();
    survives::<harvester::virtual_machine_image::VirtualMachineImage>();
    survives::<rancher::cluster::Cluster>();
    survives::<rancher::cluster_repo::ClusterRepo>();
    survives::<rancher::managed_chart::ManagedChart>();
    survives::<rancher::provisioning_cluster::Cluster>();
    survives::<rancher::rke_control_plane::RKEControlPlane>();
    survives::<rancher::setting::Setting>();
    survives::<cluster_api::cluster::Cluster>();
    survives::<cluster_api::cluster::v1alpha2::Cluster>();
    survives::<cluster_api::kubeadm_config::KubeadmConfig>();
    survives::<cluster_api::kubeadm_config::KubeadmConfigTemplate>();
    survives::<cluster_api::kubeadm_config::v1alpha2::KubeadmConfig>();
    survives::<cluster_api::kubeadm_config::v1alpha2::KubeadmConfigTemplate>();
    survives::<cluster_api::kubeadm_control_plane::KubeadmControlPlane>();
    survives::<cluster_api::machine::Machine>();
    survives::<cluster_api::machine::v1alpha2::Machine>();
    survives::<cluster_api::machine_deployment::MachineDeployment>();
    survives::<cluster_api::machine_deployment::v1alpha2::MachineDeployment>();
    survives::<cluster_api::machine_set::MachineSet>();
    survives::<cluster_api::machine_set::v1alpha2::MachineSet>();
    survives::<fleet::bundle::Bundle>();
    survives::<fleet::cluster::Cluster>();
    survives::<helm::helm_chart::HelmChart>();
    survives::<helm::helm_chart_config::HelmChartConfig>();
    survives::<kubevirt::kube_virt::KubeVirt>();
    survives::<kubevirt::virtual_machine::VirtualMachine>();
    survives::<kubevirt::virtual_machine_instance::VirtualMachineInstance>();
    survives::<kubevirt::virtual_machine_instance_migration::VirtualMachineInstanceMigration>();
    survives::<longhorn::engine::Engine>();
    survives::<longhorn::instance_manager::InstanceManager>();
    survives::<longhorn::node::Node>();
    survives::<longhorn::replica::Replica>();
    survives::<longhorn::volume_attachment::VolumeAttachment>();
    survives::<longhorn::setting::Setting>();
    survives::<longhorn::volume::Volume>();
    survives::<vm_operator::virtual_machine_class::VirtualMachineClass>();
    survives::<vm_operator::virtual_machine_image::VirtualMachineImage>();
    survives::<wcp::wcp_cluster::WCPCluster>();
    survives::<wcp::wcp_machine::WCPMachine>();
    survives::<wcp::wcp_machine_template::WCPMachineTemplate>();
}

#[test]
fn a_change_to_what_is_known_leaves_the_rest_alone() {
    let before = json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": "local"},
        "spec": {
            "kubernetesVersion": "v1.33.5+rke2r1", "localClusterAuthEndpoint": {},
            "rkeConfig": {"provisionGeneration": 3, "chartValues": {"rke2-multus": {"cniVersion": "1"}}},
        },
    });
    let mut cluster: rancher::provisioning_cluster::Cluster = serde_json::from_value(before.clone()).unwrap();
    let spec = cluster.spec.get_or_insert_default();
    spec.kubernetes_version = Some("v1.34.1+rke2r1".into());
    spec.rke_config.get_or_insert_default().provision_generation = Some(4);

    let mut after = before;
    after["spec"]["kubernetesVersion"] = json!("v1.34.1+rke2r1");
    after["spec"]["rkeConfig"]["provisionGeneration"] = json!(4);
    assert_eq!(serde_json::to_value(&cluster).unwrap(), after);
}

#[test]
fn a_new_object_says_its_version_and_its_kind() {
    let machine = cluster_api::machine::v1alpha2::Machine::named("cp-0");
    let expected = json!({"apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Machine", "metadata": {"name": "cp-0"}});
    assert_eq!(serde_json::to_value(&machine).unwrap(), expected);
}

#[test]
fn names_of_acronyms_are_those_of_the_api() {
    let machine: wcp::wcp_machine::WCPMachine = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.vmware.com/v1alpha2", "kind": "WCPMachine", "metadata": {},
        "spec": {"providerID": "vsphere://42"}, "status": {"vmID": "vm-1"},
    }))
    .unwrap();
    assert_eq!(machine.spec.unwrap().provider_id.as_deref(), Some("vsphere://42"));
    assert_eq!(machine.status.unwrap().vm_id.as_deref(), Some("vm-1"));
}
