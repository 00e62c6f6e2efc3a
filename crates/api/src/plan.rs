//! `Plan` (upgrade.cattle.io/v1): which nodes to upgrade to which version, how many at once, and with what container.
//!
//! The kind is that of [system-upgrade-controller](https://github.com/rancher/system-upgrade-controller). A field is
//! read and written as that controller does: an empty text, list or map, `false` and 0 mean 'absent' and are not
//! written, because the hash of a Plan can be taken over its JSON.

pub mod conditions;
pub mod events;
pub mod jobs;
pub mod labels;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, LocalObjectReference, SecurityContext, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const GROUP: &str = "upgrade.cattle.io";
pub const VERSION: &str = "v1";
pub const API_VERSION: &str = "upgrade.cattle.io/v1";
pub const KIND: &str = "Plan";
pub const PLURAL: &str = "plans";

/// What a user asks for.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "upgrade.cattle.io",
    version = "v1",
    kind = "Plan",
    plural = "plans",
    singular = "plan",
    namespaced,
    status = "PlanStatus",
    derive = "PartialEq",
    doc = "Plan represents a set of Jobs to apply an upgrade (or other operation) to a set of Nodes.",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.upgrade.image"}"#,
    printcolumn = r#"{"name":"Channel","type":"string","jsonPath":".spec.channel"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Complete","type":"string","jsonPath":".status.conditions[?(@.type=='Complete')].status"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.message!='')].message"}"#,
    printcolumn = r#"{"name":"Applying","type":"string","jsonPath":".status.applying","priority":10}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PlanSpec {
    /// How many nodes may be worked on at once. Must be at least 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub concurrency: i64,
    /// The time that the Job of one node may take. 0: no limit; absent or negative: the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_active_deadline_secs: Option<i64>,
    /// Which nodes this Plan is for. `{}` selects all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// The service account of the Jobs' pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// A URL that answers with a redirect whose last path element is the version. Used when `version` is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The version to upgrade to; it becomes the tag of images without one, with `+` written as `-`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Secrets to mount into the Jobs' pods. A change of one runs the Plan again, unless `ignoreUpdates` is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretSpec>,
    /// Taints that the Jobs' pods tolerate, besides `node.kubernetes.io/unschedulable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Do not work on a node beside another exclusive Plan.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// When work on a node may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<TimeWindowSpec>,
    /// Runs first, before the node is cordoned or drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<ContainerSpec>,
    /// Does the upgrade.
    pub upgrade: ContainerSpec,
    /// Cordon the node for the time of its upgrade. Ignored if `drain` is given, which cordons, too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cordon: bool,
    /// How to drain the node before its upgrade. Absent: it is not drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSpec>,
    /// Secrets to pull the images with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How long to wait after a node is done before its slot is given to the next, such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_complete_delay: Option<String>,
    /// The priority class of the Jobs' pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Labels that a node gets on success. Values may contain `$(LATEST_VERSION)` and `$(LATEST_HASH)`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub post_complete_labels: BTreeMap<String, String>,
}

/// A container of the Jobs' pods, as far as a Plan may shape it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    /// Without a tag or digest, the version of the Plan is the tag.
    pub image: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envs: Vec<EnvVar>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFromSource>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
}

/// A path of the host, mounted into a container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct VolumeSpec {
    /// The volume's name in the pod.
    pub name: String,
    /// The path on the host.
    pub source: String,
    /// The path in the container.
    pub destination: String,
}

/// A Secret, mounted into every container of the Jobs' pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretSpec {
    pub name: String,
    /// Where to mount it: an absolute path, or one below `/run/system-upgrade/secrets`; empty: the Secret's name there.
    #[schemars(!default)]
    #[serde(default)]
    pub path: String,
    /// Do not run the Plan again when the Secret changes, and do without it when it is missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_updates: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
}

/// How to drain a node: the options of `kubectl drain`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainSpec {
    /// A text is given to the drain as it is; a number is a count of nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<IntOrString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_local_data: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_emptydir_data: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_daemon_sets: Option<bool>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub disable_eviction: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip_wait_for_delete_timeout: i64,
    /// Only these pods. Those of Jobs that Plans made are never drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
}

/// The days and hours in which work on a node may start.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeWindowSpec {
    #[schemars(schema_with = "days_of_a_window")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start_time: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub end_time: String,
    /// An IANA name such as `Europe/Berlin`; empty: UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
}

/// The words for a day of the week, Sunday first, that a window may use.
pub const DAYS: [[&str; 4]; 7] = [
    ["0", "su", "sun", "sunday"],
    ["1", "mo", "mon", "monday"],
    ["2", "tu", "tue", "tuesday"],
    ["3", "we", "wed", "wednesday"],
    ["4", "th", "thu", "thursday"],
    ["5", "fr", "fri", "friday"],
    ["6", "sa", "sat", "saturday"],
];

// The days are texts in the type, not an enum: an older definition of this kind that is installed in a cluster may let
// others through, and such a Plan is to be told what is wrong with it, which needs that it can be read.
fn days_of_a_window(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "description": "The days on which the window is open.",
        "type": "array",
        "minItems": 1,
        "items": { "type": "string", "enum": DAYS.concat() },
    })
}

