//! A report for a pull request.

use std::fmt::Write as _;

use drover_core::cluster::Cluster;
use drover_core::preflight::{Report, Reported, Severity};

use super::text::{objects, summary};

pub fn report(report: &Report, cluster: &Cluster) -> String {
    let mut text = format!("## Pre-flight of {}\n\n**{}**\n", escaped(&report.object), summary(report));
    let _ = write!(text, "\n{} nodes, looked at {}.\n", cluster.nodes.len(), report.looked_at);
    if !report.findings.is_empty() {
        text.push_str("\n| | code | what was found | what helps |\n|---|---|---|---|\n");
    }
    for finding in &report.findings {
        let word = match (finding.accepted, finding.severity) {
            (true, _) => "accepted",
            (false, Severity::Blocks) => "**blocks**",
            (false, Severity::Risks) => "risks",
            (false, Severity::Informs) => "informs",
        };
        let concerned = match finding.objects.is_empty() {
            true => String::new(),
            false => format!("<br>{}", escaped(&objects(&finding.objects))),
        };
        let accepted = finding.accepted_by.as_ref().map(|by| format!("<br>Accepted {by}.")).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {word} | {} | {}.{concerned}<br>If you go ahead: {}{accepted} | {} |",
            linked(finding),
            escaped(finding.sentence.trim_end_matches('.')),
            escaped(finding.consequence),
            escaped(&finding.remedy),
        );
    }
    if !report.unchecked.is_empty() {
        text.push_str("\nNot checked:\n\n");
    }
    for unchecked in &report.unchecked {
        let _ = writeln!(text, "- {} ({})", escaped(&unchecked.unseen), unchecked.checks.join(", "));
    }
    text
}

/// A link works only where the page has an address of its own.
fn linked(finding: &Reported) -> String {
    match finding.page.starts_with("https://") {
        true => format!("[{}]({})", finding.code, finding.page),
        false => format!("{}<br>{}", finding.code, finding.page),
    }
}

/// A cell of a table ends at a bar, and a line at its end.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
