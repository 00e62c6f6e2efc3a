//! Certificates come first, and outlive everything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::super::*;
use super::{CERTIFICATE, OTHER, settled};

#[test]
fn before_anything_else_the_certificates_are_copied_and_belong_to_the_cluster() {
    let mut scene = settled();
    let (done, _) = scene.goes();

    let first: Vec<&str> = done.iter().take(5).map(String::as_str).collect();
    assert_eq!(
        first,
        [
            "make Secret my-tkc-drover-certificates",
            "change Secret my-tkc-ca",
            "change Secret my-tkc-etcd",
            "change Secret my-tkc-sa",
            "change Secret my-tkc-proxy",
        ]
    );
    let owners = |secret: &str| -> Vec<String> {
        let owners = scene.get(Collection::Secrets, secret)["metadata"]["ownerReferences"].clone();
        owners.as_array().unwrap().iter().map(|owner| owner["uid"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(owners("my-tkc-ca"), ["cluster", "config-a"]);
    assert_eq!(owners("my-tkc-drover-certificates"), ["cluster"]);
}

#[test]
fn a_lost_certificate_stops_everything_unless_there_is_a_copy() {
    let mut scene = settled();
    scene.seen.forget(Collection::Secrets, "my-tkc-etcd");
    assert_eq!(scene.goes(), (Vec::new(), "fails: CertificatesMissing".into()));

    let mut scene = settled();
    scene.goes();
    let before = scene.get(Collection::Secrets, "my-tkc-sa")["data"].clone();
    scene.seen.forget(Collection::Secrets, "my-tkc-sa");
    assert_eq!(scene.goes().0, ["make Secret my-tkc-sa"]);
    assert_eq!(scene.get(Collection::Secrets, "my-tkc-sa")["data"], before);
    assert_eq!(scene.get(Collection::Secrets, "my-tkc-sa")["type"], "Opaque");

    scene.dialect = Dialect::V1beta1;
    scene.seen.forget(Collection::Secrets, "my-tkc-sa");
    scene.goes();
    assert_eq!(
        scene.get(Collection::Secrets, "my-tkc-sa")["type"],
        "cluster.x-k8s.io/secret",
        "as Cluster API makes it"
    );
}

#[test]
fn a_key_of_another_certificate_stops_everything() {
    let mut scene = settled();
    scene.certificate("my-tkc-etcd", (CERTIFICATE, OTHER.1));
    let Next::Fail(failure) = scene.next() else { panic!("it goes on") };
    assert_eq!(failure.sentence, "Secret default/my-tkc-etcd: its tls.key does not belong to its tls.crt");
    assert!(failure.remedy.contains("control-plane-recover-certs"), "{}", failure.remedy);
}

/// Somebody who deletes a certificate in the belief that it comes again has it made anew by Cluster API: machines that join with that are
/// strangers to those that are there.
#[test]
fn a_certificate_that_was_made_anew_stops_everything_and_the_copy_stays() {
    let mut scene = settled();
    scene.goes();
    let copy = scene.get(Collection::Secrets, "my-tkc-drover-certificates");
    scene.certificate("my-tkc-etcd", OTHER);

    let (done, end) = scene.goes();

    assert_eq!((done, end.as_str()), (Vec::new(), "fails: CertificatesChanged"));
    assert_eq!(scene.get(Collection::Secrets, "my-tkc-drover-certificates"), copy);
    let Next::Fail(failure) = scene.next() else { panic!("it goes on") };
    assert!(
        failure.sentence.contains("my-tkc-etcd") && failure.remedy.contains("my-tkc-drover-certificates"),
        "{failure}"
    );
}

#[test]
fn an_authority_that_the_kubeconfig_trusts_was_changed_on_purpose_and_the_earlier_one_is_kept() {
    let mut scene = settled();
    scene.goes();
    let before = scene.get(Collection::Secrets, "my-tkc-drover-certificates")["data"]["ca.crt"].clone();
    scene.certificate("my-tkc-ca", OTHER);
    scene.trusts(CERTIFICATE);
    assert_eq!(scene.goes().1, "fails: CertificatesChanged");

    scene.trusts(OTHER.0);
    assert_eq!(scene.goes().0.first().map(String::as_str), Some("change Secret my-tkc-drover-certificates"));
    let copy = scene.get(Collection::Secrets, "my-tkc-drover-certificates");
    assert_eq!(copy["data"]["ca.crt"], json!(STANDARD.encode(OTHER.0)));
    assert_eq!(copy["data"]["earlier-ca.crt"], before);
}

#[test]
fn an_authority_that_the_kubeconfig_does_not_trust_stops_everything_before_there_is_a_copy() {
    let mut scene = settled();
    scene.trusts(OTHER.0);
    assert_eq!(scene.goes(), (Vec::new(), "fails: CertificatesChanged".into()));
}

#[test]
fn a_certificate_that_cannot_be_read_stops_everything() {
    let mut scene = settled();
    let mut secret = scene.get(Collection::Secrets, "my-tkc-ca");
    secret["data"]["tls.crt"] =
        json!(STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
    scene.put(Collection::Secrets, secret);
    assert_eq!(scene.goes().1, "fails: CertificatesMissing");
}
