//! All scripts, written and generated, against one side or both.

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

    /// Where Corral differs from the recordings, beyond what is known.
    pub fn corral_against_recordings(&self, known: &Known) -> Result<Vec<Difference>> {
        let found = self.against_recordings(&Corral, differences)?;
        Ok(found.into_iter().filter_map(|difference| known.unexcused(difference)).collect())
    }

    /// Where a real server says something else today than was recorded.
    pub fn recordings_against_real(&self) -> Result<Vec<Difference>> {
        self.against_recordings(&Real::start()?, |name, recorded, real| differences(name, real, recorded))
    }

    fn against_recordings(
        &self,
        side: &dyn Side,
        compare: impl Fn(&str, &[crate::Answered], &[crate::Answered]) -> Vec<Difference>,
    ) -> Result<Vec<Difference>> {
        let mut found = vec![];
        for script in &self.written {
            let recorded = recording::read(&self.folder.recording(&script.name), script)?;
            found.extend(compare(&script.name, &recorded, &side.answers(script)?));
        }
        if !self.generated.is_empty() {
            let recorded = recording::read_packed(&self.folder.generated_recording(), &self.generated)?;
            for (script, recorded) in self.generated.iter().zip(&recorded) {
                found.extend(compare(&script.name, recorded, &side.answers(script)?));
            }
        }
        Ok(found)
    }

    pub fn known(&self) -> Result<Known> {
        self.folder.known()
    }
}
