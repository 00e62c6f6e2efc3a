//! Updates of guest clusters: a crash at every write for one machine, at some for three and five; `make sim` tries all.

use std::time::Duration;

use drover_sim::campaign::Part;
use drover_sim::{Campaign, Fault, Scenario, Schedule, Terms, run};

fn built_in(name: &str) -> Scenario {
    let mut all = drover_sim::scenario::built_in().unwrap().into_iter();
    all.find(|scenario| scenario.name == name).unwrap()
}

fn no_crash_does_harm(name: &str, every: usize) {
    let campaign = Campaign { every, ..Campaign::new(Scenario { sampled: None, ..built_in(name) }, 1) };
    let report = campaign.run(&[Part::Crashes], &|_, _| ()).unwrap();
    assert!(report.schedules > 1, "{name}: no crash was drawn");
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

#[test]
fn a_member_of_etcd_that_never_started_goes_whoever_crashes() {
    no_fault_does_harm("guest-join-dies", &Fault::CrashAfter, 31);
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

/// Of a whole TanzuKubernetesCluster the order leaves this to do one after the other: the three machines of its control plane, as above; then
/// each of two workers is had (60 s) and boots (10 s), while the old one of the worker before goes; and the last old one goes (15 s).
/// All else (what differs, add-ons, the Job and its pod, templates, and what is waited for between two machines) is on top of that.
#[test]
fn an_update_of_a_whole_cluster_takes_hardly_longer_than_its_machines_do() {
    let outcome = run(&built_in("guest-tkc"), &Terms::calm(1)).unwrap();
    let machines = 3.0 * (60.0 + 10.0 + 5.0 + 15.0) + 2.0 * (60.0 + 10.0) + 15.0;
    let ratio = (outcome.virtual_seconds - 2.0) / machines;
    println!("guest-tkc: {} s, {ratio:.4} times the {machines} s of its machines", outcome.virtual_seconds);
    assert_eq!(outcome.violations, []);
    assert!(ratio <= 1.02, "{ratio}\n{}", outcome.trace().join("\n"));
}

/// Faults find each of the two by its name.
#[test]
fn kubeadm_is_told_of_the_version_by_one_write_and_of_api_servers_that_are_gone_by_others() {
    let outcome = run(&built_in("guest-three-machines"), &Terms::calm(1)).unwrap();
    let told = |part: &str| outcome.purposes.get(&format!("PATCH configmaps {part}")).copied().unwrap_or(0);
    assert_eq!((told("ClusterConfiguration"), told("ClusterStatus")), (1, 3), "{:?}", outcome.purposes);
}

/// At every n-th write, and at what it is decided on.
fn no_fault_does_harm(name: &str, fault: &Fault, every: usize) {
    let scenario = built_in(name);
    let calm = run(&scenario, &Terms::calm(1)).unwrap();
    assert_eq!(calm.violations, [], "{name} without faults\n{}", calm.trace().join("\n"));
    let time = Some(Duration::from_secs_f64(calm.virtual_seconds));
    for write in (1..=calm.writes).step_by(every) {
        let terms = Terms { calm: time, ..Terms::of(Schedule::one(write, fault.clone()), 1) };
        let outcome = run(&scenario, &terms).unwrap();
        assert_eq!(outcome.violations, [], "{name}, write {write}: {fault}\n{}", outcome.trace().join("\n"));
    }
}

#[test]
fn machines_of_v1beta1_are_replaced_as_those_of_v1alpha2_are_and_workers_follow() {
    no_fault_does_harm("guest-v1beta1", &Fault::CrashAfter, 13);
}

#[test]
fn workers_of_a_cluster_that_is_left_to_an_operator_follow_whoever_crashes() {
    no_fault_does_harm("guest-workers-follow", &Fault::CrashBefore, 17);
}

#[test]
fn a_virtual_machine_that_is_off_for_a_while_costs_time_and_nothing_else() {
    no_fault_does_harm("guest-three-machines", &Fault::VirtualMachineOff, 9);
}

#[test]
fn what_somebody_edits_in_kubeadm_config_stays_and_the_version_there_is_put_right() {
    no_fault_does_harm("guest-three-machines", &Fault::KubeadmConfigEdited, 7);
}

/// The first writing of an object of an add-on, among others. Not that of an object which is deleted again: what is created has no guard.
#[test]
fn what_a_dead_operator_wrote_to_a_guest_reverts_nothing_when_it_arrives_late() {
    no_fault_does_harm("guest-tkc-addons", &Fault::LandsAtTheEnd, 8);
}
