//! The proof in small: one Plan, three nodes, every fault at every write.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

use std::time::Duration;

use drover_sim::{Campaign, CampaignReport, Fault, Scenario, Schedule, run};

/// One node was cordoned before, and nodes reboot: both must be respected under every fault.
fn scenario() -> Scenario {
    Scenario { cordoned: ["node-2".to_owned()].into(), reboot_seconds: 3, ..Scenario::default() }
}

fn assert_no_failures(report: &CampaignReport) {
    let Some(failure) = report.failures.first() else { return };
    let violations: Vec<&str> =
        failure.outcome.violations.iter().map(|violation| violation.sentence.as_str()).collect();
    panic!(
        "{} of {} schedules failed; the first is {:?}: {violations:?}\n{}",
        report.failures.len(),
        report.schedules,
        failure.schedule,
        failure.trace.join("\n"),
    );
}

#[test]
fn without_faults_the_upgrade_ends_and_nothing_is_left_behind() {
    let outcome = run(&scenario(), &Schedule::default(), 1, Some(Duration::from_secs(120))).unwrap();
    assert_eq!(outcome.violations, [], "{}", outcome.trace.join("\n"));
}

#[test]
fn every_fault_at_every_write_costs_time_and_nothing_else() {
    let report = Campaign { scenario: scenario(), seed: 1 }.exhaustive(&|_, _| ()).unwrap();

    assert_no_failures(&report);
    let faults = Fault::AT_EVERY_WRITE.len();
    let late_landings = report.writes * (report.writes + 1) / 2;
    assert_eq!(report.schedules, 1 + report.writes * faults + late_landings + 20);
    println!(
        "{} schedules over {} writes, {} distinct states",
        report.schedules, report.writes, report.distinct_states
    );
}

#[test]
fn several_faults_in_one_run_are_survived_too() {
    let scenario = Scenario { nodes: 4, concurrency: 2, ..scenario() };
    assert_no_failures(&Campaign { scenario, seed: 7 }.random(300, &|_, _| ()).unwrap());
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let faults = Schedule::one(9, Fault::CrashAfter);
    let trace = |seed| run(&scenario(), &faults, seed, None).unwrap().trace;
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}
