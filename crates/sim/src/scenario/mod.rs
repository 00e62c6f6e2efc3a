//! A cluster, its upgrade, what happens to them, and what must be true in the end: a file of a few lines.

mod cluster;
mod expect;
mod files;
mod guest;
mod harvester;
pub mod pattern;
mod span;
mod tanzu;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::expect::{Expect, ExpectedObjects, ExpectedWait};
pub use self::files::{ScenarioError, built_in};
pub use self::guest::Guest;
pub use self::harvester::{Harvester, UpgradeLines, Vm, Vms};
pub use self::span::Span;
use crate::faults::{Fault, Incident, WatchedKind};

pub const NAMESPACE: &str = "system-upgrade";
/// The Plan that is there unless a scenario names its own.
pub const PLAN: &str = "upgrade";

/// What is run; every field has a default, so that a file states only what matters to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    pub name: String,
    /// What it shows, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// How many nodes there are: `node-1`, `node-2` and so on.
    pub nodes: usize,
    /// What the nodes run before.
    pub from: String,
    /// The version of the Plan.
    pub to: String,
    /// How many nodes the Plan takes at once.
    pub concurrency: i64,
    pub cordon: bool,
    /// Nodes that somebody has cordoned before: they stay so.
    pub cordoned: BTreeSet<String>,
    /// How long an upgrade takes on a node.
    pub job_seconds: u64,
    /// How long a node is away after its upgrade; 0: it does not reboot.
    pub reboot_seconds: u64,
    /// What is special about single nodes, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub machines: BTreeMap<String, Machine>,
    /// What runs on the cluster, and its budgets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Workload>,
    /// A Harvester cluster instead of plain nodes: KubeVirt, Longhorn and Rancher are on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harvester: Option<Harvester>,
    /// A guest cluster of Cluster API, whose control plane is updated instead of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// More guest clusters, each with an API server of its own; a TanzuKubernetesCluster stands for all of them, or for none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Guest>,
    /// How many guest clusters are updated, or raised, at once, if not as many as the operator does by itself; 0: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_limit: Option<usize>,
    /// Virtual machines, each with a volume; KubeVirt and Longhorn come with them.
    #[serde(skip_serializing_if = "Vms::is_none")]
    pub vms: Vms,
    /// Plans instead of the one that follows from the fields above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanLines>,
    /// More objects, as `kubectl get -o yaml` prints them; in a file also the path of one, or of a folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "files::Manifests")]
    pub manifests: Vec<Value>,
    /// What happens while it runs, and when.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Incident>,
    /// What must be true in the end, beyond what always must.
    pub expect: Expect,
    /// Too large to try a fault at every write: a campaign tries one in so many only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<usize>,
    /// Faults that a campaign leaves out, because what is expected would be wrong under them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<Fault>,
}

/// One node that differs from the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Machine {
    /// `node-role.kubernetes.io/<role>` labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Added to those that every node has; they win.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Those that tell the machine what to do are in corral.md.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What it runs before, if not what the others run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Pods that stay, with a budget if one is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Workload {
    pub name: String,
    #[serde(default = "one")]
    pub replicas: usize,
    /// How many must stay available while nodes are drained: a PodDisruptionBudget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<usize>,
    /// One pod on every node instead of `replicas`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everywhere: bool,
    /// Of its pods; those that tell containers what to do are in corral.md.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

fn one() -> usize {
    1
}

impl Workload {
    /// One pod, without a budget.
    pub fn new(name: &str) -> Self {
        Workload {
            name: name.to_owned(),
            replicas: one(),
            min_available: None,
            everywhere: false,
            annotations: BTreeMap::new(),
        }
    }
}

/// A Plan, as far as it differs from the one that follows from the scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PlanLines {
    pub name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Merged into the spec as a JSON merge patch: `null` takes a field away.
    pub spec: Value,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            name: "three-nodes".to_owned(),
            about: String::new(),
            nodes: 3,
            from: "v1.33.0".to_owned(),
            to: "v1.34.0".to_owned(),
            concurrency: 1,
            cordon: true,
            cordoned: BTreeSet::new(),
            job_seconds: 4,
            reboot_seconds: 0,
            machines: BTreeMap::new(),
            workloads: Vec::new(),
            harvester: None,
            guest: None,
            beside: Vec::new(),
            guest_limit: None,
            vms: Vms::default(),
            plans: Vec::new(),
            manifests: Vec::new(),
            faults: Vec::new(),
            expect: Expect::default(),
            sampled: None,
            untried: Vec::new(),
        }
    }
}

impl Scenario {
    /// Nothing goes wrong in it by itself, and all of it is complete in the end.
    pub fn goes_by_itself(&self) -> bool {
        self.faults.is_empty() && self.expect.complete.is_none() && self.expect.out.is_empty()
    }

    pub fn node_names(&self) -> Vec<String> {
        (1..=self.nodes).map(|number| format!("node-{number}")).collect()
    }

    pub fn plan_names(&self) -> Vec<String> {
        match self.plans.is_empty() {
            true if !self.has_own_plan() => Vec::new(),
            true => vec![PLAN.to_owned()],
            false => self.plans.iter().map(|plan| plan.name.clone()).collect(),
        }
    }

    /// Whether there is a Plan although none is named.
    fn has_own_plan(&self) -> bool {
        self.upgrade().is_none() && self.guest.is_none()
    }

    /// The kinds whose watches matter to what it upgrades, Secrets aside.
    pub fn watched(&self) -> Vec<WatchedKind> {
        use WatchedKind::{Job, Machine, Node, Plan, Pod, TanzuKubernetesCluster, Upgrade};
        match () {
            () if self.tanzu().is_some() => vec![TanzuKubernetesCluster, Machine, Job],
            () if self.guest.is_some() => vec![Machine],
            () if self.upgrade().is_some() => vec![Upgrade, Node, Job, Plan],
            () if self.drains() => vec![Node, Job, Plan, Pod],
            () => vec![Node, Job, Plan],
        }
    }

    /// Where the operators look for Plans: those of a Harvester cluster are where Rancher has its own.
    pub fn namespace(&self) -> &'static str {
        if self.upgrade().is_some() { "cattle-system" } else { NAMESPACE }
    }

    /// The first Plan, as a user would write it.
    pub fn plan(&self) -> Value {
        self.all_plans().into_iter().next().unwrap_or_default()
    }

    pub fn all_plans(&self) -> Vec<Value> {
        let plain = PlanLines { name: PLAN.to_owned(), ..PlanLines::default() };
        let lines = match self.plans.is_empty() && self.has_own_plan() {
            true => std::slice::from_ref(&plain),
            false => &self.plans,
        };
        lines.iter().map(|lines| self.plan_of(lines)).collect()
    }

    fn plan_of(&self, lines: &PlanLines) -> Value {
        let mut spec = json!({
            "concurrency": self.concurrency,
            "cordon": self.cordon,
            "version": self.to,
            "nodeSelector": { "matchExpressions": [{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }] },
            "upgrade": { "image": "rancher/k3s-upgrade" },
        });
        merge(&mut spec, &lines.spec);
        json!({
            "apiVersion": "upgrade.cattle.io/v1",
            "kind": "Plan",
            "metadata": { "name": lines.name, "namespace": NAMESPACE, "annotations": lines.annotations },
            "spec": spec,
        })
    }
}

/// RFC 7396; a patch that says nothing changes nothing.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (_, Value::Null) => {}
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                match value {
                    Value::Null => drop(target.remove(key)),
                    value => merge(target.entry(key.clone()).or_insert(Value::Null), value),
                }
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
