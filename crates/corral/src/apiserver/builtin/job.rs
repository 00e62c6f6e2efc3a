//! Jobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    job_status,
    pod_spec::{self, Around},
    values::{check_known, check_not_negative},
};
use crate::apiserver::{
    meta_rules,
    object::{Meta, Object, at, child, fill},
    packed::Packed,
    resources::Rules,
    status::{Answer, FieldError},
    store::{Cause, Store},
};

/// The labels by which the pods of a Job are found, with and without a prefix.
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];
const IMMUTABLE: &str = "field is immutable";

pub(super) struct JobRules;

impl Rules for JobRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let template_labels = at(object, &["spec", "template", "metadata", "labels"]).cloned();
        if let Some(labels) = template_labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())) {
            fill(object.meta_mut(), "labels", labels);
        }
        let spec = child(object, "spec");
        if !spec.contains_key("parallelism") {
            fill(spec, "completions", 1);
        }
        fill(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        fill(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
        fill(spec, "completionMode", "NonIndexed");
        fill(spec, "suspend", false);
        let failures_have_a_policy = spec.contains_key("podFailurePolicy");
        fill(spec, "podReplacementPolicy", if failures_have_a_policy { "Failed" } else { "TerminatingOrFailed" });
        fill(spec, "manualSelector", false);
        pod_spec::fill_defaults(child(child(spec, "template"), "spec"));
    }

    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        object.insert("status".into(), json!({}));
        if at(object, &["spec", "manualSelector"]) == Some(&json!(true)) {
            return;
        }
        let own = object.meta("labels").cloned();
        let is_labelled_by_template = own.is_some() && at(object, &TEMPLATE_LABELS) == own.as_ref();
        generate_selector(object);
        // Labels that came from the template are the template's, and get what that gets.
        if let (true, Some(labels)) = (is_labelled_by_template, at(object, &TEMPLATE_LABELS).cloned()) {
            object.set_meta("labels", labels);
        }
    }

    /// A Job without labels has those of its pods.
    fn allocate(&self, _store: &mut Store, _cause: &Cause<'_>, object: &mut Object) -> Answer<()> {
        if let (None, Some(labels)) = (object.meta("labels"), at(object, &TEMPLATE_LABELS).cloned()) {
            object.set_meta("labels", labels);
        }
        Ok(())
    }

    /// Those labels are nobody's: the original finds them each time that it reads the Job.
    fn is_shown_with_more(&self, created: &Object) -> bool {
        let managers = created.meta("managedFields").and_then(Value::as_array).into_iter().flatten();
        let are_managed = managers.into_iter().any(|entry| entry.pointer("/fieldsV1/f:metadata/f:labels").is_some());
        created.meta("labels").is_some() && !are_managed
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        check_generated_selector(object, errors);
        validate_spec(object, errors);
    }

    fn validate_status(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        job_status::validate(new, old, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        // The original looks once more, and says it once more.
        validate_spec(new, errors);
        let mut check = |name: &str, before: Option<&Value>| {
            let after = at(new, &["spec", name]);
            if after != before {
                let shown = after.unwrap_or(&Value::Null);
                errors.push(FieldError::invalid(format!("spec.{name}"), shown, IMMUTABLE));
            }
        };
        for name in ["completions", "selector"] {
            check(name, at(old, &["spec", name]));
        }
        check("template", replaceable_template(new, old).as_ref());
        for name in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
            check(name, at(old, &["spec", name]));
        }
    }

    fn selectable(&self) -> &[&'static str] {
        &["status.successful"]
    }

    fn fields(&self, object: &Object) -> Packed {
        let succeeded = at(object, &["status", "succeeded"]).and_then(Value::as_i64).unwrap_or_default();
        Packed::from_values([succeeded.to_string().as_str()].into_iter())
    }
}

/// Makes pods of this Job recognisable, and the Job select exactly those.
fn generate_selector(job: &mut Object) {
    let (name, uid) = (job.name().to_string(), job.uid().to_string());
    let spec = child(job, "spec");
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    for label in NAME_LABELS {
        fill(labels, label, name.clone());
    }
    for label in UID_LABELS {
        fill(labels, label, uid.clone());
    }
    fill(child(child(spec, "selector"), "matchLabels"), UID_LABELS[1], uid);
}

