//! Where an operator plans machines, a plan takes its node out: who carries it out restarts etcd.

use super::{Change, Checker};
use crate::known::Known;

const MACHINE: &str = "rke.cattle.io/machine-name";
/// On a Job that carries out the plan of a machine.
const JOB_OF: &str = "drover.dev/machine";

impl Checker {
    /// A machine is given another plan, or one that has failed once more.
    pub(super) fn check_delivery(&mut self, known: &Known, change: &Change<'_>) {
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        let machine = after["metadata"]["labels"][MACHINE].as_str().filter(|_| change.is_by_an_operator());
        let changes = |key: &str| after["data"][key] != before["data"][key];
        let is_tried_again = !before["data"]["failed-checksum"].is_null() && changes("failed-checksum");
        if let Some(machine) = machine
            && (changes("plan") || is_tried_again)
        {
            self.check_goes(known, change, machine);
        }
    }

    /// A Job begins to carry one out.
    pub(super) fn check_delivery_by_job(&mut self, known: &Known, change: &Change<'_>) {
        let Some(job) = change.after.filter(|_| change.before.is_none() && change.is_by_an_operator()) else { return };
        if let Some(machine) = job["metadata"]["labels"][JOB_OF].as_str() {
            self.check_goes(known, change, machine);
        }
    }

    fn check_goes(&mut self, known: &Known, change: &Change<'_>, machine: &str) {
        let of = known.named("Machine").find(|(_, name, _)| *name == machine);
        let node = of.and_then(|(_, _, machine)| machine["status"]["nodeRef"]["name"].as_str());
        if let Some(node) = node {
            self.check_quorum(known, change, node, "was given its plan");
        }
    }
}
