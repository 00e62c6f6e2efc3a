//! The parts of an explanation.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::reasons::meaning;
use crate::cluster::ObjectRef;
use crate::decision::Reason;

/// One statement about one object. A chain of them leads from what was asked about to what holds it up.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    pub object: ObjectRef,
    pub statement: String,
    pub certainty: Certainty,
    pub since: Option<Timestamp>,
    /// Who made the object.
    pub owner: Option<ObjectRef>,
    pub remedy: Option<String>,
    pub outlook: Outlook,
    /// Something is wrong; otherwise it is work that takes its time, or meant so.
    pub alarm: bool,
}

/// From what was asked about to what holds it up.
pub(super) type Chain = Vec<Link>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// It stands in the objects.
    Proven,
    /// It follows from what is usual, and may be otherwise.
    Likely,
}

/// Can the situation resolve itself?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outlook {
    /// Somebody has to act.
    No,
    Maybe,
    Yes,
}

/// The object that holds something up, and how it comes to that.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    pub object: ObjectRef,
    pub statement: String,
    pub certainty: Certainty,
    pub alarm: bool,
    /// What the engine waits for, if it is an engine that waits.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_words")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Costs::is_empty")]
    pub costs: Costs,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    pub resolves_itself: Outlook,
    /// From what was asked about to this object.
    pub chain: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub object: ObjectRef,
    pub statement: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What it costs that this lasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// Nodes that are out of service for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<String>,
    /// So many more wait behind them.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: i64,
    /// What is being done: `draining`, `upgrading`, ….
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl Costs {
    pub fn is_empty(&self) -> bool {
        *self == Costs::default()
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn in_words<S: Serializer>(reason: &Option<Reason>, serializer: S) -> Result<S::Ok, S::Error> {
    match reason {
        Some(reason) => serializer.serialize_str(&reason.to_string()),
        None => serializer.serialize_none(),
    }
}

impl Link {
    /// Something that is wrong, as the objects say, and that nobody but a person can change.
    pub fn proven(object: ObjectRef, statement: impl Into<String>) -> Self {
        Link {
            object,
            statement: statement.into(),
            certainty: Certainty::Proven,
            since: None,
            owner: None,
            remedy: None,
            outlook: Outlook::No,
            alarm: true,
        }
    }

    pub fn likely(object: ObjectRef, statement: impl Into<String>) -> Self {
        Link { certainty: Certainty::Likely, ..Link::proven(object, statement) }
    }

    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    pub fn owned_by(mut self, owner: Option<ObjectRef>) -> Self {
        self.owner = owner;
        self
    }

    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub fn outlook(mut self, outlook: Outlook) -> Self {
        self.outlook = outlook;
        self
    }

    /// Nothing is wrong: it takes its time, or somebody wants it so.
    pub fn as_usual(mut self) -> Self {
        self.alarm = false;
        self
    }
}

impl Cause {
    /// The last link is the cause; none for an empty chain.
    pub(super) fn of(chain: Chain) -> Option<Self> {
        let steps = chain.iter().map(|link| Step {
            object: link.object.clone(),
            statement: link.statement.clone(),
            since: link.since,
        });
        let steps: Vec<Step> = steps.collect();
        let last = chain.into_iter().next_back()?;
        Some(Cause {
            object: last.object,
            statement: last.statement,
            certainty: last.certainty,
            alarm: last.alarm,
            reason: None,
            since: last.since,
            deadline: None,
            costs: Costs::default(),
            owner: last.owner,
            remedy: last.remedy,
            resolves_itself: last.outlook,
            chain: steps,
        })
    }

    /// The links again, to be put below something else: those above the cause are as usual.
    pub(super) fn into_chain(self) -> Chain {
        let above = self.chain.len().saturating_sub(1);
        let steps = self.chain.into_iter().take(above);
        let steps = steps.map(|step| Link::proven(step.object, step.statement).since(step.since).as_usual());
        let last = Link {
            object: self.object,
            statement: self.statement,
            certainty: self.certainty,
            since: self.since,
            owner: self.owner,
            remedy: self.remedy,
            outlook: self.resolves_itself,
            alarm: self.alarm,
        };
        steps.chain([last]).collect()
    }

    /// Takes in another way down to the same object: the longer one is shown, the reason is the one that says what is
    /// wrong, and what both hold up is added up.
    pub(super) fn join(&mut self, other: Cause) {
        let says_what_is_wrong = |cause: &Cause| cause.reason.is_some_and(|reason| meaning(reason).alarm);
        if self.reason.is_none() || says_what_is_wrong(&other) && !says_what_is_wrong(self) {
            self.reason = other.reason.or(self.reason);
        }
        self.since = self.since.into_iter().chain(other.since).min();
        self.deadline = self.deadline.into_iter().chain(other.deadline).min();
        self.remedy = self.remedy.take().or(other.remedy);
        if other.chain.len() > self.chain.len() {
            self.chain = other.chain;
        }
        let Costs { out, waiting, phase } = other.costs;
        self.costs.out.extend(out);
        self.costs.out.sort();
        self.costs.out.dedup();
        self.costs.waiting = self.costs.waiting.max(waiting);
        if self.costs.phase.is_empty() {
            self.costs.phase = phase;
        }
    }
}

/// What needs somebody first, then what may pass, then what is as usual; the oldest first.
pub(super) fn sort(causes: &mut [Cause]) {
    causes.sort_by_key(|cause| {
        (!cause.alarm, cause.resolves_itself, cause.certainty, cause.since.unwrap_or(Timestamp::MAX))
    });
}
