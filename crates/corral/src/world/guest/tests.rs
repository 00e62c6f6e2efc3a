//! A guest cluster and its machines in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfig;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::vm_operator::virtual_machine::{VirtualMachine, labels, power};
use drover_api::vm_operator::virtual_machine_class::VirtualMachineClass;
use drover_api::wcp::wcp_machine::WCPMachine;
use drover_clock::Clock;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ResourceQuota, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::etcd::Members;
use super::join::{Joining, refuses};
use super::{Contract, Guest, is_reachable};
use crate::apiserver::{ApiServer, Direct, Options};
use crate::world::outcome::Action;
use crate::world::{Part, World, WorldOptions, act, definitions};

struct Both {
    clock: Clock,
    management: Direct,
    guest: Direct,
    names: Vec<String>,
}

fn server(clock: Clock, seed: u64) -> ApiServer {
    ApiServer::new(Options { clock, seed, latency: Duration::ZERO, watch_window: 1000 })
}

fn list(items: Vec<Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items })
}

async fn cluster_of(machines: usize) -> Both {
    cluster_by(Contract::V1alpha2, machines).await
}

async fn cluster_by(contract: Contract, machines: usize) -> Both {
    cluster_with(contract, machines, |_| {}).await
}

/// One of whose own objects some are others.
async fn cluster_with(contract: Contract, machines: usize, change: fn(&mut Value)) -> Both {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
    let (management, guest) = (server(clock, 1), server(clock, 2));
    let lines = Guest {
        namespace: "default".into(),
        name: "my-tkc".into(),
        machines,
        version: "1.15.5".into(),
        begun: None,
        told: BTreeMap::new(),
        workers: None,
        contract,
        distribution: None,
    };
    let mut settled = lines.settled(clock.now());
    settled.guest.iter_mut().for_each(change);
    management.load(&list(definitions::guest(contract).into_iter().chain(settled.management).collect())).unwrap();
    guest.load(&list(settled.guest)).unwrap();
    let mut options = WorldOptions::default().with(Part::GUESTS);
    options.guests.insert(("default".into(), "my-tkc".into()), guest.clone());
    tokio::spawn(World::run(management.clone(), options));
    tokio::spawn(World::run(guest.clone(), WorldOptions::default()));
    let both = Both {
        clock,
        management: management.direct("test"),
        guest: guest.direct("test"),
        names: lines.machine_names(),
    };
    both.passes(10).await;
    both
}

impl Both {
    async fn passes(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Whatever version the objects are of.
    fn does(&self, action: &Action) {
        act::perform(&self.management, action, self.clock.now()).unwrap();
    }

    /// The same machine under another name.
    fn copy(&self, name: &str) {
        let old = self.names[0].as_str();
        let mut config: KubeadmConfig = self.management.get(Some("default"), old).unwrap().unwrap();
        config.metadata = renamed(&config.metadata, name);
        config.status = None;
        self.does(&Action::create(&config));
        let mut infrastructure: WCPMachine = self.management.get(Some("default"), old).unwrap().unwrap();
        infrastructure.metadata = renamed(&infrastructure.metadata, name);
        infrastructure.spec.as_mut().unwrap().provider_id = None;
        infrastructure.status = None;
        self.does(&Action::create(&infrastructure));
        let mut machine: Machine = self.management.get(Some("default"), old).unwrap().unwrap();
        machine.metadata = renamed(&machine.metadata, name);
        machine.status = None;
        let spec = machine.spec.as_mut().unwrap();
        spec.provider_id = None;
        spec.infrastructure_ref.as_mut().unwrap().name = Some(name.into());
        let bootstrap = spec.bootstrap.as_mut().unwrap();
        (bootstrap.data, bootstrap.data_secret_name) = (None, None);
        bootstrap.config_ref.as_mut().unwrap().name = Some(name.into());
        self.does(&Action::create(&machine));
    }

    fn machine(&self, name: &str) -> Option<Machine> {
        self.management.get(Some("default"), name).unwrap()
    }

    fn voters(&self) -> usize {
        Members::read(&self.guest).voters().count()
    }
}

fn renamed(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    name: &str,
) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    let mut metadata = metadata.clone();
    metadata.name = Some(name.into());
    (metadata.uid, metadata.resource_version, metadata.owner_references) = (None, None, None);
    metadata
}

