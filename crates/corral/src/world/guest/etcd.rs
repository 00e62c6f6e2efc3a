//! The members of a guest's etcd. They stand in a ConfigMap that no real cluster has; whoever plays etcd reads and writes it here.
//!
//! A member is well while its pod is. As in the original, nothing is changed without a quorum, and no member is removed if too
//! few of those that are left have started (`--strict-reconfig-check`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ETCD, is_well};
use crate::apiserver::Direct;
use crate::world::kubelet::digest;

pub const NAMESPACE: &str = "corral";
pub const NAME: &str = "etcd";
const MEMBERS: &str = "members";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub id: u64,
    pub name: String,
    #[serde(default)]
    pub learner: bool,
    #[serde(default)]
    pub leader: bool,
    pub since: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members(pub Vec<Member>);

impl Members {
    /// Voters with these names, the first of which leads.
    pub fn of(names: &[String], now: Timestamp) -> Self {
        let member =
            |(index, name): (usize, &String)| Member { leader: index == 0, learner: false, ..Member::new(name, now) };
        Members(names.iter().enumerate().map(member).collect())
    }

    pub fn read(guest: &Direct) -> Self {
        let map = guest.get::<ConfigMap>(Some(NAMESPACE), NAME).ok().flatten();
        let text = map.and_then(|map| map.data?.remove(MEMBERS)).unwrap_or_default();
        let mut members: Members = serde_json::from_str(&text).unwrap_or_default();
        members.elect(guest);
        members
    }

    /// As the ConfigMap holds it.
    pub fn object(&self) -> serde_json::Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": NAME, "namespace": NAMESPACE },
            "data": { MEMBERS: json!(self).to_string() },
        })
    }

    /// A leader that is not well is followed by the first voter that is.
    fn elect(&mut self, guest: &Direct) {
        let is_voter = |member: &Member| !member.learner && is_well(guest, ETCD, &member.name);
        if self.0.iter().any(|member| member.leader && is_voter(member)) {
            return;
        }
        let next = self.0.iter().position(is_voter);
        for (index, member) in self.0.iter_mut().enumerate() {
            member.leader = Some(index) == next;
        }
    }

    pub fn get(&self, name: &str) -> Option<&Member> {
        self.0.iter().find(|member| member.name == name)
    }

    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().filter(|member| !member.learner)
    }

    pub fn is_well(guest: &Direct, member: &Member) -> bool {
        is_well(guest, ETCD, &member.name)
    }

    pub fn has_quorum(&self, guest: &Direct) -> bool {
        let (all, well) = (self.voters().count(), self.voters().filter(|one| Members::is_well(guest, one)).count());
        all > 0 && well > all / 2
    }

    /// A member that joins is a learner first, and there is one at most.
    pub fn with_learner(&self, guest: &Direct, name: &str, now: Timestamp) -> Result<Members, String> {
        self.may_change(guest)?;
        if self.0.iter().any(|member| member.learner) {
            return Err("too many learner members in cluster".into());
        }
        Ok(Members(self.0.iter().cloned().chain([Member::new(name, now)]).collect()))
    }

    /// A member that is added and does not start has no name.
    pub fn with_unstarted(&self, guest: &Direct, machine: &str, now: Timestamp) -> Result<Members, String> {
        let mut after = self.with_learner(guest, machine, now)?;
        if let Some(added) = after.0.last_mut() {
            (added.id, added.name) = (unstarted(machine), String::new());
        }
        Ok(after)
    }

    pub fn has_unstarted(&self, machine: &str) -> bool {
        self.0.iter().any(|member| member.id == unstarted(machine))
    }

    pub fn with_promoted(&self, guest: &Direct, name: &str) -> Result<Members, String> {
        self.may_change(guest)?;
        let mut after = self.clone();
        after.0.iter_mut().filter(|member| member.name == name).for_each(|member| member.learner = false);
        Ok(after)
    }

    pub fn led_by(&self, guest: &Direct, id: u64) -> Result<Members, String> {
        self.may_change(guest)?;
        match self.0.iter().find(|member| member.id == id) {
            None => Err("member not found".into()),
            Some(member) if member.learner => Err("bad leader transferee".into()),
            Some(member) if !Members::is_well(guest, member) => {
                Err("request timed out, leader transfer took too long".into())
            }
            Some(_) => {
                let mut after = self.clone();
                after.0.iter_mut().for_each(|member| member.leader = member.id == id);
                Ok(after)
            }
        }
    }

    pub fn without(&self, guest: &Direct, id: u64) -> Result<Members, String> {
        self.may_change(guest)?;
        if !self.0.iter().any(|member| member.id == id) {
            return Err("member not found".into());
        }
        let mut after = Members(self.0.iter().filter(|member| member.id != id).cloned().collect());
        let removed_votes = self.voters().any(|member| member.id == id);
        if removed_votes && !after.has_quorum(guest) {
            return Err("re-configuration failed due to not enough started members".into());
        }
        after.elect(guest);
        Ok(after)
    }

    fn may_change(&self, guest: &Direct) -> Result<(), String> {
        if self.has_quorum(guest) { Ok(()) } else { Err("etcdserver: no leader".into()) }
    }
}

/// The id of the member that a machine has added, and that never starts.
fn unstarted(machine: &str) -> u64 {
    id(&[machine, "unstarted"])
}

fn id(of: &[&str]) -> u64 {
    digest(of).first_chunk::<8>().map_or(1, |bytes| u64::from_be_bytes(*bytes))
}

impl Member {
    fn new(name: &str, since: Timestamp) -> Self {
        let id = id(&[name, &since.to_string()]);
        Member { id, name: name.into(), learner: true, leader: false, since }
    }
}
