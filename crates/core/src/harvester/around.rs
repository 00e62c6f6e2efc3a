//! What Harvester's own controller does around the steps of a stock release, by Plans: a file that keeps RKE2 from deploying its own
//! multus while nodes are raised, which would delete the networks of VMs, and images that nothing but the old release needs.
//!
//! Drover's own steps do without: a release that is made for them says what it needs.

use std::collections::BTreeSet;

use drover_api::harvester::jobs::{components, names as suffixes, stock};
use drover_api::harvester::node::MANAGED;
use drover_api::harvester::upgrade::annotations::{IMAGES_CLEANED, SKIP_MANIFESTS_APPLIED, SKIP_MANIFESTS_REMOVED};
use drover_api::harvester::{CATTLE_NAMESPACE, NAMESPACE, jobs::UPGRADE, jobs::variables};
use drover_api::plan::labels::{JOB_NAME, plan_hash};
use serde_json::{Value, json};

use super::decide::{Phase, Turn, members};
use super::progress::Ending;
use super::release::{Served, Steps};
use super::{jobs, names, preload, repo};
use crate::cluster::{Cluster, Node, Pod};
use crate::decision::{Act, Kind, Purpose, Reason, Subject};
use crate::seen::PlanSeen;

/// The charts of RKE2 that must not be deployed while nodes are raised.
const MANIFESTS: &str = "rke2-multus.yaml";

/// A file beside a manifest of RKE2 keeps it from being deployed.
const SKIP: &str = r#"set -e
cd "${HOST_DIR:-/host}/var/lib/rancher/rke2/server/manifests" || exit 0
for manifest in $MANIFESTS; do
  case "$SKIP_ACTION" in
    apply) touch "$manifest.skip" ;;
    remove) rm -f "$manifest.skip" ;;
  esac
done
"#;

/// Rancher's agent goes by its own unit again.
const RECOVER: &str = r#"set -e
drop_in="${HOST_DIR:-/host}/run/systemd/system/rancher-system-agent.service.d"
[ -d "$drop_in" ] || exit 0
rm -rf "$drop_in"
chroot "${HOST_DIR:-/host}" systemctl daemon-reload
chroot "${HOST_DIR:-/host}" systemctl try-restart rancher-system-agent.service
"#;

/// An image that is in use stays, and does not keep the others.
const PRUNE: &str = r#"for image in $IMAGES; do
  chroot "${HOST_DIR:-/host}" /var/lib/rancher/rke2/bin/crictl --config /var/lib/rancher/rke2/agent/etc/crictl.yaml rmi "$image" || true
done
"#;

/// Images that are needed although no container uses them: the next upgrade begins with one, VMs and logs run on with the others.
const KEPT: [&str; 5] = [
    stock::IMAGE,
    "longhornio/longhorn-engine",
    "longhornio/longhorn-instance-manager",
    "rancher/mirrored-banzaicloud-fluentd",
    "rancher/mirrored-fluent-fluent-bit",
];

/// Whether these Plans are made at all.
fn is_stock(turn: &Turn<'_>) -> bool {
    turn.next.steps == Steps::Release && turn.next.release.is_some()
}

/// Before the planner may raise a node; true when nothing is left to be done.
pub(super) fn before_nodes(turn: &mut Turn<'_>) -> bool {
    if !is_stock(turn) || !turn.next.single_node.is_empty() || is_noted(turn, SKIP_MANIFESTS_APPLIED) {
        return true;
    }
    turn.phase = Phase::UpgradingServices;
    let done = everywhere(turn, suffixes::SKIP_MANIFESTS_APPLY, components::APPLY_SKIP_MANIFESTS, &skipping("apply"));
    if done {
        turn.annotations.insert(SKIP_MANIFESTS_APPLIED, json!("true"));
    }
    done
}

