//! The bearer token: drawn at random, and never compared in a time that says how much of a guess was right.

use sha2::{Digest, Sha256};
use tokio_rustls::rustls::crypto::ring;

pub struct Token {
    text: String,
    digest: [u8; 32],
}

impl Token {
    /// None if the system gives no random numbers.
    pub fn draw() -> Option<Token> {
        let mut bytes = [0; 32];
        ring::default_provider().secure_random.fill(&mut bytes).ok()?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Token { digest: Sha256::digest(&text).into(), text })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether an Authorization header carries this token.
    pub fn admits(&self, authorization: &str) -> bool {
        let Some((scheme, sent)) = authorization.split_once(' ') else { return false };
        // Digests have one length, whatever was sent, and all of it is compared.
        let sent: [u8; 32] = Sha256::digest(sent.trim()).into();
        let difference = sent.iter().zip(&self.digest).fold(0, |all, (sent, own)| all | (sent ^ own));
        scheme.eq_ignore_ascii_case("bearer") && std::hint::black_box(difference) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_admits_itself_only() {
        let (token, other) = (Token::draw().unwrap(), Token::draw().unwrap());

        assert!(token.admits(&format!("Bearer {}", token.text())));
        assert!(token.admits(&format!("bearer {}", token.text())));
        assert!(!token.admits(&format!("Bearer {}", other.text())));
        assert!(!token.admits(&format!("Basic {}", token.text())));
        assert!(!token.admits(token.text()));
        assert!(!token.admits("Bearer "));
    }
}
