//! Kinds that run pods, and what goes with them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    NONE, UNSET, age, containers, count, has_condition, is_deleting, labels, list, name, number, selector, text,
};
use crate::apiserver::table::age::{duration, since};

const CONTAINERS: &str = "/spec/template/spec/containers";

fn numbers<const N: usize>(object: &Value, places: [&str; N]) -> [Value; N] {
    places.map(|place| json!(number(object, place)))
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let mut cells = vec![name(object), json!(ready)];
    cells.extend(numbers(object, ["/status/updatedReplicas", "/status/availableReplicas"]));
    cells.push(age(object, now));
    cells.extend(containers(object, CONTAINERS));
    cells.push(json!(selector(object.pointer("/spec/selector"))));
    cells
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    cells.extend(numbers(object, ["/spec/replicas", "/status/replicas", "/status/readyReplicas"]));
    cells.push(age(object, now));
    cells.extend(containers(object, CONTAINERS));
    cells.push(json!(selector(object.pointer("/spec/selector"))));
    cells
}

pub(super) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = replica_set(object, now);
    cells.pop();
    cells.push(json!(labels(object.pointer("/spec/selector"))));
    cells
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let mut cells = vec![name(object), json!(ready), age(object, now)];
    cells.extend(containers(object, CONTAINERS));
    cells
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    cells.extend(numbers(
        object,
        [
            "/status/desiredNumberScheduled",
            "/status/currentNumberScheduled",
            "/status/numberReady",
            "/status/updatedNumberScheduled",
            "/status/numberAvailable",
        ],
    ));
    cells.push(json!(labels(object.pointer("/spec/template/spec/nodeSelector"))));
    cells.push(age(object, now));
    cells.extend(containers(object, CONTAINERS));
    cells.push(json!(selector(object.pointer("/spec/selector"))));
    cells
}

pub(super) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(object, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let owner = owner.map(|owner| {
        let group = text(owner, "/apiVersion").split_once('/').map(|(group, _)| group);
        let kind = text(owner, "/kind").to_lowercase();
        let qualified = group.map(|group| format!("{kind}.{group}")).unwrap_or(kind);
        format!("{qualified}/{}", text(owner, "/name"))
    });
    let owner = owner.unwrap_or_else(|| NONE.into());
    vec![name(object), json!(owner), json!(number(object, "/revision")), age(object, now)]
}

pub(super) fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    cells.extend(containers(object, "/template/spec/containers"));
    cells.push(json!(labels(object.pointer("/template/metadata/labels"))));
    cells
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        json!(job_status(object)),
        json!(completions(object)),
        json!(job_duration(object, now)),
        age(object, now),
    ];
    cells.extend(containers(object, CONTAINERS));
    cells.push(json!(selector(object.pointer("/spec/selector"))));
    cells
}

fn job_status(job: &Value) -> &'static str {
    let holds = |kind: &'static str, word: &'static str| has_condition(job, kind).then_some(word);
    holds("Complete", "Complete")
        .or_else(|| holds("Failed", "Failed"))
        .or_else(|| is_deleting(job).then_some("Terminating"))
        .or_else(|| holds("Suspended", "Suspended"))
        .or_else(|| holds("FailureTarget", "FailureTarget"))
        .or_else(|| holds("SuccessCriteriaMet", "SuccessCriteriaMet"))
        .unwrap_or("Running")
}

fn completions(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match (job.pointer("/spec/completions").and_then(Value::as_i64), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let moment = |place: &str| text(job, place).parse::<Timestamp>().ok();
    let Some(start) = moment("/status/startTime") else { return String::new() };
    let end = moment("/status/completionTime").unwrap_or(now);
    duration(end.duration_since(start).as_secs())
}

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let optional = |place: &str| object.pointer(place).and_then(Value::as_str);
    let suspend = match object.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = optional("/status/lastScheduleTime").map(|moment| since(moment, now));
    let mut cells = vec![
        name(object),
        json!(text(object, "/spec/schedule")),
        json!(optional("/spec/timeZone").unwrap_or(NONE)),
        json!(suspend),
        json!(count(object, "/status/active")),
        json!(last.unwrap_or_else(|| NONE.into())),
        age(object, now),
    ];
    cells.extend(containers(object, "/spec/jobTemplate/spec/template/spec/containers"));
    cells.push(json!(selector(object.pointer("/spec/jobTemplate/spec/selector"))));
    cells
}

pub(super) fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |place: &str| match object.pointer(place) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "N/A".into(),
    };
    vec![
        name(object),
        json!(limit("/spec/minAvailable")),
        json!(limit("/spec/maxUnavailable")),
        json!(number(object, "/status/disruptionsAllowed")),
        age(object, now),
    ]
}
