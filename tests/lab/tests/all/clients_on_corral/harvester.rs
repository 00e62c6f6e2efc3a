//! The commands that the guides of Harvester give for an upgrade, as they stand there, while one runs.

use anyhow::Result;
use drover_lab::Binaries;
use drover_sim::Scenario;
use serde_json::json;

use super::guide::{Ground, Row, row};

/// Fast enough for a test, and slow enough that kubectl sees every phase.
const SPEED: f64 = 4.0;
/// From the beginning to the node that pauses.
const UNTIL_THE_PAUSE: &[Row] = &[
    row(
        "kubectl get upgrade.harvesterhci.io -n harvester-system -l harvesterhci.io/latestUpgrade=true",
        &["NAME AGE", "hvst-upgrade-9gmg2 *"],
    ),
    row("kubectl get vm -n harvester-system", &["NAME AGE STATUS READY", "upgrade-repo-hvst-upgrade-9gmg2 * * *"]),
    row(
        "kubectl get pods -n harvester-system | grep upgrade-repo-hvst",
        &["virt-launcher-upgrade-repo-hvst-upgrade-9gmg2-* 1/1 Running 0 *"],
    ),
    // What `virtctl stop` and `virtctl start` ask for.
    row(
        "vm=upgrade-repo-hvst-upgrade-9gmg2; at=/apis/subresources.kubevirt.io/v1/namespaces/harvester-system/virtualmachines/$vm; \
         echo '{}' | kubectl replace --raw $at/stop -f - && \
         for i in $(seq 60); do kubectl get vm -n harvester-system $vm | grep Stopped && break; sleep 0.5; done && \
         echo '{}' | kubectl replace --raw $at/start -f -",
        &["upgrade-repo-hvst-upgrade-9gmg2 * Stopped *"],
    ),
    row("kubectl get vm -n harvester-system", &["upgrade-repo-hvst-upgrade-9gmg2 * Running True"]),
    row(
        "kubectl get jobs -n cattle-system | grep prepare",
        &["apply-hvst-upgrade-9gmg2-prepare-on-node-1-with-* 1/1 * *"],
    ),
    row(
        "kubectl logs jobs/$(kubectl get jobs -n cattle-system | grep prepare-on-node-1 | cut -d ' ' -f 1) -n cattle-system",
        &["* started on node-1"],
    ),
    row(
        "plan_name=hvst-upgrade-9gmg2-prepare; \
         kubectl get plans.upgrade.cattle.io \"$plan_name\" -n cattle-system -ojsonpath=\"{.status.latestVersion}\"",
        &["hvst-upgrade-9gmg2"],
    ),
    row(
        "plan_name=hvst-upgrade-9gmg2-prepare; \
         plan_latest_hash=$(kubectl get plans.upgrade.cattle.io \"$plan_name\" -n cattle-system -ojsonpath=\"{.status.latestHash}\"); \
         kubectl get nodes --selector=\"plan.upgrade.cattle.io/$plan_name=$plan_latest_hash\" -o json | grep -c '\"kind\": \"Node\"'",
        &["3"],
    ),
    row(
        "kubectl get jobs -n harvester-system -l harvesterhci.io/upgradeComponent=manifest",
        &["NAME COMPLETIONS DURATION AGE", "hvst-upgrade-9gmg2-apply-manifests */1 * *"],
    ),
    row("kubectl logs jobs/hvst-upgrade-9gmg2-apply-manifests -n harvester-system", &["apply started on *"]),
    row(
        "kubectl get cluster -n fleet-local local -oyaml",
        &[
            "message: 'draining bootstrap node(s) custom-000000000001: draining node'",
            "reason: Waiting",
            "status: Unknown",
            "type: ControlPlaneReady",
        ],
    ),
    row(
        "kubectl get jobs -n harvester-system -l harvesterhci.io/upgradeComponent=node",
        &[
            "NAME COMPLETIONS DURATION AGE",
            "hvst-upgrade-9gmg2-post-drain-node-1 1/1 * *",
            "hvst-upgrade-9gmg2-pre-drain-node-1 1/1 * *",
        ],
    ),
    row("kubectl logs -n harvester-system jobs/hvst-upgrade-9gmg2-post-drain-node-1", &["apply started on node-1"]),
    row(
        "kubectl get upgrade.harvesterhci.io -n harvester-system hvst-upgrade-9gmg2 -o yaml",
        &["state: Node-upgrade paused"],
    ),
    row("kubectl edit deployment -n cattle-system rancher", &["deployment.apps/rancher *"]),
    row("kubectl get deployment -n cattle-system rancher -oyaml", &["- --debug=true"]),
    row(
        "HARVESTER_UPGRADE_NODE_NAME=node-3; \
         kubectl taint node $HARVESTER_UPGRADE_NODE_NAME --overwrite kubevirt.io/drain=draining:NoSchedule",
        &["node/node-3 *"],
    ),
];

/// From the consent of its user to the end.
const UNTIL_THE_END: &[Row] = &[
    row("kubectl annotate node node-2 harvesterhci.io/node-upgrade-pause-", &["node/node-2 annotate*"]),
    row(
        "kubectl get jobs -n harvester-system -l harvesterhci.io/upgradeComponent=node",
        &["hvst-upgrade-9gmg2-post-drain-node-3 1/1 * *"],
    ),
    row(
        "kubectl get upgrade.harvesterhci.io -n harvester-system \
         -l harvesterhci.io/upgradeState=Succeeded,harvesterhci.io/upgradeCleanup=Succeeded",
        &["hvst-upgrade-9gmg2 *"],
    ),
];

const DELETED: Row = row(
    "kubectl delete upgrade.harvesterhci.io/hvst-upgrade-9gmg2 -n harvester-system",
    &["upgrade.harvesterhci.io \"hvst-upgrade-9gmg2\" deleted*"],
);

#[test]
#[ignore = "needs the lab: make test-real"]
fn the_commands_of_the_guides_work_on_an_upgrade_that_runs() -> Result<()> {
    let ground = Ground::up(scenario()?, SPEED)?;
    // As the guide says: one more line among the arguments.
    ground.edits_by("sed -i 's/^\\( *\\)- --add-local=true/&\\n\\1- --debug=true/' \"$1\"\n")?;
    let kubectls = Binaries::ensure_clients()?.kubectls();
    for row in UNTIL_THE_PAUSE.iter().chain(UNTIL_THE_END) {
        for kubectl in &kubectls {
            ground.shows(kubectl, row)?;
        }
    }
    let [.., newest] = &kubectls;
    ground.shows(newest, &DELETED)
}

/// An upgrade that runs, with the repository in a VM, and a pause before the second node.
fn scenario() -> Result<Scenario> {
    let rancher = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "rancher", "namespace": "cattle-system" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "rancher" } },
            "template": {
                "metadata": { "labels": { "app": "rancher" } },
                "spec": { "containers": [{ "name": "rancher", "image": "rancher/rancher", "args": ["--add-local=true"] }] },
            },
        },
    });
    let scenario = json!({
        "name": "guides", "nodes": 3, "from": "v1.33.5+rke2r1", "to": "v1.34.1+rke2r1", "vms": 1, "manifests": [rancher],
        "harvester": {
            "config": { "nodeUpgradeOption": { "strategy": { "mode": "manual", "pauseNodes": ["node-2"] } } },
            "upgrade": { "name": "hvst-upgrade-9gmg2", "annotations": { "drover.dev/repository": "vm" } },
        },
    });
    Ok(serde_json::from_value(scenario)?)
}
