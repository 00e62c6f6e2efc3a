//! Schedules under which something went wrong once: each a line of `regressions.txt`.

use std::path::Path;
use std::time::Duration;

use drover_sim::campaign::Regression;
use drover_sim::{Schedule, Terms, run};

/// `UPDATE=1` tells those by what their writes are for that go by numbers.
#[test]
fn what_went_wrong_once_goes_right_now() {
    let scenarios = drover_sim::scenario::built_in().unwrap();
    let mut lines = String::new();
    for line in include_str!("../regressions.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            lines.extend([line, "\n"]);
            continue;
        }
        let Regression { scenario, seed, faults } = serde_json::from_str(line).unwrap();
        let scenario = scenarios.iter().find(|known| known.name == scenario).unwrap();
        let calm = run(scenario, &Terms::of(Schedule::default(), seed)).unwrap();
        let calm = Some(Duration::from_secs_f64(calm.virtual_seconds));
        let outcome = run(scenario, &Terms { calm, ..Terms::of(faults.clone(), seed) }).unwrap();
        assert_eq!(outcome.violations, [], "{line}\n{}", outcome.trace().join("\n"));
        assert_eq!(outcome.missed, [], "this never happens: find its moment anew");
        let faults = faults.by_purpose(&outcome.at_writes);
        let told = Regression { scenario: scenario.name.clone(), seed, faults };
        lines.extend([serde_json::to_string(&told).unwrap().as_str(), "\n"]);
    }
    if std::env::var_os("UPDATE").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions.txt");
        std::fs::write(file, lines).unwrap();
    }
}
