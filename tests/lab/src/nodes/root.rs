//! The root file system of a node, made by its first process in its own mount namespace.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use rustix::process::{chdir, pivot_root};

use crate::error::{OnFile, Result};
use crate::nodes::cgroups;
use crate::nodes::spec::NodeSpec;

/// The devices that pods and kubelets need; a privileged pod sees these, and not the machine's disks.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "kmsg"];

/// Kernel settings that a kubelet raises. The kernel is the machine's, so the node gets files of its own in their place.
const KERNEL_SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Puts the root together and moves into it.
pub(crate) fn move_in(spec: &NodeSpec) -> Result<()> {
    // What is mounted here stays here.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(Into::into)
        .on_file("part the mounts of", Path::new("/"))?;
    let root = Root { at: spec.dir.join("root") };
    root.overlay(spec)?;
    root.mount("proc", "proc", "")?;
    root.mount("sysfs", "sys", "")?;
    for folder in ["run", "tmp"] {
        root.mount("tmpfs", folder, "mode=755")?;
    }
    root.cgroups()?;
    root.devices()?;
    for folder in ["containerd", "kubelet", "cni"] {
        root.bind(&spec.dir.join(folder), &format!("var/lib/{folder}"))?;
    }
    root.bind(&spec.logs, "var/log")?;
    root.own_kernel_settings()?;
    root.become_ours()
}

struct Root {
    at: PathBuf,
}

impl Root {
    /// The machine's files below, the lab's above them, and what the node writes on top.
    fn overlay(&self, spec: &NodeSpec) -> Result<()> {
        let (upper, work) = (spec.upper(), spec.dir.join("work"));
        for folder in [&upper, &work, &self.at] {
            fs::create_dir_all(folder).on_file("create", folder)?;
        }
        let options =
            format!("lowerdir={}:/,upperdir={},workdir={}", spec.base.display(), upper.display(), work.display());
        self.mount("overlay", "", &options)
    }

    fn cgroups(&self) -> Result<()> {
        self.mount("tmpfs", "sys/fs/cgroup", "mode=755")?;
        for controllers in cgroups::controllers()? {
            let name = controllers.trim_start_matches("name=");
            let options = match controllers.starts_with("name=") {
                true => format!("none,{controllers}"),
                false => controllers.clone(),
            };
            self.mount("cgroup", &format!("sys/fs/cgroup/{name}"), &options)?;
            for alias in name.split(',').filter(|alias| *alias != name) {
                let link = self.at.join("sys/fs/cgroup").join(alias);
                symlink(name, &link).on_file("create", &link)?;
            }
        }
        Ok(())
    }

    fn devices(&self) -> Result<()> {
        self.mount("tmpfs", "dev", "mode=755")?;
        for device in DEVICES {
            let path = self.at.join("dev").join(device);
            fs::write(&path, "").on_file("create", &path)?;
            let machines = Path::new("/dev").join(device);
            mount_bind(&machines, &path).map_err(Into::into).on_file("mount", &machines)?;
        }
        self.mount("devpts", "dev/pts", "newinstance,ptmxmode=0666,mode=620")?;
        self.mount("tmpfs", "dev/shm", "mode=1777")?;
        self.mount("mqueue", "dev/mqueue", "")?;
        for (link, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            let path = self.at.join("dev").join(link);
            symlink(to, &path).on_file("create", &path)?;
        }
        Ok(())
    }

    fn own_kernel_settings(&self) -> Result<()> {
        // Another boot has another id, as a machine that was restarted.
        let id = Path::new("/proc/sys/kernel/random/uuid");
        let boot_id = fs::read_to_string(id).on_file("read", id)?;
        let settings = KERNEL_SETTINGS.iter().copied().chain([("kernel/random/boot_id", boot_id.trim_end())]);
        for (name, value) in settings {
            let file = self.at.join("run").join(name.replace('/', "."));
            fs::write(&file, format!("{value}\n")).on_file("write", &file)?;
            let setting = self.at.join("proc/sys").join(name);
            mount_bind(&file, &setting).map_err(Into::into).on_file("mount", &setting)?;
        }
        Ok(())
    }

    fn become_ours(&self) -> Result<()> {
        let old = self.at.join("run/old-root");
        fs::create_dir_all(&old).on_file("create", &old)?;
        let moved = || {
            chdir(&self.at)?;
            pivot_root(".", "run/old-root")?;
            chdir("/")?;
            unmount("/run/old-root", UnmountFlags::DETACH)?;
            // Volumes that the kubelet mounts have to be seen in containers.
            mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)
        };
        moved().map_err(Into::into).on_file("move to the root", &self.at)
    }

    fn mount(&self, kind: &str, at: &str, options: &str) -> Result<()> {
        let path = if at.is_empty() { self.at.clone() } else { self.at.join(at) };
        fs::create_dir_all(&path).on_file("create", &path)?;
        let options = CString::new(options).map_err(Into::into).on_file("mount", &path)?;
        mount(kind, &path, kind, MountFlags::empty(), options.as_c_str()).map_err(Into::into).on_file("mount", &path)
    }

    fn bind(&self, from: &Path, to: &str) -> Result<()> {
        let path = self.at.join(to);
        for folder in [from, &path] {
            fs::create_dir_all(folder).on_file("create", folder)?;
        }
        mount_bind(from, &path).map_err(Into::into).on_file("mount", &path)
    }
}