/// The script on the system services creates a Plan of its own.
pub(super) fn tend_script(turn: &mut Turn<'_>, job: &str) {
    let left = plan(turn, suffixes::SKIP_RESTART_AGENT).filter(|_| is_stock(turn));
    if let Some(plan) = left
        && !clear_for_next_try(turn, job, plan)
    {
        tell_uncounted(turn, plan);
    }
}

/// The Plan of the script is in the way of its next try: what is there cannot be created, and one error that passes would use up all tries.
/// Kubernetes waits ten seconds and more between two of them: the Plan goes as soon as one has failed. True if it goes.
fn clear_for_next_try(turn: &mut Turn<'_>, job: &str, left: &PlanSeen) -> bool {
    let cluster = turn.cluster();
    let of_job = |pod: &&Pod| {
        let label = |key: &str| pod.metadata.labels.get(key).map(String::as_str);
        label(JOB_NAME) == Some(job) && label(UPGRADE) == Some(turn.name())
    };
    let mut pods = cluster.pods.in_namespace(NAMESPACE).filter(of_job).peekable();
    let has_failed = pods.peek().is_some() && pods.all(Pod::has_failed);
    if has_failed {
        let subject = Subject::new(Kind::Plan, CATTLE_NAMESPACE, &left.meta.name);
        turn.write(Purpose::CleanUp, subject, Act::Delete { uid: left.meta.uid.clone() });
    }
    has_failed
}

/// The script waits until its Plan has run on all Nodes of the cluster, and the Plan runs on managed ones only. Drover does not write the
/// label that would let the script go on: it would say that Rancher's agent is held there, and whether Rancher has nothing to do with such
/// a Node, or only its Machine has lost it, no object tells.
fn tell_uncounted(turn: &mut Turn<'_>, plan: &PlanSeen) {
    let (name, hash) = (&plan.meta.name, &plan.status.latest_hash);
    for node in uncounted(turn.cluster(), plan) {
        let node = &node.metadata.name;
        let sentence = format!(
            "the steps of the release wait until their Plan {CATTLE_NAMESPACE}/{name} has run on every Node, and it never runs on {node}, which has no label {MANAGED}=true"
        );
        let remedy = format!(
            "provision it again, or remove it; if Rancher has nothing to do with it, let it be counted: kubectl label node {node} {}={hash}",
            plan_hash(name)
        );
        turn.wait_with_remedy(Subject::node(node), Reason::NodeUncounted, sentence, remedy);
    }
}

/// Whether the script on the system services is going to wait for a Node on which its Plan never runs: one that carries a result of that
/// Plan was counted.
pub(super) fn will_count(turn: &Turn<'_>, node: &Node) -> bool {
    let label = plan_hash(&names::plan(turn.name(), suffixes::SKIP_RESTART_AGENT));
    is_stock(turn) && turn.next.services.is_none() && !is_managed(node) && !node.metadata.labels.contains_key(&label)
}

fn is_managed(node: &Node) -> bool {
    node.metadata.labels.get(MANAGED).is_some_and(|value| value == "true")
}

/// The Nodes that the script of a stock release waits for although its Plan, which knows what result it wants, never runs there.
pub(crate) fn uncounted<'a>(cluster: &'a Cluster, plan: &PlanSeen) -> Vec<&'a Node> {
    let (label, hash) = (plan_hash(&plan.meta.name), &plan.status.latest_hash);
    let is_counted = |node: &Node| node.metadata.labels.get(&label) == Some(hash);
    let nodes = cluster.nodes.iter().filter(|node| !hash.is_empty() && !is_managed(node) && !is_counted(node));
    nodes.collect()
}

/// After the nodes, or whatever became of them; true when nothing is left to be done.
pub(super) fn afterwards(turn: &mut Turn<'_>) -> bool {
    if !is_stock(turn) {
        return true;
    }
    let parts = [allow_manifests(turn), recover_agents(turn), prune_images(turn)];
    parts.iter().all(|done| *done)
}

