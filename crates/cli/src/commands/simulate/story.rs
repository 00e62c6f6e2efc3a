//! How a run went wrong: what was done to it, what should not have happened, everything up to there, and how to see it
//! again.

use drover_sim::campaign::Failure;
use drover_sim::{Outcome, Scenario, Schedule};

pub fn tell_failure(failure: &Failure) -> String {
    let mut text = format!("\n{} went wrong.\n", failure.scenario);
    text.push_str(&tell_parts(&failure.scenario, &failure.schedule, &failure.outcome, &failure.trace));
    let line = serde_json::to_string(&failure.regression).unwrap_or_default();
    text.push_str(&format!("\nas a test, a line in crates/sim/tests/regressions.txt:\n  {line}\n"));
    text
}

pub fn tell(scenario: &Scenario, schedule: &Schedule, outcome: &Outcome, trace: &[String]) -> String {
    tell_parts(&scenario.name, schedule, outcome, trace)
}

fn tell_parts(scenario: &str, faults: &Schedule, outcome: &Outcome, trace: &[String]) -> String {
    let mut text = String::from("\nwhat was done to it:\n");
    for line in schedule(faults) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str("\nwhat must not happen:\n");
    for violation in &outcome.violations {
        text.push_str(&format!("  {:.3} s: {}\n", violation.seconds, violation.sentence));
    }
    text.push_str("\nwhat happened:\n");
    for line in trace {
        text.push_str(&format!("  {line}\n"));
    }
    let json = serde_json::to_string(faults).unwrap_or_default();
    text.push_str(&format!(
        "\nsee it again:\n  drover simulate --scenario {scenario} --seed {} --faults '{json}'\n",
        outcome.seed
    ));
    text
}

/// A schedule in sentences.
pub fn schedule(schedule: &Schedule) -> Vec<String> {
    let lines: Vec<String> = schedule.faults.iter().map(ToString::to_string).collect();
    if lines.is_empty() { vec!["nothing".to_owned()] } else { lines }
}

/// `1 write`, `2 writes`
pub fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use drover_sim::Fault;

    use super::*;

    #[test]
    fn a_schedule_reads_as_sentences() {
        let mut faults = Schedule::one(3, Fault::Refused(409));
        faults.faults.extend(Schedule::one(5, Fault::LandsAfter(1)).faults);
        assert_eq!(
            schedule(&faults),
            ["write 3: it is refused with 409", "write 5: the operator dies, and it lands 1 write later"]
        );
        assert_eq!(schedule(&Schedule::default()), ["nothing"]);
    }
}
