//! `drover why`: what an upgrade waits for, since when, and what would help.

use anyhow::{Context, bail};
use clap::Args;
use drover_api::plan::conditions::{COMPLETE, PROGRESSING, TRUE};
use drover_api::plan::{NodeCounts, Plan, PlanStatus, PublishedWait};
use drover_clock::Clock;
use drover_operator::connect;
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde::Serialize;

use crate::args::{ConnectionArgs, Format, Usage};
use crate::output::{print, print_document};

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// What to explain: plan/NAMESPACE/NAME
    #[arg(value_name = "OBJECT", required_unless_present = "all")]
    object: Option<String>,
    /// Everything in the cluster that waits
    #[arg(long, conflicts_with = "object")]
    all: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// One Plan, and what it waits for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    object: String,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<NodeCounts>,
    /// How far it is, in words.
    progress: String,
    waits: Vec<PublishedWait>,
}

pub fn run(args: &WhyArgs, format: Option<Format>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&args.connection.connection()).await?;
        let explanations = match &args.object {
            Some(object) => {
                let (namespace, name) = plan_named(object)?;
                let plans: Api<Plan> = Api::namespaced(client, namespace);
                let plan = plans.get(name).await.with_context(|| format!("cannot read {object}"))?;
                vec![explain(&plan)]
            }
            None => {
                let plans: Api<Plan> = Api::all(client);
                let plans = plans.list(&Default::default()).await.context("cannot list plans.upgrade.cattle.io")?;
                let all = plans.items.iter().map(explain);
                all.filter(|explanation| !explanation.waits.is_empty() || !explanation.complete).collect()
            }
        };
        match (format.filter(|format| *format != Format::Table), args.all) {
            (Some(format), true) => print_document(format, &explanations),
            (Some(format), false) => explanations.first().map_or(Ok(()), |one| print_document(format, one)),
            (None, _) if explanations.is_empty() => print("nothing waits\n"),
            (None, _) => {
                let now = Clock::real().now();
                print(&explanations.iter().map(|one| text(one, now)).collect::<Vec<_>>().join("\n"))
            }
        }
    })
}

fn plan_named(object: &str) -> anyhow::Result<(&str, &str)> {
    match object.split('/').collect::<Vec<_>>()[..] {
        ["plan" | "plans" | "plan.upgrade.cattle.io" | "plans.upgrade.cattle.io", namespace, name]
            if !namespace.is_empty() && !name.is_empty() =>
        {
            Ok((namespace, name))
        }
        _ => bail!(Usage(format!("cannot explain {object}: give plan/NAMESPACE/NAME"))),
    }
}

fn explain(plan: &Plan) -> Explanation {
    let none = PlanStatus::default();
    let status = plan.status.as_ref().unwrap_or(&none);
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let progress = condition(PROGRESSING).map(|condition| condition.message.clone());
    let progress = progress.unwrap_or_else(|| "no operator has looked at it yet".to_owned());
    Explanation {
        object: format!("plan/{}/{}", plan.namespace().unwrap_or_default(), plan.name_any()),
        complete: condition(COMPLETE).is_some_and(|condition| condition.status == TRUE),
        counts: status.counts,
        // What it waits for stands behind; where the list is there, it is told better by the list.
        progress: match status.waits.is_empty() {
            true => progress,
            false => progress.split(';').next().unwrap_or_default().to_owned(),
        },
        waits: status.waits.clone(),
    }
}

fn text(explanation: &Explanation, now: Timestamp) -> String {
    let mut text = format!("{}: {}\n", explanation.object, explanation.progress);
    if explanation.waits.is_empty() && explanation.complete {
        text.push_str("  it is complete and waits for nothing\n");
    }
    for wait in &explanation.waits {
        let ago = now.duration_since(wait.since.0);
        text.push_str(&format!("\n  {}\n", wait.sentence));
        text.push_str(&format!("    {} ({}), since {} ({})\n", wait.reason, wait.subject, wait.since.0, rough(ago)));
        if let Some(deadline) = &wait.deadline {
            text.push_str(&format!("    until {} at the latest\n", deadline.0));
        }
        if let Some(remedy) = &wait.remedy {
            text.push_str(&format!("    what would help: {remedy}\n"));
        }
    }
    text
}

/// A length of time in its largest unit.
fn rough(length: jiff::SignedDuration) -> String {
    match length.as_secs() {
        ..0 => "not yet, by this clock".to_owned(),
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stuck() -> Plan {
        serde_json::from_value(json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": { "name": "up", "namespace": "ns" },
            "spec": { "upgrade": { "image": "x" } },
            "status": {
                "conditions": [
                    { "type": "Progressing", "status": "True", "message": "1 of 3 nodes updated, 1 applying; something" },
                ],
                "waits": [{
                    "subject": "Pod/shop/web-1", "reason": "BudgetForbids", "since": "2026-01-01T12:00:00Z",
                    "sentence": "PodDisruptionBudget shop/web forbids to evict Pod shop/web-1 from Node n1",
                    "remedy": "change the budget",
                }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_wait_is_told_with_its_cause_its_age_and_what_would_help() {
        let now = "2026-01-01T12:05:00Z".parse().unwrap();
        assert_eq!(
            text(&explain(&stuck()), now),
            "plan/ns/up: 1 of 3 nodes updated, 1 applying\n\
             \n  PodDisruptionBudget shop/web forbids to evict Pod shop/web-1 from Node n1\n    \
             BudgetForbids (Pod/shop/web-1), since 2026-01-01T12:00:00Z (5 min)\n    \
             what would help: change the budget\n"
        );
    }

    #[test]
    fn a_plan_that_nobody_has_looked_at_says_so() {
        let explanation = explain(&Plan { status: None, ..stuck() });
        assert_eq!(explanation.progress, "no operator has looked at it yet");
    }

    #[test]
    fn only_plans_are_explained() {
        assert_eq!(plan_named("plan/ns/up").unwrap(), ("ns", "up"));
        assert!(plan_named("node/n1").is_err());
        assert!(plan_named("plan/up").is_err());
    }
}
