//! Tokens of service accounts: what `serviceaccounts/NAME/token` gives out and a socket admits.
//!
//! A token says whose it is and until when it is good, and carries a digest that only a server with the same secret can
//! make.

use std::sync::OnceLock;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    object::{Meta, Object},
    status::{Answer, FieldError, invalid},
};

const PREFIX: &str = "corral";
/// How long a token is good if nobody says, and at least and at most.
const HOUR: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// What makes the tokens of one server different from those of another.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    secret: OnceLock<Vec<u8>>,
}

/// Refuses a request for a token that would not last, or of another account.
pub(crate) fn check(request: &Object, account: &str, seconds: Option<i64>) -> Answer<()> {
    let refused = |name: &str, error: FieldError| Err(invalid("authentication.k8s.io", "TokenRequest", name, &[error]));
    if !request.name().is_empty() && request.name() != account {
        let why = "must match the service account name if specified";
        return refused(account, FieldError::invalid("metadata.name", &json!(request.name()), why));
    }
    let why = match seconds {
        Some(seconds) if seconds < SHORTEST => "may not specify a duration less than 10 minutes",
        Some(seconds) if seconds > LONGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    refused(request.name(), FieldError::invalid("spec.expirationSeconds", &json!(seconds), why))
}

impl Tokens {
    /// Sets what only this server knows; a server that is not reached from outside needs none.
    pub fn set_secret(&self, secret: &[u8]) {
        let _ = self.secret.set(secret.to_vec());
    }

    /// A token for a service account, and until when it is good.
    pub fn issue(&self, namespace: &str, name: &str, seconds: Option<i64>, now: Timestamp) -> (String, Timestamp) {
        let seconds = seconds.unwrap_or(HOUR).clamp(SHORTEST, LONGEST);
        let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        let end = Timestamp::from_second(end.as_second()).unwrap_or(end);
        let claim = URL_SAFE_NO_PAD.encode(format!("{namespace}:{name}:{}", end.as_second()));
        (format!("{PREFIX}.{claim}.{}", self.seal(&claim)), end)
    }

    /// The user whose token it is, if it is a good one.
    pub fn user(&self, token: &str, now: Timestamp) -> Option<String> {
        let mut parts = token.split('.');
        let (prefix, claim, seal) = (parts.next()?, parts.next()?, parts.next()?);
        // Digests have one length, and all of it is compared.
        let sealed = self.seal(claim);
        let same =
            sealed.len() == seal.len() && sealed.bytes().zip(seal.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        if prefix != PREFIX || parts.next().is_some() || !std::hint::black_box(same) {
            return None;
        }
        let claim = String::from_utf8(URL_SAFE_NO_PAD.decode(claim).ok()?).ok()?;
        let mut fields = claim.split(':');
        let (namespace, name, end) = (fields.next()?, fields.next()?, fields.next()?.parse::<i64>().ok()?);
        (now.as_second() < end).then(|| format!("system:serviceaccount:{namespace}:{name}"))
    }

    fn seal(&self, claim: &str) -> String {
        let secret = self.secret.get().map(Vec::as_slice).unwrap_or_default();
        // The secret on both sides: nothing can be appended to what was sealed.
        let inner = Sha256::new().chain_update(secret).chain_update(claim).finalize();
        let seal = Sha256::new().chain_update(secret).chain_update(inner).finalize();
        URL_SAFE_NO_PAD.encode(seal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_its_end_and_only_where_it_was_issued() {
        let (own, other) = (Tokens::default(), Tokens::default());
        own.set_secret(b"mine");
        other.set_secret(b"theirs");
        let noon: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();

        let (token, end) = own.issue("default", "robot", None, noon);

        assert_eq!(end.to_string(), "2026-01-01T13:00:00Z");
        assert_eq!(own.user(&token, noon).as_deref(), Some("system:serviceaccount:default:robot"));
        assert_eq!(own.user(&token, end), None);
        assert_eq!(other.user(&token, noon), None);
        assert_eq!(own.user(&token.replace("corral.", "corral.A"), noon), None);
        assert_eq!(own.user("", noon), None);
    }
}
