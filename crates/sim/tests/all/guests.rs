//! Updates of guest clusters: a crash at every write for one machine, at some for three and five; `make sim` tries all.

use drover_sim::campaign::Part;
use drover_sim::{Campaign, Scenario, Terms, run};

fn built_in(name: &str) -> Scenario {
    let mut all = drover_sim::scenario::built_in().unwrap().into_iter();
    all.find(|scenario| scenario.name == name).unwrap()
}

fn no_crash_does_harm(name: &str, every: usize) {
    let campaign = Campaign { every, ..Campaign::new(Scenario { sampled: None, ..built_in(name) }, 1) };
    let report = campaign.run(&[Part::Crashes], &|_, _| ()).unwrap();
    let Some(failure) = report.failures.first() else { return };
    let violations: Vec<&str> = failure.outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    panic!(
        "{} of {} schedules of {name} failed; the first is {:?}: {violations:#?}\n{}",
        report.failures.len(),
        report.schedules,
        failure.schedule,
        failure.trace.join("\n")
    );
}

#[test]
fn a_crash_at_any_write_of_a_sole_machines_update_does_no_harm() {
    no_crash_does_harm("guest-one-machine", 1);
}

#[test]
fn a_crash_at_writes_of_three_machines_update_does_no_harm() {
    no_crash_does_harm("guest-three-machines", 5);
}

#[test]
fn a_crash_at_writes_of_five_machines_update_does_no_harm() {
    no_crash_does_harm("guest-five-machines", 13);
}

/// A machine takes 60 s to be had, 10 s to boot, 5 s to learn, 15 s to go; nothing of that can be done side by side. Before the first,
/// the simulated guest itself needs 2 s until its pods are up.
#[test]
fn an_update_takes_hardly_longer_than_its_machines_do() {
    for (name, count) in [("guest-one-machine", 1.0), ("guest-three-machines", 3.0), ("guest-five-machines", 5.0)] {
        let outcome = run(&built_in(name), &Terms::calm(1)).unwrap();
        let machines = count * (60.0 + 10.0 + 5.0 + 15.0);
        let ratio = (outcome.virtual_seconds - 2.0) / machines;
        println!("{name}: {} s, {ratio:.4} times the {machines} s of its machines", outcome.virtual_seconds);
        assert_eq!(outcome.violations, []);
        assert!(ratio <= 1.02, "{name}: {ratio}");
    }
}
