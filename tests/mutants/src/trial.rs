//! One change after the other: do the tests notice?

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// A test that takes so much longer than it did has been noticed, too: something goes on for ever.
const PATIENCE: u32 = 20;
const LOOK: Duration = Duration::from_millis(20);

/// The programs of the tests, which pass while no switch is on.
#[derive(Debug)]
pub struct Trial {
    programs: Vec<PathBuf>,
    folder: PathBuf,
    looks: u32,
}

impl Trial {
    /// `folder` is where the tests look for their files.
    pub fn new(programs: Vec<PathBuf>, folder: PathBuf) -> Result<Self> {
        let mut trial = Trial { programs, folder, looks: u32::MAX };
        let took = trial.looks_of(None)?.ok_or(Error::FailsUnchanged)?;
        trial.looks = (took + 50).saturating_mul(PATIENCE);
        Ok(trial)
    }

    /// Which of `numbers` no test notices, in their order; on every core at once.
    pub fn survivors(&self, numbers: &[usize]) -> Result<Vec<usize>> {
        let next = AtomicUsize::new(0);
        let survivors = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.looks_of(Some(*number))?.is_some() {
                    survivors.lock().unwrap_or_else(PoisonError::into_inner).push(*number);
                }
                let done = next.load(Ordering::Relaxed).min(numbers.len());
                if done.is_multiple_of(100) {
                    eprintln!("{done} of {}", numbers.len());
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(Error::WorkerDied)))
        })?;
        let mut survivors = survivors.into_inner().unwrap_or_else(PoisonError::into_inner);
        survivors.sort_unstable();
        Ok(survivors)
    }

    /// How many looks it took until all tests had passed; none if one failed, or did not end.
    fn looks_of(&self, number: Option<usize>) -> Result<Option<u32>> {
        let mut looks = 0;
        for program in &self.programs {
            let mut command = Command::new(program);
            command.arg("--test-threads=1").current_dir(&self.folder).stdout(Stdio::null()).stderr(Stdio::null());
            command.env_remove("DROVER_MUTANT").envs(number.map(|number| ("DROVER_MUTANT", number.to_string())));
            let mut child = command.spawn().map_err(|error| Error::file("run", program, error))?;
            let passed = loop {
                match child.try_wait().map_err(|error| Error::file("wait for", program, error))? {
                    Some(status) => break status.success(),
                    None if looks >= self.looks => {
                        // It may have ended by itself in this moment.
                        let _ = child.kill();
                        let _ = child.wait();
                        break false;
                    }
                    None => thread::sleep(LOOK),
                }
                looks += 1;
            };
            if !passed {
                return Ok(None);
            }
        }
        Ok(Some(looks))
    }
}
