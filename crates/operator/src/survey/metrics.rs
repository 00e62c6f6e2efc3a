//! Which outdated APIs have been asked for: API servers count them.

use drover_core::cluster::Unseen;
use serde_json::json;

use super::live::{Arrival, Desk, cause, document};
use crate::api::Api;

const COUNTER: &str = "apiserver_requested_deprecated_apis{";

pub async fn look(api: &Api, desk: Desk) {
    match api.get("/metrics").await {
        Ok(answer) => {
            let text = String::from_utf8_lossy(&answer);
            for (index, fields) in text.lines().filter_map(parse).enumerate() {
                let _ = desk.send(document("DeprecatedRequest", &index.to_string(), fields));
            }
        }
        Err(error) => {
            let unseen = Unseen { kind: "DeprecatedRequest".to_owned(), object: None, cause: cause(&error) };
            let _ = desk.send(Arrival::Unseen(unseen));
        }
    }
}

/// A line of the counter; none for any other line, and for APIs that nobody has removed yet.
fn parse(line: &str) -> Option<serde_json::Value> {
    let labels = line.strip_prefix(COUNTER)?.split_once('}')?.0;
    let label = |name: &str| {
        let (_, rest) = labels.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0)
    };
    let removed = label("removed_release").filter(|release| !release.is_empty())?;
    Some(json!({
        "group": label("group")?, "version": label("version")?, "resource": label("resource")?,
        "removedRelease": removed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_apis_that_will_go_are_told() {
        let line = r#"apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="podsecuritypolicies",subresource="",version="v1beta1"} 1"#;
        let fields = parse(line).unwrap();
        assert_eq!(fields["removedRelease"], "1.25");
        assert_eq!((fields["group"].as_str(), fields["version"].as_str()), (Some("policy"), Some("v1beta1")));

        assert_eq!(parse(&line.replace("1.25", "")), None);
        assert_eq!(parse("apiserver_request_total{group=\"policy\"} 3"), None);
    }
}
