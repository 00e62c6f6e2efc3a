//! Cuts a script in which two sides differ down to the few steps that it takes.

use crate::compare::{Difference, differences};
use crate::error::Result;
use crate::known::Known;
use crate::script::Script;
use crate::side::Side;

/// The first difference in a script that nothing excuses.
pub fn first_difference(
    script: &Script,
    real: &dyn Side,
    corral: &dyn Side,
    known: &Known,
) -> Result<Option<Difference>> {
    let found = differences(&script.name, &real.answers(script)?, &corral.answers(script)?);
    Ok(found.into_iter().find_map(|difference| known.unexcused(difference)))
}

/// A shortest script, by leaving out steps, at whose end the two sides still differ.
pub fn shrink(
    script: &Script,
    until: &Difference,
    real: &dyn Side,
    corral: &dyn Side,
    known: &Known,
) -> Result<Script> {
    let mut shrunk = Script { steps: script.steps[..until.number].to_vec(), ..script.clone() };
    let mut piece = shrunk.steps.len() / 2;
    while piece > 0 {
        let mut start = 0;
        // The last step is the one that differs, and stays.
        while start + 1 < shrunk.steps.len() {
            let end = (start + piece).min(shrunk.steps.len() - 1);
            let mut shorter = shrunk.clone();
            shorter.steps.drain(start..end);
            let differs = first_difference(&shorter, real, corral, known)?;
            if differs.is_some_and(|found| found.number == shorter.steps.len()) {
                shrunk = shorter;
            } else {
                start = end;
            }
        }
        piece /= 2;
    }
    Ok(shrunk)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::answers::Answered;
    use crate::script::{Ask, Step};

    /// Answers each step with nothing, but the last with `odd` if a step before it asked for /cause.
    struct Counting {
        odd: &'static str,
        plays: Cell<usize>,
    }

    impl Side for Counting {
        fn answers(&self, script: &Script) -> Result<Vec<Answered>> {
            self.plays.set(self.plays.get() + 1);
            let caused = script.steps.iter().any(|step| step.title() == "GET /cause");
            let answer = |step: &Step| match step.title().as_str() {
                "GET /effect" if caused => json!(self.odd),
                _ => json!("same"),
            };
            Ok(script.steps.iter().map(|step| Answered { step: step.title(), answer: answer(step) }).collect())
        }
    }

    #[test]
    fn only_cause_and_effect_are_left() {
        let ask = |path: &str| Step::Ask(Ask::new("GET", path));
        let mut steps: Vec<Step> = (0..20).map(|number| ask(&format!("/{number}"))).collect();
        steps[7] = ask("/cause");
        steps.push(ask("/effect"));
        steps.push(ask("/after"));
        let script = Script { name: "test".into(), about: String::new(), definitions: vec![], steps };
        let (real, corral) = (Counting { odd: "a", plays: Cell::new(0) }, Counting { odd: "b", plays: Cell::new(0) });
        let known = Known::default();

        let found = first_difference(&script, &real, &corral, &known).unwrap().unwrap();
        let shrunk = shrink(&script, &found, &real, &corral, &known).unwrap();

        assert_eq!(shrunk.steps, [ask("/cause"), ask("/effect")]);
        assert!(real.plays.get() < 40, "{} plays", real.plays.get());
    }
}
