//! `$(NAME)` in the values of `spec.postCompleteLabels`, as Kubernetes expands it in the arguments of containers.

/// `$(LATEST_VERSION)` and `$(LATEST_HASH)` become what they name, `$$` becomes `$`; everything else stays.
pub fn expand(text: &str, version: &str, hash: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match name {
                "LATEST_VERSION" => expanded.push_str(version),
                "LATEST_HASH" => expanded.push_str(hash),
                unknown => expanded.push_str(&format!("$({unknown})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_expanded_as_arguments_of_containers_are() {
        for (text, expanded) in [
            ("static-value", "static-value"),
            ("$(LATEST_VERSION)", "v1"),
            ("a-$(LATEST_HASH)-$(LATEST_VERSION)", "a-h-v1"),
            ("$$(LATEST_HASH)", "$(LATEST_HASH)"),
            ("$$$(LATEST_HASH)", "$h"),
            ("$(OTHER)", "$(OTHER)"),
            ("$(LATEST_HASH", "$(LATEST_HASH"),
            ("a$b$", "a$b$"),
        ] {
            assert_eq!(expand(text, "v1", "h"), expanded, "{text}");
        }
    }
}
