//! The definitions of Cluster API's kinds and its webhooks, as its modules have them, for managers that run outside any pod.
//!
//! They are kept beside the binaries, as JSON, so that a cache that has those needs no sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{MANAGERS, Manager};
use crate::binaries::{Binaries, write_source};
use crate::error::{Error, OnFile, Result};
use crate::pins::CLUSTER_API;
use crate::programs::run;

/// Versions of Cluster API's contract that a kind serves, each under its own name.
const CONTRACTS: [&str; 2] = ["v1beta1", "v1beta2"];
const DEFINITION: &str = "CustomResourceDefinition";

/// Writes down what is missing.
pub(crate) fn ensure(binaries: &Binaries) -> Result<()> {
    for manager in MANAGERS {
        let path = kept(binaries, manager);
        if path.exists() {
            continue;
        }
        let objects = objects(&folder(manager)?)?;
        // As the binaries: it gets its name when it is whole.
        let file = tempfile::NamedTempFile::new_in(binaries.dir()).on_file("create a file in", binaries.dir())?;
        fs::write(file.path(), json!(objects).to_string()).on_file("write", file.path())?;
        fs::rename(file.path(), &path).on_file("keep", &path)?;
    }
    Ok(())
}

/// The definitions of a manager's kinds and its webhooks, both leading to the port at which it listens.
pub(crate) fn read(
    binaries: &Binaries,
    manager: Manager,
    port: u16,
    authority: &Path,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let path = kept(binaries, manager);
    let text = fs::read_to_string(&path).on_file("read", &path)?;
    let objects: Vec<Value> = serde_json::from_str(&text).map_err(|error| unreadable(&path, &error))?;
    let authority = STANDARD.encode(fs::read(authority).on_file("read", authority)?);
    let led = objects.into_iter().map(|object| lead_to(object, manager, port, &authority));
    Ok(led.partition(|object| object["kind"] == DEFINITION))
}

fn kept(binaries: &Binaries, manager: Manager) -> PathBuf {
    binaries.path(&format!("{}.json", manager.binary))
}

/// The folder of a manager's manifests in Go's cache of modules.
fn folder(manager: Manager) -> Result<PathBuf> {
    let source = tempfile::tempdir().on_file("create a folder in", &std::env::temp_dir())?;
    let dir = source.path().join("source");
    write_source(&CLUSTER_API[0], &dir)?;
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", manager.module]).current_dir(&dir).env("GOWORK", "off").env_remove("GOFLAGS");
    let said: Value = serde_json::from_str(&run(&mut go)?).map_err(|error| unreadable(&dir, &error))?;
    Ok(Path::new(said["Dir"].as_str().unwrap_or_default()).join(manager.folder))
}

fn objects(folder: &Path) -> Result<Vec<Value>> {
    let definitions = folder.join("crd/bases");
    let entries = fs::read_dir(&definitions).on_file("read", &definitions)?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.push(folder.join("webhook/manifests.yaml"));
    let mut objects = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).on_file("read", &file)?;
        let read: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| unreadable(&file, &error.without_snippet()))?;
        objects.extend(read.into_iter().filter(|object| !object.is_null()));
    }
    Ok(objects)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::File { act: "understand", path: path.to_owned(), source: std::io::Error::other(error.to_string()) }
}

/// Replaces Services by the address of a process, and adds what the release's own packaging would.
fn lead_to(mut object: Value, manager: Manager, port: u16, authority: &str) -> Value {
    let client = |path: &str| json!({ "url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority });
    if object["kind"] == DEFINITION {
        for contract in CONTRACTS {
            object["metadata"]["labels"][format!("cluster.x-k8s.io/{contract}")] = json!(contract);
        }
        if object["spec"]["versions"].as_array().is_some_and(|versions| versions.len() > 1) {
            object["spec"]["conversion"] = json!({
                "strategy": "Webhook",
                "webhook": { "clientConfig": client("/convert"), "conversionReviewVersions": ["v1"] },
            });
        }
        return object;
    }
    // All of them have the same two names.
    let name = format!("{}-{}", manager.binary, object["metadata"]["name"].as_str().unwrap_or_default());
    object["metadata"]["name"] = json!(name);
    for hook in object["webhooks"].as_array_mut().into_iter().flatten() {
        let path = hook["clientConfig"]["service"]["path"].as_str().unwrap_or_default().to_owned();
        hook["clientConfig"] = client(&path);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_and_conversions_lead_to_the_process() {
        let hooks = json!({
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "validating-webhook-configuration" },
            "webhooks": [{ "name": "a", "clientConfig": { "service": { "name": "s", "path": "/validate" } } }],
        });
        let led = lead_to(hooks, MANAGERS[0], 1234, "CA");
        assert_eq!(led["metadata"]["name"], "capi-core-validating-webhook-configuration");
        assert_eq!(
            led["webhooks"][0]["clientConfig"],
            json!({ "url": "https://127.0.0.1:1234/validate", "caBundle": "CA" })
        );

        let definition = |versions: Value| json!({ "kind": DEFINITION, "metadata": { "name": "machines" }, "spec": { "versions": versions } });
        let two = lead_to(definition(json!([{}, {}])), MANAGERS[0], 1234, "CA");
        assert_eq!(
            two["spec"]["conversion"]["webhook"]["clientConfig"]["url"],
            json!("https://127.0.0.1:1234/convert")
        );
        assert_eq!(two["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"], "v1beta2");
        assert!(lead_to(definition(json!([{}])), MANAGERS[0], 1234, "CA")["spec"]["conversion"].is_null());
    }
}
