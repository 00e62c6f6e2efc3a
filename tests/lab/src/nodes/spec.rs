//! What one node is, as it is handed to its first process.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{OnFile, Result};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeSpec {
    pub name: String,
    pub address: Ipv4Addr,
    /// The range of its pods' addresses.
    pub pods: String,
    /// The folder of what the node keeps over a reboot.
    pub dir: PathBuf,
    /// What all nodes have on top of the machine's own files.
    pub base: PathBuf,
    /// Becomes its /var/log.
    pub logs: PathBuf,
    /// Where its first process is recorded, so that it is ended with the lab.
    pub record: PathBuf,
    pub cgroups: Vec<PathBuf>,
}

impl NodeSpec {
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(Into::into);
        text.and_then(|text| fs::write(path, text)).on_file("write", path)
    }

    pub fn read(path: &Path) -> Result<Self> {
        fs::read(path).and_then(|text| serde_json::from_slice(&text).map_err(Into::into)).on_file("read", path)
    }

    /// What the node writes to its root file system.
    pub fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }
}
