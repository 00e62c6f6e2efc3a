//! The commands that the guides of Harvester give for an upgrade, as they stand there, while one runs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drover_clock::{Clock, later};
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::serve;
use drover_lab::Binaries;
use drover_sim::{Scenario, Stage, Terms};
use serde_json::json;
use tokio::sync::oneshot;

/// Fast enough for a test, and slow enough that kubectl sees every phase.
const SPEED: f64 = 4.0;
/// A phase that has not come after this time does not come.
const PATIENCE: Duration = Duration::from_secs(180);
const BETWEEN: Duration = Duration::from_millis(300);

/// What a person types, and lines that it shows: words of one line, in this order. A star ends a word of which only the beginning is known.
struct Row {
    types: &'static str,
    sees: &'static [&'static str],
}

const fn row(types: &'static str, sees: &'static [&'static str]) -> Row {
    Row { types, sees }
}

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
    // What `virtctl stop` and `virtctl start` ask for. Drover starts it, too, and may be first: then KubeVirt says that it runs already.
    row(
        "at=/apis/subresources.kubevirt.io/v1/namespaces/harvester-system/virtualmachines/upgrade-repo-hvst-upgrade-9gmg2; \
         echo '{}' | kubectl replace --raw $at/stop -f - && { echo '{}' | kubectl replace --raw $at/start -f - || true; }",
        &[],
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
    let ground = Ground::up()?;
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
struct Ground {
    dir: tempfile::TempDir,
    /// It runs on a thread of its own, which waiting for kubectl does not hold up, and ends when this goes.
    _ends: oneshot::Sender<()>,
}

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

async fn play(scenario: Scenario, kubeconfig: PathBuf, ready: Sender<()>, ends: oneshot::Receiver<()>) -> Result<()> {
    let clock = Clock::scaled(Clock::real().now(), SPEED);
    let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 10_000 });
    let served = serve(server.clone(), ([127, 0, 0, 1], 0).into()).await?;
    served.write_kubeconfig(&kubeconfig)?;
    let _stage = Stage::on(server, &scenario, &Terms::calm(1), None);
    ready.send(())?;
    // Whoever waits for it has gone.
    let _ = ends.await;
    Ok(())
}

impl Ground {
    fn up() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        // As the guide says: one more line among the arguments.
        std::fs::write(
            dir.path().join("edit.sh"),
            "sed -i 's/^\\( *\\)- --add-local=true/&\\n\\1- --debug=true/' \"$1\"\n",
        )?;
        let (ends, ended) = oneshot::channel();
        let (ready, is_ready) = channel();
        let (scenario, kubeconfig) = (scenario()?, dir.path().join("kubeconfig"));
        std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(play(scenario, kubeconfig, ready, ended))
        });
        is_ready.recv().context("the cluster does not come up")?;
        Ok(Ground { dir, _ends: ends })
    }

    /// Types it until it shows what it should, for as long as the upgrade may still come to that.
    fn shows(&self, kubectl: &Path, row: &Row) -> Result<()> {
        let clock = Clock::real();
        let ends = later(clock.now(), PATIENCE);
        loop {
            let Typed { succeeds, shows, complains } = self.types(kubectl, row.types)?;
            let missing = row.sees.iter().find(|line| !shows.lines().any(|one| reads(one, line)));
            if succeeds && missing.is_none() {
                return Ok(());
            }
            if clock.now() > ends {
                let missing = missing.copied().unwrap_or("that it succeeds");
                bail!("{}: `{}` does not show `{missing}`:\n{shows}\n{complains}", kubectl.display(), row.types);
            }
            std::thread::sleep(BETWEEN);
        }
    }

    fn types(&self, kubectl: &Path, line: &str) -> Result<Typed> {
        let dir = self.dir.path();
        let bin = dir.join(format!("{}.bin", kubectl.file_name().unwrap_or_default().display()));
        if !bin.exists() {
            std::fs::create_dir(&bin)?;
            symlink(kubectl, bin.join("kubectl"))?;
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", path).env("KUBECONFIG", dir.join("kubeconfig"));
        shell.env("KUBE_EDITOR", format!("sh {}", dir.join("edit.sh").display()));
        // Neither reads nor leaves anything in the home of whoever runs this.
        shell.env("HOME", dir).stdin(Stdio::null());
        let output = shell.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Typed { succeeds: output.status.success(), shows: text(&output.stdout), complains: text(&output.stderr) })
    }
}

/// What comes of a line: an error that happens to hold the right words is none of what it shows.
struct Typed {
    succeeds: bool,
    shows: String,
    complains: String,
}

/// Whether the words of a line are among those of another, in their order.
fn reads(line: &str, wanted: &str) -> bool {
    let mut words = line.split_whitespace();
    wanted.split_whitespace().all(|wanted| {
        words.any(|word| match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
            (_, Some(start)) => word.starts_with(start),
            (Some(end), None) => word.ends_with(end),
            (None, None) => word == wanted,
        })
    })
}

#[test]
fn words_are_looked_for_in_their_order() {
    assert!(reads("a-7  1/1   3s", "a-* 1/1 *"));
    assert!(reads("a  Complete  0/1  3s", "a */1"));
    assert!(!reads("a  1/1", "1/1 a"));
    assert!(!reads("", "*"));
}
