//! The scripts of a stock release, in the containers of its Jobs: what they do to a cluster, at the intervals at which they look.
//!
//! Models `do_upgrade_node.sh`, `upgrade_node.sh`, `upgrade-helper` and, in [`services`], `upgrade_manifests.sh` of Harvester 1.8. They know nothing of Drover, and tell what they
//! wait for to nobody but their log. Left out: files on the host, the check of the version, and that a VM is stopped once its migration has
//! failed.

mod services;

use std::sync::Arc;
use std::time::Duration;

use drover_api::harvester::jobs::names::APPLY_MANIFESTS;
use drover_api::harvester::jobs::{self, stock, types, variables};
use drover_api::harvester::node::{DRAIN_TAINT, DRAINING, MANAGED, WITNESS};
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::kubevirt::EVACUATION_BUDGET_PREFIX;
use drover_api::kubevirt::virtual_machine::verbs;
use drover_api::kubevirt::virtual_machine_instance::{NODE_NAME, VirtualMachineInstance, conditions, phases};
use drover_api::longhorn::engine::{Engine, VOLUME, modes, states};
use drover_api::longhorn::volume::{Volume, robustness};
use drover_api::rancher::provisioning_cluster::{Cluster, LOCAL};
use drover_clock::Clock;
use drover_core::harvester::steps::HostDeed;
use drover_corral::apiserver::{Direct, Kind};
use drover_operator::harvester::Repositories;
use drover_operator::harvester::steps::Host;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::{Value, json};

const OFTEN: Duration = Duration::from_secs(5);
const SELDOM: Duration = Duration::from_secs(10);
/// Before `upgrade-helper` ends: its Events are on their way.
const FLUSHED: Duration = Duration::from_secs(10);
/// A node that fails is tried again by its script, and not by its Job.
const RETRIED: Duration = Duration::from_secs(600);
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// What the scripts read of a release: without any of it they end.
const NEEDED: [&str; 15] = [
    "/harvester",
    "/harvesterChart",
    "/os",
    "/kubernetes",
    "/rancher",
    "/monitoringChart",
    "/loggingChart",
    "/loggingChartHarvesterEventRouter",
    "/rancherDependencies/fleet/chart",
    "/rancherDependencies/fleet/app",
    "/rancherDependencies/fleet-crd/chart",
    "/rancherDependencies/fleet-crd/app",
    "/rancherDependencies/rancher-webhook/chart",
    "/rancherDependencies/rancher-webhook/app",
    "/kubevirt",
];

/// What a container is told to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The type of the Job, or what is the end of its name.
    what: String,
    upgrade: String,
    node: String,
}

impl Order {
    /// None if the container runs something else.
    pub fn of(pod: &Pod, container: &str) -> Option<Order> {
        let container = pod.spec.as_ref()?.containers.iter().find(|one| one.name == container)?;
        let command = container.command.as_ref()?.first()?;
        let asked = match command.as_str() {
            stock::MANIFESTS => APPLY_MANIFESTS,
            _ => container.args.as_ref().and_then(|args| args.first()).map_or("", String::as_str),
        };
        let variable = |name: &str| {
            let variables = container.env.iter().flatten();
            variables.into_iter().find(|one| one.name == name).and_then(|one| one.value.clone()).unwrap_or_default()
        };
        let is_script = [stock::NODE_STEPS, stock::HELPER, stock::MANIFESTS].contains(&command.as_str());
        let (upgrade, node) = (variable(variables::UPGRADE_NAME), variable(variables::NODE_NAME));
        is_script.then(|| Order { what: asked.to_owned(), upgrade, node })
    }
}

/// Why a script ends with an error.
#[derive(Debug)]
struct Broken;

/// A script at work.
pub struct Script<'a> {
    pub order: Order,
    pub direct: Direct,
    pub client: kube::Client,
    pub clock: Clock,
    pub host: &'a dyn Host,
    pub repositories: Arc<dyn Repositories>,
}

