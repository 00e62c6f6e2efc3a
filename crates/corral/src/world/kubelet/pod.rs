//! The life of a pod on its machine: init containers one after another, then all others, until they end.

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, HostIP, Pod, PodIP, PodSpec, PodStatus};

use super::containers::{self, Course, Progress, Restarts, Turn};
use super::stop::stop;
use super::{KubeletOptions, Machine, digest, disk, upgrade};
use crate::world::annotations::{self, DURATION, EXIT_CODE, LOG, Lasts, READY_AFTER, Script};
use crate::world::events::Note;
use crate::world::outcome::{Action, Outcome, sooner, stamp};
use crate::world::pods;

/// What the kubelet does about a pod that is bound to its machine.
pub fn run(pod: &Pod, machine: &Machine, options: &KubeletOptions, now: Timestamp) -> Outcome {
    if let Some(back) = machine.away_until(now) {
        return Outcome { actions: Vec::new(), wake: Some(back).filter(|moment| *moment < Timestamp::MAX) };
    }
    if pods::is_leaving(pod) {
        return stop(pod, now);
    }
    let Some(spec) = pod.spec.as_ref().filter(|_| !pods::has_ended(pod)) else { return Outcome::nothing() };
    let status = pod.status.clone().unwrap_or_default();
    if machine.disk_pressure && status.start_time.is_none() && !disk::is_critical(spec) {
        return Outcome::act(disk::turn_away(pod, now));
    }
    let mut life = Life { pod, spec, machine, options, now, status, deeds: Vec::new(), told: Vec::new() };
    let wake = life.go_on();
    life.into_outcome(wake)
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
    /// What is said of it: logs and events.
    told: Vec<Action>,
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
            stage = self.step(container, status, self.script(container, self.init_duration(container)), from);
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
            let default =
                if self.restart_policy() == "Always" { Lasts::Forever } else { Lasts::For(self.options.job_duration) };
            let default = self.elsewhere(container).unwrap_or(default);
            let script = Script { ready_after: self.ready_after(container), ..self.script(container, default) };
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
        let restarts = match self.restart_policy() {
            "Never" => Restarts::Never,
            "Always" if !self.is_init(container) => Restarts::Always,
            _ => Restarts::OnFailure,
        };
        let image = container.image.as_deref().unwrap_or_default();
        let lacks_image =
            self.machine.lacks(image) || annotations::is_missing(self.pod.metadata.annotations.as_ref(), image);
        let mut turns = Vec::new();
        let course = Course { pod: self.pod, script, restarts, lacks_image, from, now: self.now };
        let progress = course.step(status, &mut turns);
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

    fn is_init(&self, container: &Container) -> bool {
        self.spec.init_containers.iter().flatten().any(|init| init.name == container.name)
    }

    fn init_duration(&self, container: &Container) -> Lasts {
        self.elsewhere(container).unwrap_or(Lasts::For(self.options.init_duration))
    }

    /// A program that runs elsewhere goes on until its exit code is known.
    fn elsewhere(&self, container: &Container) -> Option<Lasts> {
        let ended = annotations::exit_code(self.pod.metadata.annotations.as_ref(), EXIT_CODE, &container.name);
        let lasts = if ended.is_some() { Lasts::For(Duration::ZERO) } else { Lasts::Forever };
        self.options.run_elsewhere.contains(&container.name).then_some(lasts)
    }

    /// The machine's annotations win over the pod's where that does not run for ever, and both over the options.
    fn script(&self, container: &Container, default: Lasts) -> Script {
        let said = self.pod.metadata.annotations.as_ref();
        let own = (
            annotations::lasts(said, DURATION, &container.name),
            annotations::exit_code(said, EXIT_CODE, &container.name),
        );
        let of_a_job = !self.is_init(container) && self.restart_policy() != "Always";
        let machine = if of_a_job { (self.machine.lasts, self.machine.exit_code) } else { (None, None) };
        // A service that is to end with an error and does not say when does so after a while.
        let default = match (default, own.1) {
            (Lasts::Forever, Some(code)) if code != 0 => Lasts::For(self.options.job_duration),
            (default, _) => default,
        };
        Script {
            lasts: machine.0.or(own.0).unwrap_or(default),
            exit_code: machine.1.or(own.1).unwrap_or(0),
            ready_after: Lasts::For(Duration::ZERO),
        }
    }

    fn ready_after(&self, container: &Container) -> Lasts {
        let said = annotations::lasts(self.pod.metadata.annotations.as_ref(), READY_AFTER, &container.name);
        said.unwrap_or_else(|| {
            let probe = container.readiness_probe.as_ref().and_then(|probe| probe.initial_delay_seconds);
            Lasts::For(Duration::from_secs(probe.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0)))
        })
    }

    fn tell(&mut self, container: &Container, turn: Turn) {
        let line = match turn {
            Turn::Started => {
                let said = annotations::text(self.pod.metadata.annotations.as_ref(), LOG, &container.name);
                said.map_or_else(|| format!("{} started on {}", container.name, self.machine.name), Into::into)
            }
            Turn::Ended(0) => match cordoned(container) {
                Some(node) => {
                    self.deeds.push(Action::Cordon { node: node.into() });
                    format!("node/{node} cordoned")
                }
                None => format!("{} finished", container.name),
            },
            Turn::Ended(code) => format!("{} failed with exit code {code}", container.name),
            Turn::PullFailed(why) => return self.warn("Failed", why),
            Turn::BackedOff(why) => return self.warn("BackOff", why),
        };
        self.told.push(Action::Log {
            namespace: pods::namespace(&self.pod.metadata).into(),
            pod: pods::name(&self.pod.metadata).into(),
            lines: vec![line],
        });
    }

    fn warn(&mut self, reason: &'static str, sentence: String) {
        let event = Note::warning(reason, sentence).by("kubelet").on(&self.machine.name).about(self.pod);
        self.told.push(Action::Note(Box::new(event)));
    }

    /// The machine changes once the pod has succeeded, since a reboot would otherwise cut off its own report.
    fn into_outcome(self, wake: Option<Timestamp>) -> Outcome {
        if self.pod.status.as_ref() == Some(&self.status) {
            return Outcome { actions: Vec::new(), wake };
        }
        let succeeded = self.status.phase.as_deref() == Some(pods::SUCCEEDED);
        let mut actions = self.deeds;
        actions.push(Action::PodStatus(Box::new(Pod { status: Some(self.status), ..self.pod.clone() })));
        actions.extend(self.told);
        if let Some(upgraded) = upgrade::by(self.pod, self.machine, self.options, self.now).filter(|_| succeeded) {
            actions.push(Action::MachineUpgraded { node: self.machine.name.clone(), upgraded });
        }
        Outcome { actions, wake }
    }
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
pub fn refresh_conditions(status: &mut PodStatus, spec: &PodSpec, now: Timestamp) {
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
