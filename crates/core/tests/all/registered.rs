//! What the API server is told of whom to ask, as it is written down.

use std::path::Path;

use drover_core::harvester::admission::Question;
use drover_core::harvester::admission::registration::{Place, configuration, path, plural};

use super::captured::cases::differs;

#[test]
fn the_webhook_configurations_are_as_they_are_written_down() {
    let service = Place::Service { namespace: "drover".to_owned(), name: "drover".to_owned() };
    let outside = Place::Url("https://10.0.0.1:9443/".to_owned());
    let mut text = String::new();
    for question in [Question::Mutation, Question::Validation] {
        text.push_str(&format!("==== {} {}\n", plural(question), path(question)));
        for place in [&service, &outside] {
            let whole = configuration(question, place, "an authority");
            text.push_str(&format!("{}\n{}\n", place.hosts().join(" "), serde_json::to_string_pretty(&whole).unwrap()));
        }
    }
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories/webhooks.txt");
    assert_eq!(differs(&written, &text), None);
}

#[test]
fn the_names_that_a_certificate_has_to_be_for_follow_from_the_place() {
    let hosts = |url: &str| Place::Url(url.to_owned()).hosts();
    for (url, host) in [
        ("https://10.0.0.1:9443", "10.0.0.1"),
        ("https://example.com", "example.com"),
        ("https://example.com:9443/a/b", "example.com"),
        ("https://[fd00::1]:9443", "fd00::1"),
        ("example.com:9443", "example.com"),
    ] {
        assert_eq!(hosts(url), [host], "{url}");
    }
}
