//! What can go wrong, and when: each fault has a name, and happens at a moment of the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::campaign::lot;
use crate::scenario::pattern::{ObjectName, Pattern};
use crate::scenario::{Scenario, Span};

/// One thing that happens in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Incident {
    pub at: Moment,
    pub what: Fault,
}

/// When something happens. What is done to a write is done to the next one, if the moment is not a write itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    /// At the n-th write of the operators, those of their election included; the first is 1.
    Write(usize),
    /// At a write that is made for this purpose, as the log names them.
    Purpose(PurposeMoment),
    /// This long after the start.
    Time(Span),
    /// When an object first says this.
    Once(Pattern),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PurposeMoment {
    /// Such as `TakeNode`.
    pub is: String,
    /// Only a write to this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<ObjectName>,
    /// The n-th such write.
    #[serde(default = "first")]
    pub nth: usize,
}

fn first() -> usize {
    1
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The operator dies; the write is never sent.
    CrashBefore,
    /// The write is done; the operator dies before it hears of it.
    CrashAfter,
    /// From here on every operator dies before a write that meets a state of the store in which none has died yet.
    CrashesBefore,
    /// From here on every operator dies after a write that meets a state of the store in which none has died yet.
    CrashesAfter,
    /// The same at some of these states only: so many runs together try all of them, and each leaves operators time to recover.
    CrashesInTurn(Turn),
    /// From here on this happens to each write of programs in pods (the steps of an Upgrade, a drain, the update of a control plane) that meets a
    /// state of the store in which it has not happened yet.
    Programs(Mishap),
    /// The operator dies; the write lands when its successors have made this many writes.
    LandsAfter(usize),
    /// The operator dies; the write lands when the upgrade is over.
    LandsAtTheEnd,
    /// The server answers with this code and does nothing; 429 and 503 say when to try again.
    Refused(u16),
    /// No answer comes; the write did not happen.
    LostBefore,
    /// No answer comes; the write happened.
    LostAfter,

    /// The operator is frozen for a minute, its write under way; then it goes on, and so does the write.
    Suspended,
    /// The same, and another operator takes the Lease meanwhile: the first one wakes up as one that led.
    Overtaken,
    /// The operator is told to end, and another one starts: an update of Drover.
    Replaced,
    /// The operator dies; its successor's clock is an hour ahead of the others.
    ClockAhead,
    /// The operator dies; its successor's clock is an hour behind the others.
    ClockBehind,
    /// The operator dies; ten seconds after its successor has started, that one's clock is set an hour ahead.
    ClockSetAhead,
    /// The operator dies; ten seconds after its successor has started, that one's clock is set back by an hour.
    ClockSetBack,
    /// A second operator leads at the same time, because it looks at another Lease.
    SecondLeader,

    /// The server goes away for a minute instead of taking this write: watches are cut, every request is refused.
    ServerAway,
    /// For a minute the operators lack the right to do this write, or any other of its kind.
    Forbidden,
    /// Every watch is cut after this write.
    WatchesCut,
    /// Every watch is cut after this write, and where they stood is forgotten: they are answered 410.
    WatchesExpired,
    /// For 20 seconds no watch tells anything.
    WatchesLag,
    /// For 20 seconds the watch of this kind tells nothing, while the others go on: events change their order.
    KindLags(WatchedKind),
    /// The operator dies after this write; for 5 seconds its successor's lists are answered from before it.
    StaleLists,

    /// system-upgrade-controller acts on the same Plans for a while: makes its Job, writes `applying`, uncordons.
    OriginalActs,

    /// Somebody wipes the status of every Plan, Upgrade and TanzuKubernetesCluster.
    StatusWiped,
    /// Somebody removes the claims from every Plan.
    ClaimsLost,
    /// Somebody removes the claim's label from every node.
    MarksLost,
    /// Somebody deletes all Jobs that upgrades have made.
    JobsDeleted,
    /// Somebody deletes all pods of those Jobs.
    PodsDeleted,
    /// For 20 seconds upgrades fail on every machine.
    JobsFail,
    /// For 20 seconds upgrades do not get on, on any machine.
    JobsHang,
    /// Somebody touches every Plan, Upgrade and TanzuKubernetesCluster, without changing what it asks for.
    PlanTouched,
    /// Somebody deletes every Plan and makes it again after two seconds, as `kubectl replace --force` does.
    PlanReplaced,
    /// Somebody deletes every Plan, and makes it again when all that was begun has been undone, a minute later.
    PlanGone,
    /// Somebody deletes every Upgrade, and makes it again when it is gone.
    UpgradeReplaced,
    /// Somebody asks for another try of whatever has failed, on every Upgrade and every node.
    Retried,
    /// Somebody deletes the Machine of a worker of each guest cluster.
    MachinesGone,
    /// Somebody asks for a later version in the middle of it.
    VersionRaised,
    /// Somebody pauses every Plan and every TanzuKubernetesCluster for 20 seconds.
    Paused,
    /// Somebody takes the nodes that are out of the Plan, by the label, for 20 seconds.
    NodesDisabled,
    /// Somebody cordons every node that is not cordoned; they stay so.
    NodesCordoned,
    /// Somebody uncordons every node.
    NodesUncordoned,
    /// Somebody deletes the Secrets that Plans name, and makes them again after 20 seconds.
    SecretsGone,
    /// Somebody takes the hostname label off every node for 20 seconds.
    HostnamesGone,
    /// Somebody deletes the nodes that are out, or the first one; their machines register again after 20 seconds.
    NodesGone,
    /// The nodes that are out, or the first one, are switched off for 20 seconds.
    Reboot,
    /// The same twice, 40 seconds apart.
    RebootTwice,

    /// For 20 seconds every migration of a virtual machine that comes to its end fails.
    MigrationsFail,
    /// From here on no replica of a volume is rebuilt: what is degraded stays so.
    VolumesNeverHeal,
    /// Somebody promotes the first worker of a Harvester cluster: it joins etcd, as a learner at first.
    NodePromoted,
    /// The last server of a Harvester cluster is no member of etcd any more.
    EtcdMemberLost,
    /// For 20 seconds the tunnel from Rancher to the cluster is refused (401): it does not reach the cluster's agent.
    TunnelsRefused,
    /// From here on no image gets on with its download.
    DownloadsStall,
    /// The first virtual machine of each guest cluster's control plane is switched off for 20 seconds.
    VirtualMachineOff,
    /// Somebody edits `kubeadm-config` of every guest cluster: adds a flag to the API server, and sets the version back while
    /// machines of more than one are there.
    KubeadmConfigEdited,

    /// Somebody makes or changes objects, as `kubectl apply` does.
    Apply(Vec<Value>),
    /// Somebody changes an object by a merge patch.
    Patch(ObjectPatch),
    /// Somebody deletes all objects that are called so.
    Delete(ObjectName),
}

