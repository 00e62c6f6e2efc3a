//! Who this process is in an election.

use std::hash::{BuildHasher, RandomState};

/// The pod's or the machine's name, which people recognise, and a suffix of this process alone: whoever starts again is
/// somebody else, so that nothing an earlier process left under way is taken for its own.
pub fn of_this_process() -> String {
    let pod = std::env::var("POD_NAME").ok();
    let name = pod.filter(|name| !name.is_empty()).unwrap_or_else(hostname);
    format!("{name}-{}", suffix())
}

pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The standard library seeds every hasher at random; no more randomness is needed to tell processes apart.
fn suffix() -> String {
    format!("{:010x}", RandomState::new().hash_one(std::process::id()) >> 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_identities_are_the_same() {
        assert_ne!(suffix(), suffix());
        assert_eq!(suffix().len(), 10);
    }
}
