//! VMs that cannot leave their node are stopped for its upgrade, and started again when it is back, if that is asked for.
//!
//! Which they are stands in a ConfigMap that the steps write. Those of a stock release name in it what they see: once begun anew, they see no
//! more what they have stopped before, so the names are kept here as well.

use std::collections::BTreeSet;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::types;
use drover_api::harvester::node::WITNESS;
use serde_json::json;

use super::decide::{Member, Turn};
use super::jobs::{self, Course};
use super::progress::Ending;
use super::release::Steps;
use super::{config, names};
use crate::cluster::harvester::ConfigMap;
use crate::decision::{Act, Kind, Purpose, Reason, Subject};

/// What the steps of a stock release have stopped for the nodes that are at work.
pub(super) fn note_stopped(turn: &mut Turn<'_>) {
    let Some(list) = list(turn).filter(|_| turn.next.steps == Steps::Release) else { return };
    for (node, text) in &list.data {
        let listed = listed(text);
        if !listed.is_empty() && turn.next.step(node).is_at_work() {
            turn.next.stopped.entry(node.clone()).or_default().extend(listed);
        }
    }
}

/// True once it was tried to start them.
pub(super) fn restored(turn: &mut Turn<'_>, member: Member<'_>) -> bool {
    let name = member.name();
    let in_list = list(turn).and_then(|list| list.data.get(name)).map(|text| listed(text)).unwrap_or_default();
    let mut stopped = turn.next.stopped.get(name).cloned().unwrap_or_default();
    stopped.extend(in_list.iter().cloned());
    if stopped.is_empty() || turn.next.restored.contains_key(name) || !config::chosen(turn).restores_vms {
        return true;
    }
    if member.node.metadata.labels.contains_key(WITNESS) {
        return true;
    }
    let job = names::node_job(turn.name(), types::RESTORE_VM, name);
    let ending = match jobs::course(turn, &job) {
        Course::Missing if stopped != in_list => {
            // The Job reads the list.
            complete(turn, name, &stopped);
            None
        }
        Course::Missing => {
            jobs::on_node(turn, types::RESTORE_VM, member.node);
            None
        }
        Course::Running => None,
        Course::Done => Some(Ending::Succeeded),
        // The node is upgraded all the same; that its VMs may be off is told.
        Course::Failed { reason, message } => {
            let why = if message.is_empty() { &reason } else { &message };
            let vms: Vec<&str> = stopped.iter().map(String::as_str).collect();
            let message = format!("{}: {why}", vms.join(", "));
            Some(Ending::Failed { reason, message })
        }
    };
    if let Some(ending) = ending {
        turn.next.restored.insert(name.to_owned(), ending);
        return true;
    }
    turn.wait(Subject::node(name), Reason::JobRunning, format!("Job {NAMESPACE}/{job} starts the VMs of {name} again"));
    false
}

/// A node that has its turn once more stops VMs once more: a Job that has started them before says nothing of that.
pub(super) fn forget(turn: &mut Turn<'_>, name: &str) {
    if turn.next.restored.remove(name).is_none() {
        return;
    }
    turn.next.stopped.remove(name);
    let job = names::node_job(turn.name(), types::RESTORE_VM, name);
    let uid = turn.job(&job).map(|job| job.metadata.uid.clone());
    turn.next.discarded.extend(uid);
}

fn list<'a>(turn: &Turn<'a>) -> Option<&'a ConfigMap> {
    turn.cluster().harvester.config_maps.get(NAMESPACE, &names::restore_list(turn.name()))
}

fn listed(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|vm| !vm.is_empty()).map(str::to_owned).collect()
}

fn complete(turn: &mut Turn<'_>, node: &str, stopped: &BTreeSet<String>) {
    let name = names::restore_list(turn.name());
    let text = stopped.iter().map(String::as_str).collect::<Vec<&str>>().join(",");
    let data = json!({ node: text });
    let act = match list(turn) {
        Some(list) => Act::Patch(json!({
            "metadata": { "resourceVersion": list.metadata.resource_version.to_string() }, "data": data,
        })),
        None => Act::Create(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": NAMESPACE, "ownerReferences": turn.owner() }, "data": data,
        })),
    };
    turn.write(Purpose::Provide, Subject::new(Kind::ConfigMap, NAMESPACE, &name), act);
}
