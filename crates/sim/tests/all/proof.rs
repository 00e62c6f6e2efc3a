//! The proof in small: a crash at every write of one scenario, and a sample of all that the campaigns try.

use drover_sim::campaign::{Part, run_all, survey};
use drover_sim::{Campaign, CampaignReport, Fault, Scenario, Schedule, Terms, run};

fn built_in(name: &str) -> Scenario {
    let mut all = drover_sim::scenario::built_in().unwrap().into_iter();
    all.find(|scenario| scenario.name == name).unwrap()
}

/// One node was cordoned before, and nodes reboot: both must be respected under every fault.
fn scenario() -> Scenario {
    built_in("with-reboot")
}

fn assert_no_failures(report: &CampaignReport) {
    let Some(failure) = report.failures.first() else { return };
    let violations: Vec<&str> =
        failure.outcome.violations.iter().map(|violation| violation.sentence.as_str()).collect();
    let line = serde_json::to_string(&failure.regression).unwrap();
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

/// Of all schedules that `make sim` tries. A prime, so that no fault is left out each time.
const EVERY: usize = 61;

#[test]
fn one_in_sixty_one_of_all_schedules_costs_time_and_nothing_else() {
    let scenarios = drover_sim::scenario::built_in().unwrap().into_iter();
    let campaigns = scenarios.map(|scenario| Campaign { every: EVERY, ..Campaign::new(scenario, 1) });
    let parts = [Part::Crashes, Part::Pairs, Part::DoubleCrashes { every: 1 }, Part::Random(EVERY)];
    let surveyed = survey(campaigns.collect()).unwrap();
    let all = run_all(surveyed, |_| parts.to_vec(), |_| Box::new(|_, _| ()), |_| ()).unwrap();
    assert_no_failures(&all);
    println!("{} schedules, {} distinct states", all.schedules, all.distinct_states);
}

#[test]
fn a_crash_at_any_write_costs_time_and_nothing_else() {
    let report = Campaign::new(scenario(), 1).run(&[Part::Crashes], &|_, _| ()).unwrap();
    assert_no_failures(&report);
    assert_eq!(report.schedules, 1 + 2 * report.fresh, "one without faults, two at each write that meets a new state");
    assert!(report.fresh > report.writes / 2, "{} of {} writes", report.fresh, report.writes);
}

#[test]
fn operators_that_die_at_every_write_bring_it_to_its_end() {
    let report = Campaign::new(scenario(), 1).run(&[Part::CrashesThroughout], &|_, _| ()).unwrap();
    assert_no_failures(&report);
    assert_eq!(report.schedules, 3, "one without faults, one that dies before each write, one after each");
    for fault in [Fault::CrashesBefore, Fault::CrashesAfter] {
        let outcome = run(&scenario(), &Terms::of(Schedule::one(1, fault), 1)).unwrap();
        let deaths = outcome.trace().iter().filter(|line| line.contains("the operator dies")).count();
        assert!(deaths > report.fresh / 2, "{deaths} operators died, at {} writes that meet new states", report.fresh);
    }
}

#[test]
fn what_a_suspended_operator_was_about_to_send_arrives_a_minute_later_whoever_leads_by_then() {
    for fault in [Fault::Suspended, Fault::Overtaken] {
        let trace = run(&scenario(), &Terms::of(Schedule::one(8, fault.clone()), 1)).unwrap().trace();
        let second = |words: &str| {
            let line = trace.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {trace:#?}"));
            line.split_whitespace().next().unwrap().trim_end_matches('s').parse::<f64>().unwrap()
        };
        let late = second("was about to send arrives") - second("is frozen");
        assert!((60.0..60.1).contains(&late), "{fault} arrives after {late} s");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let faults = Schedule::one(10, Fault::CrashAfter);
    let trace = |seed| run(&scenario(), &Terms::of(faults.clone(), seed)).unwrap().trace();
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}
