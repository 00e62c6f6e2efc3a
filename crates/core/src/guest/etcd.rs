//! The members of a guest's etcd: may one come, may one go?

use serde::Serialize;

use super::view::{ETCD_PATIENCE, Flow, View};
use super::wait::{Next, Reason};
use crate::quorum;

/// How soon etcd is asked again: nobody tells when it changes.
pub const ASK_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);

/// One member, as it is at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    pub id: u64,
    /// Empty for one that has not started.
    pub name: String,
    pub learner: bool,
    pub leader: bool,
    pub healthy: bool,
}

impl Member {
    fn learns(&self) -> bool {
        self.learner || self.name.is_empty()
    }

    fn is_well(&self) -> bool {
        self.healthy && !self.name.is_empty()
    }

    pub(super) fn shown(&self) -> String {
        if self.name.is_empty() { format!("{:x}", self.id) } else { self.name.clone() }
    }
}

impl<'a> View<'a> {
    /// The members as they are now.
    pub fn members(&self) -> Flow<&'a [Member]> {
        match self.etcd {
            None => Err(Next::AskEtcd),
            Some(Ok(members)) => Ok(members),
            Some(Err(why)) => {
                self.etcd_waits(Reason::EtcdUnreachable, format!("etcd does not say how its members are: {why}"))
            }
        }
    }

    pub fn etcd_waits<T>(&self, reason: Reason, sentence: String) -> Flow<T> {
        let object = self.cluster_object();
        let since = self.since(&object, reason);
        self.wait_and(object, reason, sentence, since, ETCD_PATIENCE, Some(ASK_AGAIN))
    }

    /// Whether one more may join: it counts as out until it is well, unless it is the second.
    pub fn may_add_member(&self, members: &[Member]) -> Flow<()> {
        self.nobody_learns(members)?;
        let out = members.iter().filter(|member| !member.is_well());
        let names: Vec<String> = out.map(Member::shown).collect();
        let (voters, new) = (members.len() + 1, usize::from(members.len() > 1));
        if !quorum::is_kept(voters, names.len() + new) {
            return self.etcd_waits(
                Reason::EtcdUnhealthy,
                format!("etcd could lose its quorum with one more member; not well: {}", names.join(", ")),
            );
        }
        Ok(())
    }

    /// Whether this one may go: the others have to be enough by themselves.
    pub fn may_remove_member(&self, members: &[Member], id: u64) -> Flow<()> {
        let leaving = members.iter().find(|member| member.id == id);
        if leaving.is_some_and(|member| !member.learns()) {
            self.nobody_learns(members)?;
        }
        let others: Vec<&Member> = members.iter().filter(|member| member.id != id && !member.learns()).collect();
        let out: Vec<String> = others.iter().filter(|member| !member.is_well()).map(|member| member.shown()).collect();
        if others.is_empty() || !quorum::is_kept(others.len(), out.len()) {
            let name = leaving.map(Member::shown).unwrap_or_default();
            let why =
                if out.is_empty() { "it is the last".to_owned() } else { format!("not well: {}", out.join(", ")) };
            return self.etcd_waits(Reason::QuorumAtRisk, format!("etcd would lose its quorum without {name}; {why}"));
        }
        Ok(())
    }

    fn nobody_learns(&self, members: &[Member]) -> Flow<()> {
        match members.iter().find(|member| member.learns()) {
            Some(member) => {
                self.etcd_waits(Reason::EtcdLearner, format!("the member {} of etcd does not vote yet", member.shown()))
            }
            None => Ok(()),
        }
    }
}

/// Who leads when this member goes: the newcomer, or else any voter that is well.
pub fn next_leader<'m>(members: &'m [Member], leaving: u64, newcomer: &str) -> Option<&'m Member> {
    let fits = |member: &&Member| member.id != leaving && !member.learns() && member.is_well();
    let named = members.iter().filter(fits).find(|member| member.name == newcomer);
    named.or_else(|| members.iter().find(fits))
}
