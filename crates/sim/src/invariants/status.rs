//! What a Plan says of itself is so when it says it.

use serde_json::Value;

use super::{Change, Checker, has_condition, hash_for, selector};
use crate::known::Known;

impl Checker {
    pub(super) fn check_status(&mut self, known: &Known, change: &Change<'_>) {
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        if !change.is_by_an_operator() || before["status"] == after["status"] {
            return;
        }
        if has_condition(after, "Complete") && !has_condition(before, "Complete") && !self.leave.meddled {
            let unfinished = known.named("Node").find(|(_, _, node)| {
                let hash = hash_for(node, change.name);
                selector::selects(&after["spec"]["nodeSelector"], node)
                    && hash != Some("disabled")
                    && hash != after["status"]["latestHash"].as_str()
            });
            if let Some((_, node, _)) = unfinished {
                self.violation(format!("{} called {} complete before {node} was", change.actor, change.name));
            }
        }
        for wait in waits(after) {
            let same = |old: &&Value| old["subject"] == wait["subject"] && old["reason"] == wait["reason"];
            if waits(before).find(same).is_some_and(|old| old["since"] != wait["since"]) {
                let (reason, subject) = (&wait["reason"], &wait["subject"]);
                self.violation(format!("{} forgot since when {subject} waits for {reason}", change.actor));
            }
        }
    }
}

pub(super) fn waits(plan: &Value) -> impl Iterator<Item = &Value> {
    plan["status"]["waits"].as_array().into_iter().flatten()
}
