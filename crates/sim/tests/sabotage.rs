//! The campaigns can fail: each of many planted bugs is found.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

use drover_sim::campaign::Part;
use drover_sim::sabotage::Sabotage;
use drover_sim::{Campaign, Scenario};

/// The cheap parts first: most bugs show without any fault at all.
const PARTS: [&[Part]; 3] = [&[], &[Part::Crashes], &[Part::Pairs]];

/// Where a bug is looked for, the likely places first.
fn scenarios() -> Vec<Scenario> {
    let all = drover_sim::scenario::built_in().unwrap();
    let names = [
        "with-reboot",
        "servers-and-agents",
        "drain",
        "window-closed",
        "missing-secret",
        "failing-job",
        "hanging-job",
        "plan-deleted",
        "selector-narrowed",
        "beside-the-original",
        "never-returns",
        "without-cordon",
    ];
    names.iter().map(|name| all.iter().find(|scenario| scenario.name == *name).unwrap().clone()).collect()
}

/// Where it was found, and what was said about it.
fn find(sabotage: Sabotage) -> Option<String> {
    for parts in PARTS {
        for scenario in scenarios() {
            let name = scenario.name.clone();
            let campaign = Campaign { sabotage: Some(sabotage), first_only: true, ..Campaign::new(scenario, 1) };
            let report = campaign.run(parts, &|_, _| ()).unwrap();
            if let Some(failure) = report.failures.first() {
                let faults: Vec<String> = failure.schedule.faults.iter().map(ToString::to_string).collect();
                let faults = if faults.is_empty() { "no fault".to_owned() } else { faults.join("; ") };
                let sentence = &failure.outcome.violations[0].sentence;
                return Some(format!("in {name} with {faults}: {sentence}"));
            }
        }
    }
    None
}

#[test]
#[ignore = "takes minutes"]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for sabotage in Sabotage::ALL {
        match find(*sabotage) {
            Some(found) => println!("{:<26} {found}", sabotage.name()),
            None => missed.push(format!("{}: {}", sabotage.name(), sabotage.sentence())),
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// What finds a planted bug finds nothing where none is planted.
#[test]
fn without_a_planted_bug_nothing_is_found() {
    for scenario in scenarios() {
        let report = Campaign::new(scenario, 1).run(&[], &|_, _| ()).unwrap();
        let failure = report.failures.first();
        let told = failure.map(|failure| format!("{:?}\n{}", failure.outcome.violations, failure.trace.join("\n")));
        assert!(failure.is_none(), "{}: {}", report.scenario, told.unwrap_or_default());
    }
}
