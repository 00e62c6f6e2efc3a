//! Events: what others said about an object.

use jiff::Timestamp;
use serde::Deserialize;

use super::parts::{Meta, ObjectRef};
use super::shelf::projections;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    pub metadata: Meta,
    #[serde(alias = "regarding")]
    pub involved_object: Regarding,
    pub reason: String,
    #[serde(alias = "note")]
    pub message: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(alias = "deprecatedCount")]
    pub count: Option<i64>,
    #[serde(alias = "deprecatedFirstTimestamp")]
    pub first_timestamp: Option<Timestamp>,
    #[serde(alias = "deprecatedLastTimestamp")]
    pub last_timestamp: Option<Timestamp>,
    pub event_time: Option<Timestamp>,
    pub series: Option<Series>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Regarding {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Series {
    pub last_observed_time: Option<Timestamp>,
}

projections! { Event => "Event" }

impl Event {
    pub fn is_about(&self, object: &ObjectRef) -> bool {
        let about = &self.involved_object;
        about.kind == object.kind && about.name == object.name && about.namespace == object.namespace
    }

    pub fn is_warning(&self) -> bool {
        self.kind == "Warning"
    }

    pub fn first_seen(&self) -> Option<Timestamp> {
        self.first_timestamp.or(self.event_time).or(self.metadata.creation_timestamp)
    }

    pub fn last_seen(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        series.or(self.last_timestamp).or_else(|| self.first_seen())
    }
}
