//! Helm as a client of the embedded cluster: it applies server-side, waits for what it has installed, and keeps its
//! releases as Secrets.

use anyhow::{Result, ensure};
use drover_lab::Binaries;

use super::Cluster;

const CHART: &str = "{apiVersion: v2, name: shop, version: 1.0.0, appVersion: v1}";
const VALUES: &str = "{colour: red, replicas: 2}";
const SETTINGS: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: {{ .Values.colour }}}}";
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: {{ .Values.replicas }}
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: 'web:{{ .Chart.AppVersion }}' }] }
";
const HOOK: &str = "
apiVersion: batch/v1
kind: Job
metadata: { name: migrate, annotations: { helm.sh/hook: 'pre-upgrade' } }
spec:
  template:
    metadata: { annotations: { corral.drover.dev/duration: 1s } }
    spec: { restartPolicy: Never, containers: [{ name: migrate, image: 'web:v1' }] }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn helm_installs_upgrades_rolls_back_and_uninstalls() -> Result<()> {
    let cluster = Cluster::up(Binaries::ensure_clients()?.helm()).await?;
    let texts = [
        ("Chart.yaml", CHART),
        ("values.yaml", VALUES),
        ("templates/settings.yaml", SETTINGS),
        ("templates/web.yaml", DEPLOYMENT),
        ("templates/migrate.yaml", HOOK),
    ];
    for (name, text) in texts {
        cluster.write(&format!("shop/{name}"), text)?;
    }
    let chart = cluster.dir.path().join("shop").to_string_lossy().into_owned();

    cluster.run(&["install", "shop", &chart, "-n", "shop", "--create-namespace", "--wait", "--timeout=60s"])?;
    let release = cluster.run(&["status", "shop", "-n", "shop", "-o", "json"])?;
    ensure!(release.contains(r#""status":"deployed""#), "{release}");

    cluster.run(&["upgrade", "shop", &chart, "-n", "shop", "--set", "colour=blue", "--wait", "--timeout=60s"])?;
    ensure!(cluster.run(&["get", "manifest", "shop", "-n", "shop"])?.contains("colour: blue"));
    cluster.run(&["rollback", "shop", "1", "-n", "shop", "--wait", "--timeout=60s"])?;
    let history = cluster.run(&["history", "shop", "-n", "shop"])?;
    ensure!(history.contains("Rollback to 1"), "{history}");

    cluster.run(&["uninstall", "shop", "-n", "shop", "--wait", "--timeout=60s"])?;
    let left = cluster.run(&["list", "-n", "shop", "-q"])?;
    ensure!(left.trim().is_empty(), "{left}");
    Ok(())
}
