//! Add-ons are applied as images bring them, each for itself.

use serde_json::json;

use super::super::addons::{Source, State, unreachable};
use super::super::*;
use super::paper::{INVENTORY, Paper, error_of, inline, names};
use super::{CALICO, NEW, OLD, Scene, label, settled};

#[test]
fn what_an_image_brings_is_remembered_then_applied_and_then_left_alone() {
    let scene = settled();
    let mut guest = Paper::of(OLD);

    let (done, told) = guest.follows(&scene.order());

    assert_eq!(done, names(&[&format!("apply {INVENTORY}"), "apply ConfigMap/kube-system/calico"]));
    let cni = &told.standing["cni"];
    assert_eq!((cni.name.as_str(), cni.version.as_str(), &cni.state), ("calico", "3.14", &State::Applied));
    assert!(!told.again);
    assert_eq!(guest.follows(&scene.order()).0, [""; 0]);
}

#[test]
fn what_somebody_has_deleted_or_changed_is_put_back() {
    let scene = settled();
    let mut guest = Paper::of(OLD);
    guest.follows(&scene.order());
    let mut calico = guest.get("ConfigMap/kube-system/calico").clone();
    calico["metadata"]["labels"] = json!({});
    guest.put(calico);
    assert_eq!(guest.follows(&scene.order()).0, names(&["apply ConfigMap/kube-system/calico"]));

    guest.objects.retain(|object, _| object.name != "calico");
    assert_eq!(guest.follows(&scene.order()).0, names(&["apply ConfigMap/kube-system/calico"]));
}

#[test]
fn whoever_asks_for_it_has_put_back_what_somebody_broke_in_a_guest_at_rest() {
    let mut scene = settled();
    let mut guest = Paper::of(OLD);
    scene.told = Some(guest.follows(&scene.order()).1);
    guest.objects.retain(|object, _| object.name != "calico");
    assert!(!scene.decide().asks_guest, "a guest at rest is not asked");

    scene.tkc["metadata"]["annotations"]["drover.dev/reconcile"] = json!("now");
    assert!(scene.decide().asks_guest);
    let (done, told) = guest.follows(&scene.order());

    assert_eq!(done, names(&["apply ConfigMap/kube-system/calico"]));
    scene.told = Some(told);
    assert!(!scene.decide().asks_guest, "once");
}

#[test]
fn pods_of_daemon_sets_change_with_their_nodes_and_those_of_deployments_go_only_to_nodes_of_the_distribution() {
    let mut scene = settled().asks_for(NEW);
    let value = "
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: agent, namespace: kube-system }
spec: { updateStrategy: { type: RollingUpdate, rollingUpdate: { maxUnavailable: 1 } } }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: controllers, namespace: kube-system }
spec: { strategy: { type: Recreate }, template: { spec: { nodeSelector: { kubernetes.io/os: linux } } } }
";
    scene.brings(NEW, "calico", &inline(value));
    let mut guest = Paper::of(OLD);
    guest.follows(&scene.order());

    let daemon_set = guest.get("DaemonSet/kube-system/agent");
    assert_eq!(daemon_set["spec"]["updateStrategy"], json!({ "type": "OnDelete" }));
    let deployment = &guest.get("Deployment/kube-system/controllers")["spec"];
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } });
    assert_eq!(deployment["strategy"], strategy);
    let (key, of_new) = label(NEW).split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
    assert_eq!(deployment["template"]["spec"]["nodeSelector"], json!({ "kubernetes.io/os": "linux", (key): of_new }));
}

#[test]
fn what_kubeadm_has_made_gets_the_image_of_the_distribution() {
    let scene = settled().asks_for(NEW);
    let mut guest = Paper::of(OLD);
    let containers = |name: &str| json!([{ "name": name, "image": "old" }]);
    for (kind, name) in [("Deployment", "coredns"), ("DaemonSet", "kube-proxy")] {
        guest.put(json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name, "namespace": "kube-system" },
            "spec": { "template": { "spec": { "containers": containers(name) } } },
        }));
    }

    let (_, told) = guest.follows(&scene.order());

    let image = |name: &str| guest.get(name)["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image("Deployment/kube-system/coredns"), "vmware/coredns:v1.6.2_vmware.6");
    assert_eq!(image("DaemonSet/kube-system/kube-proxy"), "vmware/kube-proxy:v1.16.7_vmware.1");
    assert_eq!(
        (told.standing["dns"].version.as_str(), &told.standing["dns"].state),
        ("v1.6.2_vmware.6", &State::Applied)
    );
    assert_eq!(
        (told.standing["proxy"].version.as_str(), &told.standing["proxy"].state),
        ("v1.16.7+vmware.1", &State::Applied)
    );
}

