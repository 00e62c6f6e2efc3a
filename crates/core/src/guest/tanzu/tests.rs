//! One look after another at a cluster of one control-plane machine and two workers, whose writes are carried out on paper.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use drover_api::tanzu::tanzu_kubernetes_cluster::FINALIZER;

use super::*;
use crate::decision::Act;

mod add_ons;
mod creation;
mod generated;
mod leftovers;
mod original;
mod paper;
mod pods;
mod refusals;
mod rollouts;
mod settings;
mod stories;
mod taken_over;
mod triggers;
mod turns;
mod words;

const OLD: &str = "v1.15.5+vmware.1-guest.1";
const NEW: &str = "v1.16.7+vmware.1-guest.1";
const CALICO: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: calico, namespace: kube-system } }";

struct Scene {
    tkc: Value,
    own: Seen,
    global: Seen,
    system: Seen,
    settings: Settings,
    watched: Watched,
    /// What the clock of who looks shows, and what it would show if nobody had set it.
    now: Timestamp,
    steady: Timestamp,
    revision: u64,
    /// What became of add-ons; if nothing is said, all that is asked for is applied.
    told: Option<addons::Told>,
    /// The ClusterConfiguration of the guest; none if it has not told.
    configuration: Option<Value>,
    /// The guest has not been asked yet.
    is_unasked: bool,
    /// How many clusters are updated at once, and which are; without, all are.
    turns: Option<turns::Turns>,
    after: Vec<between::Predecessor>,
    /// The Nodes of the guest; none if it was not asked.
    nodes: Option<BTreeMap<String, bool>>,
}

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn kubernetes(distribution: &str) -> &str {
    distribution.split("-guest").next().unwrap()
}

fn image_name(distribution: &str) -> String {
    format!("photon-{}", distribution.replace('+', "-"))
}

/// As it is asked for, in the old version.
fn settled() -> Scene {
    let mut scene = Scene {
        tkc: json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha1", "kind": "TanzuKubernetesCluster",
            "metadata": {
                "name": "my-tkc", "namespace": "default", "uid": "tkc", "resourceVersion": "1",
                "finalizers": [FINALIZER],
            },
            "spec": {
                "topology": {
                    "controlPlane": { "count": 1, "class": "small", "storageClass": "gold" },
                    "workers": { "count": 2, "class": "small", "storageClass": "gold" },
                },
                "distribution": { "fullVersion": OLD },
            },
            "status": { "version": OLD },
        }),
        own: Seen::default(),
        global: Seen::default(),
        system: Seen::default(),
        settings: Settings {
            image: "drover:1".into(),
            service_account: "drover".into(),
            machine_timeout: SignedDuration::from_mins(15),
            node_selector: None,
        },
        watched: Watched::default(),
        steady: noon(),
        now: noon(),
        revision: 1,
        told: None,
        configuration: None,
        is_unasked: false,
        turns: None,
        after: Vec::new(),
        nodes: None,
    };
    for version in [OLD, NEW] {
        scene.image(version);
    }
    let metadata = |name: &str| json!({ "name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": { "cluster.x-k8s.io/cluster-name": "my-tkc" } });
    let mut cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Cluster", "metadata": metadata("my-tkc"),
        "status": { "controlPlaneInitialized": true, "phase": "provisioned" },
    });
    cluster["metadata"]["ownerReferences"] =
        json!([{ "kind": "TanzuKubernetesCluster", "uid": "tkc", "controller": true }]);
    scene.put(Collection::Clusters, cluster);
    scene.control_plane_machine("cp-1", OLD);
    let machines = json!({ "imageName": image_name(OLD), "className": "small", "storageClass": "gold" });
    scene.put(
        Collection::MachineTemplates,
        json!({
            "apiVersion": "infrastructure.cluster.vmware.com/v1alpha2", "kind": "WCPMachineTemplate",
            "metadata": metadata("machines-1"), "spec": { "template": { "spec": machines } },
        }),
    );
    let joins =
        json!({ "joinConfiguration": { "nodeRegistration": { "kubeletExtraArgs": { "node-labels": label(OLD) } } } });
    scene.put(
        Collection::ConfigTemplates,
        json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfigTemplate",
            "metadata": metadata("joins-1"), "spec": { "template": { "spec": joins } },
        }),
    );
    let template = template("1.15.5+vmware.1", "machines-1", "joins-1");
    scene.put(
        Collection::Deployments,
        json!({
            "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "MachineDeployment", "metadata": metadata("workers"),
            "spec": { "replicas": 2, "template": { "spec": template } },
            "status": { "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 },
        }),
    );
    scene.set("old", &template, 2);
    scene.worker("worker-1", "old", true);
    scene.worker("worker-2", "old", true);
    scene
}

