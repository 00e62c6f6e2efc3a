//! What serves the charts of Harvester comes to the new release before any chart does.

use super::manifests::all_raised;
use super::*;

const SUBJECT: &str = "ClusterRepo/harvester-charts";
const READ: &str = "2026-01-01T11:30:00Z";

/// What comes next after a Deployment of this image and generation, of which so many pods are new, and a ClusterRepo.
fn next_of(os: &str, done: &Done, served: Value, repo: Value) -> Next {
    services(&json!({ "os": os }), done, all_raised().into_iter().chain([served, repo]))
}

fn served(image: &str, generation: i64, updated: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "harvester-cluster-repo", "namespace": "cattle-system", "generation": generation },
        "spec": { "template": { "spec": { "containers": [{ "name": "httpd", "image": image }] } } },
        "status": { "observedGeneration": generation, "replicas": 1, "updatedReplicas": updated, "availableReplicas": 1 },
    })
}

fn repo(more: Value) -> Value {
    let mut repo = json!({
        "apiVersion": "catalog.cattle.io/v1", "kind": "ClusterRepo",
        "metadata": { "name": "harvester-charts", "resourceVersion": "6" }, "status": { "downloadTime": READ },
    });
    json_patch::merge(&mut repo, &more);
    repo
}

fn asked(mark: &str) -> Value {
    json!({
        "metadata": { "annotations": { "drover.dev/read-for": mark } },
        "spec": { "forceUpdate": "2026-01-01T11:30:01Z" },
    })
}

fn waited(next: &Next) -> Vec<String> {
    waits(next).into_iter().map(|(_, sentence)| sentence.to_owned()).collect()
}

#[test]
fn what_serves_charts_gets_the_image_of_the_release_from_where_it_came() {
    let image = |runs: &str, os: &str| match next_of(os, &Done::default(), served(runs, 1, 1), repo(json!({}))) {
        Next::Apply(object) => Some(object["spec"]["template"]["spec"]["containers"][0]["image"].clone()),
        _ => None,
    };
    let os = "Harvester v1.8.0";
    for (runs, after) in [
        ("rancher/harvester-cluster-repo:v1.7.0", "rancher/harvester-cluster-repo:v1.8.0"),
        ("mirror:5000/rancher/harvester-cluster-repo", "mirror:5000/rancher/harvester-cluster-repo:v1.8.0"),
        ("mirror:5000/charts:v1.7.0@sha256:ab", "mirror:5000/charts:v1.8.0"),
    ] {
        assert_eq!(image(runs, os), Some(json!(after)));
    }
    assert_eq!(image("rancher/harvester-cluster-repo:v1.8.0", os), None, "it has it");
    assert_eq!(image("rancher/harvester-cluster-repo:v1.7.0", "A system without a version"), None);
}

#[test]
fn an_image_that_is_refused_is_tried_again_and_one_that_was_taken_is_waited_for() {
    let old = || served("charts:v1.7.0", 1, 1);
    let tried = |answer: Result<i64, String>| {
        let tried = Tried { at: noon(), answer };
        let applied = BTreeMap::from([("Deployment cattle-system/harvester-cluster-repo".to_owned(), tried)]);
        Done { applied, ..Done::default() }
    };
    let refused = tried(Err("no quota".to_owned()));
    assert!(refused.may_change());
    let next = next_of("Harvester v1.8.0", &refused, old(), repo(json!({})));
    assert_eq!(waited(&next), ["Deployment cattle-system/harvester-cluster-repo cannot be applied: no quota"]);

    let rolls =
        ["Deployment cattle-system/harvester-cluster-repo, which serves charts, is not rolled out at charts:v1.8.0"];
    let unseen = next_of("Harvester v1.8.0", &tried(Ok(2)), old(), repo(json!({})));
    assert_eq!(waited(&unseen), rolls);
    let under_way = next_of("Harvester v1.8.0", &tried(Ok(2)), served("charts:v1.8.0", 2, 0), repo(json!({})));
    assert_eq!(waited(&under_way), rolls);
    let put_back = next_of("Harvester v1.8.0", &tried(Ok(2)), served("charts:v1.7.0", 3, 1), repo(json!({})));
    assert!(matches!(put_back, Next::Apply(_)), "{put_back:?}");
}

#[test]
fn rancher_is_asked_once_for_each_image_to_read_the_charts_anew_and_is_waited_for() {
    let with = |more: Value| next_of("Harvester v1.8.0", &Done::default(), served("charts:v1.8.0", 2, 1), repo(more));
    let patch = json!({
        "metadata": { "resourceVersion": "6", "annotations": { "drover.dev/read-for": "u/2" } },
        "spec": { "forceUpdate": "2026-01-01T11:30:01Z" },
    });
    assert_eq!(acts(&with(json!({})))[0], (SUBJECT.to_owned(), patch));
    assert_eq!(acts(&with(asked("u/1")))[0].0, SUBJECT, "that was another image");
    let never = with(json!({ "status": { "downloadTime": null } }));
    assert_eq!(acts(&never)[0].1["spec"]["forceUpdate"], "2026-01-01T11:59:59Z");

    let unread = "Rancher has not read the charts of ClusterRepo harvester-charts anew";
    assert_eq!(waited(&with(asked("u/2"))), [unread]);
    let mut fails = asked("u/2");
    fails["status"] =
        json!({ "conditions": [{ "type": "Downloaded", "status": "False", "message": "connection refused" }] });
    assert_eq!(waited(&with(fails)), [format!("{unread}: connection refused")]);
    let mut read = asked("u/2");
    read["status"] = json!({ "downloadTime": "2026-01-01T11:30:01Z" });
    assert_eq!(waited(&with(read)), [""; 0]);

    // Rancher would not heed a moment that is not over.
    let just_now = with(json!({ "status": { "downloadTime": "2026-01-01T12:00:00Z" } }));
    let Next::Wait { waits, .. } = &just_now else { panic!("{just_now:?}") };
    assert_eq!(waits[0].deadline, Some("2026-01-01T12:00:02Z".parse().unwrap()));
}

#[test]
fn a_cluster_whose_charts_come_from_elsewhere_is_left_alone() {
    let mut other = served("charts:v1.7.0", 1, 1);
    other["spec"]["template"]["spec"]["containers"][0]["name"] = json!("other");
    let next = next_of("Harvester v1.8.0", &Done::default(), other, repo(json!({})));
    assert_eq!((waited(&next).len(), acts(&next).len()), (0, 1), "it is told that all is done");
}
