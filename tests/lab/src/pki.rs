//! The certificates of one lab, made anew for each, and the kubeconfigs that carry them.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use crate::error::{Error, OnFile, Result};

/// The names and addresses under which a pod or a client may reach the API server.
const SERVER_NAMES: [&str; 6] =
    ["localhost", "127.0.0.1", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// The lab's certificate authority and the folder with what it has signed.
pub(crate) struct Pki {
    dir: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pki").field("dir", &self.dir).finish_non_exhaustive()
    }
}

struct Signed {
    certificate: String,
    key: String,
}

impl Pki {
    /// Makes the authority, the API server's certificate and the key that signs service account tokens.
    pub fn new_in(dir: PathBuf) -> Result<Self> {
        fs::create_dir(&dir).on_file("create", &dir)?;
        let ca = authority().map_err(|source| Error::Certificate { subject: "the lab's authority".into(), source })?;
        let pki = Self { dir, ca };
        pki.write("ca.crt", &pki.ca.pem())?;
        pki.write("ca.key", &pki.ca.key().serialize_pem())?;

        let server = pki.sign("kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth)?;
        pki.write("apiserver.crt", &server.certificate)?;
        pki.write("apiserver.key", &server.key)?;

        let tokens = KeyPair::generate()
            .map_err(|source| Error::Certificate { subject: "service account tokens".into(), source })?;
        pki.write("tokens.key", &tokens.serialize_pem())?;
        pki.write("tokens.pub", &tokens.public_key_pem())?;
        Ok(pki)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a kubeconfig for a user of one group at most: a certificate of rcgen's has room for one.
    pub fn kubeconfig(&self, path: &Path, server: &str, user: &str, group: Option<&str>) -> Result<()> {
        let client = self.sign(user, group, ExtendedKeyUsagePurpose::ClientAuth)?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {
                "server": server,
                "certificate-authority-data": STANDARD.encode(self.ca.pem()),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate-data": STANDARD.encode(client.certificate),
                "client-key-data": STANDARD.encode(client.key),
            }}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
            "current-context": "lab",
        });
        fs::write(path, format!("{kubeconfig:#}\n")).on_file("write", path)
    }

    fn sign(&self, name: &str, group: Option<&str>, usage: ExtendedKeyUsagePurpose) -> Result<Signed> {
        let signed = || {
            let names = if usage == ExtendedKeyUsagePurpose::ServerAuth {
                SERVER_NAMES.map(String::from).to_vec()
            } else {
                vec![]
            };
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            if let Some(group) = group {
                params.distinguished_name.push(DnType::OrganizationName, group);
            }
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![usage.clone()];
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.ca)?.pem();
            Ok(Signed { certificate, key: key.serialize_pem() })
        };
        signed().map_err(|source| Error::Certificate { subject: name.into(), source })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        fs::write(&path, text).on_file("write", &path)
    }
}

fn authority() -> std::result::Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "drover-lab-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// Where the API server listens.
pub(crate) fn server_url(port: u16) -> String {
    format!("https://{}:{port}", Ipv4Addr::LOCALHOST)
}
