//! Nodes leave service within the limit, and come back as they were.

use serde_json::Value;

use super::{
    Change, Checker, claim, hash_for, is_at_work, is_cordoned, is_cordoned_for_an_upgrade, is_ready, limit, node_of,
    owner, plan_with_uid, written_claims,
};
use crate::known::Known;

impl Checker {
    pub(super) fn check_node(&mut self, known: &Known, change: &Change<'_>) {
        if !change.is_by_an_operator() {
            self.note_cordons_of_others(change);
            return;
        }
        let (Some(before), Some(after)) = (change.before, change.after) else {
            self.violation(format!("{} made or deleted {}", change.actor, change.name));
            return;
        };
        if claim(before) != claim(after) && claim(after).is_some() {
            self.check_claimed(known, change, after);
        }
        self.check_given_back(known, change);
        if !is_cordoned(before) && is_cordoned(after) {
            self.uncordoned.remove(change.name);
        }
        let uncordons = is_cordoned(before) && !is_cordoned(after);
        if uncordons && self.by_planner.remove(change.name) {
            self.cordoned.remove(change.name);
        } else if uncordons && self.cordoned.contains(change.name) {
            self.violation(format!("{} uncordoned {}, which somebody else had cordoned", change.actor, change.name));
        }
        for (key, hash) in results(after) {
            if before["metadata"]["labels"][key] != *hash {
                self.check_release(known, change, after, key, hash);
            }
        }
    }

    /// What others do to the cordon of a node is theirs from then on. A container of our Job cordons for us; Rancher never does.
    fn note_cordons_of_others(&mut self, change: &Change<'_>) {
        let ours = change.after.and_then(claim).is_some() && change.actor != "world/rancher";
        if ours && (change.actor.starts_with("world") || change.actor.starts_with("node")) {
            return;
        }
        let (before, after) = (change.before.is_some_and(is_cordoned), change.after.is_some_and(is_cordoned));
        let name = change.name.to_owned();
        match (before, after) {
            // An operator has said on the node that it is cordoned for an upgrade, and to cordon it meanwhile is to ask for what
            // was there before: it goes with the upgrade.
            (false, true) if change.after.is_some_and(is_cordoned_for_an_upgrade) => {}
            (false, true) => {
                // It cordons for the Upgrade that has asked it, which may take that back.
                if change.actor == "world/rancher" {
                    self.by_planner.insert(name.clone());
                }
                self.cordoned.insert(name);
            }
            (true, false) => {
                self.cordoned.remove(&name);
                self.by_planner.remove(&name);
                self.uncordoned.insert(name);
            }
            _ => {}
        }
    }

    fn check_claimed(&mut self, known: &Known, change: &Change<'_>, node: &Value) {
        let Some(owner) = owner(node) else {
            self.violation(format!("{} claimed {} without saying for whom", change.actor, change.name));
            return;
        };
        if super::mark(node).is_some_and(|mark| mark["owner"]["kind"] == "RKEControlPlane") {
            return self.check_taken(known, change, node);
        }
        // One that is gone limits nothing any more; its marks are undone.
        let Some(plan) = plan_with_uid(known, &owner) else { return };
        let out = known.all("Node").filter(|node| claim(node).is_some() && super::owner(node).as_ref() == Some(&owner));
        let (out, limit) = (out.count(), limit(plan));
        if out > limit {
            self.violation(format!("{} claimed {} as number {out} of {limit}", change.actor, change.name));
        }
        let plan_name = plan["metadata"]["name"].as_str().unwrap_or_default();
        let written = &written_claims(plan)["nodes"][change.name]["id"];
        if !self.tampered.contains(plan_name) && written.as_str() != claim(node) {
            let actor = change.actor;
            self.violation(format!("{actor} took {} under a claim that does not stand on its Plan", change.name));
        }
        let selected = super::selector::selects(&plan["spec"]["nodeSelector"], node)
            && hash_for(node, plan_name) != Some("disabled");
        let cordoned = change.before.is_some_and(|before| !is_cordoned(before)) && is_cordoned(node);
        if cordoned && !selected && !self.leave.meddled {
            self.violation(format!("{} cordoned {}, which the Plan does not select", change.actor, change.name));
        }
    }

    /// A node that gets its result is Ready, that upgrade has succeeded on it, and nothing of it runs any more.
    fn check_release(&mut self, known: &Known, change: &Change<'_>, node: &Value, key: &str, hash: &Value) {
        let (actor, name) = (change.actor, change.name);
        if !is_ready(node) {
            self.violation(format!("{actor} released {name} while it was not Ready"));
        }
        let upgrade = (name.to_owned(), format!("{key}={}", hash.as_str().unwrap_or_default()));
        if !self.upgrades.contains_key(&upgrade) {
            self.violation(format!("{actor} gave {name} the result {key}, and that upgrade has not succeeded on it"));
        }
        let of_plan = |pod: &&Value| pod["metadata"]["labels"]["upgrade.cattle.io/plan"].is_string();
        let mut pods = known.all("Pod").filter(of_plan).filter(|pod| !self.is_strangers(pod));
        if pods.any(|pod| is_at_work(pod) && node_of(pod) == Some(name)) {
            self.violation(format!("{actor} released {name} while its upgrade still ran"));
        }
    }
}

fn results(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter(|(key, _)| key.starts_with("plan.upgrade.cattle.io/")).map(|(key, value)| (key.as_str(), value))
}
