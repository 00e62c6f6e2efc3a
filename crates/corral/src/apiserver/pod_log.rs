//! What the containers of pods have printed. Kept beside the objects, since it is no part of them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use super::{
    object::{Meta, text},
    store::Locked,
};

/// Logs by the pod's key.
#[derive(Default)]
pub(crate) struct PodLogs {
    texts: BTreeMap<String, String>,
    /// Who follows which pod.
    followers: BTreeMap<String, Vec<Waker>>,
}

impl PodLogs {
    /// Adds to a log and hands out whom to wake for it.
    pub fn append(&mut self, pod: &str, text: &str) -> Vec<Waker> {
        self.texts.entry(pod.into()).or_default().push_str(text);
        self.wake(pod)
    }

    pub fn text(&self, pod: &str) -> &str {
        self.texts.get(pod).map(String::as_str).unwrap_or_default()
    }

    /// Forgets the log of a pod that is gone.
    pub fn forget(&mut self, pod: &str) -> Vec<Waker> {
        self.texts.remove(pod);
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

/// The part of a log that `tailLines` and `limitBytes` leave.
pub(crate) fn tail(text: &str, lines: Option<usize>, bytes: Option<usize>) -> &str {
    let text = match lines {
        None => text,
        Some(lines) => {
            let total = text.lines().count();
            let skipped: usize = text.split_inclusive('\n').take(total.saturating_sub(lines)).map(str::len).sum();
            &text[skipped..]
        }
    };
    let mut end = bytes.unwrap_or(text.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A log that is followed until its pod has ended or is gone.
pub(crate) struct LogStream {
    store: Arc<Locked>,
    pod: String,
    uid: String,
    /// What is shown of the log so far, until it is sent.
    start: Bytes,
    sent: usize,
}

impl LogStream {
    /// Sends `start`, then follows the log from its byte `sent` on.
    pub fn new(store: Arc<Locked>, pod: String, uid: String, start: Bytes, sent: usize) -> Self {
        LogStream { store, pod, uid, start, sent }
    }

    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.start.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut self.start)));
        }
        let store = self.store.clone();
        store.with(|store| {
            let news = store.pod_logs.text(&self.pod).get(self.sent..).unwrap_or_default();
            if !news.is_empty() {
                self.sent += news.len();
                return Poll::Ready(Some(Bytes::copy_from_slice(news.as_bytes())));
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

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        assert_eq!(tail("a\nb\nc\n", Some(2), None), "b\nc\n");
        assert_eq!(tail("a\nb", Some(1), None), "b");
        assert_eq!(tail("a\nb\n", Some(9), None), "a\nb\n");
        assert_eq!(tail("a\nb\n", None, Some(3)), "a\nb");
        assert_eq!(tail("größe", None, Some(3)), "gr");
    }
}
