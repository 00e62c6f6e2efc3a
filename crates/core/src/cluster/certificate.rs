//! Until when the certificates in Secrets are good.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use x509_parser::pem::Pem;

/// The key of a certificate in a Secret.
const CERTIFICATE: &str = "tls.crt";

/// What is kept of a Secret whose contents could be read: which keys it has, and the end of its certificate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    pub keys: BTreeSet<String>,
    pub certificate: Option<Result<Timestamp, String>>,
}

impl Contents {
    /// None for a Secret of which only the metadata came.
    pub fn read(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire {
            data: Option<BTreeMap<String, Option<String>>>,
        }
        let data = serde_json::from_slice::<Wire>(json).ok()?.data?;
        let text = data.get(CERTIFICATE).and_then(Option::as_deref);
        let certificate = text.map(|text| match STANDARD.decode(text.trim()) {
            Ok(pem) => earliest_end(&pem),
            Err(_) => Err("it is not base64".to_owned()),
        });
        Some(Contents { keys: data.into_keys().collect(), certificate })
    }
}

/// The earliest end of the certificates in a PEM file.
pub fn earliest_end(pem: &[u8]) -> Result<Timestamp, String> {
    let mut earliest: Option<Timestamp> = None;
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|_| "it is no PEM file".to_owned())?;
        if block.label == "CERTIFICATE" {
            let end = end_of(&block.contents)?;
            earliest = Some(earliest.map_or(end, |earlier| earlier.min(end)));
        }
    }
    earliest.ok_or_else(|| "it holds no certificate".to_owned())
}

/// The end of a certificate in its binary form.
pub fn end_of(der: &[u8]) -> Result<Timestamp, String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).map_err(|_| "it is no certificate".to_owned())?;
    let end = certificate.validity().not_after.timestamp();
    Timestamp::from_second(end).map_err(|_| "its end is no time".to_owned())
}
