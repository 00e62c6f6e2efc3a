//! References to container images, as Docker reads and shortens them.

const HUB: &str = "docker.io";
const OFFICIAL: &str = "library/";
const LONGEST_PATH: usize = 255;

/// The image with `tag`, in its short form, if it has neither tag nor digest. Otherwise, or if one of both is not
/// valid, the image as it is: the kubelet will say what is wrong with it.
pub fn with_tag(image: &str, tag: &str) -> String {
    match untagged(image) {
        Some(name) if is_tag(tag) => format!("{name}:{tag}"),
        _ => image.to_owned(),
    }
}

/// The short name of a valid reference that has neither tag nor digest.
fn untagged(image: &str) -> Option<String> {
    // Sixty-four hexadecimal digits are the id of an image, never a name.
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let (domain, path) = split(image);
    let valid =
        (is_domain(domain) || is_component(domain)) && path.split('/').all(is_component) && path.len() <= LONGEST_PATH;
    if !valid {
        return None;
    }
    match path.strip_prefix(OFFICIAL) {
        Some(name) if domain == HUB && !name.contains('/') => Some(name.to_owned()),
        _ if domain == HUB => Some(path.to_owned()),
        _ => Some(format!("{domain}/{path}")),
    }
}

/// Registry and path. Only a first element that cannot be part of a path is a registry; else it is Docker's hub.
fn split(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some(("index.docker.io", path)) => (HUB, path),
        Some((first, path)) if first == "localhost" || first.contains(['.', ':']) || has_upper_case(first) => {
            (first, path)
        }
        _ => (HUB, image),
    }
}

fn has_upper_case(text: &str) -> bool {
    text.chars().any(char::is_uppercase)
}

/// A host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_ip6 = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|address| !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'));
    let is_host_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    (is_ip6 || host.split('.').all(is_host_part)) && port.is_none_or(is_port)
}

/// Lower-case letters and digits, with one dot, one or two underscores, or any number of dashes between them.
fn is_component(component: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators_are_good = component
        .split(is_letter)
        .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-'));
    component.starts_with(is_letter) && component.ends_with(is_letter) && separators_are_good
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.starts_with(is_word) && tag.len() <= 128 && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_gets_the_version() {
        for (image, tagged) in [
            ("test/image", "test/image:v1"),
            ("img.example.com:5000/test/image", "img.example.com:5000/test/image:v1"),
            ("alpine", "alpine:v1"),
            ("docker.io/library/alpine", "alpine:v1"),
            ("library/alpine", "alpine:v1"),
            ("docker.io/library/a/b", "library/a/b:v1"),
            ("quay.io/library/alpine", "quay.io/library/alpine:v1"),
            ("index.docker.io/alpine", "alpine:v1"),
            ("docker.io/rancher/k3s-upgrade", "rancher/k3s-upgrade:v1"),
            ("localhost/x", "localhost/x:v1"),
            ("reg:5000/x/y", "reg:5000/x/y:v1"),
            ("[::1]:5000/x", "[::1]:5000/x:v1"),
            ("[fd00::1]/x", "[fd00::1]/x:v1"),
            ("MyHost/x", "MyHost/x:v1"),
            ("a__b/c--d/e.f", "a__b/c--d/e.f:v1"),
        ] {
            assert_eq!(with_tag(image, "v1"), tagged);
        }
    }

    #[test]
    fn an_image_with_a_tag_or_digest_is_left_alone() {
        let digest = format!("alpine@sha256:{}", "a".repeat(64));
        for image in
            ["test/image:test-with-image-tag", "img.example.com:5000/test/image:test-with-image-tag", "a:1", &digest]
        {
            assert_eq!(with_tag(image, "v1"), image);
        }
    }

    #[test]
    fn what_docker_cannot_read_is_left_alone() {
        let id = "0123456789abcdef".repeat(4);
        let long = format!("reg.example/{}", "x".repeat(256));
        for image in ["", "Alpine", "a/B", "a//b", "-a", "a..b", "a___b", "reg.example:x/a", "a b", "/a", &id, &long] {
            assert_eq!(with_tag(image, "v1"), image);
        }
        for domain in
            ["-reg.example", "reg-.example", "reg.-example", "reg.example-", "reg.example:", "[]", "[x]", "r_g.e"]
        {
            let image = format!("{domain}/A/b");
            assert_eq!(with_tag(&image, "v1"), image);
            assert!(!is_domain(domain), "{domain}");
        }
    }

    #[test]
    fn a_version_that_is_no_tag_is_not_appended() {
        for version in ["", "v1~2", "-v1", "v1/2", &"x".repeat(129)] {
            assert_eq!(with_tag("alpine", version), "alpine");
        }
    }
}