/// A part of all states of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Turn {
    /// Operators die after their writes, not before.
    #[serde(default)]
    pub after: bool,
    /// Which part, from 0.
    pub part: u64,
    /// Of how many.
    pub of: u64,
}

impl Turn {
    /// Every state has its turn in one of the parts.
    pub fn has(&self, meeting: &(u64, String)) -> bool {
        lot::turn(meeting, self.of) == self.part
    }
}

/// What happens to a program in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mishap {
    /// It dies before the write is sent, and begins anew in its container.
    DiesBefore,
    /// It dies when the write is done, and begins anew in its container.
    DiesAfter,
    /// The server answers with this code and does nothing; 429 and 503 say when to try again.
    Refused(u16),
    /// No answer comes; the write did not happen.
    LostBefore,
    /// No answer comes; the write happened.
    LostAfter,
}

impl Mishap {
    /// Those that it need not die of.
    pub const SURVIVED: [Mishap; 6] = [
        Mishap::Refused(409),
        Mishap::Refused(429),
        Mishap::Refused(500),
        Mishap::Refused(503),
        Mishap::LostBefore,
        Mishap::LostAfter,
    ];
}

/// In the story; the write is 'it'.
impl std::fmt::Display for Mishap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mishap::DiesBefore => "the program dies before it is sent",
            Mishap::DiesAfter => "the program dies after it, and before it hears of it",
            Mishap::Refused(code) => return write!(f, "it is refused with {code}"),
            Mishap::LostBefore => "it does not happen and is never answered",
            Mishap::LostAfter => "it happens and is never answered",
        })
    }
}

/// The kinds that an operator watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WatchedKind {
    Plan,
    Node,
    Job,
    Secret,
    /// Only where a Plan drains.
    Pod,
    /// Only on Harvester clusters.
    Upgrade,
    /// Only where guest clusters are updated.
    TanzuKubernetesCluster,
    /// Of Cluster API.
    Machine,
}

