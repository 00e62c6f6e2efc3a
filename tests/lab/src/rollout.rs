//! The upgrade of every kubelet of a real cluster by one Plan, while requests go to a service on it. Tests and the demo
//! run the same.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::images::{self, KUBELET_UPGRADE};
use crate::lab::Lab;
use crate::nodes::{Cluster, ClusterOptions, NEW_KUBELET};
use crate::traffic::{Tally, Traffic};

pub const NAMESPACE: &str = "system-upgrade";
pub const PLAN: &str = "kubelet";

const OBJECTS: &str = include_str!("rollout.yaml");
/// What users apply.
const RIGHTS: &str = include_str!("../../../deploy/rights.yaml");
const DEPLOYMENT: &str = include_str!("../../../deploy/operator.yaml");
const ORIGINAL_RIGHTS: &str = include_str!("original-rights.yaml");
/// The operator is this user, as a pod and as a process.
const ACCOUNT: &str = "system:serviceaccount:system-upgrade:system-upgrade";
const OPERATOR: &str = "operator";
const PLAN_LABEL: &str = "plan.upgrade.cattle.io/kubelet";
const CLAIM: &str = "drover.dev/claim";

/// A real cluster with a service under load, and Drover's operator beside it.
#[derive(Debug)]
pub struct Rollout {
    // Before the cluster, so that it ends first: no request fails because its server was taken down with the lab.
    traffic: Traffic,
    pub cluster: Cluster,
    drover: PathBuf,
}

/// What one look at the cluster showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub nodes: Vec<NodeLook>,
    /// The Plan says that it is complete.
    pub complete: bool,
    /// What the Plan says it waits for.
    pub waits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLook {
    pub name: String,
    pub kubelet: String,
    pub ready: bool,
    pub cordoned: bool,
    /// It is out of service for the Plan.
    pub claimed: bool,
    /// The Plan's label says that it is done.
    pub labelled: bool,
    /// Keys of Drover's own that are still on it.
    pub marks: Vec<String>,
}

impl Rollout {
    /// Starts the cluster with everything on it, except the operator and the Plan.
    pub fn prepare(nodes: u8, program: impl Into<PathBuf>) -> Result<Self> {
        let drover = drover_image::static_binary("drover", "drover")?;
        let cluster = Cluster::up(&ClusterOptions { images: images::all()?, ..ClusterOptions::new(nodes, program) })?;
        let lab = cluster.lab();
        let crds = crate::programs::run(lab.command(&drover).args(["crds"]))?;
        lab.define(&crds)?;
        lab.kubectl_apply(RIGHTS)?;
        lab.kubectl_apply(OBJECTS)?;
        lab.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
        let traffic = Traffic::start(lab, "web", 8080)?;
        Ok(Self { traffic, cluster, drover })
    }

    pub fn lab(&self) -> &Lab {
        self.cluster.lab()
    }

    /// How the requests to the service went.
    pub fn traffic(&self) -> Tally {
        self.traffic.tally()
    }

    /// Runs the operator as a pod of the cluster, as users do.
    pub fn deploy_operator(&self) -> Result<()> {
        self.lab().kubectl_apply(DEPLOYMENT).map(drop)
    }

    /// Takes the rights away that our manifests grant, and grants what system-upgrade-controller's do.
    pub fn grant_what_the_original_grants(&self) -> Result<()> {
        self.lab().kubectl(&["delete", "clusterrolebindings", "drover", "drover-drain"])?;
        self.lab().kubectl(&["-n", NAMESPACE, "delete", "rolebinding", "drover"])?;
        self.lab().kubectl_apply(ORIGINAL_RIGHTS).map(drop)
    }

    /// Starts an operator as a process beside the cluster, with the rights of the one that is a pod.
    pub fn start_operator(&mut self) -> Result<()> {
        let kubeconfig = self.lab().kubeconfig_for(ACCOUNT, None)?;
        let mut command = self.lab().command(&self.drover);
        command.args(["operator", "--namespace", NAMESPACE, "--kubeconfig"]).arg(kubeconfig);
        self.cluster.lab_mut().start(OPERATOR, &mut command)
    }

