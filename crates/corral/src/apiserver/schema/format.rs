//! The formats of strings that are checked. Others are allowed, as in the original.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp, civil::Date};

/// Whether a text has a format; true for formats that are not checked.
pub(super) fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" => text.parse::<Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_network(text),
        "uuid" => is_uuid(text),
        _ => true,
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|letter| letter == b'-' || letter.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::has_format;

    #[test]
    fn known_formats_are_checked_and_unknown_ones_are_not() {
        for (format, right, wrong) in [
            ("date-time", "2026-01-01T12:00:00Z", "noon"),
            ("date", "2026-01-01", "2026-13-01"),
            ("byte", "aGk=", "hi!"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("uuid", "c0e48181-8dd4-45e6-87f0-58b43a91f592", "c0e48181"),
        ] {
            assert!(has_format(format, right), "{format} {right}");
            assert!(!has_format(format, wrong), "{format} {wrong}");
        }
        assert!(has_format("colour", "anything"));
    }
}
