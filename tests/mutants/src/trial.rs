//! One change after the other: do the tests notice?
//!
//! A test that never comes to where a change is cannot notice it, so only those are run that do. Which these are is found out once, while
//! no switch is on. That is allowed because nothing in the crate is kept from one test to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use std::{fs, iter};

use crate::{Error, Result};

/// A test that takes so many times as long as all of them do without a change has been noticed, too: something goes on for ever.
const PATIENCE: u32 = 5;
/// Even if nothing takes any time.
const AT_LEAST: Duration = Duration::from_secs(5);
/// While other programs run, a second of this one may take a minute.
const BUSY: u32 = 20;
const LOOK: Duration = Duration::from_millis(5);
/// What a change may fill before it counts as without end.
const KILOBYTES: &str = "4000000";
/// The seconds of the processor and the memory are bounded by the shell, whose place the test then takes, behind whatever else runs.
const BOUNDED: &str = r#"ulimit -t "$0" && ulimit -v "$1" && shift && exec nice -n 15 "$@""#;
/// Signals: a processor's time is used up, or somebody kills.
const ENDED: [i32; 2] = [24, 9];

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A test fails.
    Caught,
    /// A test does not end.
    Endless,
    Survived,
    /// No test ever comes to it.
    Unreached,
}

impl Fate {
    pub fn is_caught(self) -> bool {
        matches!(self, Fate::Caught | Fate::Endless)
    }
}

/// Names of tests.
type Names = BTreeSet<String>;

/// The programs of the tests, which pass while no switch is on.
#[derive(Debug)]
pub struct Trial {
    programs: Vec<PathBuf>,
    folder: PathBuf,
    /// Of the processor, for one change.
    limit: Duration,
    /// The tests of each program that come to a change.
    reaching: BTreeMap<usize, Vec<Names>>,
}

impl Trial {
    /// `folder` is where the tests look for their files; `notes` can be written to.
    pub fn new(programs: Vec<PathBuf>, folder: PathBuf, notes: &Path) -> Result<Self> {
        let mut trial = Trial { programs, folder, limit: Duration::MAX, reaching: BTreeMap::new() };
        let mut took = Duration::ZERO;
        for index in 0..trial.programs.len() {
            let (status, time) = trial.run(index, &["--test-threads=1".into()], &[])?;
            if !status.success() {
                return Err(Error::FailsUnchanged);
            }
            took += time;
            trial.note(index, notes)?;
        }
        trial.limit = took * PATIENCE + AT_LEAST;
        eprintln!("all tests take {:.1} s; one change may take {:.0} s", took.as_secs_f64(), trial.limit.as_secs_f64());
        Ok(trial)
    }

    /// Which tests of a program come to which change. Where there are several threads, each has the name of its test.
    fn note(&mut self, index: usize, notes: &Path) -> Result<()> {
        fs::write(notes, "").map_err(|error| Error::file("write", notes, error))?;
        let (status, _) =
            self.run(index, &["--test-threads=2".into()], &[("DROVER_REACHED", notes.display().to_string())])?;
        if !status.success() {
            return Err(Error::FailsUnchanged);
        }
        let text = fs::read_to_string(notes).map_err(|error| Error::file("read", notes, error))?;
        for (number, test) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Ok(number) = number.parse() else { continue };
            let programs = self.programs.len();
            let reaching = self.reaching.entry(number).or_insert_with(|| vec![Names::new(); programs]);
            reaching[index].insert(test.to_owned());
        }
        Ok(())
    }

    /// Does a test come to it?
    pub fn is_reached(&self, number: usize) -> bool {
        self.reaching.contains_key(&number)
    }

    /// What becomes of `numbers`, on every core at once; `told` hears of each as it is known.
    pub fn fates(&self, numbers: &[usize], told: &(impl Fn(usize, Fate) + Sync)) -> Result<BTreeMap<usize, Fate>> {
        let next = AtomicUsize::new(0);
        let fates = Mutex::new(BTreeMap::new());
        let work = || -> Result<()> {
            while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                let fate = self.fate(*number)?;
                told(*number, fate);
                let mut fates = fates.lock().unwrap_or_else(PoisonError::into_inner);
                fates.insert(*number, fate);
                if fates.len().is_multiple_of(50) {
                    eprintln!("{} of {}", fates.len(), numbers.len());
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(Error::WorkerDied)))
        })?;
        Ok(fates.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn fate(&self, number: usize) -> Result<Fate> {
        let Some(reaching) = self.reaching.get(&number) else { return Ok(Fate::Unreached) };
        for (index, names) in reaching.iter().enumerate().filter(|(_, names)| !names.is_empty()) {
            let args = ["--test-threads=1", "--exact"].map(String::from).into_iter().chain(names.iter().cloned());
            let on = [("DROVER_MUTANT", number.to_string())];
            let (status, _) = self.run(index, &args.collect::<Vec<_>>(), &on)?;
            if status.signal().is_some_and(|signal| ENDED.contains(&signal)) {
                return Ok(Fate::Endless);
            }
            if !status.success() {
                return Ok(Fate::Caught);
            }
        }
        Ok(Fate::Survived)
    }

    /// How a program ended, and after about how long.
    fn run(&self, index: usize, args: &[String], envs: &[(&str, String)]) -> Result<(ExitStatus, Duration)> {
        let program = &self.programs[index];
        let seconds = self.limit.as_secs().min(3600).to_string();
        let mut command = Command::new("sh");
        command.args(["-c", BOUNDED, &seconds, KILOBYTES]).arg(program).args(args).current_dir(&self.folder);
        command.env_remove("DROVER_MUTANT").env_remove("UPDATE").envs(envs.iter().cloned());
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| Error::file("run", program, error))?;
        let mut passed = Duration::ZERO;
        for pause in iter::repeat(LOOK) {
            if let Some(status) = child.try_wait().map_err(|error| Error::file("wait for", program, error))? {
                return Ok((status, passed));
            }
            if passed > self.limit.saturating_mul(BUSY) {
                // It may have ended by itself in this moment.
                let _ = child.kill();
            }
            thread::sleep(pause);
            passed += pause;
        }
        Err(Error::WorkerDied)
    }
}
