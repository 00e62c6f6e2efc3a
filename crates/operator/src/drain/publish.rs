//! Tells the operator what a drain waits for: an annotation on the pod that it runs in, or on the Node that it drains.

use drover_api::marks::{FIELD_MANAGER, NODE_CLAIM, WAITS};
use drover_core::decision::{Subject, Wait};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::{Api, ApiError, object};

/// An annotation has to stay small; what holds a drain up is rarely more.
const SHOWN: usize = 10;
/// A budget that lets one pod go after the other refuses each of them for a moment: that is no news.
const WORTH_TELLING: SignedDuration = SignedDuration::from_secs(10);

pub(crate) struct Publication {
    api: Api,
    place: Place,
    node: Subject,
    told: Vec<Wait>,
    /// What is told is replaced at once by what comes after it.
    replaces: bool,
}

/// Where it is told.
enum Place {
    Pod(Subject),
    /// Where the Job's service account may not patch pods, as with the role that system-upgrade-controller brings. Every
    /// drain may patch its Node, and the operator sees that in any case.
    Node,
    /// Outside a Job nobody reads it; and some servers do not let it be told.
    Nowhere,
}

impl Publication {
    pub fn new(api: Api, pod: Option<Subject>, node: &str) -> Self {
        let place = pod.map_or(Place::Nowhere, Place::Pod);
        Publication { api, place, node: Subject::node(node), told: Vec::new(), replaces: false }
    }

    /// Of one who waits for few things, one after the other: what is over is not taken back first and followed by the next later, which
    /// would be two requests here and two of the operator.
    pub fn of_few(api: Api, pod: Option<Subject>, node: &str) -> Self {
        Publication { replaces: true, ..Publication::new(api, pod, node) }
    }

    /// When the next of these waits will have lasted long enough to be told.
    pub fn due(&self, waits: &[Wait], now: Timestamp) -> Option<Timestamp> {
        let moments = waits.iter().filter_map(|wait| wait.since.checked_add(WORTH_TELLING).ok());
        let is_heard = !matches!(self.place, Place::Nowhere);
        moments.filter(|moment| is_heard && *moment > now).min()
    }

    /// Tells what has held the drain up for a while, if that is news. A drain goes on whether or not it can tell.
    pub async fn publish(&mut self, waits: &[Wait], now: Timestamp) {
        let Some(waits) = news(&self.told, self.replaces, waits, now) else { return };
        let told: Vec<Wait> = waits.iter().map(|wait| (*wait).clone()).collect();
        let value = if waits.is_empty() { Value::Null } else { Value::String(json!(waits).to_string()) };
        if let Place::Pod(pod) = &self.place {
            let patch = json!({ "metadata": { "annotations": { WAITS: value } } });
            match self.patch(pod, &patch).await {
                Ok(()) => return self.told = told,
                Err(error) if error.is_forbidden() => self.place = Place::Node,
                Err(error) => return tracing::warn!("cannot publish on {pod} what the drain waits for: {error}"),
            }
        }
        if let Place::Node = self.place {
            match self.tell_on_node(&value).await {
                Ok(()) => self.told = told,
                // Somebody else has changed it at the same moment: the next look tells again.
                Err(error) if error.code() == Some(409) => {}
                Err(error) => {
                    let node = &self.node;
                    tracing::warn!("cannot publish on {node} what the drain waits for: {error}; grant patch on pods");
                    self.place = Place::Nowhere;
                }
            }
        }
    }

    /// Only while the Node is claimed: what is told later nobody would take away.
    async fn tell_on_node(&self, value: &Value) -> Result<(), ApiError> {
        let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
        let node: Value = serde_json::from_slice(&self.api.get(&object(&self.node)).await?).map_err(unreadable)?;
        if !node["metadata"]["labels"][NODE_CLAIM].is_string() {
            return Ok(());
        }
        let version = &node["metadata"]["resourceVersion"];
        let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { WAITS: value } } });
        self.patch(&self.node, &patch).await
    }

    async fn patch(&self, subject: &Subject, patch: &Value) -> Result<(), ApiError> {
        self.api.patch(&format!("{}?fieldManager={FIELD_MANAGER}", object(subject)), patch).await.map(drop)
    }
}

