//! The lab's own kubectl: of the cluster's version, and blind to the user's settings.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{Error, OnFile, Result};
use crate::network::Network;

#[derive(Debug)]
pub(crate) struct Kubectl {
    pub program: PathBuf,
    pub kubeconfig: PathBuf,
    pub dir: PathBuf,
    pub network: Network,
}

impl Kubectl {
    pub fn command(&self) -> Command {
        let mut command = self.network.command(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // Its cache of what a server offers is kept by address, and another lab may have had this port before.
            .arg("--cache-dir")
            .arg(self.dir.join("kubectl"))
            .env_remove("KUBECONFIG")
            .env("KUBERC", "off")
            .stdin(Stdio::null());
        command
    }

    /// What kubectl printed, or what it complained of.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self
            .command()
            .args(arguments)
            .output()
            .map_err(|source| Error::Start { name: "kubectl".into(), source })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Kubectl { arguments: arguments.join(" "), said })
    }

    /// Runs a verb, such as `apply`, on objects given as YAML or JSON.
    pub fn run_on(&self, verb: &[&str], objects: &str) -> Result<String> {
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).on_file("create a file in", &self.dir)?;
        file.write_all(objects.as_bytes()).on_file("write", file.path())?;
        let path = file.path().to_string_lossy();
        self.run(&[verb, &["-f", &path]].concat())
    }

    /// Does this URL answer with success?
    pub fn answers(&self, url_or_path: &[&str]) -> bool {
        self.run(&[&["get", "--request-timeout=5s", "--raw"], url_or_path].concat()).is_ok()
    }
}