#[tokio::test(start_paused = true)]
async fn a_machine_boots_after_a_while_learns_and_votes() {
    let both = cluster_of(1).await;
    assert!(is_reachable(&both.guest));
    both.copy("new");
    both.passes(61).await;
    assert_eq!(both.machine("new").unwrap().status.unwrap().phase.as_deref(), Some("provisioned"));
    both.passes(13).await;
    assert_eq!((both.voters(), Members::read(&both.guest).0.len()), (1, 2));
    both.passes(10).await;
    assert_eq!(both.voters(), 2);
    let node: Node = both.guest.get(None, "new").unwrap().unwrap();
    assert!(node.metadata.labels.unwrap().contains_key("node-role.kubernetes.io/master"));
    assert_eq!(both.machine("new").unwrap().status.unwrap().phase.as_deref(), Some("running"));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_first_machine_takes_the_certificates_away_and_no_machine_comes_any_more() {
    let both = cluster_of(3).await;
    both.management.delete::<Machine>(Some("default"), &both.names[0], None).unwrap();
    both.passes(120).await;
    assert_eq!(both.machine(&both.names[0]), None);
    assert_eq!(both.guest.get::<Node>(None, &both.names[0]).unwrap(), None);
    assert_eq!(both.management.get::<Secret>(Some("default"), "my-tkc-ca").unwrap(), None);
    assert!(is_reachable(&both.guest), "two of three members are enough");
    let mut copy = Both { names: vec![both.names[1].clone()], ..both };
    copy.copy("new");
    copy.passes(600).await;
    let config: KubeadmConfig = copy.management.get(Some("default"), "new").unwrap().unwrap();
    assert!(config.status.unwrap().error_message.unwrap().contains("missing certificate"));
    assert_eq!(copy.voters(), 3);
    copy.names.clear();
}

#[tokio::test(start_paused = true)]
async fn etcd_refuses_what_would_cost_its_quorum() {
    let both = cluster_of(3).await;
    let members = Members::read(&both.guest);
    assert_eq!(members.0[0].name, both.names[0]);
    assert!(members.0[0].leader);
    let led = members.led_by(&both.guest, members.0[1].id).unwrap();
    assert!(led.0[1].leader && !led.0[0].leader);
    both.management.delete::<Machine>(Some("default"), &both.names[2], None).unwrap();
    both.passes(120).await;
    let members = Members::read(&both.guest);
    assert_eq!(
        members.without(&both.guest, members.0[0].id),
        Err("re-configuration failed due to not enough started members".into())
    );
    assert_eq!(members.without(&both.guest, members.0[2].id).map(|after| after.0.len()), Ok(2));
}

/// What a machine of a control plane says when it could not be made.
async fn why_not(both: &Both, object: Value) -> String {
    match object["kind"].as_str().unwrap() {
        "ResourceQuota" => {
            drop(both.management.create(&serde_json::from_value::<ResourceQuota>(object).unwrap()).unwrap())
        }
        "StorageClass" => {
            drop(both.management.create(&serde_json::from_value::<StorageClass>(object).unwrap()).unwrap())
        }
        _ => drop(both.management.create(&serde_json::from_value::<VirtualMachineClass>(object).unwrap()).unwrap()),
    }
    both.copy("new");
    both.passes(200).await;
    let machine = both.machine("new").unwrap().status.unwrap();
    assert_eq!(both.voters(), 1);
    machine.error_message.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_class_is_not_there_or_that_exceeds_a_quota_is_never_made() {
    let class = json!({ "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass", "metadata": { "name": "other" } });
    let said = why_not(&cluster_of(1).await, class).await;
    assert!(
        said.starts_with("virtualmachineclasses.vmoperator.vmware.com \"") && said.ends_with("\" not found"),
        "{said}"
    );

    let storage = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "other" }, "provisioner": "p" });
    let said = why_not(&cluster_of(1).await, storage).await;
    assert!(said.starts_with("storageclasses.storage.k8s.io \""), "{said}");

    let hard = json!({ "count/virtualmachines.vmoperator.vmware.com": "1" });
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "vms", "namespace": "default" }, "spec": { "hard": hard } });
    let said = why_not(&cluster_of(1).await, quota).await;
    assert!(said.starts_with("exceeded quota: vms, requested: "), "{said}");
}

