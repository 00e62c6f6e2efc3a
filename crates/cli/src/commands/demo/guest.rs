//! `drover demo guest`: a TanzuKubernetesCluster, or a control plane of Cluster API, from one version to the next, told line by line.

use std::collections::BTreeMap;

use drover_sim::Scenario;
use serde::Serialize;
use serde_json::Value;

use super::lines::{Course, Picture, Sight, is_text, tell};
use super::{DemoArgs, Pace};
use crate::args::Format;
use crate::output::{print, print_document};

/// The names are part of the interface: scripts read them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    scenario: String,
    /// The phase of each TanzuKubernetesCluster.
    clusters: BTreeMap<String, String>,
    /// The version and the phase of each Machine that is there in the end.
    machines: BTreeMap<String, String>,
    #[serde(flatten)]
    course: Course,
}

pub async fn play(
    args: &DemoArgs,
    scenario: &Scenario,
    pace: Pace,
    format: Option<Format>,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Some(guest) = &scenario.guest else {
        anyhow::bail!("the scenario {} has no guest cluster: give guest in it", scenario.name);
    };
    let title = match guest.new {
        true => format!("The guest cluster {} is made in {}.", guest.name, scenario.to),
        false => format!("The guest cluster {} goes from {} to {}.", guest.name, scenario.from, scenario.to),
    };
    let mut picture = Told::default();
    let course = tell((args, scenario, pace), format, stopped, &title, &mut picture).await?;
    let Told { clusters, machines, .. } = picture;
    let summary = Summary { scenario: scenario.name.clone(), clusters, machines, course };
    match format.filter(|_| !is_text(format)) {
        None => {
            let phases: Vec<String> =
                summary.clusters.iter().map(|(name, phase)| format!("{name} is {phase}")).collect();
            let (count, took) = (summary.machines.len(), summary.course.took());
            let phases = if phases.is_empty() { String::new() } else { format!("{}. ", phases.join(", ")) };
            let writes = summary.course.writes;
            print(&format!(
                "\n{phases}{count} machines, after {took} on the cluster's clock, with {writes} writes.\n"
            ))?;
        }
        Some(format) => print_document(format, &summary)?,
    }
    summary.course.judge(scenario)
}

#[derive(Debug, Default)]
struct Told {
    clusters: BTreeMap<String, String>,
    machines: BTreeMap<String, String>,
    /// What differs and what is waited for, by cluster, as it was last told.
    sentences: BTreeMap<String, Vec<String>>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Picture for Told {
    const KINDS: &'static [&'static str] = &["TanzuKubernetesCluster", "Machine"];

    fn see(&mut self, sight: &Sight) -> Vec<String> {
        match (&sight.object, sight.kind.as_str()) {
            (Some(object), "Machine") => self.machine(&sight.name, object),
            (Some(object), _) => self.cluster(&sight.name, object),
            (None, "Machine") => {
                self.machines.remove(&sight.name);
                vec![format!("Machine {}: gone", sight.name)]
            }
            (None, _) => {
                self.clusters.remove(&sight.name);
                vec![format!("{}: gone", sight.name)]
            }
        }
    }
}

impl Told {
    fn cluster(&mut self, name: &str, object: &Value) -> Vec<String> {
        let status = &object["status"];
        let mut lines = Vec::new();
        let phase = text(&status["phase"]);
        if !phase.is_empty() && self.clusters.get(name).map(String::as_str) != Some(phase) {
            self.clusters.insert(name.to_owned(), phase.to_owned());
            lines.push(format!("{name}: {phase}"));
        }
        let differs =
            status["differences"].as_array().into_iter().flatten().map(|one| format!("differs: {}", text(one)));
        let waits = status["waits"].as_array().into_iter().flatten();
        let waits = waits.map(|wait| format!("waits: {}: {}", text(&wait["reason"]), text(&wait["sentence"])));
        let now: Vec<String> = differs.chain(waits).collect();
        let before = self.sentences.insert(name.to_owned(), now.clone()).unwrap_or_default();
        lines.extend(now.into_iter().filter(|one| !before.contains(one)).map(|one| format!("{name} {one}")));
        lines
    }

    fn machine(&mut self, name: &str, object: &Value) -> Vec<String> {
        let leaves = !object["metadata"]["deletionTimestamp"].is_null();
        let phase = match text(&object["status"]["phase"]) {
            _ if leaves => "deleting",
            "" => "pending",
            phase => phase,
        };
        let state = format!("{} {phase}", text(&object["spec"]["version"]));
        if self.machines.get(name) == Some(&state) {
            return Vec::new();
        }
        self.machines.insert(name.to_owned(), state.clone());
        vec![format!("Machine {name}: {state}")]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_new_is_told_once() {
        let mut told = Told::default();
        let waits = json!([{ "reason": "ControlPlaneUpdating", "sentence": "the Job is at work" }]);
        let cluster = json!({ "status": { "phase": "updating", "differences": ["version"], "waits": waits } });
        assert_eq!(
            told.cluster("c", &cluster),
            ["c: updating", "c differs: version", "c waits: ControlPlaneUpdating: the Job is at work"]
        );
        assert_eq!(told.cluster("c", &cluster), [""; 0]);
        let machine = json!({ "spec": { "version": "1.16.7" }, "status": { "phase": "running" } });
        assert_eq!(told.machine("m", &machine), ["Machine m: 1.16.7 running"]);
        assert_eq!(told.machine("m", &machine), [""; 0]);
    }
}
