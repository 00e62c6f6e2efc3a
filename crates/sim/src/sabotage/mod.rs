//! Planted bugs: what an operator would do wrong, done for it on the wire, so that nothing in it has to be changed.
//!
//! A campaign that does not find one of these would not find the same bug in the operator either.

mod answers;
mod guests;
mod harvester;
mod planner;
mod requests;

use bytes::Bytes;
use drover_core::guest::Member;
use drover_corral::apiserver::ApiServer;
use serde_json::{Value, json};

use crate::gate::{Asked, Rewrite};

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    Pass,
    /// It goes on with another body.
    Changed,
    /// It is answered with this and never sent.
    Pretend(Value),
    /// It goes on, and this one before it.
    Also(Value),
}

macro_rules! sabotages {
    ($($(#[doc = $sentence:literal])+ $name:ident,)*) => {
        /// One bug each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Sabotage {
            $($(#[doc = $sentence])+ $name,)*
        }

        impl Sabotage {
            pub const ALL: &[Sabotage] = &[$(Sabotage::$name,)*];

            /// What is wrong, in a sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Sabotage::$name => concat!($($sentence),+).trim_ascii(),)*
                }
            }
        }
    };
}

sabotages! {
    /// A node is taken whatever has happened to it since it was seen.
    TakeUnguarded,
    /// Claims are written whatever has happened to the Plan since it was seen.
    ClaimUnguarded,
    /// A node is released whatever has happened to it since it was seen.
    ReleaseUnguarded,
    /// A status is written whatever has happened to the Plan since it was seen.
    StatusUnguarded,
    /// A Job is deleted by its name, whichever it is by now.
    DeleteByName,
    /// A node is taken and not cordoned.
    CordonForgotten,
    /// A node gets its result when it is taken.
    ResultWithTake,
    /// The next node is taken while the last one is still away.
    ReadyAssumed,
    /// A node is uncordoned that somebody else had cordoned.
    ForeignCordonLifted,
    /// A cordon of ours stays.
    CordonLeft,
    /// A node is uncordoned while its upgrade is at work.
    UncordonedEarly,
    /// The mark on a node stays.
    MarkLeft,
    /// A leader begins and ends claims in an epoch that is over.
    ClaimsAtStaleEpoch,
    /// A new leader takes over the claims and keeps the epoch.
    EpochNotRaised,
    /// A leader writes claims in somebody else's name.
    HolderNotNoted,
    /// Nodes are taken whose claims were never written.
    ClaimsNotWritten,
    /// A claim ends before its node is released.
    ClaimEndedEarly,
    /// Every node counts as selected.
    SelectorIgnored,
    /// The limit is one more than the Plan says.
    LimitOffByOne,
    /// The limit is not looked at.
    LimitIgnored,
    /// A Job runs on its node without holding its claim.
    AffinityWithoutClaim,
    /// A Job may run on any node.
    AffinityForgotten,
    /// A node is upgraded while its pods are still there.
    DrainForgotten,
    /// A drain does not ask budgets.
    DrainPastBudgets,
    /// Two Jobs are made for one node.
    JobMadeTwice,
    /// The window counts as open.
    WindowIgnored,
    /// A change of a node is not noticed.
    NodeEventsLost,
    /// A Job's end is not noticed.
    JobEventsLost,
    /// A Plan is called complete when its first node is taken.
    CompleteTooEarly,
    /// A Job that runs counts as complete.
    JobAssumedComplete,
    /// A Job that has failed counts as complete.
    FailureTakenForSuccess,
    /// A Job that has failed counts as running.
    FailureNotNoticed,
    /// The Jobs of another controller are not looked at.
    OthersNotNoticed,
    /// The Jobs of another controller are deleted.
    OthersJobsDeleted,
    /// Marks of a deleted Plan stay.
    OrphansLeft,
    /// A claim that is not wanted any more is never fenced, and never ends.
    FenceForgotten,
    /// The end of a Job is never noted.
    JobEndNotNoted,
    /// A Secret that is missing counts as there.
    SecretAssumed,
    /// What is waited for is not published.
    WaitsSwallowed,
    /// Every status begins its waits anew.
    SinceForgotten,
    /// One node more counts as updated.
    MiscountedByOne,
    /// Events are not written.
    EventsSwallowed,
    /// A node gets the newest hash as its result, whatever ran on it.
    ResultOfAnotherHash,
    /// A write that failed counts as done.
    RefusalIgnored,
    /// Which guest clusters are at work is written whatever others have written since it was seen.
    PlacesUnguarded,
    /// A guest cluster counts as done when its control plane begins.
    PlaceGivenBackEarly,

    /// Rancher's planner is answered when the Job before the drain is made, not when it is done.
    HookAnsweredEarly,
    /// Every member of etcd counts as a voter that is well.
    VotersAssumed,
    /// A node that its user has paused is sent on its way.
    PauseOverlooked,
    /// The images of a release count as loaded everywhere.
    ImagesAssumed,
    /// A node that has a new system on disk counts as booted.
    RebootAssumed,
    /// Every replica of a volume counts as sound.
    ReplicasAssumed,
    /// Every VM counts as one that cannot move.
    VmTakenForStuck,
    /// VMs that were stopped for a node are not started again.
    VmLeftOff,
    /// What sends VMs away from a node stays.
    DrainTaintLeft,
    /// Rancher's planner goes on asking before it drains a node.
    HooksLeft,
    /// An Upgrade is called a success when its nodes have their turn.
    SuccessToldEarly,
    /// An Upgrade is called cleaned up before it is.
    CleanUpToldEarly,
    /// Another driver of an Upgrade is not noticed.
    DriverOverlooked,
    /// Harvester's own controller counts as switched off.
    IncumbentOverlooked,

    /// A planner takes a node whatever has happened to it since it was seen.
    PlannerTakesUnguarded,
    /// A planner takes over the claims of another one and keeps the epoch.
    PlannerKeepsEpoch,
    /// A planner takes nodes whose claims were never written.
    PlannerClaimsNotWritten,
    /// A planner ends a claim when the machine gets its plan.
    PlannerClaimEndedEarly,
    /// A planner claims two servers at once.
    PlannerClaimsTwoServers,
    /// A planner begins with workers.
    PlannerBeginsWithWorkers,
    /// A drain counts as done when a planner asks for it.
    PlannerAssumesDrain,
    /// A planner gives a node back whatever its machine is about.
    PlannerGivesBackEarly,

    /// An old machine of a control plane is deleted when the new one is made.
    OldMachineGoesFirst,
    /// Two machines come for one that goes.
    TwoMachinesCome,
    /// A machine is deleted while it is a member of etcd.
    MemberLeftBehind,
    /// The pods on a machine that goes are not looked at.
    MachineNotEmptied,
    /// The pods on a machine that goes are deleted, and their budgets not asked.
    MachineEmptiedPastBudgets,
    /// Who leads in etcd is not looked at.
    LeaderOverlooked,
    /// A Node of a guest cluster is cordoned without a word.
    CordonUnexplained,
    /// The version in `kubeadm-config` stays.
    KubeadmVersionLeft,
    /// Workers get their new version when the control plane begins.
    WorkersBegunEarly,
    /// An add-on replaces its pods by itself.
    AddonReplacesPods,
    /// An update that has failed begins once more by itself.
    FailedUpdateTriedAgain,
}

impl Sabotage {
    /// `take-unguarded`
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Does to a write what the bug would. It is for this server: that of the management cluster, or of a guest.
    pub(crate) fn rewrite(
        self,
        purpose: &str,
        asked: &mut Asked,
        server: &ApiServer,
        management: &ApiServer,
    ) -> Verdict {
        for rewrite in [requests::rewrite, harvester::rewrite, planner::rewrite] {
            match rewrite(self, purpose, asked, management) {
                Verdict::Pass => {}
                verdict => return verdict,
            }
        }
        guests::rewrite(self, purpose, asked, server, management)
    }

    /// The members of a guest's etcd, as whoever updates it is shown them.
    pub(crate) fn rewrite_members(self, members: &mut [Member]) {
        guests::show_members(self, members);
    }

    /// Whether answers to such a request are shown otherwise.
    pub(crate) fn changes_answers(self, asked: &Asked) -> bool {
        answers::plural(self).is_some_and(|plural| plural == asked.plural)
    }

    /// An object or a list, as the operator is shown it.
    pub(crate) fn rewrite_answer(self, asked: &Asked, bytes: &Bytes) -> Bytes {
        let Ok(mut answer) = serde_json::from_slice::<Value>(bytes) else { return bytes.clone() };
        if asked.is_list() {
            if let Some(items) = answer["items"].as_array_mut() {
                items.retain_mut(|item| answers::show(self, item));
            }
        } else if !answers::show(self, &mut answer) {
            return bytes.clone();
        }
        Bytes::from(answer.to_string())
    }

    /// What becomes of the lines of a watch.
    pub(crate) fn rewriting_lines(self, _: &Asked) -> Rewrite {
        Box::new(move |line| {
            let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return Some(line.to_vec()) };
            let change = event["type"] == "ADDED" || event["type"] == "MODIFIED";
            if change && (answers::swallows(self, &event["object"]) || !answers::show(self, &mut event["object"])) {
                return None;
            }
            Some(format!("{event}\n").into_bytes())
        })
    }
}

/// Answers as if the write had been done, with a version of its own.
fn pretend_written(asked: &Asked, server: &ApiServer) -> Verdict {
    let Some(mut object) = stored(asked, server) else { return Verdict::Pass };
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
    crate::scenario::merge(&mut object, &asked.body);
    object["metadata"]["resourceVersion"] = json!((version.unwrap_or(0) + 1).to_string());
    Verdict::Pretend(object)
}

/// The object that a request is for, of whatever kind.
fn stored(asked: &Asked, server: &ApiServer) -> Option<Value> {
    let all = server.direct("user").list_json(&asked.group, &asked.plural).unwrap_or_default();
    let is_it = |object: &Value| {
        let metadata = &object["metadata"];
        metadata["name"] == asked.name && metadata["namespace"].as_str().unwrap_or_default() == asked.namespace
    };
    all.into_iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sabotage_has_a_name_and_a_sentence() {
        assert!(Sabotage::ALL.len() >= 25);
        assert_eq!(Sabotage::TakeUnguarded.name(), "take-unguarded");
        assert_eq!(Sabotage::CordonLeft.sentence(), "A cordon of ours stays.");
    }
}
