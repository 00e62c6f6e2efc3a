use drover_api::plan::jobs::DROVER_IMAGE;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

/// A Plan, a node and the settings; what a test does not set is as plain as can be.
struct Ordered {
    plan: Meta,
    spec: PlanSpec,
    node: &'static str,
    hostname: &'static str,
    is_windows: bool,
    settings: JobSettings,
}

fn ordered(spec: Value) -> Ordered {
    let mut whole = json!({ "concurrency": 1, "nodeSelector": {}, "upgrade": { "image": "test-image:latest" } });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    Ordered {
        plan: serde_json::from_value(json!({ "name": "test-1", "namespace": "default", "uid": "plan-uid" })).unwrap(),
        spec: serde_json::from_value(whole).unwrap(),
        node: "prod.test.local",
        hostname: "prod.test.local",
        is_windows: false,
        settings: JobSettings::default(),
    }
}

impl Ordered {
    fn job(&self) -> Value {
        let order = JobOrder {
            plan: &self.plan,
            spec: &self.spec,
            node: self.node,
            hostname: self.hostname,
            shares_short_name: false,
            is_windows: self.is_windows,
            hash: &LatestHash::of_test("dd38523bea595527142b5fdbebfe865fa6fbd1260b55b19eb1f12961"),
            version: "1.0",
            template: "t1",
            claim: &ClaimId::from("c1"),
            settings: &self.settings,
        };
        json!(job(&order))
    }

    fn pod(&self) -> Value {
        self.job()["spec"]["template"]["spec"].clone()
    }
}

#[derive(Deserialize)]
struct Vectors {
    jobs: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    plan: VectorPlan,
    node: String,
    job: Value,
}

#[derive(Deserialize)]
struct VectorPlan {
    metadata: Meta,
    spec: PlanSpec,
}

#[test]
fn jobs_are_those_of_the_original() {
    let vectors: Vectors = serde_json::from_str(include_str!("../testdata/jobs.json")).unwrap();
    assert_eq!(vectors.jobs.len(), 2);

    for vector in vectors.jobs {
        let VectorPlan { metadata, spec } = &vector.plan;
        let hash = super::super::hash::latest_hash("1.0", spec, &json!({}), |_| None).unwrap();
        let order = JobOrder {
            plan: metadata,
            spec,
            node: &vector.node,
            hostname: &vector.node,
            shares_short_name: false,
            is_windows: false,
            hash: &hash,
            version: "1.0",
            template: "t1",
            claim: &ClaimId::from("c1"),
            settings: &JobSettings::default(),
        };

        let mut ours = json!(job(&order));
        take_out_what_is_ours(&mut ours);
        default_as_the_api_server(&mut ours);

        assert_eq!(ours, vector.job, "\nours: {ours:#}\ntheirs: {:#}", vector.job);
    }
}

/// Each must be there to be taken out. The uid is not ours, but was removed from the recorded Jobs.
fn take_out_what_is_ours(job: &mut Value) {
    let metadata = &mut job["metadata"];
    let uid = metadata["ownerReferences"][0].as_object_mut().unwrap().remove("uid");
    assert_eq!(uid, Some(json!("a-uid")));
    let finalizers = metadata.as_object_mut().unwrap().remove("finalizers");
    assert_eq!(finalizers, Some(json!(["foregroundDeletion"])), "it goes after its pod");
    for marked in ["labels", "annotations"] {
        let claim = metadata[marked].as_object_mut().unwrap().remove("drover.dev/claim");
        assert_eq!(claim, Some(json!("c1")), "{marked}");
    }
    let template = metadata["annotations"].as_object_mut().unwrap().remove("drover.dev/template");
    assert_eq!(template, Some(json!("t1")));
    if let Some(cordon) = job.pointer_mut("/spec/template/spec/initContainers/0") {
        assert_eq!(cordon["image"], DROVER_IMAGE);
        cordon["image"] = json!("rancher/kubectl:v1.30.3");
    }
    let term = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/\
                nodeSelectorTerms/0/matchExpressions";
    let claim = job.pointer_mut(term).unwrap().as_array_mut().unwrap().pop();
    assert_eq!(claim, Some(json!({ "key": "drover.dev/claim", "operator": "In", "values": ["c1"] })));
}

