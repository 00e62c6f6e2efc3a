//! Everything that a run of the catalogue has to say.

use jiff::Timestamp;
use serde::Serialize;

use super::{Check, Intent, Severity, catalogue};
use crate::cluster::{Cause, Cluster, ObjectRef};

/// Where the page of a check is.
const PAGE: &str = "docs/checks.md#";

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was asked for.
    pub object: String,
    pub looked_at: Timestamp,
    pub verdict: Verdict,
    /// The worst first.
    pub findings: Vec<Reported>,
    /// What could not be seen, and what could therefore not be checked.
    pub unchecked: Vec<Unchecked>,
    /// The codes of the checks that found nothing.
    pub passed: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Nothing speaks against it.
    Clear,
    /// Only risks that somebody has to weigh.
    Risks,
    /// Nothing blocks, but not everything could be looked at.
    CouldNotCheck,
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reported {
    pub code: &'static str,
    pub severity: Severity,
    pub title: &'static str,
    pub sentence: String,
    pub objects: Vec<ObjectRef>,
    pub consequence: &'static str,
    pub remedy: String,
    pub page: String,
    /// Somebody has said that it is to be done nevertheless.
    pub accepted: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unchecked {
    /// What could not be seen, and why.
    pub unseen: String,
    pub checks: Vec<&'static str>,
}

/// Runs every check that is for what is asked.
pub fn examine(cluster: &Cluster, intent: &Intent) -> Report {
    let mut findings = Vec::new();
    let mut unchecked = Vec::new();
    let mut passed = Vec::new();
    for check in catalogue().filter(|check| intent.concerns(check.scope, cluster)) {
        let missed = miss(check, cluster, &mut unchecked);
        if missed == Missed::Kind {
            continue;
        }
        let found = (check.look)(cluster, intent);
        if found.is_empty() && missed == Missed::Nothing {
            passed.push(check.code);
        }
        findings.extend(found.into_iter().map(|finding| Reported {
            code: check.code,
            severity: finding.milder.unwrap_or(check.severity),
            title: check.title,
            sentence: finding.sentence,
            objects: finding.objects,
            consequence: check.consequence,
            remedy: finding.remedy.unwrap_or_else(|| check.remedy.to_owned()),
            page: format!("{PAGE}{}", check.code.to_lowercase()),
            accepted: intent.accepted.contains(check.code),
        }));
    }
    findings.sort_by_key(|finding| (finding.accepted, finding.severity));
    let verdict = verdict(&findings, &unchecked);
    Report { object: intent.name.clone(), looked_at: cluster.looked_at, verdict, findings, unchecked, passed }
}

#[derive(PartialEq)]
enum Missed {
    Nothing,
    Objects,
    Kind,
}

/// Notes what of the kinds that a check reads could not be seen.
fn miss(check: &'static Check, cluster: &Cluster, unchecked: &mut Vec<Unchecked>) -> Missed {
    let mut missed = Missed::Nothing;
    let unseen = cluster.unseen.iter().filter(|unseen| check.reads.contains(&unseen.kind.as_str()));
    for unseen in unseen.filter(|unseen| unseen.cause != Cause::NoSuchKind) {
        if unseen.object.is_none() {
            missed = Missed::Kind;
        } else if missed == Missed::Nothing {
            missed = Missed::Objects;
        }
        let unseen = unseen.to_string();
        match unchecked.iter_mut().find(|known| known.unseen == unseen) {
            Some(known) => known.checks.push(check.code),
            None => unchecked.push(Unchecked { unseen, checks: vec![check.code] }),
        }
    }
    missed
}

fn verdict(findings: &[Reported], unchecked: &[Unchecked]) -> Verdict {
    let worst = findings.iter().filter(|finding| !finding.accepted).map(|finding| finding.severity).min();
    match (worst, unchecked.is_empty()) {
        (Some(Severity::Blocks), _) => Verdict::Blocked,
        (_, false) => Verdict::CouldNotCheck,
        (Some(Severity::Risks), true) => Verdict::Risks,
        (Some(Severity::Informs) | None, true) => Verdict::Clear,
    }
}

impl Report {
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity && !finding.accepted).count()
    }
}
