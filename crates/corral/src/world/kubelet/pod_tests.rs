use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::upgrade::Upgraded;
use super::{KubeletOptions, Machine, pod};
use crate::world::annotations::{DOWN_UNTIL, KUBELET, SIMULATED};
use crate::world::outcome::{Action, Outcome, stamp};
use crate::world::pods;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_268_800 + seconds).unwrap()
}

fn machine(annotations: Value) -> Machine {
    let mut node: Node = serde_json::from_value(json!({"metadata": {"name": "n1", "uid": "u1"}})).unwrap();
    let mut all: std::collections::BTreeMap<String, String> = serde_json::from_value(annotations).unwrap();
    all.insert(KUBELET.into(), SIMULATED.into());
    node.metadata.annotations = Some(all);
    Machine::of(&node).unwrap()
}

fn upgrade_pod(annotations: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "apply-x", "namespace": "system-upgrade", "uid": "p1", "annotations": annotations,
            "labels": {"upgrade.cattle.io/version": "v1.34.4"},
        },
        "spec": {
            "nodeName": "n1", "restartPolicy": "Never",
            "initContainers": [{"name": "cordon", "args": ["cordon", "n1"]}],
            "containers": [{"name": "upgrade", "image": "rancher/k3s-upgrade:v1.34.4"}],
        },
    }))
    .unwrap()
}

/// A pod with the kubelet that runs it, second after second.
struct Run {
    pod: Pod,
    machine: Machine,
    options: KubeletOptions,
    actions: Vec<Action>,
}

impl Run {
    fn of(pod: Pod, machine: Machine) -> Run {
        Run { pod, machine, options: KubeletOptions::default(), actions: Vec::new() }
    }

    fn look(&mut self, now: Timestamp) -> Outcome {
        let outcome = pod::run(&self.pod, &self.machine, &self.options, now);
        for action in &outcome.actions {
            if let Action::PodStatus(pod) = action {
                self.pod = (**pod).clone();
            }
        }
        self.actions.extend(outcome.actions.iter().filter(|act| !matches!(act, Action::PodStatus(_))).cloned());
        outcome
    }

    /// Looks whenever the kubelet asked to, and notes every phase with the second it began in.
    fn until_the_end(mut self) -> (Self, Vec<(i64, String)>) {
        let mut story = Vec::new();
        let mut now = Some(at(0));
        while let Some(moment) = now {
            now = self.look(moment).wake;
            let phase = pods::phase(&self.pod).to_string();
            if story.last().is_none_or(|(_, last)| *last != phase) {
                story.push((moment.as_second() - at(0).as_second(), phase));
            }
        }
        (self, story)
    }

    fn logs(&self) -> Vec<String> {
        self.actions
            .iter()
            .filter_map(|act| if let Action::Log { lines, .. } = act { Some(lines.join("\n")) } else { None })
            .collect()
    }

    fn deeds(&self) -> Vec<&Action> {
        self.actions.iter().filter(|act| !matches!(act, Action::Log { .. } | Action::Note(_))).collect()
    }

    fn events(&self) -> Vec<&str> {
        self.actions
            .iter()
            .filter_map(|act| if let Action::Note(note) = act { Some(note.reason()) } else { None })
            .collect()
    }

    /// Why its first container waits.
    fn waits_for(&self) -> Option<String> {
        let status = self.pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
        status.state.as_ref()?.waiting.as_ref()?.reason.clone()
    }
}

fn machine_upgraded(version: &str, down_until: Option<Timestamp>) -> Action {
    let upgraded = Upgraded { kubelet_version: Some(version.into()), os_image: None, loads_images: false, down_until };
    Action::MachineUpgraded { node: "n1".into(), upgraded }
}

/// A pod that runs for ever.
fn service(annotations: Value) -> Pod {
    let mut pod = upgrade_pod(annotations);
    pod.metadata.labels = None;
    let spec = pod.spec.as_mut().unwrap();
    (spec.restart_policy, spec.init_containers) = (None, None);
    pod
}