fn virtual_machine(both: &Both, name: &str) -> Option<VirtualMachine> {
    both.management.get(Some("default"), name).unwrap()
}

fn switch(both: &Both, name: &str, state: &str) {
    let mut vm = virtual_machine(both, name).unwrap();
    vm.spec.as_mut().unwrap().power_state = Some(state.to_owned());
    both.management.update(&vm).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_runs_on_a_virtual_machine_of_its_name_which_goes_with_it() {
    let both = cluster_of(3).await;
    both.copy("new");
    both.passes(30).await;
    let vm = virtual_machine(&both, "new").unwrap();
    assert_eq!(vm.metadata.labels.unwrap()[labels::ROLE], labels::CONTROL_PLANE);
    assert_eq!(vm.status.unwrap().power_state.as_deref(), Some(power::OFF), "it is still created");
    both.passes(60).await;
    let status = virtual_machine(&both, "new").unwrap().status.unwrap();
    assert_eq!((status.power_state.as_deref(), status.vm_ip.is_some()), (Some(power::ON), true));

    both.management.delete::<Machine>(Some("default"), &both.names[2], None).unwrap();
    both.passes(120).await;
    assert_eq!(virtual_machine(&both, &both.names[2]), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_answers_on_a_virtual_machine_that_is_switched_off_until_it_is_switched_on() {
    let both = cluster_of(3).await;
    let well = || {
        let members = Members::read(&both.guest);
        members.0.iter().filter(|member| Members::is_well(&both.guest, member)).count()
    };
    switch(&both, &both.names[0], power::OFF);
    both.passes(5).await;
    assert_eq!(well(), 2);
    assert!(is_reachable(&both.guest), "two of three members are enough");
    assert!(!Members::read(&both.guest).0[0].leader, "another one leads");
    switch(&both, &both.names[1], power::OFF);
    both.passes(5).await;
    assert!(!is_reachable(&both.guest));

    switch(&both, &both.names[0], power::ON);
    switch(&both, &both.names[1], power::ON);
    both.passes(60).await;
    assert_eq!((well(), is_reachable(&both.guest)), (3, true));
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_virtual_machine_somebody_deletes_has_failed() {
    let both = cluster_of(3).await;
    both.management.delete::<VirtualMachine>(Some("default"), &both.names[0], None).unwrap();
    both.passes(30).await;
    assert_eq!(virtual_machine(&both, &both.names[0]), None);
    let status = both.machine(&both.names[0]).unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("failed"));
    assert!(status.error_message.unwrap().contains("is not there any more"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_v1beta1_boots_with_a_secret_tells_by_conditions_and_waits_for_hooks_when_it_goes() {
    let both = cluster_by(Contract::V1beta1, 3).await;
    both.copy("new");
    both.passes(100).await;
    let machine = both.machine("new").unwrap();
    let (spec, status) = (machine.spec.clone().unwrap(), machine.status.clone().unwrap());
    assert_eq!((machine.api_version.as_str(), status.phase.as_deref()), ("cluster.x-k8s.io/v1beta1", Some("Running")));
    let bootstrap = spec.bootstrap.unwrap();
    assert_eq!((bootstrap.data, bootstrap.data_secret_name.as_deref()), (None, Some("new")));
    let data: Secret = both.management.get(Some("default"), "new").unwrap().unwrap();
    assert_eq!(data.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    let ready = |status: &drover_api::cluster_api::machine::MachineStatus, type_: &str| {
        let condition = drover_api::foreign::condition(status.conditions.as_ref(), type_).cloned();
        condition.map(|condition| condition.status)
    };
    assert_eq!(ready(&status, "InfrastructureReady").as_deref(), Some("True"));
    assert_eq!(both.voters(), 4);

    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/cleanup";
    let mut held = machine;
    held.metadata.annotations.get_or_insert_default().insert(hook.to_owned(), "somebody".to_owned());
    both.does(&Action::update(&held));
    both.does(&Action::delete(&held));
    both.passes(120).await;
    let mut held = both.machine("new").expect("a hook holds it");
    assert_eq!(ready(held.status.as_ref().unwrap(), "PreTerminateDeleteHookSucceeded").as_deref(), Some("False"));
    assert_eq!(both.guest.get::<Node>(None, "new").unwrap(), None, "it was drained before");
    held.metadata.annotations.as_mut().unwrap().remove(hook);
    both.does(&Action::update(&held));
    both.passes(60).await;
    assert_eq!(both.machine("new"), None);
    assert_eq!(both.management.get::<Secret>(Some("default"), "new").unwrap(), None, "what it booted with goes along");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_no_node_to_cluster_api_before_a_cloud_provider_runs_in_the_guest() {
    let unknown = |object: &mut Value| drop(object["spec"].as_object_mut().and_then(|spec| spec.remove("providerID")));
    let both = cluster_with(Contract::V1alpha2, 1, unknown).await;
    let taints = || {
        let node: Node = both.guest.get(None, "new").unwrap().unwrap();
        node.spec.unwrap().taints.unwrap_or_default().iter().map(|taint| taint.key.clone()).collect::<Vec<_>>()
    };
    both.copy("new");
    both.passes(100).await;
    assert_eq!(both.voters(), 2, "kubeadm does not wait for it");
    assert_eq!(both.machine("new").unwrap().status.unwrap().phase.as_deref(), Some("provisioned"));
    assert!(taints().contains(&"node.cloudprovider.kubernetes.io/uninitialized".to_owned()), "{:?}", taints());

    let place = "vmware-system-cloud-provider";
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": place } });
    drop(both.guest.create(&serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "guest-cluster-cloud-provider", "namespace": place },
        "spec": { "nodeName": "new", "tolerations": [{ "operator": "Exists" }], "containers": [{ "name": "ccm", "image": "ccm" }] },
    });
    drop(both.guest.create(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap());
    both.passes(30).await;

    assert_eq!(both.machine("new").unwrap().status.unwrap().phase.as_deref(), Some("running"));
    assert_eq!(taints(), ["node-role.kubernetes.io/master"]);
}

/// kubeadm of 1.27 reads no `v1beta2`.
#[tokio::test(start_paused = true)]
async fn a_machine_does_not_join_with_a_configuration_that_its_kubeadm_does_not_read() {
    let both = cluster_of(1).await;
    let joining = |version: &'static str| Joining {
        name: "new",
        version,
        provider_id: "vsphere://new",
        labels: &[],
        is_worker: false,
        begins: None,
        since: "2026-01-01T00:00:00Z".parse().unwrap(),
        dies: false,
    };
    let refused = |version: &'static str| refuses(&joining(version), &both.guest, both.clock.now());
    assert_eq!(refused("1.26.15"), None);
    let words = refused("1.27.16").unwrap();
    assert!(words.contains("is registered for version \"kubeadm.k8s.io/v1beta2\" in scheme"), "{words}");
}
