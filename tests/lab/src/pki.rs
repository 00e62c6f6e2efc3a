//! The certificates of one lab, made anew for each, and the kubeconfigs that carry them.

use std::fs;
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
const SERVER_NAMES: [&str; 7] =
    ["localhost", "127.0.0.1", "10.96.0.1", "10.88.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

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

/// Whom a certificate is for.
struct Subject<'a> {
    name: &'a str,
    group: Option<&'a str>,
    role: Role,
}

enum Role {
    /// With the names and addresses under which it is reached.
    Server(Vec<String>),
    Client,
}

struct Signed {
    certificate: String,
    key: String,
}

impl Signed {
    fn write(&self, certificate: &Path, key: &Path) -> Result<()> {
        fs::write(certificate, &self.certificate).on_file("write", certificate)?;
        fs::write(key, &self.key).on_file("write", key)
    }
}

impl Pki {
    /// Makes the authority, the API server's certificate and the key that signs service account tokens.
    pub fn new_in(dir: PathBuf) -> Result<Self> {
        fs::create_dir(&dir).on_file("create", &dir)?;
        let ca = authority().map_err(|source| Error::Certificate { subject: "the lab's authority".into(), source })?;
        let pki = Self { dir, ca };
        pki.write("ca.crt", &pki.ca.pem())?;
        pki.write("ca.key", &pki.ca.key().serialize_pem())?;

        let names = SERVER_NAMES.map(String::from).to_vec();
        pki.sign(&Subject { name: "kube-apiserver", group: None, role: Role::Server(names) })?
            .write(&pki.file("apiserver.crt"), &pki.file("apiserver.key"))?;
        // Kubelets let the lab's own client do everything: they ask no one else who may.
        pki.sign(&Subject { name: "kube-apiserver", group: Some("system:masters"), role: Role::Client })?
            .write(&pki.file("kubelet-client.crt"), &pki.file("kubelet-client.key"))?;

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
        let client = self.sign(&Subject { name: user, group, role: Role::Client })?;
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

    /// Writes the certificate of a server that is reached under one name or address.
    pub fn server(&self, name: &str, address: &str, certificate: &Path, key: &Path) -> Result<()> {
        let role = Role::Server(vec![name.to_owned(), address.to_owned()]);
        self.sign(&Subject { name, group: None, role })?.write(certificate, key)
    }

    fn sign(&self, subject: &Subject) -> Result<Signed> {
        let signed = || {
            let (names, usage) = match &subject.role {
                Role::Server(names) => (names.clone(), ExtendedKeyUsagePurpose::ServerAuth),
                Role::Client => (vec![], ExtendedKeyUsagePurpose::ClientAuth),
            };
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, subject.name);
            if let Some(group) = subject.group {
                params.distinguished_name.push(DnType::OrganizationName, group);
            }
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.ca)?.pem();
            Ok(Signed { certificate, key: key.serialize_pem() })
        };
        signed().map_err(|source| Error::Certificate { subject: subject.name.into(), source })
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
