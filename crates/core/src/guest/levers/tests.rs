use super::*;

const LABEL: &str = "cluster.x-k8s.io/cluster-name";

pub fn object(kind: &str, name: &str, more: Value) -> Value {
    let group = if kind == "KubeadmControlPlane" { "controlplane.cluster.x-k8s.io" } else { "cluster.x-k8s.io" };
    let mut object = json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": kind,
        "metadata": { "name": name, "namespace": "guests", "resourceVersion": "4", "labels": { LABEL: "g" } },
    });
    json_patch::merge(&mut object, &more);
    object
}

/// A cluster of one machine and one pool, all of v1.33.1, with these changes of its parts by name.
pub fn guest(changes: &[(&str, Value)]) -> Cluster {
    let plane = json!({ "controlPlaneRef": { "kind": "KubeadmControlPlane", "name": "plane" } });
    let labels = json!({ LABEL: "g", "cluster.x-k8s.io/control-plane": "" });
    let pool = json!({ "clusterName": "g", "replicas": 1, "template": { "spec": { "version": "v1.33.1" } } });
    let parts = [
        object("Cluster", "g", json!({ "spec": plane })),
        object("KubeadmControlPlane", "plane", json!({ "spec": { "version": "v1.33.1", "replicas": 1 } })),
        object(
            "Machine",
            "m",
            json!({
                "metadata": { "labels": labels }, "spec": { "clusterName": "g", "version": "v1.33.1" },
                "status": { "nodeRef": { "name": "n" } },
            }),
        ),
        object("MachineDeployment", "pool", json!({ "spec": pool })),
    ];
    let mut cluster = seen("2026-01-01T12:00:00Z".parse().unwrap());
    let unread = cluster.unseen.clone();
    for mut part in parts {
        let own = part["metadata"]["name"].clone();
        for (_, change) in changes.iter().filter(|(name, _)| own == *name) {
            json_patch::merge(&mut part, change);
        }
        cluster.take(part.to_string().as_bytes());
    }
    assert_eq!(cluster.unseen, unread);
    cluster
}

/// What is written, or why nothing is.
fn started(to: &str, changes: &[(&str, Value)]) -> String {
    let cluster = guest(changes);
    match start(&cluster, cluster.cluster_api.clusters.get("guests", "g").unwrap(), to) {
        Ok(levers) => levers.iter().map(|lever| format!("{} {}", lever.object, lever.patch["spec"])).collect(),
        Err(refusal) => refusal.to_string(),
    }
}

pub fn version(version: &str) -> Value {
    json!({ "spec": { "version": version } })
}

