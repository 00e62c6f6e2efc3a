//! One look after another at a guest cluster of three machines, whose writes are carried out on paper.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::decision::Act;

mod called_off;
mod certificates;
mod cordons;
mod rules;
mod scaling;
mod stories;

/// A certificate of an authority and its key, as small as they come.
const CERTIFICATE: &str = include_str!("../../testdata/keys/ec.crt");
const KEY: &str = include_str!("../../testdata/keys/ec.key");
/// Of somebody else.
const OTHER: (&str, &str) = (include_str!("../../testdata/keys/rsa.crt"), include_str!("../../testdata/keys/rsa.key"));

struct Scene {
    order: Order,
    dialect: Dialect,
    seen: Seen,
    members: Vec<Member>,
    drained: BTreeSet<String>,
    told: Vec<Wait>,
    now: Timestamp,
    revision: u64,
}

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn order(version: &str) -> Order {
    let order = Order {
        namespace: "default".into(),
        cluster: "my-tkc".into(),
        version: Version::parse(version).unwrap(),
        id: "7".into(),
        patches: Patches::default(),
        replicas: None,
        machine_timeout: SignedDuration::from_mins(15),
    };
    order.check().unwrap()
}

/// Three machines, `a` leads; certificates are secured, and the guest is prepared for its version.
fn settled() -> Scene {
    let mut scene = Scene {
        order: order("v1.16.7"),
        dialect: Dialect::V1alpha2,
        seen: Seen::default(),
        members: Vec::new(),
        drained: BTreeSet::new(),
        told: Vec::new(),
        now: noon(),
        revision: 0,
    };
    scene.put(Collection::Clusters, json!({ "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Cluster", "metadata": { "name": "my-tkc", "namespace": "default", "uid": "cluster" } }));
    let pem = |text: &str| STANDARD.encode(text);
    for (end, is_certificate) in CERTIFICATES {
        let of_service_account = (include_str!("../../testdata/keys/rsa.pub"), OTHER.1);
        let (text, key) = if is_certificate { (CERTIFICATE, KEY) } else { of_service_account };
        scene.put(
            Collection::Secrets,
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": format!("my-tkc{end}"), "namespace": "default", "ownerReferences": [
                    { "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfig", "name": "a", "uid": "config-a" },
                ]},
                "data": { "tls.crt": pem(text), "tls.key": pem(key) },
            }),
        );
    }
    for name in ["a", "b", "c"] {
        scene.machine(name, name, "1.15.5");
        scene.comes_up(name);
    }
    scene.members[0].leader = true;
    let configuration =
        "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\nkubernetesVersion: v1.15.5\nunknown: kept\n";
    let status =
        "apiEndpoints:\n  a: {bindPort: 6443}\n  b: {bindPort: 6443}\n  c: {bindPort: 6443}\nkind: ClusterStatus\n";
    scene.put(
        Collection::ConfigMaps,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kubeadm-config", "namespace": "kube-system" },
            "data": { "ClusterConfiguration": configuration, "ClusterStatus": status },
        }),
    );
    scene.put(
        Collection::ConfigMaps,
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kubelet-config-1.15", "namespace": "kube-system" }, "data": { "kubelet": "x" } }),
    );
    scene
}

impl Scene {
    fn put(&mut self, collection: Collection, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.seen.put(collection, object);
    }

