//! What decisions rest on besides the objects that are always followed: channels, and the objects that gates are over.

use std::collections::BTreeSet;

use drover_core::decision::Question;
use drover_core::plan::gate::gate_of;
use drover_core::plan::{Answer, Heard, Target};
use jiff::Timestamp;
use tokio::task::AbortHandle;

use super::Engine;
use crate::channels;
use crate::gates::keep;
use crate::inbox::Message;

impl Engine {
    /// Follows the objects that gates of Plans are over, and no others.
    pub(super) fn keep_gates(&mut self) {
        let wanted: BTreeSet<Target> = self.store.plans.by_name.values().filter_map(gate_of).collect();
        self.gates.retain(|target, _| wanted.contains(target));
        let over: Vec<Target> = self.gatekeepers.keys().filter(|target| !wanted.contains(*target)).cloned().collect();
        for target in over {
            self.gatekeepers.remove(&target).iter().for_each(AbortHandle::abort);
        }
        for target in wanted {
            if !self.gatekeepers.contains_key(&target) {
                let keeper = keep(self.hands.api.clone(), self.options.clock, target.clone(), self.inbox.clone());
                self.gatekeepers.insert(target, self.questions.spawn(keeper));
            }
        }
    }

    /// Asks a channel beside everything else: a server that is silent keeps nobody waiting.
    pub(super) fn ask(&mut self, plan: &str, question: Question, now: Timestamp) {
        let before = self.heard.remove(plan).filter(|heard| heard.url == question.url);
        let heard = Heard {
            url: question.url.clone(),
            at: now,
            pending: true,
            failures: before.as_ref().map_or(0, |before| before.failures),
            answer: before.map_or_else(|| Err("it has not answered yet".to_owned()), |before| before.answer),
        };
        self.heard.insert(plan.to_owned(), heard);
        let (api, inbox) = (self.hands.api.clone(), self.inbox.clone());
        let (channels, clock) = (self.options.channels.clone(), self.options.clock);
        let (plan, url) = (plan.to_owned(), question.url.clone());
        self.questions.spawn(async move {
            let cluster = api.uid_of("/api/v1/namespaces/kube-system").await;
            let limit = clock.on_the_wall(channels::TIMEOUT);
            let silent = || Err(format!("no answer within {} s", channels::TIMEOUT.as_secs()));
            let answer =
                tokio::time::timeout(limit, channels.ask(question, cluster)).await.unwrap_or_else(|_| silent());
            // A closed inbox means that the operator has ended, and this question with it.
            let _ = inbox.send(Message::Answered { plan, url, answer });
        });
    }

    pub(super) fn hear(&mut self, plan: String, url: String, answer: Result<Answer, String>) {
        let Some(heard) = self.heard.get_mut(&plan).filter(|heard| heard.url == url) else { return };
        let failed = answer.as_ref().map_err(Clone::clone).and_then(Answer::version).err();
        if let Some(cause) = &failed {
            tracing::warn!("plan {plan}: the channel {url} names no version: {cause}");
        }
        heard.pending = false;
        heard.failures = if failed.is_some() { heard.failures.saturating_add(1) } else { 0 };
        heard.answer = answer;
        // A Plan that comes after this one has to know, too.
        self.wake_all();
    }
}