    /// `kill -9`.
    pub fn kill_operator(&mut self) -> Result<()> {
        self.cluster.lab_mut().kill(OPERATOR)
    }

    /// Applies the Plan that upgrades every kubelet, one node at a time, with a drain.
    pub fn apply_plan(&self) -> Result<()> {
        self.lab().kubectl_apply(&plan().to_string()).map(drop)
    }

    /// What `drover why` says about the Plan.
    pub fn why(&self) -> Result<String> {
        let mut command = self.lab().command(&self.drover);
        command.args(["why", &format!("plan/{NAMESPACE}/{PLAN}"), "--kubeconfig"]).arg(self.lab().kubeconfig());
        crate::programs::run(&mut command)
    }

    pub fn look(&self) -> Result<Look> {
        let get = |what: &[&str]| self.lab().kubectl(&[&["get", "-o", "json"], what].concat());
        let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
        let nodes = parse(get(&["nodes"])?);
        let plan = parse(get(&["-n", NAMESPACE, "plans.upgrade.cattle.io", PLAN])?);
        let conditions = plan["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let waits = plan["status"]["waits"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Look {
            nodes: nodes["items"].as_array().into_iter().flatten().map(node).collect(),
            complete: conditions.iter().any(|one| one["type"] == "Complete" && one["status"] == "True"),
            waits: waits.iter().filter_map(|wait| wait["sentence"].as_str().map(str::to_owned)).collect(),
        })
    }

    /// Looks again and again until `holds`.
    pub fn until(&self, what: &str, patience: Duration, mut holds: impl FnMut(&Look) -> bool) -> Result<Look> {
        let started = Instant::now();
        loop {
            let look = self.look()?;
            if holds(&look) {
                return Ok(look);
            }
            if started.elapsed() > patience {
                let told = format!("{what}; it was {look:#?}");
                return Err(Error::Never { what: told, seconds: patience.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// How often a container of each pod of the service was started again.
    pub fn restarts(&self) -> Result<String> {
        let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
        self.lab().kubectl(&["get", "pods", "-l", "app=web", "-o", path])
    }
}

impl Look {
    /// Every node is done, back in service, and as it was but for the new kubelet and the Plan's label.
    pub fn is_done(&self) -> bool {
        self.complete && self.nodes.iter().all(NodeLook::is_done)
    }

    pub fn claimed(&self) -> Vec<&str> {
        self.nodes.iter().filter(|node| node.claimed).map(|node| node.name.as_str()).collect()
    }
}

impl NodeLook {
    pub fn is_done(&self) -> bool {
        self.kubelet == NEW_KUBELET && self.ready && self.labelled && !self.cordoned && self.marks.is_empty()
    }
}

fn plan() -> Value {
    json!({
        "apiVersion": "upgrade.cattle.io/v1",
        "kind": "Plan",
        "metadata": { "name": PLAN, "namespace": NAMESPACE },
        "spec": {
            "version": NEW_KUBELET,
            "concurrency": 1,
            "nodeSelector": {},
            "serviceAccountName": "system-upgrade",
            "drain": { "timeout": "5m" },
            // It watches the new kubelet for two seconds before it says that all is well.
            "upgrade": { "image": KUBELET_UPGRADE, "args": ["2"] },
        },
    })
}

fn node(node: &Value) -> NodeLook {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let labels = &node["metadata"]["labels"];
    let keys = [labels, &node["metadata"]["annotations"]].into_iter().filter_map(Value::as_object);
    NodeLook {
        name: text(&node["metadata"]["name"]),
        kubelet: text(&node["status"]["nodeInfo"]["kubeletVersion"]),
        ready: conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"),
        cordoned: node["spec"]["unschedulable"] == true,
        claimed: labels[CLAIM].is_string(),
        labelled: labels[PLAN_LABEL].is_string(),
        marks: keys.flat_map(|keys| keys.keys().filter(|key| key.starts_with("drover.dev/")).cloned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_the_image_that_is_built() {
        let image = format!("image: {}\n", drover_api::plan::jobs::DROVER_IMAGE);
        assert!(DEPLOYMENT.contains(&image), "deploy/operator.yaml does not say {image}");
    }
}