fn label(distribution: &str) -> String {
    format!("run.tanzu.vmware.com/kubernetesDistributionVersion={}", distribution.replace('+', "_"))
}

fn template(version: &str, machines: &str, joins: &str) -> Value {
    json!({
        "version": version,
        "infrastructureRef": { "kind": "WCPMachineTemplate", "name": machines },
        "bootstrap": { "configRef": { "kind": "KubeadmConfigTemplate", "name": joins } },
    })
}

/// A guest that has all that is asked for.
fn all_applied(order: &addons::Order) -> addons::Told {
    let standing = order.addons.iter().map(|addon| {
        let (name, version) = (addon.name.clone(), addon.version.clone());
        (addon.place.clone(), addons::Standing { name, version, state: addons::State::Applied })
    });
    addons::Told { key: order.key.clone(), standing: standing.collect(), answered: true, ..addons::Told::default() }
}

impl Scene {
    fn put(&mut self, collection: Collection, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let space = match collection {
            Collection::Images | Collection::Classes | Collection::StorageClasses | Collection::Nodes => {
                &mut self.global
            }
            Collection::Jobs | Collection::Pods | Collection::Defaults => &mut self.system,
            _ => &mut self.own,
        };
        space.put(collection, object);
    }

    fn image(&mut self, version: &str) {
        let parts = json!({
            "distribution": { "version": version },
            "kubernetes": { "imageRepository": "vmware", "version": kubernetes(version) },
            "etcd": { "imageRepository": "vmware", "version": "v3.3.15_vmware.6" },
            "coredns": { "imageRepository": "vmware", "version": "v1.6.2_vmware.6" },
        });
        self.put(Collection::Images, json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineImage",
            "metadata": { "name": image_name(version), "annotations": {
                "vmware-system.guest.kubernetes.distribution.image.version": parts.to_string(),
                "vmware-system.guest.kubernetes.addons.calico": json!({ "name": "calico", "version": "3.14", "type": "inline", "value": CALICO }).to_string(),
            }},
            "spec": { "productInfo": { "fullVersion": version } },
        }));
    }

    /// Changes what the image of a distribution tells of it.
    fn tells(&mut self, version: &str, change: impl FnOnce(&mut Value)) {
        let key = "vmware-system.guest.kubernetes.distribution.image.version";
        let mut image = self.global.get(Collection::Images, &image_name(version)).unwrap().clone();
        let mut parts: Value = serde_json::from_str(text(&image["metadata"]["annotations"][key])).unwrap();
        change(&mut parts);
        image["metadata"]["annotations"][key] = json!(parts.to_string());
        self.put(Collection::Images, image);
    }

    fn control_plane_machine(&mut self, name: &str, version: &str) {
        let metadata = json!({ "name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {
            "cluster.x-k8s.io/cluster-name": "my-tkc", "cluster.x-k8s.io/control-plane": "true",
        }});
        let reference =
            |group: &str, kind: &str| json!({ "apiVersion": format!("{group}/v1alpha2"), "kind": kind, "name": name });
        self.put(
            Collection::Machines,
            json!({
                "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Machine", "metadata": metadata,
                "spec": {
                    "version": kubernetes(version).trim_start_matches('v'),
                    "bootstrap": { "configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig") },
                    "infrastructureRef": reference("infrastructure.cluster.vmware.com", "WCPMachine"),
                },
                "status": { "phase": "running", "nodeRef": { "name": name } },
            }),
        );
        self.put(
            Collection::Infrastructure,
            json!({
                "apiVersion": "infrastructure.cluster.vmware.com/v1alpha2", "kind": "WCPMachine", "metadata": metadata,
                "spec": { "imageName": image_name(version), "className": "small", "storageClass": "gold" },
                "status": { "ready": true, "vmstatus": "ready" },
            }),
        );
        let registration = json!({ "kubeletExtraArgs": { "node-labels": label(version) } });
        self.put(
            Collection::Configs,
            json!({
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfig", "metadata": metadata,
                "spec": { "initConfiguration": { "nodeRegistration": registration } },
            }),
        );
    }

    fn set(&mut self, name: &str, template: &Value, available: usize) {
        self.put(
            Collection::Sets,
            json!({
                "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "MachineSet",
                "metadata": { "name": name, "namespace": "default", "uid": format!("set-{name}"), "ownerReferences": [
                    { "uid": "uid-workers", "controller": true },
                ]},
                "spec": { "replicas": available, "template": { "spec": template } },
                "status": { "replicas": available, "availableReplicas": available },
            }),
        );
    }

    fn worker(&mut self, name: &str, set: &str, joined: bool) {
        let status = if joined { json!({ "phase": "running", "nodeRef": { "name": name } }) } else { json!({}) };
        self.put(Collection::Machines, json!({
            "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Machine",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": self.now.to_string(),
                "labels": { "cluster.x-k8s.io/cluster-name": "my-tkc" },
                "ownerReferences": [{ "uid": format!("set-{set}"), "controller": true }],
            },
            "spec": { "version": "1.15.5+vmware.1" }, "status": status,
        }));
    }

    fn change(&mut self, collection: Collection, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.own.get(collection, name).unwrap().clone();
        change(&mut object);
        self.put(collection, object);
    }

    fn deployment(&self) -> &Value {
        self.own.get(Collection::Deployments, "workers").unwrap()
    }

    fn asks_for(mut self, version: &str) -> Self {
        self.tkc["spec"]["distribution"]["fullVersion"] = json!(version);
        self
    }

    /// As though a Job had done it.
    fn control_plane_is_new(mut self) -> Self {
        self.control_plane_machine("cp-1", NEW);
        self
    }

    fn passes(&mut self, minutes: i64) {
        self.clock_is_set_by(minutes);
        self.steady = self.steady.checked_add(SignedDuration::from_mins(minutes)).unwrap();
    }

    fn clock_is_set_by(&mut self, minutes: i64) {
        self.now = self.now.checked_add(SignedDuration::from_mins(minutes)).unwrap();
    }

    /// The operator dies, and the clock of the next one is so many minutes off.
    fn another_looks(&mut self, minutes: i64) {
        self.clock_is_set_by(minutes);
        (self.steady, self.watched) = (self.now, Watched::default());
    }

    fn view<'a>(&'a self, addons: Option<&'a addons::Told>) -> View<'a> {
        View {
            tkc: &self.tkc,
            own: &self.own,
            global: &self.global,
            system: &self.system,
            nodes: self.nodes.as_ref(),
            configuration: self.configuration.as_ref(),
            addons,
            places: self.turns.as_ref().map(turns::Turns::places),
            after: &self.after,
            settings: &self.settings,
            watched: &self.watched,
            steady: self.steady,
            now: self.now,
        }
    }

    fn decide(&self) -> Decision {
        let told = self.told.clone().or_else(|| Some(all_applied(&order_of_addons(&self.view(None))?)));
        let decision = decide(&self.view(told.as_ref().filter(|_| !self.is_unasked)));
        for wait in decision.waits.iter().filter(|wait| wait.reason.stops()) {
            assert!(wait.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()), "{wait:?}");
        }
        decision
    }

    /// Decides, and carries out what was decided.
    fn goes_on(&mut self) -> Vec<&'static str> {
        let decision = self.decide();
        let purposes = decision.writes.iter().map(|write| write.purpose).collect();
        decision.writes.iter().for_each(|write| self.perform(write));
        self.watched = decision.watched;
        purposes
    }

    fn perform(&mut self, write: &Write) {
        self.revision += 1;
        let kind = write.object.kind.as_str();
        let collection = match kind {
            "MachineDeployment" => Collection::Deployments,
            "WCPMachineTemplate" => Collection::MachineTemplates,
            "KubeadmConfigTemplate" => Collection::ConfigTemplates,
            "Job" => Collection::Jobs,
            "Cluster" => Collection::Clusters,
            "Machine" => Collection::Machines,
            "KubeadmConfig" => Collection::Configs,
            "WCPMachine" => Collection::Infrastructure,
            _ => Collection::Tanzu,
        };
        match &write.act {
            Act::Patch(patch) | Act::PatchStatus(patch) if kind == "TanzuKubernetesCluster" => {
                assert_eq!(patch["metadata"]["resourceVersion"], self.tkc["metadata"]["resourceVersion"]);
                json_patch::merge(&mut self.tkc, patch);
                self.tkc["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            }
            Act::Patch(_) | Act::Create(_) if kind == "ConfigMap" => {
                let revision = self.revision;
                self.turns.as_mut().unwrap().perform(&write.act, revision);
            }
            Act::Patch(patch) => {
                let space = if kind == "Job" { &self.system } else { &self.own };
                let mut object = space.get(collection, &write.object.name).unwrap().clone();
                assert_eq!(patch["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
                json_patch::merge(&mut object, patch);
                self.put(collection, object);
            }
            Act::Create(object) => self.put(collection, object.clone()),
            // Cluster API holds it until its Machines have gone.
            Act::Delete { .. } if kind == "Cluster" => {
                let at = self.now.to_string();
                self.change(collection, &write.object.name, |one| one["metadata"]["deletionTimestamp"] = json!(at));
            }
            Act::Delete { .. } => self.system.forget(collection, &write.object.name),
            other => panic!("{other:?}"),
        }
    }

    fn phase(&self) -> &str {
        text(&self.tkc["status"]["phase"])
    }

    fn reasons(&self) -> Vec<Reason> {
        self.decide().waits.iter().map(|wait| wait.reason).collect()
    }

    fn job(&self) -> Value {
        self.system.all(Collection::Jobs).next().unwrap().clone()
    }

    fn job_ends(&mut self, condition: &str) {
        let mut job = self.job();
        job["status"] = json!({
            "conditions": [{ "type": condition, "status": "True" }], "completionTime": self.now.to_string(),
        });
        self.put(Collection::Jobs, job);
    }

    /// The rollout has begun: a new set has made its first Machine.
    fn rolls(&mut self) {
        let template = self.deployment()["spec"]["template"]["spec"].clone();
        self.set("new", &template, 0);
        self.change(Collection::Sets, "new", |set| set["spec"]["replicas"] = json!(1));
        self.worker("worker-3", "new", false);
        self.change(Collection::Deployments, "workers", |one| {
            one["status"] = json!({ "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2 });
        });
    }
}

#[test]
fn a_cluster_that_is_as_it_is_asked_for_runs_and_gets_no_write_but_its_status() {
    let mut scene = settled();

    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    assert_eq!(scene.phase(), "running");
    assert_eq!(scene.tkc["status"]["version"], OLD);
    assert_eq!(scene.tkc["status"]["vmStatus"]["cp-1"], "ready");
    assert_eq!(scene.goes_on(), [""; 0]);
}

#[test]
fn what_differs_is_said_before_the_job_begins_and_workers_wait_for_the_control_plane() {
    let mut scene = settled().asks_for(NEW);

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "begin the update of a control plane"]);
    assert_eq!(scene.phase(), "updating");
    assert_eq!(
        scene.tkc["status"]["differences"],
        json!([
            "Machine cp-1: version: v1.15.5+vmware.1 → v1.16.7+vmware.1",
            "Machine cp-1: imageName: photon-v1.15.5-vmware.1-guest.1 → photon-v1.16.7-vmware.1-guest.1",
            format!(
                "Machine cp-1: joinConfiguration.nodeRegistration.kubeletExtraArgs.node-labels: {} → {}",
                label(OLD),
                label(NEW)
            ),
            "MachineDeployment workers: version: 1.15.5+vmware.1 → 1.16.7+vmware.1",
            "MachineDeployment workers: imageName: photon-v1.15.5-vmware.1-guest.1 → photon-v1.16.7-vmware.1-guest.1",
            format!(
                "MachineDeployment workers: joinConfiguration.nodeRegistration.kubeletExtraArgs.node-labels: {} → {}",
                label(OLD),
                label(NEW)
            ),
        ])
    );
    let job = scene.job();
    let id = text(&job["metadata"]["annotations"]["upgrade-id"]).to_owned();
    assert_eq!(job["metadata"]["name"], format!("update-{id}"));
    assert_eq!(job["metadata"]["namespace"], "vmware-system-tkg");
    assert_eq!(job["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "my-tkc");
    assert_eq!(job["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(job["spec"]["template"]["metadata"]["annotations"]["upgrade-version"], "v1.16.7+vmware.1");
    assert_eq!(scene.reasons(), [Reason::ControlPlaneUpdating, Reason::ControlPlaneFirst]);
    assert_eq!(scene.tkc["status"]["version"], OLD);
}

#[test]
fn workers_follow_when_no_machine_of_the_control_plane_is_older() {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();

    assert_eq!(
        scene.goes_on(),
        [
            "publish how far a cluster is",
            "make a template of workers",
            "make a template of workers",
            "point workers at other templates"
        ]
    );
    let spec = &scene.deployment()["spec"]["template"]["spec"];
    assert_eq!(spec["version"], "1.16.7+vmware.1");
    let machines = text(&spec["infrastructureRef"]["name"]).to_owned();
    assert!(machines.starts_with("my-tkc-workers-"), "{machines}");
    let made = scene.own.get(Collection::MachineTemplates, &machines).unwrap();
    assert_eq!(made["spec"]["template"]["spec"]["imageName"], image_name(NEW));
    assert_eq!(
        scene.deployment()["metadata"]["annotations"]["drover.dev/last-good"],
        "1.15.5+vmware.1 machines-1 joins-1"
    );

    scene.goes_on();
    assert_eq!(scene.phase(), "updating", "also while nothing is made yet");
    scene.rolls();
    assert_eq!(scene.reasons(), [Reason::MachineProvisioning]);
    scene.goes_on();
    assert_eq!(scene.phase(), "updating");
    scene.change(Collection::Deployments, "workers", |one| {
        one["status"] = json!({ "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 });
    });
    scene.change(Collection::Sets, "new", |set| set["status"]["replicas"] = json!(2));
    scene.change(Collection::Sets, "old", |set| set["status"]["replicas"] = json!(0));
    scene.goes_on();
    assert_eq!((scene.phase(), &scene.tkc["status"]["version"]), ("running", &json!(NEW)));
    assert_eq!(scene.tkc["status"]["differences"], Value::Null);
}

#[test]
fn a_machine_of_the_control_plane_that_does_not_go_keeps_workers_waiting() {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();
    scene.control_plane_machine("cp-0", OLD);
    scene.change(Collection::Machines, "cp-0", |one| one["metadata"]["deletionTimestamp"] = json!(noon().to_string()));

    let decision = scene.decide();

    assert_eq!(decision.waits[0].sentence, "workers follow once Machine/default/cp-0 is gone");
}

#[test]
fn build_metadata_counts_for_the_order_of_control_plane_and_workers() {
    let next = "v1.15.5+vmware.2-guest.1";
    let mut scene = settled().asks_for(next);
    scene.image(next);

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "begin the update of a control plane"]);
    assert!(scene.reasons().contains(&Reason::ControlPlaneFirst));
}

#[test]
fn another_image_of_the_same_version_is_rolled_out_in_order_as_well() {
    let next = "v1.15.5+vmware.1-guest.2";
    let mut scene = settled().asks_for(next);
    scene.image(next);

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "begin the update of a control plane"]);
    assert!(scene.reasons().contains(&Reason::ControlPlaneFirst));
}

#[test]
fn without_a_machine_of_the_control_plane_no_worker_is_raised() {
    let mut scene = settled().asks_for(NEW);
    scene.own.forget(Collection::Machines, "cp-1");

    assert_eq!(scene.reasons(), [Reason::ControlPlaneUpdateFailed, Reason::ControlPlaneFirst]);
    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    assert_eq!(scene.phase(), "updateFailed", "nobody is on the way");
    scene.is_unasked = true;
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed, "nor is a guest waited for that cannot answer");
}

#[test]
fn another_class_of_workers_is_rolled_out_beside_an_update_of_the_control_plane() {
    let mut scene = settled();
    scene.tkc["spec"]["topology"]["workers"]["class"] = json!("large");
    scene.tkc["spec"]["topology"]["controlPlane"]["class"] = json!("large");

    assert_eq!(
        scene.goes_on(),
        [
            "publish how far a cluster is",
            "begin the update of a control plane",
            "make a template of workers",
            "point workers at other templates"
        ]
    );
    assert_eq!(scene.deployment()["spec"]["template"]["spec"]["bootstrap"]["configRef"]["name"], "joins-1");
}

#[test]
fn a_failed_job_halts_the_cluster_until_it_is_deleted() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    scene.job_ends("Failed");

    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed);
    assert!(scene.decide().waits[0].remedy.as_ref().unwrap().contains("delete job update-"));
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
    let name = text(&scene.job()["metadata"]["name"]).to_owned();
    scene.system.forget(Collection::Jobs, &name);
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
    assert_eq!(scene.job()["metadata"]["name"], name, "the same cause has the same name");
}

#[test]
fn a_job_that_ends_well_and_changes_nothing_is_not_begun_again_and_again() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    scene.job_ends("Complete");

    scene.goes_on();
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating, "its machines may not have been seen yet");
    scene.another_looks(60);
    scene.goes_on();
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating, "nor by one whose clock is ahead");
    scene.passes(2);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed);
    assert!(!scene.goes_on().contains(&"begin the update of a control plane"));
    scene.another_looks(-60);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed, "what was told stays so");
}

