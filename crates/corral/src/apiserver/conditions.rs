//! Conditions in a status.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{Object, moment};

/// Sets a condition; its transition time changes only with its status.
pub(crate) fn set(status: &mut Object, mut condition: Value, at: Timestamp) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else { return };
    let place = conditions.iter().position(|found| found["type"] == condition["type"]);
    let kept = place.map(|place| &conditions[place]).filter(|found| found["status"] == condition["status"]);
    condition["lastTransitionTime"] = kept.map_or_else(|| moment(at), |found| found["lastTransitionTime"].clone());
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_stays_true_keeps_its_transition_time() {
        let (noon, later) = ("2026-01-01T12:00:00Z".parse().unwrap(), "2026-01-01T13:00:00Z".parse().unwrap());
        let mut status = Object::new();
        set(&mut status, json!({ "type": "Ready", "status": "True", "reason": "A" }), noon);
        set(&mut status, json!({ "type": "Ready", "status": "True", "reason": "B" }), later);
        assert_eq!(
            status["conditions"],
            json!([{ "type": "Ready", "status": "True", "reason": "B", "lastTransitionTime": "2026-01-01T12:00:00Z" }])
        );
        set(&mut status, json!({ "type": "Ready", "status": "False" }), later);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "2026-01-01T13:00:00Z");
    }
}