/// What kube-apiserver 1.34 fills in when such a Job is created.
fn default_as_the_api_server(job: &mut Value) {
    let spec = &mut job["spec"];
    default(spec, "completionMode", json!("NonIndexed"));
    default(spec, "manualSelector", json!(false));
    default(spec, "suspend", json!(false));
    let pod = &mut spec["template"]["spec"];
    default(pod, "schedulerName", json!("default-scheduler"));
    default(pod, "securityContext", json!({}));
    default(pod, "terminationGracePeriodSeconds", json!(30));
    for list in ["initContainers", "containers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            default(container, "resources", json!({}));
            default(container, "terminationMessagePath", json!("/dev/termination-log"));
            default(container, "terminationMessagePolicy", json!("File"));
            for variable in container["env"].as_array_mut().unwrap() {
                if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
                    default(field, "apiVersion", json!("v1"));
                }
            }
        }
    }
}

fn default(of: &mut Value, field: &str, value: Value) {
    assert_eq!(of.get(field), None, "{field} is ours: take it out of the list of defaults");
    of[field] = value;
}

#[test]
fn a_job_belongs_to_its_plan() {
    let job = ordered(json!({})).job();

    assert_eq!(
        job["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "upgrade.cattle.io/v1",
            "kind": "Plan",
            "name": "test-1",
            "uid": "plan-uid",
            "controller": true,
            "blockOwnerDeletion": false,
        }])
    );
    assert_eq!(job["metadata"]["namespace"], "default");
}

#[test]
fn a_pod_needs_the_node_and_the_claim_on_it() {
    let order = Ordered { node: "n1", hostname: "host-1", ..ordered(json!({})) };

    assert_eq!(
        order.pod()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
        json!([{ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"] },
            { "key": "drover.dev/claim", "operator": "In", "values": ["c1"] },
        ] }])
    );
    assert_eq!(order.job()["metadata"]["labels"]["upgrade.cattle.io/node"], "n1");
    assert_eq!(order.job()["spec"]["template"]["metadata"]["labels"]["drover.dev/claim"], Value::Null);
}

#[test]
fn an_exclusive_plan_keeps_away_from_all_exclusive_plans() {
    let anti_affinity = |exclusive: bool| {
        let pod = ordered(json!({ "exclusive": exclusive })).pod();
        pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].clone()
    };
    let term = |key: &str, value: &str| {
        let expression = json!({ "key": key, "operator": "In", "values": [value] });
        let selector = json!({ "matchExpressions": [expression] });
        json!([{ "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" }])
    };

    assert_eq!(anti_affinity(true), term("upgrade.cattle.io/exclusive", "true"));
    assert_eq!(anti_affinity(false), term("upgrade.cattle.io/plan", "test-1"));
}

#[test]
fn the_deadline_is_the_plans_or_the_operators_and_never_above_the_limit() {
    let deadline = |plan: Value, default: i64, max: i64| {
        let mut order = ordered(json!({ "jobActiveDeadlineSecs": plan }));
        order.settings.active_deadline_seconds = default;
        order.settings.active_deadline_seconds_max = max;
        order.job()["spec"]["activeDeadlineSeconds"].clone()
    };

    assert_eq!(deadline(json!(12345), 600, 0), 12345);
    assert_eq!(deadline(json!(null), 300, 0), 300);
    assert_eq!(deadline(json!(0), 300, 0), Value::Null);
    assert_eq!(deadline(json!(-1), 3600, 0), 3600);
    assert_eq!(deadline(json!(600), 600, 300), 300);
    assert_eq!(deadline(json!(0), 600, 300), 300);
}

#[test]
fn a_finished_job_outlives_the_plans_delay_by_a_minute() {
    let ttl = |delay: Value| {
        let job = ordered(json!({ "postCompleteDelay": delay })).job();
        let annotation = &job["metadata"]["annotations"]["upgrade.cattle.io/ttl-seconds-after-finished"];
        assert_eq!(*annotation, job["spec"]["ttlSecondsAfterFinished"].to_string());
        job["spec"]["ttlSecondsAfterFinished"].clone()
    };

    assert_eq!(ttl(json!(null)), 900);
    assert_eq!(ttl(json!("14m")), 900);
    assert_eq!(ttl(json!("15m")), 960);
    assert_eq!(ttl(json!("1000000h")), i32::MAX);
}

