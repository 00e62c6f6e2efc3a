//! The files of the folder `scenarios`: each goes as it says, and their schema is up to date.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use drover_sim::campaign::all_purposes;
use drover_sim::{Fault, Scenario, Terms, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

#[test]
fn each_goes_as_it_says_when_nothing_else_goes_wrong() {
    let (mut wrong, mut unlisted) = (Vec::new(), BTreeSet::new());
    let known: BTreeSet<String> = all_purposes().collect();
    for scenario in drover_sim::scenario::built_in().unwrap() {
        let outcome = run(&scenario, &Terms::calm(1)).unwrap();
        // What is written for a purpose that says so by itself is among what campaigns have to reach.
        let by_verb = outcome.purposes.keys().filter(|purpose| purpose.contains(' '));
        unlisted.extend(by_verb.filter(|purpose| !known.contains(*purpose)).cloned());
        if !outcome.violations.is_empty() {
            println!("{}:\n{}", scenario.name, outcome.trace().join("\n"));
            wrong.push((scenario.name, outcome.violations));
        }
    }
    assert_eq!(wrong, []);
    assert_eq!(unlisted, BTreeSet::new(), "crates/sim/src/campaign/reach.rs");
}

#[test]
fn each_file_is_built_in_under_its_own_name_and_says_what_it_shows() {
    let mut files: Vec<String> = folder()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let built_in = drover_sim::scenario::built_in().unwrap();
    assert!(built_in.iter().all(|scenario| scenario.about.ends_with('.')));
    let mut names: Vec<String> = built_in.into_iter().map(|scenario| scenario.name).collect();
    names.sort();
    assert_eq!(names, files);
}

/// `UPDATE=1 cargo test -p drover-sim --test all scenarios` writes it anew.
#[test]
fn the_schema_is_that_of_the_types() {
    let path = folder().join("schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Scenario)).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == schema,
        "{} is out of date: UPDATE=1 cargo test -p drover-sim --test all scenarios",
        path.display()
    );
}

/// What the schema calls a fault is a word or a field, alone or among others of a variant.
#[test]
fn every_fault_is_explained() {
    let schema = serde_json::to_value(schemars::schema_for!(Fault)).unwrap();
    let mut names: Vec<String> = Vec::new();
    for variant in schema["oneOf"].as_array().unwrap() {
        let words = variant["enum"].as_array().into_iter().flatten().chain([&variant["const"]]);
        names.extend(words.filter_map(|word| word.as_str()).map(str::to_owned));
        names.extend(variant["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    }
    assert!(names.len() > 40, "{names:?}");
    let guide = std::fs::read_to_string(folder().join("../docs/scenarios.md")).unwrap();
    let untold: Vec<&String> = names
        .iter()
        .filter(|name| !guide.contains(&format!("`{name}`")) && !guide.contains(&format!("`{name}: ")))
        .collect();
    assert!(untold.is_empty(), "docs/scenarios.md does not say what {untold:?} does");
}

#[test]
fn a_file_of_the_first_release_is_still_read() {
    let text = "name: mine\nnodes: 5\nfrom: v1\nto: v2\nconcurrency: 2\ncordon: false\ncordoned: [node-2]\n\
                jobSeconds: 10\nrebootSeconds: 3\n";
    let scenario = Scenario::parse("mine.yaml", text, Path::new(".")).unwrap();
    assert_eq!((scenario.nodes, scenario.concurrency, scenario.job_seconds), (5, 2, 10));
    assert_eq!(Scenario::parse("empty.yaml", "", Path::new(".")).unwrap(), Scenario::default());
}

#[test]
fn objects_of_a_real_cluster_can_be_named_by_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let list = r#"{"kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"real-1","labels":
        {"kubernetes.io/os":"linux","kubernetes.io/hostname":"real-1"},
        "annotations":{"corral.drover.dev/kubelet":"simulated"}}}]}"#;
    std::fs::write(folder.path().join("dump.json"), list).unwrap();
    let text = "name: real\nnodes: 0\nmanifests: dump.json\nexpect: { upgraded: [real-1] }\n";
    let scenario = Scenario::parse("real.yaml", text, folder.path()).unwrap();
    assert_eq!(scenario.manifests.len(), 1);
    let outcome = run(&scenario, &Terms::calm(1)).unwrap();
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let error = |text: &str| Scenario::parse("s.yaml", text, Path::new(".")).unwrap_err().to_string();
    assert!(error("nodez: 3").contains("nodez"));
    assert!(error("cordoned: [node-9]").contains("cordoned names node-9"));
    assert!(error("expect: { complete: [other] }").contains("other, which is no Plan"));
    assert!(error("faults: [{ at: { time: soon }, what: reboot }]").contains("soon"));
    assert!(error("faults: [{ at: { write: 3 }, what: explodes }]").contains("explodes"));
}
