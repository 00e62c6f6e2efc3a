//! Archives that Harvester makes: support bundles, with the objects below `yamls/`, and the logs of upgrades.
//!
//! See <https://github.com/rancher/support-bundle-kit>. Its collector writes `"null"` where an object has an empty text
//! or null; that is undone here.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use zip::ZipArchive;

use super::SurveyError;
use drover_core::cluster::{Cluster, Collection};

use crate::objects::{Found, read_text};

/// The largest file of a bundle that is read: more is no list of objects.
const LARGEST: u64 = 512 << 20;

/// A zip archive, by its first bytes.
pub fn is_bundle(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"PK\x03\x04"
}

pub fn read(path: &Path, now: Timestamp) -> Result<Cluster, SurveyError> {
    let mut collection = Collection::new(now);
    each(path, &mut |piece| match piece {
        Piece::Object(text) => collection.take(text),
        Piece::List(resource) => collection.saw_resource(resource),
        Piece::Broken { resource, file } => collection.could_not_read(resource, file),
    })?;
    Ok(collection.finish())
}

/// All objects of a bundle, each as JSON text.
pub fn objects(path: &Path) -> Result<Vec<Box<RawValue>>, SurveyError> {
    let mut objects = Vec::new();
    each(path, &mut |piece| {
        if let Piece::Object(text) = piece {
            objects.extend(RawValue::from_string(text.to_owned()));
        }
    })?;
    Ok(objects)
}

/// What a bundle holds.
enum Piece<'a> {
    Object(&'a str),
    /// A list was collected, though it may be empty; its resource, such as `volumes.longhorn.io`.
    List(&'a str),
    /// A list that was cut off while it was collected, or is none.
    Broken {
        resource: &'a str,
        file: &'a str,
    },
}

fn each(path: &Path, take: &mut dyn FnMut(Piece<'_>)) -> Result<(), SurveyError> {
    let broken = |cause: String| SurveyError::Bundle { path: path.display().to_string(), cause };
    let file = File::open(path).map_err(|error| broken(error.to_string()))?;
    let mut archive = ZipArchive::new(file).map_err(|error| broken(error.to_string()))?;
    let mut lists = 0;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| broken(error.to_string()))?;
        let name = entry.name().map_err(|error| broken(error.to_string()))?.into_owned();
        let Some(resource) = resource(&name) else { continue };
        if entry.size() > LARGEST {
            return Err(broken(format!("{name} is larger than {} MiB", LARGEST >> 20)));
        }
        let mut text = String::new();
        entry.by_ref().take(LARGEST).read_to_string(&mut text).map_err(|error| broken(error.to_string()))?;
        lists += 1;
        let mut restored = |found: Found<'_>| {
            if let Found::Object(object) = found
                && let Ok(mut value) = serde_json::from_str::<Value>(object)
            {
                restore(&mut value, false);
                take(Piece::Object(&value.to_string()));
            }
        };
        match read_text(&text, &mut restored) {
            Ok(()) => take(Piece::List(&resource)),
            Err(_) => take(Piece::Broken { resource: &resource, file: &name }),
        }
    }
    if lists == 0 {
        return Err(SurveyError::OnlyLogs(path.display().to_string()));
    }
    Ok(())
}

/// `…/yamls/namespaced/shop/apps/v1/deployments.yaml` or `…/yamls/cluster/v1/nodes.yaml`: the name of the resource.
fn resource(name: &str) -> Option<String> {
    let (_, below) = name.split_once("yamls/")?;
    let mut parts: Vec<&str> = below.strip_suffix(".yaml")?.split('/').collect();
    let plural = parts.pop()?;
    let parts = match parts.split_first()? {
        (&"namespaced", rest) => rest.get(1..)?,
        (&"cluster", rest) => rest,
        _ => return None,
    };
    Some(match parts {
        [group, _version] => format!("{plural}.{group}"),
        _ => plural.to_owned(),
    })
}