#[test]
fn what_users_put_on_a_plan_comes_with_its_jobs_and_what_controllers_put_there_does_not() {
    let mut order = ordered(json!({}));
    let entry = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    order.plan.annotations.extend(
        [
            ("cattle.io/a", "foo"),
            ("plan.cattle.io/a", "bar"),
            ("some.other/a", "baz"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            ("drover.dev/claims", "{}"),
        ]
        .map(entry),
    );
    order.plan.labels.extend(
        [("cattle.io/l", "biz"), ("plan.cattle.io/l", "buz"), ("some.other/l", "bla"), ("drover.dev/x", "y")]
            .map(entry),
    );

    let job = order.job();

    let pod = &job["spec"]["template"]["metadata"];
    assert_eq!(pod["annotations"], json!({ "some.other/a": "baz" }));
    assert_eq!(job["metadata"]["annotations"]["some.other/a"], "baz");
    for on in [pod, &job["metadata"]] {
        assert_eq!(on["labels"]["some.other/l"], "bla");
        for (of, key) in [("annotations", "cattle.io/a"), ("annotations", "plan.cattle.io/a")]
            .into_iter()
            .chain([("annotations", "kubectl.kubernetes.io/last-applied-configuration")])
            .chain([("annotations", "drover.dev/claims"), ("labels", "drover.dev/x")])
            .chain([("labels", "cattle.io/l"), ("labels", "plan.cattle.io/l")])
        {
            assert_eq!(on[of].get(key), None, "{key}");
        }
    }
}

#[test]
fn the_operators_settings_reach_every_job() {
    let mut order = ordered(json!({ "cordon": true, "prepare": { "image": "p" } }));
    order.settings = JobSettings {
        controller: "mine".to_owned(),
        backoff_limit: 99,
        ttl_seconds_after_finished: 5,
        image_pull_policy: "OnlyWhenTesting".to_owned(),
        kubectl_image: "kubectl:x".to_owned(),
        kubectl_image_windows: "kubectl:w".to_owned(),
        pod_replacement_policy: "Failed".to_owned(),
        privileged: false,
        ..JobSettings::default()
    };

    let (job, pod) = (order.job(), order.pod());

    assert_eq!(job["metadata"]["labels"]["upgrade.cattle.io/controller"], "mine");
    assert_eq!(job["metadata"]["annotations"]["objectset.rio.cattle.io/id"], "mine");
    assert_eq!(job["spec"]["backoffLimit"], 99);
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 5);
    assert_eq!(job["spec"]["podReplacementPolicy"], "Failed");
    assert_eq!(pod["containers"][0]["securityContext"]["privileged"], false);
    assert_eq!(pod["initContainers"][1]["image"], "kubectl:x");
    for container in [&pod["initContainers"][0], &pod["initContainers"][1], &pod["containers"][0]] {
        assert_eq!(container["imagePullPolicy"], "OnlyWhenTesting");
    }
}

#[test]
fn on_windows_all_containers_run_on_the_host_as_its_system() {
    let mut order = ordered(json!({
        "cordon": true, "prepare": { "image": "p", "securityContext": { "privileged": true } },
    }));
    (order.is_windows, order.settings.kubectl_image_windows) = (true, "kubectl:w".to_owned());

    let pod = order.pod();

    let system = json!({ "windowsOptions": { "hostProcess": true, "runAsUserName": r"NT AUTHORITY\SYSTEM" } });
    for container in [&pod["initContainers"][0], &pod["initContainers"][1], &pod["containers"][0]] {
        assert_eq!(container["securityContext"], system, "{}", container["name"]);
    }
    assert_eq!(pod["initContainers"][1]["image"], "kubectl:w");
    let own = json!({ "windowsOptions": { "runAsUserName": "me" } });
    order.spec.upgrade.security_context = Some(serde_json::from_value(own.clone()).unwrap());
    assert_eq!(order.pod()["containers"][0]["securityContext"], own);
}

#[test]
fn what_shapes_the_pods_of_a_plan_and_nothing_else_is_in_its_template() {
    let of = |spec: Value| {
        let order = ordered(spec);
        template(&order.spec, "1.0")
    };
    let plain = of(json!({}));

    for other in [
        json!({ "upgrade": { "image": "test-image:latest", "args": ["x"] } }),
        json!({ "drain": {} }),
        json!({ "cordon": true }),
        json!({ "tolerations": [{ "operator": "Exists" }] }),
    ] {
        assert_ne!(of(other.clone()), plain, "{other}");
    }
    for same in [
        json!({ "concurrency": 9 }),
        json!({ "nodeSelector": { "matchLabels": { "a": "b" } } }),
        json!({ "window": { "days": ["su"], "startTime": "1", "endTime": "2" } }),
        json!({ "postCompleteDelay": "5m" }),
    ] {
        assert_eq!(of(same.clone()), plain, "{same}");
    }
    let order = ordered(json!({}));
    assert_ne!(template(&order.spec, "2.0"), plain);
}