#[test]
fn what_nobody_brings_is_unmanaged_and_holds_up_nothing() {
    let mut scene = settled().asks_for(NEW);
    let (_, told) = Paper::of(OLD).follows(&scene.order());
    assert_eq!(
        told.standing["dns"].state,
        State::Unmanaged("Deployment/kube-system/coredns is not there, which kubeadm makes".into())
    );
    let State::Unmanaged(why) = &told.standing["csi"].state else { panic!("{:?}", told.standing["csi"]) };
    assert!(why.contains("has no annotation vmware-system.guest.kubernetes.addons.pvcsi"), "{why}");

    scene.told = Some(told);
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
    assert_eq!(scene.tkc["status"]["addons"]["csi"]["status"], "unmanaged");
    assert_eq!(scene.tkc["status"]["addons"]["cni"]["status"], "applied");
}

/// As the original shows it: `psp: { name: defaultpsp, status: applied, version: v1.15.5+vmware.1-guest.1 }`.
#[test]
fn the_policies_of_every_cluster_are_made_where_they_are_missing_and_stay_as_they_are_elsewhere() {
    let scene = settled();
    let mut guest = Paper::of(OLD);
    guest.has_policies = true;
    let theirs = json!({
        "apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy",
        "metadata": { "name": "vmware-system-privileged" }, "spec": { "privileged": false },
    });
    guest.put(theirs);

    let (done, told) = guest.follows(&scene.order());

    let psp = &told.standing["psp"];
    assert_eq!((psp.name.as_str(), psp.version.as_str(), &psp.state), ("defaultpsp", OLD, &State::Applied));
    assert!(done.contains(&"apply PodSecurityPolicy/vmware-system-restricted".to_owned()), "{done:?}");
    assert!(done.contains(&"apply ClusterRole/psp:vmware-system-privileged".to_owned()), "{done:?}");
    assert_eq!(guest.get("PodSecurityPolicy/vmware-system-privileged")["spec"], json!({ "privileged": false }));
    assert_eq!(guest.follows(&scene.order()).0, [""; 0]);
    // What nobody remembers nobody takes away.
    assert!(!guest.get(INVENTORY)["data"].to_string().contains("vmware-system"));
}

#[test]
fn a_guest_without_policies_needs_none() {
    let (_, told) = Paper::of(OLD).follows(&settled().order());
    assert!(
        matches!(&told.standing["psp"].state, State::Unmanaged(why) if why.contains("serves no PodSecurityPolicy"))
    );
}

#[test]
fn an_authsvc_that_machines_apply_themselves_is_not_taken_over() {
    let mut scene = settled();
    scene.brings(OLD, "authsvc", &inline(CALICO));
    scene.change(Collection::Configs, "cp-1", |one| {
        one["spec"]["postKubeadmCommands"] = json!(["kubectl apply -f /etc/authsvc.yaml"]);
    });

    let (_, told) = Paper::of(OLD).follows(&scene.order());

    assert!(matches!(told.standing["authsvc"].state, State::Unmanaged(_)));
}

