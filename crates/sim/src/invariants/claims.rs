//! Claims change hands by their epoch, end with the release of their node, and stay within the limit.

use std::time::Duration;

use serde_json::Value;

use super::{Change, Checker, claim, limit, window, written_claims};
use crate::known::Known;

/// How long a write that was decided on in time may take to land.
const UNDER_WAY: Duration = Duration::from_secs(90);

impl Checker {
    pub(super) fn check_claims(&mut self, known: &Known, change: &Change<'_>) {
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        let (old, new) = (written_claims(before), written_claims(after));
        if self.check_hands(change, &old, &new) {
            self.check_ended(known, change, &old, &new);
            self.check_begun(change, after, &old, &new);
        }
    }

    /// An operator changes claims in its own epoch only; false if there are no changes of one.
    pub(super) fn check_hands(&mut self, change: &Change<'_>, old: &Value, new: &Value) -> bool {
        if old == new {
            return false;
        }
        if !change.is_by_an_operator() {
            self.tampered.insert(change.name.to_owned());
            return false;
        }
        let (actor, name) = (change.actor, change.name);
        let epoch = |claims: &Value| claims["epoch"].as_u64().unwrap_or(0);
        if old["holder"] != new["holder"] {
            if epoch(new) != epoch(old) + 1 {
                let (old, new) = (epoch(old), epoch(new));
                self.violation(format!("{actor} took over the claims of {name} in epoch {new} after {old}"));
            }
            if !nodes(old).eq(nodes(new)) && !old.is_null() {
                self.violation(format!("{actor} changed the claims of {name} while taking them over"));
            }
        } else if new["holder"] != actor || epoch(old) != epoch(new) {
            self.violation(format!("{actor} changed the claims of {name} in an epoch that is not its own"));
        }
        true
    }

    /// A claim ends when its node is back in service, or gone.
    pub(super) fn check_ended(&mut self, known: &Known, change: &Change<'_>, old: &Value, new: &Value) {
        for (node, ended) in nodes(old) {
            let goes_on = new["nodes"].get(node).is_some_and(|claim| claim["id"] == ended["id"]);
            let marked = known.node(node).and_then(claim).is_some_and(|id| ended["id"] == id);
            if !goes_on && marked {
                self.violation(format!("{} ended the claim of {node}, which is still out", change.actor));
            }
        }
    }

    fn check_begun(&mut self, change: &Change<'_>, plan: &Value, old: &Value, new: &Value) {
        let begun: Vec<&str> = nodes(new)
            .filter(|(node, claim)| old["nodes"][node.as_str()]["id"] != claim["id"])
            .map(|(node, _)| node.as_str())
            .collect();
        let Some(first) = begun.first() else { return };
        let (count, limit) = (nodes(new).count(), limit(plan));
        if count > limit && !self.tampered.contains(change.name) {
            self.violation(format!("{} claimed {first} as number {count} of {limit}", change.actor));
        }
        let was_open = [Duration::ZERO, UNDER_WAY].iter().any(|ago| {
            let moment = change.at.checked_sub(jiff::SignedDuration::try_from(*ago).unwrap_or_default());
            moment.is_ok_and(|moment| window::is_open(plan, moment))
        });
        if !was_open && !self.leave.clocks {
            self.violation(format!("{} claimed {first} outside of the Plan's window", change.actor));
        }
    }
}

pub(super) fn nodes(claims: &Value) -> impl Iterator<Item = (&String, &Value)> {
    claims["nodes"].as_object().into_iter().flatten()
}