impl WatchedKind {
    pub fn plural(self) -> &'static str {
        match self {
            WatchedKind::Plan => "plans",
            WatchedKind::Node => "nodes",
            WatchedKind::Job => "jobs",
            WatchedKind::Secret => "secrets",
            WatchedKind::Pod => "pods",
            WatchedKind::Upgrade => "upgrades",
            WatchedKind::TanzuKubernetesCluster => "tanzukubernetesclusters",
            WatchedKind::Machine => "machines",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ObjectPatch {
    pub object: ObjectName,
    pub with: Value,
    /// As which program, by the name that managed fields know; not given: a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Fault {
    /// Those that are tried at every write of a scenario. Where a late write lands is a dimension of its own: here in the middle
    /// of what its successor does, and at the end.
    pub fn at_every_write(scenario: &Scenario) -> Vec<Fault> {
        let mut faults = vec![
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::LandsAfter(6),
            Fault::LandsAtTheEnd,
            Fault::Refused(409),
            Fault::Refused(429),
            Fault::Refused(500),
            Fault::Refused(503),
            Fault::LostBefore,
            Fault::LostAfter,
            Fault::Suspended,
            Fault::Overtaken,
            Fault::Replaced,
            Fault::ClockAhead,
            Fault::ClockBehind,
            Fault::ClockSetAhead,
            Fault::ClockSetBack,
            Fault::SecondLeader,
            Fault::ServerAway,
            Fault::Forbidden,
            Fault::WatchesCut,
            Fault::WatchesExpired,
            Fault::WatchesLag,
            Fault::StaleLists,
            Fault::OriginalActs,
        ];
        faults.extend(scenario.watched().into_iter().map(Fault::KindLags));
        faults.extend(Fault::by_users_and_machines());
        faults.extend(Fault::of_products());
        faults.retain(|fault| fault.matters_to(scenario));
        // Where no Plan names a Secret, nobody misses one.
        match scenario.names_secrets() {
            true => faults.push(Fault::KindLags(WatchedKind::Secret)),
            false => faults.retain(|fault| *fault != Fault::SecretsGone),
        }
        faults.retain(|fault| !scenario.untried.contains(fault));
        faults
    }

    /// Without a Plan, or any Job at all, some of them would change nothing.
    fn matters_to(&self, scenario: &Scenario) -> bool {
        let has_plans = scenario.guest.is_none();
        let runs_jobs = has_plans || scenario.tanzu().is_some();
        match self {
            Fault::OriginalActs
            | Fault::ClaimsLost
            | Fault::MarksLost
            | Fault::PlanReplaced
            | Fault::PlanGone
            | Fault::VersionRaised
            | Fault::NodesDisabled
            | Fault::NodesUncordoned
            | Fault::HostnamesGone => has_plans,
            // The others keep the quorum of etcd, which a cluster has not that only comes to be.
            Fault::VirtualMachineOff => scenario.guests().any(|guest| guest.machines >= 3 && !guest.is_new()),
            Fault::KubeadmConfigEdited => scenario.guest.is_some(),
            Fault::MachinesGone => scenario.guests().any(|guest| guest.workers.is_some()) && scenario.goes_by_itself(),
            // What people do in a scenario is meant for the object that is there.
            Fault::UpgradeReplaced => scenario.upgrade().is_some() && scenario.goes_by_itself(),
            // Where something is to fail in the end, another try is under way then.
            Fault::Retried => scenario.guest.is_none() && scenario.goes_by_itself(),
            fault => runs_jobs || !Fault::by_users_and_machines().contains(fault),
        }
    }

    /// By people and machines, where there are Upgrades or guest clusters.
    fn of_products() -> [Fault; 5] {
        [
            Fault::VirtualMachineOff,
            Fault::KubeadmConfigEdited,
            Fault::MachinesGone,
            Fault::UpgradeReplaced,
            Fault::Retried,
        ]
    }

    fn by_users_and_machines() -> [Fault; 20] {
        [
            Fault::StatusWiped,
            Fault::ClaimsLost,
            Fault::MarksLost,
            Fault::JobsDeleted,
            Fault::PodsDeleted,
            Fault::JobsFail,
            Fault::JobsHang,
            Fault::PlanTouched,
            Fault::PlanReplaced,
            Fault::PlanGone,
            Fault::VersionRaised,
            Fault::Paused,
            Fault::NodesDisabled,
            Fault::NodesCordoned,
            Fault::NodesUncordoned,
            Fault::SecretsGone,
            Fault::HostnamesGone,
            Fault::NodesGone,
            Fault::Reboot,
            Fault::RebootTwice,
        ]
    }

    /// Whether it is done to a write, rather than to what stands in the store.
    pub(crate) fn is_done_to_a_write(&self) -> bool {
        !Fault::by_users_and_machines().contains(self)
            && !Fault::of_products().contains(self)
            && !matches!(
                self,
                Fault::SecondLeader
                    | Fault::OriginalActs
                    | Fault::MigrationsFail
                    | Fault::VolumesNeverHeal
                    | Fault::NodePromoted
                    | Fault::EtcdMemberLost
                    | Fault::TunnelsRefused
                    | Fault::DownloadsStall
                    | Fault::Apply(_)
                    | Fault::Patch(_)
                    | Fault::Delete(_)
            )
    }

    /// Whether the operator dies by it.
    pub fn kills(&self) -> bool {
        matches!(
            self,
            Fault::CrashBefore
                | Fault::CrashAfter
                | Fault::CrashesBefore
                | Fault::CrashesAfter
                | Fault::CrashesInTurn(_)
                | Fault::LandsAfter(_)
                | Fault::LandsAtTheEnd
                | Fault::ClockAhead
                | Fault::ClockBehind
                | Fault::ClockSetAhead
                | Fault::ClockSetBack
                | Fault::StaleLists
        )
    }
}

/// The faults of one run, beside those of its scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schedule {
    pub faults: Vec<Incident>,
}

impl Schedule {
    pub fn one(write: usize, fault: Fault) -> Self {
        Schedule { faults: vec![Incident { at: Moment::Write(write), what: fault }] }
    }

