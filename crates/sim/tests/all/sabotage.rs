//! The campaigns can fail: each of many planted bugs is found.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use drover_sim::campaign::{Part, Regression, survey};
use drover_sim::sabotage::Sabotage;
use drover_sim::{Campaign, Outcome, Scenario, Schedule, Terms, run};

const SEED: u64 = 1;
const PREFACE: &str = "# Where each planted bug shows: looked at first. `make sabotage` searches for those that are not found there any more.\n";

/// Where a bug is searched for, the likely places first.
fn scenarios() -> Vec<Scenario> {
    let names = [
        "with-reboot",
        "servers-and-agents",
        "drain",
        "window-closed",
        "missing-secret",
        "failing-job",
        "hanging-job",
        "plan-deleted",
        "selector-narrowed",
        "beside-the-original",
        "never-returns",
        "without-cordon",
        "too-many-failed",
        "long-reboot",
        "guest-one-machine",
        "guest-three-machines",
        "guest-tkc-paused",
        "guest-two-follow",
        "harvester-one-node",
        "harvester-own-planner",
    ];
    names.iter().map(|name| scenario(name)).collect()
}

fn scenario(name: &str) -> Scenario {
    let mut all = drover_sim::scenario::built_in().unwrap().into_iter();
    all.find(|scenario| scenario.name == name).unwrap()
}

/// By the names of the bugs.
fn known_places() -> BTreeMap<String, Regression> {
    let lines = include_str!("../sabotage.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let place = |line: &str| {
        let (name, place) = line.split_once(' ').unwrap();
        (name.to_owned(), serde_json::from_str(place).unwrap())
    };
    lines.map(place).collect()
}

/// Measured by the run of an operator without bugs, so that one that gets nowhere is soon known.
fn run_with(sabotage: Sabotage, scenario: &Scenario, faults: &Schedule) -> Outcome {
    static CALM: Mutex<BTreeMap<String, Duration>> = Mutex::new(BTreeMap::new());
    let known = CALM.lock().unwrap().get(&scenario.name).copied();
    let calm = known.unwrap_or_else(|| {
        let calm = Duration::from_secs_f64(run(scenario, &Terms::calm(SEED)).unwrap().virtual_seconds);
        CALM.lock().unwrap().insert(scenario.name.clone(), calm);
        calm
    });
    let terms = Terms { calm: Some(calm), sabotage: Some(sabotage), ..Terms::of(faults.clone(), SEED) };
    run(scenario, &terms).unwrap()
}

/// What is said about a bug there; none if it does not show, or would without its faults, since they never happen.
fn shows(sabotage: Sabotage, place: &Regression) -> Option<String> {
    let outcome = run_with(sabotage, &scenario(&place.scenario), &place.faults);
    if !outcome.missed.is_empty() {
        return None;
    }
    outcome.violations.first().map(|violation| violation.sentence.clone())
}

/// First where others show, then in the campaigns.
fn search(sabotage: Sabotage, known: &BTreeMap<String, Regression>) -> Option<Regression> {
    let mut places: Vec<&Regression> = known.values().collect();
    places.sort_by_key(|place| place.faults.faults.len());
    if let Some(place) = places.into_iter().find(|place| shows(sabotage, place).is_some()) {
        return Some(place.clone());
    }
    // Most bugs show without any fault at all.
    let calm =
        scenarios().into_iter().map(|scenario| at_peace(&scenario.name)).find(|place| shows(sabotage, place).is_some());
    calm.or_else(|| {
        let campaign =
            |scenario| Campaign { sabotage: Some(sabotage), first_only: true, ..Campaign::new(scenario, SEED) };
        let surveyed = survey(scenarios().into_iter().map(campaign).collect()).unwrap();
        surveyed.into_iter().find_map(|surveyed| {
            let scenario = surveyed.scenario().clone();
            let report = surveyed.run(&[Part::Pairs, Part::Crashes], &|_, _| ()).unwrap();
            let found =
                report.failures.first().map(|failure| failure.regression.clone()).filter(is_at_peace_without_a_bug)?;
            let by_purpose = by_purpose(sabotage, &scenario, &found);
            Some(if shows(sabotage, &by_purpose).is_some() { by_purpose } else { found })
        })
    })
}

fn at_peace(scenario: &str) -> Regression {
    Regression { scenario: scenario.to_owned(), seed: SEED, faults: Schedule::default() }
}

/// The same place, told by what its writes are for.
fn by_purpose(sabotage: Sabotage, scenario: &Scenario, place: &Regression) -> Regression {
    let writes = run_with(sabotage, scenario, &Schedule::default()).at_writes;
    Regression { faults: place.faults.clone().by_purpose(&writes), ..place.clone() }
}

/// `UPDATE=1` notes where those were found that do not show any more where they did.
#[test]
fn every_planted_bug_is_found() {
    let known = known_places();
    let mut places = BTreeMap::new();
    let mut missed = Vec::new();
    for sabotage in Sabotage::ALL {
        let name = sabotage.name();
        let shown = known.get(&name).and_then(|place| Some((place.clone(), shows(*sabotage, place)?)));
        let found = shown.or_else(|| {
            let place = search(*sabotage, &known)?;
            println!("{name} shows somewhere else than in sabotage.txt");
            let sentence = shows(*sabotage, &place)?;
            Some((place, sentence))
        });
        match found {
            Some((place, sentence)) => {
                let line = serde_json::to_string(&place).unwrap();
                println!("{name} {line}: {sentence}");
                places.insert(name, line);
            }
            None => missed.push(format!("{name}: {}", sabotage.sentence())),
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        let lines: String = places.iter().map(|(name, line)| format!("{name} {line}\n")).collect();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sabotage.txt");
        std::fs::write(file, format!("{PREFACE}{lines}")).unwrap();
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// What finds a planted bug finds nothing where none is planted.
#[test]
fn without_a_planted_bug_nothing_is_found() {
    for place in known_places().into_values() {
        let outcome = without_a_bug(&place);
        assert_eq!(outcome.violations, [], "{}:\n{}", place.scenario, outcome.trace().join("\n"));
    }
}

fn is_at_peace_without_a_bug(place: &Regression) -> bool {
    without_a_bug(place).violations.is_empty()
}

fn without_a_bug(place: &Regression) -> Outcome {
    let scenario = scenario(&place.scenario);
    let calm = run(&scenario, &Terms::calm(SEED)).unwrap();
    let calm = Some(Duration::from_secs_f64(calm.virtual_seconds));
    run(&scenario, &Terms { calm, ..Terms::of(place.faults.clone(), SEED) }).unwrap()
}
