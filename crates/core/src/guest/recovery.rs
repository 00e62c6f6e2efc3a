//! Certificates that were lost, from what machines of the control plane were booted with.
//!
//! A document for cloud-init holds every file of `/etc/kubernetes/pki` that a joining machine needs. What is missing or cannot be used is
//! made of that; what is whole stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::{labels, secrets};
use serde_json::{Value, json};

use super::certificates::{KINDS, fault_of, is_trusted};
use super::dialect::Dialect;
use super::seen::{Collection, Seen};
use super::wait::{Object, Side, Write};
use crate::decision::Act;

/// Where kubeadm has the certificate and the key of each Secret.
const FILES: [(&str, &str, &str); 4] = [
    (secrets::CA, "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/ca.key"),
    (secrets::ETCD, "/etc/kubernetes/pki/etcd/ca.crt", "/etc/kubernetes/pki/etcd/ca.key"),
    (secrets::PROXY, "/etc/kubernetes/pki/front-proxy-ca.crt", "/etc/kubernetes/pki/front-proxy-ca.key"),
    (secrets::SERVICE_ACCOUNT, "/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/pki/sa.key"),
];

/// The Secrets that are missing or broken, as they should be; none if all are whole. Says why it cannot be done.
pub fn recover(seen: &Seen, dialect: Dialect, namespace: &str, cluster: &str) -> Result<Vec<Write>, String> {
    let Some(object) = seen.get(Collection::Clusters, cluster) else {
        return Err(format!("there is no Cluster {namespace}/{cluster}"));
    };
    let mut writes = Vec::new();
    for (end, certificate, key) in &FILES {
        let name = format!("{cluster}{end}");
        let is_certificate = KINDS.iter().any(|(kind, is_certificate)| kind == end && *is_certificate);
        let known = seen.get(Collection::Secrets, &name);
        if known.is_some_and(|secret| fault_of(secret, is_certificate).is_none()) {
            continue;
        }
        if known.is_some_and(|secret| !secret["metadata"]["deletionTimestamp"].is_null()) {
            return Err(format!("Secret {namespace}/{name} is on its way out: wait until it is gone, and try again"));
        }
        let (owner, pair) = agreed(seen, cluster, certificate, key)?;
        let owners = json!([
            { "apiVersion": dialect.api_version(), "kind": "Cluster", "name": cluster, "uid": object["metadata"]["uid"] },
            {
                "apiVersion": dialect.bootstrap_api_version(), "kind": "KubeadmConfig",
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            },
        ]);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": dialect.certificate_type(),
            "metadata": {
                "name": name, "namespace": namespace, "labels": { labels::CLUSTER_NAME: cluster }, "ownerReferences": owners,
            },
            "data": { secrets::CERTIFICATE: STANDARD.encode(&pair.0), secrets::KEY: STANDARD.encode(&pair.1) },
        });
        if let Some(fault) = fault_of(&secret, is_certificate) {
            return Err(format!("what machines were booted with does not give a good Secret {name}: {fault}"));
        }
        if *end == secrets::CA && is_trusted(seen, cluster, pair.0.as_bytes()) == Some(false) {
            let kubeconfig = format!("{cluster}{}", secrets::KUBECONFIG);
            return Err(format!(
                "Secret {namespace}/{kubeconfig} trusts another authority than machines were booted with"
            ));
        }
        let act = match known {
            None => Act::Create(secret.clone()),
            Some(known) => Act::Patch(json!({
                "metadata": { "resourceVersion": known["metadata"]["resourceVersion"] }, "data": secret["data"],
            })),
        };
        writes.push(Write { object: Object::of(Side::Management, &secret), act, purpose: "bring back a certificate" });
    }
    Ok(writes)
}