/// What has become of a Plan.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// `Validated`, `LatestResolved`, `Complete` and `Progressing`.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PlanCondition>,
    /// The version that the nodes are upgraded to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub latest_version: String,
    /// A node is done when its label `plan.upgrade.cattle.io/<plan>` has this value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub latest_hash: String,
    /// The nodes that are worked on: their `kubernetes.io/hostname` labels, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applying: Vec<String>,
    /// How far the Plan is, counted over the nodes that it selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<NodeCounts>,
    /// What is being waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<PublishedWait>,
}

/// A condition of a Plan. All fields are plain texts, as the original writes them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCondition {
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When status or message changed last (not the reason alone), as RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_update_time: String,
    /// The original never writes it for Plans.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a Plan is. Each selected node is counted once outside `selected`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NodeCounts {
    /// Nodes that the selector matches.
    pub selected: i64,
    /// Those that carry the latest hash.
    pub updated: i64,
    /// Those that are worked on.
    pub applying: i64,
    /// Those whose turn has not come.
    pub waiting: i64,
    /// Those whose Job failed.
    pub failed: i64,
}

/// A reason for which something does not happen yet.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PublishedWait {
    /// What waits, as `kind/namespace/name`, or `kind/name` if it has no namespace.
    pub subject: String,
    /// A stable word in CamelCase.
    pub reason: String,
    pub sentence: String,
    pub since: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// What a person could do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kind_is_named_once() {
        assert_eq!(Plan::group(&()), GROUP);
        assert_eq!(Plan::version(&()), VERSION);
        assert_eq!(Plan::api_version(&()), API_VERSION);
        assert_eq!(Plan::kind(&()), KIND);
        assert_eq!(Plan::plural(&()), PLURAL);
    }

    #[test]
    fn a_plan_is_written_as_it_was_read() {
        let plan = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": { "name": "p", "namespace": "n" },
            "spec": {
                "concurrency": 2,
                "jobActiveDeadlineSecs": 0,
                "nodeSelector": { "matchLabels": { "pool": "a" } },
                "serviceAccountName": "sa",
                "channel": "https://example.com/stable",
                "version": "v1",
                "secrets": [{ "name": "s", "path": "", "ignoreUpdates": true, "defaultMode": 256 }],
                "tolerations": [{ "operator": "Exists" }],
                "exclusive": true,
                "window": { "days": ["su"], "startTime": "1", "endTime": "2", "timeZone": "UTC" },
                "prepare": { "image": "p", "args": ["a"] },
                "upgrade": {
                    "image": "u",
                    "command": ["c"],
                    "args": ["a"],
                    "envs": [{ "name": "A", "value": "1" }],
                    "envFrom": [{ "secretRef": { "name": "s" } }],
                    "volumes": [{ "name": "v", "source": "/s", "destination": "/d" }],
                    "securityContext": { "privileged": false },
                },
                "cordon": true,
                "drain": {
                    "timeout": "5m",
                    "gracePeriod": 0,
                    "deleteLocalData": false,
                    "deleteEmptydirData": true,
                    "ignoreDaemonSets": true,
                    "force": true,
                    "disableEviction": true,
                    "skipWaitForDeleteTimeout": 60,
                    "podSelector": { "matchExpressions": [{ "key": "k", "operator": "Exists" }] },
                },
                "imagePullSecrets": [{ "name": "pull" }],
                "postCompleteDelay": "30s",
                "priorityClassName": "high",
                "postCompleteLabels": { "a": "$(LATEST_VERSION)" },
            },
            "status": {
                "conditions": [
                    { "type": "Complete", "status": "False", "lastUpdateTime": "t", "reason": "r", "message": "m" },
                ],
                "latestVersion": "v1",
                "latestHash": "h",
                "applying": ["n1"],
                "counts": { "selected": 3, "updated": 1, "applying": 1, "waiting": 1, "failed": 0 },
                "waits": [{
                    "subject": "Node/n2",
                    "reason": "R",
                    "sentence": "s",
                    "since": "2026-01-01T00:00:00Z",
                    "deadline": "2026-01-01T00:10:00Z",
                    "remedy": "r",
                }],
            },
        });

        let read: Plan = serde_json::from_value(plan.clone()).unwrap();

        assert_eq!(json!(read), plan);
    }

    #[test]
    fn what_is_empty_is_not_written() {
        let spec: PlanSpec = serde_json::from_value(json!({
            "concurrency": 0,
            "version": "",
            "cordon": false,
            "tolerations": [],
            "postCompleteLabels": {},
            "upgrade": { "image": "u", "args": [] },
        }))
        .unwrap();

        assert_eq!(json!(spec), json!({ "upgrade": { "image": "u" } }));
    }

    #[test]
    fn a_drain_timeout_that_no_int32_holds_cannot_be_read() {
        let drain = json!({ "timeout": 60_000_000_000_i64 });

        assert!(serde_json::from_value::<DrainSpec>(drain).is_err());
    }
}
