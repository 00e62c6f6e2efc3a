//! The whole of what is generated is compared: flags of components, arguments of kubelets, fields of machines.

use serde_json::{Value, json};

use super::super::*;
use super::{NEW, OLD, Scene, label, settled};
use crate::guest::generated::Generated;
use crate::guest::order::Patches;

/// As `kubeadm-config` of a cluster of the old version says it.
fn configuration() -> Value {
    json!({
        "apiServer": { "extraArgs": { "authorization-mode": "Node,RBAC" } }, "controllerManager": {},
        "dns": { "type": "CoreDNS", "imageRepository": "vmware", "imageTag": "v1.6.2_vmware.6" },
        "etcd": { "local": { "dataDir": "/var/lib/etcd", "imageRepository": "vmware", "imageTag": "v3.3.15_vmware.6" } },
        "imageRepository": "vmware", "kubernetesVersion": "v1.15.5+vmware.1",
        "networking": { "podSubnet": "192.168.0.0/16" },
    })
}

fn told() -> Scene {
    Scene { configuration: Some(configuration()), ..settled() }
}

impl Scene {
    fn wants_of_all(&mut self, key: &str, yaml: &str) {
        self.put(
            Collection::Defaults,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "drover-guest-defaults", "namespace": "vmware-system-tkg" }, "data": { key: yaml },
            }),
        );
    }

    fn differences(&self) -> Vec<String> {
        let said = self.tkc["status"]["differences"].as_array().cloned().unwrap_or_default();
        said.iter().map(|one| text(one).to_owned()).collect()
    }

    fn list(&self, flag: &str) -> Vec<Value> {
        let job = self.job();
        let args = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap().clone();
        let start = format!("--{flag}=");
        let list = args.iter().find_map(|arg| text(arg).strip_prefix(&start).map(str::to_owned)).unwrap();
        serde_json::from_str(&list).unwrap()
    }

    /// As though a Job with these lists had done it.
    fn is_made_by_its_job(&mut self) {
        let patches = Patches {
            infrastructure: self.list("infrastructure-patches"),
            bootstrap: self.list("bootstrap-patches"),
            kubeadm: self.list("kubeadm-configmap-patches"),
        };
        let apply = |object: &mut Value, list: &[Value]| crate::guest::patch::apply(object, list).unwrap();
        self.change(Collection::Infrastructure, "WCPMachine/cp-1", |one| apply(one, &patches.infrastructure));
        self.change(Collection::Configs, "cp-1", |one| {
            if let Some(first) = one["spec"].as_object_mut().unwrap().remove("initConfiguration") {
                one["spec"]["joinConfiguration"] = first;
                one["spec"]["joinConfiguration"]["controlPlane"] = json!({});
            }
            apply(one, &patches.bootstrap);
        });
        apply(self.configuration.as_mut().unwrap(), &patches.kubeadm);
        let made = Generated::by(&patches).to_string();
        self.change(Collection::Machines, "cp-1", |one| {
            one["metadata"]["annotations"] = json!({ "drover.dev/generated": made })
        });
        self.job_ends("Complete");
    }

    /// Until its Job is made.
    fn begins(&mut self) {
        assert!(self.goes_on().contains(&"begin the update of a control plane"), "{:?}", self.decide());
    }
}

#[test]
fn a_cluster_that_joined_with_what_is_generated_is_left_alone() {
    let mut scene = told();

    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    assert_eq!((scene.phase(), scene.differences()), ("running", vec![]));
}

#[test]
fn another_flag_of_a_component_alone_is_said_and_rolled_out_to_the_control_plane_alone() {
    let mut scene = told();
    scene.wants_of_all(
        "clusterConfiguration",
        "{ apiServer: { extraArgs: { profiling: 'false' } }, scheduler: { extraArgs: { v: '2' } } }",
    );

    scene.begins();

    assert_eq!(
        scene.differences(),
        [
            "Machine cp-1: clusterConfiguration.apiServer.extraArgs.profiling: none → false",
            "Machine cp-1: clusterConfiguration.scheduler.extraArgs.v: none → 2",
        ]
    );
    let lists = scene.list("kubeadm-configmap-patches");
    let set = |path: &str, value: &str| json!({ "op": "replace", "path": path, "value": value });
    let add = |path: &str| json!({ "op": "add", "path": path, "value": {} });
    assert_eq!(
        lists[6..],
        [
            set("/apiServer/extraArgs/profiling", "false"),
            add("/scheduler"),
            add("/scheduler/extraArgs"),
            set("/scheduler/extraArgs/v", "2"),
        ]
    );
    assert_eq!(scene.reasons(), [Reason::ControlPlaneUpdating], "workers stay as they are");

    scene.is_made_by_its_job();
    while !scene.goes_on().is_empty() {}
    assert_eq!((scene.phase(), scene.differences()), ("running", vec![]));
}

