//! What runs in the lab behaves as a cluster does: nodes, Jobs, permissions, an API server that goes away.

use drover_clock::Clock;
use drover_core::cluster::{Cause, Cluster, ObjectRef};
use drover_core::preflight::{Intent, Verdict, examine};
use drover_core::status::overview;
use drover_core::why::explain;
use drover_lab::{Error, Lab, LabOptions};
use drover_operator::{Connection, connect, survey};

fn lab_with_nodes(names: &[&str]) -> Result<Lab, Error> {
    let lab = Lab::up(&LabOptions { kwok: true, ..LabOptions::default() })?;
    lab.add_kwok_nodes(names, &[("role", "worker")])?;
    Ok(lab)
}

/// A Job like those of an upgrade: on the host's network, with an init container, on one node.
fn job_on(node: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: on-{node}}}
spec:
  template:
    spec:
      restartPolicy: Never
      hostNetwork: true
      nodeSelector: {{kubernetes.io/hostname: {node}}}
      initContainers: [{{name: prepare, image: prepare}}]
      containers: [{{name: upgrade, image: upgrade}}]
"
    )
}

fn complete(lab: &Lab, job: &str) -> Result<String, Error> {
    lab.kubectl(&["wait", "--for=condition=Complete", "--timeout=30s", &format!("job/{job}")])
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn a_job_that_is_pinned_to_a_node_completes_there() {
    let lab = lab_with_nodes(&["node-1", "node-2"]).unwrap();

    lab.kubectl_apply(&job_on("node-2")).unwrap();
    complete(&lab, "on-node-2").unwrap();

    let pods = lab.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName} {.items[*].status.phase}"]);
    assert_eq!(pods.unwrap(), "node-2 Succeeded");
    let versions = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
    assert_eq!(lab.kubectl(&["get", "nodes", "-l", "role=worker", "-o", versions]).unwrap(), "v1.34.4 v1.34.4");
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn jobs_complete_after_the_api_server_was_away() {
    let mut lab = lab_with_nodes(&["node-1"]).unwrap();

    lab.stop_apiserver().unwrap();
    let error = lab.kubectl(&["get", "nodes"]).unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");

    lab.start_apiserver().unwrap();
    assert_eq!(lab.kubectl(&["get", "nodes", "-o", "name"]).unwrap(), "node/node-1\n");
    lab.kubectl_apply(&job_on("node-1")).unwrap();
    complete(&lab, "on-node-1").unwrap();
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn a_user_may_do_only_what_is_granted() {
    let lab = Lab::up(&LabOptions::default()).unwrap();
    let kubeconfig = lab.kubeconfig_for("ann", Some("readers")).unwrap();
    let as_ann =
        |arguments: &[&str]| lab.kubectl(&[&["--kubeconfig", &kubeconfig.to_string_lossy()], arguments].concat());

    let error = as_ann(&["get", "nodes"]).unwrap_err().to_string();
    assert!(error.contains(r#"User "ann" cannot list resource "nodes""#), "{error}");

    lab.kubectl(&["create", "clusterrole", "nodes", "--verb=list", "--resource=nodes"]).unwrap();
    lab.kubectl(&["create", "clusterrolebinding", "nodes", "--clusterrole=nodes", "--group=readers"]).unwrap();
    assert_eq!(as_ann(&["get", "nodes", "-o", "name"]).unwrap(), "");
    assert!(as_ann(&["get", "secrets"]).is_err());
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn nodes_are_refused_where_nobody_would_play_them() {
    let lab = Lab::up(&LabOptions::default()).unwrap();

    let error = lab.add_kwok_nodes(&["node-1"], &[]).unwrap_err();

    assert!(matches!(error, Error::NoKwok));
}

/// One look with the rights of a user.
fn survey_as(lab: &Lab, user: &str, group: &str) -> anyhow::Result<Cluster> {
    let kubeconfig = lab.kubeconfig_for(user, Some(group))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = Connection { kubeconfig: Some(kubeconfig), ..Connection::default() };
        Ok(survey::live(connect(&connection).await?, &Clock::real()).await)
    })
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn a_survey_reads_with_a_readers_rights_and_names_what_they_do_not_grant() {
    let lab = Lab::up(&LabOptions { kwok: true, audit: true, ..LabOptions::default() }).unwrap();
    lab.add_kwok_nodes(&["node-1", "node-2"], &[]).unwrap();
    lab.kubectl(&["create", "clusterrolebinding", "viewers", "--clusterrole=view", "--group=readers"]).unwrap();
    let more = "--resource=nodes,endpointslices.discovery.k8s.io,leases.coordination.k8s.io";
    lab.kubectl(&["create", "clusterrole", "more", "--verb=get,list", more]).unwrap();
    lab.kubectl(&["create", "clusterrolebinding", "more", "--clusterrole=more", "--group=readers"]).unwrap();

    let cluster = survey_as(&lab, "ann", "readers").unwrap();

    assert_eq!(cluster.nodes.len(), 2);
    let cause = |kind: &str| cluster.unseen.iter().find(|one| one.kind == kind).map(|one| &one.cause);
    assert_eq!(cause("Secret"), Some(&Cause::Forbidden));
    assert_eq!(cause("Kubelet"), Some(&Cause::Forbidden));
    assert_eq!(cause("DeprecatedRequest"), Some(&Cause::Forbidden));
    assert_eq!(cause("Plan"), Some(&Cause::NoSuchKind));
    assert_eq!(cause("PodDisruptionBudget"), None);
    // This API server listens on the machine's own address alone, which no EndpointSlice tells.
    let unknown = Cause::Unreachable("no address of such a server is known".to_owned());
    assert_eq!(cause("ServerCertificate"), Some(&unknown));
    assert_eq!(examine(&cluster, &Intent::anything()).verdict, Verdict::CouldNotCheck);
    let asked: Vec<_> = lab.audited().unwrap().into_iter().filter(|one| one.user() == "ann").collect();
    assert!(asked.len() > 20 && asked.iter().all(|one| ["get", "list"].contains(&one.verb.as_str())), "{asked:?}");
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn an_administrators_survey_sees_what_api_servers_have_counted() {
    let lab = lab_with_nodes(&["node-1"]).unwrap();

    let cluster = survey_as(&lab, "root", "system:masters").unwrap();

    let unseen: Vec<&str> =
        (cluster.unseen.iter()).filter(|one| one.cause == Cause::Forbidden).map(|one| one.kind.as_str()).collect();
    assert_eq!(unseen, Vec::<&str>::new());
    assert!(cluster.unseen.iter().all(|one| one.kind != "DeprecatedRequest"), "{:?}", cluster.unseen);
}

/// What names a Secret that is not there.
const PLAN: &str = "
apiVersion: upgrade.cattle.io/v1
kind: Plan
metadata: {name: up, namespace: system-upgrade}
spec:
  version: v9.9.9
  concurrency: 1
  nodeSelector: {matchLabels: {role: worker}}
  secrets: [{name: registry, path: /etc/registry}]
  upgrade: {image: upgrade}
";

#[test]
#[ignore = "needs the lab: make test-real"]
fn a_survey_sees_plans_and_what_is_wrong_with_them() {
    let lab = lab_with_nodes(&["node-1", "node-2"]).unwrap();
    for definition in drover_api::crds::of(drover_api::crds::Controller::Plan) {
        lab.define(&serde_json::to_string(&definition).unwrap()).unwrap();
    }
    lab.kubectl(&["create", "namespace", "system-upgrade"]).unwrap();
    lab.kubectl_apply(PLAN).unwrap();

    let cluster = survey_as(&lab, "root", "system:masters").unwrap();

    assert!(cluster.blind_to("Plan").is_none(), "{:?}", cluster.unseen);
    let why = explain(&cluster, &ObjectRef::new("Plan", "system-upgrade", "up")).unwrap();
    assert_eq!(why.causes[0].object.to_string(), "Secret/system-upgrade/registry", "{why:?}");
    let status = overview(&cluster);
    assert_eq!((status.plans.len(), status.plans[0].counts.selected), (1, 2));
    let report = examine(&cluster, &Intent::named(&cluster, "plan/system-upgrade/up").unwrap());
    let missing = report.findings.iter().find(|finding| finding.code == "DRV-PLAN-002");
    assert_eq!(missing.unwrap().objects.last().unwrap().to_string(), "Secret/system-upgrade/registry", "{report:?}");
}
