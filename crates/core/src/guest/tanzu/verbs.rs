//! What a person does to a TanzuKubernetesCluster by a word: starts an update, pauses it, lets it go on, and has it tried again.
//!
//! Whatever speaks against it is said before anything is written, by the same rules that the controller has.

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::marks::{PAUSED, WORKERS_FAILED};
use serde_json::{Value, json};

use super::control_plane::job_object;
use super::distribution::{Asked, asked, is_of, is_same};
use super::{Held, Reason, View, Wait, decide, job, places, rollout, text};
use crate::decision::Act;
use crate::guest::seen::Collection;
use crate::guest::wait::Write;

/// Why nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} is being deleted")]
    Deleting(String),
    #[error("{sentence}{}", remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
    Refused { sentence: String, remedy: Option<String> },
    #[error("{0} asks for {1} already: there is nothing to start")]
    Nothing(String, String),
    #[error("{0} is paused already")]
    AlreadyPaused(String),
    #[error("{0} is not paused")]
    NotPaused(String),
    #[error("nothing of {0} has failed")]
    NothingFailed(String),
}

impl From<Box<Wait>> for Refusal {
    fn from(wait: Box<Wait>) -> Self {
        Refusal::Refused { sentence: wait.sentence, remedy: wait.remedy }
    }
}

/// Asks for a version: in full, or the beginning of one, which stands for the newest that there is.
pub fn start(view: &View<'_>, to: &str) -> Result<Write, Refusal> {
    if !view.tkc["metadata"]["deletionTimestamp"].is_null() {
        return Err(Refusal::Deleting(view.object().to_string()));
    }
    let is_full = view.global.all(Collection::Images).any(|image| is_of(image, to));
    let hint = if is_full { Value::Null } else { json!(format!("v{}", to.trim_start_matches('v'))) };
    let full = meant(view, to, &hint)?;
    if is_same(text(&view.tkc["spec"]["distribution"]["fullVersion"]), &full) {
        return Err(Refusal::Nothing(view.object().to_string(), full));
    }
    let patch = json!({ "spec": { "distribution": { "fullVersion": full, "version": hint } } });
    Ok(rollout::guarded(view.tkc, patch, "ask for another version"))
}

/// The version in full, if the controller would not refuse it.
fn meant(view: &View<'_>, to: &str, hint: &Value) -> Held<String> {
    let mut tkc = view.tkc.clone();
    tkc["spec"]["distribution"] = match hint.is_null() {
        true => json!({ "fullVersion": to }),
        false => json!({ "version": hint }),
    };
    if let Asked::Resolved(full) = asked(&View { tkc: &tkc, ..*view })? {
        tkc["spec"]["distribution"]["fullVersion"] = json!(full);
    }
    let asking = View { tkc: &tkc, ..*view };
    match asked(&asking)? {
        Asked::Found(distribution) => decide::refuse(&asking, &distribution).map(|()| distribution.version.clone()),
        Asked::Resolved(full) => Ok(full),
    }
}

/// Nothing of it is begun any more, and workers that are on their way stay where they are.
pub fn pause(view: &View<'_>) -> Result<Write, Refusal> {
    match places::paused(view) {
        Some(_) => Err(Refusal::AlreadyPaused(view.object().to_string())),
        None => Ok(annotated(view, json!("true"), "pause a cluster")),
    }
}

pub fn resume(view: &View<'_>) -> Result<Write, Refusal> {
    match places::paused(view) {
        Some(_) => Ok(annotated(view, Value::Null, "resume a cluster")),
        None => Err(Refusal::NotPaused(view.object().to_string())),
    }
}

/// Takes away what halts it: the Job that has failed, and the mark of workers that got nowhere.
pub fn retry(view: &View<'_>) -> Result<Vec<Write>, Refusal> {
    let blamed = |job: &Value| {
        let subject = job_object(job).to_string();
        let mut waits = view.tkc["status"]["waits"].as_array().into_iter().flatten();
        let reason = Reason::ControlPlaneUpdateFailed.to_string();
        waits.any(|wait| wait["reason"] == reason && wait["subject"] == subject)
    };
    let failed = job::of_cluster(view).into_iter().filter(|one| job::state(one) == job::State::Failed || blamed(one));
    let jobs = failed.map(|one| Write {
        object: job_object(one),
        act: Act::Delete { uid: text(&one["metadata"]["uid"]).to_owned() },
        purpose: "let the control plane be tried again",
    });
    let is_halted = |one: &&Value| {
        let metadata = &one["metadata"];
        metadata["labels"][CLUSTER_NAME] == view.name() && metadata["annotations"][WORKERS_FAILED].is_string()
    };
    let forget = json!({ "metadata": { "annotations": { WORKERS_FAILED: null } } });
    let deployments = view.own.all(Collection::Deployments).filter(is_halted);
    let workers = deployments.map(|one| rollout::guarded(one, forget.clone(), "let workers be tried again"));
    let writes: Vec<Write> = jobs.chain(workers).collect();
    if writes.is_empty() { Err(Refusal::NothingFailed(view.object().to_string())) } else { Ok(writes) }
}

fn annotated(view: &View<'_>, value: Value, purpose: &'static str) -> Write {
    rollout::guarded(view.tkc, json!({ "metadata": { "annotations": { PAUSED: value } } }), purpose)
}
