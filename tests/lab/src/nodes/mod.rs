//! Real nodes: kubelets and containerds of this machine, each in namespaces of its own.
//!
//! ```text
//! the machine ── network namespace of the lab: etcd, kube-apiserver, …, bridge br0 10.88.0.1
//!                   ├─ node n1: 10.88.0.11, pods 10.244.1.0/24 ┐ own network, mounts, processes, host name, IPC, cgroups;
//!                   ├─ node n2: 10.88.0.12, pods 10.244.2.0/24 ├ its root is an overlay over the machine's, so that
//!                   └─ node n3: 10.88.0.13, pods 10.244.3.0/24 ┘ what is written there stays there
//! ```
//!
//! A node is one process: the first of its process namespace. When that ends, by whatever signal, the kernel ends
//! all others in it; that is a crash. Booting it again is a reboot: the same disk, a new boot id.

mod cgroups;
mod files;
mod init;
mod machine;
mod root;
mod spec;

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::binaries::Binaries;
use crate::error::{Error, OnFile, Result};
use crate::images;
use crate::lab::{Lab, LabOptions};
use crate::network::{link_of, plug_in};
use crate::programs::run_reading;
use crate::ready::wait_for_nodes;

pub use init::{enter, init};
use spec::NodeSpec;

/// The kubelet that nodes come up with.
pub const OLD_KUBELET: &str = "v1.33.13";
/// The kubelet that they are upgraded to.
pub const NEW_KUBELET: &str = "v1.34.4";

#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// How many nodes: n1, n2, …; six at most.
    pub nodes: u8,
    /// The program `drover-lab`: it is the first process of every node.
    pub program: PathBuf,
    /// OCI archives that every node has from the start, since there is no registry to pull them from.
    pub images: Vec<PathBuf>,
    /// How long each step may take.
    pub patience: Duration,
}

impl ClusterOptions {
    pub fn new(nodes: u8, program: impl Into<PathBuf>) -> Self {
        Self { nodes, program: program.into(), images: Vec::new(), patience: Duration::from_secs(120) }
    }
}

/// A control plane with real nodes. Dropping it ends everything and leaves nothing.
#[derive(Debug)]
pub struct Cluster {
    lab: Lab,
    nodes: Vec<Node>,
    options: ClusterOptions,
}

#[derive(Debug)]
struct Node {
    name: String,
    number: u8,
    dir: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Cluster {
    /// Starts everything and waits until pods can run on every node. Builds what is missing first.
    pub fn up(options: &ClusterOptions) -> Result<Self> {
        machine::suits()?;
        let kubelets = Binaries::ensure_kubelets()?;
        let pause = images::pause()?;
        let lab_options = LabOptions { own_network: true, patience: options.patience, ..LabOptions::default() };
        let lab = Lab::up(&lab_options)?;
        files::write_base(&lab.dir().join("nodes/base"), &kubelets.path(&format!("kubelet-{OLD_KUBELET}")))?;
        let mut cluster = Self { lab, nodes: Vec::new(), options: options.clone() };
        for number in 1..=options.nodes.min(6) {
            cluster.add(number)?;
        }
        cluster.import(&[&[pause], options.images.as_slice()].concat())?;
        let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        wait_for_nodes(&cluster.lab.kubectl, &names, options.patience)?;
        Ok(cluster)
    }

    /// The control plane.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    pub(crate) fn lab_mut(&mut self) -> &mut Lab {
        &mut self.lab
    }

