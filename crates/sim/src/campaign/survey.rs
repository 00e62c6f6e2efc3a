//! The runs without faults, and which scenario tries which fault at which write.
//!
//! What comes of a fault at a write hangs on what that write is for and on what was written before it: on its kind. Of
//! scenarios that are surveyed together, the cheapest one that makes a write of some kind tries the faults there, once for
//! all of them; and each scenario tries each fault at least at one of its own writes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Campaign;
use super::cores::on_all_cores;
use super::report::CampaignReport;
use crate::faults::{Fault, Schedule};
use crate::run::Outcome;

/// The run without faults, that all others are measured by.
#[derive(Debug)]
pub(super) struct Calm {
    pub writes: usize,
    /// Where a crash may tell something new: writes that meet a state in which none for the same purpose was made before. A
    /// Lease that is renewed again and again while a node reboots is one place, not hundreds.
    pub fresh: Vec<usize>,
    /// Where a fault may tell something new: the first write of each kind. The second node goes the way of the first, and a
    /// Lease that is renewed while nothing happens is like the one before.
    pub telling: Vec<(usize, Kind)>,
    /// How much is written in all, which is what a run costs.
    pub commits: usize,
    pub time: Duration,
}

/// What a write is for, after what the one before it was for.
pub(super) type Kind = (String, String);

impl Calm {
    fn of(outcome: &Outcome) -> Self {
        let mut states = BTreeSet::new();
        let all = outcome.at_writes.iter().take(outcome.writes).enumerate();
        let fresh = all.filter(|(_, meeting)| states.insert(*meeting)).map(|(index, _)| index + 1).collect();
        let (mut met, mut telling, mut before) = (BTreeSet::new(), Vec::new(), "");
        for (index, (_, purpose)) in outcome.at_writes.iter().take(outcome.writes).enumerate() {
            if met.insert((before, purpose.as_str())) {
                telling.push((index + 1, (before.to_owned(), purpose.clone())));
            }
            // Renewals come between any two others.
            if purpose != "Election" {
                before = purpose;
            }
        }
        let time = Duration::from_secs_f64(outcome.virtual_seconds);
        Calm { writes: outcome.writes, fresh, telling, commits: outcome.commits, time }
    }
}

/// A campaign that knows its run without faults, and what is its to try.
#[derive(Debug)]
pub struct Surveyed {
    pub(super) campaign: Campaign,
    pub(super) calm: Calm,
    /// Every fault but crashes, at the writes where this scenario tries it.
    pub(super) pairs: Vec<Schedule>,
    /// Of the run without faults, so far.
    pub(super) report: CampaignReport,
}

/// Runs every scenario without faults, and shares out among them what is tried once.
pub fn survey(campaigns: Vec<Campaign>) -> Result<Vec<Surveyed>, std::io::Error> {
    let outcomes = Mutex::new(Vec::new());
    on_all_cores(campaigns.len(), |index| {
        let campaign = &campaigns[index];
        let outcome = campaign.play(&Schedule::default(), None)?;
        outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((index, outcome));
        Ok::<_, std::io::Error>(ControlFlow::Continue(()))
    })?;
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);
    let calm: Vec<Calm> = outcomes.iter().map(|(_, outcome)| Calm::of(outcome)).collect();
    let pairs =
        share_out(&campaigns.iter().zip(&calm).map(|(campaign, calm)| Place::of(campaign, calm)).collect::<Vec<_>>());
    let parts = campaigns.into_iter().zip(outcomes).zip(calm.into_iter().zip(pairs));
    let surveyed = parts.map(|((campaign, (_, outcome)), (calm, pairs))| {
        let mut report = CampaignReport::of(&campaign.scenario.name);
        (report.writes, report.fresh) = (outcome.writes, calm.fresh.len());
        report.count(&campaign.scenario, &Schedule::default(), outcome);
        let pairs = pairs.into_iter().map(|(write, fault)| Schedule::one(write, fault)).collect();
        Surveyed { campaign, calm, pairs, report }
    });
    Ok(surveyed.collect())
}