#[test]
fn a_control_plane_is_raised_first_and_its_workers_when_it_is_done() {
    let first = started("1.34.1", &[]);
    assert_eq!(first, r#"KubeadmControlPlane/guests/plane {"version":"v1.34.1"}"#);
    let under_way = started("v1.34.1", &[("plane", version("v1.34.1"))]);
    assert!(under_way.starts_with("the control plane is on its way to v1.34.1, with 0 of 1 machines"), "{under_way}");
    let raised = [("plane", version("v1.34.1")), ("m", version("v1.34.1"))];
    let workers = r#"MachineDeployment/guests/pool {"template":{"spec":{"version":"v1.34.1"}}}"#;
    assert_eq!(started("v1.34.1", &raised), workers);
    let more = ("plane", json!({ "spec": { "version": "v1.34.1", "replicas": 2 } }));
    let one_of_two = started("v1.34.1", &[more, raised[1].clone()]);
    assert!(one_of_two.contains("with 1 of 2 machines"), "{one_of_two}");
    let no_node = ("m", json!({ "status": { "nodeRef": null } }));
    let not_ready = started("v1.34.1", &[raised.to_vec(), vec![no_node]].concat());
    assert!(not_ready.contains("with 0 of 1 machines"), "{not_ready}");
    let new_pool = json!({ "spec": { "template": { "spec": { "version": "v1.34.1" } } } });
    let all = [raised[0].clone(), raised[1].clone(), ("pool", new_pool)];
    assert!(started("v1.34.1", &all).contains("there is nothing to start"));
}

#[test]
fn a_cluster_of_a_class_is_raised_by_its_topology() {
    let class = |version: &str| [("g", json!({ "spec": { "topology": { "class": "c", "version": version } } }))];
    let raised = started("v1.34.1", &class("v1.33.1"));
    assert_eq!(raised, r#"Cluster/guests/g {"topology":{"version":"v1.34.1"}}"#);
    assert!(started("v1.34.1", &class("v1.34.1")).contains("there is nothing to start"));
}

#[test]
fn what_cannot_be_or_would_come_to_nothing_is_refused() {
    let old_pool = |version: &str| ("pool", json!({ "spec": { "template": { "spec": { "version": version } } } }));
    let of = |spec: Value| ("g", json!({ "spec": spec }));
    let cases = [
        ("soon", vec![], "is no version of Kubernetes"),
        ("v1.33.0", vec![], "a control plane cannot go back"),
        ("v1.35.0", vec![], "more than one minor version further"),
        ("v2.33.1", vec![], "more than one minor version further"),
        ("v1.34.0", vec![old_pool("v1.30.9")], "more than 3 minor versions behind v1.34.0"),
        ("v1.34.0", vec![of(json!({ "paused": true }))], "is paused, and nothing would happen"),
        ("v1.34.0", vec![of(json!({ "controlPlaneRef": { "kind": "K3sControlPlane" } }))], "is a K3sControlPlane"),
        ("v1.34.0", vec![of(json!({ "controlPlaneRef": null }))], "belong to nobody who would replace them"),
        (
            "v1.34.0",
            vec![("g", json!({ "metadata": { "deletionTimestamp": "2026-01-01T11:00:00Z" } }))],
            "is being deleted",
        ),
    ];
    for (to, changes, expected) in cases {
        let said = started(to, &changes);
        assert!(said.contains(expected), "{to}: {said}");
    }
    assert!(started("v1.34.0", &[old_pool("v1.31.0")]).starts_with("KubeadmControlPlane"), "three are not too many");
    let before = |workers: &str| [("plane", version("v1.26.1")), ("m", version("v1.26.1")), old_pool(workers)];
    let said = started("v1.27.0", &before("v1.24.9"));
    assert!(said.contains("more than 2 minor versions behind v1.27.0"), "three were, before 1.28: {said}");
    assert!(started("v1.27.0", &before("v1.25.0")).starts_with("KubeadmControlPlane"), "two were not");
}

#[test]
fn whoever_starts_by_hand_waits_for_the_workers_of_a_cluster_that_comes_before() {
    let after = ("g", json!({ "metadata": { "annotations": { AFTER: "first" } } }));
    let started = |workers: &str| {
        let mut cluster = guest(std::slice::from_ref(&after));
        let labels = json!({ LABEL: "first", "cluster.x-k8s.io/control-plane": "" });
        let machine = json!({ "clusterName": "first", "version": "v1.34.1" });
        let counts = json!({ "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 });
        let plane = json!({ "controlPlaneRef": { "kind": "KubeadmControlPlane", "name": "first" } });
        let pool = json!({ "clusterName": "first", "replicas": 1, "template": { "spec": { "version": workers } } });
        for part in [
            object("Cluster", "first", json!({ "spec": plane })),
            object("KubeadmControlPlane", "first", version("v1.34.1")),
            object(
                "Machine",
                "one",
                json!({ "metadata": { "labels": labels }, "spec": machine, "status": { "nodeRef": { "name": "n" } } }),
            ),
            object(
                "MachineDeployment",
                "first",
                json!({ "metadata": { "labels": { LABEL: "first" } }, "spec": pool, "status": counts }),
            ),
        ] {
            cluster.take(part.to_string().as_bytes());
        }
        match start(&cluster, cluster.cluster_api.clusters.get("guests", "g").unwrap(), "v1.34.1") {
            Ok(levers) => levers.len().to_string(),
            Err(refusal) => refusal.to_string(),
        }
    };
    assert!(started("v1.33.4").contains("which is not done"), "{}", started("v1.33.4"));
    assert_eq!(started("v1.34.1"), "1");
}

#[test]
fn a_cluster_is_paused_and_resumed_by_who_has_paused_it() {
    let own = |change: Value| guest(&[("g", change)]).cluster_api.clusters.get("guests", "g").unwrap().clone();
    let (runs, rests) = (own(json!({})), own(json!({ "spec": { "paused": true } })));
    assert_eq!(
        pause(&runs).unwrap().patch,
        json!({ "metadata": { "resourceVersion": "4" }, "spec": { "paused": true } })
    );
    assert!(matches!(pause(&rests), Err(Refusal::AlreadyPaused(_))));
    assert_eq!(resume(&rests).unwrap().patch["spec"], json!({ "paused": false }));
    assert!(matches!(resume(&runs), Err(Refusal::NotPaused(_))));
    let annotated = own(json!({ "metadata": { "annotations": { PAUSED: "" } } }));
    assert!(matches!(resume(&annotated), Err(Refusal::PausedByAnnotation { .. })));
}

#[test]
fn whoever_starts_by_hand_takes_back_what_was_left_to_an_operator_before_if_it_was_less() {
    let own = |left: Option<&str>| {
        let annotations = json!({ UPGRADE_TO: left, "drover.dev/progress": "{}" });
        guest(&[("g", json!({ "metadata": { "annotations": annotations } }))])
            .cluster_api
            .clusters
            .get("guests", "g")
            .unwrap()
            .clone()
    };
    let gone = json!({ UPGRADE_TO: null, "drover.dev/progress": null });
    for left in ["v1.33.1", "soon"] {
        let lever = take_back(&own(Some(left)), "v1.34.1").unwrap();
        assert_eq!(lever.patch["metadata"]["annotations"], gone);
    }
    for left in [None, Some("1.34.1"), Some("v1.35.0")] {
        assert_eq!(take_back(&own(left), "v1.34.1"), None, "{left:?}");
    }
}