#[test]
fn a_flag_that_is_wanted_no_longer_is_taken_away_and_one_of_somebody_else_stays() {
    let mut scene = told();
    scene.wants_of_all("clusterConfiguration", "{ apiServer: { extraArgs: { profiling: 'false' } } }");
    scene.begins();
    scene.is_made_by_its_job();
    while !scene.goes_on().is_empty() {}
    scene.wants_of_all("clusterConfiguration", "{}");

    scene.begins();

    assert_eq!(scene.differences(), ["Machine cp-1: clusterConfiguration.apiServer.extraArgs.profiling: false → none"]);
    let list = scene.list("kubeadm-configmap-patches");
    assert_eq!(list.last(), Some(&json!({ "op": "remove", "path": "/apiServer/extraArgs/profiling" })));
    scene.is_made_by_its_job();
    while !scene.goes_on().is_empty() {}
    assert_eq!(scene.phase(), "running");
    let flags = &scene.configuration.as_ref().unwrap()["apiServer"]["extraArgs"];
    assert_eq!(flags, &json!({ "authorization-mode": "Node,RBAC" }));
}

#[test]
fn an_image_that_says_something_else_of_etcd_is_rolled_out() {
    let mut scene = told();
    scene.configuration.as_mut().unwrap()["etcd"]["local"]["imageTag"] = json!("v3.3.10_vmware.1");

    scene.begins();

    assert_eq!(
        scene.differences(),
        ["Machine cp-1: clusterConfiguration.etcd.local.imageTag: v3.3.10_vmware.1 → v3.3.15_vmware.6"]
    );
}

#[test]
fn arguments_of_kubelets_and_fields_of_machines_are_rolled_out_to_all_machines() {
    let mut scene = told();
    scene.wants_of_all(
        "joinConfiguration",
        "{ nodeRegistration: { kubeletExtraArgs: { max-pods: '64', node-labels: 'team=web' } } }",
    );
    let done = scene.goes_on();

    assert!(
        done.contains(&"begin the update of a control plane") && done.contains(&"point workers at other templates")
    );
    let labels = format!("node-labels: {} → {},team=web", label(OLD), label(OLD));
    let expected: Vec<String> = ["Machine cp-1", "MachineDeployment workers"]
        .iter()
        .flat_map(|one| {
            let field = "joinConfiguration.nodeRegistration.kubeletExtraArgs";
            [format!("{one}: {field}.max-pods: none → 64"), format!("{one}: {field}.{labels}")]
        })
        .collect();
    assert_eq!(scene.differences(), expected);

    let template = scene.deployment()["spec"]["template"]["spec"]["bootstrap"]["configRef"]["name"].clone();
    scene.wants_of_all("machine", "{ volumes: [{ name: etcd, capacity: 4Gi }] }");
    scene.goes_on();
    let next = &scene.deployment()["spec"]["template"]["spec"];
    let machines = scene.own.get(Collection::MachineTemplates, text(&next["infrastructureRef"]["name"])).unwrap();
    assert_eq!(machines["spec"]["template"]["spec"]["volumes"][0]["capacity"], "4Gi");
    assert_ne!(next["bootstrap"]["configRef"]["name"], template);
    let joins = scene.own.get(Collection::ConfigTemplates, text(&next["bootstrap"]["configRef"]["name"])).unwrap();
    let arguments = &joins["spec"]["template"]["spec"]["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"];
    assert_eq!(arguments, &json!({ "node-labels": label(OLD) }), "what is wanted no longer is gone");
}

#[test]
fn what_an_owner_asks_for_goes_before_defaults() {
    let mut scene = told();
    scene.wants_of_all("machine", "{ className: large }");

    scene.goes_on();
    assert_eq!(scene.phase(), "running");
}

#[test]
fn what_no_new_machine_can_change_is_said_and_nothing_is_done_about_it() {
    let mut scene = told();
    scene.wants_of_all(
        "clusterConfiguration",
        "{ networking: { podSubnet: 10.0.0.0/8, dnsDomain: other }, clusterName: x }",
    );
    scene.tkc["spec"]["settings"] =
        json!({ "network": { "serviceDomain": "other", "pods": { "cidrBlocks": ["10.0.0.0/8"] } } });
    scene.change(Collection::Clusters, "my-tkc", |one| {
        one["spec"] = json!({ "clusterNetwork": { "pods": { "cidrBlocks": ["192.168.0.0/16"] } } });
    });

    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    assert_eq!(scene.phase(), "running");
    let waits = scene.decide().waits;
    assert_eq!(waits.iter().map(|one| one.reason).collect::<Vec<_>>(), [Reason::CannotChange; 2]);
    assert_eq!(
        waits[0].sentence,
        "ConfigMap/vmware-system-tkg/drover-guest-defaults asks for clusterConfiguration.clusterName and 2 more, which new \
         machines cannot change"
    );
    assert_eq!(waits[1].remedy.as_deref(), Some("set spec.settings.network.pods.cidrBlocks to [\"192.168.0.0/16\"]"));
    assert_eq!(scene.goes_on(), [""; 0], "it is not looped over");
}

