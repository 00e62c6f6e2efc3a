use serde_json::{Value, json};

use super::*;

/// What differs from these is merged in: RFC 7396.
fn with(mut object: Value, patch: Value) -> Value {
    json_patch::merge(&mut object, &patch);
    object
}

/// A Ready node with two cores and room for ten pods.
fn node(name: &str, patch: Value) -> Value {
    let plain = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "a"}},
        "status": {"allocatable": {"cpu": "2", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    with(plain, patch)
}

/// A pod that asks for a core.
fn pod(name: &str, node: &str, patch: Value) -> Value {
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]);
    let metadata =
        json!({"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}, "ownerReferences": owner});
    let plain = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}});
    with(plain, patch)
}

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    objects.iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
    assert_eq!(cluster.unseen, []);
    cluster
}

fn pod_of<'a>(cluster: &'a Cluster, name: &str) -> &'a Pod {
    cluster.pods.get("shop", name).unwrap()
}

/// What keeps the pod `new` from the node `n1`, among other objects.
fn in_the_way(node_patch: Value, pod_patch: Value, others: &[Value]) -> Vec<Obstacle> {
    let mut objects = vec![node("n1", node_patch), pod("new", "", pod_patch)];
    objects.extend(others.iter().cloned());
    let cluster = cluster(&objects);
    Places::of(&cluster).obstacles(pod_of(&cluster, "new"), cluster.nodes.named("n1").unwrap())
}

#[test]
fn a_requirement_on_a_label_holds_as_the_scheduler_says() {
    let cases: [(&str, &[&str], Option<&str>, bool); 19] = [
        ("In", &["a", "b"], Some("b"), true),
        ("In", &["a", "b"], Some("c"), false),
        ("In", &["a"], None, false),
        ("NotIn", &["a"], Some("b"), true),
        ("NotIn", &["a"], Some("a"), false),
        ("NotIn", &["a"], None, true),
        ("Exists", &[], Some(""), true),
        ("Exists", &[], None, false),
        ("DoesNotExist", &[], None, true),
        ("DoesNotExist", &[], Some(""), false),
        ("Gt", &["4"], Some("5"), true),
        ("Gt", &["4"], Some("4"), false),
        ("Gt", &["4"], Some("3"), false),
        ("Gt", &["4"], Some("many"), false),
        ("Lt", &["4"], Some("3"), true),
        ("Lt", &["4"], Some("4"), false),
        ("Lt", &["4"], Some("5"), false),
        ("Lt", &["4"], None, false),
        ("Near", &["4"], Some("4"), false),
    ];
    for (operator, values, found, expected) in cases {
        let requirement = serde_json::from_value(json!({"key": "k", "operator": operator, "values": values})).unwrap();
        let found = found.map(str::to_owned);
        assert_eq!(holds(&requirement, found.as_ref()), expected, "{found:?} {operator} {values:?}");
    }
}

#[test]
fn a_term_asks_for_all_it_says_and_one_of_several_is_enough() {
    let ssd = || json!({"key": "disk", "operator": "In", "values": ["ssd"]});
    let gpu = || json!({"key": "gpu", "operator": "Exists"});
    let named = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let cases = [
        (json!([{"matchExpressions": [ssd()]}]), true),
        (json!([{"matchExpressions": [ssd(), gpu()]}]), false),
        (json!([{"matchExpressions": [gpu()]}, {"matchExpressions": [ssd()]}]), true),
        (json!([{"matchFields": [named("n1")]}]), true),
        (json!([{"matchFields": [named("n2")]}]), false),
        (json!([{"matchExpressions": [ssd()], "matchFields": [named("n2")]}]), false),
        (json!([{"matchExpressions": [gpu()], "matchFields": [named("n1")]}]), false),
        (json!([{"matchFields": [{"key": "metadata.namespace", "operator": "In", "values": ["n1"]}]}]), false),
        (json!([{}]), false),
        (json!([]), false),
    ];
    for (terms, expected) in cases {
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let labels = json!({"metadata": {"labels": {"disk": "ssd"}}});
        let found = in_the_way(labels, json!({"spec": {"affinity": {"nodeAffinity": affinity}}}), &[]);
        assert_eq!(found, if expected { vec![] } else { vec![Obstacle::Affinity] }, "{terms}");
    }
    let wishes = json!({"preferredDuringSchedulingIgnoredDuringExecution": []});
    assert_eq!(in_the_way(json!({}), json!({"spec": {"affinity": {"nodeAffinity": wishes}}}), &[]), []);
}

