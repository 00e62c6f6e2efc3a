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
use crate::scenario::Scenario;

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
    /// Every fault, at a write for a purpose for which no sample has it.
    pub(super) left: Vec<Schedule>,
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
    let places: Vec<Place<'_>> =
        campaigns.iter().zip(&calm).map(|(campaign, calm)| Place::of(campaign, calm)).collect();
    let pairs = share_out(&places);
    let left = share_what_is_left(&places, &pairs);
    let parts = campaigns.into_iter().zip(outcomes).zip(calm.into_iter().zip(pairs.into_iter().zip(left)));
    let surveyed = parts.map(|((campaign, (_, outcome)), (calm, (pairs, left)))| {
        let mut report = CampaignReport::of(&campaign.scenario.name);
        (report.writes, report.fresh) = (outcome.writes, calm.fresh.len());
        report.count(&campaign.scenario, &Schedule::default(), outcome);
        let [pairs, left] =
            [pairs, left].map(|shares| shares.into_iter().map(|(write, fault)| Schedule::one(write, fault)).collect());
        Surveyed { campaign, calm, pairs, left, report }
    });
    Ok(surveyed.collect())
}

/// Where faults can be tried.
struct Place<'a> {
    name: &'a str,
    engine: Engine,
    telling: &'a [(usize, Kind)],
    faults: Vec<Fault>,
    /// Those that have a part of their own.
    crashes: Vec<Fault>,
    cost: usize,
    /// Of all that it could try, one in so many.
    sampled: usize,
}

impl<'a> Place<'a> {
    fn of(campaign: &'a Campaign, calm: &'a Calm) -> Self {
        let scenario = &campaign.scenario;
        let is_crash = |fault: &Fault| matches!(fault, Fault::CrashBefore | Fault::CrashAfter);
        let (crashes, faults) = Fault::at_every_write(scenario).into_iter().partition(is_crash);
        let (name, engine) = (&scenario.name, Engine::of(scenario));
        let (telling, cost, sampled) = (&calm.telling, calm.commits, scenario.sampled.unwrap_or(1));
        Place { name, engine, telling, faults, crashes, cost, sampled }
    }
}

/// Who writes. Purposes of some are called alike, such as that of the Lease; those of a planner are called its own wherever it is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Engine {
    Plans,
    Upgrades,
    TanzuKubernetesClusters,
    /// That keeps Clusters of Cluster API.
    Clusters,
    ControlPlanes,
}

impl Engine {
    fn of(scenario: &Scenario) -> Self {
        match () {
            () if scenario.tanzu().is_some() => Engine::TanzuKubernetesClusters,
            () if scenario.leaves_clusters() => Engine::Clusters,
            () if scenario.guest.is_some() => Engine::ControlPlanes,
            () if scenario.upgrade().is_some() => Engine::Upgrades,
            () => Engine::Plans,
        }
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

/// What each place tries beyond its share, so that every fault is tried at a write for every purpose of every engine: the cheapest that
/// can does it, however small its sample is.
fn share_what_is_left(places: &[Place<'_>], shares: &[Vec<(usize, Fault)>]) -> Vec<Vec<(usize, Fault)>> {
    let mut tried = BTreeSet::new();
    for (place, share) in places.iter().zip(shares) {
        let purposes: BTreeMap<usize, &str> =
            place.telling.iter().map(|(write, (_, purpose))| (*write, purpose.as_str())).collect();
        let of_share = share.iter().filter_map(|(write, fault)| Some((fault, *purposes.get(write)?)));
        // Where nothing is sampled, operators die at every write.
        let crashes = place.crashes.iter().filter(|_| place.sampled == 1);
        let of_crashes = crashes.flat_map(|fault| purposes.values().map(move |purpose| (fault, *purpose)));
        tried.extend(of_share.chain(of_crashes).map(|(fault, purpose)| (place.engine, fault.to_string(), purpose)));
    }
    let mut cheapest_first: Vec<usize> = (0..places.len()).collect();
    cheapest_first.sort_by_key(|index| places[*index].cost);
    let mut left = vec![Vec::new(); places.len()];
    for index in cheapest_first {
        let place = &places[index];
        let purposes: BTreeSet<&str> = place.telling.iter().map(|(_, (_, purpose))| purpose.as_str()).collect();
        for fault in place.crashes.iter().chain(&place.faults) {
            let name = fault.to_string();
            for purpose in &purposes {
                if tried.insert((place.engine, name.clone(), purpose)) {
                    let such = place.telling.iter().filter(|(_, (_, other))| other == purpose);
                    let write = draw(such, |(_, kind)| (place.name, &name, kind));
                    left[index].extend(write.map(|(write, _)| (*write, fault.clone())));
                }
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(before: &str, purpose: &str) -> Kind {
        (before.to_owned(), purpose.to_owned())
    }

    fn place<'a>(name: &'a str, telling: &'a [(usize, Kind)], faults: &[Fault], cost: usize) -> Place<'a> {
        let (engine, crashes) = (Engine::Plans, vec![Fault::CrashAfter]);
        Place { name, engine, telling, faults: faults.to_vec(), crashes, cost, sampled: 1 }
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
    fn what_samples_leave_out_is_tried_once_for_each_purpose_of_each_engine_by_the_cheapest_that_can() {
        let [lease, take, again] = [kind("", "Election"), kind("", "TakeNode"), kind("Announce", "TakeNode")];
        let (own, others) = ([(1, lease.clone()), (2, take.clone()), (7, again)], [(1, lease), (4, take)]);
        let large = |name, cost| Place { sampled: usize::MAX, ..place(name, &own, &FAULTS, cost) };
        let whole = Place { engine: Engine::Plans, ..place("plans", &others, &FAULTS, 10) };
        let [dear, cheap] = [("dear", 90), ("cheap", 40)].map(|(name, cost)| large(name, cost));
        let planner = Place { engine: Engine::Upgrades, ..large("upgrade", 500) };
        let places = [dear, cheap, whole, planner];

        let left = share_what_is_left(&places, &share_out(&places));

        assert_eq!(left[..3], [vec![], vec![], vec![]], "Plans are whole already");
        let of_upgrades: Vec<(&str, &Fault)> =
            left[3].iter().map(|(write, fault)| (if *write == 1 { "Election" } else { "TakeNode" }, fault)).collect();
        let each = |fault| [("Election", fault), ("TakeNode", fault)];
        assert_eq!(
            of_upgrades,
            [Fault::CrashAfter, Fault::LostAfter, Fault::Reboot].iter().flat_map(each).collect::<Vec<_>>()
        );

        let alone = share_what_is_left(&places[..2], &share_out(&places[..2]));
        assert_eq!((alone[0].len(), alone[1].len()), (0, 6), "the cheapest: {alone:?}");
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
