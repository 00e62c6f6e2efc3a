//! TanzuKubernetesClusters: from another version to new workers, add-ons first, workers that get nowhere, and crashes on the way.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_sim::campaign::Part;
use drover_sim::{Campaign, Scenario, Stage, Terms, run};

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

/// The controller has paused its own: who has a Job of the original's at work needs nothing of it but the image.
#[test]
fn the_originals_job_replaces_a_control_plane() {
    let job = include_str!("../../../core/testdata/original-job.yaml").lines().map(|line| format!("    {line}\n"));
    let text = format!(
        "{}
guest:
  machines: 3
  workers: 1
  tanzu: true
  annotations: {{ drover.dev/paused: 'true' }}
  spec: {{ topology: {{ controlPlane: {{ class: best-effort-xlarge }} }} }}
manifests:
  - {}
faults:
  - at: {{ once: {{ object: Job/vmware-system-tkg/update-1280807, matches: {{ status: {{ succeeded: 1 }} }} }} }}
    what: {{ patch: {{ object: TanzuKubernetesCluster/default/my-tkc, with: {{ metadata: {{ annotations: {{ drover.dev/paused: null }} }} }} }} }}
expect:
  objects:
    - {{ object: Machine/default/*-1280807, matches: {{ spec: {{ version: 1.16.7+vmware.1 }} }}, count: 3 }}
    - {{ object: Job/vmware-system-tkg/*, count: 1 }}
",
        "nodes: 1\nfrom: v1.15.5+vmware.1-guest.1\nto: v1.16.7+vmware.1-guest.1\n\
         machines: { node-1: { labels: { node-role.kubernetes.io/master: '' } } }",
        job.collect::<String>().trim_start()
    );
    let scenario = Scenario::parse("original-job.yaml", &text, Path::new(".")).unwrap();
    let outcome = run(&scenario, &Terms::calm(1)).unwrap();
    let violations: Vec<&str> = outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", outcome.trace().join("\n"));
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

#[test]
fn add_ons_come_first_and_what_they_leave_behind_goes_after_the_last_old_node() {
    comes_to_its_end("guest-tkc-addons");
}

#[test]
fn an_add_on_that_cannot_be_read_holds_the_control_plane_until_it_is_mended_and_stops_no_other() {
    comes_to_its_end("guest-tkc-addon-fails");
}

#[test]
fn what_add_ons_leave_behind_stays_while_an_old_node_does() {
    comes_to_its_end("guest-tkc-addons-kept");
}

#[test]
fn add_ons_of_a_guest_that_cannot_be_reached_are_applied_when_it_can() {
    comes_to_its_end("guest-tkc-addons-cut-off");
}

#[test]
fn one_cluster_at_a_time_is_updated_and_one_that_halts_holds_up_no_other() {
    comes_to_its_end("guest-tkc-many");
}

#[test]
fn workers_of_a_cluster_that_is_paused_stay_as_they_are_until_it_is_resumed() {
    comes_to_its_end("guest-tkc-paused");
}

#[test]
fn another_flag_alone_is_rolled_out_to_all_machines_and_what_none_can_change_is_only_said() {
    comes_to_its_end("guest-tkc-flags");
}

#[test]
fn a_control_plane_that_is_to_be_larger_grows_when_its_update_has_ended() {
    comes_to_its_end("guest-tkc-scaled");
}

#[test]
fn a_control_plane_is_made_smaller_one_machine_at_a_time() {
    comes_to_its_end("guest-tkc-shrunk");
}

#[test]
fn a_cluster_that_is_deleted_while_it_is_updated_takes_its_job_and_its_machines_along() {
    comes_to_its_end("guest-tkc-deleted");
}

#[test]
fn a_cluster_that_was_never_there_is_made() {
    comes_to_its_end("guest-tkc-created");
}

#[test]
fn a_cluster_whose_first_machine_cannot_come_says_so_and_stays() {
    comes_to_its_end("guest-tkc-creation-fails");
}

#[test]
fn a_cluster_that_is_deleted_while_it_is_made_leaves_nothing_behind() {
    comes_to_its_end("guest-tkc-creation-ended");
}

/// The seat of the trouble is a machine of the guest; its owner reads of it in the TanzuKubernetesCluster.
#[test]
fn a_job_that_has_failed_says_why_in_the_cluster_and_the_next_one_succeeds() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut scenario = built_in("guest-tkc-job-fails");
        let (trouble, help): (Vec<_>, Vec<_>) = scenario.faults.drain(..).enumerate().partition(|(n, _)| *n == 0);
        scenario.faults = trouble.into_iter().map(|(_, fault)| fault).collect();
        let stage = Stage::open(&scenario, &Terms::calm(1));
        let status = || {
            let known = stage.known();
            let status = known.all("TanzuKubernetesCluster").next().map(|one| one["status"].clone());
            status.unwrap_or_default()
        };
        let failed = |_: &_| if status()["phase"] == "updateFailed" { Vec::new() } else { vec!["not yet".to_owned()] };
        assert!(stage.until(Duration::from_secs(3600), failed).await);
        let said = status()["waits"][0].clone();
        let sentence = said["sentence"].as_str().unwrap();
        assert!(
            sentence.contains("has failed: Machine/default/my-tkc-control-plane")
                && sentence.contains("exceeded quota: vms"),
            "{sentence}"
        );
        let remedy = said["remedy"].as_str().unwrap();
        assert!(remedy.contains("delete job update-"), "{remedy}");
        let tries = stage.known().all("Pod").filter(|pod| pod["status"]["phase"] == "Failed").count();
        assert_eq!(tries, 4, "as many as the original makes");
        for (_, fault) in &help {
            stage.happen(&fault.what).await;
        }
        assert!(stage.until(Duration::from_secs(7200), |_| stage.unmet_now()).await);
        assert!(stage.violations().is_empty(), "{:?}", stage.violations());
    });
}

#[test]
fn a_job_whose_pod_no_node_takes_is_named_and_goes_on_when_one_does() {
    comes_to_its_end("guest-tkc-job-pending");
}

#[test]
fn a_class_that_is_not_there_is_refused_until_it_is() {
    comes_to_its_end("guest-tkc-class-missing");
}

#[test]
fn what_somebody_changes_by_hand_in_the_middle_of_an_update_is_put_right() {
    comes_to_its_end("guest-tkc-meddled");
}

#[test]
fn a_machine_whose_config_somebody_has_deleted_is_named_and_replaced_once_it_is_gone() {
    comes_to_its_end("guest-tkc-config-lost");
}

#[test]
fn an_update_that_is_called_off_leaves_no_machine_too_many_and_no_cordon() {
    comes_to_its_end("guest-tkc-called-off");
}

/// One machine is replaced and the second is coming when the old class is wanted back and the Job is deleted; `and` is what else happens then,
/// and `stay` how many machines are never replaced.
fn is_called_off_half_way(and: &str, stay: usize) {
    let patched = "{ spec: { topology: { controlPlane: { class: best-effort-small } } } }";
    let own = "labels: { cluster.x-k8s.io/control-plane: 'true' }, annotations: { drover.dev/control-plane: null }";
    let text = format!(
        "nodes: 1\nfrom: v1.15.5+vmware.1-guest.1\nto: v1.15.5+vmware.1-guest.1\n\
         machines: {{ node-1: {{ labels: {{ node-role.kubernetes.io/master: '' }} }} }}\n\
         guest: {{ machines: 3, workers: 1, tanzu: true, spec: {{ topology: {{ controlPlane: {{ class: best-effort-xlarge }} }} }} }}\n\
         faults:\n  \
         - {{ at: {{ time: 150s }}, what: {{ patch: {{ object: TanzuKubernetesCluster/default/my-tkc, with: {patched} }} }} }}\n  \
         - {{ at: {{ time: 151s }}, what: {{ delete: Job/vmware-system-tkg/* }} }}\n{and}\
         expect:\n  objects:\n    \
         - {{ object: TanzuKubernetesCluster/default/my-tkc, matches: {{ spec: {{ topology: {{ controlPlane: {{ class: best-effort-small }} }} }}, status: {{ phase: running }} }} }}\n    \
         - {{ object: WCPMachine/default/*, matches: {{ spec: {{ className: best-effort-small }} }}, count: 4 }}\n    \
         - {{ object: Machine/default/*, matches: {{ metadata: {{ {own} }} }}, count: {stay} }}\n"
    );
    let scenario = Scenario::parse("half-way.yaml", &text, Path::new(".")).unwrap();
    let outcome = run(&scenario, &Terms::calm(1)).unwrap();
    let violations: Vec<&str> = outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", outcome.trace().join("\n"));
}

#[test]
fn an_update_that_is_called_off_half_way_takes_back_what_it_has_done_and_nothing_else() {
    is_called_off_half_way("  - { at: { time: 151s }, what: { delete: Pod/vmware-system-tkg/* } }\n", 2);
}

/// Whoever deletes a Job by the API alone leaves its pod at work.
#[test]
fn the_pod_of_a_job_that_was_deleted_comes_to_its_end_before_another_takes_back_what_it_did() {
    is_called_off_half_way("", 0);
}

#[test]
fn add_ons_that_others_applied_are_taken_over_with_what_they_leave_behind() {
    comes_to_its_end("guest-tkc-taken-over");
}

/// Only so many guests are asked at once: whoever comes later has its turn, also after some that do not answer.
#[test]
fn more_clusters_than_are_asked_at_once_are_all_asked() {
    let beside: String = (1..=25)
        .map(|number| format!("\n  - {{ name: tkc-{number}, machines: 1, workers: 1, tanzu: true }}"))
        .collect();
    let away = |number: usize| {
        format!(
            "\n  - at: {{ time: 0s }}\n    what: {{ patch: {{ object: Cluster/default/tkc-{number}, with: {{ metadata: {{ annotations: \
             {{ corral.drover.dev/workload-api: away }} }} }} }} }}\n  - at: {{ time: 100s }}\n    what: {{ patch: {{ object: \
             Cluster/default/tkc-{number}, with: {{ metadata: {{ annotations: {{ corral.drover.dev/workload-api: null }} }} }} }} }}"
        )
    };
    let text = format!(
        "nodes: 1\nfrom: v1.15.5+vmware.1-guest.1\nto: v1.15.5+vmware.1-guest.1\n\
         guest: {{ name: tkc-0, machines: 1, workers: 1, tanzu: true }}\nbeside:{beside}\nfaults:{}{}",
        away(1),
        away(2)
    );
    let scenario = Scenario::parse("many.yaml", &text, Path::new(".")).unwrap();
    let outcome = run(&scenario, &Terms::calm(1)).unwrap();
    let violations: Vec<&str> = outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", outcome.trace().join("\n"));
}

/// How long a cluster takes to another version beside so many whose API takes requests and answers none.
fn seconds_beside_silent_guests(count: usize) -> f64 {
    let asked = "machines: 1, workers: 1, tanzu: true, spec: { distribution: { version: v1.15.5 } }";
    let silent: String = (1..=count).map(|number| format!("\n  - {{ name: dead-{number}, {asked} }}")).collect();
    let beside = if silent.is_empty() { silent } else { format!("\nbeside:{silent}") };
    let told = "{ metadata: { annotations: { corral.drover.dev/workload-api: silent } } }";
    let text = format!(
        "nodes: 1\nfrom: v1.15.5+vmware.1-guest.1\nto: v1.16.7+vmware.1-guest.1\n\
         machines: {{ node-1: {{ labels: {{ node-role.kubernetes.io/master: '' }} }} }}\n\
         guest: {{ name: web, {asked} }}{beside}\nexpect: {{ complete: [web] }}\nfaults:\n  \
         - {{ at: {{ time: 0s }}, what: {{ patch: {{ object: Cluster/default/dead-*, with: {told} }} }} }}\n  \
         - {{ at: {{ time: 60s }}, what: {{ patch: {{ object: TanzuKubernetesCluster/default/web, with: \
         {{ spec: {{ distribution: {{ fullVersion: null, version: v1.16.7 }} }} }} }} }} }}\n"
    );
    let scenario = Scenario::parse("silent.yaml", &text, Path::new(".")).unwrap();
    let outcome = run(&scenario, &Terms::calm(1)).unwrap();
    let violations: Vec<&str> = outcome.violations.iter().map(|one| one.sentence.as_str()).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", outcome.trace().join("\n"));
    outcome.virtual_seconds
}

#[test]
fn sixty_guests_that_do_not_answer_hold_up_no_other() {
    let (alone, beside) = (seconds_beside_silent_guests(0), seconds_beside_silent_guests(60));
    println!("alone: {alone} s, beside sixty that do not answer: {beside} s");
    assert!(beside < alone + 5.0, "alone: {alone} s, beside sixty that do not answer: {beside} s");
}

#[test]
fn crashes_make_no_machine_twice_and_no_certificate_anew() {
    do_no_harm("guest-tkc-created", 12, &[Part::Crashes]);
}

#[test]
fn crashes_leave_nothing_behind_of_a_cluster_that_is_deleted_while_it_is_made() {
    do_no_harm("guest-tkc-creation-ended", 9, &[Part::Crashes]);
}

/// `make sim` tries all of them, in all scenarios.
#[test]
fn crashes_other_faults_and_random_schedules_do_no_harm() {
    do_no_harm("guest-tkc-workers-return", 4, &[Part::Crashes, Part::Pairs, Part::Random(40)]);
}

/// The limit holds whoever dies.
#[test]
fn crashes_let_no_more_clusters_begin_than_may() {
    do_no_harm("guest-tkc-many", 63, &[Part::Crashes]);
}

fn do_no_harm(name: &str, every: usize, parts: &[Part]) {
    let scenario = Scenario { sampled: None, ..built_in(name) };
    let report = Campaign { every, ..Campaign::new(scenario, 1) }.run(parts, &|_, _| ()).unwrap();
    assert!(report.schedules > 1, "{name}: no schedule was drawn");
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

/// Nobody changes anything for half a day.
#[test]
fn an_idle_guest_is_asked_nothing_and_no_watch_of_it_is_open() {
    let mut scenario = built_in("guest-tkc");
    scenario.to.clone_from(&scenario.from);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let stage = Stage::open(&scenario, &Terms::calm(1));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = asked.clone();
        let guest = stage.guests.values().next().unwrap();
        guest.hear_requests(Box::new(move |actor, head| {
            noted.lock().unwrap().push(format!("{actor} {} {}", head.method, head.uri));
        }));
        let is_settled = |_: &_| {
            let known = stage.known();
            let tkc = known.all("TanzuKubernetesCluster").next().unwrap();
            let nodes = tkc["status"]["nodeStatus"]
                .as_object()
                .map_or(0, |all| all.values().filter(|one| *one == "ready").count());
            if tkc["status"]["phase"] == "running" && nodes == 5 { Vec::new() } else { vec!["not yet".to_owned()] }
        };
        assert!(stage.until(Duration::from_secs(600), is_settled).await);
        stage.clock.sleep(Duration::from_secs(600)).await;
        let before = asked.lock().unwrap().clone();
        assert!(!before.is_empty(), "it was asked in the beginning");
        assert!(before.iter().all(|one| !one.contains("watch=")), "{before:#?}");

        stage.clock.sleep(Duration::from_secs(12 * 3600)).await;

        let since = asked.lock().unwrap().split_off(before.len());
        assert!(since.is_empty(), "{since:#?}");
    });
}