#[test]
fn a_toleration_covers_a_taint_as_the_scheduler_says() {
    let cases = [
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Exists", "effect": "NoSchedule"}), true),
        (json!({"operator": "Exists", "effect": "NoExecute"}), false),
        (json!({"operator": "Exists", "effect": ""}), true),
        (json!({"key": "use", "operator": "Exists"}), true),
        (json!({"key": "", "operator": "Exists"}), true),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"key": "use", "operator": "Equal", "value": "gpu"}), true),
        (json!({"key": "use", "value": "gpu"}), true),
        (json!({"key": "use", "value": "gpu", "effect": "NoSchedule"}), true),
        (json!({"key": "use", "value": "gpu", "effect": "NoExecute"}), false),
        (json!({"key": "use", "operator": "Equal", "value": "cpu"}), false),
        (json!({"key": "use", "operator": "Equal"}), false),
        (json!({"key": "other", "value": "gpu"}), false),
        (json!({"value": "gpu"}), false),
        (json!({"key": "", "value": "gpu"}), false),
    ];
    let taint = json!({"spec": {"taints": [{"key": "use", "value": "gpu", "effect": "NoSchedule"}]}});
    for (toleration, expected) in cases {
        let found = in_the_way(taint.clone(), json!({"spec": {"tolerations": [toleration]}}), &[]);
        let taint = || Obstacle::Taint("use=gpu:NoSchedule".to_owned());
        assert_eq!(found, if expected { vec![] } else { vec![taint()] }, "{toleration}");
    }
    let either = json!([{"key": "other", "operator": "Exists"}, {"key": "use", "operator": "Exists"}]);
    assert_eq!(in_the_way(taint, json!({"spec": {"tolerations": either}}), &[]), []);
}

#[test]
fn a_taint_that_only_asks_to_stay_away_keeps_nobody_away() {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "use", "effect": effect}]}});
    assert_eq!(in_the_way(taint("PreferNoSchedule"), json!({}), &[]), []);
    assert_eq!(in_the_way(taint("NoExecute"), json!({}), &[]), [Obstacle::Taint("use:NoExecute".to_owned())]);
}

#[test]
fn a_node_out_of_service_is_told_once_whatever_taints_say_the_same() {
    let lost = json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    });
    assert_eq!(in_the_way(lost, json!({}), &[]), [Obstacle::NotReady]);

    let cordoned = json!({"spec": {
        "unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }});
    assert_eq!(in_the_way(cordoned.clone(), json!({}), &[]), [Obstacle::Cordoned]);
    let stays = json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}});
    assert_eq!(in_the_way(cordoned, stays, &[]), []);
}

#[test]
fn a_node_without_the_label_that_a_pod_selects_is_told_by_that_label() {
    let picky = json!({"spec": {"nodeSelector": {"disk": "ssd", "zone": "a"}}});
    assert_eq!(in_the_way(json!({}), picky.clone(), &[]), [Obstacle::Selector("disk=ssd".to_owned())]);
    assert_eq!(in_the_way(json!({"metadata": {"labels": {"disk": "ssd"}}}), picky, &[]), []);
}

