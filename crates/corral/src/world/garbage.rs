//! The garbage collector: objects go when all their owners have gone, or stay without them where that was asked for.
//!
//! Models `pkg/controller/garbagecollector` of Kubernetes 1.34.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::PropagationPolicy;
use serde::Deserialize;

/// On an object that goes only after the dependents that block it.
pub const FOREGROUND: &str = "foregroundDeletion";
/// On an object whose dependents are to stay when it goes.
pub const ORPHAN: &str = "orphan";

/// What the collector reads of an object, whatever its kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub owner_references: Vec<Owner>,
    pub finalizers: Vec<String>,
    pub deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub block_owner_deletion: bool,
}

impl Header {
    fn is_leaving(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// It waits for its dependents to go.
    fn waits_for_dependents(&self) -> bool {
        self.is_leaving() && self.has(FOREGROUND)
    }

    fn lets_dependents_stay(&self) -> bool {
        self.is_leaving() && self.has(ORPHAN)
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }
}

/// What is known of one owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Present,
    Gone,
    /// It is there, and waits for its dependents to go.
    Waits,
    /// Its kind is not served, so nobody can tell.
    Unknown,
}

/// What to do about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Keep,
    Delete(PropagationPolicy),
    /// These owners are gone or going, others are not.
    DropOwners(BTreeSet<String>),
    /// Its dependents are dealt with.
    DropFinalizer(&'static str),
    /// It must not take its dependents along: first they forget it.
    ForgetIn(BTreeSet<String>),
}

/// What to do about `item`, given the fate of its owners and the objects that it owns.
pub fn judge(item: &Header, owners: &BTreeMap<String, Fate>, dependents: &[&Header]) -> Verdict {
    if item.lets_dependents_stay() {
        let owned: BTreeSet<String> = dependents.iter().map(|dependent| dependent.uid.clone()).collect();
        return if owned.is_empty() { Verdict::DropFinalizer(ORPHAN) } else { Verdict::ForgetIn(owned) };
    }
    if item.waits_for_dependents() {
        let blocked = dependents.iter().any(|dependent| blocks(dependent, item));
        return if blocked { Verdict::Keep } else { Verdict::DropFinalizer(FOREGROUND) };
    }
    if item.is_leaving() || item.owner_references.is_empty() {
        return Verdict::Keep;
    }
    judge_by_owners(item, owners, !dependents.is_empty())
}

fn judge_by_owners(item: &Header, owners: &BTreeMap<String, Fate>, has_dependents: bool) -> Verdict {
    let fate = |owner: &Owner| owners.get(&owner.uid).copied().unwrap_or(Fate::Unknown);
    let with = |wanted: &[Fate]| -> BTreeSet<String> {
        let found = item.owner_references.iter().filter(|owner| wanted.contains(&fate(owner)));
        found.map(|owner| owner.uid.clone()).collect()
    };
    if !with(&[Fate::Unknown]).is_empty() {
        return Verdict::Keep;
    }
    let going = with(&[Fate::Gone, Fate::Waits]);
    if !with(&[Fate::Present]).is_empty() {
        return if going.is_empty() { Verdict::Keep } else { Verdict::DropOwners(going) };
    }
    let waited_for = !with(&[Fate::Waits]).is_empty();
    Verdict::Delete(match () {
        () if waited_for && has_dependents => PropagationPolicy::Foreground,
        () if item.has(ORPHAN) => PropagationPolicy::Orphan,
        () if item.has(FOREGROUND) => PropagationPolicy::Foreground,
        () => PropagationPolicy::Background,
    })
}

/// The fate of an owner that was looked up; only one with the same uid is the same object.
pub fn fate(owner: &Owner, found: Option<&Header>) -> Fate {
    match found.filter(|found| found.uid == owner.uid) {
        None => Fate::Gone,
        Some(found) if found.waits_for_dependents() => Fate::Waits,
        Some(_) => Fate::Present,
    }
}

