//! A copy of the workspace that holds all changes of a sample, and the tests built of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::mutant::Mutant;
use crate::switch::switch;
use crate::{Error, Result};

/// Which switch is on is read once: it never changes while a program runs. Where it is asked to, it notes which test comes to which one.
/// The first test that fails while one is on ends the program: the others could tell nothing more.
const SWITCHES: &str = r#"
pub mod switches {
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::sync::{Mutex, OnceLock, PoisonError};

    pub fn is_on(number: usize) -> bool {
        static ON: OnceLock<(Option<usize>, Option<String>)> = OnceLock::new();
        let read = || {
            let on = std::env::var("DROVER_MUTANT").ok().and_then(|on| on.parse().ok());
            if on.is_some() {
                std::panic::set_hook(Box::new(|_| std::process::exit(101)));
            }
            (on, std::env::var("DROVER_REACHED").ok())
        };
        let (on, notes) = ON.get_or_init(read);
        if let Some(notes) = notes {
            note(number, notes);
        }
        *on == Some(number)
    }

    fn note(number: usize, notes: &str) {
        static NOTED: Mutex<BTreeSet<(usize, String)>> = Mutex::new(BTreeSet::new());
        let test = std::thread::current().name().unwrap_or("nobody").to_owned();
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.insert((number, test.clone())) {
            let mut file = std::fs::File::options().append(true).open(notes).unwrap();
            writeln!(file, "{number} {test}").unwrap();
        }
    }
}
"#;

#[derive(Debug)]
pub struct Copy<'a> {
    pub workspace: &'a Path,
    pub package: &'a str,
    /// Where the copy is, and where it is built.
    pub tree: PathBuf,
    pub target: PathBuf,
}

/// The tests of a copy.
#[derive(Debug)]
pub struct Built {
    pub programs: Vec<PathBuf>,
    /// The changes that are in them.
    pub tried: BTreeSet<usize>,
    /// Those of which the compiler complains. What is in neither cannot be put behind a switch.
    pub refused: BTreeSet<usize>,
}

/// Where a change stands in the file that it is in.
type Places = BTreeMap<String, Vec<(usize, Range<usize>)>>;

impl Copy<'_> {
    /// Builds the tests with as many of `sample` as compile. What does not is found out by what the compiler complains of.
    pub fn build(&self, sample: &[(usize, Mutant)]) -> Result<Built> {
        self.take_over()?;
        let mut left_out = BTreeSet::new();
        loop {
            let places = self.write(sample, &left_out)?;
            let messages = self.compile()?;
            let complaints: Vec<(String, usize)> = messages.iter().filter_map(complaint).collect();
            let programs: Vec<PathBuf> =
                messages.iter().filter_map(|one| one["executable"].as_str().map(PathBuf::from)).collect();
            if complaints.is_empty() && !programs.is_empty() {
                let tried = places.into_values().flatten().map(|(number, _)| number).collect();
                return Ok(Built { programs, tried, refused: left_out });
            }
            let before = left_out.len();
            left_out.extend(complaints.iter().filter_map(|(file, offset)| blamed(places.get(file)?, *offset)));
            if left_out.len() == before {
                return Err(Error::DoesNotCompile { complaints: format!("{complaints:?}") });
            }
            eprintln!("{} changes do not compile", left_out.len());
        }
    }

    /// Files that are the same keep their times, so that cargo does not build them again.
    fn take_over(&self) -> Result<()> {
        let listed =
            Command::new("git").args(["ls-files", "-coz", "--exclude-standard"]).current_dir(self.workspace).output();
        let listed = listed.map_err(|source| Error::File { act: "run", path: "git".into(), source })?;
        let mut taken = BTreeSet::new();
        for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
            let source = self.workspace.join(name);
            // Deleted, and not yet committed.
            if source.is_file() {
                let bytes = fs::read(&source).map_err(|error| Error::file("read", &source, error))?;
                self.put(name, &bytes)?;
                taken.insert(self.tree.join(name));
            }
        }
        sweep(&self.tree, &taken)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.tree.join(name);
        if fs::read(&path).is_ok_and(|known| known == bytes) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, error))?;
        }
        fs::write(&path, bytes).map_err(|error| Error::file("write", &path, error))
    }

    fn write(&self, sample: &[(usize, Mutant)], left_out: &BTreeSet<usize>) -> Result<Places> {
        let mut by_file: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in sample {
            let of_file = by_file.entry(&mutant.file).or_default();
            of_file.extend(Some((*number, mutant)).filter(|_| !left_out.contains(number)));
        }
        let mut places = Places::new();
        let root = format!("crates/{}/src/lib.rs", self.package.trim_start_matches("drover-"));
        by_file.entry(&root).or_default();
        for (file, mutants) in by_file {
            let path = self.workspace.join(file);
            let source = fs::read_to_string(&path).map_err(|error| Error::file("read", &path, error))?;
            let mut switched = switch(&source, &mutants).map_err(|error| Error::Syntax { file: file.into(), error })?;
            if file == root {
                switched.text.push_str(SWITCHES);
            }
            self.put(file, switched.text.as_bytes())?;
            places.insert(file.to_owned(), switched.places);
        }
        Ok(places)
    }

    /// What the compiler says: of the crate, and where it is content with that, of its tests.
    fn compile(&self) -> Result<Vec<Value>> {
        let messages = self.cargo(&["build", "--lib"])?;
        if messages.iter().any(|message| complaint(message).is_some()) {
            return Ok(messages);
        }
        self.cargo(&["test", "--no-run"])
    }

    fn cargo(&self, act: &[&str]) -> Result<Vec<Value>> {
        let output = Command::new("cargo")
            .args(act)
            .args(["--locked", "--profile", "trials", "--message-format=json", "--package", self.package])
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            // Parentheses that are not needed, and the like, are of no interest here.
            .stderr(Stdio::null())
            .output()
            .map_err(|source| Error::File { act: "run", path: "cargo".into(), source })?;
        let lines = String::from_utf8_lossy(&output.stdout);
        Ok(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

/// Removes what an earlier copy had.
fn sweep(folder: &Path, keep: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| Error::file("read", folder, error))? {
        let path = entry.map_err(|error| Error::file("read", folder, error))?.path();
        if path.is_dir() {
            sweep(&path, keep)?;
        } else if !keep.contains(&path) {
            fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))?;
        }
    }
    Ok(())
}

/// The change that a complaint is about: the innermost one around it, or the nearest one. What a function gives back early may have another
/// type than the rest of it, which is complained of there.
fn blamed(places: &[(usize, Range<usize>)], offset: usize) -> Option<usize> {
    let far = |range: &Range<usize>| match range.contains(&offset) {
        true => (0, range.len()),
        false => (range.start.abs_diff(offset).min(range.end.abs_diff(offset)), range.len()),
    };
    places.iter().min_by_key(|(_, range)| far(range)).map(|(number, _)| *number)
}

/// The file and the place in it of which the compiler complains.
fn complaint(message: &Value) -> Option<(String, usize)> {
    let told = message.get("message").filter(|told| told["level"] == "error")?;
    let span = told["spans"].as_array()?.iter().find(|span| span["is_primary"] == true)?;
    Some((span["file_name"].as_str()?.to_owned(), usize::try_from(span["byte_start"].as_u64()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_about_the_innermost_change_around_it_or_the_nearest_one() {
        let places = [(1, 10..50), (2, 20..30), (3, 80..90)];
        assert_eq!([15, 25, 55, 70, 500].map(|offset| blamed(&places, offset)), [1, 2, 1, 3, 3].map(Some));
        assert_eq!(blamed(&[], 7), None);
    }
}