#[test]
fn a_pod_that_takes_exactly_what_is_left_fits() {
    let asks = |cpu: &str| json!({"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]}});
    let cpu = || "cpu".to_owned();
    let one = [pod("old", "n1", json!({}))];
    assert_eq!(in_the_way(json!({}), asks("2"), &[]), []);
    assert_eq!(in_the_way(json!({}), asks("2001m"), &[]), [Obstacle::TooSmall(cpu())]);
    assert_eq!(in_the_way(json!({}), asks("1"), &one), []);
    assert_eq!(in_the_way(json!({}), asks("1001m"), &one), [Obstacle::Full(cpu())]);

    let ended = [pod("old", "n1", json!({"status": {"phase": "Succeeded"}}))];
    assert_eq!(in_the_way(json!({}), asks("2"), &ended), [], "a pod that has ended takes nothing");

    let small = json!({"status": {"allocatable": {"pods": "1"}}});
    assert_eq!(in_the_way(small.clone(), json!({}), &[]), []);
    assert_eq!(in_the_way(small, json!({}), &one), [Obstacle::Full("pods".to_owned())]);
}

#[test]
fn a_resource_that_a_node_does_not_have_is_only_missed_by_who_needs_some() {
    let asks = |amount: &str| {
        let requests = json!({"nvidia.com/gpu": amount});
        json!({"spec": {"containers": [{"name": "web", "resources": {"requests": requests}}]}})
    };
    assert_eq!(in_the_way(json!({}), asks("1"), &[]), [Obstacle::TooSmall("nvidia.com/gpu".to_owned())]);
    assert_eq!(in_the_way(json!({}), asks("0"), &[]), []);
    let silent = json!({"status": {"allocatable": null}});
    assert_eq!(in_the_way(silent, asks("1"), &[]), [], "a node that does not say what it has is taken at its word");
}

#[test]
fn a_volume_keeps_its_pod_where_the_volume_is() {
    let claim = |volume: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"volumeName": volume}})
    };
    let volume = |name: &str, home: &str| {
        let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [home]});
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [host]}]});
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"nodeAffinity": {"required": required}}})
    };
    let free = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}});
    let mounts = json!({"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let found = |volume: Value| in_the_way(json!({}), mounts.clone(), &[claim("pv"), volume]);
    assert_eq!(found(volume("pv", "n1")), []);
    assert_eq!(found(volume("pv", "n2")), [Obstacle::Volume("pv".to_owned())]);
    assert_eq!(found(free), [], "a volume that says nothing can be anywhere");
    assert_eq!(found(volume("other", "n2")), []);
}

/// A pod that keeps away from others, by one term.
fn apart(term: Value) -> Value {
    let plain = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    let terms = json!([with(plain, term)]);
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}})
}

#[test]
fn a_pod_keeps_away_from_its_like_in_the_whole_domain_and_nowhere_else() {
    let neighbour = || vec![Obstacle::Neighbour("shop/old".to_owned())];
    let n2 = |zone: &str| node("n2", json!({"metadata": {"labels": {"zone": zone}}}));
    let old = |patch: Value| pod("old", "n2", patch);
    let found = |term: Value, others: &[Value]| in_the_way(json!({}), apart(term), others);
    assert_eq!(found(json!({}), &[n2("a"), old(json!({}))]), neighbour());
    assert_eq!(found(json!({}), &[n2("b"), old(json!({}))]), []);
    assert_eq!(found(json!({"topologyKey": "kubernetes.io/hostname"}), &[n2("a"), old(json!({}))]), []);
    assert_eq!(found(json!({"topologyKey": "rack"}), &[n2("a"), old(json!({}))]), []);
    let other_labels = json!({"metadata": {"labels": {"app": "db"}}});
    assert_eq!(found(json!({}), &[n2("a"), old(other_labels)]), []);
    assert_eq!(found(json!({"labelSelector": null}), &[n2("a"), old(json!({}))]), []);
    let ended = json!({"status": {"phase": "Failed"}});
    assert_eq!(found(json!({}), &[n2("a"), old(ended)]), []);
    let itself = json!({"metadata": {"uid": "new"}});
    assert_eq!(found(json!({}), &[n2("a"), old(itself)]), [], "nobody is its own neighbour");
}

#[test]
fn a_term_reaches_into_its_own_namespace_or_those_that_it_names() {
    let here = pod("old", "n1", json!({}));
    let there = pod("old", "n1", json!({"metadata": {"namespace": "bank"}}));
    let found = |term: Value, other: &Value| {
        let obstacles = in_the_way(json!({}), apart(term), std::slice::from_ref(other));
        !obstacles.is_empty()
    };
    assert!(found(json!({}), &here));
    assert!(!found(json!({}), &there));
    assert!(found(json!({"namespaces": ["bank"]}), &there));
    assert!(!found(json!({"namespaces": ["bank"]}), &here));
    assert!(found(json!({"namespaceSelector": {}}), &there));
}

