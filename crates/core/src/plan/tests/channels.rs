//! Versions that a channel names.

use super::*;
use crate::decision::Question;
use crate::plan::Answer;

const URL: &str = "https://example.com/stable";

fn followed() -> Cluster {
    three_nodes().spec("version", json!("")).spec("channel", json!(URL))
}

impl Cluster {
    fn heard(mut self, status: u16, location: &str) -> Self {
        let answer = Ok(Answer { status, location: Some(location.to_owned()) });
        let failures = u32::from(status != 302);
        self.heard = Some(Heard { url: URL.to_owned(), at: noon(), pending: false, answer, failures });
        self
    }

    fn followed_before(mut self, version: &str) -> Self {
        self.plan["status"] = json!({
            "latestVersion": version,
            "conditions": [{ "type": "LatestResolved", "status": "True", "reason": "Channel" }],
        });
        self
    }
}

#[test]
fn a_channel_that_was_not_heard_yet_is_asked_and_nothing_else_is_done() {
    let decision = followed().decide();

    assert_eq!(decision.ask, Some(Question { url: URL.to_owned(), latest_version: String::new() }));
    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::VersionUnresolved]);
}

/// An operator that starts anew has heard nothing, and must not forget what its predecessor followed.
#[test]
fn what_is_being_rolled_out_goes_on_until_the_channel_has_answered() {
    let decision = followed().followed_before("v2").decide();

    assert_eq!(decision.ask, Some(Question { url: URL.to_owned(), latest_version: "v2".to_owned() }));
    assert_eq!(purposes(&decision)[0], Purpose::ClaimNodes);
    let status = new_status(&decision);
    assert_eq!(status.latest_version, "v2");
    assert_eq!(condition(&status, conditions::LATEST_RESOLVED).0, "True");
}

#[test]
fn the_version_that_a_channel_names_is_rolled_out() {
    let decision = followed().heard(302, "/tag/v2").decide();

    assert_eq!(decision.ask, None);
    assert_eq!(purposes(&decision)[0], Purpose::ClaimNodes);
    let status = new_status(&decision);
    assert_eq!((status.latest_version.as_str(), status.latest_hash.as_str()), ("v2", hash().as_str()));
    let (resolved, reason, _) = condition(&status, conditions::LATEST_RESOLVED);
    assert_eq!((resolved.as_str(), reason.as_str()), ("True", "Channel"));
    assert!(told(&decision).contains(&"Resolved".to_owned()));
}

#[test]
fn a_channel_is_asked_once_an_interval() {
    let cluster = followed().heard(302, "/tag/v2").published();
    assert_eq!(cluster.decide_at(at("2026-01-01T12:14:59Z")).ask, None);
    assert_eq!(cluster.decide_at(at("2026-01-01T12:14:59Z")).look_again, Some(at("2026-01-01T12:15:00Z")));
    let ask = cluster.decide_at(at("2026-01-01T12:15:00Z")).ask.unwrap();
    assert_eq!(ask.latest_version, "v2");

    assert!(cluster.decide_at(at("2026-01-01T11:00:00Z")).ask.is_some(), "the clock was set back by an hour");

    let mut asked = cluster;
    asked.heard.as_mut().unwrap().pending = true;
    assert_eq!(asked.decide_at(at("2026-01-01T12:15:00Z")).ask, None);
}

#[test]
fn a_channel_that_fails_from_the_start_says_why_and_is_asked_again_soon() {
    let decision = followed().heard(404, "").decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::ChannelFails]);
    let status = new_status(&decision);
    let (resolved, reason, message) = condition(&status, conditions::LATEST_RESOLVED);
    assert_eq!((resolved.as_str(), reason.as_str()), ("False", "Error"));
    assert!(message.contains("404 is not a redirect that names a version"), "{message}");
    assert_eq!(status.latest_version, "");
    assert_eq!(decision.look_again, Some(at("2026-01-01T12:00:15Z")));
    assert_eq!(told(&decision), ["Validated", "ResolveFailed"]);
}

#[test]
fn what_is_being_rolled_out_goes_on_while_the_channel_fails() {
    let cluster = followed().followed_before("v2").heard(503, "");
    let decision = cluster.decide();

    assert_eq!(purposes(&decision)[0], Purpose::ClaimNodes);
    assert_eq!(reasons(&decision)[0], Reason::ChannelFails);
    assert_eq!(condition(&new_status(&decision), conditions::LATEST_RESOLVED).0, "True");
    assert!(told(&decision).contains(&"ResolveFailed".to_owned()));
    let cluster = cluster.after(&decision).published();
    assert!(!told(&cluster.decide()).contains(&"ResolveFailed".to_owned()));
}

#[test]
fn a_channel_that_would_downgrade_is_not_followed_unless_that_is_accepted() {
    let cluster = followed().followed_before("v1.31.2-k3s1").heard(302, "/tag/v1.26.3+k3s1");
    let decision = cluster.decide();
    assert_eq!(reasons(&decision)[0], Reason::ChannelDowngrades);
    assert_eq!(new_status(&decision).latest_version, "v1.31.2-k3s1");

    let accepted = cluster.annotated("drover.dev/accept", "Other, ChannelDowngrade").decide();
    assert_eq!(new_status(&accepted).latest_version, "v1.26.3-k3s1");
}

#[test]
fn another_channel_is_asked_at_once() {
    let decision = followed().heard(302, "/tag/v2").spec("channel", json!("https://example.com/latest")).decide();
    assert_eq!(decision.ask.unwrap().url, "https://example.com/latest");
}

#[test]
fn a_secret_that_changes_between_two_questions_changes_the_hash_at_once() {
    let secret = |data: &str| json!({ "metadata": { "name": "ca", "resourceVersion": "5" }, "data": { "ca": data } });
    let mut cluster = followed().heard(302, "/tag/v2").spec("secrets", json!([{ "name": "ca", "path": "/ca" }]));
    cluster.secrets = vec![secret("YQ==")];
    let before = new_status(&cluster.decide()).latest_hash;
    cluster.secrets = vec![secret("Yg==")];
    assert_ne!(new_status(&cluster.decide()).latest_hash, before);
}
