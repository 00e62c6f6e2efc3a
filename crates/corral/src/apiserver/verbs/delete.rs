//! Delete an object, at once or when its finalizers and its grace period let it go.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Target;
use crate::apiserver::{
    admission::Operation,
    crds, namespaces,
    object::{Meta, Object, moment},
    options::check_dry_run,
    resources::Dependents,
    status::{Answer, FieldError, bad_request, conflict, invalid, not_found, unexplained},
    store::{Cause, Store},
    write::{Act, Draft, Outcome, Write},
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Option<Preconditions>,
    pub propagation_policy: Option<Propagation>,
    pub orphan_dependents: Option<bool>,
    pub dry_run: Vec<String>,
}

impl DeleteOptions {
    pub fn read(options: Object) -> Answer<Self> {
        let mut errors = vec![];
        let stated = |name: &str| options.get(name).filter(|value| !value.is_null());
        if let Some(policy) = stated("propagationPolicy").filter(|_| stated("orphanDependents").is_some()) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy, why));
        }
        if let Some(policy) = options.get("propagationPolicy").filter(|policy| !policy.is_null())
            && Propagation::deserialize(policy).is_err()
        {
            let known = ["Foreground", "Background", "Orphan", "nil"].map(String::from);
            errors.push(FieldError::unsupported("propagationPolicy", policy, &known));
        }
        if let Some(Value::Array(dry_run)) = options.get("dryRun") {
            let values: Vec<_> = dry_run.iter().map(|value| value.as_str().unwrap_or_default().to_string()).collect();
            check_dry_run(&values, &mut errors);
        }
        if !errors.is_empty() {
            return Err(invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        if let Some(seconds) = stated("gracePeriodSeconds").filter(|seconds| !seconds.is_i64()) {
            let found = if seconds.is_number() { "number" } else { "string" };
            return Err(unexplained(&format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        serde_json::from_value(Value::Object(options)).map_err(|error| bad_request(error.to_string()))
    }

    pub fn says_nothing_of_dependents(&self) -> bool {
        self.propagation_policy.is_none() && self.orphan_dependents.is_none()
    }

    /// Adds what they say to how an admission review shows them.
    pub fn describe(&self, shown: &mut Value) {
        if let Some(seconds) = self.grace_period_seconds {
            shown["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(Preconditions { uid, resource_version }) = &self.preconditions {
            let mut stated = json!({});
            if let Some(uid) = uid {
                stated["uid"] = json!(uid);
            }
            if let Some(version) = resource_version {
                stated["resourceVersion"] = json!(version);
            }
            shown["preconditions"] = stated;
        }
        if let Some(policy) = self.propagation_policy {
            shown["propagationPolicy"] = json!(format!("{policy:?}"));
        }
        if let Some(orphan) = self.orphan_dependents {
            shown["orphanDependents"] = json!(orphan);
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

pub(crate) fn draft(store: &Store, write: &Write<'_>, options: DeleteOptions) -> Answer<Draft> {
    let target = write.target;
    let Some(current) = store.get(&target.resource.id, &target.key()).cloned() else {
        return Err(not_found(&target.resource.id, &target.name));
    };
    if target.resource.id == namespaces::id() {
        namespaces::check_mortal(&target.name)?;
    }
    let old = current.shared()?;
    check_preconditions(target, &old, options.preconditions.as_ref())?;
    let act = Act::Delete(options);
    Ok(Draft {
        operation: Operation::Delete,
        old: Some(old),
        new: None,
        act,
        base: Some(current),
        ticket: 0,
        stated_version: None,
    })
}

pub(crate) fn delete(
    store: &mut Store,
    cause: &Cause<'_>,
    target: &Target,
    options: &DeleteOptions,
) -> Answer<Outcome> {
    let id = &target.resource.id;
    let key = target.key();
    let Some(current) = store.get(id, &key).cloned() else {
        return Err(not_found(id, &target.name));
    };
    let mut object = current.object()?;
    check_preconditions(target, &object, options.preconditions.as_ref())?;
    if *id == namespaces::id()
        && let Some(stored) = namespaces::terminate(store, cause, &current, object.clone())?
    {
        return Ok(Outcome::Changed(stored));
    }
    if *id == crds::id()
        && let Some(stored) = crds::terminate(store, cause, object.clone())?
    {
        return Ok(Outcome::Changed(stored));
    }

    let grace = match begin_grace(target, &mut object, options, cause.at) {
        // Nothing changes while it already has as little time as was asked for.
        Grace::Running => return Ok(Outcome::Changed(current)),
        Grace::Started(seconds) => Some(seconds),
        Grace::None => None,
    };
    let finalizers_changed = mark_dependents(target, &mut object, options);
    let finalizers_pending = !object.finalizers().is_empty();
    if grace.is_none() && finalizers_pending {
        mark_as_deleting(&mut object, cause.at);
    }

    // What was kept by such a finalizer alone goes as it was.
    if finalizers_changed && !finalizers_pending && grace.is_none() {
        return Ok(Outcome::Gone(store.remove(cause, id, &key, current.object()?)?));
    }
    let mut last = object.clone();
    if grace.is_some() || finalizers_pending {
        let stored = match object == current.object()? {
            true => current,
            false => store.put(cause, id, &key, object)?,
        };
        if finalizers_pending || grace.is_some_and(|seconds| seconds > 0) {
            return Ok(Outcome::Changed(stored));
        }
        last = stored.object()?;
    }
    Ok(Outcome::Gone(store.remove(cause, id, &key, last)?))
}

pub(crate) fn check_preconditions(
    target: &Target,
    object: &Object,
    preconditions: Option<&Preconditions>,
) -> Answer<()> {
    let Some(preconditions) = preconditions else { return Ok(()) };
    // The original names the kind here, where other conflicts name the plural.
    let mut id = target.resource.id.clone();
    id.plural = id.kind.clone();
    if let Some(uid) = &preconditions.uid
        && uid != object.uid()
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). \
             The object might have been deleted and then recreated",
            object.uid()
        );
        return Err(conflict(&id, &target.name, &why));
    }
    if let Some(version) = &preconditions.resource_version
        && version != object.resource_version()
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            object.resource_version()
        );
        return Err(conflict(&id, &target.name, &why));
    }
    Ok(())
}

enum Grace {
    /// The kind, or this object now, is not given time.
    None,
    Started(i64),
    /// It was given no more time than this before.
    Running,
}

fn begin_grace(target: &Target, object: &mut Object, options: &DeleteOptions, now: Timestamp) -> Grace {
    // The original takes a negative time for one second.
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(seconds) = target.resource.rules.grace_period(object, asked) else {
        return Grace::None;
    };
    if !object.is_deleting() {
        object.set_meta("deletionTimestamp", moment(add_seconds(now, seconds)));
        object.set_meta("deletionGracePeriodSeconds", seconds);
        if object.generation() > 0 {
            object.set_meta("generation", object.generation() + 1);
        }
        return Grace::Started(seconds);
    }
    let Some(running) = object.grace_period().filter(|seconds| *seconds > 0) else {
        return Grace::None;
    };
    match asked {
        Some(asked) if asked < running => {
            let (end, seconds) = shorten(object, running, asked, now);
            object.set_meta("deletionTimestamp", moment(end));
            object.set_meta("deletionGracePeriodSeconds", seconds);
            Grace::Started(seconds)
        }
        _ => Grace::Running,
    }
}

/// When a deletion ends that is given less time than before, and never in the past.
fn shorten(object: &Object, running: i64, asked: i64, now: Timestamp) -> (Timestamp, i64) {
    let end = object.meta_text("deletionTimestamp").parse().unwrap_or(now);
    let end = add_seconds(end, asked - running);
    if end >= now { (end, asked) } else { (now, asked.min(1)) }
}

fn add_seconds(moment: Timestamp, seconds: i64) -> Timestamp {
    moment.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Sets the finalizers that make the garbage collector deal with dependents first. True if they changed.
fn mark_dependents(target: &Target, object: &mut Object, options: &DeleteOptions) -> bool {
    if target.resource.dependents == Dependents::None {
        return false;
    }
    let before: Vec<String> = object.finalizers().into_iter().map(String::from).collect();
    let has = |finalizer: &str| before.iter().any(|found| found == finalizer);
    let wanted = match (options.orphan_dependents, options.propagation_policy) {
        (Some(true), _) | (None, Some(Propagation::Orphan)) => Some(ORPHAN),
        (None, Some(Propagation::Foreground)) => Some(FOREGROUND),
        (Some(false), _) | (None, Some(Propagation::Background)) => None,
        (None, None) if has(ORPHAN) => Some(ORPHAN),
        (None, None) if has(FOREGROUND) => Some(FOREGROUND),
        (None, None) => (target.resource.dependents == Dependents::Orphan).then_some(ORPHAN),
    };
    let mut after: Vec<String> = before.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
    after.extend(wanted.map(String::from));
    let changed = after.len() != before.len() || after.iter().any(|name| !before.contains(name));
    if changed {
        object.set_finalizers(&after);
    }
    changed
}

fn mark_as_deleting(object: &mut Object, now: Timestamp) {
    if !object.is_deleting() && object.generation() > 0 {
        object.set_meta("generation", object.generation() + 1);
    }
    let later = object.meta_text("deletionTimestamp").parse::<Timestamp>().is_ok_and(|end| end > now);
    if !object.is_deleting() || later {
        object.set_meta("deletionTimestamp", moment(now));
    }
    object.set_meta("deletionGracePeriodSeconds", 0);
}