/// The steps on the system services keep Rancher's agents from enabling RKE2; each node takes that back when its turn comes. Where not all
/// have had theirs, it is taken back here.
fn recover_agents(turn: &mut Turn<'_>) -> bool {
    let is_due = turn.next.prepared && turn.next.ended != Some(Ending::Succeeded) && !turn.next.agents_recovered;
    if !is_due {
        return true;
    }
    let recovery = json!({ "command": ["sh", "-c", RECOVER], "envs": [] });
    let done = everywhere(turn, suffixes::RECOVER_AGENT, components::RECOVER_AGENT, &recovery);
    turn.next.agents_recovered |= done;
    done
}

/// What was taken back is done again.
pub(super) fn take_up(turn: &mut Turn<'_>) {
    turn.next.agents_recovered = false;
    if turn.annotation(SKIP_MANIFESTS_REMOVED).is_some() {
        turn.annotations.insert(SKIP_MANIFESTS_APPLIED, Value::Null);
        turn.annotations.insert(SKIP_MANIFESTS_REMOVED, Value::Null);
    }
}

/// Whether the Upgrade says so, after this turn.
fn is_noted(turn: &Turn<'_>, mark: &str) -> bool {
    turn.annotations.get(mark).map_or_else(|| turn.annotation(mark).is_some(), |value| !value.is_null())
}

/// One that was only begun with may have left files, too.
fn allow_manifests(turn: &mut Turn<'_>) -> bool {
    let begun = plan(turn, suffixes::SKIP_MANIFESTS_APPLY).is_some() || is_noted(turn, SKIP_MANIFESTS_APPLIED);
    if !begun || is_noted(turn, SKIP_MANIFESTS_REMOVED) {
        return true;
    }
    let done =
        everywhere(turn, suffixes::SKIP_MANIFESTS_REMOVE, components::REMOVE_SKIP_MANIFESTS, &skipping("remove"));
    if done {
        turn.annotations.insert(SKIP_MANIFESTS_REMOVED, json!("true"));
    }
    done
}

fn skipping(action: &str) -> Value {
    json!({
        "command": ["sh", "-c", SKIP],
        "envs": [{ "name": "MANIFESTS", "value": MANIFESTS }, { "name": "SKIP_ACTION", "value": action }],
    })
}

/// Only after a success: until then the old release may be needed again.
fn prune_images(turn: &mut Turn<'_>) -> bool {
    if turn.next.ended != Some(Ending::Succeeded) || is_noted(turn, IMAGES_CLEANED) {
        return true;
    }
    let (done, word) = match unneeded(turn) {
        // A Plan that is there knows what goes.
        _ if plan(turn, suffixes::CLEANUP).is_some() => {
            (everywhere(turn, suffixes::CLEANUP, components::CLEANUP, &Value::Null), "true")
        }
        None => return false,
        // Nothing to do is done as well, and a list that cannot be had is no reason to wait for ever.
        Some(Ok(images)) if images.is_empty() => (true, "true"),
        Some(Ok(images)) => {
            let pruning = json!({
                "command": ["sh", "-c", PRUNE], "envs": [{ "name": "IMAGES", "value": images.join(" ") }],
            });
            (everywhere(turn, suffixes::CLEANUP, components::CLEANUP, &pruning), "true")
        }
        Some(Err(())) => (true, "false"),
    };
    if done {
        turn.annotations.insert(IMAGES_CLEANED, json!(word));
    }
    done
}

/// The images of the old release that the new one does not need, as far as the repository tells; none while it is being asked.
fn unneeded(turn: &mut Turn<'_>) -> Option<Result<Vec<String>, ()>> {
    if repo::ask_for_lists(turn) {
        return None;
    }
    let served = turn.view.repository.and_then(|fetched| fetched.answer.as_ref().ok());
    Some(served.and_then(of_old_release).ok_or(()))
}