    fn certificate(&mut self, name: &str, (certificate, key): (&str, &str)) {
        let mut secret = self.get(Collection::Secrets, name);
        secret["data"] = json!({ "tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key) });
        self.put(Collection::Secrets, secret);
    }

    /// What the kubeconfig of the guest says of whom it trusts.
    fn trusts(&mut self, authority: &str) {
        let way = json!({ "server": "https://guest:6443", "certificate-authority-data": STANDARD.encode(authority) });
        let kubeconfig = json!({
            "current-context": "admin", "contexts": [{ "name": "admin", "context": { "cluster": "my-tkc" } }],
            "clusters": [{ "name": "other", "cluster": {} }, { "name": "my-tkc", "cluster": way }],
        });
        self.put(
            Collection::Secrets,
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "my-tkc-kubeconfig", "namespace": "default" },
                "data": { "value": STANDARD.encode(kubeconfig.to_string()) },
            }),
        );
    }

    fn machine(&mut self, name: &str, base: &str, version: &str) {
        let reference =
            |group: &str, kind: &str| json!({ "apiVersion": format!("{group}/v1alpha2"), "kind": kind, "name": name });
        let annotations =
            if name == base { json!({}) } else { json!({ "upgrade.cluster-api.vmware.com/machine-name-base": base }) };
        let metadata = |kind: &str| json!({ "name": name, "namespace": "default", "uid": format!("{kind}-{name}") });
        let mut machine = metadata("machine");
        machine["labels"] =
            json!({ "cluster.x-k8s.io/cluster-name": "my-tkc", "cluster.x-k8s.io/control-plane": "true" });
        machine["annotations"] = annotations;
        self.put(
            Collection::Machines,
            json!({
                "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Machine", "metadata": machine,
                "spec": {
                    "version": version, "bootstrap": { "configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig"), "data": "x" },
                    "infrastructureRef": reference("infrastructure.cluster.vmware.com", "WCPMachine"),
                },
            }),
        );
        self.put(
            Collection::Configs,
            json!({
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfig", "metadata": metadata("config"),
                "spec": { "initConfiguration": { "nodeRegistration": { "kubeletExtraArgs": { "cloud-provider": "external" } } } },
                "status": { "ready": true },
            }),
        );
        self.put(
            Collection::Infrastructure,
            json!({
                "apiVersion": "infrastructure.cluster.vmware.com/v1alpha2", "kind": "WCPMachine", "metadata": metadata("vm"),
                "spec": { "className": "small", "providerID": format!("vsphere://{name}") },
            }),
        );
    }

    /// The machine runs, has joined and votes.
    fn comes_up(&mut self, name: &str) {
        let mut machine = self.get(Collection::Machines, name);
        machine["spec"]["providerID"] = json!(format!("vsphere://{name}"));
        machine["status"] = json!({ "nodeRef": { "name": name } });
        self.put(Collection::Machines, machine);
        self.put(
            Collection::Nodes,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "node-role.kubernetes.io/master": "" } },
                "spec": { "providerID": format!("vsphere://{name}") },
                "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
            }),
        );
        let conditions: Vec<Value> = ["PodScheduled", "Initialized", "Ready", "ContainersReady"]
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True" }))
            .collect();
        for component in ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
            self.put(
                Collection::Pods,
                json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("{component}-{name}"), "namespace": "kube-system" }, "status": { "conditions": conditions } }),
            );
        }
        let id = self.members.iter().map(|member| member.id).max().unwrap_or(0) + 1;
        self.members.push(Member { id, name: name.into(), learner: false, leader: false, healthy: true });
    }

    fn get(&self, collection: Collection, name: &str) -> Value {
        self.seen.get(collection, name).cloned().unwrap_or_else(|| panic!("no {name} in {collection:?}"))
    }

    fn has(&self, collection: Collection, name: &str) -> bool {
        self.seen.get(collection, name).is_some()
    }

    fn next(&self) -> Next {
        self.look(decide)
    }

    fn look<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        let members = Ok(self.members.clone());
        look(&View {
            order: &self.order,
            dialect: self.dialect,
            seen: &self.seen,
            away: None,
            etcd: Some(&members),
            drained: &self.drained,
            started: noon(),
            told: &self.told,
            now: self.now,
        })
    }

    /// Carries out what comes next, until there is nothing to do but to wait; tells what was done, and how it ended.
    fn goes(&mut self) -> (Vec<String>, String) {
        let mut done = Vec::new();
        for _ in 0..40 {
            match self.next() {
                Next::Act(deeds) => {
                    for deed in deeds {
                        done.push(self.carry_out(&deed));
                    }
                }
                Next::Wait { waits, .. } => {
                    let reason = waits[0].reason.to_string();
                    self.told = waits;
                    return (done, reason);
                }
                Next::Fail(failure) => {
                    assert!(!failure.remedy.is_empty(), "{failure}");
                    if let Some(note) = &failure.note {
                        done.push(self.carry_out(&Deed::Write(note.clone())));
                    }
                    return (done, format!("fails: {}", failure.reason));
                }
                Next::Done => return (done, "done".into()),
                Next::AskEtcd => return (done, "asks".into()),
            }
        }
        panic!("it does not come to an end: {done:#?}");
    }

    fn carry_out(&mut self, deed: &Deed) -> String {
        match deed {
            Deed::Drain { node, is_silent, .. } => {
                self.drained.insert(node.clone());
                format!("drain {node}{}", if *is_silent { ", which is silent" } else { "" })
            }
            Deed::MoveLeader { from, to, name } => {
                assert!(self.members.iter().any(|member| member.id == *from && member.leader));
                self.members.iter_mut().for_each(|member| member.leader = member.id == *to);
                format!("lead {name}")
            }
            Deed::RemoveMember { id, name } => {
                self.members.retain(|member| member.id != *id);
                format!("remove {name}")
            }
            Deed::Write(write) => self.write(write),
        }
    }

    fn write(&mut self, write: &Write) -> String {
        let collection = match write.object.kind.as_str() {
            "Secret" => Collection::Secrets,
            "Machine" => Collection::Machines,
            "KubeadmConfig" => Collection::Configs,
            "WCPMachine" => Collection::Infrastructure,
            "ConfigMap" => Collection::ConfigMaps,
            "Node" => Collection::Nodes,
            "Role" => Collection::Roles,
            "RoleBinding" => Collection::RoleBindings,
            "ClusterRole" => Collection::ClusterRoles,
            _ => Collection::ClusterRoleBindings,
        };
        let name = &write.object.name;
        match &write.act {
            Act::Create(object) => {
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(format!("{}-{name}", write.object.kind));
                self.put(collection, object);
                format!("make {} {name}", write.object.kind)
            }
            Act::Patch(patch) => {
                let mut object = self.get(collection, name);
                assert_eq!(
                    object["metadata"]["resourceVersion"], patch["metadata"]["resourceVersion"],
                    "an unguarded patch"
                );
                json_patch::merge(&mut object, patch);
                self.put(collection, object);
                format!("change {} {name}", write.object.kind)
            }
            Act::Delete { uid } => {
                let object = self.get(
                    collection,
                    &if collection == Collection::Infrastructure { format!("WCPMachine/{name}") } else { name.clone() },
                );
                assert_eq!(object["metadata"]["uid"], *uid);
                let mut gone = object;
                gone["metadata"]["resourceVersion"] = json!((self.revision + 1).to_string());
                self.seen.remove(collection, &gone);
                if collection == Collection::Machines {
                    self.seen.forget(Collection::Nodes, name);
                    self.seen.forget(Collection::Configs, name);
                    self.seen.forget(Collection::Infrastructure, &format!("WCPMachine/{name}"));
                }
                format!("delete {} {name}", write.object.kind)
            }
            other => panic!("{other:?}"),
        }
    }

    /// What of a list of deeds is about machines and etcd.
    fn machines(done: Vec<String>) -> Vec<String> {
        let is_one = |deed: &String| {
            ["drain", "lead", "remove", "make Machine", "delete"].iter().any(|word| deed.starts_with(word))
        };
        done.into_iter().filter(is_one).collect()
    }
}

