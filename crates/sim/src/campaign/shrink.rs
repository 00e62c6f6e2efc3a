//! The smallest schedule that still fails: faults are dropped, then made simpler, then moved to earlier writes.

use crate::faults::{Fault, Incident, Moment, Schedule, Turn};
use crate::run::Outcome;

/// How many smaller schedules are tried.
const TRIES: usize = 100;
/// Of so many parts of all states, one has hardly more than a single one.
const FEW: u64 = 4096;

/// None if not even the schedule itself fails again.
pub fn shrink<E>(
    schedule: &Schedule,
    mut fails: impl FnMut(&Schedule) -> Result<Option<Outcome>, E>,
) -> Result<Option<(Schedule, Outcome)>, E> {
    let Some(outcome) = fails(schedule)? else { return Ok(None) };
    let mut smallest = (schedule.clone(), outcome);
    let mut tries = 0;
    'again: loop {
        for smaller in smaller(&smallest.0) {
            tries += 1;
            if tries > TRIES {
                return Ok(Some(smallest));
            }
            if let Some(outcome) = fails(&smaller)? {
                smallest = (smaller, outcome);
                continue 'again;
            }
        }
        return Ok(Some(smallest));
    }
}

/// Every schedule that is one step smaller, the most promising first.
fn smaller(schedule: &Schedule) -> Vec<Schedule> {
    let mut all = Vec::new();
    for index in 0..schedule.faults.len() {
        let mut fewer = schedule.clone();
        fewer.faults.remove(index);
        all.push(fewer);
    }
    let replaced = |index: usize, incident: Incident| {
        let mut changed = schedule.clone();
        changed.faults[index] = incident;
        changed
    };
    for (index, incident) in schedule.faults.iter().enumerate() {
        let simpler = simpler(&incident.what).into_iter();
        all.extend(simpler.map(|what| replaced(index, Incident { what, at: incident.at.clone() })));
        if let Moment::Write(write) = incident.at
            && matches!(incident.what, Fault::CrashesBefore | Fault::CrashesAfter | Fault::CrashesInTurn(_))
        {
            // Those that begin to die later die less often.
            let later = [write * 2, write + 1].map(Moment::Write);
            all.extend(later.map(|at| replaced(index, Incident { at, what: incident.what.clone() })));
        } else if let Moment::Write(write) = incident.at {
            let earlier =
                [write / 2, write.saturating_sub(1)].into_iter().filter(|earlier| (1..write).contains(earlier));
            all.extend(
                earlier
                    .map(|write| replaced(index, Incident { at: Moment::Write(write), what: incident.what.clone() })),
            );
        }
    }
    all
}

/// Faults of the same sort with less to them.
fn simpler(fault: &Fault) -> Vec<Fault> {
    match fault {
        Fault::LandsAfter(count) if *count > 1 => {
            vec![Fault::CrashBefore, Fault::CrashAfter, Fault::LandsAfter(count / 2), Fault::LandsAfter(count - 1)]
        }
        Fault::CrashesBefore => vec![Fault::CrashBefore],
        Fault::CrashesAfter => vec![Fault::CrashAfter],
        // Half of its states.
        Fault::CrashesInTurn(Turn { after, part, of }) if *of <= FEW => {
            let half = |part| Fault::CrashesInTurn(Turn { after: *after, part, of: of * 2 });
            let one = if *after { Fault::CrashAfter } else { Fault::CrashBefore };
            vec![one, half(*part), half(part + of)]
        }
        Fault::ClockSetAhead => vec![Fault::CrashBefore, Fault::ClockAhead],
        Fault::ClockSetBack => vec![Fault::CrashBefore, Fault::ClockBehind],
        Fault::LandsAfter(_) | Fault::LandsAtTheEnd | Fault::ClockAhead | Fault::ClockBehind | Fault::StaleLists => {
            vec![Fault::CrashBefore, Fault::CrashAfter]
        }
        Fault::JobsFail => vec![Fault::JobsHang, Fault::PodsDeleted],
        Fault::NodesGone => vec![Fault::Reboot],
        Fault::RebootTwice => vec![Fault::Reboot],
        Fault::WatchesExpired | Fault::ServerAway => vec![Fault::WatchesCut],
        Fault::LostBefore | Fault::Forbidden => vec![Fault::Refused(500)],
        Fault::Suspended => vec![Fault::WatchesLag],
        Fault::Overtaken => vec![Fault::Suspended],
        Fault::PlanGone => vec![Fault::PlanReplaced],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_dropped_and_the_rest_comes_earlier() {
        let incident = |write, what| Incident { at: Moment::Write(write), what };
        let schedule = Schedule {
            faults: vec![
                incident(3, Fault::WatchesCut),
                incident(9, Fault::LandsAfter(6)),
                incident(12, Fault::StatusWiped),
            ],
        };
        // Fails for whatever kills the operator at the fifth write or later.
        let fails = |schedule: &Schedule| -> Result<Option<Outcome>, ()> {
            let kills = |incident: &Incident| {
                incident.what.kills() && matches!(incident.at, Moment::Write(write) if write >= 5)
            };
            let failed = schedule.faults.iter().any(kills);
            Ok(failed.then(|| Outcome {
                seed: 1,
                violations: Vec::new(),
                writes: 0,
                virtual_seconds: 0.0,
                digest: String::new(),
                story: Default::default(),
                started: jiff::Timestamp::UNIX_EPOCH,
                commits: 0,
                states: Vec::new(),
                at_writes: Vec::new(),
                purposes: Default::default(),
                reasons: Default::default(),
                before: None,
                missed: Vec::new(),
            }))
        };
        let (smallest, _) = shrink(&schedule, fails).unwrap().unwrap();
        assert_eq!(smallest, Schedule::one(5, Fault::CrashBefore));
    }
}