#[test]
fn a_machine_that_is_lost_after_an_update_is_replaced_by_another_job() {
    let mut scene = settled().asks_for(NEW);
    scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(3);
    for name in ["cp-2", "cp-3"] {
        scene.control_plane_machine(name, OLD);
    }
    scene.goes_on();
    scene.goes_on();
    scene.job_ends("Complete");
    for name in ["cp-1", "cp-2", "cp-3"] {
        scene.control_plane_machine(name, NEW);
    }
    let first = scene.job();
    assert!(scene.goes_on().contains(&"note that an update is done"));
    assert!(!scene.goes_on().contains(&"note that an update is done"));

    scene.own.forget(Collection::Machines, "cp-2");
    assert!(scene.goes_on().contains(&"clear away the Job of an earlier update"));
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
    assert_eq!(scene.job()["metadata"]["name"], first["metadata"]["name"], "the same cause has the same name");
    assert_eq!(scene.phase(), "updating");

    scene.job_ends("Complete");
    scene.goes_on();
    scene.passes(2);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed, "it is not tried again and again");
}

#[test]
fn a_cluster_is_held_as_long_as_anything_of_it_is_there() {
    for before in [json!(null), json!(["drover.dev/control-plane-update"])] {
        let mut scene = settled();
        scene.tkc["metadata"]["finalizers"] = before;
        assert_eq!(scene.goes_on(), ["hold a cluster until all of it has gone"]);
        assert_eq!(scene.tkc["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    }
    let mut refused = settled().asks_for("v9.9.9");
    refused.tkc["metadata"]["finalizers"] = Value::Null;
    assert_eq!(refused.goes_on(), ["hold a cluster until all of it has gone"], "whatever is asked of it");
}

/// Nothing differs, and no Job is at work.
#[test]
fn a_cluster_that_rests_and_is_deleted_is_deleting_until_all_of_it_has_gone() {
    let mut scene = settled();
    scene.goes_on();
    scene.tkc["metadata"]["deletionTimestamp"] = json!(noon().to_string());

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "delete the Cluster of a cluster that goes"]);
    assert_eq!((scene.phase(), scene.reasons()), ("deleting", vec![Reason::ClusterLeaves]));
    let wait = scene.decide().waits.remove(0);
    assert_eq!(wait.remedy.as_deref(), Some("drover why machine/default/cp-1"));
    assert_eq!(wait.deadline, Some(scene.now + SignedDuration::from_mins(15)));
    assert_eq!(scene.goes_on(), [""; 0], "its finalizer stays");

    scene.own = Seen::default();
    assert_eq!(scene.goes_on(), ["hold the cluster no longer"]);
    assert_eq!(scene.tkc["metadata"]["finalizers"], json!([]));
}

#[test]
fn a_cluster_that_is_deleted_takes_its_job_along_first() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.tkc["metadata"]["deletionTimestamp"] = json!(noon().to_string());

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "clear away the Job of a cluster that goes"]);
    assert!(scene.goes_on().contains(&"delete the Cluster of a cluster that goes"));
}

/// `kubectl delete --cascade=orphan`, and a Cluster that nobody's TanzuKubernetesCluster owns.
#[test]
fn a_cluster_that_is_to_stay_is_not_deleted_with_its_tanzu_kubernetes_cluster() {
    type Change = fn(&mut Scene);
    let cases: [Change; 2] = [
        |scene| scene.tkc["metadata"]["finalizers"] = json!(["orphan", FINALIZER]),
        |scene| scene.change(Collection::Clusters, "my-tkc", |one| one["metadata"]["ownerReferences"] = Value::Null),
    ];
    for change in cases {
        let mut scene = settled();
        scene.tkc["metadata"]["deletionTimestamp"] = json!(noon().to_string());
        change(&mut scene);
        assert_eq!(scene.goes_on(), ["hold the cluster no longer"]);
        assert!(scene.own.get(Collection::Clusters, "my-tkc").is_some());
    }
}

#[test]
fn jobs_of_clusters_that_are_gone_are_cleared_away() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();

    assert_eq!(forsaken(&scene.system, &BTreeSet::from(["tkc".to_owned()])), []);
    assert_eq!(forsaken(&scene.system, &BTreeSet::from(["another".to_owned()])).len(), 1);
}
