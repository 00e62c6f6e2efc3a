//! A report for people at a terminal.

use std::fmt::Write as _;

use drover_core::cluster::ObjectRef;
use drover_core::preflight::{Report, Reported, Severity, Verdict};

/// How many objects of a finding are listed.
const LISTED: usize = 10;

pub fn report(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.object, summary(report));
    for finding in &report.findings {
        tell(&mut text, finding);
    }
    for unchecked in &report.unchecked {
        let _ =
            write!(text, "\nNOT CHECKED  {}\n    so not known: {}\n", unchecked.unseen, unchecked.checks.join(", "));
    }
    text
}

/// `blocked: 2 block, 1 risk; 40 checks passed, 3 could not be made`.
pub fn summary(report: &Report) -> String {
    let word = match report.verdict {
        Verdict::Clear => "clear",
        Verdict::Risks => "risks to weigh",
        Verdict::CouldNotCheck => "could not check everything",
        Verdict::Blocked => "blocked",
    };
    let mut counts = Vec::new();
    let mut count = |number: usize, one: &str, many: &str| match number {
        0 => (),
        1 => counts.push(format!("1 {one}")),
        _ => counts.push(format!("{number} {many}")),
    };
    count(report.count(Severity::Blocks), "finding blocks", "findings block");
    count(report.count(Severity::Risks), "risk", "risks");
    count(report.count(Severity::Informs), "thing to know", "things to know");
    count(report.findings.iter().filter(|finding| finding.accepted).count(), "accepted", "accepted");
    count(report.passed.len(), "check passed", "checks passed");
    let unchecked =
        report.unchecked.iter().flat_map(|unchecked| &unchecked.checks).collect::<std::collections::BTreeSet<_>>();
    count(unchecked.len(), "check could not be made", "checks could not be made");
    format!("{word} ({})", counts.join(", "))
}

fn tell(text: &mut String, finding: &Reported) {
    let word = match (finding.accepted, finding.severity) {
        (true, _) => "ACCEPTED",
        (false, Severity::Blocks) => "BLOCKS",
        (false, Severity::Risks) => "RISKS",
        (false, Severity::Informs) => "INFORMS",
    };
    let _ = write!(text, "\n{word}  {}  {}\n", finding.code, finding.sentence);
    if !finding.objects.is_empty() {
        let _ = writeln!(text, "    objects: {}", objects(&finding.objects));
    }
    let _ = writeln!(text, "    if you go ahead: {}", finding.consequence);
    let _ = writeln!(text, "    what helps: {}", finding.remedy);
    if let Some(accepted) = &finding.accepted_by {
        let _ = writeln!(text, "    accepted: {accepted}");
    }
    let _ = writeln!(text, "    more: {}", finding.page);
}

pub fn objects(objects: &[ObjectRef]) -> String {
    let mut listed: Vec<String> = objects.iter().take(LISTED).map(ObjectRef::to_string).collect();
    if objects.len() > LISTED {
        listed.push(format!("and {} more", objects.len() - LISTED));
    }
    listed.join(", ")
}
