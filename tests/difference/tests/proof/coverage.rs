//! The scripts leave nothing out: each verb, patch, selector, part of an object that is served, and each kind of bad
//! input stands in one of them.

use std::collections::BTreeSet;

use drover_difference::{Answered, Ask, Corral, Folder, Result, Script, Side as _, Step, recording};
use serde_json::{Value, json};

/// One request of a script, with what the real server answered.
struct Exchange {
    ask: Ask,
    answer: Value,
}

fn exchanges() -> Result<Vec<Exchange>> {
    let folder = Folder::here();
    let mut all = vec![];
    for script in folder.scripts()? {
        let recorded = recording::read(&folder.recording(&script.name), &script)?;
        for (step, Answered { answer, .. }) in script.steps.into_iter().zip(recorded) {
            match step {
                Step::Ask(ask) | Step::Watch { ask, .. } => all.push(Exchange { ask, answer }),
                // What a watch says is an answer, too.
                Step::Read { .. } => all.push(Exchange { ask: Ask::default(), answer }),
                Step::Compact => {}
            }
        }
    }
    Ok(all)
}

impl Exchange {
    fn path(&self) -> &str {
        self.ask.path.split('?').next().unwrap_or_default()
    }

    fn asks_for(&self, text: &str) -> bool {
        self.ask.path.contains(text)
    }

    fn code(&self) -> u64 {
        self.answer["code"].as_u64().unwrap_or_default()
    }

    fn succeeds(&self) -> bool {
        (200..300).contains(&self.code())
    }

    /// Whether the answer is this refusal.
    fn says(&self, code: u64, text: &str) -> bool {
        self.code() == code && self.answer["body"]["message"].as_str().is_some_and(|said| said.contains(text))
    }

    fn warns(&self, text: &str) -> bool {
        self.answer["warnings"].to_string().contains(text)
    }

    fn complains_of(&self, field: &str) -> bool {
        let causes = self.answer["body"]["details"]["causes"].as_array();
        self.code() == 422 && causes.into_iter().flatten().any(|cause| cause["field"] == field)
    }

    /// The parts of the path behind the version: a namespace, a resource, a name, a part of the object.
    fn resource(&self) -> Vec<&str> {
        let parts: Vec<&str> = self.path().trim_matches('/').split('/').collect();
        let behind = if parts.first() == Some(&"api") { 2 } else { 3 };
        let rest = parts.get(behind..).unwrap_or_default();
        match rest {
            ["namespaces", _, "finalize" | "status"] | ["namespaces"] | ["namespaces", _] => rest.to_vec(),
            ["namespaces", _, inside @ ..] => inside.to_vec(),
            _ => rest.to_vec(),
        }
    }

    /// Such as `pods/log`.
    fn part(&self) -> Option<String> {
        match self.resource().as_slice() {
            [plural, _, part, ..] => Some(format!("{plural}/{part}")),
            _ => None,
        }
    }
}

/// A name for each thing to cover, and whether an exchange covers it.
type Wanted<'a> = (&'a str, fn(&Exchange) -> bool);

