//! An old machine goes: its leadership first, then its pods, its member of etcd, and in the end the Machine itself.

use super::etcd::{Member, next_leader};
use super::view::{Flow, Machine, View};
use super::wait::{Deed, Next, Reason, Write};
use super::{cordon, health};
use crate::decision::Act;

/// One step of the end of `old`, while `others` see to it that nobody misses it.
pub fn remove<'a>(view: &View<'a>, old: &Machine<'a>, newcomer: &str, drains: bool) -> Flow<()> {
    let members = view.members()?;
    let name = view.member_name(old);
    if let Some(member) = members.iter().find(|member| member.name == name) {
        view.may_remove_member(members, member.id)?;
        if member.leader
            && let Some(next) = next_leader(members, member.id, newcomer)
        {
            return Err(Next::Act(vec![Deed::MoveLeader { from: member.id, to: next.id, name: next.name.clone() }]));
        }
        // Whoever says so of a Machine means whoever drains it, not Cluster API alone.
        let drains = drains && old.annotation(view.dialect.exclude_draining()).is_none();
        if let Some(node) = view.node_of(old).filter(|_| drains && !view.drained.contains(&name)) {
            cordon::take(view, old, node)?;
            let is_silent = health::is_silent(node);
            return Err(Next::Act(vec![Deed::Drain { node: name, machine: old.reference(), is_silent }]));
        }
        return Err(Next::Act(vec![Deed::RemoveMember { id: member.id, name }]));
    }
    let act = Act::Delete { uid: old.uid() };
    Err(Next::Act(vec![Deed::Write(Box::new(Write {
        object: old.reference(),
        act,
        purpose: "delete a machine that was replaced",
    }))]))
}

/// A member whose machine is gone is removed, unless a machine is still coming, whose it may be. One that never started has no name: it is
/// nobody's if every machine has a member of its own.
pub fn forget_strays<'a>(view: &View<'a>, machines: &[Machine<'a>]) -> Flow<()> {
    if machines.iter().any(|machine| view.node_of(machine).is_none()) {
        return Ok(());
    }
    let members = view.members()?;
    let names: Vec<String> = machines.iter().map(|machine| view.member_name(machine)).collect();
    let has_all = names.iter().all(|name| members.iter().any(|member| member.name == *name));
    let is_stray = |member: &&Member| match member.name.as_str() {
        "" => has_all,
        _ => !names.contains(&member.name),
    };
    match members.iter().find(is_stray) {
        Some(stray) => {
            view.may_remove_member(members, stray.id)?;
            Err(Next::Act(vec![Deed::RemoveMember { id: stray.id, name: stray.shown() }]))
        }
        None => Ok(()),
    }
}

/// Nothing else happens while a machine is on its way out.
pub fn await_leaving<'a>(view: &View<'a>, machines: &[Machine<'a>]) -> Flow<()> {
    let Some((machine, since)) =
        machines.iter().find_map(|machine| Some((machine, super::health::leaving_from(view, machine)?)))
    else {
        return Ok(());
    };
    let held = view.node_of(machine).map(|_| ": its Node is drained, or cannot be").unwrap_or_default();
    let sentence = format!("machine {} is on its way out{held}", machine.name());
    view.wait(machine.reference(), Reason::MachineDeleting, sentence, since, view.order.machine_timeout)
}
