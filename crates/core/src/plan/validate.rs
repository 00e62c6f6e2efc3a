//! Is a Plan sound? Whatever would make it hang, or end without having done anything, is said before it starts.

use drover_api::marks;
use drover_api::plan::{PlanSpec, conditions};

use super::duration::GoDuration;
use super::expand::expand;
use super::selector::Selector;
use super::syntax::{label_key_problem, label_value_problem};
use super::version::munge;
use super::window::Window;

/// The first thing that is wrong with a Plan, as its condition `Validated` says it. The checks that users know from
/// system-upgrade-controller come first, in its order and words. That Secrets are there is checked with the hash.
pub fn problem(name: &str, spec: &PlanSpec) -> Option<String> {
    drain(spec)
        .or_else(|| window(spec))
        .or_else(|| delay(spec))
        .or_else(|| selects_nothing(spec))
        .or_else(|| never_opens(spec))
        .or_else(|| not_a_label(name, spec))
        .or_else(|| rejected_pod(spec))
        .or_else(|| rejected_labels(spec))
}

fn drain(spec: &PlanSpec) -> Option<String> {
    let drain = spec.drain.as_ref()?;
    if drain.delete_emptydir_data.is_some() && drain.delete_local_data.is_some() {
        return Some(conditions::DRAIN_DELETES_TWICE.to_owned());
    }
    Selector::parse(drain.pod_selector.as_ref()?).err().map(|problem| problem.to_string())
}

fn window(spec: &PlanSpec) -> Option<String> {
    let problem = Window::parse(spec.window.as_ref()?).err()?;
    Some(conditions::invalid_window(&problem.to_string()))
}

fn delay(spec: &PlanSpec) -> Option<String> {
    let text = spec.post_complete_delay.as_ref()?;
    match GoDuration::parse(text) {
        None => Some(format!("spec.postCompleteDelay is not a duration: write {text:?} as 30s, 5m or 1h30m")),
        Some(delay) => delay.is_negative().then(|| conditions::NEGATIVE_DELAY.to_owned()),
    }
}

fn selects_nothing(spec: &PlanSpec) -> Option<String> {
    if spec.concurrency < 1 {
        return Some(
            "spec.concurrency is absent or below 1, so that no node would be upgraded: set it to 1 or more".to_owned(),
        );
    }
    match &spec.node_selector {
        None => Some(
            "spec.nodeSelector is absent, so that no node would be upgraded: set it, to {} if all nodes are meant"
                .to_owned(),
        ),
        Some(selector) => {
            let problem = Selector::parse(selector).err()?;
            Some(format!("spec.nodeSelector is invalid, {problem}: correct it, or no node would be upgraded"))
        }
    }
}

fn never_opens(spec: &PlanSpec) -> Option<String> {
    let window = spec.window.as_ref()?;
    window.days.iter().all(String::is_empty).then(|| {
        "spec.window.days is empty, so that the window never opens: list days such as mo, or remove spec.window"
            .to_owned()
    })
}

/// Name and version are values of labels on every Job.
fn not_a_label(name: &str, spec: &PlanSpec) -> Option<String> {
    if let Some(problem) = label_value_problem(name) {
        return Some(format!("metadata.name cannot be a label, {problem}: create the Plan under a shorter name"));
    }
    let problem = label_value_problem(&munge(&spec.version))?;
    Some(format!("spec.version cannot be a label, {problem}: give a version that can"))
}

/// What the API server would refuse on every node that is done.
fn rejected_labels(spec: &PlanSpec) -> Option<String> {
    let hash = "0".repeat(56);
    spec.post_complete_labels.iter().find_map(|(key, value)| {
        let of_key = || {
            let reserved = key.starts_with(marks::PREFIX).then(|| "is reserved for Drover".to_owned());
            reserved.or_else(|| label_key_problem(key))
        };
        let of_value = || label_value_problem(&expand(value, &munge(&spec.version), &hash));
        let problem = of_key().or_else(of_value)?;
        Some(format!("spec.postCompleteLabels has {key:?}, which no node can carry, {problem}: correct it"))
    })
}

