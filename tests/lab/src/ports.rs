//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::error::{Error, Result};

// Below the range from which the kernel takes the ports of outgoing connections (from 32768): while the API server is
// away, a client that dials it again and again would sooner or later be given its very port, and keep it.
const FROM: u16 = 20_000;
const TO: u16 = 32_767;

/// A port that nobody listens on, and that this process has not given out before.
pub(crate) fn free() -> Result<u16> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let span = TO - FROM + 1;
    // Each process begins somewhere else, so that two labs that start at once do not reach for the same ports.
    let offset = std::process::id().wrapping_mul(61) % u32::from(span);
    (0..span)
        .map(|_| {
            let given = GIVEN.fetch_add(1, Ordering::Relaxed);
            let place = (offset + u32::from(given)) % u32::from(span);
            FROM + u16::try_from(place).unwrap_or_default()
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or(Error::NoFreePort { from: FROM, to: TO })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let mut ports: Vec<u16> = (0..50).map(|_| free().unwrap()).collect();
        ports.sort_unstable();
        ports.dedup();

        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| (FROM..=TO).contains(port)));
    }
}