/// What all machines of the control plane say of two files, and the config of one of them.
fn agreed<'a>(
    seen: &'a Seen,
    cluster: &str,
    certificate: &str,
    key: &str,
) -> Result<(&'a Value, (String, String)), String> {
    let mut said: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    let mut owner = None;
    let is_one = |machine: &&Value| {
        let labels = &machine["metadata"]["labels"];
        labels[labels::CLUSTER_NAME] == cluster && labels[labels::CONTROL_PLANE].is_string()
    };
    for machine in seen.all(Collection::Machines).filter(is_one) {
        let Some(document) = bootstrap_document(seen, machine) else { continue };
        let files = files_of(&document);
        let (Some(certificate), Some(key)) = (files.get(certificate), files.get(key)) else { continue };
        let name = machine["metadata"]["name"].as_str().unwrap_or_default();
        said.entry((certificate.clone(), key.clone())).or_default().insert(name);
        let config = machine["spec"]["bootstrap"]["configRef"]["name"].as_str();
        let config = config.and_then(|name| seen.get(Collection::Configs, name));
        owner = owner.or(config.filter(|config| config["metadata"]["deletionTimestamp"].is_null()));
    }
    let mut pairs = said.into_iter();
    match (pairs.next(), pairs.next(), owner) {
        (Some((pair, _)), None, Some(owner)) => Ok((owner, pair)),
        (Some((_, some)), Some((_, others)), _) => {
            Err(format!("machines do not agree on {certificate}: {some:?} have one, {others:?} another"))
        }
        (Some(_), None, None) => {
            Err("no KubeadmConfig of the control plane is left that could own the Secrets".to_owned())
        }
        (None, ..) => {
            Err(format!("no Machine of the control plane holds {certificate} and {key} in its bootstrap data"))
        }
    }
}

/// What a machine was booted with: in the Machine itself, or in a Secret that it names.
fn bootstrap_document(seen: &Seen, machine: &Value) -> Option<String> {
    let bootstrap = &machine["spec"]["bootstrap"];
    let named = || {
        let secret = seen.get(Collection::Secrets, bootstrap["dataSecretName"].as_str()?)?;
        secret["data"][secrets::VALUE].as_str()
    };
    let text = bootstrap["data"].as_str().or_else(named)?;
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}