/// Puts back what the collector has replaced: an empty text in lists and in maps of texts, nothing elsewhere.
fn restore(value: &mut Value, texts: bool) {
    const TEXTS: [&str; 5] = ["labels", "annotations", "matchLabels", "nodeSelector", "data"];
    let is_null = |value: &Value| value.as_str() == Some("null");
    match value {
        Value::Object(fields) => {
            if !texts {
                fields.retain(|_, value| !is_null(value));
            }
            for (key, value) in fields.iter_mut() {
                if is_null(value) {
                    *value = Value::from("");
                }
                restore(value, TEXTS.contains(&key.as_str()));
            }
        }
        Value::Array(items) => {
            for item in items {
                if is_null(item) {
                    *item = Value::from("");
                }
                restore(item, false);
            }
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_known_by_where_they_are() {
        let name = |path: &str| resource(path);
        assert_eq!(name("sb_1/yamls/cluster/v1/nodes.yaml").as_deref(), Some("nodes"));
        assert_eq!(
            name("sb/yamls/namespaced/shop/policy/v1/poddisruptionbudgets.yaml").as_deref(),
            Some("poddisruptionbudgets.policy")
        );
        assert_eq!(name("sb/yamls/namespaced/default/kubernetes/pods.yaml").as_deref(), Some("pods"));
        assert_eq!(name("sb/logs/default/pod/container.log"), None);
    }

    #[test]
    fn what_the_collector_replaced_is_put_back() {
        let mut node = json!({
            "metadata": { "labels": { "node-role.kubernetes.io/etcd": "null" }, "deletionTimestamp": "null" },
            "spec": { "taints": [{ "key": "a", "value": "null" }], "groups": ["null"] },
        });
        restore(&mut node, false);
        assert_eq!(
            node,
            json!({
                "metadata": { "labels": { "node-role.kubernetes.io/etcd": "" } },
                "spec": { "taints": [{ "key": "a" }], "groups": [""] },
            })
        );
    }

    /// A bundle as Harvester makes it, with these files.
    fn bundle(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        use std::io::Write as _;
        let path = std::env::temp_dir().join(format!("drover-{}-{name}.zip", std::process::id()));
        let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
        for (file, text) in files {
            archive.start_file(*file, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap();
        path
    }

    #[test]
    fn a_support_bundle_is_a_cluster() {
        let node = "kind: List\napiVersion: v1\nitems:\n- kind: Node\n  apiVersion: v1\n  metadata:\n    name: n1\n    \
                    deletionTimestamp: \"null\"\n    labels: {node-role.kubernetes.io/etcd: \"null\"}\n";
        let cut = "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n  meta";
        let none = "kind: List\napiVersion: v1\nitems: []\n";
        let path = bundle(
            "whole",
            &[
                ("sb/metadata.yaml", "projectName: Harvester\n"),
                ("sb/yamls/cluster/v1/nodes.yaml", node),
                ("sb/yamls/namespaced/default/v1/pods.yaml", cut),
                ("sb/yamls/namespaced/default/policy/v1/poddisruptionbudgets.yaml", none),
                ("sb/logs/default/pod/container.log", "hello"),
            ],
        );
        assert!(is_bundle(&path));

        let cluster = read(&path, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();

        assert_eq!(cluster.nodes.named("n1").unwrap().metadata.labels["node-role.kubernetes.io/etcd"], "");
        assert!(cluster.blind_to("PodDisruptionBudget").is_none(), "an empty list was collected");
        assert!(cluster.blind_to("Deployment").is_some());
        assert!(cluster.blind_to("Pod").is_some(), "what was cut off was not seen");
        assert_eq!(objects(&path).unwrap().len(), 1);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_archive_of_logs_holds_no_cluster() {
        let path = bundle("logs", &[("logs/hvst-upgrade-x/apply-manifests.log", "Waiting for plan…")]);
        let error = read(&path, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(matches!(error, SurveyError::OnlyLogs(_)), "{error}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_no_archive_is_no_bundle() {
        assert!(!is_bundle(Path::new("/dev/null")));
        assert!(!is_bundle(Path::new("/nowhere")));
    }
}