    /// The same, told by what its writes are for, as a run has made them: their numbers change more often.
    pub fn by_purpose(mut self, at_writes: &[(u64, String)]) -> Self {
        for incident in &mut self.faults {
            if let Moment::Write(number) = incident.at
                && let Some((_, purpose)) = number.checked_sub(1).and_then(|index| at_writes.get(index))
            {
                let nth = at_writes[..number].iter().filter(|(_, other)| other == purpose).count();
                incident.at = Moment::Purpose(PurposeMoment { is: purpose.clone(), on: None, nth });
            }
        }
        self
    }

    /// What happens when, in words.
    pub(crate) fn names(&self) -> Vec<String> {
        self.faults.iter().map(Incident::to_string).collect()
    }
}

impl std::fmt::Display for Incident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Moment::Write(number) => write!(f, "write {number}"),
            Moment::Purpose(PurposeMoment { is, on, nth }) => {
                write!(f, "{is}")?;
                if let Some(on) = on {
                    write!(f, " of {on}")?;
                }
                if *nth > 1 { write!(f, ", number {nth}") } else { Ok(()) }
            }
            Moment::Time(span) => write!(f, "after {span}"),
            Moment::Once(pattern) => match &pattern.matches {
                Value::Null => write!(f, "once there is {}", pattern.object),
                matches => write!(f, "once {} says {matches}", pattern.object),
            },
        }
    }
}

