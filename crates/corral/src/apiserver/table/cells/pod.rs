//! Pods: how many of their containers are ready, and the one word for what they are doing.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, age, flag, has_condition, is_deleting, list, name, number, text, text_or};
use crate::apiserver::table::age::since;

/// The reason that the node controller gives a pod whose node it has lost.
const NODE_LOST: &str = "NodeLost";

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let progress = Progress::of(pod);
    let total = list(pod, "/spec/containers").len() + sidecars(pod).count();
    let restarts = match progress.last_restart {
        "" => progress.restarts.to_string(),
        last if progress.restarts != 0 => format!("{} ({} ago)", progress.restarts, since(last, now)),
        _ => "0".into(),
    };
    vec![
        name(pod),
        json!(format!("{}/{total}", progress.ready)),
        json!(progress.word),
        json!(restarts),
        age(pod, now),
        json!(text_or(pod, "/status/podIPs/0/ip", NONE)),
        json!(text_or(pod, "/spec/nodeName", NONE)),
        json!(text_or(pod, "/status/nominatedNodeName", NONE)),
        json!(readiness_gates(pod)),
    ]
}

/// That a pod has run to its end, for clients that hide such pods.
pub(in crate::apiserver::table) fn conditions(pod: &Value) -> Option<Value> {
    let phase = text(pod, "/status/phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": phase, "message": message }]))
}

/// What the statuses of a pod's containers come to.
struct Progress<'a> {
    word: String,
    ready: usize,
    restarts: i64,
    /// When a container that was restarted had ended; empty if that is not known.
    last_restart: &'a str,
}

impl<'a> Progress<'a> {
    fn of(pod: &'a Value) -> Self {
        let mut progress =
            Progress { word: text(pod, "/status/phase").into(), ready: 0, restarts: 0, last_restart: "" };
        if let reason @ [_, ..] = text(pod, "/status/reason").as_bytes() {
            progress.word = String::from_utf8_lossy(reason).into_owned();
        }
        let gated =
            |condition: &&Value| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated";
        if list(pod, "/status/conditions").iter().any(|condition| gated(&condition)) {
            progress.word = "SchedulingGated".into();
        }
        let initializing = progress.count_init_containers(pod);
        if !initializing || has_condition(pod, "Initialized") {
            progress.count_containers(pod);
        }
        if is_deleting(pod) {
            if text(pod, "/status/reason") == NODE_LOST {
                progress.word = "Unknown".into();
            } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                progress.word = "Terminating".into();
            }
        }
        progress
    }

    /// Looks at the init containers up to the first that is not done. True if there is one.
    fn count_init_containers(&mut self, pod: &'a Value) -> bool {
        for (place, container) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.count_restarts(container);
            let terminated = container.pointer("/state/terminated");
            if terminated.is_some_and(|state| number(state, "/exitCode") == 0) {
                continue;
            }
            if is_sidecar(pod, container) && flag(container, "/started") {
                self.ready += usize::from(flag(container, "/ready"));
                continue;
            }
            let waiting = text(container, "/state/waiting/reason");
            self.word = match terminated {
                Some(state) => format!("Init:{}", end(state)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{place}/{}", list(pod, "/spec/initContainers").len()),
            };
            return true;
        }
        false
    }

    fn count_containers(&mut self, pod: &'a Value) {
        // Once they have done their part, only init containers that keep running count.
        (self.restarts, self.last_restart) = (0, "");
        for container in list(pod, "/status/initContainerStatuses").iter().filter(|one| is_sidecar(pod, one)) {
            self.count_restarts(container);
        }
        let mut runs = false;
        for container in list(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(container);
            let waiting = text(container, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.word = waiting.into();
            } else if let Some(state) = container.pointer("/state/terminated") {
                self.word = end(state);
            } else if flag(container, "/ready") && container.pointer("/state/running").is_some() {
                runs = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" && runs {
            self.word = if has_condition(pod, "Ready") { "Running" } else { "NotReady" }.into();
        }
    }

    fn count_restarts(&mut self, container: &'a Value) {
        self.restarts += number(container, "/restartCount");
        // Moments in UTC have the order of their letters.
        self.last_restart = self.last_restart.max(text(container, "/lastState/terminated/finishedAt"));
    }
}

/// Why a container ended.
fn end(state: &Value) -> String {
    match (text(state, "/reason"), number(state, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

/// The init containers that run as long as the pod does.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/initContainers").iter().filter(|container| container["restartPolicy"] == "Always")
}

fn is_sidecar(pod: &Value, status: &Value) -> bool {
    sidecars(pod).any(|container| container["name"] == status["name"])
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.into();
    }
    let open = gates.iter().filter(|gate| has_condition(pod, text(gate, "/conditionType"))).count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(spec: Value, status: Value) -> [String; 3] {
        let pod = json!({ "metadata": { "name": "a" }, "spec": spec, "status": status });
        let cells = cells(&pod, "2026-01-01T12:00:00Z".parse().unwrap());
        [1, 2, 3].map(|place| cells[place].as_str().unwrap().to_string())
    }

    fn one(state: Value) -> Value {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "a", "ready": true, "restartCount": 0, "state": state }] })
    }

    #[test]
    fn the_word_is_what_a_container_waits_for_or_ended_with() {
        let spec = json!({ "containers": [{ "name": "a" }] });
        assert_eq!(shown(spec.clone(), one(json!({ "running": {} }))), ["1/1", "Running", "0"]);
        let waiting = one(json!({ "waiting": { "reason": "CrashLoopBackOff" } }));
        assert_eq!(shown(spec.clone(), waiting), ["0/1", "CrashLoopBackOff", "0"]);
        assert_eq!(shown(spec.clone(), one(json!({ "terminated": { "exitCode": 3 } })))[1], "ExitCode:3");
        assert_eq!(shown(spec, one(json!({ "terminated": { "signal": 9, "exitCode": 137 } })))[1], "Signal:9");
    }

    #[test]
    fn restarts_tell_when_the_last_one_was() {
        let status = json!({ "phase": "Running", "containerStatuses": [{
            "name": "a", "ready": true, "restartCount": 4, "state": { "running": {} },
            "lastState": { "terminated": { "exitCode": 1, "finishedAt": "2026-01-01T11:50:00Z" } },
        }] });
        assert_eq!(shown(json!({ "containers": [{}] }), status)[2], "4 (10m ago)");
    }

    #[test]
    fn a_pod_that_initializes_says_how_far_it_is_and_sidecars_count_as_containers() {
        let spec = json!({ "containers": [{}], "initContainers": [{ "name": "x", "restartPolicy": "Always" }, { "name": "y" }] });
        let status = json!({ "phase": "Pending", "initContainerStatuses": [
            { "name": "x", "started": true, "ready": true, "state": { "running": {} } },
            { "name": "y", "state": { "waiting": { "reason": "PodInitializing" } } },
        ] });
        assert_eq!(shown(spec, status), ["1/2", "Init:1/2", "0"]);
    }
}
