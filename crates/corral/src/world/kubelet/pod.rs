//! The life of a pod on its machine: init containers one after another, then all others, until they end.

use std::time::Duration;

use drover_api::plan::labels;
use drover_clock::later;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, HostIP, Pod, PodIP, PodSpec, PodStatus};

use super::containers::{self, Course, Progress, Turn};
use super::{KubeletOptions, Machine, digest};
use crate::world::annotations::{self, DURATION, EXIT_CODE, Lasts, Script};
use crate::world::outcome::{Action, Outcome, sooner, stamp};
use crate::world::pods;

/// A pod with a container of this name and a version label upgrades its machine to that version, as those of Plans do.
const UPGRADE_CONTAINER: &str = "upgrade";

/// A stopping pod takes no longer than this, however much time it was given.
const LONGEST_STOP: Duration = Duration::from_secs(1);

/// What the kubelet does about a pod that is bound to its machine.
pub fn run(pod: &Pod, machine: &Machine, options: &KubeletOptions, now: Timestamp) -> Outcome {
    if let Some(back) = machine.away_until(now) {
        return Outcome::wait_until(back);
    }
    if pods::is_leaving(pod) {
        return stop(pod, now);
    }
    let Some(spec) = pod.spec.as_ref().filter(|_| !pods::has_ended(pod)) else { return Outcome::nothing() };
    let status = pod.status.clone().unwrap_or_default();
    let mut life = Life { pod, spec, machine, options, now, status, deeds: Vec::new(), logs: Vec::new() };
    let wake = life.go_on();
    life.into_outcome(wake)
}

/// Stops the containers and lets the pod go. One that something else still holds stays, ended.
fn stop(pod: &Pod, now: Timestamp) -> Outcome {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let Some(deadline) = &pod.metadata.deletion_timestamp else { return Outcome::nothing() };
    let told = deadline.0.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(deadline.0);
    let stopped = later(told, LONGEST_STOP.min(Duration::from_secs(u64::try_from(grace).unwrap_or(0))));
    if now < stopped {
        return Outcome::wait_until(stopped);
    }
    let mut actions = Vec::new();
    if !pods::has_ended(pod) {
        let mut status = pod.status.clone().unwrap_or_default();
        for container in
            [&mut status.init_container_statuses, &mut status.container_statuses].into_iter().flatten().flatten()
        {
            containers::stop(container, now);
        }
        status.phase = Some(pods::FAILED.into());
        if let Some(spec) = &pod.spec {
            refresh_conditions(&mut status, spec, now);
        }
        actions.push(Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() })));
    }
    if grace > 0 {
        actions.push(Action::RemovePod {
            namespace: pods::namespace(&pod.metadata).into(),
            name: pods::name(&pod.metadata).into(),
            uid: pods::uid(&pod.metadata).into(),
        });
    }
    Outcome::act(actions)
}

struct Life<'a> {
    pod: &'a Pod,
    spec: &'a PodSpec,
    machine: &'a Machine,
    options: &'a KubeletOptions,
    now: Timestamp,
    status: PodStatus,
    /// What the containers did to the cluster.
    deeds: Vec<Action>,
    logs: Vec<Action>,
}