fn blocks(dependent: &Header, owner: &Header) -> bool {
    dependent.owner_references.iter().any(|reference| reference.uid == owner.uid && reference.block_owner_deletion)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Header {
        Header { name: name.into(), uid: format!("uid-{name}"), ..Header::default() }
    }

    fn owned_by(name: &str, owners: &[&Header]) -> Header {
        let owner_references = owners
            .iter()
            .map(|owner| Owner {
                name: owner.name.clone(),
                uid: owner.uid.clone(),
                block_owner_deletion: true,
                ..Owner::default()
            })
            .collect();
        Header { owner_references, ..item(name) }
    }

    fn leaving(finalizer: &str, mut item: Header) -> Header {
        item.deletion_timestamp = Some("2026-01-01T12:00:00Z".into());
        item.finalizers = vec![finalizer.into()];
        item
    }

    fn fates(pairs: &[(&Header, Fate)]) -> BTreeMap<String, Fate> {
        pairs.iter().map(|(owner, fate)| (owner.uid.clone(), *fate)).collect()
    }

    #[test]
    fn an_object_goes_when_all_its_owners_are_gone() {
        let (plan, other) = (item("plan"), item("other"));
        let job = owned_by("job", &[&plan, &other]);

        let both_gone = fates(&[(&plan, Fate::Gone), (&other, Fate::Gone)]);
        assert_eq!(judge(&job, &both_gone, &[]), Verdict::Delete(PropagationPolicy::Background));
        let one_left = fates(&[(&plan, Fate::Gone), (&other, Fate::Present)]);
        assert_eq!(judge(&job, &one_left, &[]), Verdict::DropOwners(BTreeSet::from([plan.uid.clone()])));
        assert_eq!(judge(&job, &fates(&[(&plan, Fate::Present), (&other, Fate::Present)]), &[]), Verdict::Keep);
    }

    #[test]
    fn an_owner_of_a_kind_that_nobody_serves_is_given_the_benefit_of_the_doubt() {
        let set = item("replica-set");

        assert_eq!(judge(&owned_by("pod", &[&set]), &fates(&[(&set, Fate::Unknown)]), &[]), Verdict::Keep);
    }

    #[test]
    fn an_owner_with_the_same_name_and_another_uid_is_another_object() {
        let plan = item("plan");
        let reference = owned_by("job", &[&plan]).owner_references.remove(0);

        assert_eq!(fate(&reference, Some(&plan)), Fate::Present);
        assert_eq!(fate(&reference, Some(&Header { uid: "new".into(), ..plan.clone() })), Fate::Gone);
        assert_eq!(fate(&reference, Some(&leaving(FOREGROUND, plan))), Fate::Waits);
        assert_eq!(fate(&reference, None), Fate::Gone);
    }

    #[test]
    fn a_foreground_deletion_goes_from_the_leaves_up() {
        let job = leaving(FOREGROUND, owned_by("job", &[]));
        let pod = owned_by("pod", &[&job]);

        assert_eq!(judge(&job, &BTreeMap::new(), &[&pod]), Verdict::Keep);
        assert_eq!(judge(&pod, &fates(&[(&job, Fate::Waits)]), &[]), Verdict::Delete(PropagationPolicy::Background));
        assert_eq!(judge(&job, &BTreeMap::new(), &[]), Verdict::DropFinalizer(FOREGROUND));

        let middle = owned_by("job", &[&job]);
        let leaf = owned_by("pod", &[&middle]);
        assert_eq!(
            judge(&middle, &fates(&[(&job, Fate::Waits)]), &[&leaf]),
            Verdict::Delete(PropagationPolicy::Foreground)
        );
    }

    #[test]
    fn a_dependent_that_does_not_block_is_not_waited_for() {
        let plan = leaving(FOREGROUND, item("plan"));
        let mut job = owned_by("job", &[&plan]);
        job.owner_references[0].block_owner_deletion = false;

        assert_eq!(judge(&plan, &BTreeMap::new(), &[&job]), Verdict::DropFinalizer(FOREGROUND));
    }

    #[test]
    fn orphans_forget_their_owner_before_it_goes() {
        let plan = leaving(ORPHAN, item("plan"));
        let job = owned_by("job", &[&plan]);

        assert_eq!(judge(&plan, &BTreeMap::new(), &[&job]), Verdict::ForgetIn(BTreeSet::from([job.uid.clone()])));
        assert_eq!(judge(&plan, &BTreeMap::new(), &[]), Verdict::DropFinalizer(ORPHAN));
    }
}