fn story(phases: &[(i64, &str)]) -> Vec<(i64, String)> {
    phases.iter().map(|(second, phase)| (*second, phase.to_string())).collect()
}

#[test]
fn an_upgrade_pod_cordons_runs_and_leaves_its_machine_upgraded() {
    let (run, phases) = Run::of(upgrade_pod(json!({})), machine(json!({}))).until_the_end();

    assert_eq!(phases, story(&[(0, "Pending"), (3, "Running"), (13, "Succeeded")]));
    assert_eq!(run.deeds(), [&Action::Cordon { node: "n1".into() }, &machine_upgraded("v1.34.4", None),]);
    assert_eq!(run.logs(), ["cordon started on n1", "node/n1 cordoned", "upgrade started on n1", "upgrade finished",]);
}

#[test]
fn conditions_follow_the_containers() {
    let mut run = Run::of(upgrade_pod(json!({})), machine(json!({})));
    let conditions = |pod: &Pod| -> Vec<String> {
        let all = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
        all.iter()
            .map(|one| format!("{}={} {}", one.type_, one.status, one.reason.clone().unwrap_or_default()))
            .collect()
    };

    run.look(at(0));
    assert_eq!(
        conditions(&run.pod),
        [
            "PodReadyToStartContainers=False ",
            "Initialized=False ContainersNotInitialized",
            "Ready=False ContainersNotReady",
            "ContainersReady=False ContainersNotReady",
            "PodScheduled=True ",
        ]
    );
    run.look(at(2));
    run.look(at(3));
    assert!(pods::is_ready(&run.pod));
    run.look(at(13));
    assert_eq!(
        conditions(&run.pod)[1..4],
        ["Initialized=True PodCompleted", "Ready=False PodCompleted", "ContainersReady=False PodCompleted"]
    );
}

#[test]
fn annotations_of_the_pod_say_how_long_it_runs_and_how_it_ends() {
    let pod = upgrade_pod(json!({"corral.drover.dev/duration": "30s", "corral.drover.dev/exit-code.upgrade": "3"}));
    let (run, phases) = Run::of(pod, machine(json!({}))).until_the_end();

    assert_eq!(phases, story(&[(0, "Pending"), (32, "Running"), (62, "Failed")]));
    assert_eq!(run.logs().last().unwrap(), "upgrade failed with exit code 3");
    assert_eq!(run.deeds(), [&Action::Cordon { node: "n1".into() }], "a failed upgrade changes no version");
}

#[test]
fn annotations_of_the_machine_win() {
    let pod = upgrade_pod(json!({"corral.drover.dev/duration.upgrade": "30s"}));
    let faulty = machine(json!({"corral.drover.dev/job-duration": "5s", "corral.drover.dev/job-exit-code": "1"}));

    let (_, phases) = Run::of(pod, faulty).until_the_end();

    assert_eq!(phases, story(&[(0, "Pending"), (3, "Running"), (8, "Failed")]));
}

#[test]
fn a_failed_init_container_fails_the_pod_before_its_containers_start() {
    let pod = upgrade_pod(json!({"corral.drover.dev/exit-code.cordon": "1"}));
    let (run, phases) = Run::of(pod, machine(json!({}))).until_the_end();

    assert_eq!(phases, story(&[(0, "Pending"), (3, "Failed")]));
    assert_eq!(run.deeds(), [] as [&Action; 0]);
}

#[test]
fn a_container_that_hangs_never_wakes_its_kubelet() {
    let pod = upgrade_pod(json!({"corral.drover.dev/duration.upgrade": "never"}));
    let (run, _) = Run::of(pod, machine(json!({}))).until_the_end();

    assert_eq!(pods::phase(&run.pod), pods::RUNNING);
}

