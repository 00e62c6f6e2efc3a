//! What can go wrong in the lab, each with the act that failed and what was seen of it.

use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {act} {}: {source}", path.display())]
    File { act: &'static str, path: PathBuf, source: io::Error },

    #[error("the lab has no folder for its builds: set DROVER_LAB_CACHE (XDG_CACHE_HOME and HOME are not set either)")]
    NoCacheFolder,

    #[error("cannot build the lab's components: `go` is not on the PATH; install Go 1.26 or newer")]
    NoGo,

    #[error("cannot build {what}; the end of {}:\n{tail}", log.display())]
    Build { what: String, log: PathBuf, tail: String },

    #[error(transparent)]
    Image(#[from] drover_image::Error),

    #[error("cannot make the certificate of {subject}: {source}")]
    Certificate { subject: String, source: rcgen::Error },

    #[error("no free port on 127.0.0.1 between {from} and {to}")]
    NoFreePort { from: u16, to: u16 },

    #[error("cannot start {name}: {source}")]
    Start { name: String, source: io::Error },

    #[error("{name} ended ({status}) while the lab waited for {what}; the end of its log:\n{tail}")]
    Ended { name: String, status: String, what: &'static str, tail: String },

    #[error("{what} did not come within {seconds} s; the end of {name}'s log:\n{tail}")]
    TooSlow { name: String, what: &'static str, seconds: u64, tail: String },

    #[error("cannot {act} in etcd: {cause}")]
    Etcd { act: &'static str, cause: String },

    #[error("kubectl {arguments}: {said}")]
    Kubectl { arguments: String, said: String },

    #[error("cannot record {what}: {why}")]
    Record { what: String, why: String },

    #[error("{line}: {said} ({status})")]
    Program { line: String, status: String, said: String },

    #[error("these nodes were not Ready and untainted within {seconds} s: {}", names.join(", "))]
    NodesNotReady { names: Vec<String>, seconds: u64 },

    #[error("the API server did not serve these kinds within {seconds} s: {}", names.join(", "))]
    KindsNotServed { names: Vec<String>, seconds: u64 },

    #[error("real nodes need root: they are made of namespaces, cgroups and mounts; run this as root")]
    NotRoot,

    #[error("real nodes need {}, which this machine does not have: install Debian's packages containerd, runc, containernetworking-plugins, iptables and iproute2", missing.join(", "))]
    MissingPrograms { missing: Vec<String> },

    #[error("real nodes need the cgroup controllers {}, each in a cgroup v1 hierarchy; this machine has them in cgroup v2 or not at all, which the lab cannot divide among nodes yet", missing.join(", "))]
    NoCgroups { missing: Vec<String> },

    #[error("no pod of the service {service} was ready within {seconds} s")]
    NoEndpoints { service: String, seconds: u64 },

    #[error("waited {seconds} s in vain until {what}")]
    Never { what: String, seconds: u64 },

    #[error("requests to the service failed; the first of them:\n{}", failures.join("\n"))]
    RequestsFailed { failures: Vec<String> },

    #[error("there is no node {name} in this cluster")]
    NoNode { name: String },

    #[error("kwok does not run in this lab: start it with `kwok: true`")]
    NoKwok,
}

impl Error {
    pub(crate) fn record(what: &str, why: &dyn std::error::Error) -> Self {
        Self::Record { what: what.to_owned(), why: why.to_string() }
    }
}

/// Names the file and the act in an error of the file system.
pub(crate) trait OnFile<T> {
    fn on_file(self, act: &'static str, path: &Path) -> Result<T>;
}

impl<T> OnFile<T> for io::Result<T> {
    fn on_file(self, act: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::File { act, path: path.to_owned(), source })
    }
}
