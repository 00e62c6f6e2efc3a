//! A corral in a process of its own, for the tests that need one.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Ends with the test.
pub struct Corral {
    child: Child,
    /// What it said when it was ready.
    pub ready: Value,
}

impl Corral {
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["corral", "-o", "json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Corral { ready: serde_json::from_str(&line).unwrap(), child }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        PathBuf::from(self.ready["kubeconfig"].as_str().unwrap())
    }
}

impl Drop for Corral {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