/// Where faults can be tried.
struct Place<'a> {
    telling: &'a [(usize, Kind)],
    faults: Vec<Fault>,
    cost: usize,
    /// Of all that it could try, every n-th.
    sampled: usize,
}

impl<'a> Place<'a> {
    fn of(campaign: &Campaign, calm: &'a Calm) -> Self {
        let mut faults = Fault::at_every_write(&campaign.scenario);
        faults.retain(|fault| !matches!(fault, Fault::CrashBefore | Fault::CrashAfter));
        Place { telling: &calm.telling, faults, cost: calm.commits, sampled: campaign.scenario.sampled.unwrap_or(1) }
    }
}

/// For each place the faults that are tried there, and at which write.
fn share_out(places: &[Place<'_>]) -> Vec<Vec<(usize, Fault)>> {
    let mut cheapest_first: Vec<usize> = (0..places.len()).collect();
    cheapest_first.sort_by_key(|index| places[*index].cost);
    let mut tried = BTreeSet::new();
    let mut shares = vec![Vec::new(); places.len()];
    for index in cheapest_first {
        let (place, share) = (&places[index], &mut shares[index]);
        let all = place.telling.iter().flat_map(|telling| place.faults.iter().map(move |fault| (telling, fault)));
        let new = all.filter(|((_, kind), fault)| !tried.contains(&(fault.to_string(), kind)));
        let new: Vec<(&(usize, Kind), &Fault)> = new.step_by(place.sampled).collect();
        for ((write, kind), fault) in new {
            tried.insert((fault.to_string(), kind));
            share.push((*write, fault.clone()));
        }
        let own: BTreeSet<String> = share.iter().map(|(_, fault)| fault.to_string()).collect();
        let left = place.faults.iter().filter(|fault| !own.contains(&fault.to_string()));
        // Another write for each, so that all of them come in for some, and another one in each scenario.
        let writes = place.telling.iter().cycle().skip(index);
        share.extend(left.step_by(place.sampled).zip(writes).map(|(fault, (write, _))| (*write, fault.clone())));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(before: &str, purpose: &str) -> Kind {
        (before.to_owned(), purpose.to_owned())
    }

    fn place(telling: &[(usize, Kind)], faults: impl Into<Vec<Fault>>, cost: usize) -> Place<'_> {
        Place { telling, faults: faults.into(), cost, sampled: 1 }
    }

    #[test]
    fn alone_a_scenario_tries_every_fault_at_every_kind_of_write() {
        let telling = [(1, kind("", "Election")), (3, kind("", "TakeNode"))];
        let faults = [Fault::LostAfter, Fault::Reboot];
        let shares = share_out(&[place(&telling, faults, 10)]);
        let all = [(1, Fault::LostAfter), (1, Fault::Reboot), (3, Fault::LostAfter), (3, Fault::Reboot)];
        assert_eq!(shares, [all.to_vec()]);
    }

    #[test]
    fn together_the_cheapest_tries_what_both_could_and_the_other_each_fault_once() {
        let [take, drain] = [kind("", "TakeNode"), kind("TakeNode", "CreateJob")];
        let (long, short) = ([(4, take.clone()), (9, drain)], [(2, take)]);
        let faults = [Fault::LostAfter, Fault::Reboot];
        let both = [place(&long, faults.clone(), 90), place(&short, faults, 10)];
        let once = [(2, Fault::LostAfter), (2, Fault::Reboot)];
        let beyond = [(9, Fault::LostAfter), (9, Fault::Reboot)];
        assert_eq!(share_out(&both), [beyond.to_vec(), once.to_vec()]);
    }

    #[test]
    fn a_scenario_without_a_kind_of_its_own_tries_its_faults_at_one_write_after_the_other() {
        let telling = [(1, kind("", "Election")), (3, kind("", "TakeNode"))];
        let faults = [Fault::LostAfter, Fault::Reboot];
        let shares = share_out(&[place(&telling, faults.clone(), 1), place(&telling, faults, 2)]);
        assert_eq!(shares[1], [(3, Fault::LostAfter), (1, Fault::Reboot)]);
    }
}
