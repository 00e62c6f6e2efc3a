//! The proof in small: one Plan, three nodes, every fault at every write.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

use drover_sim::campaign::Part;
use drover_sim::{Campaign, CampaignReport, Fault, Scenario, Schedule, Terms, run};

/// One node was cordoned before, and nodes reboot: both must be respected under every fault.
fn scenario() -> Scenario {
    Scenario { cordoned: ["node-2".to_owned()].into(), reboot_seconds: 3, ..Scenario::default() }
}

fn assert_no_failures(report: &CampaignReport) {
    let Some(failure) = report.failures.first() else { return };
    let violations: Vec<&str> =
        failure.outcome.violations.iter().map(|violation| violation.sentence.as_str()).collect();
    let line = serde_json::to_string(&failure.regression()).unwrap();
    panic!(
        "{} of {} schedules failed; the first is {line}: {violations:#?}\n{}",
        report.failures.len(),
        report.schedules,
        failure.trace.join("\n"),
    );
}

#[test]
fn without_faults_the_upgrade_ends_and_nothing_is_left_behind() {
    let outcome = run(&scenario(), &Terms::calm(1)).unwrap();
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
    assert!(outcome.virtual_seconds < 120.0);
}

#[test]
#[ignore = "takes minutes; make sim runs it with all other scenarios"]
fn every_fault_at_every_write_costs_time_and_nothing_else() {
    let parts = [Part::Crashes, Part::Pairs, Part::Landings];
    let report = Campaign::new(scenario(), 1).run(&parts, &|_, _| ()).unwrap();

    assert_no_failures(&report);
    let faults = Fault::at_every_write(&scenario()).len();
    let late_landings = report.writes * (report.writes + 1) / 2;
    assert_eq!(report.schedules, 1 + report.writes * faults + late_landings);
    println!(
        "{} schedules over {} writes, {} distinct states",
        report.schedules, report.writes, report.distinct_states
    );
}

#[test]
#[ignore = "takes minutes; make sim runs it with all other scenarios"]
fn a_crash_at_any_write_of_any_scenario_costs_time_and_nothing_else() {
    for scenario in drover_sim::scenario::built_in().unwrap() {
        assert_no_failures(&Campaign::new(scenario, 1).run(&[Part::Crashes], &|_, _| ()).unwrap());
    }
}

#[test]
#[ignore = "takes minutes; make sim runs it with all other scenarios"]
fn several_faults_in_one_run_are_survived_too() {
    let scenario = Scenario { nodes: 4, concurrency: 2, ..scenario() };
    assert_no_failures(&Campaign::new(scenario, 7).run(&[Part::Random(300)], &|_, _| ()).unwrap());
}

/// The part of the campaigns that is run each time.
#[test]
fn a_crash_at_any_write_costs_time_and_nothing_else() {
    assert_no_failures(&Campaign::new(scenario(), 1).run(&[Part::Crashes], &|_, _| ()).unwrap());
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let faults = Schedule::one(10, Fault::CrashAfter);
    let trace = |seed| run(&scenario(), &Terms::of(faults.clone(), seed)).unwrap().trace();
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}
