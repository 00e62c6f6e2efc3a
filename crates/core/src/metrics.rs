//! What is known of upgrades, as Prometheus reads it.

use std::fmt::Write as _;

use crate::forecast::Verdict;
use crate::status::Overview;
use crate::why::Explanation;

/// The text format of Prometheus, version 0.0.4.
pub fn text(overview: &Overview, explanations: &[Explanation]) -> String {
    let mut page = Page::default();
    page.family("drover_nodes", "Nodes, by state.");
    let nodes = &overview.nodes;
    for (state, count) in [("all", nodes.all), ("ready", nodes.ready), ("cordoned", nodes.cordoned)] {
        page.sample("drover_nodes", &[("state", state)], count);
    }
    page.family("drover_plan_nodes", "Nodes of a Plan, by how far they are.");
    for plan in &overview.plans {
        let counts = &plan.counts;
        for (state, count) in [
            ("selected", counts.selected),
            ("updated", counts.updated),
            ("applying", counts.applying),
            ("waiting", counts.waiting),
            ("failed", counts.failed),
        ] {
            let labels = [("namespace", plan.object.namespace.as_str()), ("plan", &plan.object.name), ("state", state)];
            page.sample("drover_plan_nodes", &labels, count);
        }
    }
    page.family("drover_plan_complete", "1 if all nodes of a Plan are updated.");
    for plan in &overview.plans {
        let labels = [("namespace", plan.object.namespace.as_str()), ("plan", &plan.object.name)];
        page.sample("drover_plan_complete", &labels, u8::from(plan.complete));
    }
    page.family("drover_plan_done_timestamp_seconds", "When a Plan may be done, by estimate.");
    for plan in &overview.plans {
        if let Some(estimate) = &plan.estimate {
            let labels = [("namespace", plan.object.namespace.as_str()), ("plan", &plan.object.name)];
            page.sample("drover_plan_done_timestamp_seconds", &labels, estimate.done_at.as_second());
        }
    }
    waits(&mut page, explanations);
    page.family(
        "drover_node_drains",
        "1 for what is forecast of a node's drain, for those that cannot be drained now.",
    );
    for forecast in &overview.drains {
        let verdict = if forecast.drains == Verdict::Never { "never" } else { "later" };
        page.sample("drover_node_drains", &[("node", &forecast.node), ("verdict", verdict)], 1);
    }
    page.family("drover_unseen", "How much could not be looked at.");
    page.sample("drover_unseen", &[], overview.unseen.len());
    page.family("drover_looked_at_timestamp_seconds", "When the cluster was last looked at.");
    page.sample("drover_looked_at_timestamp_seconds", &[], overview.looked_at.as_second());
    page.0
}

fn waits(page: &mut Page, explanations: &[Explanation]) {
    page.family(
        "drover_wait_since_timestamp_seconds",
        "What is being waited for, and since when; 0 if that is not known.",
    );
    for explanation in explanations {
        let asked = explanation.object.to_string();
        for cause in &explanation.causes {
            let alarm = if cause.alarm { "true" } else { "false" };
            let reason = cause.reason.map(|reason| reason.to_string()).unwrap_or_default();
            let cause_object = cause.object.to_string();
            let labels = [("object", asked.as_str()), ("cause", &cause_object), ("reason", &reason), ("alarm", alarm)];
            let since = cause.since.map_or(0, |since| since.as_second());
            page.sample("drover_wait_since_timestamp_seconds", &labels, since);
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, help: &str) {
        // Writing to a text cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::status::overview;
    use crate::why::explain_all;

    #[test]
    fn a_node_that_is_down_is_counted_and_named() {
        let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
        let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"conditions":[
            {"type":"Ready","status":"Unknown","lastTransitionTime":"2026-01-01T11:00:00Z"}]}}"#;
        cluster.take(node.as_bytes());
        let page = text(&overview(&cluster), &explain_all(&cluster));
        for line in [
            "drover_nodes{state=\"ready\"} 0",
            "drover_wait_since_timestamp_seconds{object=\"Node/n1\",cause=\"Node/n1\",reason=\"\",alarm=\"true\"} 1767265200",
            "drover_node_drains{node=\"n1\",verdict=\"later\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
