//! What a node should be like: the plan that the agent of its machine carries out.
//!
//! Models `pkg/capr/planner/{instructions,config,probes}.go` of Rancher 2.12: the same image, stamps and probes, with one
//! small file of configuration.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::options::Version;
use crate::world::kubelet::hex;

const CONFIG: &str = "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml";
const INSTALLER: &str = "rancher/system-agent-installer-rke2";
pub const INSTALL: &str = "install";
pub const DRAIN_HASH: &str = "DRAIN_HASH";
const RESTART_STAMP: &str = "RESTART_STAMP";

/// What a plan follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted<'a> {
    pub kubernetes_version: &'a str,
    pub provision_generation: i64,
    pub config_generation: i64,
    pub node: &'a str,
    /// Where it joins; none for the node that others join.
    pub server: Option<&'a str>,
    pub etcd: bool,
    pub control_plane: bool,
    pub rancher: Version,
}

/// The plan, as it stands in the Secret.
pub fn desired(wanted: &Wanted<'_>) -> String {
    let image = format!("{INSTALLER}:{}", wanted.kubernetes_version.replace('+', "-"));
    let full = config(wanted, true);
    let stamp = stamp(wanted, &image, &full);
    let mut env = vec![format!("{RESTART_STAMP}={stamp}"), "RKE2_DATA_DIR=/var/lib/rancher/rke2".to_string()];
    if wanted.rancher.has_drain_hash() {
        env.push(format!("{DRAIN_HASH}={}", self::stamp(wanted, &image, &config(wanted, false))));
    }
    if !wanted.etcd && !wanted.control_plane {
        env.push("INSTALL_RKE2_EXEC=agent".to_string());
    }
    let plan = json!({
        "files": [{ "content": STANDARD.encode(&full), "path": CONFIG }],
        "instructions": [{
            "args": ["-c", "run.sh"], "command": "sh", "env": env, "image": image, "name": INSTALL, "saveOutput": true,
        }],
        "probes": probes(wanted),
    });
    plan.to_string()
}

/// Who joins whom does not matter for a drain.
fn config(wanted: &Wanted<'_>, with_join: bool) -> String {
    let mut config = Map::from_iter([("node-name".to_string(), json!(wanted.node))]);
    match wanted.server.filter(|_| with_join) {
        Some(server) => drop(config.insert("server".into(), json!(server))),
        None if with_join && wanted.etcd => drop(config.insert("cluster-init".into(), json!(true))),
        None => {}
    }
    Value::Object(config).to_string()
}

fn stamp(wanted: &Wanted<'_>, image: &str, config: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(wanted.provision_generation.to_string());
    hash.update(image);
    hash.update(CONFIG);
    hash.update(config);
    hash.update(wanted.config_generation.to_string());
    hex(&hash.finalize())
}

fn probes(wanted: &Wanted<'_>) -> Value {
    let probe = |url: &str| {
        json!({
            "failureThreshold": 5, "httpGet": { "url": url }, "initialDelaySeconds": 1, "successThreshold": 1,
            "timeoutSeconds": 5,
        })
    };
    let mut probes = Map::from_iter([("kubelet".to_string(), probe("http://127.0.0.1:10248/healthz"))]);
    if wanted.etcd {
        probes.insert("etcd".into(), probe("http://127.0.0.1:2381/health"));
    }
    if wanted.control_plane {
        probes.insert("kube-apiserver".into(), probe("https://127.0.0.1:6443/readyz"));
        probes.insert("kube-controller-manager".into(), probe("https://127.0.0.1:10257/healthz"));
        probes.insert("kube-scheduler".into(), probe("https://127.0.0.1:10259/healthz"));
    }
    Value::Object(probes)
}

/// The value of a variable of the installation, such as the hash of what a node has to be drained for.
pub fn variable(plan: &str, name: &str) -> Option<String> {
    let plan: Value = serde_json::from_str(plan).ok()?;
    let install = plan["instructions"].as_array()?.iter().find(|one| one["name"] == INSTALL)?;
    let env = install["env"].as_array()?.iter().filter_map(Value::as_str);
    env.filter_map(|line| line.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
}

/// The version that a plan installs, as kubelets say it.
pub fn version(plan: &str) -> Option<String> {
    let plan: Value = serde_json::from_str(plan).ok()?;
    let install = plan["instructions"].as_array()?.iter().find(|one| one["name"] == INSTALL)?;
    let (_, tag) = install["image"].as_str()?.rsplit_once(':')?;
    Some(match tag.rsplit_once("-rke2r") {
        Some((base, build)) => format!("{base}+rke2r{build}"),
        None => tag.to_string(),
    })
}

pub fn probe_names(plan: &str) -> Vec<String> {
    let plan: Value = serde_json::from_str(plan).unwrap_or_default();
    plan["probes"].as_object().map(|probes| probes.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted<'static> {
        Wanted {
            kubernetes_version: "v1.34.1+rke2r1",
            provision_generation: 1,
            config_generation: 0,
            node: "node-1",
            server: None,
            etcd: true,
            control_plane: true,
            rancher: Version(2, 12, 0),
        }
    }

    #[test]
    fn a_plan_says_which_version_it_installs_and_what_is_probed() {
        let plan = desired(&wanted());
        assert_eq!(version(&plan).as_deref(), Some("v1.34.1+rke2r1"));
        assert_eq!(
            probe_names(&plan),
            ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"]
        );
        assert_eq!(probe_names(&desired(&Wanted { etcd: false, control_plane: false, ..wanted() })), ["kubelet"]);
    }

    #[test]
    fn another_generation_means_a_drain_and_another_server_does_not() {
        let hash = |wanted: &Wanted<'_>| variable(&desired(wanted), DRAIN_HASH).unwrap();
        let stamp = |wanted: &Wanted<'_>| variable(&desired(wanted), RESTART_STAMP).unwrap();
        let joined = Wanted { server: Some("https://10.0.0.2:9345"), ..wanted() };

        assert_ne!(hash(&wanted()), hash(&Wanted { provision_generation: 2, ..wanted() }));
        assert_eq!(hash(&wanted()), hash(&joined));
        assert_ne!(stamp(&wanted()), stamp(&joined));
    }

    #[test]
    fn rancher_before_2_12_says_nothing_of_drains_in_its_plans() {
        assert_eq!(variable(&desired(&Wanted { rancher: Version(2, 11, 4), ..wanted() }), DRAIN_HASH), None);
    }
}
