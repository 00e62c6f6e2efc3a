//! Deletes a finished Job when its time to live has passed.
//!
//! Models `pkg/controller/ttlafterfinished` of Kubernetes 1.34.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use super::conditions::finished_at;
use crate::world::outcome::{Action, Outcome, seconds_after};
use crate::world::pods;

pub fn expire(job: &Job, now: Timestamp) -> Outcome {
    let seconds = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let finished = finished_at(job).and_then(|condition| condition.last_transition_time.as_ref());
    let (Some(seconds), Some(finished), None) = (seconds, finished, &job.metadata.deletion_timestamp) else {
        return Outcome::nothing();
    };
    let expires = seconds_after(finished, seconds.into());
    if now < expires {
        return Outcome::wait_until(expires);
    }
    Outcome::act(vec![Action::DeleteJob {
        namespace: pods::namespace(&job.metadata).into(),
        name: pods::name(&job.metadata).into(),
        uid: pods::uid(&job.metadata).into(),
    }])
}
