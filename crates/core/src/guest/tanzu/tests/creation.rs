//! The creation of a cluster that was never there.

use super::super::addons::{State, unreachable};
use super::paper::{PREFIX, Paper, inline};
use super::*;

/// The TanzuKubernetesCluster alone: a control plane of three machines, two workers.
fn new() -> Scene {
    let mut scene = settled();
    scene.own = Seen::default();
    scene.tkc["metadata"]["finalizers"] = Value::Null;
    scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(3);
    scene.tkc["status"] = Value::Null;
    for (distribution, addon) in
        [(OLD, "pvcsi"), (OLD, "vmware-guest-cluster"), (NEW, "pvcsi"), (NEW, "vmware-guest-cluster")]
    {
        scene.brings(distribution, addon, &inline(&CALICO.replace("calico", addon)));
    }
    scene
}

/// Without network, storage or cloud provider no machine would ever be a Node that is ready.
#[test]
fn an_image_that_lacks_what_every_machine_needs_is_refused_before_anything_is_made() {
    for (lacks, place) in [("calico", "cni"), ("pvcsi", "csi"), ("vmware-guest-cluster", "cloudprovider")] {
        let mut scene = new();
        let mut image = scene.global.get(Collection::Images, &image_name(OLD)).unwrap().clone();
        image["metadata"]["annotations"].as_object_mut().unwrap().remove(&format!("{PREFIX}{lacks}"));
        scene.put(Collection::Images, image);

        let decision = scene.decide();

        assert!(decision.writes.iter().all(|write| write.object == scene.view(None).object()), "{lacks}");
        let wait = &decision.waits[0];
        assert_eq!((wait.reason, wait.subject.kind.as_str()), (Reason::ImageInvalid, "VirtualMachineImage"));
        assert!(wait.sentence.contains(&format!("without {place} no machine becomes a Node")), "{}", wait.sentence);
        assert!(wait.remedy.as_ref().unwrap().contains("ask for another version"));
        scene.goes_on();
        assert_eq!(scene.phase(), "failed");
    }
    let mut scene = new();
    scene.tkc["spec"]["settings"]["network"]["cni"]["name"] = json!("antrea");
    let said = scene.decide().waits.remove(0).sentence;
    assert!(said.ends_with("spec.settings.network.cni.name may be calico"), "{said}");
}

/// kubeadm makes them a moment after its API server answers.
#[test]
fn what_kubeadm_has_not_made_yet_is_waited_for() {
    let mut scene = new();
    scene.settles();
    scene.masters_join(true);

    let (_, told) = Paper::of(OLD).follows(&scene.order());

    assert_eq!((&told.standing["dns"].state, &told.standing["proxy"].state), (&State::Pending, &State::Pending));
    assert!(told.again);
    assert_eq!(told.standing["csi"].state, State::Applied);
}

/// Cluster API knows a Node by its `providerID`, which the cloud provider writes, and only then says that a control plane has begun.
#[test]
fn add_ons_are_applied_as_soon_as_the_first_machine_runs_since_without_them_it_never_becomes_a_node() {
    let mut scene = new();
    scene.settles();
    assert!(order_of_addons(&scene.view(None)).is_none(), "nothing is there that could answer");
    let name = scene.masters().remove(0);
    scene.change(Collection::Machines, &name, |machine| machine["spec"]["providerID"] = json!("vsphere://first"));
    scene.is_unasked = true;
    assert!(scene.decide().asks_guest);

    let silent = unreachable(&scene.order(), "connection refused");

    assert!(silent.again);
    (scene.is_unasked, scene.told) = (false, Some(silent));
    scene.settles();
    assert_eq!(scene.tkc["status"]["addons"]["csi"], json!({ "name": "pvcsi", "status": "pending", "version": OLD }));
    assert_eq!(scene.phase(), "creating");
    let said = scene.decide().waits.into_iter().find(|wait| wait.reason == Reason::AddonsNotApplied).unwrap().sentence;
    assert!(
        said.contains("add-on vmware-guest-cluster is not applied yet: the API of the guest cluster does not"),
        "{said}"
    );

    let (done, told) = Paper::of(OLD).follows(&scene.order());

    assert!(done.contains(&"apply ConfigMap/kube-system/vmware-guest-cluster".to_owned()), "{done:?}");
    assert_eq!(told.standing["cloudprovider"].state, State::Applied);
}

