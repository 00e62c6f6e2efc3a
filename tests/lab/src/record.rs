//! Records what a real API server says of itself, for the one that imitates it.
//!
//! The recording is one file: a line of JSON that says where each document lies, and then the documents, each
//! compressed by itself so that one can be read without the others.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::error::{Error, OnFile, Result};
use crate::lab::{Lab, LabOptions};

const JSON: &str = "application/json";
/// All groups, versions and resources in two documents, as clients ask for them since 1.26.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Takes long and is done once for each version of Kubernetes.
const COMPRESSION: i32 = 19;

/// Starts a fresh control plane and writes what it says of itself to `file`.
pub fn record(file: &Path) -> Result<()> {
    let lab = Lab::up(&LabOptions::default())?;
    let proxy = Proxy::start(&lab)?;
    write(file, &documents(&proxy)?)
}

/// Every document by its path. The aggregated ones are marked as such.
fn documents(proxy: &Proxy) -> Result<BTreeMap<String, String>> {
    let mut documents = BTreeMap::new();
    for path in ["/version", "/api", "/apis", "/api/v1", "/openapi/v3"] {
        documents.insert(path.to_owned(), proxy.get(path, JSON)?);
    }
    for path in ["/api", "/apis"] {
        documents.insert(format!("{path} aggregated"), proxy.get(path, AGGREGATED)?);
    }
    for (group, versions) in groups(&documents["/apis"]) {
        let path = format!("/apis/{group}");
        documents.insert(path.clone(), proxy.get(&path, JSON)?);
        for version in versions {
            let path = format!("{path}/{version}");
            documents.insert(path.clone(), proxy.get(&path, JSON)?);
        }
    }
    for name in schemas(&documents["/openapi/v3"]) {
        let path = format!("/openapi/v3/{name}");
        documents.insert(path.clone(), proxy.get(&path, JSON)?);
    }
    Ok(documents)
}

/// kubectl as a proxy, since it can authenticate and a plain socket cannot.
struct Proxy {
    process: Child,
    address: String,
}

impl Proxy {
    fn start(lab: &Lab) -> Result<Self> {
        let mut process = Command::new(lab.kubectl_path())
            .args(["proxy", "--port=0", "--kubeconfig"])
            .arg(lab.kubeconfig())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Start { name: "kubectl proxy".into(), source })?;
        let mut greeting = String::new();
        if let Some(said) = process.stdout.take() {
            BufReader::new(said).read_line(&mut greeting).map_err(|error| Error::record("the proxy", &error))?;
        }
        // Starting to serve on 127.0.0.1:41234
        let address = greeting.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(Self { process, address })
    }

    fn get(&self, path: &str, accept: &str) -> Result<String> {
        let wrong = |error: &dyn std::error::Error| Error::record(path, error);
        let mut stream = TcpStream::connect(&self.address).map_err(|error| wrong(&error))?;
        // In HTTP/1.0 an answer ends with the connection, and comes in one piece.
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|error| wrong(&error))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| wrong(&error))?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 OK") => Ok(body.to_owned()),
            _ => {
                Err(Error::Record { what: path.to_owned(), why: answer.lines().next().unwrap_or_default().to_owned() })
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The versions of each group in an APIGroupList.
fn groups(list: &str) -> Vec<(String, Vec<String>)> {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let named = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let versions = |group: &Value| {
        group["versions"].as_array().into_iter().flatten().map(|version| named(version, "version")).collect()
    };
    list["groups"].as_array().into_iter().flatten().map(|group| (named(group, "name"), versions(group))).collect()
}

/// The group versions in an index of schemas; what else is there describes no objects.
fn schemas(index: &str) -> Vec<String> {
    let index: Value = serde_json::from_str(index).unwrap_or_default();
    let paths = index["paths"].as_object().into_iter().flatten().map(|(path, _)| path.clone());
    paths.filter(|path| path == "api/v1" || (path.starts_with("apis/") && path.matches('/').count() == 2)).collect()
}

fn write(file: &Path, documents: &BTreeMap<String, String>) -> Result<()> {
    let mut places = BTreeMap::new();
    let mut bodies = vec![];
    for (path, text) in documents {
        let packed = zstd::bulk::compress(text.as_bytes(), COMPRESSION).on_file("compress the documents for", file)?;
        places.insert(path, [bodies.len(), packed.len(), text.len()]);
        bodies.extend(packed);
    }
    let index = serde_json::to_string(&places).map_err(|error| Error::record("the index", &error))?;
    let mut recording = std::fs::File::create(file).on_file("create", file)?;
    recording.write_all(index.as_bytes()).on_file("write", file)?;
    recording.write_all(b"\n").on_file("write", file)?;
    recording.write_all(&bodies).on_file("write", file)
}
