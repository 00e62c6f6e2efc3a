//! What others have met on the way from one version to another; the list is `known_issues.json`.

use serde::Deserialize;

use super::versions::Release;

const LIST: &str = include_str!("known_issues.json");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    Harvester,
    Kubernetes,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Issue {
    product: Product,
    /// Minor versions: the issue lies between them.
    from: String,
    to: String,
    pub what: String,
    pub advice: String,
    pub link: String,
}

/// The issues on the way from one release to another.
pub fn met(product: Product, from: Release, to: Release) -> impl Iterator<Item = Issue> {
    let minor = |version: &str| Release::parse(version).map(|release| (release.major, release.minor));
    let (from, to) = ((from.major, from.minor), (to.major, to.minor));
    all().into_iter().filter(move |issue| {
        let between = minor(&issue.from).zip(minor(&issue.to));
        issue.product == product && between.is_some_and(|(before, after)| from <= before && after <= to)
    })
}

/// Empty if the list cannot be read, which a test rules out.
fn all() -> Vec<Issue> {
    serde_json::from_str(LIST).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read() {
        let issues: Vec<Issue> = serde_json::from_str(LIST).unwrap();
        for issue in &issues {
            assert!(Release::parse(&issue.from) < Release::parse(&issue.to), "{}", issue.what);
            assert!(issue.link.starts_with("https://"), "{}", issue.link);
        }
        assert!(issues.len() > 10);
    }

    #[test]
    fn an_issue_is_met_by_whoever_passes_it() {
        let met = |from: &str, to: &str| {
            met(Product::Kubernetes, Release::parse(from).unwrap(), Release::parse(to).unwrap()).count()
        };
        assert_eq!(met("v1.24.3", "v1.25.0"), 1);
        assert_eq!(met("v1.25.0", "v1.26.1"), 0);
        assert_eq!(met("v1.25.0", "v1.25.4"), 0);
    }
}