impl Life<'_> {
    /// Takes the pod as far as it gets at this moment; says when something happens next.
    fn go_on(&mut self) -> Option<Timestamp> {
        let Some(admitted) = self.status.start_time.clone() else {
            self.admit();
            return Some(later(stamp(self.now).0, self.options.pod_start));
        };
        self.lose_to_reboot();
        let from = later(admitted.0, self.options.pod_start);

        let mut statuses =
            known(self.status.init_container_statuses.take(), self.spec.init_containers.iter().flatten());
        let mut stage = Progress::Succeeded;
        for (container, status) in self.spec.init_containers.iter().flatten().zip(&mut statuses) {
            stage = self.step(container, status, self.script(container, self.options.init_duration), from);
            if stage != Progress::Succeeded {
                break;
            }
        }
        self.status.init_container_statuses = Some(statuses).filter(|all| !all.is_empty());

        if stage == Progress::Succeeded {
            stage = self.step_all(from);
        }
        match stage {
            Progress::Succeeded => self.end(pods::SUCCEEDED),
            Progress::Failed => self.end(pods::FAILED),
            Progress::GoesOn(wake) => {
                refresh_conditions(&mut self.status, self.spec, self.now);
                return wake;
            }
        }
        None
    }

    /// The containers proper start together; the pod has ended when all have.
    fn step_all(&mut self, from: Timestamp) -> Progress {
        let mut statuses = known(self.status.container_statuses.take(), self.spec.containers.iter());
        let (mut failed, mut goes_on, mut wake) = (false, false, None);
        for (container, status) in self.spec.containers.iter().zip(&mut statuses) {
            let script = match self.restart_policy() {
                "Always" => Script { lasts: Lasts::Forever, exit_code: 0 },
                _ => self.script(container, self.options.job_duration),
            };
            match self.step(container, status, script, from) {
                Progress::Succeeded => {}
                Progress::Failed => failed = true,
                Progress::GoesOn(next) => {
                    goes_on = true;
                    wake = sooner(wake, next);
                }
            }
            if status.started == Some(true) {
                self.status.phase = Some(pods::RUNNING.into());
            }
        }
        self.status.container_statuses = Some(statuses);
        match (goes_on, failed) {
            (true, _) => Progress::GoesOn(wake),
            (false, true) => Progress::Failed,
            (false, false) => Progress::Succeeded,
        }
    }

    fn step(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        script: Script,
        from: Timestamp,
    ) -> Progress {
        let restarts = self.restart_policy() != "Never";
        let mut turns = Vec::new();
        let progress = Course { pod: self.pod, script, restarts, from, now: self.now }.step(status, &mut turns);
        for turn in turns {
            self.tell(container, turn);
        }
        progress
    }

    fn admit(&mut self) {
        let has_init = self.spec.init_containers.as_ref().is_some_and(|all| !all.is_empty());
        let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
        let waiting = |container: &Container| containers::waiting(container, reason);
        self.status.start_time = Some(stamp(self.now));
        self.status.phase = Some(pods::PENDING.into());
        self.status.host_ip = Some(self.machine.address.clone());
        self.status.host_ips = Some(vec![HostIP { ip: self.machine.address.clone() }]);
        let ip = self.address();
        self.status.pod_ips = Some(vec![PodIP { ip: ip.clone() }]);
        self.status.pod_ip = Some(ip);
        self.status.init_container_statuses =
            self.spec.init_containers.as_ref().map(|all| all.iter().map(waiting).collect());
        self.status.container_statuses = Some(self.spec.containers.iter().map(waiting).collect());
        refresh_conditions(&mut self.status, self.spec, self.now);
    }

    fn address(&self) -> String {
        if self.spec.host_network == Some(true) {
            return self.machine.address.clone();
        }
        let [a, b, c, ..] = digest(&[pods::uid(&self.pod.metadata), "address"]);
        format!("100.{}.{b}.{c}", 64 + a % 64)
    }

    fn lose_to_reboot(&mut self) {
        let Some(booted) = self.machine.booted(self.now) else { return };
        let restarts = self.restart_policy() != "Never";
        let all = [&mut self.status.init_container_statuses, &mut self.status.container_statuses];
        for status in all.into_iter().flatten().flatten() {
            containers::lose_to_reboot(status, booted, restarts, self.now);
        }
    }

    fn end(&mut self, phase: &str) {
        self.status.phase = Some(phase.into());
        refresh_conditions(&mut self.status, self.spec, self.now);
    }

    fn restart_policy(&self) -> &str {
        self.spec.restart_policy.as_deref().unwrap_or("Always")
    }

    /// The machine's annotations win over the pod's, and both over the options.
    fn script(&self, container: &Container, default: Duration) -> Script {
        let said = self.pod.metadata.annotations.as_ref();
        let own = (
            annotations::lasts(said, DURATION, &container.name),
            annotations::exit_code(said, EXIT_CODE, &container.name),
        );
        let is_init = self.spec.init_containers.iter().flatten().any(|init| init.name == container.name);
        let machine = if is_init { (None, None) } else { (self.machine.lasts, self.machine.exit_code) };
        Script {
            lasts: machine.0.or(own.0).unwrap_or(Lasts::For(default)),
            exit_code: machine.1.or(own.1).unwrap_or(0),
        }
    }

    fn tell(&mut self, container: &Container, turn: Turn) {
        let line = match turn {
            Turn::Started => format!("{} started on {}", container.name, self.machine.name),
            Turn::Ended(0) => match cordoned(container) {
                Some(node) => {
                    self.deeds.push(Action::Cordon { node: node.into() });
                    format!("node/{node} cordoned")
                }
                None => format!("{} finished", container.name),
            },
            Turn::Ended(code) => format!("{} failed with exit code {code}", container.name),
        };
        self.logs.push(Action::Log {
            namespace: pods::namespace(&self.pod.metadata).into(),
            pod: pods::name(&self.pod.metadata).into(),
            lines: vec![line],
        });
    }

    /// The machine changes once the pod has succeeded, since a reboot would otherwise cut off its own report.
    fn into_outcome(self, wake: Option<Timestamp>) -> Outcome {
        if self.pod.status.as_ref() == Some(&self.status) {
            return Outcome { actions: Vec::new(), wake };
        }
        let succeeded = self.status.phase.as_deref() == Some(pods::SUCCEEDED);
        let mut actions = self.deeds;
        actions.push(Action::PodStatus(Box::new(Pod { status: Some(self.status), ..self.pod.clone() })));
        actions.extend(self.logs);
        if let Some(version) = upgrades_to(self.pod).filter(|_| succeeded) {
            let reboot = annotations::reboot(self.pod.metadata.annotations.as_ref());
            let reboot = self.machine.reboot.or(reboot).or(self.options.reboot);
            actions.push(Action::MachineUpgraded {
                node: self.machine.name.clone(),
                version: version.into(),
                down_until: reboot.map(|time| later(stamp(self.now).0, time)),
            });
        }
        Outcome { actions, wake }
    }
}

