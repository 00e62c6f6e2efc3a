//! Schedules under which something went wrong once: each a line of `regressions.txt`.

use std::time::Duration;

use drover_sim::campaign::Regression;
use drover_sim::{Schedule, Terms, run};

#[test]
fn what_went_wrong_once_goes_right_now() {
    let scenarios = drover_sim::scenario::built_in().unwrap();
    let lines = include_str!("../regressions.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let Regression { scenario, seed, faults } = serde_json::from_str(line).unwrap();
        let scenario = scenarios.iter().find(|known| known.name == scenario).unwrap();
        let calm = run(scenario, &Terms::of(Schedule::default(), seed)).unwrap();
        let calm = Some(Duration::from_secs_f64(calm.virtual_seconds));
        let outcome = run(scenario, &Terms { calm, ..Terms::of(faults, seed) }).unwrap();
        assert_eq!(outcome.violations, [], "{line}\n{}", outcome.trace().join("\n"));
    }
}