fn of_old_release(served: &Served) -> Option<Vec<String>> {
    fn names(list: &str) -> BTreeSet<&str> {
        list.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
    }
    let (old, new) = (names(served.previous_images.as_deref()?), names(served.images.as_deref()?));
    let is_kept = |image: &str| {
        let without_tag = image.rsplit_once(':').map_or(image, |(name, _)| name);
        KEPT.iter().any(|kept| without_tag == *kept || without_tag.ends_with(&format!("/{kept}")))
    };
    Some(old.difference(&new).filter(|image| !is_kept(image)).map(|image| (*image).to_owned()).collect())
}

fn plan<'a>(turn: &Turn<'a>, suffix: &str) -> Option<&'a PlanSeen> {
    turn.cluster().plan(CATTLE_NAMESPACE, &names::plan(turn.name(), suffix))
}

/// Lets a Plan run on all nodes at once; true once it has. A node that is away is not waited for at the end: nobody else would go on then.
fn everywhere(turn: &mut Turn<'_>, suffix: &str, component: &str, container: &Value) -> bool {
    let name = names::plan(turn.name(), suffix);
    let subject = Subject::new(Kind::Plan, CATTLE_NAMESPACE, &name);
    let (nodes, _) = members(turn.cluster());
    let Some(seen) = plan(turn, suffix) else {
        if !forget_results(turn, &name) {
            return false;
        }
        let mut container = container.clone();
        container["image"] = json!(jobs::image_to_prepare(turn));
        let upgrade = json!({ "name": variables::UPGRADE_NAME, "value": turn.name() });
        container["envs"].as_array_mut().into_iter().for_each(|envs| envs.push(upgrade.clone()));
        let plan = preload::plan(turn, &name, component, nodes.len(), container);
        turn.write(Purpose::Provide, subject.clone(), Act::Create(plan));
        turn.wait(subject, Reason::JobRunning, format!("Plan {CATTLE_NAMESPACE}/{name} is being made"));
        return false;
    };
    let is_over = turn.next.ended.is_some();
    let lacks = |node: &&crate::cluster::Node| !preload::has_run(seen, node) && (node.is_ready() || !is_over);
    let waiting: Vec<&str> =
        nodes.iter().map(|member| member.node).filter(lacks).map(|node| node.metadata.name.as_str()).collect();
    if waiting.is_empty() {
        return true;
    }
    let sentence = format!("Plan {CATTLE_NAMESPACE}/{name} has not run on {}", waiting.join(", "));
    preload::await_plan(turn, seen, Reason::JobRunning, sentence);
    false
}

/// A Plan that is made once more runs once more: nodes lose what they carry of the one before. True once none does.
fn forget_results(turn: &mut Turn<'_>, name: &str) -> bool {
    let label = plan_hash(name);
    let carry: Vec<_> = turn.cluster().nodes.iter().filter(|node| node.metadata.labels.contains_key(&label)).collect();
    for node in &carry {
        let patch = preload::without_result(node, name);
        turn.write(Purpose::UndoMarks, Subject::node(&node.metadata.name), Act::Patch(patch));
    }
    carry.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pruned(old: &str, new: &str) -> Option<Vec<String>> {
        let list = |text: &str| Some(text.to_owned());
        of_old_release(&Served { images: list(new), previous_images: list(old), ..Served::default() })
    }

    #[test]
    fn images_go_that_only_the_old_release_needs() {
        let old = "docker.io/a/app:v1\ndocker.io/a/same:v1\n\ndocker.io/rancher/harvester-upgrade:v1.7.0\nlonghornio/longhorn-engine:v1.9.0\n";
        let new = "docker.io/a/app:v2\ndocker.io/a/same:v1\n";
        assert_eq!(pruned(old, new), Some(vec!["docker.io/a/app:v1".to_owned()]));
        assert_eq!(pruned(new, new), Some(Vec::new()));
    }

    #[test]
    fn without_a_list_nothing_goes() {
        assert_eq!(of_old_release(&Served { images: Some("a:1".to_owned()), ..Served::default() }), None);
    }
}
