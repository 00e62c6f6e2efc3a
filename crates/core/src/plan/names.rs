//! Names of the objects that a Plan makes. Each follows from its cause, so making it twice is the same as once.

use sha2::{Digest, Sha256};

use super::hash::LatestHash;

/// The longest name that is also good for a label value and a host name.
const LONGEST: usize = 63;

/// The name of the Job that upgrades `node`, of whose name only the part before the first dot is used. Where another
/// node has the same one, a digest tells them apart.
pub fn job(plan: &str, node: &str, is_shared: bool, hash: &LatestHash) -> String {
    if !is_shared {
        return join(&["apply", plan, "on", short(node), "with", hash.as_str()]);
    }
    let digest = hex(&Sha256::digest(node));
    join(&["apply", plan, "on", short(node), &digest[..5], "with", hash.as_str()])
}

/// The name of a node up to its first dot.
pub fn short(node: &str) -> &str {
    node.split('.').next().unwrap_or(node)
}

/// The name of a node as the value of a label, for which it may be too long.
pub fn label(node: &str) -> String {
    join(&[node])
}

/// The name of the volume that holds a Secret.
pub fn secret_volume(secret: &str) -> String {
    if !secret.contains('.') {
        return join(&["secret", secret]);
    }
    // A Secret's name may hold dots and a volume's may not. The digest keeps `a.b` and `a-b` apart.
    let digest = hex(&Sha256::digest(secret));
    join(&["secret", &secret.replace('.', "-"), &digest[..5]])
}

/// Joins with dashes; a result that is too long is cut and ends in a part of its digest.
pub(crate) fn join(parts: &[&str]) -> String {
    let full = parts.join("-");
    if full.len() <= LONGEST {
        return full;
    }
    let digest = hex(&Sha256::digest(&full));
    // The cut must not leave a name that ends in two dashes or in a dot.
    let (keep, of_digest) = match full.as_bytes()[56] {
        b'a'..=b'z' | b'0'..=b'9' => (57, 5),
        _ => (56, 6),
    };
    let start = String::from_utf8_lossy(&full.as_bytes()[..keep]);
    format!("{start}-{}", &digest[..of_digest])
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Names {
        names: Vec<Name>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Name {
        seen_in: String,
        plan: String,
        node: String,
        hash: String,
        job: String,
    }

    #[test]
    fn jobs_are_named_as_in_the_field() {
        let names: Names = serde_json::from_str(include_str!("testdata/job-names.json")).unwrap();
        assert_eq!(names.names.len(), 5);

        for name in names.names {
            assert_eq!(
                job(&name.plan, &name.node, false, &LatestHash::of_test(&name.hash)),
                name.job,
                "{}",
                name.seen_in
            );
        }
    }

    #[test]
    fn a_domain_in_the_name_of_a_node_is_left_out() {
        let hash = LatestHash::of_test("h");

        assert_eq!(job("p", "prod.test.local", false, &hash), "apply-p-on-prod-with-h");
    }

    #[test]
    fn nodes_with_one_short_name_have_jobs_with_different_names() {
        let hash = LatestHash::of_test("h");
        let names = ["prod.a", "prod.b"].map(|node| job("p", node, true, &hash));

        assert_ne!(names[0], names[1]);
        assert!(names[0].starts_with("apply-p-on-prod-"), "{}", names[0]);
    }

    #[test]
    fn the_name_of_a_node_that_no_label_holds_is_cut() {
        let long = format!("{}.example", "n".repeat(70));

        assert_eq!(label("n1.example"), "n1.example");
        assert_eq!(label(&long).len(), 63);
        assert_ne!(label(&long), label(&format!("{long}.org")));
    }

    #[test]
    fn a_name_of_63_characters_is_kept_and_one_of_64_is_cut() {
        let longest = "x".repeat(63 - "secret-".len());
        assert_eq!(secret_volume(&longest), format!("secret-{longest}"));

        let cut = secret_volume(&format!("{longest}x"));
        assert_eq!(cut.len(), 63);
        assert!(cut.starts_with("secret-xxxx"), "{cut}");
    }

    #[test]
    fn a_cut_name_does_not_end_its_first_part_with_a_dash() {
        let dash_at_56 = format!("{}-{}", "x".repeat(56 - "secret-".len()), "y".repeat(20));

        let cut = secret_volume(&dash_at_56);

        assert_eq!(cut.len(), 63);
        assert!(cut.starts_with(&format!("secret-{}-", "x".repeat(49))), "{cut}");
        assert!(!cut.contains("--"), "{cut}");
    }

    #[test]
    fn the_volume_of_a_secret_with_a_dot_is_a_valid_name_of_its_own() {
        let dotted = secret_volume("ca.crt");

        assert!(!dotted.contains('.'), "{dotted}");
        assert_ne!(dotted, secret_volume("ca-crt"));
    }
}
