use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::*;

fn place(name: &str, extra: Value) -> Place {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    json_merge(&mut node, &extra);
    Place::of(&serde_json::from_value::<Node>(node).unwrap())
}

fn json_merge(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                json_merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        _ => *into = from.clone(),
    }
}

fn pod(spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {"plan": "k3s"}},
        "spec": {"containers": []},
    });
    json_merge(&mut pod["spec"], &spec);
    serde_json::from_value(pod).unwrap()
}

fn request(spec: Value) -> Request {
    Request::of(&pod(spec)).expect("a pod to schedule")
}

fn affinity(term: Value) -> Request {
    request(json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }}}))
}

fn chosen(request: &Request, places: &[Place]) -> Verdict {
    let mut places: Vec<&Place> = places.iter().collect();
    places.sort_by_key(|place| (place.pods, place.name.as_str()));
    choose(request, places.into_iter(), &Surroundings::empty(request))
}

#[test]
fn the_emptiest_node_is_taken_then_the_first_by_name() {
    let mut busy = place("n1", json!({}));
    busy.pods = 3;

    let verdict = chosen(&request(json!({})), &[busy, place("n3", json!({})), place("n2", json!({}))]);

    assert_eq!(verdict, Verdict::Bind("n2".into()));
}

#[test]
fn a_pod_pinned_by_a_label_waits_until_a_node_has_it() {
    let pinned =
        affinity(json!({"matchExpressions": [{"key": "drover.dev/claim", "operator": "In", "values": ["c1"]}]}));

    assert_eq!(
        chosen(&pinned, &[place("n1", json!({})), place("n2", json!({}))]),
        Verdict::Unschedulable(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
             preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
                .into()
        )
    );
    let labelled = place("n2", json!({"metadata": {"labels": {"drover.dev/claim": "c1"}}}));
    assert_eq!(chosen(&pinned, &[place("n1", json!({})), labelled]), Verdict::Bind("n2".into()));
}

#[test]
fn every_operator_of_node_affinity_is_understood() {
    let node = || [place("n1", json!({"metadata": {"labels": {"cores": "8"}}}))];
    let one = |operator: &str, key: &str, values: Value| {
        let expression = json!({"key": key, "operator": operator, "values": values});
        chosen(&affinity(json!({"matchExpressions": [expression]})), &node()) == Verdict::Bind("n1".into())
    };

    assert!(one("In", "cores", json!(["4", "8"])) && !one("In", "cores", json!(["4"])));
    assert!(
        one("NotIn", "cores", json!(["4"]))
            && one("NotIn", "gpu", json!(["4"]))
            && !one("NotIn", "cores", json!(["8"]))
    );
    assert!(one("Exists", "cores", json!([])) && !one("Exists", "gpu", json!([])));
    assert!(one("DoesNotExist", "gpu", json!([])) && !one("DoesNotExist", "cores", json!([])));
    assert!(one("Gt", "cores", json!(["7"])) && !one("Gt", "cores", json!(["8"])) && !one("Gt", "gpu", json!(["0"])));
    assert!(one("Lt", "cores", json!(["9"])) && !one("Lt", "cores", json!(["8"])));
}

#[test]
fn affinity_can_name_the_node_itself() {
    let named = affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}));

    assert_eq!(chosen(&named, &[place("n1", json!({})), place("n2", json!({}))]), Verdict::Bind("n2".into()));
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
    let cordoned = [place("n1", json!({"spec": {"unschedulable": true}}))];
    let tolerant = request(
        json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]}),
    );

    let Verdict::Unschedulable(message) = chosen(&request(json!({})), &cordoned) else { panic!("it is cordoned") };
    assert!(message.starts_with("0/1 nodes are available: 1 node(s) were unschedulable."), "{message}");
    assert_eq!(chosen(&tolerant, &cordoned), Verdict::Bind("n1".into()));
}

#[test]
fn a_taint_needs_its_toleration() {
    let tainted = [place("n1", json!({"spec": {"taints": [{"key": "role", "value": "etcd", "effect": "NoExecute"}]}}))];
    let with = |toleration: Value| chosen(&request(json!({"tolerations": [toleration]})), &tainted);

    let Verdict::Unschedulable(message) = with(json!({"key": "role", "value": "db"})) else { panic!("tainted") };
    assert!(message.starts_with("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), "{message}");
    assert_eq!(with(json!({"key": "role", "value": "etcd"})), Verdict::Bind("n1".into()));
    assert_eq!(with(json!({"key": "role", "operator": "Exists"})), Verdict::Bind("n1".into()));
    assert_eq!(with(json!({"operator": "Exists"})), Verdict::Bind("n1".into()));
    assert_ne!(with(json!({"key": "role", "operator": "Exists", "effect": "NoSchedule"})), Verdict::Bind("n1".into()));
}

#[test]
fn a_node_that_is_not_ready_takes_nothing() {
    let not_ready = place("n1", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));

    assert!(matches!(chosen(&request(json!({})), &[not_ready]), Verdict::Unschedulable(_)));
}

#[test]
fn two_pods_of_one_plan_do_not_share_a_host() {
    let apart = request(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchExpressions": [{"key": "plan", "operator": "In", "values": ["k3s"]}]}, "topologyKey": "kubernetes.io/hostname"},
    ]}}}));
    let places = [place("n1", json!({})), place("n2", json!({}))];
    let mut blocked = Surroundings::default();
    blocked.add_neighbour(&apart, "ns", &apart.labels, &apart.apart, &places[0]);

    assert_eq!(choose(&apart, places.iter(), &blocked), Verdict::Bind("n2".into()));

    // This one is not of the plan, and wants to be alone with it no more than the plan's own.
    blocked.add_neighbour(&apart, "ns", &BTreeMap::new(), &apart.apart, &places[1]);
    let Verdict::Unschedulable(message) = choose(&apart, places.iter(), &blocked) else { panic!("both are taken") };
    assert_eq!(
        message,
        "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 1 node(s) didn't satisfy existing pods \
         anti-affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims \
         found for incoming pod."
    );
}

