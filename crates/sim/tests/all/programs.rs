//! Programs in pods die, and are refused, at each write of theirs.

use drover_sim::faults::{Fault, Mishap, Schedule};
use drover_sim::{Outcome, Scenario, Terms, run};

/// By its file name, as those that are built in.
fn scenario(name: &str) -> Scenario {
    drover_sim::scenario::built_in().unwrap().into_iter().find(|one| one.name == name).unwrap()
}

fn under(scenario: &Scenario, mishap: Option<Mishap>) -> Outcome {
    let schedule = mishap.map_or_else(Schedule::default, |mishap| Schedule::one(1, Fault::Programs(mishap)));
    let outcome = run(scenario, &Terms::of(schedule, 1)).unwrap();
    assert_eq!(outcome.violations, [], "{mishap:?}");
    outcome
}

/// How often it has happened, as the story tells it.
fn times(outcome: &Outcome, mishap: Mishap) -> usize {
    outcome.trace().iter().filter(|line| line.contains("FAULT") && line.contains(&format!(": {mishap}"))).count()
}

#[test]
fn steps_and_drains_and_updates_go_on_when_they_die_at_any_write_of_theirs() {
    for name in ["drain", "harvester-three-nodes", "guest-tkc"] {
        let scenario = scenario(name);
        for mishap in [Mishap::DiesBefore, Mishap::DiesAfter] {
            let deaths = times(&under(&scenario, Some(mishap)), mishap);
            assert!(deaths > 5, "{name}: {deaths} deaths");
        }
    }
}

#[test]
fn a_step_whose_write_is_refused_tries_again_within_seconds() {
    let scenario = scenario("harvester-three-nodes");
    let calm = under(&scenario, None).virtual_seconds;
    for code in [409, 429, 500, 503] {
        let mishap = Mishap::Refused(code);
        let outcome = under(&scenario, Some(mishap));
        let (took, times) = (outcome.virtual_seconds - calm, times(&outcome, mishap));
        // A pause of two seconds, and what it sets back besides.
        assert!(times > 10 && took < 4.0 * times as f64, "{times} refusals with {code} cost {took} s");
    }
}
