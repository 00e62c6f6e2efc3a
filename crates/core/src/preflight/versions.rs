//! May one go from this version to that?

use drover_api::harvester::setting::names;
use drover_api::harvester::upgrade::annotations;
use drover_api::harvester::version::TAG_DEV;
use drover_api::node::roles;

use super::intent::setting;
use super::known_issues::{self, Product};
use super::nodes::named;
use super::upgrades::switch;
use super::{Asked, Check, Finding, Intent, Scope, Severity};
use crate::cluster::{Cluster, Node, ObjectRef};
use crate::guest::may_lag;
use crate::plan::version::is_lower;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-VER-001",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "Harvester cannot be upgraded from this version to that",
        consequence: "the upgrade fails after it has downloaded the release.",
        remedy: "upgrade to a version in between first",
        reads: &["Setting", "Version"],
        look: guard,
    },
    Check {
        code: "DRV-VER-002",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "Kubernetes cannot be upgraded from this version to that",
        consequence: "Kubernetes supports one minor version at a time, and no way back: components refuse to start or to talk to each other.",
        remedy: "upgrade minor by minor",
        reads: &["Node"],
        look: minors,
    },
    Check {
        code: "DRV-VER-003",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A kubelet is too far from the API server",
        consequence: "a kubelet may be up to three minor versions older than the API server (two before Kubernetes 1.28) and never newer: it would lose its node.",
        remedy: "upgrade the kubelets that are behind first",
        reads: &["Node"],
        look: skew,
    },
    Check {
        code: "DRV-VER-004",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "An earlier upgrade is half done",
        consequence: "nodes of different versions are no state to start from: what fails cannot be told from what was not done yet.",
        remedy: "finish the earlier upgrade, or find out what it waits for: drover why --all",
        reads: &["Node"],
        look: half_done,
    },
    Check {
        code: "DRV-VER-005",
        severity: Severity::Risks,
        scope: Scope::Plans,
        title: "Workers would be newer than the control plane",
        consequence: "a kubelet must not be newer than the API server that it talks to.",
        remedy: "upgrade the control plane first, and let this Plan come after that one: drover.dev/after: NAMESPACE/NAME",
        reads: &["Node"],
        look: workers_first,
    },
    Check {
        code: "DRV-VER-006",
        severity: Severity::Risks,
        scope: Scope::Everything,
        title: "The way from this version to that has a known issue",
        consequence: "others have met it on the same way.",
        remedy: "read about the issue, and prepare for it",
        reads: &["Node"],
        look: known,
    },
];

/// `major.minor.patch` of a version, whatever comes behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
}