#[test]
fn a_pod_of_another_namespace_is_no_neighbour() {
    let apart = request(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"plan": "k3s"}}, "topologyKey": "kubernetes.io/hostname"},
    ]}}}));
    let places = [place("n1", json!({}))];
    let mut blocked = Surroundings::default();
    blocked.add_neighbour(&apart, "elsewhere", &apart.labels, &[], &places[0]);

    assert_eq!(choose(&apart, places.iter(), &blocked), Verdict::Bind("n1".into()));
}

#[test]
fn pods_that_are_bound_gated_or_for_another_scheduler_are_left_alone() {
    for spec in [
        json!({"nodeName": "n1"}),
        json!({"schedulingGates": [{"name": "wait"}]}),
        json!({"schedulerName": "my-scheduler"}),
    ] {
        assert!(Request::of(&pod(spec)).is_none());
    }
}

#[test]
fn an_unschedulable_pod_is_told_once() {
    let now = Timestamp::from_second(1_767_268_800).unwrap();
    let told = settle(&pod(json!({})), Verdict::Unschedulable("why".into()), now);
    let [Action::PodStatus(told), Action::Note(event)] = &told.actions[..] else { panic!("a status and an event") };
    assert_eq!(event.reason(), "FailedScheduling");

    let condition = pods::condition(told, pods::POD_SCHEDULED).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("Unschedulable")));
    assert_eq!(settle(told, Verdict::Unschedulable("why".into()), now).actions, []);
}

fn with_room(name: &str, allocatable: Value) -> Place {
    place(name, json!({"status": {"allocatable": allocatable}}))
}

#[test]
fn a_node_takes_no_more_than_it_has() {
    let needs =
        request(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}));
    let mut full = with_room("n1", json!({"cpu": "4", "memory": "8Gi", "pods": "110"}));
    full.used.add(&amounts::Amounts::from_quantities(Some(
        &[("cpu".to_string(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("3".into()))].into(),
    )));
    let mut crowded = with_room("n2", json!({"cpu": "4", "memory": "8Gi", "pods": "1"}));
    crowded.pods = 1;
    let small = with_room("n3", json!({"cpu": "1", "memory": "512Mi", "pods": "110"}));

    let Verdict::Unschedulable(message) = chosen(&needs, &[full, crowded, small]) else { panic!("there is no room") };
    assert_eq!(
        message,
        "0/3 nodes are available: 1 Insufficient memory, 1 Too many pods, 2 Insufficient cpu. no new claims to deallocate, \
         preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for \
         incoming pod."
    );
}

fn zone(name: &str, zone: &str) -> Place {
    place(name, json!({"metadata": {"labels": {"zone": zone}}}))
}

#[test]
fn pods_that_must_spread_do_not_pile_up_in_one_zone() {
    let spread = request(json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"plan": "k3s"}},
    }]}));
    let places = [zone("n1", "a"), zone("n2", "b"), place("n3", json!({}))];
    let mut around = Surroundings::empty(&spread);
    around.balance(&spread, places.iter(), |_| vec![&places[0]]);

    assert_eq!(choose(&spread, places.iter(), &around), Verdict::Bind("n2".into()));
    let Verdict::Unschedulable(message) = choose(&spread, [&places[0], &places[2]].into_iter(), &around) else {
        panic!("a second one in zone a would be one too many")
    };
    assert!(
        message.starts_with(
            "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod \
             topology spread constraints (missing required label)."
        ),
        "{message}"
    );
}

#[test]
fn a_pod_goes_where_its_companions_are_and_the_first_of_them_anywhere() {
    let affinity = |app: &str| {
        request(json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"plan": app}}, "topologyKey": "zone"},
        ]}}}))
    };
    let places = [zone("n1", "a"), zone("n2", "b")];
    let like_itself = affinity("k3s");
    let mut around = Surroundings::empty(&like_itself);
    around.allow_the_first(&like_itself);
    assert_eq!(choose(&like_itself, places.iter(), &around), Verdict::Bind("n1".into()));

    let other = affinity("database");
    let mut around = Surroundings::empty(&other);
    around.allow_the_first(&other);
    assert!(matches!(choose(&other, places.iter(), &around), Verdict::Unschedulable(_)));
    around.add_companion(&other, "ns", &BTreeMap::from([("plan".into(), "database".into())]), &places[1]);
    assert_eq!(choose(&other, places.iter(), &around), Verdict::Bind("n2".into()));
}

#[test]
fn a_pod_that_names_its_node_is_known_by_it() {
    let named = affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}));
    assert_eq!(named.named_nodes(), Some(["n2"].into()));
    assert_eq!(request(json!({})).named_nodes(), None);
}