    pub fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// The cgroups on this machine that are the cluster's.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        self.nodes.iter().flat_map(|node| node.cgroups.clone()).collect()
    }

    /// Loads images from OCI archives into every node.
    pub fn import(&self, archives: &[PathBuf]) -> Result<()> {
        std::thread::scope(|scope| {
            let imports: Vec<_> =
                self.nodes.iter().map(|node| scope.spawn(|| self.import_into(node, archives))).collect();
            imports
                .into_iter()
                .try_for_each(|import| import.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// Cuts the power: every process of the node is gone at once.
    pub fn crash(&mut self, name: &str) -> Result<()> {
        let process = self.node(name)?.process();
        self.lab.processes.kill(&process)
    }

    /// Starts a node that has crashed: with the same disk, and another boot id.
    pub fn boot(&mut self, name: &str) -> Result<()> {
        let number = self.node(name)?.number;
        self.start(number)
    }

    /// Runs a program on a node and returns what it printed.
    pub fn run_on(&self, name: &str, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.command_on(self.node(name)?, program)?;
        crate::programs::run(command.args(arguments))
    }

    fn add(&mut self, number: u8) -> Result<()> {
        let name = format!("n{number}");
        let dir = self.lab.dir().join("nodes").join(&name);
        fs::create_dir_all(&dir).on_file("create", &dir)?;
        let label = self.lab.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cgroups = cgroups::planned(&format!("{label}-{name}"))?;
        let node = Node { name, number, dir, cgroups };
        node.cgroups.iter().try_for_each(|cgroup| self.lab.processes.own_cgroup(cgroup))?;
        files::write_node(&node.spec(&self.lab), &self.lab)?;
        let gateway = node.address();
        self.lab.site.network.ip(&format!("route add {} via {gateway}", node.pods()))?;
        self.nodes.push(node);
        self.start(number)
    }

    fn start(&mut self, number: u8) -> Result<()> {
        let Some(node) = self.nodes.iter().find(|node| node.number == number) else {
            return Err(Error::NoNode { name: format!("n{number}") });
        };
        cgroups::make(&node.cgroups)?;
        let spec = node.dir.join("spec.json");
        node.spec(&self.lab).write(&spec)?;
        let (process, record) = (node.process(), self.lab.processes.record_of(&node.process()));
        let mut command = Command::new(&self.options.program);
        self.lab.processes.start(&process, command.arg("node-enter").arg(&spec))?;
        let started = crate::processes::recorded(&record);
        // The node's first process records itself in the place of the one that made its namespaces.
        self.lab.processes.wait_until(&process, "the node's first process", self.options.patience, || {
            crate::processes::recorded(&record) != started
        })?;
        let pid = self.lab.processes.recorded(&process).unwrap_or_default();
        plug_in(&self.lab.site.network, pid, &format!("v{number}"))
    }

    fn import_into(&self, node: &Node, archives: &[PathBuf]) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = self.run_on(&node.name, "ctr", &["version"]) {
            if started.elapsed() > self.options.patience {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        for archive in archives {
            let file = File::open(archive).on_file("open", archive)?;
            let mut ctr = self.command_on(node, "ctr")?;
            // The archive is read from here: the node does not see the folder where it lies.
            run_reading(ctr.args(["--namespace", "k8s.io", "images", "import", "-"]), Stdio::from(file))?;
        }
        Ok(())
    }

    fn command_on(&self, node: &Node, program: &str) -> Result<Command> {
        let pid = self.lab.processes.recorded(&node.process());
        let pid = pid.ok_or_else(|| Error::NoNode { name: node.name.clone() })?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", link_of(pid).display())).args([
            "--target",
            &pid.to_string(),
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--root",
            "--wd",
            "--",
            program,
        ]);
        Ok(command)
    }

    fn node(&self, name: &str) -> Result<&Node> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| Error::NoNode { name: name.into() })
    }
}

impl Node {
    fn process(&self) -> String {
        format!("node-{}", self.name)
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 88, 0, 10 + self.number)
    }

    fn pods(&self) -> String {
        format!("10.244.{}.0/24", self.number)
    }

    fn spec(&self, lab: &Lab) -> NodeSpec {
        NodeSpec {
            name: self.name.clone(),
            address: self.address(),
            pods: self.pods(),
            dir: self.dir.clone(),
            base: lab.dir().join("nodes/base"),
            logs: lab.dir().join("logs").join(&self.name),
            record: lab.processes.record_of(&self.process()),
            cgroups: self.cgroups.clone(),
        }
    }
}

/// What a node's kubelet has said, for a test that failed.
pub fn log_of(lab: &Lab, node: &str, program: &str) -> String {
    crate::processes::tail(Path::new(&lab.dir().join("logs").join(node).join(format!("{program}.log"))))
}
