//! The plan of a machine: what its agent carries out. It is never made up here: the one that is there is raised.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const INSTALL: &str = "install";
const RESTART_STAMP: &str = "RESTART_STAMP";
const DRAIN_HASH: &str = "DRAIN_HASH";

/// The version that a plan installs, as kubelets say it.
pub fn version(plan: &str) -> Option<String> {
    let plan: Value = serde_json::from_str(plan).ok()?;
    let (_, tag) = split(&install(&plan)?["image"])?;
    Some(match tag.rsplit_once("-rke2r") {
        Some((base, build)) => format!("{base}+rke2r{build}"),
        None => tag.to_owned(),
    })
}

fn install(plan: &Value) -> Option<&Value> {
    plan["instructions"].as_array()?.iter().find(|one| one["name"] == INSTALL)
}

/// The name of an image and its tag. What stands behind a port is no tag.
fn split(image: &Value) -> Option<(&str, &str)> {
    image.as_str()?.rsplit_once(':').filter(|(_, tag)| !tag.is_empty() && !tag.contains('/'))
}

/// Another version can be put into it.
pub fn is_readable(plan: &str) -> bool {
    raised(plan, "v0", 0).is_some()
}

/// The same plan for another version or generation: the image of the installation and its stamps change, and nothing else.
/// None for a plan that installs nothing.
pub fn raised(plan: &str, version: &str, generation: i64) -> Option<String> {
    let mut plan: Value = serde_json::from_str(plan).ok()?;
    let files = plan["files"].to_string();
    let install = plan["instructions"].as_array_mut()?.iter_mut().find(|one| one["name"] == INSTALL)?;
    let (name, _) = split(&install["image"])?;
    let image = format!("{name}:{}", version.replace('+', "-"));
    let digest = Sha256::digest(format!("{generation}\n{image}\n{files}"));
    let stamp: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    install["image"] = json!(image);
    for line in install["env"].as_array_mut()? {
        let key = line.as_str().and_then(|line| line.split('=').next()).unwrap_or_default();
        if [RESTART_STAMP, DRAIN_HASH].contains(&key) {
            *line = json!(format!("{key}={stamp}"));
        }
    }
    Some(plan.to_string())
}

/// Entries of a Secret's data.
pub fn data(entries: &[(&str, &str)]) -> Value {
    let encoded = entries.iter().map(|(key, text)| ((*key).to_owned(), json!(STANDARD.encode(text))));
    Value::Object(encoded.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> String {
        json!({
            "files": [{ "path": "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", "content": "eA==" }],
            "instructions": [{ "name": "install", "image": "rancher/system-agent-installer-rke2:v1.33.5-rke2r1",
                "env": ["RESTART_STAMP=a", "DRAIN_HASH=b", "RKE2_DATA_DIR=/var/lib/rancher/rke2"] }],
            "probes": { "kubelet": {} },
        })
        .to_string()
    }

    #[test]
    fn a_plan_is_raised_and_keeps_what_it_has() {
        let next = raised(&plan(), "v1.34.1+rke2r1", 2).unwrap();
        assert_eq!(version(&next).as_deref(), Some("v1.34.1+rke2r1"));
        let (before, after): (Value, Value) =
            (serde_json::from_str(&plan()).unwrap(), serde_json::from_str(&next).unwrap());
        assert_eq!((&before["files"], &before["probes"]), (&after["files"], &after["probes"]));
        assert_eq!(after["instructions"][0]["env"][2], "RKE2_DATA_DIR=/var/lib/rancher/rke2");
    }

    #[test]
    fn another_generation_of_the_same_version_is_another_plan() {
        let of = |generation: i64| raised(&plan(), "v1.33.5+rke2r1", generation).unwrap();
        assert_ne!(of(1), of(2));
        assert_eq!(of(2), of(2));
    }

    #[test]
    fn a_plan_that_installs_nothing_is_left_alone() {
        assert_eq!(raised(r#"{"instructions":[]}"#, "v1.34.1+rke2r1", 2), None);
        assert_eq!(raised("nonsense", "v1.34.1+rke2r1", 2), None);
        let of = |image: &str| plan().replace("rancher/system-agent-installer-rke2:v1.33.5-rke2r1", image);
        assert!(is_readable(&of("registry:5000/rancher/rke2:v1.33.5-rke2r1")) && is_readable(&plan()));
        for image in ["registry:5000/rancher/rke2", "rancher/rke2", "rancher/rke2:"] {
            assert!(!is_readable(&of(image)) && version(&of(image)).is_none(), "{image}");
        }
    }
}
