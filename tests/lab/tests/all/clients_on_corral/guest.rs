//! The commands that the guide to rolling updates of TanzuKubernetesClusters gives, as they stand there, while one is updated.

use anyhow::Result;
use drover_lab::Binaries;
use drover_sim::Scenario;
use serde_json::json;

use super::guide::{Ground, Row, row};

/// A machine takes a minute and a half to be replaced.
const SPEED: f64 = 20.0;

/// How the cluster looks before anybody changes it.
const BEFORE: &[Row] = &[
    row(
        "kubectl get secrets -l cluster.x-k8s.io/cluster-name=my-tkc",
        &[
            "NAME TYPE DATA AGE",
            "my-tkc-ca Opaque 2 *",
            "my-tkc-etcd Opaque 2 *",
            "my-tkc-proxy Opaque 2 *",
            "my-tkc-sa Opaque 2 *",
        ],
    ),
    row("kubectl get secrets -l cluster.x-k8s.io/cluster-name=my-tkc --no-headers | wc -l", &["4"]),
    row(
        "kubectl get secret my-tkc-ca -o yaml",
        &[
            "cluster.x-k8s.io/cluster-name: my-tkc",
            "kind: KubeadmConfig",
            "name: my-tkc-control-plane-*",
            "type: Opaque",
        ],
    ),
    row(
        "machine=$(kubectl get machine -o name | grep control-plane | head -n 1 | cut -d / -f 2); \
         kubectl get machine $machine -o jsonpath=\"{.spec.bootstrap.data}\" | base64 --decode",
        &[
            "## template: jinja",
            "#cloud-config",
            "write_files:",
            "path: /etc/kubernetes/pki/ca.crt",
            "path: /etc/kubernetes/pki/ca.key",
            "path: /etc/kubernetes/pki/etcd/ca.crt",
            "path: /etc/kubernetes/pki/front-proxy-ca.key",
            "path: /etc/kubernetes/pki/sa.pub",
            "permissions: '0600'",
            "-----BEGIN CERTIFICATE-----",
        ],
    ),
];

/// The three changes that begin an update.
const CHANGES: &[Row] = &[
    row(
        "read -r -d '' PATCH <<'EOF'\nspec:\n  distribution:\n    fullVersion: null\n    version: v1.16.7\nEOF\n\
         kubectl patch --type=merge tanzukubernetescluster my-tkc --patch \"$PATCH\"",
        &["tanzukubernetescluster.run.tanzu.vmware.com/my-tkc patched*"],
    ),
    row(
        "read -r -d '' PATCH <<'EOF'\nspec:\n  topology:\n    controlPlane:\n      class: best-effort-xlarge\n    workers:\n      \
         class: best-effort-xlarge\nEOF\nkubectl patch --type=merge tanzukubernetescluster my-tkc --patch \"$PATCH\"",
        &["tanzukubernetescluster.run.tanzu.vmware.com/my-tkc patched*"],
    ),
    row(
        "read -r -d '' PATCH <<'EOF'\nspec:\n  topology:\n    controlPlane:\n      storageClass: gc-storage-profile-2\n    workers:\n      \
         storageClass: gc-storage-profile-2\nEOF\nkubectl patch --type=merge tanzukubernetescluster my-tkc --patch \"$PATCH\"",
        &["tanzukubernetescluster.run.tanzu.vmware.com/my-tkc patched*"],
    ),
];

const WHILE_IT_RUNS: &[Row] = &[
    row("kubectl -n vmware-system-tkg get pod -l job-name", &["NAME READY STATUS RESTARTS AGE", "update-* */1 * 0 *"]),
    row(
        "job=$(kubectl -n vmware-system-tkg get job -o name | tail -n 1 | cut -d / -f 2); \
         kubectl -n vmware-system-tkg get job $job -o yaml",
        &[
            "upgrade-version: v1.16.7+vmware.1",
            "cluster.x-k8s.io/cluster-name: my-tkc",
            "namespace: vmware-system-tkg",
            "backoffLimit: 3",
            "- --kubernetes-version=$(VERSION)",
            "- --upgrade-id=$(UPGRADE_ID)",
            "- --cluster-name=$(CLUSTER_NAME)",
            "- --cluster-namespace=default",
            "fieldPath: metadata.annotations['upgrade-id']",
            "name: upgrade",
            "hostNetwork: true",
            "restartPolicy: Never",
        ],
    ),
];

/// Until all of it is as it was asked for.
const AFTERWARDS: &[Row] = &[
    row(
        "kubectl get tanzukubernetescluster my-tkc",
        &["NAME CONTROL PLANE WORKER DISTRIBUTION AGE PHASE", "my-tkc 1 1 v1.16.7+vmware.1-guest.1 running"],
    ),
    row(
        "kubectl get tanzukubernetescluster my-tkc -o yaml",
        &[
            "addons:",
            "name: CoreDNS",
            "name: kube-proxy",
            "name: calico",
            "phase: running",
            "version: v1.16.7+vmware.1-guest.1",
        ],
    ),
    row(
        "job=$(kubectl -n vmware-system-tkg get job -o name | tail -n 1 | cut -d / -f 2); \
         kubectl -n vmware-system-tkg get job $job -o yaml",
        &["type: Complete", "status: \"True\"", "succeeded: 1"],
    ),
    row("kubectl get wcpmachine -o yaml | grep -c 'className: best-effort-xlarge'", &["2"]),
    // The copy that is kept of the certificates is not among them.
    row("kubectl get secrets -l cluster.x-k8s.io/cluster-name=my-tkc --no-headers | wc -l", &["4"]),
];

/// It runs in the earlier version, and nobody has asked for anything yet.
fn scenario() -> Result<Scenario> {
    let scenario = json!({
        "name": "guide", "nodes": 1, "from": "v1.15.5+vmware.1-guest.1", "to": "v1.16.7+vmware.1-guest.1",
        "machines": { "node-1": { "labels": { "node-role.kubernetes.io/master": "" } } },
        "guest": { "machines": 1, "workers": 1, "tanzu": true, "spec": { "distribution": { "version": "v1.15.5" } } },
    });
    Ok(serde_json::from_value(scenario)?)
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn the_commands_of_the_guide_update_a_cluster_and_show_how_far_it_is() -> Result<()> {
    let ground = Ground::up(scenario()?, SPEED)?;
    let kubectls = Binaries::ensure_clients()?.kubectls();
    for row in BEFORE.iter().chain(CHANGES).chain(WHILE_IT_RUNS).chain(AFTERWARDS) {
        for kubectl in &kubectls {
            ground.shows(kubectl, row)?;
        }
    }
    Ok(())
}
