//! What the containers of pods have printed. Kept beside the objects, since it is no part of them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::{
    object::{Meta, text},
    request::Query,
    status::{Answer, FieldError, bad_request, invalid},
    store::Locked,
};

/// Logs by the pod's key.
#[derive(Default)]
pub(crate) struct PodLogs {
    logs: BTreeMap<String, Log>,
    /// Who follows which pod.
    followers: BTreeMap<String, Vec<Waker>>,
}

/// What one pod has printed, and when.
#[derive(Default)]
pub(crate) struct Log {
    text: String,
    /// From which byte on something was printed at which moment.
    times: Vec<(usize, Timestamp)>,
}

static NOTHING: Log = Log { text: String::new(), times: vec![] };

impl PodLogs {
    /// Adds to a log and hands out whom to wake for it.
    pub fn append(&mut self, pod: &str, text: &str, at: Timestamp) -> Vec<Waker> {
        let log = self.logs.entry(pod.into()).or_default();
        log.times.push((log.text.len(), at));
        log.text.push_str(text);
        self.wake(pod)
    }

    pub fn log(&self, pod: &str) -> &Log {
        self.logs.get(pod).unwrap_or(&NOTHING)
    }

    pub fn text(&self, pod: &str) -> &str {
        &self.log(pod).text
    }

    /// Forgets the log of a pod that is gone.
    pub fn forget(&mut self, pod: &str) -> Vec<Waker> {
        self.logs.remove(pod);
        self.wake(pod)
    }

    /// Those who follow a pod, to look again.
    pub fn wake(&mut self, pod: &str) -> Vec<Waker> {
        self.followers.remove(pod).unwrap_or_default()
    }

    fn wait(&mut self, pod: &str, waker: &Waker) {
        self.followers.entry(pod.into()).or_default().push(waker.clone());
    }
}

/// Which part of a log is wanted, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogOptions {
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
    since: Option<Timestamp>,
    timestamps: bool,
}

impl LogOptions {
    pub fn read(query: &Query, pod: &str, now: Timestamp) -> Answer<Self> {
        let mut errors = vec![];
        let positive = "must be greater than 0";
        if let Some(lines) = query.tail_lines.filter(|lines| *lines < 0) {
            errors.push(FieldError::invalid("tailLines", &lines.into(), "must be greater than or equal to 0"));
        }
        if let Some(bytes) = query.limit_bytes.filter(|bytes| *bytes < 1) {
            errors.push(FieldError::invalid("limitBytes", &bytes.into(), positive));
        }
        if let Some(seconds) = query.since_seconds.filter(|seconds| *seconds < 1) {
            errors.push(FieldError::invalid("sinceSeconds", &seconds.into(), positive));
        }
        if query.since_seconds.is_some() && !query.since_time.is_empty() {
            errors.push(FieldError::forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
        }
        if !errors.is_empty() {
            return Err(invalid("", "PodLogOptions", pod, &errors));
        }
        let since = match (query.since_seconds, query.since_time.as_str()) {
            (Some(seconds), _) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            (None, "") => None,
            (None, time) => Some(time.parse().map_err(|_| {
                bad_request(format!("parsing time {time:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {time:?}"))
            })?),
        };
        let [tail_lines, limit_bytes] =
            [query.tail_lines, query.limit_bytes].map(|number| number.and_then(|number| usize::try_from(number).ok()));
        Ok(LogOptions { tail_lines, limit_bytes, since, timestamps: query.timestamps })
    }
}

impl Log {
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// The part of the log that the options leave, as they want it.
    pub fn shown(&self, options: &LogOptions) -> String {
        let lines: Vec<_> = self.lines(0, options).collect();
        let skipped = options.tail_lines.map_or(0, |wanted| lines.len().saturating_sub(wanted));
        let mut shown: String = lines.into_iter().skip(skipped).collect();
        let mut end = options.limit_bytes.unwrap_or(shown.len()).min(shown.len());
        while !shown.is_char_boundary(end) {
            end -= 1;
        }
        shown.truncate(end);
        shown
    }

    /// The lines from a byte on, each with its moment if that is wanted.
    fn lines<'a>(&'a self, from: usize, options: &'a LogOptions) -> impl Iterator<Item = String> + 'a {
        let mut place = from;
        let rest = self.text.get(from..).unwrap_or_default();
        rest.split_inclusive('\n').filter_map(move |line| {
            let at = self.times.iter().rev().find(|(start, _)| *start <= place).map(|(_, at)| *at);
            place += line.len();
            if options.since.is_some_and(|since| at.is_some_and(|at| at < since)) {
                return None;
            }
            Some(match at.filter(|_| options.timestamps) {
                Some(at) => format!("{} {line}", at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%9fZ")),
                None => line.to_string(),
            })
        })
    }
}

/// A log that is followed until its pod has ended or is gone.
pub(crate) struct LogStream {
    store: Arc<Locked>,
    pod: String,
    uid: String,
    /// What is shown of the log so far, until it is sent.
    start: Bytes,
    sent: usize,
    options: LogOptions,
}

impl LogStream {
    /// Sends `start`, then follows the log from its byte `sent` on.
    pub fn new(store: Arc<Locked>, pod: String, uid: String, start: Bytes, sent: usize, options: LogOptions) -> Self {
        LogStream { store, pod, uid, start, sent, options }
    }

    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.start.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut self.start)));
        }
        let store = self.store.clone();
        store.with(|store| {
            let log = store.pod_logs.log(&self.pod);
            if log.len() > self.sent {
                let news: String = log.lines(self.sent, &self.options).collect();
                self.sent = log.len();
                return Poll::Ready(Some(Bytes::from(news)));
            }
            let pod = store.find("", "pods").and_then(|pods| pods.objects.get(&*self.pod));
            let running = pod.and_then(|pod| pod.object().ok()).is_some_and(|pod| {
                pod.uid() == self.uid && !matches!(text(&pod, &["status", "phase"]), "Succeeded" | "Failed")
            });
            if !running {
                return Poll::Ready(None);
            }
            store.pod_logs.wait(&self.pod, context.waker());
            Poll::Pending
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed() -> Log {
        let at = |second| Timestamp::from_second(second).unwrap();
        Log { text: "a\nb\nc\n".into(), times: vec![(0, at(10)), (2, at(20)), (4, at(30))] }
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let tail = |lines| LogOptions { tail_lines: Some(lines), ..LogOptions::default() };
        assert_eq!(printed().shown(&tail(2)), "b\nc\n");
        assert_eq!(printed().shown(&tail(9)), "a\nb\nc\n");
        assert_eq!(printed().shown(&LogOptions { limit_bytes: Some(3), ..LogOptions::default() }), "a\nb");
    }

    #[test]
    fn lines_are_as_old_as_what_printed_them() {
        let since = Timestamp::from_second(20).ok();
        assert_eq!(printed().shown(&LogOptions { since, ..LogOptions::default() }), "b\nc\n");
        let options = LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() };
        assert_eq!(printed().shown(&options), "1970-01-01T00:00:30.000000000Z c\n");
    }
}