fn validate_spec(job: &Object, errors: &mut Vec<FieldError>) {
    let limits = ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];
    check_not_negative(job, "spec", &limits, errors);
    if let Some(mode) = at(job, &["spec", "completionMode"]) {
        check_known("spec.completionMode", mode, &["NonIndexed", "Indexed"], errors);
    }
    if let Some(Value::Object(metadata)) = at(job, &["spec", "template", "metadata"]) {
        meta_rules::validate_labels(metadata, "spec.template", errors);
    }
    let path = "spec.template.spec";
    pod_spec::validate(path, at(job, &["spec", "template", "spec"]), Around::default(), errors);
    let field = format!("{path}.restartPolicy");
    match at(job, &["spec", "template", "spec", "restartPolicy"]) {
        Some(policy) if policy == "Always" => {
            errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
        }
        Some(policy) => check_known(&field, policy, &["OnFailure", "Never"], errors),
        None => {}
    }
    check_selected(job, errors);
}

/// Whether the labels and the selector that the server makes are as it makes them.
fn check_generated_selector(job: &Object, errors: &mut Vec<FieldError>) {
    let Some(selector) = at(job, &["spec", "selector"]) else { return };
    if at(job, &["spec", "manualSelector"]) == Some(&json!(true)) {
        return;
    }
    let labels = at(job, &TEMPLATE_LABELS).and_then(Value::as_object);
    let expected =
        UID_LABELS.map(|label| (label, job.uid())).into_iter().chain(NAME_LABELS.map(|label| (label, job.name())));
    for (label, value) in expected {
        let found = labels.and_then(|labels| labels.get(label));
        if found.is_some_and(|found| found != value) {
            let why = format!("must be '{value}'");
            let shown = labels.map(|labels| Value::Object(labels.clone())).unwrap_or_default();
            errors.push(FieldError::invalid("spec.template.metadata.labels", &shown, &why));
        }
    }
    let matches = selector["matchLabels"].as_object().into_iter().flatten().all(|(label, value)| {
        (UID_LABELS.contains(&label.as_str()) && value == job.uid())
            || (NAME_LABELS.contains(&label.as_str()) && value == job.name())
    });
    if !matches {
        errors.push(FieldError::invalid("spec.selector", selector, "`selector` not auto-generated"));
    }
}

/// Whether the Job would find its own pods.
fn check_selected(job: &Object, errors: &mut Vec<FieldError>) {
    let selector = at(job, &["spec", "selector"]);
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let labels = at(job, &TEMPLATE_LABELS).and_then(Value::as_object);
    let has = |(label, value): (&String, &Value)| labels.and_then(|labels| labels.get(label)) == Some(value);
    if !selector.is_some_and(|selector| selector["matchLabels"].as_object().into_iter().flatten().all(has)) {
        let shown = labels.map(|labels| Value::Object(labels.clone())).unwrap_or_default();
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", &shown, why));
    }
}

/// The template that a change has to leave as it is. Where its pods go may still be changed before the first one is
/// made.
fn replaceable_template(new: &Object, old: &Object) -> Option<Value> {
    let mut template = at(old, &["spec", "template"])?.clone();
    let suspended = at(old, &["spec", "suspend"]) == Some(&json!(true));
    if !suspended || at(old, &["status", "startTime"]).is_some() {
        return Some(template);
    }
    let wanted = at(new, &["spec", "template"])?;
    for path in [
        ["spec", "nodeSelector"],
        ["spec", "tolerations"],
        ["spec", "schedulingGates"],
        ["metadata", "labels"],
        ["metadata", "annotations"],
    ] {
        let [part, field] = path;
        let part_of_template = template.get_mut(part).and_then(Value::as_object_mut);
        if let Some(part_of_template) = part_of_template {
            match wanted[part].get(field) {
                Some(value) => part_of_template.insert(field.into(), value.clone()),
                None => part_of_template.remove(field),
            };
        }
    }
    Some(template)
}
