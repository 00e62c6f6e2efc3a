//! Everything that a run of the catalogue has to say.

use drover_api::marks;
use jiff::Timestamp;
use serde::Serialize;

use super::{Check, Intent, Severity, catalogue};
use crate::accepted::Acceptance;
use crate::cluster::{Cause, Cluster, ObjectRef};

/// The page of all checks, in Drover's repository.
const PAGE: &str = "docs/checks.md";

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<AcceptedBy>,
}

/// Where something is accepted, and by whom as far as objects tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AcceptedBy {
    pub object: ObjectRef,
    pub annotation: &'static str,
    /// None for a manifest, and where the managed fields were left out.
    #[serde(flatten)]
    pub acceptance: Option<Acceptance>,
}

impl std::fmt::Display for AcceptedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "by the annotation {} of {}", self.annotation, self.object.in_words())?;
        match &self.acceptance {
            Some(Acceptance { by, at: Some(at) }) => write!(f, ", which {by} wrote at {at}"),
            Some(Acceptance { by, at: None }) => write!(f, ", which {by} wrote"),
            None => Ok(()),
        }
    }
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
            page: page_of(check.code, env!("CARGO_PKG_REPOSITORY")),
            accepted: intent.accepted.contains(check.code),
            accepted_by: accepted_by(cluster, intent).filter(|_| intent.accepted.contains(check.code)),
        }));
    }
    findings.sort_by_key(|finding| (finding.accepted, finding.severity));
    let verdict = verdict(&findings, &unchecked);
    Report { object: intent.name.clone(), looked_at: cluster.looked_at, verdict, findings, unchecked, passed }
}

/// Where the page of a check is: an address where the repository has one, else the file and the place in it.
fn page_of(code: &str, repository: &str) -> String {
    let page = format!("{PAGE}#{}", code.to_lowercase());
    match repository {
        "" => page,
        repository => format!("{repository}/blob/v{}/{page}", env!("CARGO_PKG_VERSION")),
    }
}

fn accepted_by(cluster: &Cluster, intent: &Intent) -> Option<AcceptedBy> {
    let object = intent.object()?;
    let acceptance = cluster.acceptances.get(&object).cloned();
    Some(AcceptedBy { object, annotation: marks::ACCEPT, acceptance })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_an_address_where_the_repository_has_one() {
        assert_eq!(page_of("DRV-NODE-003", ""), "docs/checks.md#drv-node-003");
        let address = page_of("DRV-NODE-003", "https://example.com/drover");
        assert!(address.starts_with("https://example.com/drover/blob/v"), "{address}");
        assert!(address.ends_with("/docs/checks.md#drv-node-003"), "{address}");
    }

    #[test]
    fn the_page_of_every_check_is_there() {
        let page = crate::preflight::page();
        for check in catalogue() {
            assert!(page.contains(&format!("\n## {}\n", check.code)), "{}", check.code);
        }
    }
}
