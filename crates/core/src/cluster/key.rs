//! Which keys belong together: a certificate or a public key, and a private one.
//!
//! Nothing is signed for it: what is public of a private key stands beside it in the forms that kubeadm and Cluster API write.

use x509_parser::pem::Pem;

/// Tags of DER.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// Of the public part in the private key of an elliptic curve (RFC 5915).
const PUBLIC_PART: u8 = 0xa1;

/// What is public of the first key or certificate in a PEM file; none where the form of the key does not tell. Says why it cannot be read.
pub fn public_part(pem: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let block = Pem::iter_from_buffer(pem).next().and_then(Result::ok).ok_or("it is no PEM file")?;
    let der = block.contents.as_slice();
    let part = match block.label.as_str() {
        "CERTIFICATE" => {
            let (_, certificate) = x509_parser::parse_x509_certificate(der).map_err(|_| "it is no certificate")?;
            of_public_key_info(certificate.public_key().raw)
        }
        "PUBLIC KEY" => of_public_key_info(der),
        "RSA PUBLIC KEY" => modulus(der, 0),
        "RSA PRIVATE KEY" => modulus(der, 1),
        "EC PRIVATE KEY" => return of_curve(der).ok_or_else(|| "it is no key".to_owned()),
        "PRIVATE KEY" => return of_private_key_info(der).ok_or_else(|| "it is no key".to_owned()),
        // Whoever uses it may know what to do with it.
        _ => return Ok(None),
    };
    part.map(Some).ok_or_else(|| "it is no key".to_owned())
}

/// `SubjectPublicKeyInfo` (RFC 5280): an algorithm and bits, which hold the numbers of RSA or a point.
fn of_public_key_info(der: &[u8]) -> Option<Vec<u8>> {
    let parts = within(der)?;
    let bits = parts.get(1).filter(|(tag, _)| *tag == BIT_STRING)?.1.split_first()?.1;
    Some(modulus(bits, 0).unwrap_or_else(|| bits.to_vec()))
}

/// `PrivateKeyInfo` (RFC 5208): the same keys, wrapped. That of Ed25519 tells nothing public.
fn of_private_key_info(der: &[u8]) -> Option<Option<Vec<u8>>> {
    let parts = within(der)?;
    let inner = parts.get(2).filter(|(tag, _)| *tag == OCTET_STRING)?.1;
    Some(modulus(inner, 1).or_else(|| of_curve(inner).flatten()))
}

/// The outer none: it is no such key. The inner one: it does not tell.
fn of_curve(der: &[u8]) -> Option<Option<Vec<u8>>> {
    let parts = within(der)?;
    parts.get(1).filter(|(tag, _)| *tag == OCTET_STRING)?;
    let public = parts.iter().find(|(tag, _)| *tag == PUBLIC_PART);
    let bits = public.and_then(|(_, content)| elements(content)).and_then(|inner| inner.first().copied());
    Some(bits.and_then(|(_, bits)| Some(bits.split_first()?.1.to_vec())))
}

/// The modulus of RSA, which stands at this place among the numbers of a key.
fn modulus(der: &[u8], place: usize) -> Option<Vec<u8>> {
    let numbers = within(der)?;
    let is_key = numbers.len() > place + 1 && numbers.iter().all(|(tag, _)| *tag == INTEGER);
    let (_, number) = numbers.get(place).filter(|_| is_key)?;
    // A number of DER has a zero in front of it where it would be negative otherwise.
    let first = number.iter().position(|byte| *byte != 0)?;
    Some(number[first..].to_vec())
}

/// What a sequence consists of.
fn within(der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    match elements(der)?.as_slice() {
        [(SEQUENCE, content)] => elements(content),
        _ => None,
    }
}

/// Tags and contents, one after the other.
fn elements(mut der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    while let [tag, length, rest @ ..] = der {
        let (length, rest) = match usize::from(*length) {
            short @ 0..0x80 => (short, rest),
            long => {
                let (bytes, rest) = rest.split_at_checked(long & 0x7f).filter(|(bytes, _)| bytes.len() <= 4)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        found.push((*tag, content));
        der = rest;
    }
    der.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! key {
        ($name:literal) => {
            include_bytes!(concat!("../../testdata/keys/", $name)).as_slice()
        };
    }

    #[test]
    fn what_belongs_together_has_the_same_public_part_in_whatever_form() {
        let rsa = [key!("rsa.crt"), key!("rsa.key"), key!("rsa-pkcs8.key"), key!("rsa.pub"), key!("rsa-pkcs1.pub")];
        let curve = [key!("ec.crt"), key!("ec.key"), key!("ec-pkcs8.key")];
        for family in [&rsa[..], &curve[..]] {
            let first = public_part(family[0]).unwrap().unwrap();
            assert!(family.iter().all(|pem| public_part(pem).unwrap().as_ref() == Some(&first)));
        }
        assert_ne!(public_part(rsa[0]), public_part(curve[0]));
    }

    #[test]
    fn what_does_not_tell_is_not_held_against_anybody_and_what_is_no_key_is_named() {
        assert_eq!(public_part(key!("ed25519.key")), Ok(None));
        assert_eq!(
            public_part(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
            Ok(None)
        );
        assert_eq!(public_part(b"words"), Err("it is no PEM file".to_owned()));
        for label in ["RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY", "PUBLIC KEY", "RSA PUBLIC KEY"] {
            let cut = format!("-----BEGIN {label}-----\nMIIBAAAA\n-----END {label}-----\n");
            assert_eq!(public_part(cut.as_bytes()), Err("it is no key".to_owned()), "{label}");
        }
    }
}