#[test]
fn a_pod_that_restarts_in_place_backs_off_longer_each_time() {
    let mut pod = upgrade_pod(json!({"corral.drover.dev/exit-code.upgrade": "1"}));
    pod.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
    let mut run = Run::of(pod, machine(json!({})));

    let mut starts = Vec::new();
    let mut now = at(0);
    while starts.len() < 4 {
        let logged = run.logs().len();
        let next = run.look(now).wake.unwrap();
        if run.logs()[logged..].iter().any(|line| line.starts_with("upgrade") && line.ends_with("started on n1")) {
            starts.push(now.as_second() - at(0).as_second());
        }
        now = next;
    }
    assert_eq!(starts, [3, 13, 33, 63], "runs of 10 s, with pauses of 0, 10 and 20 s");
}

#[test]
fn a_successful_upgrade_reboots_its_machine_where_that_is_asked_for() {
    let pod = upgrade_pod(json!({"corral.drover.dev/reboot": "20s"}));
    let (run, _) = Run::of(pod, machine(json!({}))).until_the_end();

    assert_eq!(run.deeds().last(), Some(&&machine_upgraded("v1.34.4", Some(at(33)))));
}

#[test]
fn nothing_moves_on_a_machine_that_is_away() {
    let away = machine(json!({DOWN_UNTIL: at(60).to_string()}));

    assert_eq!(Run::of(upgrade_pod(json!({})), away).look(at(10)), Outcome::wait_until(at(60)));
}

#[test]
fn a_reboot_fails_a_pod_that_never_restarts() {
    let mut run = Run::of(upgrade_pod(json!({})), machine(json!({})));
    for second in [0, 2, 3] {
        run.look(at(second));
    }
    run.machine = machine(json!({DOWN_UNTIL: at(30).to_string()}));
    run.look(at(30));

    assert_eq!(pods::phase(&run.pod), pods::FAILED);
}

#[test]
fn a_reboot_restarts_a_pod_that_runs_for_ever() {
    let mut pod = upgrade_pod(json!({}));
    let spec = pod.spec.as_mut().unwrap();
    (spec.restart_policy, spec.init_containers) = (None, None);
    let mut run = Run::of(pod, machine(json!({})));
    run.look(at(0));
    assert_eq!(run.look(at(2)).wake, None);

    run.machine = machine(json!({DOWN_UNTIL: at(30).to_string()}));
    run.look(at(30));

    assert!(pods::is_ready(&run.pod));
    assert_eq!(run.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count, 1);
    assert_eq!(run.look(at(31)), Outcome::nothing(), "once is enough");
}

#[test]
fn a_deleted_pod_is_stopped_within_a_second_and_removed() {
    let mut run = Run::of(upgrade_pod(json!({})), machine(json!({})));
    for second in [0, 2, 3] {
        run.look(at(second));
    }
    run.pod.metadata.deletion_timestamp = Some(stamp(at(35)));
    run.pod.metadata.deletion_grace_period_seconds = Some(30);

    assert_eq!(run.look(at(5)), Outcome::wait_until(at(6)));
    run.look(at(6));

    assert_eq!(pods::phase(&run.pod), pods::FAILED);
    let removed = Action::RemovePod { namespace: "system-upgrade".into(), name: "apply-x".into(), uid: "p1".into() };
    assert_eq!(run.deeds().last(), Some(&&removed));
}

#[test]
fn the_kubelets_default_is_what_the_options_say() {
    let mut run = Run::of(upgrade_pod(json!({})), machine(json!({})));
    run.options.pod_start = Duration::ZERO;
    run.options.init_duration = Duration::ZERO;
    run.options.job_duration = Duration::from_secs(60);

    let (_, phases) = run.until_the_end();

    assert_eq!(phases, story(&[(0, "Pending"), (0, "Running"), (60, "Succeeded")]));
}