fn upgrades_to(pod: &Pod) -> Option<&str> {
    let has_upgrade = pod.spec.as_ref()?.containers.iter().any(|container| container.name == UPGRADE_CONTAINER);
    let version = pod.metadata.labels.as_ref()?.get(labels::VERSION)?;
    has_upgrade.then_some(version.as_str())
}

/// The node that a container running `kubectl cordon NODE` cordons.
fn cordoned(container: &Container) -> Option<&str> {
    match container.args.as_deref() {
        Some([verb, node]) if container.name == "cordon" && verb == "cordon" => Some(node),
        _ => None,
    }
}

/// The status of every container, in the order of the spec. A pod that came from elsewhere may lack some.
fn known<'a>(
    statuses: Option<Vec<ContainerStatus>>,
    containers: impl Iterator<Item = &'a Container>,
) -> Vec<ContainerStatus> {
    let statuses = statuses.unwrap_or_default();
    let of = |container: &Container| statuses.iter().find(|status| status.name == container.name).cloned();
    containers
        .map(|container| of(container).unwrap_or_else(|| containers::waiting(container, "ContainerCreating")))
        .collect()
}

/// The conditions follow from phase and containers, in the order in which a kubelet writes them.
fn refresh_conditions(status: &mut PodStatus, spec: &PodSpec, now: Timestamp) {
    let phase = status.phase.clone().unwrap_or_default();
    let ended = match phase.as_str() {
        pods::SUCCEEDED => Some("PodCompleted"),
        pods::FAILED => Some("PodFailed"),
        _ => None,
    };
    let incomplete = names(status.init_container_statuses.as_ref(), |container| {
        container.state.as_ref().and_then(|state| state.terminated.as_ref()).is_none_or(|ended| ended.exit_code != 0)
    });
    let unready = names(status.container_statuses.as_ref(), |container| !container.ready);
    let running = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten()
        .any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()));

    let mut conditions = status.conditions.take().unwrap_or_default();
    let mut set = |kind: &str, value: bool, reason: Option<&str>, message: Option<String>| {
        pods::set_condition(&mut conditions, kind, value, reason, message, now);
    };
    set("PodReadyToStartContainers", running, None, None);
    match (incomplete.is_empty() || spec.init_containers.is_none(), ended) {
        (true, Some("PodCompleted")) => set("Initialized", true, Some("PodCompleted"), None),
        (true, _) => set("Initialized", true, None, None),
        (false, _) => {
            let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
            set("Initialized", false, Some("ContainersNotInitialized"), Some(message));
        }
    }
    for kind in [pods::READY, "ContainersReady"] {
        match ended {
            Some(reason) => set(kind, false, Some(reason), None),
            None if unready.is_empty() => set(kind, true, None, None),
            None => {
                let message = format!("containers with unready status: [{}]", unready.join(" "));
                set(kind, false, Some("ContainersNotReady"), Some(message));
            }
        }
    }
    set(pods::POD_SCHEDULED, true, None, None);
    status.conditions = Some(conditions);
}

fn names(statuses: Option<&Vec<ContainerStatus>>, which: impl Fn(&ContainerStatus) -> bool) -> Vec<String> {
    statuses.into_iter().flatten().filter(|status| which(status)).map(|status| status.name.clone()).collect()
}
