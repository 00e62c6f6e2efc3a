//! The versions of kubeadm's own API: kubeadm of a machine that joins reads the ClusterConfiguration of the guest cluster, which may be in a version
//! that it no longer knows.
//!
//! It is raised no further than it has to be, so that kubeadm of the version before reads it as well.
//! See <https://kubernetes.io/docs/reference/config-api/>.

use serde_json::{Value, json};

const GROUP: &str = "kubeadm.k8s.io/";
/// The oldest first, each with the minor version of Kubernetes from which on kubeadm does not read it any more, if there is one.
const VERSIONS: [(&str, Option<u64>); 3] = [("v1beta1", Some(22)), ("v1beta2", Some(27)), (NARROWED, None)];
/// It has fields less than those before.
const NARROWED: &str = "v1beta3";

/// A ClusterConfiguration as kubeadm of a minor version reads it. One of a newer version, or of none that is known here, stays as it is.
pub fn readable(configuration: &Value, minor: u64) -> Value {
    let mut raised = configuration.clone();
    let present = configuration["apiVersion"].as_str().and_then(|version| version.strip_prefix(GROUP));
    let is_read = |(_, until): &&(&str, Option<u64>)| until.is_none_or(|until| minor < until);
    let known = VERSIONS.iter().position(|(version, _)| Some(*version) == present);
    let next = known.and_then(|at| VERSIONS[at..].iter().find(is_read));
    let Some((version, _)) = next.filter(|(version, _)| Some(*version) != present) else { return raised };
    raised["apiVersion"] = json!(format!("{GROUP}{version}"));
    if *version == NARROWED {
        let Some(fields) = raised.as_object_mut() else { return raised };
        fields.remove("useHyperKubeImage");
        if let Some(dns) = fields.get_mut("dns").and_then(Value::as_object_mut) {
            dns.remove("type");
        }
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(version: &str, minor: u64) -> String {
        let configuration = json!({ "apiVersion": format!("{GROUP}{version}"), "unknown": "kept" });
        let raised = readable(&configuration, minor);
        assert_eq!(raised["unknown"], "kept");
        raised["apiVersion"].as_str().unwrap().trim_start_matches(GROUP).to_owned()
    }

    #[test]
    fn it_is_raised_when_kubeadm_no_longer_reads_it_and_only_as_far_as_that() {
        for (before, minor, after) in [
            ("v1beta1", 21, "v1beta1"),
            ("v1beta1", 22, "v1beta2"),
            ("v1beta2", 22, "v1beta2"),
            ("v1beta2", 26, "v1beta2"),
            ("v1beta2", 27, "v1beta3"),
            ("v1beta1", 27, "v1beta3"),
            ("v1beta3", 34, "v1beta3"),
            ("v1beta4", 34, "v1beta4"),
            ("v9", 34, "v9"),
        ] {
            assert_eq!(raised(before, minor), after, "{before} for 1.{minor}");
        }
    }

    #[test]
    fn fields_that_are_no_more_go_and_others_stay() {
        let before = json!({
            "apiVersion": "kubeadm.k8s.io/v1beta2", "useHyperKubeImage": true,
            "dns": { "type": "CoreDNS", "imageTag": "v1.8.0" }, "etcd": { "local": {} },
        });
        let after = json!({
            "apiVersion": "kubeadm.k8s.io/v1beta3", "dns": { "imageTag": "v1.8.0" }, "etcd": { "local": {} },
        });
        assert_eq!(readable(&before, 27), after);
        assert_eq!(readable(&before, 26), before);
        let bare = json!({ "apiVersion": "kubeadm.k8s.io/v1beta2" });
        assert_eq!(readable(&bare, 27), json!({ "apiVersion": "kubeadm.k8s.io/v1beta3" }));
    }
}