#[test]
fn a_pod_goes_to_the_node_with_the_fewest_pods_that_takes_it() {
    let idle = |name: &str, node: &str| pod(name, node, json!({"spec": {"containers": null}}));
    let objects = [
        node("n1", json!({})),
        node("n2", json!({})),
        node("n3", json!({"spec": {"unschedulable": true}})),
        idle("a", "n1"),
        pod("new", "", json!({})),
        pod("next", "", json!({})),
    ];
    let cluster = cluster(&objects);
    let mut places = Places::of(&cluster);
    let (new, next) = (pod_of(&cluster, "new"), pod_of(&cluster, "next"));
    assert_eq!(places.find(new), Some("n2"));

    places.put(new, "n2");
    places.put(pod_of(&cluster, "a"), "n2");
    assert_eq!(places.pods_on("n2").len(), 2);
    assert_eq!(places.find(next), Some("n1"), "n2 has one pod more by now");
    assert_eq!(places.most_free("cpu").map(|(node, amount)| (node, amount.units())), Some(("n3", 2)));

    places.put(next, "n2");
    assert_eq!(places.obstacles(next, cluster.nodes.named("n2").unwrap()), [Obstacle::Full("cpu".to_owned())]);
    places.remove("n1");
    assert_eq!(places.find(next), None);
    assert_eq!(places.pods_on("n1").len(), 0);
}

#[test]
fn siblings_are_pods_of_one_owner_wherever_they_have_gone() {
    let other = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "uid": "db", "controller": true}]);
    let objects = [
        node("n1", json!({})),
        node("n2", json!({})),
        pod("new", "", json!({})),
        pod("a", "n1", json!({})),
        pod("b", "n2", json!({"metadata": {"ownerReferences": other}})),
        pod("alone", "n2", json!({"metadata": {"ownerReferences": null}})),
        pod("ended", "n2", json!({"status": {"phase": "Failed"}})),
        pod("foreign", "n2", json!({"metadata": {"namespace": "bank"}})),
    ];
    let cluster = cluster(&objects);
    let mut places = Places::of(&cluster);
    let homes = |places: &Places<'_>, pod: &str| -> Vec<String> {
        places.homes_of_siblings(pod_of(&cluster, pod)).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(homes(&places, "new"), ["n1"]);
    assert_eq!(homes(&places, "alone"), Vec::<String>::new());

    places.put(cluster.pods.get("bank", "foreign").unwrap(), "n2");
    assert_eq!(homes(&places, "new"), ["n1"]);
    places.put(pod_of(&cluster, "a"), "n2");
    places.remove("n1");
    assert_eq!(homes(&places, "new"), ["n2"]);
}

/// A pod that insists on being spread over zones.
fn spread(constraint: Value) -> Value {
    let plain = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    json!({"spec": {"topologySpreadConstraints": [with(plain, constraint)]}})
}

