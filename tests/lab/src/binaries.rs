//! Builds the pinned components once and keeps them in a cache outside the checkout.
//!
//! ```text
//! <cache>/<key of the pins>/bin/etcd …     complete: a binary gets here by a rename, never by being written here
//! <cache>/<key of the pins>/build-xyz/     what one builder is at, removed by the next one if it died
//! <cache>/<key of the pins>/lock           held by the one builder
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster_api;
use crate::error::{Error, OnFile, Result};
use crate::pins::{self, CLIENTS, CLUSTER_API, KUBELETS, MODULES, Module, PORT_FORWARD};
use crate::processes::tail;

const STILL_BUILDING_EVERY: Duration = Duration::from_secs(60);

/// The folder that holds the built components.
#[derive(Debug, Clone)]
pub struct Binaries {
    dir: PathBuf,
}

impl Binaries {
    /// Builds what is missing. The first time takes minutes, every later time nothing.
    pub fn ensure() -> Result<Self> {
        Self::of(&MODULES)
    }

    /// The same for etcd alone, in the place where the others are, too.
    pub(crate) fn ensure_etcd() -> Result<Self> {
        let shop = Workshop { dir: cache_of(&MODULES)?, modules: &MODULES[..1], go: OsStr::new("go") };
        shop.build_missing()?;
        Ok(Self { dir: shop.bin() })
    }

    /// The same for what forwards ports as a kubelet does.
    pub fn ensure_port_forward() -> Result<Self> {
        Self::of(&PORT_FORWARD)
    }

    /// The same for the kubelets of real nodes.
    pub fn ensure_kubelets() -> Result<Self> {
        Self::of(&KUBELETS)
    }

    /// The same for clients of other versions than the control plane's, and Helm.
    pub fn ensure_clients() -> Result<Clients> {
        Ok(Clients { own: Self::ensure()?, others: Self::of(&CLIENTS)? })
    }

    /// The same for Cluster API, with the definitions of its kinds.
    pub fn ensure_cluster_api() -> Result<Self> {
        let binaries = Self::of(&CLUSTER_API)?;
        cluster_api::manifests::ensure(&binaries)?;
        Ok(binaries)
    }

    fn of(modules: &[Module]) -> Result<Self> {
        let shop = Workshop { dir: cache_of(modules)?, modules, go: OsStr::new("go") };
        shop.build_missing()?;
        Ok(Self { dir: shop.bin() })
    }

    /// Where the binaries are, or would be once they are built.
    pub fn location() -> Result<PathBuf> {
        Ok(cache_of(&MODULES)?.join("bin"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// What people talk to a cluster with.
#[derive(Debug, Clone)]
pub struct Clients {
    own: Binaries,
    /// Those that are not the control plane's own.
    pub others: Binaries,
}

impl Clients {
    /// Every kubectl, the oldest first.
    pub fn kubectls(&self) -> [PathBuf; 3] {
        [self.others.path("kubectl-v1.31.14"), self.own.path("kubectl"), self.others.path("kubectl-v1.36.3")]
    }

    pub fn helm(&self) -> PathBuf {
        self.others.path("helm")
    }
}

/// The cache of these pins.
fn cache_of(modules: &[Module]) -> Result<PathBuf> {
    Ok(cache_folder(|name| std::env::var_os(name))?.join(pins::key(modules)))
}

/// `$DROVER_LAB_CACHE`, else `${XDG_CACHE_HOME:-$HOME/.cache}/drover-lab`.
fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("DROVER_LAB_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("drover-lab")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/drover-lab")))
        .ok_or(Error::NoCacheFolder)
}

/// One place where modules are built.
struct Workshop<'a> {
    dir: PathBuf,
    modules: &'a [Module],
    go: &'a OsStr,
}

