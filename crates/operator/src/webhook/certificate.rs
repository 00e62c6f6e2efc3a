//! The certificate that webhooks show: made here, kept in a Secret, made anew long before it ends.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::marks::WEBHOOK;
use drover_core::cluster::certificate::earliest_end;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// It is made anew when it lasts no longer than this.
pub const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Clocks differ: it is good from a day ago.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

mod keys {
    pub const CERTIFICATE: &str = "tls.crt";
    pub const KEY: &str = "tls.key";
    pub const AUTHORITIES: &str = "ca.crt";
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] tokio_rustls::rustls::Error),
    #[error("the Secret does not hold a certificate and its key")]
    Strange,
}

/// A certificate with its key, and whom to trust to trust it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    certificate: String,
    key: String,
    /// Of this certificate, and of the one before it: API servers and other replicas learn of a new one at different times.
    pub authorities: String,
}

impl Certificate {
    pub fn make(hosts: &[String], now: Timestamp, before: Option<&Certificate>) -> Result<Self, CertificateError> {
        let (from, until) = (day(now, -SLACK), day(now, LIFE));
        let authority = authority(from, until)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(hosts.to_vec())?;
        last(&mut params, from, until);
        params.distinguished_name.push(DnType::CommonName, "drover");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &authority)?.pem();
        // The authority's key is not kept: it signs this one certificate.
        let older = before.and_then(|before| first_block(&before.authorities)).unwrap_or_default();
        Ok(Certificate { certificate, key: key.serialize_pem(), authorities: format!("{}{older}", authority.pem()) })
    }

    /// What a Secret holds; none if it is not a certificate for these hosts.
    pub fn read(secret: &Value, hosts: &[String]) -> Option<Self> {
        let text = |key: &str| {
            let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let is_for = secret["metadata"]["annotations"][WEBHOOK] == hosts.join(",");
        let read = Certificate {
            certificate: text(keys::CERTIFICATE)?,
            key: text(keys::KEY)?,
            authorities: text(keys::AUTHORITIES)?,
        };
        (is_for && read.tls().is_ok() && earliest_end(read.authorities.as_bytes()).is_ok()).then_some(read)
    }

    /// When to make another.
    pub fn renew_at(&self) -> Timestamp {
        match earliest_end(self.certificate.as_bytes()) {
            Ok(end) => shifted(end, -RENEW_BEFORE),
            Err(_) => Timestamp::MIN,
        }
    }

    /// The Secret that holds it.
    pub fn secret(&self, namespace: &str, name: &str, hosts: &[String]) -> Value {
        let text = |text: &str| STANDARD.encode(text);
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {
                "name": name, "namespace": namespace,
                "labels": { WEBHOOK: "harvester" }, "annotations": { WEBHOOK: hosts.join(",") },
            },
            "data": {
                keys::CERTIFICATE: text(&self.certificate), keys::KEY: text(&self.key),
                keys::AUTHORITIES: text(&self.authorities),
            },
        })
    }

    pub fn tls(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        let (Ok(chain), Ok(key)) = (chain, key) else { return Err(CertificateError::Strange) };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn authority(from: Date, until: Date) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    last(&mut params, from, until);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    // Two authorities may stand side by side: they are told apart by their names, too.
    params.distinguished_name.push(DnType::CommonName, format!("drover-webhook-{from}"));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// The day of a moment before or after this one.
pub(crate) fn day(now: Timestamp, by: SignedDuration) -> Date {
    shifted(now, by).to_zoned(TimeZone::UTC).date()
}

/// Says from when until when a certificate is good.
pub(crate) fn last(params: &mut CertificateParams, from: Date, until: Date) {
    let moment =
        |date: Date| date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs());
    (params.not_before, params.not_after) = (moment(from), moment(until));
}

fn shifted(moment: Timestamp, by: SignedDuration) -> Timestamp {
    moment.checked_add(by).unwrap_or(moment)
}

/// The first certificate of several.
fn first_block(pem: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let end = pem.find(END)? + END.len();
    Some(&pem[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_certificate_survives_its_secret() {
        let hosts = ["hook.drover.svc".to_owned()];
        let made = Certificate::make(&hosts, noon(), None).unwrap();

        let secret = made.secret("drover", "hook", &hosts);

        assert_eq!(Certificate::read(&secret, &hosts), Some(made));
        assert_eq!(Certificate::read(&secret, &["other.svc".to_owned()]), None);
    }

    #[test]
    fn it_is_made_anew_long_before_it_ends() {
        let made = Certificate::make(&["hook.svc".to_owned()], noon(), None).unwrap();
        assert_eq!(made.renew_at().to_string(), "2026-10-03T00:00:00Z");
    }

    #[test]
    fn the_authority_of_the_one_before_is_trusted_for_one_more_turn() {
        let hosts = ["hook.svc".to_owned()];
        let first = Certificate::make(&hosts, noon(), None).unwrap();
        let second = Certificate::make(&hosts, noon(), Some(&first)).unwrap();
        let third = Certificate::make(&hosts, noon(), Some(&second)).unwrap();

        assert!(second.authorities.contains(first.authorities.trim()));
        assert!(third.authorities.contains(first_block(&second.authorities).unwrap()));
        assert!(!third.authorities.contains(first.authorities.trim()));
    }

    #[test]
    fn a_secret_that_somebody_has_spoilt_is_not_used() {
        let hosts = ["hook.svc".to_owned()];
        let mut secret = Certificate::make(&hosts, noon(), None).unwrap().secret("drover", "hook", &hosts);
        secret["data"]["tls.key"] = json!(STANDARD.encode("nonsense"));
        assert_eq!(Certificate::read(&secret, &hosts), None);
    }
}