#[test]
fn defaults_that_cannot_be_read_are_refused_by_the_field() {
    let broken = [
        ("clusterConfiguration", "[1", "data.clusterConfiguration: it is no YAML"),
        ("clusterConfiguration", "words", "data.clusterConfiguration: it is no mapping"),
        ("clusterConfig", "{}", "data.clusterConfig: it is none of clusterConfiguration, joinConfiguration, machine"),
        (
            "clusterConfiguration",
            "{ apiServer: { extraArgs: { v: 2 } } }",
            "data.clusterConfiguration: apiServer.extraArgs.v is 2, and flags are texts: write \"2\"",
        ),
    ];
    for (key, yaml, sentence) in broken {
        let mut scene = told().asks_for(NEW);
        scene.wants_of_all(key, yaml);

        assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
        assert_eq!(scene.phase(), "updateFailed");
        let wait = &scene.decide().waits[0];
        assert!(wait.sentence.contains(sentence), "{}", wait.sentence);
        assert!(wait.remedy.as_ref().unwrap().contains("edit configmap drover-guest-defaults"));
    }
}

#[test]
fn flags_are_not_set_before_the_guest_has_told_which_there_are() {
    let mut scene = settled().asks_for(NEW);
    scene.wants_of_all("clusterConfiguration", "{ apiServer: { extraArgs: { profiling: 'false' } } }");

    assert_eq!(scene.reasons()[0], Reason::ConfigurationUnknown);
}

#[test]
fn a_machine_that_an_update_was_begun_on_and_that_nobody_remembers_differs() {
    let mut scene = told();
    scene.change(Collection::Machines, "cp-1", |one| {
        one["metadata"]["annotations"] = json!({ "upgrade.cluster-api.vmware.com/id": "abc" });
    });

    scene.begins();
    assert_eq!(scene.differences(), ["Machine cp-1: update abc was begun, and is not done"]);
}

#[test]
fn an_update_that_was_called_off_is_put_right_although_no_machine_differs() {
    let mut scene = told();
    scene.wants_of_all("clusterConfiguration", "{ apiServer: { extraArgs: { profiling: 'false' } } }");
    scene.begins();
    let job = text(&scene.job()["metadata"]["name"]).to_owned();
    let first = scene.list("kubeadm-configmap-patches");
    // It remembers what the machine has joined with, tells the guest, and dies.
    let joined = Generated::default().with_what_changes(&first, scene.configuration.as_ref());
    scene.change(Collection::Machines, "cp-1", |one| {
        let marks = json!({ "upgrade.cluster-api.vmware.com/id": "abc", "drover.dev/generated": joined.to_string() });
        one["metadata"]["annotations"] = marks;
    });
    crate::guest::patch::apply(scene.configuration.as_mut().unwrap(), &first).unwrap();
    scene.wants_of_all("clusterConfiguration", "{}");
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating, "it is called off when its Job is gone");
    scene.system.forget(Collection::Jobs, &job);

    assert!(scene.goes_on().contains(&"begin the update of a control plane"));

    assert_eq!(scene.differences(), ["Machine cp-1: update abc was begun, and is not done"]);
    let flag = json!({ "op": "remove", "path": "/apiServer/extraArgs/profiling" });
    assert!(scene.list("kubeadm-configmap-patches").contains(&flag));
    scene.job_ends("Complete");
    assert!(!scene.goes_on().contains(&"begin the update of a control plane"), "its marks are seen to go later");
}

#[test]
fn what_somebody_changes_by_hand_in_mid_update_is_said_and_put_right_when_the_job_has_ended() {
    let mut scene = told().asks_for(NEW);
    scene.begins();
    let id = text(&scene.job()["metadata"]["annotations"]["upgrade-id"]).to_owned();
    scene.change(Collection::Infrastructure, "WCPMachine/cp-1", |one| one["spec"]["className"] = json!("huge"));

    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating);
    scene.goes_on();
    assert!(scene.differences().contains(&"Machine cp-1: className: huge → small".to_owned()));
    assert_eq!(scene.job()["metadata"]["annotations"]["upgrade-id"], id.as_str(), "the same is asked for");

    scene.control_plane_machine("cp-1", NEW);
    scene.change(Collection::Infrastructure, "WCPMachine/cp-1", |one| one["spec"]["className"] = json!("huge"));
    scene.job_ends("Complete");
    scene.goes_on();
    scene.passes(2);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed, "its Job is not begun again and again");
}

#[test]
fn how_far_machines_are_changes_nothing_about_the_id_of_an_update() {
    let mut scene = told();
    scene.wants_of_all("clusterConfiguration", "{ scheduler: { extraArgs: { v: '2' } } }");
    scene.begins();
    let name = scene.job()["metadata"]["name"].clone();
    scene.configuration.as_mut().unwrap()["scheduler"] = json!({ "extraArgs": { "v": "2" } });
    scene.job_ends("Failed");
    scene.change(Collection::Machines, "cp-1", |one| {
        one["metadata"]["annotations"] = json!({ "upgrade.cluster-api.vmware.com/id": "abc" });
    });
    scene.system.forget(Collection::Jobs, text(&name));

    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
    assert_eq!(scene.job()["metadata"]["name"], name);
}