/// What is to be told now; none if that is no news.
fn news<'a>(told: &[Wait], replaces: bool, waits: &'a [Wait], now: Timestamp) -> Option<Vec<&'a Wait>> {
    // Of few waits, one whose words have changed is still the same: that one VM fewer is on its way has time.
    let is_same = |told: &Wait, wait: &Wait| match replaces {
        true => (&told.subject, told.reason) == (&wait.subject, wait.reason),
        false => told.sentence == wait.sentence,
    };
    let is_over = told.iter().any(|told| !waits.iter().any(|wait| is_same(told, wait)));
    let lasts = |wait: &Wait| now.duration_since(wait.since) >= WORTH_TELLING;
    let is_new = |wait: &Wait| lasts(wait) && !told.iter().any(|told| told.sentence == wait.sentence);
    let is_told = |wait: &Wait| told.iter().any(|told| is_same(told, wait));
    let shown = waits.iter().filter(|wait| lasts(wait) || is_told(wait) || replaces && is_over);
    let shown: Vec<&Wait> = shown.take(SHOWN).collect();
    (is_over || shown.iter().any(|wait| is_new(wait))).then_some(shown)
}

#[cfg(test)]
mod tests {
    use drover_core::decision::Reason;

    use super::*;

    fn wait(reason: Reason, sentence: &str, since: &str) -> Wait {
        Wait::new(Subject::node("node-1"), reason, sentence, since.parse().unwrap())
    }

    fn told_at(told: &[Wait], replaces: bool, waits: &[Wait], now: &str) -> Option<Vec<String>> {
        let now = now.parse().unwrap();
        news(told, replaces, waits, now).map(|shown| shown.iter().map(|wait| wait.sentence.clone()).collect())
    }

    #[test]
    fn what_has_lasted_for_a_while_is_told_once() {
        let waits = [wait(Reason::VmsLeaving, "a", "2026-01-01T12:00:00Z")];
        assert_eq!(told_at(&[], false, &waits, "2026-01-01T12:00:09Z"), None);
        assert_eq!(told_at(&[], false, &waits, "2026-01-01T12:00:10Z"), Some(vec!["a".to_owned()]));
        assert_eq!(told_at(&waits, false, &waits, "2026-01-01T12:00:20Z"), None);
        assert_eq!(told_at(&waits, false, &[], "2026-01-01T12:00:20Z"), Some(Vec::new()));
    }

    #[test]
    fn what_is_over_is_taken_back_or_replaced_by_what_came_after_it() {
        let told = [wait(Reason::VolumeUnhealthy, "a", "2026-01-01T12:00:00Z")];
        let next = [wait(Reason::VmsLeaving, "b", "2026-01-01T12:00:30Z")];
        assert_eq!(told_at(&told, false, &next, "2026-01-01T12:00:30Z"), Some(Vec::new()));
        assert_eq!(told_at(&told, true, &next, "2026-01-01T12:00:30Z"), Some(vec!["b".to_owned()]));
        // That stays so, although it has not lasted for long.
        assert_eq!(told_at(&next, true, &next, "2026-01-01T12:00:31Z"), None);
    }

    #[test]
    fn other_words_for_the_same_wait_have_time() {
        let told = [wait(Reason::VmsLeaving, "vm-1, vm-2", "2026-01-01T12:00:00Z")];
        let fewer = [wait(Reason::VmsLeaving, "vm-1", "2026-01-01T12:00:30Z")];
        assert_eq!(told_at(&told, true, &fewer, "2026-01-01T12:00:31Z"), None);
        assert_eq!(told_at(&told, true, &fewer, "2026-01-01T12:00:40Z"), Some(vec!["vm-1".to_owned()]));
    }
}
