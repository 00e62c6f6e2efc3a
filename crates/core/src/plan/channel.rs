//! Which version does a channel name?
//!
//! A channel is a URL that answers with a redirect whose last path element is the version. The question is part of a decision
//! and the answer part of what is seen: nothing here talks to a server.

use drover_api::marks;
use drover_api::plan::conditions;
use drover_api::plan::events::VersionSource;
use jiff::{SignedDuration, Timestamp};

use super::decide::{View, Wish};
use super::syntax::label_value_problem;
use super::version::{is_lower, munge};
use crate::accepted::codes;
use crate::decision::{Question, Reason, Wait};
use crate::seen::PlanSeen;

/// The pause after the first failed question; it doubles up to the interval.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// What was last heard of a Plan's channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub url: String,
    /// When it was asked.
    pub at: Timestamp,
    /// No answer is here yet.
    pub pending: bool,
    /// The answer, or why there is none.
    pub answer: Result<Answer, String>,
    /// How many questions in a row brought no version.
    pub failures: u32,
}

/// An HTTP answer, as far as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub location: Option<String>,
}

impl Answer {
    /// Only a 302 is an answer: whatever else a server may say, it does not name a version.
    pub fn version(&self) -> Result<String, String> {
        let location = match (self.status, &self.location) {
            (302, Some(location)) => location,
            (302, None) => return Err("the answer is a redirect to nowhere".to_owned()),
            (status, _) => {
                return Err(format!("unexpected response: {status} is not a redirect that names a version (302)"));
            }
        };
        let last = path(location).trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let version = munge(&percent_decoded(&last));
        if version.is_empty() {
            return Err(format!("the answer is a redirect to {location:?}, which names no version"));
        }
        match label_value_problem(&version) {
            Some(problem) => Err(format!("the answer names version {version:?}, which cannot be a label, {problem}")),
            None => Ok(version),
        }
    }
}

/// The path of a URL, or of a reference without scheme and host.
fn path(location: &str) -> &str {
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let location = &location[..end];
    match location.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None => location,
    }
}

fn percent_decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let decoded = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fills in what the channel says: a version, or why there is none; and when it is to be asked.
pub(super) fn resolve(view: &View<'_>, url: &str, now: Timestamp, wish: Wish) -> Wish {
    let plan = view.plan;
    let followed = followed(plan);
    let question = Question { url: url.to_owned(), latest_version: plan.status.latest_version.clone() };
    let wish = Wish { source: VersionSource::Channel, ..wish };
    let Some(heard) = view.channels.get(&plan.meta.name).filter(|heard| heard.url == url) else {
        // Whoever starts anew has heard nothing: forgetting what was followed would make a downgrade look like a beginning.
        let unheard = || unresolved(plan, &format!("the channel {url} has not answered yet"), now);
        let version = followed.map(str::to_owned).ok_or_else(unheard);
        return Wish { version, ask: Some(question), ..wish };
    };
    let due = heard.at.checked_add(pause(heard, view.poll_interval)).unwrap_or(Timestamp::MAX);
    // A clock that was set back would otherwise keep silent for as long as that.
    let is_due = !heard.pending && (now >= due || now < heard.at);
    let wish = Wish { ask: is_due.then_some(question), look_again: (!heard.pending && !is_due).then_some(due), ..wish };
    match heard.answer.as_ref().map_err(Clone::clone).and_then(Answer::version) {
        Ok(version) if followed.is_some_and(|known| is_lower(&version, known)) && !is_downgrade_accepted(plan) => {
            let known = followed.unwrap_or_default();
            let wait = downgrade(plan, url, &version, known, now);
            Wish { version: Ok(known.to_owned()), channel: Some(wait), ..wish }
        }
        Ok(version) => Wish { version: Ok(version), ..wish },
        Err(cause) => {
            let sentence = conditions::channel_failed(&cause);
            let wait = Wait::new(plan.subject(), Reason::ChannelFails, sentence, now)
                .with_remedy(format!("see what {url} answers, or set spec.version"));
            match followed {
                // What was being rolled out goes on.
                Some(known) => Wish { version: Ok(known.to_owned()), channel: Some(wait), ..wish },
                None => Wish { version: Err(wait), ..wish },
            }
        }
    }
}

