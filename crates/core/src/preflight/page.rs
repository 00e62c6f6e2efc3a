//! The documentation of the catalogue, written from the catalogue.

use std::fmt::Write as _;

use super::{Check, Scope, Severity, catalogue};

/// `docs/checks.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Checks\n\n\
         <!-- Written by `make docs` from the catalogue in crates/core/src/preflight; do not edit. -->\n\n\
         `drover preflight` runs all of these that are for what is asked. **Blocks** means that an upgrade would not end, or \
         take something down that was not meant to go; **risks** that somebody should decide; **informs** that it is good to \
         know. A check that could not see what it reads says so and does not count as passed. What is found by a check is \
         accepted by its code, in the annotation `drover.dev/accept: CODE,…` of the Plan, Upgrade or cluster; it is still \
         shown, as accepted.\n\n\
         | code | | what it finds |\n|---|---|---|\n",
    );
    for check in catalogue() {
        let anchor = check.code.to_lowercase();
        let _ = writeln!(page, "| [{}](#{anchor}) | {} | {} |", check.code, word(check.severity), check.title);
    }
    for check in catalogue() {
        section(&mut page, check);
    }
    page
}

fn section(page: &mut String, check: &Check) {
    let _ = write!(
        page,
        "\n## {}\n\n**{}** ({}, for {})\n\nIf you go ahead: {}\n\nWhat helps: {}\n\nReads: {}.\n",
        check.code,
        check.title,
        word(check.severity),
        audience(check.scope),
        check.consequence,
        check.remedy,
        check.reads.join(", "),
    );
}

pub fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Blocks => "blocks",
        Severity::Risks => "risks",
        Severity::Informs => "informs",
    }
}

fn audience(scope: Scope) -> &'static str {
    match scope {
        Scope::Everything => "everything",
        Scope::Nodes => "whatever takes nodes out of service",
        Scope::Drains => "whatever drains nodes",
        Scope::Harvester => "upgrades of Harvester",
        Scope::Plans => "Plans",
        Scope::Guests => "TanzuKubernetesClusters",
        Scope::ClusterApi => "Clusters of Cluster API",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_as_the_catalogue_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/checks.md");
        if std::env::var_os("DROVER_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "docs/checks.md is not as the catalogue says; write it anew: make docs");
    }
}