#[test]
fn pods_are_spread_as_evenly_as_their_constraint_demands() {
    let zone =
        |name: &str, zone: &str, patch: Value| node(name, with(json!({"metadata": {"labels": {"zone": zone}}}), patch));
    let empty_zone = || zone("n2", "b", json!({}));
    let shut_zone = || zone("n2", "b", json!({"spec": {"unschedulable": true}}));
    let tainted_zone = || zone("n2", "b", json!({"spec": {"taints": [{"key": "use", "effect": "NoSchedule"}]}}));
    let old = |patch: Value| pod("old", "n1", patch);
    let revision = |name: &str| json!({"metadata": {"labels": {"revision": name}}});
    let honor = json!({"nodeTaintsPolicy": "Honor"});
    let refused = [Obstacle::Spread("zone".to_owned())];
    let cases = [
        ("one more here than there", json!({}), json!({}), vec![empty_zone(), old(json!({}))], true),
        ("nobody is here", json!({}), json!({}), vec![empty_zone()], false),
        ("a skew of two", json!({"maxSkew": 2}), json!({}), vec![empty_zone(), old(json!({}))], false),
        (
            "only a wish",
            json!({"whenUnsatisfiable": "ScheduleAnyway"}),
            json!({}),
            vec![empty_zone(), old(json!({}))],
            false,
        ),
        (
            "one on either side",
            json!({}),
            json!({}),
            vec![empty_zone(), old(json!({})), pod("b", "n2", json!({}))],
            false,
        ),
        ("no other domain", json!({}), json!({}), vec![old(json!({}))], false),
        ("fewer domains than asked for", json!({"minDomains": 2}), json!({}), vec![old(json!({}))], true),
        (
            "as many domains as asked for",
            json!({"minDomains": 2}),
            json!({}),
            vec![empty_zone(), old(json!({})), pod("b", "n2", json!({}))],
            false,
        ),
        (
            "another revision",
            json!({"matchLabelKeys": ["revision"]}),
            revision("2"),
            vec![empty_zone(), old(revision("1"))],
            false,
        ),
        (
            "the same revision",
            json!({"matchLabelKeys": ["revision"]}),
            revision("1"),
            vec![empty_zone(), old(revision("1"))],
            true,
        ),
        ("no selector", json!({"labelSelector": null}), json!({}), vec![empty_zone(), old(json!({}))], false),
        (
            "unlike itself",
            json!({}),
            json!({"metadata": {"labels": {"app": "db"}}}),
            vec![empty_zone(), old(json!({}))],
            false,
        ),
        ("a cordoned domain counts", json!({}), json!({}), vec![shut_zone(), old(json!({}))], true),
        ("unless taints are honoured", honor.clone(), json!({}), vec![shut_zone(), old(json!({}))], false),
        ("a tainted domain counts", json!({}), json!({}), vec![tainted_zone(), old(json!({}))], true),
        ("unless they are honoured", honor.clone(), json!({}), vec![tainted_zone(), old(json!({}))], false),
        (
            "a taint that is tolerated",
            honor,
            json!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
            vec![tainted_zone(), old(json!({}))],
            true,
        ),
        (
            "a domain that is not selected",
            json!({}),
            json!({"spec": {"nodeSelector": {"zone": "a"}}}),
            vec![empty_zone(), old(json!({}))],
            false,
        ),
        (
            "unless selectors are ignored",
            json!({"nodeAffinityPolicy": "Ignore"}),
            json!({"spec": {"nodeSelector": {"zone": "a"}}}),
            vec![empty_zone(), old(json!({}))],
            true,
        ),
        ("no label for it", json!({"topologyKey": "rack"}), json!({}), vec![empty_zone()], true),
    ];
    for (case, constraint, patch, others, expected) in cases {
        let found = in_the_way(json!({}), with(spread(constraint.clone()), patch), &others);
        let key = constraint["topologyKey"].as_str().unwrap_or("zone");
        let refused = vec![Obstacle::Spread(key.to_owned()); refused.len()];
        assert_eq!(found, if expected { refused } else { vec![] }, "{case}");
    }
}

#[test]
fn what_is_in_the_way_is_told_node_by_node_and_heeded_when_one_is_looked_for() {
    let objects = [
        node("n1", json!({})),
        node("n2", json!({"metadata": {"labels": {"zone": "b"}}, "spec": {"unschedulable": true}})),
        pod("old", "n1", json!({})),
        pod("new", "", spread(json!({}))),
    ];
    let cluster = cluster(&objects);
    let places = Places::of(&cluster);
    let all = places.all_obstacles(pod_of(&cluster, "new"));
    let all: Vec<_> = all.into_iter().map(|(node, found)| (node.metadata.name.as_str(), found)).collect();
    let expected = [("n1", vec![Obstacle::Spread("zone".to_owned())]), ("n2", vec![Obstacle::Cordoned])];
    assert_eq!(all, expected);
    assert_eq!(places.find(pod_of(&cluster, "new")), None);
}
