//! TanzuKubernetesClusters: from another version to new workers, workers that get nowhere, and crashes on the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

use drover_sim::campaign::Part;
use drover_sim::{Campaign, Scenario, Terms, run};

fn built_in(name: &str) -> Scenario {
    let mut all = drover_sim::scenario::built_in().unwrap().into_iter();
    all.find(|scenario| scenario.name == name).unwrap()
}

fn comes_to_its_end(name: &str) {
    let outcome = run(&built_in(name), &Terms::calm(1)).unwrap();
    let violations: Vec<&str> = outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", outcome.trace().join("\n"));
    println!("{name}: {} s, {} writes of the operator", outcome.virtual_seconds, outcome.writes);
}

#[test]
fn a_version_is_raised_in_the_control_plane_and_then_in_the_workers() {
    comes_to_its_end("guest-tkc");
}

#[test]
fn workers_that_never_come_halt_their_rollout() {
    comes_to_its_end("guest-tkc-workers-never-come");
}

#[test]
fn workers_that_cannot_be_made_are_taken_back() {
    comes_to_its_end("guest-tkc-workers-return");
}

#[test]
fn workers_that_do_not_go_halt_their_rollout_until_somebody_asks_for_another_try() {
    comes_to_its_end("guest-tkc-worker-stays");
}

/// `make sim` tries all of them, in all scenarios.
#[test]
fn crashes_other_faults_and_random_schedules_do_no_harm() {
    let scenario = Scenario { sampled: None, ..built_in("guest-tkc-workers-return") };
    let parts = [Part::Crashes, Part::Pairs, Part::Random(40)];
    let report = Campaign { every: 4, ..Campaign::new(scenario, 1) }.run(&parts, &|_, _| ()).unwrap();
    println!("{} schedules", report.schedules);
    let Some(failure) = report.failures.first() else { return };
    let violations: Vec<&str> = failure.outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    panic!(
        "{} of {} schedules failed; the first is {:?}: {violations:#?}\n{}",
        report.failures.len(),
        report.schedules,
        failure.schedule,
        failure.trace.join("\n")
    );
}
