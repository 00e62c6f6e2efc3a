//! The table of cases, as `cases.json` holds it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

/// So many there are: none is lost on the way.
const ALL: usize = 54;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub says: String,
    #[serde(default)]
    pub job: Option<JobCase>,
    #[serde(default, rename = "is")]
    pub is: BTreeMap<String, Value>,
    #[serde(default)]
    pub has: BTreeMap<String, String>,
    #[serde(default)]
    pub lacks: BTreeMap<String, String>,
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Of the Plan.
    #[serde(default = "test")]
    pub name: String,
    /// How many nodes.
    #[serde(default = "one")]
    pub size: usize,
}

fn test() -> String {
    "test".to_owned()
}

fn one() -> usize {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCase {
    pub spec: Value,
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    #[serde(default)]
    pub plan: Value,
    #[serde(default)]
    pub version: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// What the channel answers from now on; status 0: nothing.
    #[serde(default)]
    pub channel: Option<ChannelCase>,
    /// The data of the Secret.
    #[serde(default)]
    pub secret: Option<String>,
    /// What the machines do with Jobs from now on.
    #[serde(default)]
    pub machines: Option<Machines>,
    #[serde(default)]
    pub cordon: bool,
    /// A sound Plan beside the one that is looked at.
    #[serde(default)]
    pub other: bool,
    /// Merged into the Plan's spec.
    #[serde(default)]
    pub apply: Option<Value>,
    /// The API server refuses that, and says so.
    #[serde(default)]
    pub refused: Option<String>,
    #[serde(default)]
    pub delete_jobs: bool,
    #[serde(default)]
    pub touch_nodes: usize,
    /// Seconds until what is expected is looked at.
    #[serde(default)]
    pub wait: Option<u64>,
    #[serde(default)]
    pub expect: Expected,
}

#[derive(Debug, Deserialize)]
pub struct ChannelCase {
    pub status: u16,
    pub location: Option<String>,
}

/// How a Job goes on the machines.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Machines {
    /// How long it takes, such as `20s`, or `never`.
    #[serde(default = "a_second")]
    pub take: String,
    #[serde(default)]
    pub exit_code: u8,
}

fn a_second() -> String {
    "1s".to_owned()
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Expected {
    /// By type: status, reason, and what the message contains.
    pub conditions: BTreeMap<String, (String, String, String)>,
    pub latest_version: Option<String>,
    pub latest_hash: Option<String>,
    pub jobs: Option<usize>,
    /// Of the one Job, by JSON pointer.
    pub job: BTreeMap<String, Value>,
    pub node_labels: BTreeMap<String, String>,
    pub unschedulable: Option<bool>,
    pub applying: Option<String>,
    pub other_complete: bool,
    pub events: Vec<String>,
    /// How often the channel was asked so far.
    pub asked: Option<usize>,
}

pub fn cases() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!((cases.len(), ids.len()), (ALL, ALL));
    assert!(cases.iter().all(|case| case.job.is_some() == case.steps.is_empty()), "each is of one kind");
    cases
}

/// A merge patch, but that null and nothing stay apart in a spec that is yet to be made.
pub fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    target.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut target[key], value);
                }
            }
        }
        Value::Null => {}
        other => *target = other.clone(),
    }
}
