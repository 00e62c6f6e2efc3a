//! The version of a Plan, as it appears in labels and image tags, and which of two is lower.

/// Neither a label nor an image tag may hold a `+`, which versions such as `v1.30.4+k3s1` do.
pub fn munge(version: &str) -> String {
    version.replace('+', "-")
}

/// Is `version` surely lower than `than`? Two versions of which one cannot be read have no order.
///
/// A munged `v1.30.4-k3s1` looks like a pre-release and is none: what follows the numbers counts as one only if it says so,
/// such as `rc1`; otherwise it is a build, and builds of one version are ordered, too.
pub fn is_lower(version: &str, than: &str) -> bool {
    matches!((parts(version), parts(than)), (Some(version), Some(than)) if version < than)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Parts {
    numbers: [u64; 3],
    /// A release is higher than all of its pre-releases.
    pre_release: Stage,
    build: Vec<Piece>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Before(Vec<Piece>),
    Release,
}

/// Digits are compared as numbers: `k3s10` is higher than `k3s9`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Number(u64),
    Text(String),
}

fn parts(version: &str) -> Option<Parts> {
    let version = munge(version);
    let version = version.strip_prefix('v').unwrap_or(&version);
    let (core, rest) = version.split_once('-').unwrap_or((version, ""));
    let numbers: Vec<u64> = core.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let numbers = numbers.try_into().ok()?;
    let segments = rest.split('-').filter(|segment| !segment.is_empty());
    let (early, build): (Vec<&str>, Vec<&str>) = segments.partition(|segment| is_pre_release(segment));
    let pre_release = match early.is_empty() {
        true => Stage::Release,
        false => Stage::Before(pieces(&early)),
    };
    Some(Parts { numbers, pre_release, build: pieces(&build) })
}

fn is_pre_release(segment: &str) -> bool {
    ["alpha", "beta", "rc", "pre", "dev", "snapshot"].iter().any(|word| segment.to_lowercase().starts_with(word))
}

fn pieces(segments: &[&str]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for character in segments.join(".").chars() {
        match (pieces.last_mut(), character.to_digit(10)) {
            (Some(Piece::Number(number)), Some(digit)) => {
                *number = number.saturating_mul(10).saturating_add(u64::from(digit));
            }
            (_, Some(digit)) => pieces.push(Piece::Number(u64::from(digit))),
            (Some(Piece::Text(text)), None) => text.push(character),
            (_, None) => pieces.push(Piece::Text(character.to_string())),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plus_becomes_a_dash_and_nothing_else_changes() {
        assert_eq!(munge("v1.2.3+test"), "v1.2.3-test");
        assert_eq!(munge("a+b+c"), "a-b-c");
        assert_eq!(munge("latest"), "latest");
    }

    #[test]
    fn versions_are_ordered_as_their_makers_number_them() {
        let ascending = [
            "v1.26.3-k3s1",
            "v1.30.4-alpha1-k3s1",
            "v1.30.4-rc1-k3s1",
            "v1.30.4-rc2-k3s1",
            "v1.30.4",
            "v1.30.4+k3s1",
            "v1.30.4-k3s2",
            "v1.30.4-k3s10",
            "1.30.10",
            "v1.34.0+rke2r1",
            "v2.0.0",
        ];
        for (index, lower) in ascending.iter().enumerate() {
            for higher in &ascending[index + 1..] {
                assert!(is_lower(lower, higher), "{lower} < {higher}");
                assert!(!is_lower(higher, lower), "{higher} < {lower}");
            }
            assert!(!is_lower(lower, lower), "{lower}");
        }
        assert!(!is_lower("v1.30.4+k3s1", "v1.30.4-k3s1"));
    }

    #[test]
    fn what_is_no_version_has_no_order() {
        for (version, than) in [("stable", "v1.2.3"), ("v1.2.3", "latest"), ("v1.2", "v1.3.0"), ("v1.2.3.4", "v9.0.0")]
        {
            assert!(!is_lower(version, than), "{version} {than}");
        }
    }
}
