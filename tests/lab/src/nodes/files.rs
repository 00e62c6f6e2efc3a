//! The files that make a machine a node: its kubelet, its certificates, and the settings of kubelet, containerd and CNI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::error::{OnFile, Result};
use crate::images::PAUSE;
use crate::lab::Lab;
use crate::nodes::machine;
use crate::nodes::spec::NodeSpec;

/// Where a node keeps what is its own: nothing of the machine is called so.
pub(crate) const SETTINGS: &str = "etc/drover-lab";
pub(crate) const KUBELET: &str = "usr/local/bin/kubelet";

/// Writes what all nodes share: the kubelet that they come up with, and the settings of containerd.
pub(crate) fn write_base(base: &Path, kubelet: &Path) -> Result<()> {
    let target = base.join(KUBELET);
    let settings = base.join(SETTINGS);
    for folder in [target.parent().unwrap_or(base), &settings] {
        fs::create_dir_all(folder).on_file("create", folder)?;
    }
    fs::copy(kubelet, &target).on_file("copy", kubelet)?;
    fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).on_file("write", &target)?;
    let path = settings.join("containerd.toml");
    fs::write(&path, containerd()).on_file("write", &path)
}

/// Writes what is one node's own.
pub(crate) fn write_node(spec: &NodeSpec, lab: &Lab) -> Result<()> {
    let settings = spec.upper().join(SETTINGS);
    for folder in [settings.join("cni"), spec.logs.clone()] {
        fs::create_dir_all(&folder).on_file("create", &folder)?;
    }
    let pki = &lab.site.pki;
    let user = format!("system:node:{}", spec.name);
    pki.kubeconfig(&settings.join("kubeconfig"), &lab.url(), &user, Some("system:nodes"))?;
    pki.server(&spec.name, &spec.address.to_string(), &settings.join("kubelet.crt"), &settings.join("kubelet.key"))?;
    let authority = pki.file("ca.crt");
    fs::copy(&authority, settings.join("ca.crt")).on_file("copy", &authority)?;
    // A name that is made of its number, as every machine has one that no other has.
    let machine_id = format!("{:0>32}", spec.address.octets().map(|octet| format!("{octet:02x}")).concat());
    for (path, text) in [
        (settings.join("kubelet.json"), kubelet().to_string()),
        (settings.join("cni/10-lab.conflist"), cni(&spec.pods).to_string()),
        (spec.upper().join("etc/hostname"), format!("{}\n", spec.name)),
        (spec.upper().join("etc/machine-id"), format!("{machine_id}\n")),
    ] {
        fs::write(&path, text).on_file("write", &path)?;
    }
    Ok(())
}

fn kubelet() -> serde_json::Value {
    let file = |name: &str| format!("/{SETTINGS}/{name}");
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": false },
            "x509": { "clientCAFile": file("ca.crt") },
        },
        // Whoever has a certificate of the lab's.
        "authorization": { "mode": "AlwaysAllow" },
        "tlsCertFile": file("kubelet.crt"),
        "tlsPrivateKeyFile": file("kubelet.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "failSwapOn": false,
        "resolvConf": "",
        // The disk is the machine's: how full that is, is no business of the pods.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%" },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "4s",
    })
}

fn cni(pods: &str) -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "lab",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": { "type": "host-local", "ranges": [[{ "subnet": pods }]], "routes": [{ "dst": "0.0.0.0/0" }] },
        }],
    })
}

fn containerd() -> String {
    let plugins = machine::cni_plugins().unwrap_or(Path::new("/usr/lib/cni")).display();
    format!(
        r#"version = 2
disabled_plugins = [
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
]

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Root of a container often lacks the right to lower the score.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "/{SETTINGS}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#
    )
}