#[test]
fn a_node_is_prepared_then_emptied_then_upgraded() {
    let names = |spec: Value| {
        let pod = ordered(spec).pod();
        let all = pod["initContainers"].as_array().cloned().unwrap_or_default();
        all.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let prepare = json!({ "image": "p" });

    assert_eq!(names(json!({})), [""; 0]);
    assert_eq!(names(json!({ "prepare": prepare, "cordon": true })), ["prepare", "cordon"]);
    assert_eq!(names(json!({ "prepare": prepare, "cordon": true, "drain": {} })), ["prepare", "drain"]);
}

#[test]
fn a_container_sees_the_plans_variables_between_the_pods_and_the_versions() {
    let pod = ordered(json!({ "upgrade": {
        "image": "u", "envs": [{ "name": "A", "value": "1" }], "envFrom": [{ "configMapRef": { "name": "c" } }],
    } }))
    .pod();

    let variables = pod["containers"][0]["env"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "SYSTEM_UPGRADE_NODE_NAME",
            "SYSTEM_UPGRADE_POD_NAME",
            "SYSTEM_UPGRADE_POD_UID",
            "A",
            "SYSTEM_UPGRADE_PLAN_NAME",
            "SYSTEM_UPGRADE_PLAN_LATEST_HASH",
            "SYSTEM_UPGRADE_PLAN_LATEST_VERSION",
        ]
    );
    assert_eq!(pod["containers"][0]["envFrom"], json!([{ "configMapRef": { "name": "c" } }]));
}

#[test]
fn secrets_and_volumes_are_declared_once_and_mounted_everywhere() {
    let order = ordered(json!({
        "secrets": [
            { "name": "having-path", "path": "/run/secret/having-path", "defaultMode": 256 },
            { "name": "not-having-path", "path": "", "ignoreUpdates": true },
        ],
        "cordon": true,
        "prepare": { "image": "p", "volumes": [{ "name": "v", "source": "/s", "destination": "/prepared" }] },
        "upgrade": { "image": "u", "volumes": [{ "name": "v", "source": "/s", "destination": "/d" }] },
    }));

    let pod = order.pod();

    assert_eq!(
        json!(pod["volumes"].as_array().unwrap()[2..]),
        json!([
            {
                "name": "secret-having-path",
                "secret": { "secretName": "having-path", "defaultMode": 256, "optional": false },
            },
            { "name": "secret-not-having-path", "secret": { "secretName": "not-having-path", "optional": true } },
            { "name": "v", "hostPath": { "path": "/s" } },
        ])
    );
    let mounts = |container: &Value, at: &str| {
        assert_eq!(
            json!(container["volumeMounts"].as_array().unwrap()[2..]),
            json!([
                { "name": "secret-having-path", "mountPath": "/run/secret/having-path", "readOnly": true },
                {
                    "name": "secret-not-having-path",
                    "mountPath": "/run/system-upgrade/secrets/not-having-path",
                    "readOnly": true,
                },
                { "name": "v", "mountPath": at },
            ])
        );
    };
    mounts(&pod["initContainers"][0], "/prepared");
    mounts(&pod["initContainers"][1], "/d");
    mounts(&pod["containers"][0], "/d");
}

#[test]
fn images_without_a_tag_get_the_version() {
    let pod = ordered(json!({ "prepare": { "image": "p:own" }, "upgrade": { "image": "u" } })).pod();

    assert_eq!(pod["initContainers"][0]["image"], "p:own");
    assert_eq!(pod["containers"][0]["image"], "u:1.0");
}

#[test]
fn a_security_context_of_the_plan_is_taken_as_it_is() {
    let context = json!({ "privileged": true, "capabilities": { "add": ["TEST_CONTAINER"] } });
    let container = json!({ "image": "x", "securityContext": context });

    let pod = ordered(json!({ "prepare": container, "upgrade": container })).pod();

    assert_eq!(pod["initContainers"][0]["securityContext"], context);
    assert_eq!(pod["containers"][0]["securityContext"], context);
}

#[test]
fn the_pod_has_what_the_plan_asks_for_it() {
    let pod = ordered(json!({
        "serviceAccountName": "sa",
        "priorityClassName": "high",
        "imagePullSecrets": [{ "name": "pull" }],
        "tolerations": [{ "operator": "Exists" }],
    }))
    .pod();

    assert_eq!(pod["serviceAccountName"], "sa");
    assert_eq!(pod["priorityClassName"], "high");
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "pull" }]));
    assert_eq!(
        pod["tolerations"],
        json!([
            { "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" },
            { "operator": "Exists" },
        ])
    );
}
