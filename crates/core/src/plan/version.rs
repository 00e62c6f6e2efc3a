//! The version of a Plan, as it appears in labels and image tags.

/// Neither a label nor an image tag may hold a `+`, which versions such as `v1.30.4+k3s1` do.
pub fn munge(version: &str) -> String {
    version.replace('+', "-")
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
}
