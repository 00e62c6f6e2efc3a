//! What the lab builds: Go modules whose go.mod and go.sum fix every version.

use sha2::{Digest, Sha256};

/// A Go module of ours that exists only to pin commands of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    pub name: &'static str,
    pub go_mod: &'static str,
    pub go_sum: &'static str,
    pub tools_go: &'static str,
    /// The module whose version is stamped into the binaries.
    pub pinned: &'static str,
    /// Packages that hold the version; a binary that is not stamped reports `v0.0.0-master+$Format`.
    pub stamped: &'static [&'static str],
    pub commands: &'static [GoCommand],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct GoCommand {
    pub binary: &'static str,
    pub package: &'static str,
}

/// The kubelets of real nodes, the old one and the one that they are upgraded to. They have a cache of their own: who
/// needs no real nodes does not build them.
pub(crate) const KUBELETS: [Module; 2] = [
    Module {
        name: "kubelet-1.33",
        go_mod: include_str!("../pins/kubelet-1.33/go.mod"),
        go_sum: include_str!("../pins/kubelet-1.33/go.sum"),
        tools_go: include_str!("../pins/kubelet-1.33/tools.go"),
        pinned: "k8s.io/kubernetes",
        stamped: &STAMPED_IN_KUBERNETES,
        commands: &[GoCommand { binary: "kubelet-v1.33.13", package: "k8s.io/kubernetes/cmd/kubelet" }],
    },
    Module {
        name: "kubelet-1.34",
        go_mod: include_str!("../pins/kubelet-1.34/go.mod"),
        go_sum: include_str!("../pins/kubelet-1.34/go.sum"),
        tools_go: include_str!("../pins/kubelet-1.34/tools.go"),
        pinned: "k8s.io/kubernetes",
        stamped: &STAMPED_IN_KUBERNETES,
        commands: &[GoCommand { binary: "kubelet-v1.34.4", package: "k8s.io/kubernetes/cmd/kubelet" }],
    },
];

/// What people talk to a cluster with, besides the kubectl of the control plane's own version: the oldest kubectl that
/// speaks WebSocket, the newest that is published as a module, and Helm. A cache of their own, too.
pub(crate) const CLIENTS: [Module; 3] = [
    Module {
        name: "kubectl-1.31",
        go_mod: include_str!("../pins/kubectl-1.31/go.mod"),
        go_sum: include_str!("../pins/kubectl-1.31/go.sum"),
        tools_go: include_str!("../pins/kubectl-1.31/tools.go"),
        pinned: "k8s.io/kubernetes",
        stamped: &STAMPED_IN_KUBERNETES,
        commands: &[GoCommand { binary: "kubectl-v1.31.14", package: "k8s.io/kubernetes/cmd/kubectl" }],
    },
    Module {
        name: "kubectl-1.36",
        go_mod: include_str!("../pins/kubectl-1.36/go.mod"),
        go_sum: include_str!("../pins/kubectl-1.36/go.sum"),
        tools_go: include_str!("../pins/kubectl-1.36/tools.go"),
        pinned: "k8s.io/kubernetes",
        stamped: &STAMPED_IN_KUBERNETES,
        commands: &[GoCommand { binary: "kubectl-v1.36.3", package: "k8s.io/kubernetes/cmd/kubectl" }],
    },
    Module {
        name: "helm",
        go_mod: include_str!("../pins/helm/go.mod"),
        go_sum: include_str!("../pins/helm/go.sum"),
        tools_go: include_str!("../pins/helm/tools.go"),
        pinned: "helm.sh/helm/v4",
        stamped: &[],
        commands: &[GoCommand { binary: "helm", package: "helm.sh/helm/v4/cmd/helm" }],
    },
];

