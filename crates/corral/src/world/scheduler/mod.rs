//! The scheduler: gives each waiting pod a node that suits it, or says why none does.
//!
//! Models the filters of kube-scheduler 1.34 that upgrades meet, in their order and with their sentences: unschedulable
//! nodes, taints, node selectors and required node affinity, required pod anti-affinity. Left out: resources, ports,
//! volumes, pod affinity, spreading and preemption. Of the nodes that suit, the one with the fewest pods is taken, then
//! the first by name.

mod fit;
mod request;

pub use fit::{Blocked, Place};
pub use request::{Apart, Request};

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::outcome::{Action, Outcome};
use super::pods;

/// Where a pod goes, or why it goes nowhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Bind(String),
    Unschedulable(String),
}

/// Looks at all nodes.
pub fn choose<'a>(request: &Request, places: impl Iterator<Item = &'a Place>, blocked: &Blocked) -> Verdict {
    let mut best: Option<(usize, &str)> = None;
    let mut obstacles: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut all, mut beyond_help) = (0, 0);
    for place in places {
        all += 1;
        match fit::fit(request, place, blocked) {
            Ok(()) => best = Some(best.map_or((place.pods, &*place.name), |best| best.min((place.pods, &place.name)))),
            Err(obstacle) => {
                *obstacles.entry(obstacle.sentence()).or_default() += 1;
                beyond_help += usize::from(!obstacle.would_yield_to_preemption());
            }
        }
    }
    match best {
        Some((_, name)) => Verdict::Bind(name.into()),
        None => Verdict::Unschedulable(explain(all, &obstacles, beyond_help)),
    }
}

/// Looks at one node that has changed, for a pod that fitted nowhere before.
pub fn suits(request: &Request, place: &Place, blocked: &Blocked) -> bool {
    fit::fit(request, place, blocked).is_ok()
}

/// Writes the verdict down.
pub fn settle(pod: &Pod, verdict: Verdict, now: Timestamp) -> Outcome {
    let message = match verdict {
        Verdict::Bind(node) => {
            let (namespace, name) = (pods::namespace(&pod.metadata).into(), pods::name(&pod.metadata).into());
            return Outcome::act(vec![Action::BindPod { namespace, name, node }]);
        }
        Verdict::Unschedulable(message) => message,
    };
    let mut status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    if !pods::set_condition(conditions, pods::POD_SCHEDULED, false, Some("Unschedulable"), Some(message), now) {
        return Outcome::nothing();
    }
    Outcome::act(vec![Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() }))])
}

/// `0/3 nodes are available: 2 node(s) …, 1 node(s) …. …`, as kube-scheduler puts it.
fn explain(all: usize, obstacles: &BTreeMap<&str, usize>, beyond_help: usize) -> String {
    if all == 0 {
        return "no nodes available to schedule pods".into();
    }
    let listed = |counts: Vec<(&str, usize)>| {
        let mut parts: Vec<String> = counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
        parts.sort();
        parts.join(", ")
    };
    let reasons = listed(obstacles.iter().map(|(text, count)| (*text, *count)).collect());
    let helps = listed(
        [
            ("Preemption is not helpful for scheduling", beyond_help),
            ("No preemption victims found for incoming pod", all - beyond_help),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect(),
    );
    format!(
        "0/{all} nodes are available: {reasons}. no new claims to deallocate, preemption: 0/{all} nodes are available: {helps}."
    )
}

#[cfg(test)]
mod tests {
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
        choose(request, places.iter(), &Blocked::default())
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
        assert!(
            one("Gt", "cores", json!(["7"])) && !one("Gt", "cores", json!(["8"])) && !one("Gt", "gpu", json!(["0"]))
        );
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
        let tainted =
            [place("n1", json!({"spec": {"taints": [{"key": "role", "value": "etcd", "effect": "NoExecute"}]}}))];
        let with = |toleration: Value| chosen(&request(json!({"tolerations": [toleration]})), &tainted);

        let Verdict::Unschedulable(message) = with(json!({"key": "role", "value": "db"})) else { panic!("tainted") };
        assert!(message.starts_with("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), "{message}");
        assert_eq!(with(json!({"key": "role", "value": "etcd"})), Verdict::Bind("n1".into()));
        assert_eq!(with(json!({"key": "role", "operator": "Exists"})), Verdict::Bind("n1".into()));
        assert_eq!(with(json!({"operator": "Exists"})), Verdict::Bind("n1".into()));
        assert_ne!(
            with(json!({"key": "role", "operator": "Exists", "effect": "NoSchedule"})),
            Verdict::Bind("n1".into())
        );
    }

    #[test]
    fn a_node_that_is_not_ready_takes_nothing() {
        let not_ready = place("n1", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));

        assert!(matches!(chosen(&request(json!({})), &[not_ready]), Verdict::Unschedulable(_)));
    }

    #[test]
    fn two_pods_of_one_plan_do_not_share_a_host() {
        let apart = request(
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchExpressions": [{"key": "plan", "operator": "In", "values": ["k3s"]}]}, "topologyKey": "kubernetes.io/hostname"},
            ]}}}),
        );
        let places = [place("n1", json!({})), place("n2", json!({}))];
        let mut blocked = Blocked::default();
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
        let apart =
            request(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"plan": "k3s"}}, "topologyKey": "kubernetes.io/hostname"},
            ]}}}));
        let places = [place("n1", json!({}))];
        let mut blocked = Blocked::default();
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
        let [Action::PodStatus(told)] = &told.actions[..] else { panic!("a status") };

        let condition = pods::condition(told, pods::POD_SCHEDULED).unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("Unschedulable")));
        assert_eq!(settle(told, Verdict::Unschedulable("why".into()), now), Outcome::nothing());
    }
}
