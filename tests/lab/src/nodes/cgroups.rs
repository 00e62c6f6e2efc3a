//! A cgroup for every node, in each hierarchy of this machine, below our own.
//!
//! The node's cgroup namespace begins there, so that its kubelet sees it as the root. With cgroup v1 each controller
//! has a hierarchy of its own; with cgroup v2 there is one for all.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, OnFile, Result};

/// Without one of these a kubelet does not start.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// A cgroup v1 hierarchy, as this process sees it.
#[derive(Debug, PartialEq)]
struct Hierarchy {
    /// `cpu,cpuacct`, or `name=systemd` for one without a controller.
    controllers: String,
    /// Our own cgroup in it.
    ours: PathBuf,
}

/// Fails where the machine's cgroups cannot be divided among nodes.
pub(crate) fn suit() -> Result<()> {
    let hierarchies = hierarchies()?;
    let has =
        |name: &str| hierarchies.iter().any(|one| one.controllers.split(',').any(|controller| controller == name));
    let missing: Vec<String> = NEEDED.iter().filter(|name| !has(name)).map(|name| (*name).to_owned()).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::NoCgroups { missing }) }
}

/// Where the cgroups of this name would be.
pub(crate) fn planned(name: &str) -> Result<Vec<PathBuf>> {
    Ok(hierarchies()?.into_iter().map(|hierarchy| hierarchy.ours.join(name)).collect())
}

/// Makes them, empty: a kubelet that finds the cgroups of pods that are long gone takes minutes to be Ready.
pub(crate) fn make(cgroups: &[PathBuf]) -> Result<()> {
    for cgroup in cgroups {
        fs::create_dir_all(cgroup).on_file("create", cgroup)?;
        remove_below(cgroup)?;
        // A new cgroup has no processors and no memory, and takes no process before it has.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (from, to) = (cgroup.with_file_name(file), cgroup.join(file));
            if from.exists() {
                fs::read(&from).and_then(|set| fs::write(&to, set)).on_file("write", &to)?;
            }
        }
    }
    Ok(())
}

/// Moves this process into them.
pub(crate) fn join(cgroups: &[PathBuf]) -> Result<()> {
    let pid = std::process::id().to_string();
    cgroups
        .iter()
        .map(|cgroup| cgroup.join("cgroup.procs"))
        .try_for_each(|procs| fs::write(&procs, &pid).on_file("write", &procs))
}

/// The cgroup v1 hierarchies of this kernel, by their controllers; for one who cannot know where they are mounted.
pub(crate) fn controllers() -> Result<Vec<String>> {
    let text = read("/proc/self/cgroup")?;
    let names = text.lines().filter_map(|line| line.split(':').nth(1)).filter(|names| !names.is_empty());
    Ok(names.map(str::to_owned).collect())
}

fn hierarchies() -> Result<Vec<Hierarchy>> {
    Ok(parse(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?))
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).on_file("read", Path::new(path))
}

fn remove_below(cgroup: &Path) -> Result<()> {
    for entry in fs::read_dir(cgroup).on_file("read", cgroup)? {
        let entry = entry.on_file("read", cgroup)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path())?;
            fs::remove_dir(entry.path()).on_file("remove", &entry.path())?;
        }
    }
    Ok(())
}

/// Brings together which cgroup we are in (`4:memory:/here`) and where its hierarchy is mounted.
fn parse(cgroup: &str, mountinfo: &str) -> Vec<Hierarchy> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, mounted_at) = mountinfo.lines().find_map(|mount| v1_mount(mount, controllers))?;
        let below = Path::new(path).strip_prefix(root).ok()?;
        // A join with nothing would leave a slash at the end.
        let ours = if below.as_os_str().is_empty() { mounted_at.into() } else { Path::new(mounted_at).join(below) };
        Some(Hierarchy { controllers: controllers.to_owned(), ours })
    };
    cgroup.lines().filter_map(of_line).collect()
}

/// The root and the mount point of a hierarchy: `30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
fn v1_mount<'a>(line: &'a str, controllers: &str) -> Option<(&'a str, &'a str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let options = file_system.strip_prefix("cgroup ")?.split_once(' ')?.1;
    let holds = |controller: &str| options.split(',').any(|option| option == controller);
    let mut fields = mount.split(' ').skip(3);
    let found = (fields.next()?, fields.next()?);
    (!controllers.is_empty() && controllers.split(',').all(holds)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 /job /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn our_own_cgroup_is_found_in_every_hierarchy() {
        let found = parse("4:memory:/job/7\n3:cpu,cpuacct:/\n1:name=systemd:/here\n0::/x\n", MOUNTS);

        let hierarchy =
            |controllers: &str, ours: &str| Hierarchy { controllers: controllers.into(), ours: ours.into() };
        assert_eq!(
            found,
            [
                hierarchy("memory", "/sys/fs/cgroup/memory/7"),
                hierarchy("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
                hierarchy("name=systemd", "/sys/fs/cgroup/systemd/here"),
            ]
        );
    }

    #[test]
    fn a_machine_with_cgroup_v2_alone_has_no_hierarchy_for_us() {
        assert_eq!(parse("0::/user.slice\n", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), []);
    }
}