/// Cluster API: its managers, and infrastructure that is in memory only. One module pins all of them, but two of the packages have the
/// same last name, by which `go build` would call both.
pub(crate) const CLUSTER_API: [Module; 4] = [
    Module {
        commands: &[GoCommand { binary: "capi-core", package: "sigs.k8s.io/cluster-api/core" }],
        ..cluster_api("capi-core")
    },
    Module {
        commands: &[GoCommand { binary: "capi-bootstrap", package: "sigs.k8s.io/cluster-api/bootstrap/kubeadm" }],
        ..cluster_api("capi-bootstrap")
    },
    Module {
        commands: &[GoCommand {
            binary: "capi-control-plane",
            package: "sigs.k8s.io/cluster-api/controlplane/kubeadm",
        }],
        ..cluster_api("capi-control-plane")
    },
    Module {
        commands: &[GoCommand {
            binary: "capi-in-memory",
            package: "sigs.k8s.io/cluster-api/test/infrastructure/docker",
        }],
        ..cluster_api("capi-in-memory")
    },
];

const fn cluster_api(name: &'static str) -> Module {
    Module {
        name,
        go_mod: include_str!("../pins/cluster-api/go.mod"),
        go_sum: include_str!("../pins/cluster-api/go.sum"),
        tools_go: include_str!("../pins/cluster-api/tools.go"),
        pinned: "sigs.k8s.io/cluster-api",
        stamped: &["sigs.k8s.io/cluster-api/version"],
        commands: &[],
    }
}

/// A small program around what a kubelet forwards ports with. Its own source stands where others have only imports.
pub(crate) const PORT_FORWARD: [Module; 1] = [Module {
    name: "port-forward",
    go_mod: include_str!("../pins/port-forward/go.mod"),
    go_sum: include_str!("../pins/port-forward/go.sum"),
    tools_go: include_str!("../pins/port-forward/main.go"),
    pinned: "k8s.io/kubelet",
    stamped: &[],
    commands: &[GoCommand { binary: "port-forward", package: "drover.dev/lab/port-forward" }],
}];

