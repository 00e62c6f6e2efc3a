//! Conditions as other products write them, and times as text.

use drover_api::foreign::LooseCondition;
use jiff::Timestamp;

use super::outcome::stamp;

/// `now` as objects of other products keep it.
pub fn text(now: Timestamp) -> String {
    stamp(now).0.to_string()
}

/// The moment that a text names.
pub fn moment(text: Option<&String>) -> Option<Timestamp> {
    text?.parse().ok()
}

pub fn find<'a>(conditions: Option<&'a Vec<LooseCondition>>, kind: &str) -> Option<&'a LooseCondition> {
    drover_api::foreign::condition(conditions, kind)
}

/// Sets a condition; the time of its last transition changes only with its status.
pub fn set(
    conditions: &mut Option<Vec<LooseCondition>>,
    kind: &str,
    status: &str,
    because: Option<(&str, &str)>,
    now: Timestamp,
) {
    let conditions = conditions.get_or_insert_default();
    let since = conditions
        .iter()
        .find(|condition| condition.type_ == kind && condition.status == status)
        .and_then(|condition| condition.last_transition_time.clone());
    let after = LooseCondition {
        type_: kind.into(),
        status: status.into(),
        last_update_time: None,
        last_transition_time: Some(since.unwrap_or_else(|| text(now))),
        reason: because.map(|(reason, _)| reason.into()).filter(|reason: &String| !reason.is_empty()),
        message: because.map(|(_, message)| message.into()).filter(|message: &String| !message.is_empty()),
    };
    put(conditions, after);
}

/// The same as wrangler does it: one time, which changes with the status and with the message.
pub fn set_as_wrangler(
    conditions: &mut Option<Vec<LooseCondition>>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let conditions = conditions.get_or_insert_default();
    let some = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let same = |before: &&LooseCondition| {
        before.type_ == kind && before.status == status && before.message.as_deref().unwrap_or_default() == message
    };
    let since = conditions.iter().find(same).and_then(|before| before.last_update_time.clone());
    let after = LooseCondition {
        type_: kind.into(),
        status: status.into(),
        last_update_time: Some(since.unwrap_or_else(|| text(now))),
        last_transition_time: None,
        reason: some(reason),
        message: some(message),
    };
    put(conditions, after);
}

fn put(conditions: &mut Vec<LooseCondition>, after: LooseCondition) {
    match conditions.iter_mut().find(|condition| condition.type_ == after.type_) {
        Some(condition) => *condition = after,
        None => conditions.push(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    #[test]
    fn a_condition_keeps_the_moment_at_which_it_turned() {
        let mut conditions = None;
        set(&mut conditions, "Ready", "False", Some(("Waits", "for a pod")), at(0));
        set(&mut conditions, "Ready", "False", Some(("Waits", "for a node")), at(5));
        let ready = find(conditions.as_ref(), "Ready").unwrap();
        assert_eq!(ready.last_transition_time, Some(text(at(0))));
        assert_eq!(ready.message.as_deref(), Some("for a node"));

        set(&mut conditions, "Ready", "True", None, at(9));
        let ready = find(conditions.as_ref(), "Ready").unwrap();
        assert_eq!((ready.last_transition_time.clone(), ready.reason.clone()), (Some(text(at(9))), None));
    }

    #[test]
    fn wrangler_tells_when_a_message_was_another_one() {
        let mut conditions = None;
        set_as_wrangler(&mut conditions, "Ready", "Unknown", "Waiting", "for one", at(0));
        set_as_wrangler(&mut conditions, "Ready", "Unknown", "Waiting", "for one", at(5));
        assert_eq!(find(conditions.as_ref(), "Ready").unwrap().last_update_time, Some(text(at(0))));
        set_as_wrangler(&mut conditions, "Ready", "Unknown", "Waiting", "for two", at(9));
        assert_eq!(find(conditions.as_ref(), "Ready").unwrap().last_update_time, Some(text(at(9))));
    }
}
