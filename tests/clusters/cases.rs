//! The captured clusters as cases: where they are, and what was written down of each.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// The folders that have this file, in order.
pub fn folders_with(file: &str) -> Vec<PathBuf> {
    let clusters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clusters");
    let entries = std::fs::read_dir(clusters).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join(file).is_file()).collect();
    folders.sort();
    folders
}

pub fn read<Case: DeserializeOwned>(path: &Path) -> Case {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is wrong if something else is said than is written down; with `UPDATE=1` it is written down anew.
pub fn differs(path: &Path, said: &str) -> Option<String> {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, said).unwrap();
        return None;
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    (written != said).then(|| format!("{} is now:\n{said}", path.display()))
}

pub fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}\nif it is meant: UPDATE=1 cargo test captured", wrong.join("\n"));
}
