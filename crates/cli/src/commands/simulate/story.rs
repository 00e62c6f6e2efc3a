//! How a run went wrong: what was done to it, what should not have happened, and everything up to there.

use drover_sim::{Outcome, Schedule};

pub fn tell(faults: &Schedule, outcome: &Outcome, trace: &[String]) -> String {
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
    text
}

/// A schedule in sentences.
pub fn schedule(schedule: &Schedule) -> Vec<String> {
    let mut lines: Vec<String> =
        schedule.faults.iter().map(|(write, fault)| format!("write {write}: {fault}")).collect();
    if let Some(after) = schedule.second_leader_after {
        lines.push(format!("a second operator leads at the same time, from {after} ms on"));
    }
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines
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
        faults.faults.insert(5, Fault::LandsAfter(1));
        faults.second_leader_after = Some(700);
        assert_eq!(
            schedule(&faults),
            [
                "write 3: it is refused with 409",
                "write 5: the operator dies, and it lands 1 write later",
                "a second operator leads at the same time, from 700 ms on",
            ]
        );
        assert_eq!(schedule(&Schedule::default()), ["nothing"]);
    }
}
