//! Can this machine carry real nodes? Asked before anything is started, so that the answer is one sentence.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::nodes::cgroups;

const PROGRAMS: [&str; 7] = ["containerd", "ctr", "runc", "iptables", "ip", "nsenter", "unshare"];
/// Where distributions keep the CNI plugins, Debian first.
const CNI_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
const CNI_PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];

pub(crate) fn suits() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let missing = missing(&search_path());
    if !missing.is_empty() {
        return Err(Error::MissingPrograms { missing });
    }
    cgroups::suit()
}

/// The folder with the CNI plugins.
pub(crate) fn cni_plugins() -> Option<&'static Path> {
    let complete = |folder: &&Path| CNI_PLUGINS.iter().all(|plugin| folder.join(plugin).exists());
    CNI_FOLDERS.iter().map(Path::new).find(complete)
}

fn missing(folders: &[PathBuf]) -> Vec<String> {
    let found = |program: &str| folders.iter().any(|folder| folder.join(program).exists());
    let mut missing: Vec<String> = PROGRAMS.iter().filter(|name| !found(name)).map(|name| (*name).to_owned()).collect();
    if cni_plugins().is_none() {
        missing.push(format!("the CNI plugins {} in {}", CNI_PLUGINS.join(", "), CNI_FOLDERS.join(" or ")));
    }
    missing
}

fn search_path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_not_on_the_path_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for there in ["containerd", "ctr", "iptables", "ip", "nsenter", "unshare"] {
            std::fs::write(folder.path().join(there), "").unwrap();
        }

        let missing = missing(&[folder.path().to_owned()]);

        assert_eq!(missing.first().map(String::as_str), Some("runc"));
        assert!(!missing.iter().any(|name| name == "containerd"));
    }
}