/// The files that a document for cloud-init writes. It is read by its lines: other parts of it hold templates, which are no YAML.
fn files_of(document: &str) -> BTreeMap<String, String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut files = BTreeMap::new();
    let mut path: Option<String> = None;
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        let word = line.trim_start().trim_start_matches("- ").trim_start();
        if let Some(named) = word.strip_prefix("path:") {
            path = Some(named.trim().trim_matches(['"', '\'']).to_owned());
        } else if word.starts_with("content: |")
            && let Some(path) = path.take()
        {
            let depth = indent(line);
            let mut content = String::new();
            while let Some(next) = lines.next_if(|next| next.trim().is_empty() || indent(next) > depth) {
                if !next.trim().is_empty() {
                    content.push_str(next.trim());
                    content.push('\n');
                }
            }
            files.insert(path, content);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = include_str!("../../testdata/keys/ec.crt");
    const KEY: &str = include_str!("../../testdata/keys/ec.key");
    const OTHER: (&str, &str) =
        (include_str!("../../testdata/keys/rsa.crt"), include_str!("../../testdata/keys/rsa.key"));

    fn document(authority: &str) -> String {
        let mut text = "## template: jinja\n#cloud-config\n\nwrite_files:\n".to_owned();
        let pair = if authority == "AAAA" { (CERTIFICATE, KEY) } else { OTHER };
        for (end, certificate, key) in FILES {
            let of_service_account = (include_str!("../../testdata/keys/rsa.pub"), OTHER.1);
            let pair = if end == secrets::SERVICE_ACCOUNT { of_service_account } else { pair };
            for (path, content) in [(certificate, pair.0), (key, pair.1)] {
                let content: String = content.lines().map(|line| format!("      {line}\n")).collect();
                text += &format!(
                    "-   path: {path}\n    owner: root:root\n    permissions: '0640'\n    content: |\n{content}\n"
                );
            }
        }
        text + "runcmd:\n  - echo {{ ds.meta_data.hostname }}\n"
    }

    fn seen(authorities: &[(&str, &str)]) -> Seen {
        let mut seen = Seen::default();
        seen.put(
            Collection::Clusters,
            json!({ "metadata": { "name": "c", "uid": "cluster", "resourceVersion": "1" } }),
        );
        for (name, authority) in authorities {
            let labels = json!({ labels::CLUSTER_NAME: "c", labels::CONTROL_PLANE: "true" });
            let bootstrap = json!({ "configRef": { "name": name }, "data": STANDARD.encode(document(authority)) });
            seen.put(Collection::Machines, json!({ "metadata": { "name": name, "labels": labels, "resourceVersion": "1" }, "spec": { "bootstrap": bootstrap } }));
            seen.put(
                Collection::Configs,
                json!({ "metadata": { "name": name, "uid": format!("config-{name}"), "resourceVersion": "1" } }),
            );
        }
        seen
    }

    #[test]
    fn what_is_missing_is_made_of_what_machines_were_booted_with_and_the_rest_stays() {
        let mut seen = seen(&[("a", "AAAA"), ("b", "AAAA")]);
        seen.put(Collection::Secrets, secret("c-etcd", OTHER));
        let writes = recover(&seen, Dialect::V1alpha2, "default", "c").unwrap();
        let names: Vec<&str> = writes.iter().map(|write| write.object.name.as_str()).collect();
        assert_eq!(names, ["c-ca", "c-proxy", "c-sa"]);
        let Act::Create(secret) = &writes[0].act else { panic!("nothing is changed") };
        assert_eq!(STANDARD.decode(secret["data"]["tls.crt"].as_str().unwrap()).unwrap(), CERTIFICATE.as_bytes());
        let owners: Vec<&Value> =
            secret["metadata"]["ownerReferences"].as_array().unwrap().iter().map(|one| &one["uid"]).collect();
        assert_eq!(owners, ["cluster", "config-a"]);
    }

    fn secret(name: &str, (certificate, key): (&str, &str)) -> Value {
        let data = json!({ "tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key) });
        json!({ "metadata": { "name": name, "resourceVersion": "7" }, "data": data })
    }

    #[test]
    fn what_is_there_and_cannot_be_used_is_put_right_unless_it_changes_meanwhile() {
        let mut seen = seen(&[("a", "AAAA")]);
        for end in ["etcd", "proxy"] {
            seen.put(Collection::Secrets, secret(&format!("c-{end}"), (CERTIFICATE, KEY)));
        }
        seen.put(Collection::Secrets, secret("c-ca", (CERTIFICATE, OTHER.1)));
        seen.put(Collection::Secrets, secret("c-sa", ("", "")));

        let writes = recover(&seen, Dialect::V1alpha2, "default", "c").unwrap();

        let patches = writes.iter().map(|write| match &write.act {
            Act::Patch(patch) => (write.object.name.as_str(), patch["metadata"]["resourceVersion"].as_str().unwrap()),
            other => panic!("{other:?}"),
        });
        assert_eq!(patches.collect::<Vec<_>>(), [("c-ca", "7"), ("c-sa", "7")]);
        let Act::Patch(patch) = &writes[0].act else { panic!("it is there already") };
        assert_eq!(patch["data"], secret("", (CERTIFICATE, KEY))["data"]);

        let mut leaving = secret("c-ca", ("", ""));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        leaving["metadata"]["resourceVersion"] = json!("8");
        seen.put(Collection::Secrets, leaving);
        assert!(recover(&seen, Dialect::V1alpha2, "default", "c").unwrap_err().contains("on its way out"));
    }

    #[test]
    fn an_authority_that_the_kubeconfig_does_not_trust_is_not_brought_back() {
        let mut seen = seen(&[("a", "AAAA")]);
        let way = |authority: &str| {
            let kubeconfig =
                json!({ "clusters": [{ "cluster": { "certificate-authority-data": STANDARD.encode(authority) } }] });
            json!({ "metadata": { "name": "c-kubeconfig", "resourceVersion": "1" }, "data": { "value": STANDARD.encode(kubeconfig.to_string()) } })
        };
        seen.put(Collection::Secrets, way(OTHER.0));
        assert!(recover(&seen, Dialect::V1alpha2, "default", "c").unwrap_err().contains("trusts another authority"));
        let mut trusted = way(&format!("{}{CERTIFICATE}", OTHER.0));
        trusted["metadata"]["resourceVersion"] = json!("2");
        seen.put(Collection::Secrets, trusted);
        assert_eq!(recover(&seen, Dialect::V1alpha2, "default", "c").map(|writes| writes.len()), Ok(4));
    }

    /// It cannot be changed afterwards.
    #[test]
    fn what_is_brought_back_is_of_the_type_that_its_version_of_cluster_api_makes() {
        for (dialect, kind) in [
            (Dialect::V1alpha2, "Opaque"),
            (Dialect::V1beta1, "cluster.x-k8s.io/secret"),
            (Dialect::V1beta2, "cluster.x-k8s.io/secret"),
        ] {
            let writes = recover(&seen(&[("a", "AAAA")]), dialect, "default", "c").unwrap();
            let Act::Create(secret) = &writes[0].act else { panic!("nothing is changed") };
            assert_eq!(secret["type"], kind, "{dialect:?}");
        }
    }

    #[test]
    fn machines_that_do_not_agree_are_not_believed() {
        let error = recover(&seen(&[("a", "AAAA"), ("b", "BBBB")]), Dialect::V1alpha2, "default", "c").unwrap_err();
        assert!(error.contains("do not agree"), "{error}");
        assert!(recover(&seen(&[]), Dialect::V1alpha2, "default", "c").unwrap_err().contains("no Machine"));
    }

    #[test]
    fn only_machines_of_this_control_plane_are_asked() {
        let strangers = [
            json!({ labels::CLUSTER_NAME: "c" }),
            json!({ labels::CLUSTER_NAME: "other", labels::CONTROL_PLANE: "true" }),
        ];
        for stranger in strangers {
            let mut seen = seen(&[("a", "AAAA"), ("stranger", "BBBB")]);
            let mut machine = seen.get(Collection::Machines, "stranger").unwrap().clone();
            machine["metadata"]["labels"] = stranger;
            machine["metadata"]["resourceVersion"] = json!("2");
            seen.put(Collection::Machines, machine);
            assert_eq!(recover(&seen, Dialect::V1alpha2, "default", "c").map(|writes| writes.len()), Ok(4));
        }
    }

    #[test]
    fn a_config_that_is_going_owns_nothing() {
        let mut seen = seen(&[("a", "AAAA"), ("b", "AAAA")]);
        let leave = |seen: &mut Seen, name: &str| {
            let mut config = seen.get(Collection::Configs, name).unwrap().clone();
            config["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
            config["metadata"]["resourceVersion"] = json!("2");
            seen.put(Collection::Configs, config);
        };
        leave(&mut seen, "a");
        let writes = recover(&seen, Dialect::V1alpha2, "default", "c").unwrap();
        let Act::Create(secret) = &writes[0].act else { panic!("nothing is changed") };
        assert_eq!(secret["metadata"]["ownerReferences"][1]["uid"], "config-b");
        leave(&mut seen, "b");
        assert!(recover(&seen, Dialect::V1alpha2, "default", "c").unwrap_err().contains("no KubeadmConfig"));
    }

    #[test]
    fn a_document_is_found_in_the_machine_or_in_the_secret_that_it_names() {
        let mut seen = seen(&[("a", "AAAA")]);
        let mut machine = seen.get(Collection::Machines, "a").unwrap().clone();
        let data = machine["spec"]["bootstrap"]["data"].take();
        machine["spec"]["bootstrap"]["dataSecretName"] = json!("a-boot");
        machine["metadata"]["resourceVersion"] = json!("2");
        seen.put(Collection::Machines, machine);
        assert!(recover(&seen, Dialect::V1alpha2, "default", "c").unwrap_err().contains("no Machine"));
        seen.put(
            Collection::Secrets,
            json!({ "metadata": { "name": "a-boot", "resourceVersion": "1" }, "data": { "value": data } }),
        );
        assert_eq!(recover(&seen, Dialect::V1alpha2, "default", "c").map(|writes| writes.len()), Ok(4));
        assert!(
            recover(&seen, Dialect::V1alpha2, "default", "other").unwrap_err().contains("no Cluster default/other")
        );
    }
}
