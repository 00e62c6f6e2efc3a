//! One look at a cluster, on the embedded API server: what it asks for, and what becomes of what it may not see.

use std::sync::{Arc, Mutex};

use drover_core::cluster::{Cause, Cluster as Seen};
use drover_core::preflight::{Intent, Verdict, examine};
use drover_operator::survey;
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::client::Body;
use serde_json::json;

use crate::support::Cluster;
use crate::support::refusing;

/// Every request that was made.
type Requests = Arc<Mutex<Vec<(Method, String)>>>;

async fn look(refuses: impl Fn(&str) -> Option<StatusCode> + Send + Sync + 'static) -> (Seen, Vec<(Method, String)>) {
    let cluster = Cluster::new();
    for number in 0..3 {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": format!("n{number}") },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        cluster.user.create(&serde_json::from_value::<Node>(node).unwrap()).unwrap();
    }
    for number in 0..1200 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("p{number}"), "namespace": crate::support::NAMESPACE },
            "spec": { "nodeName": "n0", "containers": [{ "name": "c", "image": "x" }] },
        });
        cluster.user.create(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
    }
    let made: Requests = Arc::default();
    let noted = made.clone();
    let client = refusing::client(cluster.server.service("reader"), move |request: &Request<Body>| {
        noted.lock().unwrap().push((request.method().clone(), request.uri().to_string()));
        refuses(request.uri().path())
    });
    let seen = survey::live(client, &cluster.clock).await;
    let requests = made.lock().unwrap().clone();
    (seen, requests)
}

fn cause<'a>(seen: &'a Seen, kind: &str) -> Option<&'a Cause> {
    seen.unseen.iter().find(|unseen| unseen.kind == kind).map(|unseen| &unseen.cause)
}

#[tokio::test(start_paused = true)]
async fn a_survey_reads_page_by_page_and_never_writes() {
    let (seen, requests) = look(|_| None).await;

    assert_eq!((seen.nodes.len(), seen.pods.len()), (3, 1200));
    assert!(requests.iter().all(|(method, _)| *method == Method::GET), "{requests:?}");
    let pages = requests.iter().filter(|(_, uri)| uri.starts_with("/api/v1/pods?")).count();
    assert_eq!(pages, 3);
    assert!(requests.len() < 60, "{} requests", requests.len());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_is_noted_and_the_rest_is_read() {
    let (seen, _) = look(|path| path.ends_with("/poddisruptionbudgets").then_some(StatusCode::FORBIDDEN)).await;

    assert_eq!(cause(&seen, "PodDisruptionBudget"), Some(&Cause::Forbidden));
    assert_eq!(seen.nodes.len(), 3);
    let report = examine(&seen, &Intent::anything());
    assert_eq!(report.verdict, Verdict::CouldNotCheck);
    let unchecked = report.unchecked.iter().find(|one| one.unseen == "PodDisruptionBudget: no permission to list them");
    assert!(unchecked.unwrap().checks.contains(&"DRV-PDB-001"), "{:?}", report.unchecked);
    assert!(!report.passed.contains(&"DRV-PDB-001"));
    assert!(report.passed.contains(&"DRV-NODE-001"));
}

/// As Kubernetes 1.20 and before.
#[tokio::test(start_paused = true)]
async fn budgets_are_looked_for_where_old_servers_have_them() {
    let (_, requests) = look(|path| path.starts_with("/apis/policy/v1/").then_some(StatusCode::NOT_FOUND)).await;

    let budgets = requests.iter().filter(|(_, uri)| uri.contains("/poddisruptionbudgets"));
    let paths: Vec<&str> = budgets.map(|(_, uri)| uri.split('?').next().unwrap()).collect();
    assert_eq!(paths, ["/apis/policy/v1/poddisruptionbudgets", "/apis/policy/v1beta1/poddisruptionbudgets"]);
}

#[tokio::test(start_paused = true)]
async fn products_that_are_not_installed_are_nothing_to_miss() {
    let (seen, requests) = look(|_| None).await;

    assert_eq!(cause(&seen, "Volume.longhorn.io"), Some(&Cause::NoSuchKind));
    assert!(!requests.iter().any(|(_, uri)| uri.contains("longhorn")), "nobody asks for what is not served");
    assert!(examine(&seen, &Intent::anything()).passed.contains(&"DRV-VOL-001"));
}

#[tokio::test(start_paused = true)]
async fn kubelets_that_do_not_answer_are_named_one_by_one() {
    let (seen, _) = look(|path| path.contains("/proxy/").then_some(StatusCode::BAD_GATEWAY)).await;

    let silent: Vec<String> = seen.unseen.iter().filter(|one| one.kind == "Kubelet").map(ToString::to_string).collect();
    assert_eq!(silent, ["Kubelet/n0: refused", "Kubelet/n1: refused", "Kubelet/n2: refused"]);
    let report = examine(&seen, &Intent::anything());
    assert!(report.unchecked.iter().any(|one| one.checks == ["DRV-NODE-010"]), "{:?}", report.unchecked);
}

#[tokio::test(start_paused = true)]
async fn a_right_that_no_kubelet_grants_is_asked_for_once() {
    let (seen, requests) = look(|path| path.contains("/proxy/").then_some(StatusCode::FORBIDDEN)).await;

    assert_eq!(cause(&seen, "Kubelet"), Some(&Cause::Forbidden));
    assert_eq!(requests.iter().filter(|(_, uri)| uri.contains("/proxy/")).count(), 1);
}