#[test]
fn a_pod_may_take_its_time_to_become_ready() {
    let mut run = Run::of(service(json!({"corral.drover.dev/ready-after": "5s"})), machine(json!({})));
    run.look(at(0));
    assert_eq!(run.look(at(2)).wake, Some(at(7)));
    assert!(!pods::is_ready(&run.pod) && pods::phase(&run.pod) == pods::RUNNING);

    run.look(at(7));
    assert!(pods::is_ready(&run.pod));
}

#[test]
fn a_service_that_crashes_is_started_again_and_backs_off() {
    let pod = service(json!({"corral.drover.dev/duration": "1s", "corral.drover.dev/exit-code": "2"}));
    let mut run = Run::of(pod, machine(json!({})));
    for second in [0, 2, 3, 4] {
        run.look(at(second));
    }

    assert_eq!(run.waits_for().as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(run.events(), ["BackOff"]);
    assert_eq!(pods::phase(&run.pod), pods::RUNNING);
}

#[test]
fn an_image_that_cannot_be_pulled_is_tried_again_until_it_is_there() {
    let lacking = machine(json!({"corral.drover.dev/missing-images": "rancher/k3s-upgrade:v1.34.4"}));
    let mut run = Run::of(service(json!({})), lacking);
    run.look(at(0));
    assert_eq!(run.look(at(2)).wake, Some(at(4)));
    assert_eq!(run.waits_for().as_deref(), Some("ErrImagePull"));
    assert_eq!(run.look(at(4)).wake, Some(at(12)));
    assert_eq!(run.waits_for().as_deref(), Some("ImagePullBackOff"));
    assert_eq!(run.look(at(12)).wake, Some(at(14)));
    assert_eq!(run.waits_for().as_deref(), Some("ErrImagePull"));
    assert_eq!(run.look(at(14)).wake, Some(at(32)), "twice as long");
    assert_eq!(run.events(), ["Failed", "BackOff", "Failed", "BackOff"]);

    run.machine = machine(json!({}));
    assert_eq!(run.look(at(20)).wake, Some(at(32)));
    run.look(at(32));
    assert!(pods::is_ready(&run.pod));
}

#[test]
fn a_pod_has_its_hooks_and_its_time_before_it_is_killed() {
    let ends = |annotations: Value, grace: i64| {
        let mut run = Run::of(service(annotations), machine(json!({})));
        run.look(at(0));
        run.look(at(2));
        run.pod.metadata.deletion_timestamp = Some(stamp(at(10 + grace)));
        run.pod.metadata.deletion_grace_period_seconds = Some(grace);
        let end = run.look(at(10)).wake.unwrap();
        run.look(end);
        let status = &run.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
        let code = status.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code;
        (end.as_second() - at(10).as_second(), code)
    };

    assert_eq!(ends(json!({}), 30), (1, 143));
    assert_eq!(
        ends(json!({"corral.drover.dev/pre-stop": "5s", "corral.drover.dev/stop-duration": "10s"}), 30),
        (15, 143)
    );
    assert_eq!(ends(json!({"corral.drover.dev/stop-duration": "never"}), 30), (30, 137));
    assert_eq!(ends(json!({"corral.drover.dev/stop-duration": "1m"}), 20), (20, 137));
}

#[test]
fn a_pod_that_says_which_version_and_system_it_leaves_needs_no_plan() {
    let mut pod = upgrade_pod(json!({
        "corral.drover.dev/kubelet-version": "v1.34.4+rke2r1", "corral.drover.dev/os-image": "Simulated Linux 2",
    }));
    pod.metadata.labels = None;
    let (run, _) = Run::of(pod, machine(json!({}))).until_the_end();

    let upgraded = Upgraded {
        kubelet_version: Some("v1.34.4+rke2r1".into()),
        os_image: Some("Simulated Linux 2".into()),
        loads_images: false,
        down_until: None,
    };
    assert_eq!(run.deeds().last(), Some(&&Action::MachineUpgraded { node: "n1".into(), upgraded }));
}
