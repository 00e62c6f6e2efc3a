//! Further manifests of a release, look by look: read, applied, waited for.

use super::manifests::{all_raised, told};
use super::*;

const URL: &str = "http://upgrade-repo-u.harvester-system/harvester-iso/manifests/csi.yaml";
const KEY: &str = "manifest.manifests.csi.yaml";

/// With an Upgrade whose release brings the manifest.
fn with(done: &Done, more: &[Value]) -> Next {
    let release = json!({ "manifests": ["manifests/csi.yaml"] });
    services(&release, done, all_raised().into_iter().chain(more.iter().cloned()))
}

fn book(state: &str) -> Value {
    let mut states = told(["done"; 14]);
    states[KEY] = json!(state);
    map("u-apply-manifests", states)
}

fn read(text: &str) -> Done {
    let file = Tried { at: noon(), answer: Ok(text.to_owned()) };
    Done { files: BTreeMap::from([(URL.to_owned(), file)]), ..Done::default() }
}

fn applied(mut done: Done, object: &str, answer: Result<i64, &str>) -> Done {
    let answer = answer.map_err(str::to_owned);
    done.applied.insert(object.to_owned(), Tried { at: noon(), answer });
    done
}

const OBJECTS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: csi, namespace: shop }
---
apiVersion: v1
kind: Namespace
metadata: { name: shop }
";

#[test]
fn a_manifest_is_read_from_the_repository_and_applied_object_by_object() {
    assert_eq!(with(&Done::default(), &[]), Next::Read(URL.to_owned()));
    let Next::Apply(first) = with(&read(OBJECTS), &[]) else { panic!() };
    assert_eq!(first["kind"], "Namespace", "others are made in it");
    let Next::Apply(second) = with(&applied(read(OBJECTS), "Namespace shop", Ok(0)), &[]) else { panic!() };
    assert_eq!(second["kind"], "Deployment");
}

#[test]
fn what_runs_pods_is_waited_for_until_it_is_rolled_out_as_it_was_applied() {
    let done = applied(applied(read(OBJECTS), "Namespace shop", Ok(0)), "Deployment shop/csi", Ok(2));
    let deployment = |generation: i64, available: i64| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "csi", "namespace": "shop", "generation": generation }, "spec": { "replicas": 1 },
            "status": {
                "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available,
            },
        })
    };
    let sentence = "Deployment shop/csi of the manifest manifests/csi.yaml is not rolled out";
    let waited = |more: &[Value]| {
        let next = with(&done, &[more, &[book("under way")]].concat());
        waits(&next).into_iter().map(|(_, sentence)| sentence.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(waited(&[]), [sentence]);
    assert_eq!(waited(&[deployment(1, 1)]), [sentence], "that was before");
    assert_eq!(waited(&[deployment(2, 0)]), [sentence]);
    assert_eq!(with(&done, &[deployment(2, 1), book("done")]), Next::Done);
}

#[test]
fn what_cannot_be_read_or_applied_is_told_with_its_words_and_tried_again() {
    let later = Timestamp::from_second(noon().as_second() - 10).unwrap();
    let mut unread = Done::default();
    unread.files.insert(URL.to_owned(), Tried { at: noon(), answer: Err("cannot be read: 404".to_owned()) });
    assert_eq!(waits(&with(&unread, &[]))[0].1, "the manifest manifests/csi.yaml of the release cannot be read: 404");
    unread.files.get_mut(URL).unwrap().at = later;
    assert_eq!(with(&unread, &[]), Next::Read(URL.to_owned()));

    let mut garbled = read("kind: [");
    let said = with(&garbled, &[]);
    assert!(waits(&said)[0].1.contains("cannot be used: it is not YAML"), "{said:?}");
    garbled.files.get_mut(URL).unwrap().at = later;
    assert_eq!(with(&garbled, &[]), Next::Read(URL.to_owned()));
    assert!(waits(&with(&read("a: 1"), &[]))[0].1.contains("document 1 has no apiVersion"));

    let mut refused = applied(read(OBJECTS), "Namespace shop", Err("it is forbidden"));
    let sentence = "Namespace shop of the manifest manifests/csi.yaml cannot be applied: it is forbidden";
    assert_eq!(waits(&with(&refused, &[]))[0].1, sentence);
    refused.applied.get_mut("Namespace shop").unwrap().at = later;
    assert!(matches!(with(&refused, &[]), Next::Apply(_)));
}

#[test]
fn a_daemon_set_of_a_manifest_is_not_waited_for_on_a_node_that_takes_no_part() {
    let text = "{ apiVersion: apps/v1, kind: DaemonSet, metadata: { name: csi, namespace: shop } }";
    let done = applied(read(text), "DaemonSet shop/csi", Ok(2));
    let pod = |node: &str, template: &str, ready: &str| daemon("shop", "csi", node, template, ready);
    let next = |second: &str, astray: i64| {
        let nodes = [member("node-1").to_vec(), member("node-2").to_vec(), vec![node("stray", json!({}))]].concat();
        let pods = [pod("node-1", "2", "True"), pod("node-2", second, "True"), pod("stray", "1", "Unknown")];
        let mut set = daemon_set("shop", "csi", 2 - astray, 2);
        set["status"]["desiredNumberScheduled"] = json!(3 - astray);
        set["status"]["numberMisscheduled"] = json!(astray);
        with(&done, &[&nodes, pods.as_slice(), &[set, book("done without stray")]].concat())
    };
    assert_eq!(next("2", 0), Next::Done);
    let sentence = "DaemonSet shop/csi of the manifest manifests/csi.yaml is not rolled out; \
                    its pods on stray are not ready, either (no part of the upgrade)";
    assert_eq!(waits(&next("1", 0)), [(Reason::ServiceNotReady, sentence)]);
    // Where Kubernetes does not count it, nothing is taken off.
    assert_eq!(waits(&next("1", 1)), [(Reason::ServiceNotReady, sentence)]);
}
