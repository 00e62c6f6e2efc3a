//! The changes that cargo-mutants would make, as it lists them.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::{Error, Result};

#[derive(Debug, Deserialize)]
pub struct Mutant {
    /// Place and change in one line.
    pub name: String,
    /// From the root of the workspace.
    pub file: String,
    pub genre: Genre,
    /// What stands there instead; nothing where something is deleted.
    pub replacement: String,
    pub span: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Debug, Deserialize)]
pub struct Extent {
    pub start: Place,
    pub end: Place,
}

/// Both are counted from 1, columns in characters.
#[derive(Debug, Deserialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// All changes of `package`.
pub fn list(workspace: &Path, package: &str) -> Result<Vec<Mutant>> {
    let listed = Command::new("cargo")
        .args(["mutants", "--list", "--json", "--package", package])
        .current_dir(workspace)
        .output()
        .map_err(|source| Error::File { act: "run", path: "cargo".into(), source })?;
    if !listed.status.success() {
        return Err(Error::NoList { words: String::from_utf8_lossy(&listed.stderr).trim().to_owned() });
    }
    Ok(serde_json::from_slice(&listed.stdout)?)
}
