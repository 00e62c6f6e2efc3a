//! Uids and name suffixes that follow from the seed.
//!
//! They depend on the seed and the revision alone, so a store that was saved and loaded goes on as the original would.

use sha2::{Digest, Sha256};

/// What generated names are made of: no vowels and no digits that look like one.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Identities {
    seed: u64,
}

impl Identities {
    pub fn new(seed: u64) -> Self {
        Identities { seed }
    }

    /// The uid of the object that `revision` creates, in the form of a random UUID. The ticket tells apart those that
    /// are on their way at the same time.
    pub fn uid(&self, revision: u64, ticket: u64) -> String {
        let mut bytes = self.draw("uid", revision, ticket);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut uid = String::with_capacity(36);
        for (place, byte) in bytes.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                uid.push('-');
            }
            for digit in [byte >> 4, byte & 15] {
                uid.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        uid
    }

    /// Five letters for a generated name.
    pub fn suffix(&self, revision: u64, attempt: u64) -> String {
        let bytes = self.draw("name", revision, attempt);
        bytes.iter().take(5).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
    }

    fn draw(&self, purpose: &str, revision: u64, attempt: u64) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(revision.to_le_bytes());
        hash.update(attempt.to_le_bytes());
        hash.update(purpose.as_bytes());
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_uid_and_another_seed_another() {
        let uid = Identities::new(7).uid(12, 0);

        assert_eq!(uid, Identities::new(7).uid(12, 0));
        assert_ne!(uid, Identities::new(8).uid(12, 0));
        assert_ne!(uid, Identities::new(7).uid(13, 0));
        assert_ne!(uid, Identities::new(7).uid(12, 1));
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
    }
}
