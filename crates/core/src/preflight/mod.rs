//! What would go wrong, said before anything is touched.
//!
//! A [`Check`] is a value: a stable code, how bad it is, which kinds it reads, and a pure function from what was seen to
//! what was found. [`CATALOGUE`] holds all of them; the command line, the documentation and whoever admits or drives an
//! upgrade use the same list.

mod apis;
mod budgets;
mod capacity;
#[cfg(test)]
mod cases;
mod certificates;
mod charts;
mod clusters;
mod etcd;
mod guests;
mod intent;
mod known_issues;
mod nodes;
mod page;
mod plans;
mod report;
mod storage;
mod upgrades;
mod versions;
mod vms;
mod webhooks;
mod workloads;

use serde::Serialize;

use crate::cluster::{Cluster, ObjectRef, Projection};

pub(crate) use guests::{hindrances as guest_hindrances, wanted as guest_version};
pub use intent::{Asked, Intent, UnknownObject};
pub use page::page;
pub(crate) use versions::refused as version_refused;

pub use report::{AcceptedBy, Report, Reported, Unchecked, Verdict, examine};
pub(crate) use upgrades::{config, pause_map_problems, pausing, switch};
pub(crate) use vms::tied_down;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It would not end, or take something down that was not meant to go.
    Blocks,
    /// It can go well; somebody should decide that it is worth it.
    Risks,
    /// Good to know.
    Informs,
}

/// What kind of upgrade a check is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Whatever is asked for.
    Everything,
    /// Whatever takes nodes of this cluster out of service.
    Nodes,
    /// What drains them, too.
    Drains,
    Harvester,
    Plans,
    Guests,
    ClusterApi,
}

/// One check of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Never changes its meaning, and is never given to another.
    pub code: &'static str,
    pub severity: Severity,
    pub scope: Scope,
    pub title: &'static str,
    /// What happens to somebody who goes ahead.
    pub consequence: &'static str,
    /// What helps, in general; a finding may know a command.
    pub remedy: &'static str,
    /// The kinds that have to be seen; without one of them nothing can be said.
    pub reads: &'static [&'static str],
    pub look: fn(&Cluster, &Intent) -> Vec<Finding>,
}

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finding {
    pub sentence: String,
    pub objects: Vec<ObjectRef>,
    /// A command to paste, or what to do.
    pub remedy: Option<String>,
    /// Less bad than its check usually is.
    pub milder: Option<Severity>,
}

impl Finding {
    pub fn new(sentence: impl Into<String>) -> Self {
        Finding { sentence: sentence.into(), ..Finding::default() }
    }

    pub fn on<T: Projection>(mut self, object: &T) -> Self {
        self.objects.push(ObjectRef::of(object));
        self
    }

    pub fn about(mut self, objects: impl IntoIterator<Item = ObjectRef>) -> Self {
        self.objects.extend(objects);
        self
    }

    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub fn only(mut self, severity: Severity) -> Self {
        self.milder = Some(severity);
        self
    }
}

/// All checks, family by family.
pub const CATALOGUE: &[&[Check]] = &[
    upgrades::CHECKS,
    versions::CHECKS,
    plans::CHECKS,
    guests::CHECKS,
    clusters::CHECKS,
    nodes::CHECKS,
    etcd::CHECKS,
    certificates::CHECKS,
    budgets::CHECKS,
    workloads::CHECKS,
    capacity::CHECKS,
    vms::CHECKS,
    storage::CHECKS,
    charts::CHECKS,
    webhooks::CHECKS,
    apis::CHECKS,
];

pub fn catalogue() -> impl Iterator<Item = &'static Check> {
    CATALOGUE.iter().copied().flatten()
}

/// `a, b and 3 more`: a sentence names a few of many.
fn some_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const NAMED: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0..=NAMED => names.join(", "),
        all => format!("{} and {} more", names[..NAMED].join(", "), all - NAMED),
    }
}

/// `namespace/name`, or the name of an object that has no namespace.
fn path<T: Projection>(object: &T) -> String {
    let metadata = object.metadata();
    match metadata.namespace.as_str() {
        "" => metadata.name.clone(),
        namespace => format!("{namespace}/{}", metadata.name),
    }
}