impl Workshop<'_> {
    fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    fn build_missing(&self) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        fs::create_dir_all(self.bin()).on_file("create", &self.bin())?;
        let _alone = self.wait_for_turn()?;
        self.clear_abandoned_builds()?;
        self.modules.iter().try_for_each(|module| self.build(module))
    }

    fn is_complete(&self) -> bool {
        self.modules.iter().all(|module| self.missing(module).is_empty())
    }

    fn missing(&self, module: &Module) -> Vec<&'static str> {
        let binaries = module.commands.iter().map(|command| command.binary);
        binaries.filter(|binary| !self.bin().join(binary).exists()).collect()
    }

    /// The lock goes with the process that holds it, so a builder that was killed blocks nobody.
    fn wait_for_turn(&self) -> Result<File> {
        let path = self.dir.join("lock");
        let lock = File::create(&path).on_file("create", &path)?;
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => eprintln!("lab: another build is under way, waiting for it"),
            Err(TryLockError::Error(source)) => return Err(Error::File { act: "lock", path, source }),
        }
        lock.lock().on_file("lock", &path)?;
        Ok(lock)
    }

    fn clear_abandoned_builds(&self) -> Result<()> {
        for entry in fs::read_dir(&self.dir).on_file("read", &self.dir)? {
            let path = entry.on_file("read", &self.dir)?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"build-")) {
                fs::remove_dir_all(&path).on_file("remove", &path)?;
            }
        }
        Ok(())
    }

    fn build(&self, module: &Module) -> Result<()> {
        let missing = self.missing(module);
        if missing.is_empty() {
            return Ok(());
        }
        let what = format!("{} {} ({})", module.name, module.version().unwrap_or_default(), missing.join(", "));
        eprintln!("lab: building {what}");
        let started = Instant::now();

        let build = tempfile::Builder::new().prefix("build-").tempdir_in(&self.dir).on_file("create", &self.dir)?;
        let source = build.path().join("source");
        let output = build.path().join("output");
        fs::create_dir(&output).on_file("create", &output)?;
        write_source(module, &source)?;
        self.run_go(module, &missing, &source, &output, &what)?;
        for binary in missing {
            let built = output.join(binary);
            // Its bytes must be on disk before its name is in bin, or a power cut leaves an empty binary there.
            File::open(&built).and_then(|file| file.sync_all()).on_file("sync", &built)?;
            fs::rename(&built, self.bin().join(binary)).on_file("keep", &built)?;
        }
        eprintln!("lab: built {what} in {} s", started.elapsed().as_secs());
        Ok(())
    }

    fn run_go(&self, module: &Module, missing: &[&str], source: &Path, output: &Path, what: &str) -> Result<()> {
        let log_path = self.dir.join(format!("{}.log", module.name));
        let log = File::create(&log_path).on_file("create", &log_path)?;
        let log_again = log.try_clone().on_file("open", &log_path)?;
        let packages = module.commands.iter().filter(|command| missing.contains(&command.binary));
        // Into a folder, go would write each binary under the last segment of its package: etcd's would be `v3`.
        let target = match missing {
            [binary] => output.join(binary),
            _ => output.to_owned(),
        };
        let mut go = Command::new(self.go)
            .arg("build")
            .args(module.flags())
            .arg("-o")
            .arg(target)
            .args(packages.map(|command| command.package))
            .current_dir(source)
            // Static binaries that need no C compiler, whatever the user's settings for their own Go code.
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .env_remove("GOFLAGS")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            .spawn()
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => Error::NoGo,
                _ => Error::Start { name: "go".into(), source },
            })?;

        let started = Instant::now();
        let mut next_line = STILL_BUILDING_EVERY;
        let status = loop {
            if let Some(status) = go.try_wait().on_file("wait for the build in", source)? {
                break status;
            }
            if started.elapsed() >= next_line {
                eprintln!("lab: still building {} ({} s)", module.name, next_line.as_secs());
                next_line += STILL_BUILDING_EVERY;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if status.success() {
            return Ok(());
        }
        Err(Error::Build { what: what.into(), tail: tail(&log_path), log: log_path })
    }
}