pub(super) fn unresolved(plan: &PlanSeen, sentence: &str, now: Timestamp) -> Wait {
    Wait::new(plan.subject(), Reason::VersionUnresolved, sentence, now).with_remedy("set spec.version")
}

/// The version that the Plan has followed so far. It is known from nowhere else: a channel does not say what it said before.
fn followed(plan: &PlanSeen) -> Option<&str> {
    let resolved = plan
        .status
        .conditions
        .iter()
        .any(|condition| condition.type_ == conditions::LATEST_RESOLVED && condition.status == conditions::TRUE);
    Some(plan.status.latest_version.as_str()).filter(|version| resolved && !version.is_empty())
}

fn is_downgrade_accepted(plan: &PlanSeen) -> bool {
    codes(&plan.meta.annotations).contains(marks::CHANNEL_DOWNGRADE)
}

fn downgrade(plan: &PlanSeen, url: &str, version: &str, known: &str, now: Timestamp) -> Wait {
    let sentence = format!("the channel {url} names {version}, which is lower than {known}: it is not followed");
    let remedy = format!(
        "if it is meant: kubectl annotate -n {} plans.upgrade.cattle.io {} {}={}",
        plan.meta.namespace,
        plan.meta.name,
        marks::ACCEPT,
        marks::CHANNEL_DOWNGRADE
    );
    Wait::new(plan.subject(), Reason::ChannelDowngrades, sentence, now).with_remedy(remedy)
}

/// Once an interval; after a failure sooner, so that a server that was away for a moment does not cost a whole one.
fn pause(heard: &Heard, interval: SignedDuration) -> SignedDuration {
    match heard.failures {
        0 => interval,
        failures => FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(10)).min(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(status: u16, location: &str) -> Result<String, String> {
        Answer { status, location: Some(location.to_owned()).filter(|text| !text.is_empty()) }.version()
    }

    #[test]
    fn a_redirect_names_the_version_with_its_last_path_element() {
        for (location, version) in [
            ("/local/test", "test"),
            ("/local", "local"),
            ("https://example.com/local/test/v1.2.3+test", "v1.2.3-test"),
            ("https://example.com/rel/tag/v2.0.0/", "v2.0.0"),
            ("https://example.com/tag/v1.2.3%2Bk3s1?x=/y#z/w", "v1.2.3-k3s1"),
            ("v3", "v3"),
        ] {
            assert_eq!(named(302, location).unwrap(), version, "{location}");
        }
    }

    #[test]
    fn whatever_is_not_a_302_is_no_answer() {
        for status in [200, 301, 303, 307, 308, 404, 503] {
            let problem = named(status, "https://example.com/v1").unwrap_err();
            assert!(problem.contains("not a redirect that names a version"), "{problem}");
        }
    }

    #[test]
    fn a_redirect_that_names_no_version_is_no_answer() {
        for location in ["", "https://example.com", "https://example.com/", "/", "https://example.com/a~b"] {
            assert!(named(302, location).is_err(), "{location}");
        }
    }

    #[test]
    fn after_each_failure_twice_as_long_passes_and_never_more_than_an_interval() {
        let pauses = |failures: u32| {
            let answer = Err("away".to_owned());
            let heard = Heard { url: String::new(), at: Timestamp::UNIX_EPOCH, pending: false, answer, failures };
            pause(&heard, SignedDuration::from_hours(24))
        };
        assert_eq!(pauses(0), SignedDuration::from_hours(24));
        assert_eq!([1, 2, 3, 4].map(pauses), [1, 2, 4, 8].map(|times| FIRST_PAUSE * times));
        assert_eq!(
            [11, 12, 90].map(pauses),
            [FIRST_PAUSE * 1024; 3].map(|long| long.min(SignedDuration::from_hours(24)))
        );
    }
}