/// What the API server would refuse in every Job.
fn rejected_pod(spec: &PlanSpec) -> Option<String> {
    let images = [("upgrade", Some(&spec.upgrade)), ("prepare", spec.prepare.as_ref())];
    for (container, of) in images {
        if of.is_some_and(|container| container.image.is_empty()) {
            return Some(format!("spec.{container}.image is empty: name an image"));
        }
    }
    let declared = |name: &str| spec.upgrade.volumes.iter().any(|volume| volume.name == name);
    let undeclared = spec.prepare.as_ref()?.volumes.iter().find(|volume| !declared(&volume.name))?;
    Some(format!(
        "spec.prepare.volumes has {:?}, which spec.upgrade.volumes does not have: add it there, too",
        undeclared.name
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A sound Plan with `changes` merged over its spec.
    fn changed(changes: Value) -> PlanSpec {
        let mut spec = json!({
            "concurrency": 1,
            "version": "1.0",
            "nodeSelector": { "matchLabels": { "pool": "a" } },
            "upgrade": { "image": "ubuntu" },
        });
        for (field, value) in changes.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        serde_json::from_value(spec).unwrap()
    }

    fn said_of(changes: Value) -> String {
        problem("plan", &changed(changes)).unwrap_or_default()
    }

    #[test]
    fn a_sound_plan_has_no_problem() {
        let spec = changed(json!({
            "nodeSelector": {},
            "drain": { "deleteEmptydirData": true, "podSelector": { "matchLabels": { "a": "b" } } },
            "window": { "days": ["su"], "startTime": "22:00", "endTime": "02:00", "timeZone": "Europe/Berlin" },
            "postCompleteDelay": "1s",
            "version": "v1.30.4+k3s1",
            "prepare": { "image": "a", "volumes": [{ "name": "v", "source": "/s", "destination": "/d" }] },
            "upgrade": { "image": "u", "volumes": [{ "name": "v", "source": "/s", "destination": "/d" }] },
        }));

        assert_eq!(problem(&"x".repeat(63), &spec), None);
    }

    #[test]
    fn both_names_of_one_drain_option_contradict_each_other() {
        for (local, emptydir) in [(true, true), (true, false)] {
            let drain = json!({ "drain": { "deleteLocalData": local, "deleteEmptydirData": emptydir } });
            assert_eq!(said_of(drain), "spec.drain cannot specify both deleteEmptydirData and deleteLocalData");
        }
    }

    #[test]
    fn a_pod_selector_that_cannot_be_read_is_said_as_the_original_does() {
        let expression = json!({ "key": "a", "operator": "Near", "values": ["b"] });

        assert_eq!(
            said_of(json!({ "drain": { "podSelector": { "matchExpressions": [expression] } } })),
            r#""Near" is not a valid label selector operator"#
        );
    }

    #[test]
    fn a_window_that_cannot_be_read_is_said_as_the_original_does() {
        let window = json!({ "days": ["su"], "startTime": "xx", "endTime": "23:00" });

        assert_eq!(said_of(json!({ "window": window })), "spec.window is invalid, Invalid time format: xx");
    }

    #[test]
    fn a_delay_must_be_a_duration_and_not_negative() {
        assert_eq!(said_of(json!({ "postCompleteDelay": "-30s" })), "spec.postCompleteDelay is negative");
        assert_eq!(
            said_of(json!({ "postCompleteDelay": "5 minutes" })),
            r#"spec.postCompleteDelay is not a duration: write "5 minutes" as 30s, 5m or 1h30m"#
        );
        assert_eq!(said_of(json!({ "postCompleteDelay": "0s" })), "");
    }

    #[test]
    fn a_plan_that_could_select_no_node_is_not_complete_but_wrong() {
        for concurrency in [json!(null), json!(0), json!(-1)] {
            assert_eq!(
                said_of(json!({ "concurrency": concurrency })),
                "spec.concurrency is absent or below 1, so that no node would be upgraded: set it to 1 or more"
            );
        }
        assert_eq!(
            said_of(json!({ "nodeSelector": null })),
            "spec.nodeSelector is absent, so that no node would be upgraded: set it, to {} if all nodes are meant"
        );
        assert_eq!(
            said_of(json!({ "nodeSelector": { "matchExpressions": [{ "key": "a", "operator": "in" }] } })),
            "spec.nodeSelector is invalid, \"in\" is not a valid label selector operator: \
             correct it, or no node would be upgraded"
        );
    }

    #[test]
    fn a_window_without_days_never_opens() {
        assert_eq!(
            said_of(json!({ "window": { "startTime": "22:00", "endTime": "23:00" } })),
            "spec.window.days is empty, so that the window never opens: list days such as mo, or remove spec.window"
        );
    }

    #[test]
    fn a_name_or_version_that_is_no_label_is_refused_before_a_job_is() {
        assert_eq!(
            problem(&"x".repeat(64), &changed(json!({}))).unwrap(),
            "metadata.name cannot be a label, must be no more than 63 characters: create the Plan under a shorter name"
        );
        let version = said_of(json!({ "version": "1~2" }));
        assert!(version.starts_with("spec.version cannot be a label, a valid label must"), "{version}");
        assert!(version.ends_with(": give a version that can"), "{version}");
    }

    #[test]
    fn a_container_needs_an_image() {
        assert_eq!(said_of(json!({ "upgrade": { "image": "" } })), "spec.upgrade.image is empty: name an image");
        assert_eq!(said_of(json!({ "prepare": { "image": "" } })), "spec.prepare.image is empty: name an image");
    }

    #[test]
    fn volumes_of_prepare_must_be_those_of_upgrade() {
        let prepare = json!({ "image": "a", "volumes": [{ "name": "pv", "source": "/s", "destination": "/d" }] });

        assert_eq!(
            said_of(json!({ "prepare": prepare })),
            r#"spec.prepare.volumes has "pv", which spec.upgrade.volumes does not have: add it there, too"#
        );
    }

    #[test]
    fn labels_that_no_node_can_carry_are_refused_before_a_node_is_touched() {
        let said = |key: &str, value: &str| said_of(json!({ "postCompleteLabels": { key: value } }));

        assert_eq!(said("test.cattle.io/upgraded-hash", "$(LATEST_HASH)-$(LATEST_VERSION)"), "");
        assert!(
            said("a b", "x").starts_with(r#"spec.postCompleteLabels has "a b", which no node can carry, name part"#)
        );
        assert!(said("a", "x y").contains("a valid label must"));
        assert!(said("drover.dev/claim", "x").contains("is reserved for Drover"));
    }

    #[test]
    fn what_the_original_checks_is_said_first() {
        let spec = changed(json!({ "concurrency": 0, "postCompleteDelay": "-1s" }));

        assert_eq!(problem(&"x".repeat(64), &spec).unwrap(), "spec.postCompleteDelay is negative");
    }
}
