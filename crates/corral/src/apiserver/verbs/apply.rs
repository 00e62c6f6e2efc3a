//! Apply: state the fields that one cares for, whether the object exists or not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Target, create,
    update::{self, Part, check_name},
};
use crate::apiserver::{
    fields::{Conflict, Refusal, apply, empty_object},
    namespaces,
    object::{Meta, Object, moment_text, text, with_some_fields, without_managers},
    status::{Answer, apply_conflict, bad_request, cause, conflict, not_found, unexplained},
    store::Store,
    write::{Draft, Write},
};

pub(crate) fn draft(store: &Store, write: &Write<'_>, part: Part, config: &Object) -> Answer<Draft> {
    let target = write.target;
    let id = &target.resource.id;
    let Some(current) = store.get(id, &target.key()).cloned() else {
        if part != Part::Main {
            return Err(not_found(id, &target.name));
        }
        return draft_new(store, write, config);
    };
    let old = current.shared()?;
    let mut live = without_managers(&old);
    live.insert("apiVersion".into(), json!(target.resource.api_version(&target.version)));
    target.show(&mut live);
    let mut new = applied(write, &live, old.meta("managedFields"), config)?;
    let changed = changed(target, &live, &new);
    conform(write, config, changed.as_deref(), &mut new)?;
    target.check_identity(&mut new)?;
    check_name(target, &new)?;
    match &changed {
        Some(changed) => target.complete_fields(changed.iter(), &mut new),
        None => target.complete(&mut new),
    }
    target.keep(&mut new);
    update::drafted(write, part, current, old, new)
}

fn draft_new(store: &Store, write: &Write<'_>, config: &Object) -> Answer<Draft> {
    let target = write.target;
    let mut new = applied(write, &empty_object(&target.resource, &target.version), None, config)?;
    conform(write, config, None, &mut new)?;
    target.check_identity(&mut new)?;
    check_name(target, &new)?;
    if target.resource.namespaced {
        namespaces::check_accepts_objects(store, &target.resource, &target.namespace, new.name())?;
    }
    if !new.uid().is_empty() {
        let (uid, none) = (new.uid(), "and no existing object was found");
        let why = format!("uid mismatch: the provided object specified uid {uid}, {none}");
        return Err(conflict(&target.resource.id, &target.name, &why));
    }
    // There is nothing whose version it could be.
    new.meta_mut().remove("resourceVersion");
    target.complete(&mut new);
    target.keep(&mut new);
    Ok(create::drafted(new))
}

/// The fields that differ from those of the live object: of a built-in kind, only they can have come to be anything else.
fn changed(target: &Target, live: &Object, new: &Object) -> Option<Vec<String>> {
    let differs = |(name, value): &(&String, &Value)| live.get(*name) != Some(value);
    target.is_kept_so().then(|| new.iter().filter(differs).map(|(name, _)| name.clone()).collect())
}

/// The live object with everything applied, and with its managers.
fn applied(write: &Write<'_>, live: &Object, known: Option<&Value>, config: &Object) -> Answer<Object> {
    let target = write.target;
    let resource = &target.resource;
    let version = resource.api_version(&target.version);
    let (stated_version, stated_kind) = (text(config, &["apiVersion"]), text(config, &["kind"]));
    if (stated_version, stated_kind) != (version.as_str(), resource.id.kind.as_str()) {
        return Err(bad_request(format!("invalid object type: {}", shown_kind(stated_version, stated_kind))));
    }
    if config.meta("managedFields").is_some_and(|entries| !entries.is_null()) {
        return Err(bad_request("metadata.managedFields must be nil"));
    }
    let Some(kind) = resource.kind_type(&target.version) else {
        return Err(unexplained(&format!("no corresponding type for {}", shown_kind(&version, &resource.id.kind))));
    };
    let time = moment_text(write.cause.at);
    let writer = write.writer(&version, &time);
    let force = write.options.force.unwrap_or_default();
    apply(kind, resource, live, known, config, writer, force).map_err(|refusal| match refusal {
        Refusal::Conflicts(conflicts) => conflict_status(&conflicts),
        Refusal::Misfit(why) => {
            let place = format!("{}/{}", config.namespace(), config.name());
            let kind = shown_kind(&version, &resource.id.kind);
            unexplained(&format!("failed to create typed patch object ({place}; {kind}): {why}"))
        }
    })
}

/// Makes what was applied look as its kind does.
fn conform(write: &Write<'_>, config: &Object, changed: Option<&[String]>, new: &mut Object) -> Answer<()> {
    let Write { target, .. } = write;
    let (resource, version) = (&target.resource, target.resource.api_version(&target.version));
    let whole = |object: &mut Object| resource.conform_applied(&target.version, object);
    let conformed = match changed {
        Some(changed) => with_some_fields(new, changed.iter(), whole),
        None => whole(new),
    };
    conformed.map_err(|why| {
        let kind = shown_kind(&version, &resource.id.kind);
        // Bytes are decoded by another part of the original than everything else.
        let decoding = if why.starts_with("illegal base64") { "error decoding from json: " } else { "" };
        unexplained(&format!(
            "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured object to \
             {kind}: {decoding}{why}",
            config.namespace(),
            config.name()
        ))
    })
}

/// `apps/v1, Kind=Deployment`
pub(crate) fn shown_kind(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

pub(crate) fn conflict_status(conflicts: &[Conflict]) -> Box<kube::core::Status> {
    let causes = conflicts.iter().map(|conflict| {
        cause("FieldManagerConflict", &format!("conflict with {}", conflict.manager.shown()), &conflict.path)
    });
    let message = match conflicts {
        [only] => format!("1 conflict: conflict with {}: {}", only.manager.shown(), only.path),
        all => {
            let mut by_manager: BTreeMap<_, Vec<&str>> = BTreeMap::new();
            for conflict in all {
                by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
            }
            let parts = by_manager.iter().map(|(manager, paths)| {
                let paths: String = paths.iter().map(|path| format!("\n- {path}")).collect();
                format!("conflicts with {}:{paths}", manager.shown())
            });
            format!("{} conflicts: {}", all.len(), parts.collect::<Vec<_>>().join("\n"))
        }
    };
    apply_conflict(&format!("Apply failed with {message}"), causes.collect())
}