#[test]
fn a_new_machine_is_a_copy_that_joins_under_a_name_of_its_own() {
    let mut scene = settled();
    scene.order.patches.infrastructure =
        Patches::parse("x", r#"[{"op":"replace","path":"/spec/className","value":"large"}]"#).unwrap();
    let (done, waits) = scene.goes();

    assert_eq!(waits, "MachineProvisioning");
    assert_eq!(done[done.len() - 3..], ["make WCPMachine a-7", "make KubeadmConfig a-7", "make Machine a-7"]);
    let machine = scene.get(Collection::Machines, "a-7");
    assert_eq!(machine["spec"]["version"], "1.16.7");
    assert_eq!(machine["spec"]["providerID"], Value::Null);
    assert_eq!(
        machine["spec"]["bootstrap"],
        json!({ "configRef": { "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfig", "name": "a-7" } })
    );
    let config = scene.get(Collection::Configs, "a-7");
    assert_eq!(
        config["spec"],
        json!({ "joinConfiguration": {
            "controlPlane": {}, "discovery": { "bootstrapToken": {} },
            "nodeRegistration": { "kubeletExtraArgs": { "cloud-provider": "external" } },
        }})
    );
    assert_eq!(scene.get(Collection::Infrastructure, "WCPMachine/a-7")["spec"], json!({ "className": "large" }));
}

/// As Cluster API has had them since 1.11.
#[test]
fn machines_of_v1beta2_refer_to_what_is_theirs_without_a_version() {
    let mut scene = settled();
    scene.dialect = Dialect::V1beta2;
    let mut old = scene.get(Collection::Machines, "a");
    old["spec"]["bootstrap"] = json!({
        "configRef": { "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "a" }, "dataSecretName": "a",
    });
    old["spec"]["infrastructureRef"] =
        json!({ "apiGroup": "infrastructure.cluster.vmware.com", "kind": "WCPMachine", "name": "a" });
    scene.put(Collection::Machines, old);

    let (done, waits) = scene.goes();

    assert_eq!((Scene::machines(done), waits.as_str()), (vec!["make Machine a-7".to_owned()], "MachineProvisioning"));
    let new = scene.get(Collection::Machines, "a-7");
    assert_eq!(new["spec"]["version"], "v1.16.7");
    assert_eq!(
        new["spec"]["bootstrap"],
        json!({ "configRef": { "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "a-7" } })
    );
    assert_eq!(
        new["spec"]["infrastructureRef"],
        json!({ "apiGroup": "infrastructure.cluster.vmware.com", "kind": "WCPMachine", "name": "a-7" })
    );
    let joining = &scene.get(Collection::Configs, "a-7")["spec"]["joinConfiguration"];
    assert_eq!((joining["controlPlane"].clone(), joining.get("discovery")), (json!({}), None));
}

#[test]
fn the_guest_is_told_of_the_version_and_what_is_not_known_here_stays() {
    let mut scene = settled();
    scene.order.patches.kubeadm =
        Patches::parse("x", r#"[{"op":"replace","path":"/dns/imageTag","value":"v1"}]"#).unwrap();
    scene.goes();
    let map = scene.get(Collection::ConfigMaps, "kubeadm-config");
    let configuration: Value = serde_saphyr::from_str(map["data"]["ClusterConfiguration"].as_str().unwrap()).unwrap();
    assert_eq!(
        configuration,
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta2", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.16.7", "unknown": "kept",
            "dns": { "imageTag": "v1" },
        })
    );
    assert!(
        scene.has(Collection::ConfigMaps, "kubelet-config-1.16")
            && scene.has(Collection::Roles, "kubeadm:kubelet-config-1.16")
    );
    assert!(scene.has(Collection::ClusterRoleBindings, "kubeadm:get-nodes"));
}

/// kubeadm of 1.27 reads no `v1beta2`, in which clusters from 1.15 to 1.21 were begun.
#[test]
fn the_configuration_is_raised_to_what_kubeadm_of_the_version_reads() {
    let mut scene = settled();
    let raise = |scene: &mut Scene, kind: Collection, name: &str, path: &str, value: Value| {
        let mut object = scene.get(kind, name);
        *object.pointer_mut(path).unwrap() = value;
        scene.put(kind, object);
    };
    for name in ["a", "b", "c"] {
        raise(&mut scene, Collection::Machines, name, "/spec/version", json!("1.26.15"));
    }
    let text = "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\nkubernetesVersion: v1.26.15\ndns: { type: CoreDNS, imageTag: a }\n";
    raise(&mut scene, Collection::ConfigMaps, "kubeadm-config", "/data/ClusterConfiguration", json!(text));
    let map = json!({ "metadata": { "name": "kubelet-config", "resourceVersion": "1" }, "data": { "kubelet": "" } });
    scene.put(Collection::ConfigMaps, map);
    scene.order.version = Version::parse("v1.27.16").unwrap();
    scene.goes();

    let map = scene.get(Collection::ConfigMaps, "kubeadm-config");
    let written: Value = serde_saphyr::from_str(map["data"]["ClusterConfiguration"].as_str().unwrap()).unwrap();
    let expected = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta3", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.27.16", "dns": { "imageTag": "a" },
    });
    assert_eq!(written, expected);
}

#[test]
fn an_old_machine_goes_leader_first_then_pods_then_member_then_machine() {
    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    let (done, waits) = scene.goes();

    assert_eq!(Scene::machines(done), ["lead a-7", "drain a", "remove a", "delete Machine a", "make Machine b-7"]);
    assert_eq!(waits, "MachineProvisioning");
    let owners = scene.get(Collection::Secrets, "my-tkc-ca")["metadata"]["ownerReferences"].clone();
    assert_eq!((&owners[0]["uid"], &owners[1]["uid"]), (&json!("cluster"), &json!("KubeadmConfig-a-7")));
}

/// Nobody ends a pod on a Node whose kubelet is dead: a drain that waited for it would hold up the update for ever.
#[test]
fn a_node_that_is_silent_is_drained_as_far_as_that_goes_and_one_that_is_not_to_be_drained_is_not() {
    let ended = |happens: fn(&mut Scene)| {
        let mut scene = settled();
        scene.goes();
        scene.comes_up("a-7");
        happens(&mut scene);
        Scene::machines(scene.goes().0)
    };
    let silent = ended(|scene| {
        let mut node = scene.get(Collection::Nodes, "a");
        node["status"]["conditions"][0]["status"] = json!("Unknown");
        scene.put(Collection::Nodes, node);
    });
    assert_eq!(silent[..3], ["lead a-7", "drain a, which is silent", "remove a"]);
    let spared = ended(|scene| {
        let mut machine = scene.get(Collection::Machines, "a");
        machine["metadata"]["annotations"] = json!({ "machine.cluster.x-k8s.io.io/exclude-node-draining": "true" });
        scene.put(Collection::Machines, machine);
    });
    assert_eq!(spared[..3], ["lead a-7", "remove a", "delete Machine a"]);
}

#[test]
fn it_ends_when_no_machine_differs_and_a_second_time_there_is_nothing_to_do() {
    let mut scene = settled();
    for name in ["a-7", "b-7", "c-7"] {
        assert_eq!(scene.goes().1, "MachineProvisioning");
        scene.comes_up(name);
    }
    assert_eq!(scene.goes().1, "done");
    assert_eq!(scene.seen.all(Collection::Machines).count(), 3);
    for machine in scene.seen.all(Collection::Machines) {
        let annotations = &machine["metadata"]["annotations"];
        assert_eq!(annotations["upgrade.cluster-api.vmware.com/id"], Value::Null);
        assert!(annotations["upgrade.cluster-api.vmware.com/machine-name-base"].is_string());
    }
    let map = scene.get(Collection::ConfigMaps, "kubeadm-config");
    let status: Value = serde_saphyr::from_str(map["data"]["ClusterStatus"].as_str().unwrap()).unwrap();
    assert_eq!(status["apiEndpoints"], json!({}), "the new ones are noted by kubeadm, which is not there");

    assert_eq!(scene.goes(), (Vec::new(), "done".into()));
    scene.order.id = "8".into();
    assert_eq!(scene.goes(), (Vec::new(), "done".into()));
}

#[test]
fn an_api_server_without_a_machine_is_forgotten_even_while_its_node_is_still_seen() {
    let mut scene = settled();
    for name in ["a-7", "b-7", "c-7"] {
        let before = scene.get(Collection::Nodes, name.trim_end_matches("-7"));
        scene.goes();
        scene.comes_up(name);
        // The watch of Nodes lags behind.
        scene.put(Collection::Nodes, before);
    }
    assert_eq!(scene.goes().1, "done");
    let map = scene.get(Collection::ConfigMaps, "kubeadm-config");
    let status: Value = serde_saphyr::from_str(map["data"]["ClusterStatus"].as_str().unwrap()).unwrap();
    assert_eq!(status["apiEndpoints"], json!({}));
}

#[test]
fn what_another_update_has_begun_is_taken_over() {
    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    // It died here; the next one has another id.
    scene.order.id = "8".into();
    let (done, _) = scene.goes();

    assert_eq!(Scene::machines(done), ["lead a-7", "drain a", "remove a", "delete Machine a", "make Machine b-8"]);
    assert_eq!(
        scene.get(Collection::Machines, "c")["metadata"]["annotations"]["upgrade.cluster-api.vmware.com/id"],
        "8"
    );
}

#[test]
fn a_machine_that_takes_too_long_is_given_up_and_the_next_try_makes_another() {
    let mut scene = settled();
    assert_eq!(scene.goes().1, "MachineProvisioning");
    scene.now = noon() + SignedDuration::from_mins(16);
    assert_eq!(scene.goes(), (vec!["change Machine a-7".into()], "fails: MachineProvisioning".into()));

    scene.now = noon();
    let (done, waits) = scene.goes();
    assert_eq!(Scene::machines(done), ["delete Machine a-7", "make Machine a-7"]);
    assert_eq!(waits, "MachineProvisioning");
}

#[test]
fn a_machine_that_was_given_up_and_came_after_all_is_used() {
    let mut scene = settled();
    scene.goes();
    scene.now = noon() + SignedDuration::from_mins(16);
    scene.goes();
    scene.now = noon();
    scene.comes_up("a-7");
    let (done, _) = scene.goes();
    assert_eq!(Scene::machines(done)[..2], ["lead a-7", "drain a"]);
    assert_eq!(scene.get(Collection::Machines, "a-7")["metadata"]["annotations"]["drover.dev/failed"], Value::Null);
}

/// What keeps a new machine from being used, once its pods have these conditions.
fn waits_with(conditions: &[(&str, &str)]) -> String {
    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    let conditions: Vec<Value> =
        conditions.iter().map(|(kind, status)| json!({ "type": kind, "status": status })).collect();
    let mut pod = scene.get(Collection::Pods, "kube-scheduler-a-7");
    pod["status"]["conditions"] = json!(conditions);
    scene.put(Collection::Pods, pod);
    scene.goes().1
}

#[test]
fn a_pod_that_is_ready_is_well_if_nothing_else_that_it_says_speaks_against_it() {
    assert_ne!(waits_with(&[("Ready", "True")]), "ComponentsNotReady");
    assert_eq!(waits_with(&[("Ready", "False"), ("PodScheduled", "True")]), "ComponentsNotReady");
    assert_eq!(waits_with(&[("Ready", "True"), ("ContainersReady", "False")]), "ComponentsNotReady");
    assert_eq!(waits_with(&[("PodScheduled", "True"), ("Initialized", "True")]), "ComponentsNotReady");
}

#[test]
fn a_machine_that_does_not_run_is_told_of_in_the_words_of_what_holds_it_up() {
    let mut scene = settled();
    scene.goes();
    let sentence = |scene: &Scene| match scene.next() {
        Next::Wait { waits, .. } => waits[0].sentence.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(sentence(&scene), "machine a-7 does not run yet: its bootstrap data is not made yet");
    let mut machine = scene.get(Collection::Infrastructure, "WCPMachine/a-7");
    machine["status"] = json!({ "conditions": [
        { "type": "Ready", "status": "False", "reason": "QuotaExceeded", "message": "no more than ten machines" },
    ]});
    scene.put(Collection::Infrastructure, machine);
    assert_eq!(sentence(&scene), "machine a-7 does not run yet: no more than ten machines");
    let mut machine = scene.get(Collection::Infrastructure, "WCPMachine/a-7");
    machine["status"]["conditions"][0]["message"] = json!("* VMProvisioned: no room\n* NodeProvisioned: Waiting\n");
    scene.put(Collection::Infrastructure, machine);
    assert_eq!(
        sentence(&scene),
        "machine a-7 does not run yet: VMProvisioned: no room; NodeProvisioned: Waiting",
        "one line, as v1beta2 has its summaries on many"
    );
}

#[test]
fn a_machine_that_says_that_it_has_failed_is_not_waited_for() {
    let mut scene = settled();
    scene.goes();
    let mut machine = scene.get(Collection::Machines, "a-7");
    machine["status"] = json!({ "errorReason": "CreateError", "errorMessage": "no room" });
    scene.put(Collection::Machines, machine);
    assert_eq!(scene.goes().1, "fails: MachineFailed");
}

#[test]
fn nothing_else_happens_while_a_machine_is_on_its_way_out() {
    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    let mut old = scene.get(Collection::Machines, "b");
    old["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    scene.put(Collection::Machines, old);
    assert_eq!(scene.goes(), (Vec::new(), "MachineDeleting".into()));
    scene.now = noon() + SignedDuration::from_mins(15);
    assert_eq!(scene.goes().1, "fails: MachineDeleting");
}

#[test]
fn a_member_that_is_not_well_holds_up_what_would_cost_the_quorum() {
    let mut scene = settled();
    scene.members[2].healthy = false;
    assert_eq!(scene.goes().1, "EtcdUnhealthy");

    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    scene.members[1].healthy = false;
    scene.members[2].healthy = false;
    assert_eq!(Scene::machines(scene.goes().0), Vec::<String>::new());
    assert_eq!(scene.goes().1, "QuorumAtRisk");
}

#[test]
fn a_learner_is_waited_for_before_anybody_goes() {
    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    scene.members[3].learner = true;
    assert_eq!(scene.goes().1, "EtcdLearner");
    scene.members[3].learner = false;
    assert_eq!(Scene::machines(scene.goes().0)[0], "lead a-7");
}

#[test]
fn a_member_whose_machine_is_gone_is_removed() {
    let mut scene = settled();
    scene.members.push(Member { id: 9, name: "gone".into(), learner: false, leader: false, healthy: false });
    assert_eq!(Scene::machines(scene.goes().0), ["remove gone", "make Machine a-7"]);
}

#[test]
fn versions_that_are_lower_or_two_further_are_refused() {
    for version in ["v1.15.4", "v1.17.0", "v2.0.0"] {
        let mut scene = settled();
        scene.order = order(version);
        assert_eq!(scene.goes(), (Vec::new(), "fails: VersionRefused".into()), "{version}");
    }
}

#[test]
fn machines_that_another_controller_replaces_are_left_to_it() {
    let mut scene = settled();
    let mut machine = scene.get(Collection::Machines, "a");
    machine["metadata"]["ownerReferences"] =
        json!([{ "kind": "KubeadmControlPlane", "name": "cp", "controller": true }]);
    scene.put(Collection::Machines, machine);
    assert_eq!(scene.goes(), (Vec::new(), "fails: AnotherControllerActs".into()));

    let owned = |kind: &str, controls: bool| {
        let mut scene = settled();
        let mut machine = scene.get(Collection::Machines, "a");
        machine["metadata"]["ownerReferences"] = json!([{ "kind": kind, "name": "cp", "controller": controls }]);
        scene.put(Collection::Machines, machine);
        scene.goes().1
    };
    let refused = "fails: AnotherControllerActs";
    assert_eq!(owned("RKE2ControlPlane", true), refused, "whoever it is");
    assert_ne!(owned("TanzuKubernetesCluster", true), refused);
    assert_ne!(owned("Cluster", false), refused, "whoever only goes first");
}

#[test]
fn patches_that_do_not_apply_stop_it_before_anything_is_made_and_are_named_with_the_object_and_the_field() {
    type Choose = fn(&mut Patches) -> &mut Vec<Value>;
    let lists: [(Choose, &str, &str); 3] = [
        (|patches| &mut patches.infrastructure, "--infrastructure-patches", "WCPMachine/default/a"),
        (|patches| &mut patches.bootstrap, "--bootstrap-patches", "KubeadmConfig/default/a"),
        (|patches| &mut patches.kubeadm, "--kubeadm-configmap-patches", "ConfigMap kube-system/kubeadm-config"),
    ];
    for (list, flag, object) in lists {
        let mut scene = settled();
        *list(&mut scene.order.patches) =
            Patches::parse("x", r#"[{"op":"add","path":"/spec/a/b","value":"c"}]"#).unwrap();
        let (done, waits) = scene.goes();
        assert_eq!((Scene::machines(done), waits), (Vec::new(), "fails: PatchRefused".into()), "{flag}");
        let Next::Fail(failure) = scene.next() else { panic!("{flag}") };
        for part in [flag, object, "/spec/a/b"] {
            assert!(failure.sentence.contains(part), "{}", failure.sentence);
        }
        assert!(failure.remedy.contains(flag), "{}", failure.remedy);
    }
}

#[test]
fn a_guest_that_does_not_answer_is_waited_for_and_nothing_is_done_to_its_machines() {
    let mut scene = settled();
    scene.order = order("v1.16.7");
    let decided = |scene: &Scene, told: &[Wait]| {
        scene.look(|view| decide(&View { away: Some("connection refused"), etcd: None, told, ..*view }))
    };
    while let Next::Act(deeds) = decided(&scene, &[]) {
        let done: Vec<String> = deeds.iter().map(|deed| scene.carry_out(deed)).collect();
        assert!(done.iter().all(|deed| deed.contains(" Secret ")), "only certificates are secured: {done:?}");
    }

    let Next::Wait { waits, .. } = decided(&scene, &[]) else { panic!("it is not waited for") };
    assert_eq!(waits[0].reason, Reason::GuestUnreachable);
    assert!(waits[0].sentence.contains("connection refused") && !waits[0].remedy.is_empty(), "{:?}", waits[0]);
    scene.now = noon() + SignedDuration::from_mins(15);
    let Next::Fail(failure) = decided(&scene, &waits) else { panic!("it is waited for without end") };
    assert_eq!(failure.reason, Reason::GuestUnreachable);
}

#[test]
fn versions_count_with_their_build() {
    let version = |text: &str| Version::parse(text).unwrap();
    assert!(version("v1.16.7+vmware.1") < version("1.16.7+vmware.2"));
    assert_eq!(version("v1.16"), version("1.16.0"));
    assert_eq!(version("v1.16.7+vmware.1").to_string(), "1.16.7+vmware.1");
    assert_eq!((Version::parse("new"), Version::parse("1.2.3.4")), (None, None));
}

#[test]
fn names_do_not_grow_from_update_to_update_and_fit_a_node() {
    let order = order("v1.16.7");
    assert_eq!(order.name_after("cp-0"), "cp-0-7");
    assert_eq!(order.name_after(&"n".repeat(80)).len(), 63);
}

#[test]
fn a_long_id_ends_names_by_its_beginning_and_a_digest_and_machines_are_known_by_it() {
    let called = |end: &str| {
        let mut order = order("v1.16.7");
        order.id = format!("{}{end}", "2020-04-28.".repeat(20));
        order.check().unwrap().name_after("cp-0")
    };
    assert_ne!(called("a"), called("b"));
    assert!(called("a").starts_with("cp-0-2020-04-28.2020-04-28.") && called("a").len() <= 63, "{}", called("a"));

    let mut scene = settled();
    scene.order.id = "release-of-the-".to_owned() + &"x".repeat(60);
    let name = scene.order.name_after("a");
    assert_eq!(scene.goes().1, "MachineProvisioning");
    let made = scene.get(Collection::Machines, &name);
    assert_eq!(made["metadata"]["annotations"]["upgrade.cluster-api.vmware.com/id"], scene.order.id.as_str());
    assert_eq!(scene.goes(), (Vec::new(), "MachineProvisioning".to_owned()), "it is not made again");
}

/// As Cluster API's own tests have it: members, others that are out, and whether one may come and one may go.
#[test]
fn quorum_follows_the_formula() {
    let table = [
        (1, 0, true, false),
        (2, 0, true, true),
        (2, 1, false, false),
        (3, 0, true, true),
        (3, 1, false, false),
        (4, 1, true, true),
        (4, 2, false, false),
        (5, 1, true, true),
        (5, 2, false, false),
        (7, 2, true, true),
        (7, 3, false, false),
    ];
    let scene = settled();
    let view = View {
        order: &scene.order,
        dialect: Dialect::V1alpha2,
        seen: &scene.seen,
        away: None,
        etcd: None,
        drained: &scene.drained,
        started: noon(),
        told: &[],
        now: noon(),
    };
    for (count, out, may_add, may_remove) in table {
        let member = |id: u64| Member {
            id,
            name: format!("m{id}"),
            learner: false,
            leader: id == 1,
            healthy: id as usize <= count - out,
        };
        let members: Vec<Member> = (1..=count as u64).map(member).collect();
        assert_eq!(view.may_add_member(&members).is_ok(), may_add, "add to {count} with {out} out");
        assert_eq!(
            view.may_remove_member(&members, 1).is_ok(),
            may_remove,
            "remove from {count} with {out} others out"
        );
    }
}

#[test]
fn a_machine_that_names_no_node_is_known_by_its_id_at_the_provider() {
    let mut scene = settled();
    let node_of = |scene: &Scene, name: &str| {
        scene.look(|view| {
            let machine = view.machines().into_iter().find(|machine| machine.name() == name).unwrap();
            let node = view.node_of(&machine).map(|node| node["metadata"]["name"].as_str().unwrap().to_owned());
            (node, view.member_name(&machine))
        })
    };
    let mut machine = scene.get(Collection::Machines, "b");
    (machine["status"], machine["spec"]["providerID"]) = (json!({}), json!("vsphere:///datacenter/b"));
    scene.put(Collection::Machines, machine.clone());
    let mut node = scene.get(Collection::Nodes, "b");
    node["metadata"]["name"] = json!("b-in-the-guest");
    scene.seen.forget(Collection::Nodes, "b");
    scene.put(Collection::Nodes, node);
    assert_eq!(node_of(&scene, "b"), (Some("b-in-the-guest".into()), "b-in-the-guest".into()));

    machine["spec"]["providerID"] = json!("vsphere:///datacenter/lost");
    scene.put(Collection::Machines, machine.clone());
    assert_eq!(node_of(&scene, "b"), (None, "b".into()));
    machine["status"] = json!({ "nodeRef": { "name": "gone" } });
    scene.put(Collection::Machines, machine);
    assert_eq!(node_of(&scene, "b"), (None, "gone".into()), "its member keeps the name of a Node that is gone");
}
