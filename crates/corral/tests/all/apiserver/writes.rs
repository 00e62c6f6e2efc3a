//! Create, update and patch.

use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_created_object_has_an_identity_that_follows_from_the_seed() {
    let made = server().make(CONFIG_MAPS, config_map("a")).await;
    let same = server().make(CONFIG_MAPS, config_map("a")).await;

    assert_eq!(made.code, 201);
    assert_eq!(made.body, same.body);
    assert_eq!(made.body["metadata"]["creationTimestamp"], "2026-01-01T12:00:00Z");
    assert_eq!(made.body["metadata"]["namespace"], "default");
    assert_eq!(made.body["metadata"]["uid"].as_str().unwrap().len(), 36);
}

#[tokio::test(start_paused = true)]
async fn what_exists_cannot_be_created_again() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();

    let again = server.make(CONFIG_MAPS, config_map("a")).await;

    assert_eq!(again.code, 409);
    assert_eq!(again.body["reason"], "AlreadyExists");
    assert_eq!(again.message(), "configmaps \"a\" already exists");
    assert_eq!(again.body["details"], json!({ "name": "a", "kind": "configmaps" }));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_does_not_exist() {
    let answer = server().make("/api/v1/namespaces/nowhere/configmaps", config_map("a")).await;
    assert_eq!(answer.code, 404);
    assert_eq!(answer.message(), "namespaces \"nowhere\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_follows_from_the_seed_and_differs_from_the_next_one() {
    let generated = json!({ "metadata": { "generateName": "a-" } });
    let names = async || {
        let server = server();
        let first = server.make(CONFIG_MAPS, generated.clone()).await.ok();
        let second = server.make(CONFIG_MAPS, generated.clone()).await.ok();
        [first, second].map(|object| object["metadata"]["name"].as_str().unwrap().to_string())
    };

    let [first, second] = names().await;

    assert!(first.starts_with("a-") && first.len() == 7, "{first}");
    assert_ne!(first, second);
    assert_eq!([first, second], names().await);
}

#[tokio::test(start_paused = true)]
async fn a_bad_name_is_refused_with_its_cause() {
    let answer = server().make(CONFIG_MAPS, config_map("Bad_Name")).await;

    assert_eq!(answer.code, 422);
    assert!(answer.message().starts_with(
        "ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain"
    ));
    let causes = answer.body["details"]["causes"].as_array().unwrap();
    assert_eq!((causes.len(), causes[0]["field"].as_str()), (1, Some("metadata.name")));
    assert_eq!(causes[0]["reason"], "FieldValueInvalid");
}

#[tokio::test(start_paused = true)]
async fn bad_labels_are_refused_one_by_one() {
    let labels = json!({ "a b": "x", "good": "-bad-", "long": "a".repeat(64) });
    let answer = server().make(CONFIG_MAPS, labelled("a", labels)).await;
    assert_eq!((answer.code, answer.body["details"]["causes"].as_array().unwrap().len()), (422, 3));
}

#[tokio::test(start_paused = true)]
async fn an_update_with_an_old_version_conflicts_and_one_without_any_is_taken() {
    let server = server();
    let first = server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!("{CONFIG_MAPS}/a");
    server.merge(&path, json!({ "data": { "key": "newer" } })).await.ok();

    let stale = server.put(&path, first).await;
    let unconditional = server.put(&path, config_map("a")).await;

    assert_eq!((stale.code, stale.body["reason"].as_str()), (409, Some("Conflict")));
    assert!(stale.message().contains("the object has been modified; please apply your changes to the latest version"));
    assert_eq!(unconditional.code, 200);
    assert_eq!(unconditional.body["data"]["key"], "value");
}

#[tokio::test(start_paused = true)]
async fn an_update_of_another_object_of_the_same_name_conflicts() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let mut other = config_map("a");
    other["metadata"]["uid"] = json!("another");

    let answer = server.put(&format!("{CONFIG_MAPS}/a"), other).await;

    assert_eq!(answer.code, 409);
    assert!(answer.message().contains("Precondition failed: UID in precondition: another"), "{}", answer.message());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_insists_on_a_version_says_so() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    server.make(PLANS, plan("a")).await.ok();

    let answer = server.put(&format!("{PLANS}/a"), plan("a")).await;

    assert_eq!(answer.code, 422);
    assert_eq!(
        answer.message(),
        "plans.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_that_changes_nothing_has_no_version_of_its_own() {
    let server = server();
    let before = server.make(CONFIG_MAPS, config_map("a")).await.version();
    let path = format!("{CONFIG_MAPS}/a");
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={before}")).await;

    let patched = server.merge(&path, json!({ "data": { "key": "value" } })).await;
    let updated = server.put(&path, config_map("a")).await;
    let tested = json!([{ "op": "test", "path": "/data/key", "value": "value" }]).to_string();
    let tested = server.ask("PATCH", &path, JSON_PATCH, tested).await;

    for answer in [patched, updated, tested] {
        assert_eq!((answer.code, answer.version()), (200, before.clone()));
    }
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_adds_changes_and_removes() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let changes = json!({ "data": { "key": null, "new": "x" }, "metadata": { "labels": { "l": "1" } } });

    let object = server.merge(&format!("{CONFIG_MAPS}/a"), changes).await.ok();

    assert_eq!(object["data"], json!({ "new": "x" }));
    assert_eq!(object["metadata"]["labels"], json!({ "l": "1" }));
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_applies_as_a_whole_or_not_at_all() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!("{CONFIG_MAPS}/a");
    let patch = |wanted: &str| {
        let first = json!({ "op": "add", "path": "/data/other", "value": "x" });
        json!([first, { "op": "test", "path": "/data/key", "value": wanted }]).to_string()
    };

    let refused = server.ask("PATCH", &path, JSON_PATCH, patch("something else")).await;
    let unchanged = server.read(&path).await.ok();
    let taken = server.ask("PATCH", &path, JSON_PATCH, patch("value")).await.ok();

    assert_eq!((refused.code, refused.body["reason"].as_str()), (422, Some("Invalid")));
    assert_eq!(unchanged["data"], json!({ "key": "value" }));
    assert_eq!(taken["data"], json!({ "key": "value", "other": "x" }));
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_that_moves_from_an_empty_list_does_no_harm() {
    let server = server();
    server.make(PODS, pod("a")).await.ok();
    let patch = json!([
        { "op": "add", "path": "/spec/volumes", "value": [] },
        { "op": "move", "from": "/spec/volumes/-", "path": "/spec/x" },
    ]);
    let answer = server.ask("PATCH", &format!("{PODS}/a"), JSON_PATCH, patch.to_string()).await;
    assert_eq!(answer.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_version_inside_a_patch_is_a_lock() {
    let server = server();
    let version = server.make(CONFIG_MAPS, config_map("a")).await.version();
    let path = format!("{CONFIG_MAPS}/a");
    let locked = |value: &str| json!({ "metadata": { "resourceVersion": version }, "data": { "key": value } });

    let first = server.merge(&path, locked("one")).await;
    let second = server.merge(&path, locked("two")).await;

    assert_eq!((first.code, second.code), (200, 409));
    assert_eq!(server.read(&path).await.ok()["data"]["key"], "one");
}

#[tokio::test(start_paused = true)]
async fn a_patch_cannot_turn_an_object_into_another() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!("{CONFIG_MAPS}/a");

    let renamed = server.merge(&path, json!({ "metadata": { "name": "b" } })).await;
    let other_uid = server.merge(&path, json!({ "metadata": { "uid": "x" } })).await;

    assert_eq!(renamed.code, 400);
    assert_eq!(renamed.message(), "the name of the object (b) does not match the name on the URL (a)");
    assert_eq!(other_uid.code, 422);
    assert_eq!(
        other_uid.message(),
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable"
    );
}

#[tokio::test(start_paused = true)]
async fn a_strategic_merge_matches_containers_by_name_and_is_for_built_in_kinds() {
    let server = server();
    server.make(PODS, pod("a")).await.ok();
    let changes = json!({ "spec": { "containers": [{ "name": "main", "image": "web:v2" }] } }).to_string();

    let patched = server.ask("PATCH", &format!("{PODS}/a"), STRATEGIC, &changes).await.ok();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    server.make(PLANS, plan("a")).await.ok();
    let refused = server.ask("PATCH", &format!("{PLANS}/a"), STRATEGIC, &changes).await;

    assert_eq!(patched["spec"]["containers"][0]["image"], "web:v2");
    assert_eq!(patched["spec"]["containers"][0]["terminationMessagePolicy"], "File");
    assert_eq!((refused.code, refused.body["reason"].as_str()), (415, Some("UnsupportedMediaType")));
}

#[tokio::test(start_paused = true)]
async fn a_body_may_be_yaml_and_must_be_something() {
    let server = server();
    let yaml = "kind: ConfigMap\nmetadata:\n  name: a\ndata:\n  on: \"yes\"\n";

    let made = server.ask("POST", CONFIG_MAPS, "application/yaml", yaml).await.ok();
    let broken = server.ask("POST", CONFIG_MAPS, JSON, "{broken").await;
    let protobuf = server.ask("POST", CONFIG_MAPS, "application/vnd.kubernetes.protobuf", "k8s").await;

    assert_eq!(made["data"]["on"], "yes");
    assert_eq!(broken.code, 400);
    assert!(broken.message().starts_with("the object provided is unrecognized (must be of type ConfigMap)"));
    assert_eq!(protobuf.code, 400);
    assert!(protobuf.message().contains("does not appear to be a protobuf message"), "{}", protobuf.message());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_something_else_is_refused() {
    let server = server();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    let elsewhere = json!({ "metadata": { "name": "a", "namespace": "kube-system" } });
    let number = json!({ "metadata": { "name": "a" }, "data": { "key": 5 } });

    for (object, why) in [
        (secret, "Secret in version \"v1\" cannot be handled as a ConfigMap"),
        (elsewhere, "the namespace of the provided object does not match the namespace sent on the request"),
        (number, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
    ] {
        let answer = server.make(CONFIG_MAPS, object).await;
        assert_eq!(answer.code, 400);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_can_be_created_by_an_update() {
    let server = server();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader";
    let lease = json!({ "metadata": { "name": "leader" }, "spec": { "holderIdentity": "a" } });

    assert_eq!(server.put(path, lease).await.code, 201);
    assert_eq!(server.put(&format!("{CONFIG_MAPS}/a"), config_map("a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_insists_is_told_which_fields_are_unknown() {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    let mut misspelt = plan("a");
    misspelt["spec"]["concurency"] = json!(2);
    server.make(PLANS, plan("b")).await.ok();

    let refused = server.make(&format!("{PLANS}?fieldValidation=Strict"), misspelt.clone()).await;
    let patch =
        server.merge(&format!("{PLANS}/b?fieldValidation=Strict"), json!({ "spec": { "concurency": 2 } })).await;
    let built_in = server.make(&format!("{PODS}?fieldValidation=Strict"), json!({ "metadata": { "nme": "x" } })).await;

    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.message(),
        "Plan in version \"v1\" cannot be handled as a Plan: strict decoding error: unknown field \"spec.concurency\""
    );
    assert_eq!(patch.code, 422);
    assert!(
        patch.message().ends_with("strict decoding error: unknown field \"spec.concurency\""),
        "{}",
        patch.message()
    );
    assert!(built_in.message().ends_with("unknown field \"metadata.nme\""));
    assert_eq!(server.make(PLANS, misspelt).await.code, 201, "others have it dropped");
}
