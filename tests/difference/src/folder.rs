//! Where scripts, recordings and known differences lie.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::generate::Generator;
use crate::known::Known;
use crate::script::Script;

#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder of this checkout.
    pub fn here() -> Self {
        Folder { root: Path::new(env!("CARGO_MANIFEST_DIR")).to_owned() }
    }

    /// Every script, by name.
    pub fn scripts(&self) -> Result<Vec<Script>> {
        let dir = self.root.join("scripts");
        let failed = |source| Error::File { act: "read", path: dir.clone(), source };
        let mut paths = vec![];
        for entry in std::fs::read_dir(&dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Script::read(path)).collect()
    }

    /// The scripts with these names, or all.
    pub fn named(&self, names: &[String]) -> Result<Vec<Script>> {
        let all = self.scripts()?;
        if let Some(unknown) = names.iter().find(|name| !all.iter().any(|script| script.name == **name)) {
            return Err(Error::Unknown(unknown.clone()));
        }
        Ok(all.into_iter().filter(|script| names.is_empty() || names.contains(&script.name)).collect())
    }

    pub fn recording(&self, script: &str) -> PathBuf {
        self.root.join("recorded").join(format!("{script}.json"))
    }

    /// Where the answers to all generated scripts are kept.
    pub fn generated_recording(&self) -> PathBuf {
        self.root.join("recorded").join("generated.json.gz")
    }

    pub fn generator(&self) -> Result<Generator> {
        let path = self.root.join("generator.yaml");
        let text =
            std::fs::read_to_string(&path).map_err(|source| Error::File { act: "read", path: path.clone(), source })?;
        Generator::read(&text).map_err(|cause| Error::NoScript { path, cause })
    }

    pub fn known(&self) -> Result<Known> {
        Known::read(&self.root.join("known.yaml"))
    }
}