fn missing(wanted: &[Wanted<'_>]) -> Result<Vec<String>> {
    let all = exchanges()?;
    let missing = wanted.iter().filter(|(_, covers)| !all.iter().any(covers));
    Ok(missing.map(|(name, _)| (*name).to_owned()).collect())
}

#[test]
fn each_verb_has_succeeded() -> Result<()> {
    let wanted: [Wanted<'_>; 8] = [
        ("get", |one| one.ask.method == "GET" && one.resource().len() == 2 && one.succeeds()),
        ("list", |one| one.ask.method == "GET" && one.resource().len() == 1 && one.succeeds()),
        ("watch", |one| one.asks_for("watch=true") && one.succeeds()),
        ("create", |one| one.ask.method == "POST" && one.code() == 201),
        ("update", |one| one.ask.method == "PUT" && one.code() == 200),
        ("patch", |one| one.ask.method == "PATCH" && one.code() == 200),
        ("delete", |one| one.ask.method == "DELETE" && one.resource().len() == 2 && one.succeeds()),
        ("deletecollection", |one| one.ask.method == "DELETE" && one.resource().len() == 1 && one.succeeds()),
    ];
    assert_eq!(missing(&wanted)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn each_form_of_patch_has_changed_an_object_a_status_and_a_scale() -> Result<()> {
    let all = exchanges()?;
    for form in ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
        for part in ["", "status", "scale"] {
            let covers = |one: &&Exchange| {
                let of = one.ask.headers.get("content-type").map(String::as_str).unwrap_or_default();
                let here = one.part().map(|part| part.split_once('/').unwrap_or_default().1.to_owned());
                of == format!("application/{form}") && here.as_deref().unwrap_or_default() == part && one.succeeds()
            };
            let covered = all.iter().any(|one| covers(&one));
            assert!(covered, "no {form} of {}", if part.is_empty() { "an object" } else { part });
        }
    }
    Ok(())
}

#[test]
fn each_form_of_selector_has_selected() -> Result<()> {
    let wanted: [Wanted<'_>; 13] = [
        ("label equals", |one| one.asks_for("labelSelector=app%3Dweb") && one.succeeds()),
        ("label equals, doubled", |one| one.asks_for("labelSelector=app%3D%3Dweb") && one.succeeds()),
        ("label differs", |one| one.asks_for("labelSelector=app!%3Dweb") && one.succeeds()),
        ("label is there", |one| one.ask.path.ends_with("labelSelector=app") && one.succeeds()),
        ("label is not there", |one| one.asks_for("labelSelector=!app") && one.succeeds()),
        ("label in", |one| one.asks_for("+in+(") && one.succeeds()),
        ("label not in", |one| one.asks_for("+notin+(") && one.succeeds()),
        ("label greater", |one| one.asks_for("%3E5") && one.succeeds()),
        ("label less", |one| one.asks_for("%3C5") && one.succeeds()),
        ("field equals", |one| one.asks_for("fieldSelector=metadata.name%3D") && one.succeeds()),
        ("field differs", |one| one.asks_for("fieldSelector=metadata.name!%3D") && one.succeeds()),
        ("field of a kind", |one| one.asks_for("fieldSelector=spec.nodeName%3D") && one.succeeds()),
        ("fields of a watch", |one| one.asks_for("watch=1&fieldSelector=metadata.name") && one.succeeds()),
    ];
    assert_eq!(missing(&wanted)?, Vec::<String>::new());
    Ok(())
}

/// Parts that discovery names and that no script can compare, each with its reason.
const NOT_COMPARED: [(&str, &str); 11] = [
    ("nodes/proxy", "is answered by a kubelet, and there is none behind the real server"),
    ("pods/attach", "is a conversation with a container, and none runs behind the real server"),
    ("pods/portforward", "is a conversation with a container, and none runs behind the real server"),
    ("pods/proxy", "is answered by a container; not served"),
    ("services/proxy", "is answered by a container; not served"),
    ("certificatesigningrequests/approval", "of a kind that is only stored"),
    ("replicationcontrollers/scale", "of a kind that is only stored"),
    ("apiservices/status", "of a kind that is only stored"),
    ("cronjobs/status", "of a kind that is only stored"),
    ("horizontalpodautoscalers/status", "of a kind that is only stored"),
    ("resourcequotas/status", "of a kind that is only stored"),
];

#[test]
fn each_part_of_an_object_that_is_served_has_been_asked_for() -> Result<()> {
    let covered: BTreeSet<String> = exchanges()?.iter().filter_map(Exchange::part).collect();
    let excluded: BTreeSet<&str> = NOT_COMPARED.iter().map(|(part, _)| *part).collect();
    // The status of a kind is one thing, whatever the kind: some are enough.
    let is_status = |part: &String| part.ends_with("/status");
    let open: Vec<String> = served_parts()?
        .into_iter()
        .filter(|part| !covered.contains(part) && !excluded.contains(part.as_str()) && !is_status(part))
        .collect();
    assert_eq!(open, Vec::<String>::new());
    for part in ["pods/status", "nodes/status", "jobs/status", "poddisruptionbudgets/status", "namespaces/status"] {
        assert!(covered.contains(part), "{part}");
    }
    for part in ["things/status", "things/scale"] {
        assert!(covered.contains(part), "{part} of a custom kind");
    }
    Ok(())
}

/// What Corral's discovery names, such as `pods/log`.
fn served_parts() -> Result<BTreeSet<String>> {
    let groups = ask_corral(&["/apis".into()])?;
    let versions = groups[0]["groups"].as_array().into_iter().flatten().flat_map(|group| {
        let versions = group["versions"].as_array().cloned().unwrap_or_default();
        versions.into_iter().map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap_or_default()))
    });
    let paths: Vec<String> = versions.chain(["/api/v1".into()]).collect();
    let names =
        ask_corral(&paths)?.into_iter().flat_map(|list| list["resources"].as_array().cloned().unwrap_or_default());
    let names = names.filter_map(|resource| resource["name"].as_str().map(str::to_owned));
    Ok(names.filter(|name| name.contains('/')).collect())
}