impl Release {
    pub fn parse(version: &str) -> Option<Self> {
        let version = version.strip_prefix('v').unwrap_or(version);
        let numbers = version.split(['+', '-']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        let release = Release { major: parts.next()??, minor: parts.next()??, patch: parts.next().unwrap_or(Some(0))? };
        parts.next().is_none().then_some(release)
    }

    /// Kubernetes 1; an image of an operating system or a tool is no release of it.
    pub fn of_kubernetes(version: &str) -> Option<Self> {
        Release::parse(version).filter(|release| release.major == 1 && release.minor >= 10)
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn release_of(node: &Node) -> Option<Release> {
    Release::of_kubernetes(&node.status.node_info.kubelet_version)
}

pub fn is_control_plane(node: &Node) -> bool {
    const ROLES: [&str; 2] = [roles::CONTROL_PLANE, roles::MASTER];
    ROLES.iter().any(|role| node.metadata.labels.contains_key(*role))
}

/// What the API servers run: as the kubelets beside them, the lowest of them.
pub fn control_plane(cluster: &Cluster) -> Option<Release> {
    cluster.nodes.iter().filter(|node| is_control_plane(node)).filter_map(release_of).min()
}

/// Why Harvester does not go from one version to another. The order and the words are those of its own guard.
pub fn refused(current: &str, target: &str, minimum: &str) -> Option<String> {
    // Whatever is no release is a build of somebody who knows.
    let to = Release::parse(target)?;
    match Release::parse(current) {
        None => Some("upgrading from dev versions to non-dev versions is prohibited".to_owned()),
        Some(_) if target == current => None,
        Some(_) if is_lower(target, current) => Some("downgrading is prohibited".to_owned()),
        Some(_) if !minimum.is_empty() && is_lower(current, minimum) => Some(format!(
            "current version does not meet minimum upgrade requirement: it is {current}, and {target} needs {minimum}"
        )),
        Some(from) if current.contains('-') && from != to => {
            Some("cross-version upgrades from/to any prerelease version are prohibited".to_owned())
        }
        Some(_) => None,
    }
}

fn guard(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some((target, version)) = intent.harvester(cluster) else { return Vec::new() };
    let Some(current) = setting(cluster, names::SERVER_VERSION) else { return Vec::new() };
    let skip = intent.annotation(annotations::SKIP_VERSION_CHECK).is_some_and(|skip| switch(skip) == Some(true));
    let is_dev = version.is_some_and(|version| version.spec.tags.iter().any(|tag| tag == TAG_DEV));
    let minimum = version.map(|version| version.spec.min_upgradable_version.as_str()).unwrap_or_default();
    let problem = if skip || is_dev { None } else { refused(current, target, minimum) };
    let about = ObjectRef::new("Version", drover_api::harvester::NAMESPACE, target);
    problem
        .map(|problem| Finding::new(format!("{problem} ({current} to {target})")).about([about]))
        .into_iter()
        .collect()
}

fn minors(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(target) = intent.kubernetes(cluster) else { return Vec::new() };
    let mut findings = Vec::new();
    let concerned = intent.nodes(cluster);
    let newer: Vec<&Node> =
        concerned.iter().copied().filter(|node| release_of(node).is_some_and(|release| release > target)).collect();
    if !newer.is_empty() {
        let sentence = format!("{target} is a downgrade for {}", named(newer.iter().copied()));
        findings.push(Finding::new(sentence).about(newer.into_iter().map(ObjectRef::of)));
    }
    let leading = concerned.iter().copied().filter(|node| is_control_plane(node));
    let far: Vec<&Node> =
        leading.filter(|node| release_of(node).is_some_and(|release| release.minor + 1 < target.minor)).collect();
    if let Some(release) = far.iter().filter_map(|node| release_of(node)).min() {
        let between = format!("v{}.{}", release.major, release.minor + 1);
        let sentence =
            format!("from {release} to {target} is more than one minor version: {}", named(far.iter().copied()));
        let remedy = format!("upgrade to the newest {between} first");
        findings.push(Finding::new(sentence).about(far.into_iter().map(ObjectRef::of)).remedy(remedy));
    }
    findings
}

fn skew(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(current) = control_plane(cluster) else { return Vec::new() };
    // A control plane that is raised leaves its kubelets behind until their turn comes.
    let raised = intent.nodes(cluster).into_iter().any(is_control_plane);
    let server = intent.kubernetes(cluster).filter(|target| raised && *target > current).unwrap_or(current);
    let may_lag = may_lag(server.minor);
    let finding = |node: &Node| {
        let kubelet = release_of(node)?;
        let name = &node.metadata.name;
        let sentence = match kubelet.minor {
            minor if minor > server.minor => {
                format!("the kubelet of node {name} is {kubelet}, newer than the API server's {server}")
            }
            minor if minor + may_lag < server.minor => {
                format!("the kubelet of node {name} is {kubelet}, more than {may_lag} minor versions behind {server}")
            }
            _ => return None,
        };
        Some(Finding::new(sentence).on(node))
    };
    cluster.nodes.iter().filter_map(finding).collect()
}

fn half_done(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    // What is asked for may itself be half done: then it goes on.
    if matches!(intent.asked, Asked::Plan(_) | Asked::Upgrade(_)) {
        return Vec::new();
    }
    let minors =
        |wanted: u64| cluster.nodes.iter().filter(move |node| release_of(node).is_some_and(|r| r.minor == wanted));
    let all: std::collections::BTreeSet<u64> = cluster.nodes.iter().filter_map(release_of).map(|r| r.minor).collect();
    let (Some(lowest), Some(highest)) = (all.first(), all.last()) else { return Vec::new() };
    if lowest == highest {
        return Vec::new();
    }
    let sentence = format!("nodes run v1.{lowest} to v1.{highest}; still on v1.{lowest}: {}", named(minors(*lowest)));
    vec![Finding::new(sentence).about(minors(*lowest).map(ObjectRef::of))]
}

fn workers_first(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let (Some(target), Some(server)) = (intent.kubernetes(cluster), control_plane(cluster)) else { return Vec::new() };
    let waits = intent.annotation(drover_api::marks::AFTER).is_some();
    let has_prepare =
        matches!(&intent.asked, Asked::Plan(plan) if plan.spec.as_ref().is_ok_and(|spec| spec.prepare.is_some()));
    let selected = intent.nodes(cluster);
    if waits || has_prepare || target.minor <= server.minor || selected.iter().any(|node| is_control_plane(node)) {
        return Vec::new();
    }
    let sentence = format!("the Plan raises workers to {target} while the control plane runs {server}");
    vec![Finding::new(sentence).about(selected.into_iter().map(ObjectRef::of))]
}

fn known(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let harvester = intent.harvester(cluster).and_then(|(to, _)| {
        Some((Product::Harvester, Release::parse(setting(cluster, names::SERVER_VERSION)?)?, Release::parse(to)?))
    });
    let kubernetes = || {
        let from = intent.nodes(cluster).into_iter().filter_map(release_of).min()?;
        Some((Product::Kubernetes, from, intent.kubernetes(cluster)?))
    };
    let Some((product, from, to)) = harvester.or_else(kubernetes) else { return Vec::new() };
    let met = known_issues::met(product, from, to);
    met.map(|issue| {
        Finding::new(format!("{from} to {to}: {}", issue.what)).remedy(format!("{} See {}", issue.advice, issue.link))
    })
    .collect()
}