impl Script<'_> {
    /// To its end; answers with its exit code.
    pub async fn run(&self) -> i32 {
        loop {
            let done = match self.order.what.as_str() {
                types::PRE_DRAIN => self.pre_drain().await,
                types::POST_DRAIN => self.post_drain().await,
                types::SINGLE_NODE_UPGRADE => self.single_node().await,
                types::RESTORE_VM => self.restore_vms().await,
                APPLY_MANIFESTS => self.services().await,
                _ => return 2,
            };
            let is_tried_again = [types::PRE_DRAIN, types::POST_DRAIN].contains(&self.order.what.as_str());
            match done {
                Ok(()) => return 0,
                Err(Broken) if is_tried_again => self.clock.sleep(RETRIED).await,
                Err(Broken) => return 1,
            }
        }
    }

    async fn pre_drain(&self) -> Result<(), Broken> {
        self.until(SELDOM, || self.volumes_are_sound()).await;
        self.stop_vms_that_stay().await;
        self.change_node(|node| {
            let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
            taints.retain(|taint| taint.key != DRAIN_TAINT);
            let (value, effect) = (Some(DRAINING.to_owned()), "NoSchedule".to_owned());
            taints.push(Taint { key: DRAIN_TAINT.to_owned(), value, effect, time_added: None });
        });
        self.until(OFTEN, || self.vms_here().iter().all(|vm| phase(vm) == phases::SUCCEEDED)).await;
        let is_evacuation = |budget: &PodDisruptionBudget| budget.name_any().starts_with(EVACUATION_BUDGET_PREFIX);
        // Of the whole cluster.
        self.until(OFTEN, || !self.all::<PodDisruptionBudget>().iter().any(is_evacuation)).await;
        Ok(())
    }

    async fn post_drain(&self) -> Result<(), Broken> {
        let release = self.release().await?;
        self.until(OFTEN, || self.kubelet_is_new(&release)).await;
        self.change_node(|node| {
            let taints = node.spec.get_or_insert_default().taints.take().unwrap_or_default();
            let left: Vec<Taint> = taints.into_iter().filter(|taint| taint.key != DRAIN_TAINT).collect();
            node.spec.get_or_insert_default().taints = Some(left).filter(|left| !left.is_empty());
        });
        self.install(&release).await
    }

    async fn single_node(&self) -> Result<(), Broken> {
        let release = self.release().await?;
        self.stop_vms_that_stay().await;
        self.until(OFTEN, || self.vms_here().iter().all(|vm| phase(vm) == phases::SUCCEEDED)).await;
        let wanted = text(&release["kubernetes"]);
        self.change::<Cluster>(Some(FLEET_NAMESPACE), LOCAL, |cluster| {
            cluster.spec.get_or_insert_default().kubernetes_version = Some(wanted.clone());
        });
        self.until(OFTEN, || self.kubelet_is_new(&release)).await;
        self.install(&release).await
    }

    /// Each is told to start once, whatever is answered.
    async fn restore_vms(&self) -> Result<(), Broken> {
        let list = self.direct.get::<ConfigMap>(Some(NAMESPACE), &self.list()).ok().flatten();
        let names = list.and_then(|list| list.data?.get(&self.order.node).cloned()).unwrap_or_default();
        for vm in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            self.tell(vm, verbs::START).await;
        }
        self.clock.sleep(FLUSHED).await;
        Ok(())
    }

    /// `vm-live-migrate-detector --shutdown`: what it saw last is what is noted.
    async fn stop_vms_that_stay(&self) {
        let staying: Vec<VirtualMachineInstance> =
            self.vms_here().into_iter().filter(|vm| self.cannot_move(vm)).collect();
        let path = |vm: &VirtualMachineInstance| format!("{}/{}", vm.namespace().unwrap_or_default(), vm.name_any());
        let is_paused = |vm: &VirtualMachineInstance| {
            let mut conditions = vm.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.any(|one| one.type_ == conditions::PAUSED && one.is_true())
        };
        let is_noted = |vm: &&VirtualMachineInstance| !is_paused(vm) && !vm.labels().contains_key(jobs::UPGRADE);
        let noted: Vec<String> = staying.iter().filter(is_noted).map(path).collect();
        self.note(noted.join(","));
        for vm in &staying {
            self.tell(&path(vm), verbs::STOP).await;
        }
        self.clock.sleep(FLUSHED).await;
    }

    /// Without a label.
    fn note(&self, vms: String) {
        let name = self.list();
        let owner = self.direct.get::<drover_api::harvester::upgrade::Upgrade>(Some(NAMESPACE), &self.order.upgrade);
        let uid = owner.ok().flatten().and_then(|upgrade| upgrade.metadata.uid);
        let made: Option<ConfigMap> = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "ownerReferences": [{
                    "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "name": self.order.upgrade, "uid": uid,
                }],
            },
            "data": { self.order.node.as_str(): vms },
        }))
        .ok();
        if made.is_some_and(|made| self.direct.create::<ConfigMap>(&made).is_ok()) {
            return;
        }
        self.change::<ConfigMap>(Some(NAMESPACE), &name, |list| {
            list.data.get_or_insert_default().insert(self.order.node.clone(), vms.clone());
        });
    }

    fn list(&self) -> String {
        format!("{}-restore-vm", self.order.upgrade)
    }

    /// By its own reading of what it asks for: what KubeVirt itself says of it is not asked.
    fn cannot_move(&self, vm: &VirtualMachineInstance) -> bool {
        let hosts: Vec<Node> =
            self.all::<Node>().into_iter().filter(|node| !node.labels().contains_key(WITNESS)).collect();
        let spec = vm.spec.clone().unwrap_or_default();
        let devices = spec.domain.and_then(|domain| domain.devices?.host_devices).unwrap_or_default();
        let is_open = |node: &Node| node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true));
        let has_target = hosts.iter().any(|node| node.name_any() != self.order.node && is_open(node));
        hosts.len() == 1 || spec.node_selector.is_some() || !devices.is_empty() || !has_target
    }

    fn vms_here(&self) -> Vec<VirtualMachineInstance> {
        let is_here = |vm: &VirtualMachineInstance| vm.labels().get(NODE_NAME) == Some(&self.order.node);
        self.all().into_iter().filter(is_here).collect()
    }

    /// On two nodes that keep volumes two sound replicas have to do, or the only one.
    fn volumes_are_sound(&self) -> bool {
        let is_keeper = |node: &Node| {
            node.labels().get(MANAGED).is_some_and(|managed| managed == "true") && !node.labels().contains_key(WITNESS)
        };
        let keepers = self.all::<Node>().iter().filter(|node| is_keeper(node)).count();
        let engines = self.all::<Engine>().into_iter();
        let mut running = engines.filter(|engine| {
            engine.status.as_ref().is_some_and(|status| status.current_state.as_deref() == Some(states::RUNNING))
        });
        running.all(|engine| {
            let name = engine.labels().get(VOLUME).cloned().unwrap_or_default();
            let volume = self.direct.get::<Volume>(engine.namespace().as_deref(), &name).ok().flatten();
            let volume = volume.unwrap_or_else(|| Volume::named(&name));
            if keepers > 2 {
                let status = volume.status.unwrap_or_default();
                return status.robustness.as_deref() == Some(robustness::HEALTHY);
            }
            let modes = engine.status.and_then(|status| status.replica_mode_map).unwrap_or_default();
            let sound = modes.values().filter(|mode| *mode == modes::READ_WRITE).count();
            let is_alone = volume.spec.and_then(|spec| spec.number_of_replicas) == Some(1);
            sound >= if is_alone { 1 } else { 2 }
        })
    }

    /// What the repository says, when it says it; the script ends if anything is missing.
    async fn release(&self) -> Result<Value, Broken> {
        let url = format!("http://upgrade-repo-{}.harvester-system/harvester-iso", self.order.upgrade);
        loop {
            self.clock.sleep(SELDOM).await;
            let answer = self.repositories.fetch(url.clone(), String::new());
            let limit = self.clock.on_the_wall(ANSWERS_WITHIN);
            if let Ok(Ok(texts)) = tokio::time::timeout(limit, answer).await {
                let release: Value = serde_saphyr::from_str(&texts.release).map_err(|_| Broken)?;
                let is_there = |place: &&str| release.pointer(place).is_some_and(|value| !text(value).is_empty());
                return if NEEDED.iter().all(is_there) { Ok(release) } else { Err(Broken) };
            }
        }
    }

    fn kubelet_is_new(&self, release: &Value) -> bool {
        let node = self.direct.get::<Node>(None, &self.order.node).ok().flatten();
        let runs = node.and_then(|node| node.status?.node_info).map(|info| info.kubelet_version);
        runs.is_some_and(|runs| runs == text(&release["kubernetes"]))
    }

    async fn install(&self, release: &Value) -> Result<(), Broken> {
        let os = text(&release["os"]);
        let node = self.direct.get::<Node>(None, &self.order.node).ok().flatten();
        let runs = node.and_then(|node| node.status?.node_info).map(|info| info.os_image);
        if runs.as_ref() == Some(&os) {
            return Ok(());
        }
        self.host.act(HostDeed::InstallSystem { os }).await.map_err(|_| Broken)
    }

    /// `virtctl start|stop`, which may be refused.
    async fn tell(&self, vm: &str, verb: &str) {
        let Some((namespace, name)) = vm.rsplit_once('/') else { return };
        let group = drover_api::kubevirt::SUBRESOURCES_GROUP;
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/virtualmachines/{name}/{verb}");
        let Ok(request) = Request::builder().method(Method::PUT).uri(path).body(b"{}".to_vec()) else { return };
        let limit = self.clock.on_the_wall(ANSWERS_WITHIN);
        match tokio::time::timeout(limit, self.client.request_text(request)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!("cannot {verb} {vm}: {error}"),
            Err(_) => tracing::warn!("cannot {verb} {vm}: no answer"),
        }
    }

    fn all<K: Kind>(&self) -> Vec<K> {
        self.direct.list::<K>().unwrap_or_default()
    }

    fn change_node(&self, change: impl Fn(&mut Node)) {
        self.change::<Node>(None, &self.order.node, change);
    }

    /// Somebody else may change it at the same moment: as kubectl does, it is read and written again.
    fn change<K: Kind>(&self, namespace: Option<&str>, name: &str, change: impl Fn(&mut K)) {
        while let Ok(Some(mut object)) = self.direct.get::<K>(namespace, name) {
            change(&mut object);
            match self.direct.update(&object) {
                Err(status) if status.code == 409 => {}
                _ => return,
            }
        }
    }

    async fn until(&self, between: Duration, met: impl Fn() -> bool) {
        while !met() {
            self.clock.sleep(between).await;
        }
    }
}

fn phase(vm: &VirtualMachineInstance) -> &str {
    vm.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
