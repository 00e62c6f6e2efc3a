//! Workloads, services, volumes and what else the original serves.

use serde_json::{Value, json};

use super::support::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn workload(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } },
                          "spec": { "containers": [{ "name": "main", "image": "web:v1" }] } },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_its_defaults_and_no_status() {
    let server = server();
    let mut sent = workload("web");
    sent["status"] = json!({ "replicas": 7 });

    let made = server.make(DEPLOYMENTS, sent).await.ok();

    assert_eq!(made["spec"]["replicas"], 1);
    assert_eq!(made["spec"]["progressDeadlineSeconds"], 600);
    let update = json!({ "maxUnavailable": "25%", "maxSurge": "25%" });
    assert_eq!(made["spec"]["strategy"], json!({ "type": "RollingUpdate", "rollingUpdate": update }));
    assert_eq!(made["spec"]["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!((&made["status"], &made["metadata"]["generation"]), (&json!({}), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_counted_on_when_its_spec_or_an_annotation_changes() {
    let server = server();
    server.make(DEPLOYMENTS, workload("web")).await.ok();
    let web = format!("{DEPLOYMENTS}/web");
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();

    let labelled = server.merge(&web, json!({ "metadata": { "labels": { "a": "b" } } })).await.ok();
    let annotated = server.merge(&web, json!({ "metadata": { "annotations": { "a": "b" } } })).await.ok();
    let scaled = server.merge(&web, json!({ "spec": { "replicas": 3 } })).await.ok();
    let status = server.merge(&format!("{web}/status"), json!({ "status": { "replicas": 3 } })).await.ok();

    assert_eq!([&labelled, &annotated, &scaled, &status].map(generation), [1, 2, 3, 3]);
    let wrong = server.merge(&format!("{web}/status"), json!({ "status": { "readyReplicas": 4 } })).await;
    assert_eq!(
        wrong.message(),
        "Deployment.apps \"web\" is invalid: status.readyReplicas: Invalid value: 4: cannot be greater than status.replicas"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_would_not_find_its_pods_is_refused() {
    let server = server();
    let mut other = workload("web");
    other["spec"]["selector"]["matchLabels"]["app"] = json!("db");
    other["spec"]["replicas"] = json!(-1);
    assert_eq!(
        server.make(DEPLOYMENTS, other).await.message(),
        "Deployment.apps \"web\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, \
         spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`]"
    );
    server.make(DEPLOYMENTS, workload("web")).await.ok();
    let changed = json!({ "spec": { "selector": { "matchLabels": { "app": "db" } },
                                    "template": { "metadata": { "labels": { "app": "db" } } } } });
    let refused = server.merge(&format!("{DEPLOYMENTS}/web"), changed).await;
    assert!(refused.message().contains("spec.selector: Invalid value"), "{}", refused.message());
    assert!(refused.message().ends_with("field is immutable"), "{}", refused.message());
}

#[tokio::test(start_paused = true)]
async fn most_of_a_stateful_set_cannot_be_changed() {
    let server = server();
    let made = server.make(STATEFUL_SETS, workload("db")).await.ok();
    assert_eq!(made["spec"]["podManagementPolicy"], "OrderedReady");
    assert_eq!(made["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"], "Retain");
    assert_eq!(made["status"], json!({ "replicas": 0, "availableReplicas": 0 }));

    server.merge(&format!("{STATEFUL_SETS}/db"), json!({ "spec": { "replicas": 2 } })).await.ok();
    let refused = server.merge(&format!("{STATEFUL_SETS}/db"), json!({ "spec": { "serviceName": "x" } })).await;
    assert_eq!(refused.code, 422);
    assert!(refused.message().contains("updates to statefulset spec for fields other than 'replicas'"));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_counts_the_changes_of_its_template() {
    let server = server();
    let noted = |object: &Value| object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
    let made = server.make(DAEMON_SETS, workload("agent")).await.ok();
    let patch = json!({ "spec": { "template": { "metadata": { "labels": { "more": "yes" } } } } });
    let changed = server.merge(&format!("{DAEMON_SETS}/agent"), patch).await.ok();
    let labelled =
        server.merge(&format!("{DAEMON_SETS}/agent"), json!({ "metadata": { "labels": { "a": "b" } } })).await.ok();
    assert_eq!([noted(&made), noted(&changed), noted(&labelled)], ["1", "2", "2"]);
    assert_eq!(labelled["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_an_address_that_no_other_has_and_gives_it_back() {
    let server = server();
    let service = |name: &str| json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
    let made = server.make(SERVICES, service("web")).await.ok();
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_string();
    assert_eq!(made["spec"]["ports"][0], json!({ "port": 80, "protocol": "TCP", "targetPort": 80 }));
    assert_eq!(made["status"], json!({ "loadBalancer": {} }));

    let mut same = service("db");
    same["spec"]["clusterIP"] = json!(address);
    let refused = server.make(SERVICES, same.clone()).await;
    assert_eq!(refused.code, 422);
    assert!(refused.message().contains("provided IP is already allocated"), "{}", refused.message());
    let dry = server.make(&format!("{SERVICES}?dryRun=All"), service("dry")).await.ok();
    assert_ne!(dry["spec"]["clusterIP"], json!(address));

    server.remove(&format!("{SERVICES}/web")).await.ok();
    server.make(SERVICES, same).await.ok();
    let taken = server.read("/apis/networking.k8s.io/v1/ipaddresses").await.ok();
    assert_eq!(taken["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_on_the_nodes_keeps_its_port() {
    let server = server();
    let made = server
        .make(
            SERVICES,
            json!({ "metadata": { "name": "web" }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } }),
        )
        .await
        .ok();
    let port = made["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&port));
    let changed = server.merge(&format!("{SERVICES}/web"), json!({ "spec": { "ports": [{ "port": 81 }] } })).await.ok();
    assert_eq!(changed["spec"]["ports"][0]["nodePort"], port);
    let inside = server.merge(&format!("{SERVICES}/web"), json!({ "spec": { "type": "ClusterIP" } })).await.ok();
    assert!(inside["spec"]["ports"][0].get("nodePort").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_refused_without_what_it_needs_and_hardly_changes_afterwards() {
    let server = server();
    let refused = server.make(CLAIMS, json!({ "metadata": { "name": "data" } })).await;
    assert_eq!(
        refused.message(),
        "PersistentVolumeClaim \"data\" is invalid: [spec.accessModes: Required value: at least 1 access mode is \
         required, spec.resources[storage]: Required value]"
    );
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1024Mi" } } } });
    let made = server.make(CLAIMS, claim).await.ok();
    assert_eq!(made["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(made["status"], json!({ "phase": "Pending" }));
    let changed = server.merge(&format!("{CLAIMS}/data"), json!({ "spec": { "storageClassName": "fast" } })).await;
    assert!(changed.message().contains("spec is immutable after creation"), "{}", changed.message());
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_the_priority_of_its_class() {
    let server = server();
    server.make(PRIORITY_CLASSES, json!({ "metadata": { "name": "high" }, "value": 1000 })).await.ok();
    let mut high = pod("a");
    high["spec"]["priorityClassName"] = json!("high");
    assert_eq!(server.make(PODS, high).await.ok()["spec"]["priority"], 1000);
    let mut critical = pod("b");
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    assert_eq!(server.make(PODS, critical).await.ok()["spec"]["priority"], 2_000_001_000);
    let mut unknown = pod("c");
    unknown["spec"]["priorityClassName"] = json!("none");
    let refused = server.make(PODS, unknown).await;
    assert_eq!(
        (refused.code, refused.message()),
        (403, "pods \"c\" is forbidden: no PriorityClass with name none was found")
    );
    let changed = server.merge(&format!("{PRIORITY_CLASSES}/high"), json!({ "value": 1 })).await;
    assert!(changed.message().ends_with("value: Forbidden: may not be changed in an update."));
}

#[tokio::test(start_paused = true)]
async fn every_other_kind_is_kept_and_its_fields_are_checked() {
    let server = server();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    server.make(roles, json!({ "metadata": { "name": "system:reader" }, "rules": [{ "verbs": ["get"] }] })).await.ok();
    assert_eq!(server.read(&format!("{roles}/system:reader")).await.ok()["rules"][0]["verbs"], json!(["get"]));
    let wrong = server.make(roles, json!({ "metadata": { "name": "b" }, "rules": "all" })).await;
    assert_eq!(wrong.code, 400);
    for path in [
        "/apis/storage.k8s.io/v1/storageclasses",
        "/apis/batch/v1/cronjobs",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        "/apis/networking.k8s.io/v1/networkpolicies",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/api/v1/resourcequotas",
    ] {
        assert_eq!(server.read(path).await.ok()["items"], json!([]), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_as_by_a_server_where_everybody_may_do_everything() {
    let server = server();
    let question = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                           "spec": { "resourceAttributes": { "verb": "delete", "resource": "nodes" } } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(server.make(path, question).await.ok()["status"], json!({ "allowed": true }));
    assert_eq!(server.read(path).await.code, 405);
    let nothing = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {} });
    assert_eq!(server.make(path, nothing).await.code, 422);
    let who = server.make("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.ok();
    assert_eq!(who["status"]["userInfo"]["username"], "test");
}

#[tokio::test(start_paused = true)]
async fn a_service_account_gets_a_token_that_the_server_knows_again() {
    let server = server();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    server.make(accounts, json!({ "metadata": { "name": "robot" } })).await.ok();
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let given = server.make(&format!("{accounts}/robot/token"), request.clone()).await.ok();
    assert_eq!(given["status"]["expirationTimestamp"], "2026-01-01T13:00:00Z");
    let review = json!({ "spec": { "token": given["status"]["token"] } });
    let known = server.make("/apis/authentication.k8s.io/v1/tokenreviews", review).await.ok();
    assert_eq!(known["status"]["user"]["username"], "system:serviceaccount:default:robot");
    assert_eq!(server.make(&format!("{accounts}/nobody/token"), request).await.code, 404);
}