pub(crate) fn write_source(module: &Module, dir: &Path) -> Result<()> {
    fs::create_dir(dir).on_file("create", dir)?;
    for (name, text) in [("go.mod", module.go_mod), ("go.sum", module.go_sum), ("tools.go", module.tools_go)] {
        let path = dir.join(name);
        fs::write(&path, text).on_file("write", &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds with a `go` of the tests, which writes one line a call into `calls` and a file for each package.
    struct Bench {
        dir: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap() }
        }

        fn workshop(&self) -> Workshop<'static> {
            let go = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/go");
            Workshop { dir: self.dir.path().join("key"), modules: &MODULES, go: OsStr::new(go) }
        }

        fn calls(&self) -> Vec<String> {
            let calls = fs::read_to_string(self.dir.path().join("key/calls")).unwrap_or_default();
            calls.lines().map(str::to_owned).collect()
        }
    }

    #[test]
    fn everything_is_built_once() {
        let bench = Bench::new();

        bench.workshop().build_missing().unwrap();
        bench.workshop().build_missing().unwrap();

        assert_eq!(bench.calls(), ["etcd", "kube-apiserver kube-controller-manager kube-scheduler kubectl", "kwok"]);
        assert!(bench.workshop().is_complete());
    }

    #[test]
    fn two_builders_at_once_build_everything_once() {
        let bench = Bench::new();

        std::thread::scope(|scope| {
            let builders = [(); 2].map(|()| scope.spawn(|| bench.workshop().build_missing()));
            builders.into_iter().for_each(|builder| builder.join().unwrap().unwrap());
        });

        assert_eq!(bench.calls().len(), 3);
    }

    #[test]
    fn a_build_that_broke_off_is_resumed_where_it_was() {
        let bench = Bench::new();
        let shop = bench.workshop();
        shop.build_missing().unwrap();
        fs::remove_file(shop.bin().join("kubectl")).unwrap();
        fs::create_dir(shop.dir.join("build-abandoned")).unwrap();
        fs::write(shop.dir.join("build-abandoned/kubectl"), "half").unwrap();

        shop.build_missing().unwrap();

        assert_eq!(bench.calls()[3..], ["kubectl"]);
        assert_eq!(fs::read_to_string(shop.bin().join("kubectl")).unwrap(), "built by the tests' go\n");
        assert!(!shop.dir.join("build-abandoned").exists());
    }

    #[test]
    fn a_build_that_fails_quotes_what_go_said_and_keeps_nothing() {
        let bench = Bench::new();
        let shop = bench.workshop();
        fs::create_dir_all(&shop.dir).unwrap();
        fs::write(shop.dir.join("fail"), "").unwrap();

        let error = shop.build_missing().unwrap_err().to_string();

        assert!(error.contains("cannot build etcd v3.6.5 (etcd)"), "{error}");
        assert!(error.contains("go: the tests want this to fail"), "{error}");
        assert!(!shop.bin().join("etcd").exists());
    }

    #[test]
    fn a_machine_without_go_is_told_to_install_it() {
        let bench = Bench::new();
        let shop = Workshop { go: OsStr::new("/nowhere/go"), ..bench.workshop() };

        let error = shop.build_missing().unwrap_err().to_string();

        assert_eq!(error, "cannot build the lab's components: `go` is not on the PATH; install Go 1.26 or newer");
    }

    #[test]
    fn the_cache_is_where_the_user_says_and_else_where_caches_are() {
        let folder = |set: &[(&str, &str)]| {
            cache_folder(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        let path = |set: &[(&str, &str)]| folder(set).unwrap().display().to_string();

        assert_eq!(path(&[("DROVER_LAB_CACHE", "/c"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), "/c");
        assert_eq!(path(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), "/x/drover-lab");
        assert_eq!(path(&[("XDG_CACHE_HOME", ""), ("HOME", "/h")]), "/h/.cache/drover-lab");
        assert!(matches!(folder(&[]), Err(Error::NoCacheFolder)));
    }
}