const STAMPED_IN_KUBERNETES: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// The control plane, its client, and KWOK.
pub(crate) const MODULES: [Module; 3] = [
    Module {
        name: "etcd",
        go_mod: include_str!("../pins/etcd/go.mod"),
        go_sum: include_str!("../pins/etcd/go.sum"),
        tools_go: include_str!("../pins/etcd/tools.go"),
        pinned: "go.etcd.io/etcd/server/v3",
        stamped: &[],
        commands: &[GoCommand { binary: "etcd", package: "go.etcd.io/etcd/server/v3" }],
    },
    Module {
        name: "kubernetes",
        go_mod: include_str!("../pins/kubernetes/go.mod"),
        go_sum: include_str!("../pins/kubernetes/go.sum"),
        tools_go: include_str!("../pins/kubernetes/tools.go"),
        pinned: "k8s.io/kubernetes",
        stamped: &STAMPED_IN_KUBERNETES,
        commands: &[
            GoCommand { binary: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver" },
            GoCommand { binary: "kube-controller-manager", package: "k8s.io/kubernetes/cmd/kube-controller-manager" },
            GoCommand { binary: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler" },
            GoCommand { binary: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl" },
        ],
    },
    Module {
        name: "kwok",
        go_mod: include_str!("../pins/kwok/go.mod"),
        go_sum: include_str!("../pins/kwok/go.sum"),
        tools_go: include_str!("../pins/kwok/tools.go"),
        pinned: "sigs.k8s.io/kwok",
        stamped: &[],
        commands: &[GoCommand { binary: "kwok", package: "sigs.k8s.io/kwok/cmd/kwok" }],
    },
];

/// The version of Kubernetes that the lab builds, such as `v1.34.4`.
pub(crate) fn kubernetes_version() -> &'static str {
    let kubernetes = MODULES.iter().find(|module| module.name == "kubernetes");
    kubernetes.and_then(Module::version).unwrap_or_default()
}

/// Names the cache folder of these pins: another pin, flag or machine type is another folder.
pub(crate) fn key(modules: &[Module]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        // The length keeps two neighbours from being taken for two others with the same text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    };
    add(std::env::consts::OS);
    add(std::env::consts::ARCH);
    for module in modules {
        add(module.name);
        add(module.go_mod);
        add(module.go_sum);
        if module.is_built_itself() {
            add(module.tools_go);
        }
        module.flags().iter().for_each(|flag| add(flag));
        for command in module.commands {
            add(command.binary);
            add(command.package);
        }
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Module {
    /// The version that go.mod requires, such as `v1.34.4`.
    pub fn version(&self) -> Option<&'static str> {
        self.go_mod.lines().find_map(|line| {
            let mut words = line.split_whitespace().skip_while(|word| *word == "require");
            (words.next() == Some(self.pinned)).then(|| words.next()).flatten()
        })
    }

    /// Whether the program is its own, and not only others' that it pins.
    fn is_built_itself(&self) -> bool {
        let own = self.go_mod.lines().next().and_then(|line| line.strip_prefix("module "));
        self.commands.iter().any(|command| Some(command.package) == own)
    }

    /// The flags of `go build`. Readonly, so that a pin that does not suffice fails instead of being changed.
    pub fn flags(&self) -> Vec<String> {
        vec![
            "-mod=readonly".into(),
            "-buildvcs=false".into(),
            "-trimpath".into(),
            "-ldflags".into(),
            self.linker_flags(),
        ]
    }

    fn linker_flags(&self) -> String {
        let mut flags = String::from("-s -w");
        let version = self.version().unwrap_or_default();
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        for package in self.stamped {
            for (variable, value) in
                [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")]
            {
                flags.push_str(&format!(" -X {package}.{variable}={value}"));
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str) -> Module {
        MODULES.into_iter().find(|module| module.name == name).unwrap()
    }

    #[test]
    fn every_module_pins_a_version() {
        let versions = MODULES.map(|module| module.version().unwrap());

        assert_eq!(versions, ["v3.6.5", "v1.34.4", "v0.8.0"]);
    }

    #[test]
    fn every_kubelet_is_called_by_its_version() {
        for module in KUBELETS {
            let binary = format!("kubelet-{}", module.version().unwrap());
            assert_eq!(module.commands.iter().map(|command| command.binary).collect::<Vec<_>>(), [binary]);
        }
    }

    #[test]
    fn every_part_of_cluster_api_is_of_one_version() {
        assert_eq!(CLUSTER_API.map(|module| module.version().unwrap()), ["v1.14.2"; 4]);
        assert!(CLUSTER_API.iter().all(|module| module.commands[0].binary == module.name));
    }

    #[test]
    fn kubernetes_binaries_are_stamped_with_the_pinned_version() {
        let flags = module("kubernetes").linker_flags();

        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.34.4"), "{flags}");
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=34"), "{flags}");
    }

    #[test]
    fn the_same_pins_have_the_same_key() {
        assert_eq!(key(&MODULES), key(&MODULES));
        assert_eq!(key(&MODULES).len(), 16);
    }

    #[test]
    fn another_checksum_is_another_key() {
        let mut changed = MODULES;
        changed[0].go_sum = "";

        assert_ne!(key(&changed), key(&MODULES));
    }

    #[test]
    fn another_source_is_another_key_where_that_is_what_is_built() {
        let (mut own, mut others) = (PORT_FORWARD, MODULES);
        own[0].tools_go = "package main";
        others[0].tools_go = "package tools";

        assert_ne!(key(&own), key(&PORT_FORWARD));
        assert_eq!(key(&others), key(&MODULES));
    }

    #[test]
    fn text_that_moves_from_one_file_to_the_next_is_another_key() {
        let (mut one, mut other) = (module("etcd"), module("etcd"));
        (one.go_mod, one.go_sum) = ("ab", "c");
        (other.go_mod, other.go_sum) = ("a", "bc");

        assert_ne!(key(&[one]), key(&[other]));
    }
}
