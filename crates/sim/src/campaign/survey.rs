//! The runs without faults, and which scenario tries which fault at which write.
//!
//! What comes of a fault at a write hangs on what that write is for and on what was written before it: on its kind. Of
//! scenarios that are surveyed together, the cheapest one that makes a write of some kind tries the faults there, once for
//! all of them; and each scenario tries each fault at least at one of its own writes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Campaign;
use super::cores::on_all_cores;
use super::lot::{draw, is_drawn};
use super::report::CampaignReport;
use crate::faults::{Fault, Schedule};
use crate::run::Outcome;

/// The run without faults, that all others are measured by.
#[derive(Debug)]
pub(super) struct Calm {
    pub writes: usize,
    /// Where a crash may tell something new: writes that meet a state in which none for the same purpose was made before. A
    /// Lease that is renewed again and again while a node reboots is one place, not hundreds.
    pub fresh: Vec<(usize, Occasion)>,
    /// Where a fault may tell something new: the first write of each kind. The second node goes the way of the first, and a
    /// Lease that is renewed while nothing happens is like the one before.
    pub telling: Vec<(usize, Kind)>,
    /// How much is written in all, which is what a run costs.
    pub commits: usize,
    pub time: Duration,
}

/// What a write is for, after what the one before it was for.
pub(super) type Kind = (String, String);

/// A write of some kind, and how many of that kind were made before it: it keeps its name where another kind of write comes in between.
pub(super) type Occasion = (Kind, usize);

impl Calm {
    fn of(outcome: &Outcome) -> Self {
        let (mut states, mut counts) = (BTreeSet::new(), BTreeMap::<Kind, usize>::new());
        let (mut fresh, mut telling, mut before) = (Vec::new(), Vec::new(), "");
        for (index, meeting) in outcome.at_writes.iter().take(outcome.writes).enumerate() {
            let (write, purpose) = (index + 1, &meeting.1);
            let kind = (before.to_owned(), purpose.clone());
            let count = counts.entry(kind.clone()).or_default();
            if states.insert(meeting) {
                fresh.push((write, (kind.clone(), *count)));
            }
            if *count == 0 {
                telling.push((write, kind));
            }
            *count += 1;
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
    // The largest first: it would be the last to end, alone.
    let mut order: Vec<usize> = (0..campaigns.len()).collect();
    order.sort_by_key(|index| Reverse(campaigns[*index].scenario.nodes));
    on_all_cores(campaigns.len(), |turn| {
        let index = order[turn];
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
    name: &'a str,
    telling: &'a [(usize, Kind)],
    faults: Vec<Fault>,
    cost: usize,
    /// Of all that it could try, one in so many.
    sampled: usize,
}

impl<'a> Place<'a> {
    fn of(campaign: &'a Campaign, calm: &'a Calm) -> Self {
        let scenario = &campaign.scenario;
        let mut faults = Fault::at_every_write(scenario);
        faults.retain(|fault| !matches!(fault, Fault::CrashBefore | Fault::CrashAfter));
        let sampled = scenario.sampled.unwrap_or(1);
        Place { name: &scenario.name, telling: &calm.telling, faults, cost: calm.commits, sampled }
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
        for ((write, kind), fault) in all {
            let name = fault.to_string();
            if !tried.contains(&(name.clone(), kind)) && is_drawn((place.name, &name, kind), place.sampled) {
                tried.insert((name, kind));
                share.push((*write, fault.clone()));
            }
        }
        let own: BTreeSet<String> = share.iter().map(|(_, fault)| fault.to_string()).collect();
        for fault in &place.faults {
            let name = fault.to_string();
            if own.contains(&name) || !is_drawn((place.name, &name), place.sampled) {
                continue;
            }
            // Another write for each fault, and another one in each scenario.
            let write = draw(place.telling, |(_, kind)| (place.name, &name, kind));
            share.extend(write.map(|(write, _)| (*write, fault.clone())));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(before: &str, purpose: &str) -> Kind {
        (before.to_owned(), purpose.to_owned())
    }

    fn place<'a>(name: &'a str, telling: &'a [(usize, Kind)], faults: &[Fault], cost: usize) -> Place<'a> {
        Place { name, telling, faults: faults.to_vec(), cost, sampled: 1 }
    }

    const FAULTS: [Fault; 2] = [Fault::LostAfter, Fault::Reboot];

    #[test]
    fn alone_a_scenario_tries_every_fault_at_every_kind_of_write() {
        let telling = [(1, kind("", "Election")), (3, kind("", "TakeNode"))];
        let shares = share_out(&[place("one", &telling, &FAULTS, 10)]);
        let all = [(1, Fault::LostAfter), (1, Fault::Reboot), (3, Fault::LostAfter), (3, Fault::Reboot)];
        assert_eq!(shares, [all.to_vec()]);
    }

    #[test]
    fn together_the_cheapest_tries_what_both_could_and_the_other_each_fault_once() {
        let [take, drain] = [kind("", "TakeNode"), kind("TakeNode", "CreateJob")];
        let (long, short) = ([(4, take.clone()), (9, drain)], [(2, take)]);
        let both = [place("long", &long, &FAULTS, 90), place("short", &short, &FAULTS, 10)];
        let once = [(2, Fault::LostAfter), (2, Fault::Reboot)];
        let beyond = [(9, Fault::LostAfter), (9, Fault::Reboot)];
        assert_eq!(share_out(&both), [beyond.to_vec(), once.to_vec()]);
    }

    #[test]
    fn a_scenario_without_a_kind_of_its_own_tries_each_fault_at_one_of_its_writes() {
        let telling = [(1, kind("", "Election")), (3, kind("", "TakeNode"))];
        let shares = share_out(&[place("one", &telling, &FAULTS, 1), place("other", &telling, &FAULTS, 2)]);
        let faults: Vec<&Fault> = shares[1].iter().map(|(_, fault)| fault).collect();
        assert_eq!(faults, [&Fault::LostAfter, &Fault::Reboot]);
    }

    #[test]
    fn a_kind_of_write_more_leaves_the_rest_of_a_sample_as_it_was() {
        let kinds = |count: usize| (0..count).map(|number| (number, kind("", &number.to_string()))).collect::<Vec<_>>();
        let drawn = |telling: &[(usize, Kind)]| {
            let mut all = share_out(&[Place { sampled: 5, ..place("one", telling, &FAULTS, 1) }]);
            all.remove(0)
        };
        let (fewer, more) = (drawn(&kinds(60)), drawn(&kinds(61)));
        assert!((10..40).contains(&fewer.len()), "{} of 120", fewer.len());
        assert!(more.starts_with(&fewer), "{fewer:?}, then {more:?}");
    }
}
