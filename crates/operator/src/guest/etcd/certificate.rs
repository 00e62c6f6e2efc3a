//! What lets one in: a certificate for a client, made of the authority of a cluster's etcd, and the check that whoever answers
//! has one of that authority, too.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::webhook::certificate::{day, last};

/// etcd asks for users only where somebody has told it to; then this is the one who may do all.
const NAME: &str = "root";
/// Clocks differ. A day is all that dates of certificates are made of here; each is thrown away after one connection.
const SLACK: SignedDuration = SignedDuration::from_hours(24);
const LIFE: SignedDuration = SignedDuration::from_hours(48);

/// The authority of a cluster's etcd: the Secret `<cluster>-etcd`.
#[derive(Clone)]
pub struct Authority {
    certificate: String,
    key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Of PEM files.
    pub fn new(certificate: String, key: String) -> Self {
        Authority { certificate, key }
    }

    /// How to connect to the member whose certificate is good for one of these names.
    pub fn connects(&self, names: &[&str], now: Timestamp) -> Result<ClientConfig, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the authority of etcd cannot be used: {error}");
        let provider = Arc::new(ring::default_provider());
        let authority = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(|error| failed(&error))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).map_err(|error| failed(&error))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| failed(&error))?;
        let names = names.iter().filter_map(|name| ServerName::try_from((*name).to_owned()).ok()).collect();
        let (certificate, key) = self.client(&authority, now).map_err(|error| failed(&error))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OneOf { verifier, names }))
            .with_client_auth_cert(vec![certificate], key)
            .map_err(|error| failed(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// A certificate for a client, and its key.
    fn client(
        &self,
        authority: &CertificateDer<'_>,
        now: Timestamp,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
        let issuer = Issuer::from_ca_cert_der(authority, key_of(&self.key)?)?;
        let mut params = CertificateParams::new(Vec::new())?;
        last(&mut params, day(now, -SLACK), day(now, LIFE));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((certificate.der().clone(), PrivateKeyDer::Pkcs8(key)))
    }
}

/// A key of whichever form: kubeadm and Cluster API write RSA keys as PKCS #1 and others as SEC 1, of which neither is read here as it is.
fn key_of(pem: &str) -> Result<KeyPair, rcgen::Error> {
    const RSA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 0x05, 0];
    const CURVE: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    const P256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    const P384: &[u8] = &[0x06, 5, 0x2b, 0x81, 4, 0, 34];
    let unreadable = || rcgen::Error::CouldNotParseKeyPair;
    let wrapped = match PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unreadable())? {
        PrivateKeyDer::Pkcs8(key) => key,
        PrivateKeyDer::Pkcs1(key) => wrap(RSA, key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => {
            let key = key.secret_sec1_der();
            let curve = [P256, P384].into_iter().find(|curve| key.windows(curve.len()).any(|part| part == *curve));
            wrap(&[CURVE, curve.ok_or_else(unreadable)?].concat(), key)
        }
        _ => return Err(unreadable()),
    };
    KeyPair::try_from(&PrivateKeyDer::Pkcs8(wrapped))
}

/// As PKCS #8 has it: a version, what kind of key it is, and the key.
fn wrap(algorithm: &[u8], key: &[u8]) -> PrivatePkcs8KeyDer<'static> {
    const SEQUENCE: u8 = 0x30;
    const OCTETS: u8 = 0x04;
    let version: &[u8] = &[0x02, 1, 0];
    let parts = [version, &der(SEQUENCE, algorithm), &der(OCTETS, key)].concat();
    PrivatePkcs8KeyDer::from(der(SEQUENCE, &parts))
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length: &[u8] = &length[length.iter().take_while(|byte| **byte == 0).count().min(length.len() - 1)..];
    let mut element = vec![tag];
    if content.len() >= 0x80 {
        element.push(0x80 | length.len().to_le_bytes()[0]);
    }
    element.extend(length);
    element.extend(content);
    element
}

/// A member is known by several names, and not by that of the pod in which it runs.
#[derive(Debug)]
struct OneOf {
    verifier: Arc<WebPkiServerVerifier>,
    names: Vec<ServerName<'static>>,
}

impl ServerCertVerifier for OneOf {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut refused = Error::General("no name to look for".to_owned());
        for name in &self.names {
            match self.verifier.verify_server_cert(certificate, chain, name, ocsp, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl genrsa -traditional 2048` and `openssl ecparam -name prime256v1 -genkey -noout`.
    const KEYS: [(&str, &str); 2] =
        [("rsa", include_str!("testdata/rsa.key")), ("ec", include_str!("testdata/ec.key"))];

    #[test]
    fn keys_are_read_in_the_forms_that_kubeadm_writes() {
        for (name, pem) in KEYS {
            let key = key_of(pem).unwrap_or_else(|error| panic!("{name}: {error}"));
            // And in the form that it is kept in here.
            assert!(key_of(&key.serialize_pem()).is_ok(), "{name}");
        }
        assert!(key_of("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n").is_err());
    }

    #[test]
    fn lengths_are_as_long_as_they_have_to_be() {
        assert_eq!(der(4, &[]), [4, 0]);
        assert_eq!(der(4, &[1]), [4, 1, 1]);
        assert_eq!(der(4, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(der(4, &[0; 0x123])[..4], [4, 0x82, 1, 0x23]);
    }

    #[test]
    fn an_authority_that_is_none_is_said_so() {
        let authority = Authority::new("no PEM".to_owned(), KEYS[0].1.to_owned());
        let why = authority.connects(&["localhost"], Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(why.starts_with("the authority of etcd cannot be used"), "{why}");
    }
}
