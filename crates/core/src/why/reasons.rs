//! What each reason to wait means, for every reason that an engine can give.

use super::Outlook;
use crate::decision::Reason;

/// What is always true of waits for one reason, whatever the cluster looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// In one sentence.
    pub sentence: &'static str,
    /// What usually ends it.
    pub ends: &'static str,
    pub resolves_itself: Outlook,
    /// Something is wrong, as opposed to work that takes its time or a wish of the user's.
    pub alarm: bool,
}

pub fn meaning(reason: Reason) -> Meaning {
    use Outlook::{Maybe, No, Yes};
    let means = |sentence, ends, resolves_itself, alarm| Meaning { sentence, ends, resolves_itself, alarm };
    match reason {
        Reason::PlanInvalid => means("The Plan asks for something that cannot be done.", "Correct the Plan.", No, true),
        Reason::VersionUnresolved => {
            means("The Plan names no version, or its channel has not answered yet.", "Set spec.version.", Maybe, true)
        }
        Reason::ChannelFails => means(
            "The channel cannot be asked, or its answer names no version; what was being rolled out goes on.",
            "Make the channel answer with a redirect to a version, or set spec.version.",
            Maybe,
            true,
        ),
        Reason::ChannelDowngrades => means(
            "The channel names a lower version than the Plan has followed, and that is not followed.",
            "Wait for the channel to be corrected, or accept the lower version.",
            Maybe,
            true,
        ),
        Reason::SecretNotFound => means(
            "The Plan names a Secret that is not there.",
            "Create the Secret, or take it out of the Plan.",
            No,
            true,
        ),
        Reason::PlanPaused => means("Somebody has paused the Plan.", "Resume it.", No, false),
        Reason::OtherPlanFirst => {
            means("Another Plan has to be complete first.", "That Plan completes, or is no longer named.", Maybe, false)
        }
        Reason::ExclusivePlanActs => {
            means("Another exclusive Plan has nodes out.", "That Plan gives its nodes back.", Yes, false)
        }
        Reason::GateClosed => {
            means("The Plan's gate is not true.", "The object that the gate is over changes.", Maybe, false)
        }
        Reason::GateFails => means("The Plan's gate cannot be read or evaluated.", "Correct the gate.", No, true),
        Reason::ConcurrencyReached => {
            means("As many nodes are out as the Plan allows.", "One of them is done.", Yes, false)
        }
        Reason::WindowClosed => means("The Plan's window is closed.", "The window opens.", Yes, false),
        Reason::WindowTooShort => means(
            "The window closes before another node would be done.",
            "The window opens again; a longer one would help.",
            Yes,
            false,
        ),
        Reason::TooManyNodesFailed => means(
            "As many nodes have failed as the Plan allows to be out.",
            "One of them succeeds, or is taken out of the Plan.",
            Maybe,
            true,
        ),
        Reason::NodeNotReady => means("A node is not Ready.", "Its kubelet reports that it is.", Maybe, true),
        Reason::NodeClaimedByAnother => {
            means("Another Plan has the node out of service.", "That Plan gives the node back.", Yes, false)
        }
        Reason::JobRunning => means("A node is being upgraded.", "Its Job ends.", Yes, false),
        Reason::NodeSlow => means("A node takes longer than others did.", "Its Job ends.", Maybe, false),
        Reason::NodeStalled => means(
            "A node takes so much longer than others did that something is probably wrong with it.",
            "Its Job ends, or fails at its deadline.",
            Maybe,
            true,
        ),
        Reason::JobFailed => means(
            "The Job that upgrades a node has failed.",
            "Another try succeeds; Drover makes one after a pause.",
            Maybe,
            true,
        ),
        Reason::Soaking => means("The Plan's delay after a node is not over.", "Time passes.", Yes, false),
        Reason::JobBeingDeleted => {
            means("A Job of an earlier attempt has to go first.", "Its pod ends and the Job is gone.", Yes, false)
        }
        Reason::AnotherControllerActs => means(
            "Another controller drives it, or might, and two drivers would harm each other.",
            "Stop one of the two.",
            No,
            true,
        ),
        Reason::NoPermission => means("The operator lacks rights.", "Grant them.", No, true),
        Reason::ApiRefuses => {
            means("The API server refuses or cannot do a write.", "What it says is corrected.", Maybe, true)
        }
        Reason::BudgetForbids => means(
            "A PodDisruptionBudget lets a pod not go.",
            "Another pod of the budget becomes healthy, or the budget changes.",
            Maybe,
            true,
        ),
        Reason::EvictionRefused => means(
            "A pod cannot be evicted, for a reason other than a budget.",
            "What the API server says is corrected.",
            Maybe,
            true,
        ),
        Reason::PodTerminating => means("A pod that was told to go still ends.", "The pod ends.", Yes, false),
        Reason::VolumeAttached => means(
            "A volume that no pod uses is still attached to the node.",
            "Its driver detaches the volume.",
            Maybe,
            true,
        ),
        reason => of_upgrades(reason),
    }
}

