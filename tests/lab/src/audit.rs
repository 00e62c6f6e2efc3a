//! What the API server wrote down of the requests that it answered: who asked for what, and what became of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{OnFile, Result};

/// Metadata of all requests.
const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- { level: Metadata }
"#;

/// The flags that make an API server write its audit log in `dir`.
pub(crate) fn flags(dir: &Path) -> Result<[String; 3]> {
    let policy = dir.join("audit-policy.yaml");
    fs::write(&policy, POLICY).on_file("write", &policy)?;
    Ok([
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log(dir).display()),
        // In megabytes: at a hundred it would begin a new file, and what was before would not be counted.
        "--audit-log-maxsize=10000".to_owned(),
    ])
}

fn log(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

/// One request that was answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audited {
    pub verb: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectRef,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

impl Audited {
    pub fn user(&self) -> &str {
        &self.user.username
    }

    pub fn resource(&self) -> &str {
        &self.object_ref.resource
    }

    pub fn subresource(&self) -> &str {
        &self.object_ref.subresource
    }
}

/// All requests so far, in the order in which they were answered.
pub(crate) fn read(dir: &Path) -> Result<Vec<Audited>> {
    let path = log(dir);
    let text = fs::read_to_string(&path).on_file("read", &path)?;
    // The last line may be half written.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