impl Scene {
    /// Decides and acts until there is nothing left to write.
    fn settles(&mut self) -> Vec<&'static str> {
        let mut all = Vec::new();
        for _ in 0..30 {
            let some = self.goes_on();
            if some.is_empty() {
                return all;
            }
            all.extend(some.into_iter().filter(|purpose| *purpose != "publish how far a cluster is"));
        }
        panic!("it never settles: {all:?}");
    }

    fn names(&self, collection: Collection) -> Vec<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        self.own.all(collection).map(name).collect()
    }

    pub fn masters(&self) -> Vec<String> {
        let view = self.view(None);
        view.machines(true).map(|machine| machine["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// All machines of the control plane become Nodes; `ready` is what the guest says of them.
    pub fn masters_join(&mut self, ready: bool) {
        for name in self.masters() {
            self.change(Collection::Machines, &name, |machine| {
                machine["status"] = json!({ "phase": "running", "nodeRef": { "name": name } });
            });
            self.nodes.get_or_insert_default().insert(name, ready);
        }
        self.change(Collection::Clusters, "my-tkc", |cluster| {
            cluster["status"] =
                json!({ "phase": "provisioned", "infrastructureReady": true, "controlPlaneInitialized": true });
        });
    }

    /// Cluster API makes what the MachineDeployment asks for.
    pub fn workers_join(&mut self) {
        let name = self.names(Collection::Deployments).remove(0);
        let template = self.own.get(Collection::Deployments, &name).unwrap()["spec"]["template"]["spec"].clone();
        self.set("first", &template, 2);
        self.change(Collection::Deployments, &name, |one| {
            one["metadata"]["uid"] = json!("uid-workers");
            one["status"] = json!({ "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 });
        });
    }
}

fn made() -> Scene {
    let mut scene = new();
    for _ in 0..3 {
        scene.settles();
        scene.masters_join(true);
    }
    scene.workers_join();
    scene.settles();
    scene
}

#[test]
fn a_mark_comes_before_anything_is_made() {
    let mut scene = new();

    let decision = scene.decide();

    assert_eq!(decision.writes.iter().map(|write| write.purpose).collect::<Vec<_>>(), ["begin to make a cluster"]);
    scene.goes_on();
    assert_eq!(scene.tkc["metadata"]["annotations"]["drover.dev/creation"], OLD);
}

#[test]
fn the_first_machine_begins_the_control_plane_alone() {
    let mut scene = new();

    let done = scene.settles();

    let expected = [
        "begin to make a cluster",
        "hold a cluster until all of it has gone",
        "make the infrastructure of a cluster",
        "make a cluster",
        "make the infrastructure of a machine",
        "make the bootstrap config of a machine",
        "make a machine",
    ];
    assert_eq!(done, expected);
    assert_eq!(scene.masters().len(), 1);
    assert_eq!(scene.phase(), "creating");
    assert_eq!(scene.reasons(), [Reason::ControlPlaneComing, Reason::ControlPlaneFirst, Reason::AddonsNotApplied]);
    let config = scene.own.all(Collection::Configs).next().unwrap();
    assert_eq!(config["spec"]["clusterConfiguration"]["kubernetesVersion"], "v1.15.5+vmware.1");
    assert_eq!(config["spec"]["initConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]["node-labels"], label(OLD));
    assert!(config["spec"]["joinConfiguration"].is_null());
}

#[test]
fn whatever_is_made_belongs_to_the_tanzu_kubernetes_cluster() {
    let scene = made();

    let collections = [
        Collection::Clusters,
        Collection::Machines,
        Collection::Configs,
        Collection::Infrastructure,
        Collection::Deployments,
        Collection::MachineTemplates,
        Collection::ConfigTemplates,
    ];
    for object in collections.into_iter().flat_map(|collection| scene.own.all(collection)) {
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "tkc", "{object}");
        assert_eq!(object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "my-tkc");
    }
}

#[test]
fn the_second_machine_joins_when_the_first_is_a_node_that_is_ready() {
    let mut scene = new();
    scene.settles();
    scene.masters_join(false);

    scene.settles();
    assert_eq!(scene.masters().len(), 1);
    assert!(scene.decide().asks_again, "nothing but the guest tells when its Node is ready");

    scene.masters_join(true);
    scene.settles();
    assert_eq!(scene.masters().len(), 2);
    let joins = scene.own.all(Collection::Configs).filter(|config| !config["spec"]["joinConfiguration"].is_null());
    let joins: Vec<&Value> = joins.collect();
    assert_eq!(joins.len(), 1);
    assert_eq!(joins[0]["spec"]["joinConfiguration"]["controlPlane"], json!({}));
    assert!(joins[0]["spec"]["clusterConfiguration"].is_null());
}

#[test]
fn workers_are_made_as_soon_as_the_control_plane_has_begun() {
    let mut scene = new();
    scene.settles();
    scene.masters_join(true);

    let done = scene.settles();

    let made = done.iter().filter(|purpose| purpose.contains("worker")).collect::<Vec<_>>();
    assert_eq!(made, [&"make a template of workers", &"make a template of workers", &"make the workers of a cluster"]);
}

#[test]
fn a_cluster_that_is_made_is_as_it_is_asked_for() {
    let mut scene = made();

    assert_eq!(scene.tkc["metadata"]["annotations"]["drover.dev/creation"], "done");
    assert_eq!(scene.phase(), "running");
    assert_eq!(scene.tkc["status"]["version"], OLD);
    assert_eq!(scene.reasons(), []);
    assert_eq!(scene.settles(), [] as [&str; 0]);
    assert_eq!(scene.masters().len(), 3);
}

#[test]
fn what_is_made_after_a_crash_is_what_was_missing() {
    let mut whole = new();
    whole.settles();
    let names = (whole.masters(), whole.names(Collection::Configs), whole.names(Collection::Infrastructure));
    for crash_after in 0..6 {
        let mut scene = new();
        let mut left = crash_after;
        while left > 0 {
            let decision = scene.decide();
            for write in decision.writes.iter().take(left) {
                scene.perform(write);
            }
            left -= decision.writes.len().min(left);
        }

        scene.settles();

        let after = (scene.masters(), scene.names(Collection::Configs), scene.names(Collection::Infrastructure));
        assert_eq!(after, names, "after {crash_after} writes");
    }
}

#[test]
fn a_cluster_that_was_there_once_is_never_made_anew() {
    let lost = |change: fn(&mut Scene)| {
        let mut scene = made();
        scene.own = Seen::default();
        change(&mut scene);
        assert_eq!(scene.reasons(), [Reason::ClusterMissing]);
        let noted = scene.settles();
        assert!(noted.iter().all(|purpose| *purpose == "note that a cluster was there once"), "{noted:?}");
        assert_eq!(scene.reasons(), [Reason::ClusterMissing]);
        assert_eq!(scene.phase(), "failed", "nothing of it runs any more");
        // Nor when what has told of it is gone as well.
        (scene.own, scene.tkc["status"]) = (Seen::default(), json!({ "phase": "failed" }));
        assert_eq!(scene.settles(), [] as [&str; 0]);
        assert_eq!(scene.reasons(), [Reason::ClusterMissing]);
    };
    lost(|_| {});
    // Whoever restores a backup restores no status; whoever made the cluster otherwise left no mark.
    lost(|scene| scene.tkc["status"] = Value::Null);
    lost(|scene| scene.tkc["metadata"]["annotations"] = Value::Null);
    lost(|scene| {
        (scene.tkc["status"], scene.tkc["metadata"]["annotations"]) = (Value::Null, Value::Null);
        scene.control_plane_machine("cp-1", OLD);
    });
}

#[test]
fn a_cluster_that_is_lost_while_it_is_made_is_not_made_anew() {
    let mut scene = new();
    scene.settles();
    scene.own.forget(Collection::Clusters, "my-tkc");

    scene.settles();

    assert_eq!(scene.reasons(), [Reason::ClusterMissing]);
    assert_eq!(scene.phase(), "failed");
}

#[test]
fn what_is_refused_is_refused_before_anything_is_made() {
    let refused = |change: fn(&mut Scene), reason: Reason| {
        let mut scene = new();
        change(&mut scene);
        assert_eq!(scene.settles(), [] as [&str; 0]);
        assert_eq!(scene.reasons(), [reason]);
        assert_eq!(scene.phase(), "failed");
        assert!(scene.tkc["metadata"]["annotations"].is_null());
    };
    refused(|scene| scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(2), Reason::CountRefused);
    refused(|scene| scene.tkc["spec"]["distribution"]["fullVersion"] = json!("v1.99.0"), Reason::VersionUnknown);
    let broken = |scene: &mut Scene| {
        let mut image = scene.global.get(Collection::Images, &image_name(OLD)).unwrap().clone();
        image["metadata"]["annotations"]["vmware-system.guest.kubernetes.distribution.image.version"] = json!("{");
        scene.put(Collection::Images, image);
    };
    refused(broken, Reason::ImageInvalid);
    let defaults = |data: Value| json!({ "metadata": { "name": "drover-guest-defaults" }, "data": data });
    let unreadable = defaults(json!({ "clusterConfiguration": "- a" }));
    let misfit = defaults(json!({ "clusterConfiguration": "{ dns: { imageTag: { deeper: x } } }" }));
    for map in [unreadable, misfit] {
        let mut scene = new();
        scene.put(Collection::Defaults, map);
        assert_eq!(scene.settles(), [] as [&str; 0]);
        assert_eq!(scene.reasons(), [Reason::DefaultsInvalid]);
    }
}

#[test]
fn a_machine_that_has_failed_is_said_and_nothing_is_deleted() {
    let mut scene = new();
    scene.settles();
    let name = scene.masters().remove(0);
    scene.change(Collection::Machines, &name, |machine| {
        machine["status"] = json!({ "errorReason": "CreateError", "errorMessage": "exceeded quota: vms" });
    });

    assert_eq!(scene.settles(), [] as [&str; 0]);

    let wait = scene.decide().waits.remove(0);
    assert_eq!(wait.reason, Reason::CreationFailed);
    assert!(wait.sentence.ends_with("has failed: CreateError: exceeded quota: vms"), "{}", wait.sentence);
    assert!(wait.remedy.is_some_and(|remedy| remedy.contains("delete machine")));
    assert_eq!(scene.phase(), "failed");
}

#[test]
fn a_machine_that_somebody_has_deleted_is_made_again_and_one_that_still_goes_is_waited_for() {
    let mut scene = new();
    scene.settles();
    let name = scene.masters().remove(0);
    scene.own.forget(Collection::Machines, &name);
    scene.change(Collection::Configs, &name, |config| {
        config["metadata"]["deletionTimestamp"] = json!(noon().to_string());
    });

    assert_eq!(scene.settles(), [] as [&str; 0]);
    assert!(scene.reasons().contains(&Reason::ControlPlaneComing));

    scene.own.forget(Collection::Configs, &name);
    scene.settles();
    assert_eq!(scene.masters(), std::slice::from_ref(&name));
    assert_eq!(scene.names(Collection::Configs), [name]);
}

#[test]
fn a_machine_that_takes_too_long_fails_the_creation_until_it_comes() {
    let mut scene = new();
    scene.settles();
    scene.passes(16);

    scene.settles();
    assert_eq!(scene.phase(), "failed");
    assert!(scene.reasons().contains(&Reason::CreationFailed));
    scene.passes(16);
    scene.settles();
    assert_eq!(scene.phase(), "failed");

    scene.masters_join(true);
    scene.settles();
    assert_eq!(scene.phase(), "creating");
    assert_eq!(scene.masters().len(), 2);
}

#[test]
fn another_version_that_is_asked_for_meanwhile_follows_as_an_update() {
    let mut scene = new();
    scene.settles();
    scene.tkc["spec"]["distribution"]["fullVersion"] = json!(NEW);
    for _ in 0..3 {
        scene.settles();
        scene.masters_join(true);
    }

    let versions: Vec<&Value> = scene.own.all(Collection::Machines).map(|one| &one["spec"]["version"]).collect();
    assert_eq!(versions, ["1.15.5+vmware.1"; 3]);
    scene.workers_join();
    scene.settles();
    assert_eq!(scene.tkc["metadata"]["annotations"]["drover.dev/creation"], "done");
    assert_eq!(scene.phase(), "updating");
    assert!(scene.names(Collection::Machines).len() == 3);
}

#[test]
fn another_version_that_is_asked_for_before_a_machine_is_made_is_taken() {
    let mut scene = new();
    scene.goes_on();
    scene.tkc["spec"]["distribution"]["fullVersion"] = json!(NEW);

    scene.settles();

    assert_eq!(scene.tkc["metadata"]["annotations"]["drover.dev/creation"], NEW);
    assert_eq!(scene.own.all(Collection::Machines).next().unwrap()["spec"]["version"], "1.16.7+vmware.1");
}

#[test]
fn a_new_cluster_takes_no_place_among_those_that_are_updated() {
    let mut scene = new();
    let (map, clusters) = (None, BTreeMap::new());
    scene.turns = Some(turns::Turns { limit: 0, me: "me", map, clusters });

    scene.settles();

    assert_eq!(scene.masters().len(), 1);
}

#[test]
fn a_cluster_that_is_paused_is_not_begun() {
    let mut scene = new();
    scene.tkc["metadata"]["annotations"]["drover.dev/paused"] = json!("true");

    assert_eq!(scene.settles(), [] as [&str; 0]);
    assert_eq!(scene.reasons(), [Reason::ClusterPaused]);

    scene.tkc["metadata"]["annotations"] = Value::Null;
    scene.settles();
    scene.tkc["metadata"]["annotations"]["drover.dev/paused"] = json!("true");
    scene.masters_join(true);
    scene.settles();
    assert_eq!(scene.masters().len(), 1);
    assert!(scene.reasons().contains(&Reason::ClusterPaused));
}

#[test]
fn what_an_earlier_cluster_of_the_name_has_left_goes_first() {
    let mut scene = new();
    let mut old = made().own.get(Collection::Clusters, "my-tkc").unwrap().clone();
    old["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    scene.put(Collection::Clusters, old);

    assert_eq!(scene.settles(), [] as [&str; 0]);
    assert_eq!(scene.reasons(), [Reason::ClusterLeaves]);
    assert_eq!(scene.phase(), "creating");
    scene.passes(15);
    scene.settles();
    assert_eq!(scene.reasons(), [Reason::ClusterLeaves, Reason::CreationFailed], "it does not go");
    assert_eq!(scene.phase(), "failed");

    scene.own.forget(Collection::Clusters, "my-tkc");
    assert!(!scene.settles().is_empty());
}

#[test]
fn what_no_new_machine_can_change_is_given_to_a_cluster_when_it_is_made() {
    let mut scene = new();
    let wishes = "{ networking: { podSubnet: 10.0.0.0/8 }, certificatesDir: /etc/pki, apiServer: { extraArgs: { profiling: \"false\" } } }";
    scene.put(
        Collection::Defaults,
        json!({ "metadata": { "name": "drover-guest-defaults" }, "data": { "clusterConfiguration": wishes } }),
    );

    scene.settles();

    let configuration = &scene.own.all(Collection::Configs).next().unwrap()["spec"]["clusterConfiguration"];
    assert_eq!(configuration["certificatesDir"], "/etc/pki");
    assert_eq!(configuration["apiServer"]["extraArgs"]["profiling"], "false");
    assert!(configuration["networking"].is_null());
    let network = &scene.own.get(Collection::Clusters, "my-tkc").unwrap()["spec"]["clusterNetwork"];
    assert_eq!(network["pods"]["cidrBlocks"], json!(["10.0.0.0/8"]));
    assert_eq!(network["services"]["cidrBlocks"], json!(["10.96.0.0/12"]));
}

#[test]
fn what_is_left_of_a_cluster_keeps_it_from_being_made_and_what_is_of_others_does_not() {
    let of = |name: &str| {
        let mut scene = new();
        scene.put(
            Collection::Deployments,
            json!({
                "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "MachineDeployment",
                "metadata": { "name": "workers", "namespace": "default", "uid": "w", "labels": { "cluster.x-k8s.io/cluster-name": name } },
            }),
        );
        scene.reasons()
    };
    assert_eq!(of("my-tkc"), [Reason::ClusterMissing]);
    assert!(!of("another").contains(&Reason::ClusterMissing));
}

#[test]
fn names_of_machines_are_as_long_as_they_may_be_and_no_longer() {
    let mut scene = new();
    scene.tkc["metadata"]["name"] = json!("a".repeat(80));
    scene.settles();
    let name = scene.masters().remove(0);
    let cluster = name.chars().take_while(|letter| *letter == 'a').count();
    assert_eq!((name.len(), cluster), (63, 63 - "-control-plane-12345".len()));
    assert!(name.contains("-control-plane-"), "{name}");
}

#[test]
fn a_guest_is_asked_again_while_a_node_is_not_ready_and_left_alone_then() {
    let mut scene = made();
    assert!(!scene.decide().asks_again);

    scene.masters_join(false);
    assert!(scene.decide().asks_again, "nothing but the guest tells when its Node is ready again");

    scene.masters_join(true);
    assert!(!scene.decide().asks_again);
}