fn ask_corral(paths: &[String]) -> Result<Vec<Value>> {
    let steps = paths.iter().map(|path| Step::Ask(Ask { method: "GET".into(), path: path.clone(), ..Ask::default() }));
    let script = Script { name: "parts".into(), about: String::new(), definitions: vec![], steps: steps.collect() };
    Ok(Corral.answers(&script)?.into_iter().map(|answered| answered.answer["body"].clone()).collect())
}

#[test]
fn each_kind_of_bad_input_has_been_refused() -> Result<()> {
    let wanted: [Wanted<'_>; 27] = [
        ("malformed JSON", |one| one.says(400, "json parse error")),
        ("malformed YAML", |one| one.says(400, "yaml")),
        ("a content type that is not read", |one| one.ask.method == "POST" && one.code() == 415),
        ("a form of patch that there is not", |one| one.ask.method == "PATCH" && one.code() == 415),
        ("an answer in a form that is not written", |one| one.code() == 406),
        ("a body over the limit", |one| one.says(413, "limit is 3145728")),
        ("a name", |one| one.complains_of("metadata.name")),
        ("a label", |one| one.complains_of("metadata.labels")),
        ("a label selector", |one| one.says(400, "unable to parse requirement")),
        ("a field selector", |one| one.says(400, "field label not supported")),
        ("unknown fields, strictly", |one| one.says(400, "strict decoding error: unknown field")),
        ("unknown fields, with a warning", |one| one.succeeds() && one.warns("unknown field")),
        ("unknown fields, silently", |one| one.asks_for("fieldValidation=Ignore") && one.code() == 201),
        ("a doubled field", |one| one.says(400, "duplicate field")),
        ("a violation of a schema", |one| one.says(422, "should be less than or equal to")),
        ("a violation of a rule", |one| one.says(422, "failed rule")),
        ("a violation of a policy", |one| one.says(422, "ValidatingAdmissionPolicy")),
        ("an immutable field", |one| one.says(422, "field is immutable")),
        ("a stale version", |one| one.says(409, "the object has been modified")),
        ("an expired token of a list", |one| one.says(410, "The provided continue parameter is too old")),
        ("an expired watch", |one| one.answer["events"].to_string().contains("too old resource version")),
        ("a conflict of an apply", |one| one.says(409, "Apply failed with")),
        ("a patch that does not apply", |one| {
            one.ask.method == "PATCH" && one.says(422, "the server rejected our request")
        }),
        ("an eviction against a budget", |one| one.says(429, "disruption budget")),
        ("a delete of another object", |one| {
            one.ask.method == "DELETE" && one.says(409, "the UID in the precondition")
        }),
        ("a delete of another version", |one| {
            one.ask.method == "DELETE" && one.says(409, "the ResourceVersion in the precondition")
        }),
        ("a watch that is cut", |one| one.answer["ended"] == json!(true)),
    ];
    assert_eq!(missing(&wanted)?, Vec::<String>::new());
    Ok(())
}
