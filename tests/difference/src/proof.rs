//! All scripts, written and generated, against one side or both.

use std::fmt;

use crate::answers::Answered;
use crate::compare::{Difference, differences};
use crate::error::Result;
use crate::folder::Folder;
use crate::known::Known;
use crate::recording;
use crate::script::Script;
use crate::side::{Corral, Real, Side};

/// The generated requests that every test run plays.
pub const SEED: u64 = 1;
pub const COUNT: usize = 5_000;

/// The scripts that a proof is about.
#[derive(Debug)]
pub struct Proof {
    folder: Folder,
    written: Vec<Script>,
    generated: Vec<Script>,
}

/// What a comparison of Corral with a real server came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub steps: usize,
    /// Steps whose answers differ, and only where that is known.
    pub excused: usize,
    /// What is left of the others when everything known is taken away.
    pub differing: Vec<Difference>,
}

impl Tally {
    fn add(&mut self, known: &Known, script: &Script, real: &[Answered], corral: &[Answered]) {
        self.steps += script.steps.len();
        for difference in differences(&script.name, real, corral) {
            match known.unexcused(difference) {
                Some(left) => self.differing.push(left),
                None => self.excused += 1,
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (differing, excused) = (self.differing.len(), self.excused);
        let equal = self.steps - differing - excused;
        write!(out, "{} steps: {equal} equal, {excused} excused, {differing} differ", self.steps)
    }
}

/// What both sides say today.
#[derive(Debug, Default)]
pub struct Live {
    pub corral: Tally,
    /// Where the real server says something else than was recorded; the recording stands for Corral.
    pub outdated: Vec<Difference>,
}

impl Proof {
    /// Of the scripts with these names (`generated` is the name of all generated ones), or of all.
    pub fn of(names: &[String]) -> Result<Self> {
        let folder = Folder::here();
        let all = names.is_empty();
        let files: Vec<String> = names.iter().filter(|name| *name != recording::GENERATED).cloned().collect();
        let written = if all || !files.is_empty() { folder.named(&files)? } else { vec![] };
        let with_generated = all || files.len() < names.len();
        let generated = if with_generated { folder.generator()?.episodes(SEED, COUNT).collect() } else { vec![] };
        Ok(Proof { folder, written, generated })
    }

    /// Plays everything to a real server, and keeps what it says.
    pub fn record(&self, mut done: impl FnMut(&str)) -> Result<()> {
        let real = Real::start()?;
        for script in &self.written {
            recording::write(&self.folder.recording(&script.name), script, &real.answers(script)?)?;
            done(&script.name);
        }
        if !self.generated.is_empty() {
            let answers = self.generated.iter().map(|script| real.answers(script)).collect::<Result<_>>()?;
            recording::write_packed(&self.folder.generated_recording(), &self.generated, answers)?;
            done(recording::GENERATED);
        }
        Ok(())
    }

    /// Compares Corral with what was recorded.
    pub fn against_recordings(&self, known: &Known) -> Result<Tally> {
        let mut tally = Tally::default();
        self.with_recordings(|script, recorded| {
            tally.add(known, script, recorded, &Corral.answers(script)?);
            Ok(())
        })?;
        Ok(tally)
    }

    /// Compares Corral with a real server, and that with what was recorded of it.
    pub fn live(&self, known: &Known) -> Result<Live> {
        let real = Real::start()?;
        let mut live = Live::default();
        self.with_recordings(|script, recorded| {
            let corral = Corral.answers(script)?;
            let mut said = real.answers(script)?;
            // A server that is busy with itself may answer late; what differs for a reason differs again.
            if !differences(&script.name, &said, recorded).is_empty() {
                said = real.answers(script)?;
            }
            live.corral.add(known, script, &said, &corral);
            live.outdated.extend(differences(&script.name, &said, recorded));
            Ok(())
        })?;
        Ok(live)
    }

    fn with_recordings(&self, mut look: impl FnMut(&Script, &[Answered]) -> Result<()>) -> Result<()> {
        for script in &self.written {
            look(script, &recording::read(&self.folder.recording(&script.name), script)?)?;
        }
        if self.generated.is_empty() {
            return Ok(());
        }
        let recorded = recording::read_packed(&self.folder.generated_recording(), &self.generated)?;
        self.generated.iter().zip(&recorded).try_for_each(|(script, recorded)| look(script, recorded))
    }

    pub fn known(&self) -> Result<Known> {
        self.folder.known()
    }
}