/// What is done; the write is 'it'.
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Fault::LandsAfter(1) => "the operator dies, and it lands 1 write later",
            Fault::LandsAfter(count) => return write!(f, "the operator dies, and it lands {count} writes later"),
            Fault::Refused(code) => return write!(f, "it is refused with {code}"),
            Fault::KindLags(kind) => return write!(f, "the watch of {} tells nothing for 20 seconds", kind.plural()),
            Fault::Apply(objects) => return write!(f, "somebody applies {}", names(objects)),
            Fault::Patch(patch) => return write!(f, "somebody patches {} with {}", patch.object, patch.with),
            Fault::Delete(name) => return write!(f, "somebody deletes {name}"),
            Fault::Programs(mishap) => {
                return write!(f, "from here on {mishap}, at each write of programs in pods that meets a new state");
            }
            Fault::CrashBefore => "the operator dies before it is sent",
            Fault::CrashAfter => "the operator dies after it, and before it hears of it",
            Fault::CrashesBefore => "from here on operators die before each write that meets a new state",
            Fault::CrashesAfter => "from here on operators die after each write that meets a new state",
            Fault::CrashesInTurn(Turn { after, part, of }) => {
                let side = if *after { "after" } else { "before" };
                let part = part + 1;
                return write!(
                    f,
                    "from here on operators die {side} writes that meet a new state, of {of} parts the {part}."
                );
            }
            Fault::LandsAtTheEnd => "the operator dies, and it lands when all is over",
            Fault::LostBefore => "it does not happen and is never answered",
            Fault::LostAfter => "it happens and is never answered",
            Fault::Suspended => "the operator is frozen for a minute in the middle of it",
            Fault::Overtaken => {
                "the operator is frozen for a minute in the middle of it, and another one leads meanwhile"
            }
            Fault::Replaced => "the operator is told to end after it, and another one starts",
            Fault::ClockAhead => "the operator dies, and its successor's clock is an hour ahead",
            Fault::ClockBehind => "the operator dies, and its successor's clock is an hour behind",
            Fault::ClockSetAhead => {
                "the operator dies, and its successor's clock is set an hour ahead ten seconds later"
            }
            Fault::ClockSetBack => {
                "the operator dies, and its successor's clock is set back by an hour ten seconds later"
            }
            Fault::SecondLeader => "a second operator leads at the same time, from here on",
            Fault::ServerAway => "the server goes away for a minute instead of taking it",
            Fault::Forbidden => "for a minute the operators have no right to it, nor to others of its kind",
            Fault::WatchesCut => "all watches are cut after it",
            Fault::WatchesExpired => "all watches are cut after it and answered 410",
            Fault::WatchesLag => "no watch tells anything for 20 seconds",
            Fault::StaleLists => "the operator dies after it, and its successor's lists are from before it",
            Fault::OriginalActs => "system-upgrade-controller acts on the same Plans",
            Fault::StatusWiped => "somebody wipes the status of what asks for the upgrade",
            Fault::ClaimsLost => "somebody removes the claims from the Plans",
            Fault::MarksLost => "somebody removes the claim's label from the nodes",
            Fault::JobsDeleted => "somebody deletes the Jobs",
            Fault::PodsDeleted => "somebody deletes the Jobs' pods",
            Fault::JobsFail => "upgrades fail on every machine, for 20 seconds",
            Fault::JobsHang => "upgrades do not get on, for 20 seconds",
            Fault::PlanTouched => "somebody touches what asks for the upgrade",
            Fault::PlanReplaced => "somebody deletes the Plans and makes them again after two seconds",
            Fault::PlanGone => "somebody deletes the Plans and makes them again after a minute",
            Fault::UpgradeReplaced => "somebody deletes the Upgrades, and makes them again when they are gone",
            Fault::Retried => "somebody asks for another try of whatever has failed",
            Fault::MachinesGone => "somebody deletes the Machine of a worker of each guest cluster",
            Fault::VersionRaised => "somebody asks for a later version",
            Fault::Paused => "somebody pauses what asks for the upgrade, for 20 seconds",
            Fault::NodesDisabled => "somebody disables the nodes that are out, for 20 seconds",
            Fault::NodesCordoned => "somebody cordons the nodes",
            Fault::NodesUncordoned => "somebody uncordons the nodes",
            Fault::SecretsGone => "somebody deletes the Plans' Secrets, for 20 seconds",
            Fault::HostnamesGone => "somebody takes the hostname label off the nodes, for 20 seconds",
            Fault::NodesGone => "somebody deletes the nodes that are out, which register again after 20 seconds",
            Fault::Reboot => "the nodes that are out are switched off for 20 seconds",
            Fault::RebootTwice => "the nodes that are out are switched off twice",
            Fault::MigrationsFail => "migrations of virtual machines fail, for 20 seconds",
            Fault::VolumesNeverHeal => "no volume heals any more",
            Fault::NodePromoted => "somebody promotes a worker",
            Fault::VirtualMachineOff => {
                "a virtual machine of each guest's control plane is switched off for 20 seconds"
            }
            Fault::KubeadmConfigEdited => "somebody edits kubeadm-config of the guests",
            Fault::EtcdMemberLost => "a server is no member of etcd any more",
            Fault::TunnelsRefused => "Rancher does not reach the agent of the cluster, for 20 seconds",
            Fault::DownloadsStall => "no image gets on with its download any more",
        };
        f.write_str(text)
    }
}

fn names(objects: &[Value]) -> String {
    let name = |object: &Value| {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    objects.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_reads_as_a_sentence() {
        let incident: Incident = serde_json::from_value(serde_json::json!({
            "at": { "purpose": { "is": "TakeNode", "on": "Node/node-2" } }, "what": { "refused": 409 },
        }))
        .unwrap();
        assert_eq!(incident.to_string(), "TakeNode of Node/node-2: it is refused with 409");
        let later = Incident { at: Moment::Time(Span::seconds(90)), what: Fault::LandsAfter(1) };
        assert_eq!(later.to_string(), "after 1m 30s: the operator dies, and it lands 1 write later");
    }

    #[test]
    fn a_schedule_is_one_line_of_json_and_back() {
        let schedule = Schedule::one(3, Fault::KindLags(WatchedKind::Job));
        let line = serde_json::to_string(&schedule).unwrap();
        assert_eq!(line, r#"[{"at":{"write":3},"what":{"kindLags":"Job"}}]"#);
        assert_eq!(serde_json::from_str::<Schedule>(&line).unwrap(), schedule);
    }
}