#[test]
fn bad_annotations_are_errors_that_name_the_image_the_field_and_a_remedy() {
    let nameless = format!("{CALICO}\n---\napiVersion: v1\nkind: ConfigMap\n");
    let cases = [
        ("{ broken".to_owned(), "is not the JSON of an add-on"),
        (r#"{"type":"inline"}"#.to_owned(), "has no field value"),
        (r#"{"type":"url","value":"x"}"#.to_owned(), "field type is \"url\""),
        (inline("a: [1"), "field value is not YAML"),
        (inline("- 1"), "document 1 is no object"),
        (inline(&nameless), "document 2 has no metadata.name"),
        (inline(&format!("{CALICO}\n---\n{CALICO}")), "document 2 is ConfigMap calico again"),
        (inline("---\n"), "holds no object"),
    ];
    for (annotation, flaw) in cases {
        let mut scene = settled().asks_for(NEW);
        scene.brings(NEW, "calico", &annotation);
        scene.brings(NEW, "pvcsi", &inline(&CALICO.replace("calico", "pvcsi")));
        let (done, told) = Paper::of(OLD).follows(&scene.order());

        let why = error_of(&told, "cni");
        assert!(why.starts_with("VirtualMachineImage/photon-v1.16.7-vmware.1-guest.1: annotation "), "{why}");
        assert!(why.contains(flaw) && why.ends_with("or ask for another version"), "{flaw}: {why}");
        assert!(done.contains(&"apply ConfigMap/kube-system/pvcsi".to_owned()), "the next one is applied: {done:?}");
        assert!(!told.again, "nothing passes by itself before the image changes");

        scene.told = Some(told);
        scene.goes_on();
        assert_eq!(scene.reasons()[0], Reason::AddonsNotApplied);
        assert!(scene.decide().waits[0].sentence.starts_with("add-on calico cannot be applied: "));
        assert_eq!(scene.tkc["status"]["addons"]["cni"]["status"], "error");
        assert_eq!(scene.tkc["status"]["addons"]["cni"]["lastErrorMessage"], why_of(&scene));
    }
}

fn why_of(scene: &Scene) -> String {
    error_of(scene.told.as_ref().unwrap(), "cni").to_owned()
}

#[test]
fn one_that_is_refused_does_not_stop_the_next_and_clears_itself() {
    let mut scene = settled();
    scene.brings(OLD, "pvcsi", &inline(&CALICO.replace("calico", "pvcsi")));
    let mut guest = Paper::of(OLD);
    guest.refuses.insert("ConfigMap/kube-system/calico".into());

    let (_, told) = guest.follows(&scene.order());

    let why = error_of(&told, "cni");
    assert!(
        why.starts_with("cannot apply ConfigMap/kube-system/calico: spec.selector: field is immutable; mend"),
        "{why}"
    );
    assert_eq!(told.standing["csi"].state, State::Applied);
    assert!(told.again);
    guest.refuses.clear();
    assert_eq!(guest.follows(&scene.order()).1.standing["cni"].state, State::Applied);
}

#[test]
fn a_guest_that_does_not_answer_makes_all_but_the_unmanaged_wait_for_it() {
    let scene = settled();

    let told = unreachable(&scene.order(), "connection refused");

    let why = error_of(&told, "cni");
    assert!(why.contains("connection refused; look at field value of Secret/default/my-tkc-kubeconfig"), "{why}");
    assert!(matches!(told.standing["csi"].state, State::Unmanaged(_)));
    assert!(told.again);
}

#[test]
fn the_control_plane_waits_until_the_guest_was_asked_whatever_the_status_says() {
    let mut scene = settled().asks_for(NEW);
    scene.tkc["status"]["addons"] = json!({ "cni": { "name": "calico", "status": "applied", "version": "3.14" } });
    scene.is_unasked = true;

    let decision = scene.decide();

    assert!(decision.asks_guest);
    assert_eq!(decision.waits[0].reason, Reason::AddonsNotApplied);
    scene.is_unasked = false;
    assert!(!scene.decide().asks_guest);
    // The image is changed in place.
    scene.told = Some(super::all_applied(&scene.order()));
    scene.brings(NEW, "calico", &inline(CALICO));
    assert!(scene.decide().asks_guest);
    assert_eq!(scene.reasons()[0], Reason::AddonsNotApplied);
}

#[test]
fn a_cluster_that_is_not_up_has_pending_add_ons() {
    let mut scene = settled();
    scene.change(Collection::Clusters, "my-tkc", |one| one["status"] = json!({}));

    scene.goes_on();

    assert_eq!(scene.tkc["status"]["addons"]["cni"], json!({ "name": "calico", "status": "pending" }));
    assert!(order_of_addons(&scene.view(None)).is_none());
}

#[test]
fn nothing_of_a_refused_version_is_applied() {
    let lower = "v1.15.1+vmware.1-guest.1";
    let mut scene = settled().asks_for(lower);
    scene.image(lower);

    assert!(order_of_addons(&scene.view(None)).is_none());
    assert!(!scene.decide().asks_guest);
}

#[test]
fn what_needs_a_definition_follows_it() {
    let mut scene = settled();
    let value = "
apiVersion: crd.example.org/v1
kind: Pool
metadata: { name: first }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: pools.crd.example.org }
spec: { group: crd.example.org, names: { kind: Pool, plural: pools } }
";
    scene.brings(OLD, "calico", &inline(value));
    let mut guest = Paper::of(OLD);

    let (done, told) = guest.follows(&scene.order());

    assert_eq!(told.standing["cni"].state, State::Applied, "{done:?}");
    assert!(guest.has("Pool/first"));
}

#[test]
fn a_kind_that_is_not_served_is_named_and_the_rest_is_applied() {
    let mut scene = settled();
    let value =
        format!("{CALICO}\n---\n{{ apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {{ name: all }} }}");
    scene.brings(OLD, "calico", &inline(&value));

    let (done, told) = Paper::of(OLD).follows(&scene.order());

    assert!(
        error_of(&told, "cni")
            .starts_with("PodSecurityPolicy/all is of policy/v1beta1, and the guest cluster serves no")
    );
    assert!(done.contains(&"apply ConfigMap/kube-system/calico".to_owned()));
}

#[test]
fn only_the_chosen_network_is_applied_and_whatever_else_an_image_brings() {
    let mut scene = settled();
    scene.brings(OLD, "antrea", &inline(&CALICO.replace("calico", "antrea")));
    scene.brings(OLD, "metrics-server", &inline(&CALICO.replace("calico", "metrics")));
    let ids = |scene: &Scene| {
        let order = scene.order();
        let brought = order.addons.iter().filter(|addon| matches!(addon.source, Source::Objects(_)));
        brought.map(|addon| addon.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&scene), ["calico", "metrics-server"]);
    scene.tkc["spec"]["settings"] = json!({ "network": { "cni": { "name": "antrea" } } });
    assert_eq!(ids(&scene), ["antrea", "metrics-server"]);
}

/// What an add-on brings in a version of its own.
const FAST: &str = "{ apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: { name: fast } }";

#[test]
fn what_cannot_be_read_concerns_the_add_on_alone_that_contains_it() {
    for hidden in ["StorageClass/fast", "storage.k8s.io/v1"] {
        let mut scene = settled();
        scene.brings(OLD, "pvcsi", &inline(FAST));
        let mut guest = Paper::of(OLD);
        guest.hides.insert(hidden.to_owned());

        let (done, told) = guest.follows(&scene.order());

        let verb = if hidden.contains("v1") { "discover" } else { "read" };
        assert!(error_of(&told, "csi").starts_with(&format!("cannot {verb} {hidden}: ")), "{}", error_of(&told, "csi"));
        assert!(!error_of(&told, "csi").contains("does not answer"));
        assert_eq!(told.standing["cni"].state, State::Applied);
        assert!(told.again && told.answered);
        assert_eq!(done, names(&[&format!("apply {INVENTORY}"), "apply ConfigMap/kube-system/calico"]));

        guest.hides.clear();
        let (done, told) = guest.follows(&scene.order());
        assert_eq!(done, names(&[&format!("apply {INVENTORY}"), "apply StorageClass/fast"]));
        assert_eq!(told.standing["csi"].state, State::Applied);

        // What is applied is neither applied anew nor forgotten while it cannot be read.
        guest.hides.insert(hidden.to_owned());
        let (done, told) = guest.follows(&scene.order());
        assert_eq!((done, told.left), (vec![], vec![]));
    }
}

#[test]
fn without_what_was_applied_before_nothing_is_applied_and_that_is_said() {
    for hidden in [INVENTORY, "v1"] {
        let mut guest = Paper::of(OLD);
        guest.hides.insert(hidden.to_owned());

        let (done, told) = guest.follows(&settled().order());

        assert_eq!(done, [""; 0]);
        let said = error_of(&told, "cni");
        assert!(said.starts_with("cannot ") && said.contains(hidden) && !said.contains("does not answer"), "{said}");
    }
}

#[test]
fn what_no_add_on_contains_any_more_is_not_forgotten_while_its_kind_is_not_known() {
    let mut scene = settled().asks_for(NEW);
    scene.brings(OLD, "calico", &inline(&format!("{CALICO}\n---\n{FAST}")));
    scene.brings(NEW, "calico", &inline(CALICO));
    let mut guest = Paper::of(OLD);
    guest.follows(&settled_in(&scene, OLD));
    guest.nodes = Paper::of(NEW).nodes;
    guest.hides.insert("storage.k8s.io/v1".to_owned());

    let (_, told) = guest.follows(&scene.settled_order());
    assert_eq!(told.left.len(), 1, "{:?}", told.left);
    assert!(guest.has("StorageClass/fast"));

    guest.hides.clear();
    let (done, _) = guest.follows(&scene.settled_order());
    assert!(done.contains(&"delete StorageClass/fast".to_owned()), "{done:?}");
}

/// What the same images bring where another distribution is asked for.
fn settled_in(scene: &Scene, distribution: &str) -> addons::Order {
    let mut other = settled().asks_for(distribution);
    other.global = scene.global.clone();
    other.settled_order()
}