/// What only Upgrades of Harvester wait for.
fn of_upgrades(reason: Reason) -> Meaning {
    use Outlook::{Maybe, No, Yes};
    let means = |sentence, ends, resolves_itself, alarm| Meaning { sentence, ends, resolves_itself, alarm };
    match reason {
        Reason::AnotherUpgradeFirst => means("Another Upgrade has not ended.", "That Upgrade ends.", Yes, false),
        Reason::ImageNotReady => means(
            "The image that holds the release is not imported yet.",
            "Its import ends; if that stalls, look at the image.",
            Maybe,
            false,
        ),
        Reason::RepositoryNotReady => means(
            "The repository of the release does not answer.",
            "Its pod runs again and serves the release.",
            Maybe,
            true,
        ),
        Reason::ReleaseRefused => {
            means("The release cannot be read, or must not be followed.", "Take another release.", No, true)
        }
        Reason::ImagesPreloading => means("Nodes load the images of the release.", "They are done.", Yes, false),
        Reason::ImageMissing => {
            means("A node has lost an image that the upgrade needs.", "It is loaded there again.", Maybe, true)
        }
        Reason::NodeUnmanaged => means(
            "A Node is not part of the upgrade, because Harvester does not manage it.",
            "Provision it again, or remove it.",
            No,
            true,
        ),
        Reason::NodeUncounted => means(
            "The steps of the release wait for a Node on which nothing of theirs ever runs.",
            "Provision it again, remove it, or let it be counted by the label of their Plan.",
            No,
            true,
        ),
        Reason::NodeJoined => means(
            "A node has joined that the upgrade does not come to.",
            "Another Upgrade to the same version brings it along.",
            No,
            true,
        ),
        Reason::NodePaused => means("Somebody has paused a node.", "Resume it.", No, false),
        Reason::PlannerWorks => {
            means("The planner of the machines is at work.", "It goes on to the next step.", Yes, false)
        }
        Reason::PlannerStalls => means(
            "The planner of the machines does not get on with a node that it may drain.",
            "It goes on; if nothing is in its way, restart it.",
            Maybe,
            true,
        ),
        Reason::AnotherNodeIsOut => means("Another node is out.", "That node is done.", Yes, false),
        Reason::QuorumAtRisk => means("etcd would lose its quorum.", "The other members are well again.", Maybe, true),
        Reason::KubeletOutdated => means(
            "The kubelet of a node does not run the version that was installed there.",
            "RKE2 is restarted.",
            Maybe,
            true,
        ),
        Reason::NodeRebooting => means("A node boots its new system.", "It is back.", Yes, false),
        Reason::VolumeUnhealthy => {
            means("A volume has too few sound replicas.", "Its replicas are rebuilt.", Maybe, true)
        }
        Reason::VmsLeaving => means("VMs leave a node.", "They have moved.", Yes, false),
        Reason::ServiceNotReady => means("A system service is not at its version.", "It is.", Yes, false),
        Reason::CleaningUp => means("What an Upgrade has made is cleared away.", "It is gone.", Yes, false),
        _ => means("The Upgrade asks for something that cannot be done.", "Correct the Upgrade.", No, true),
    }
}
