//! An explanation as people read it: the cause first, then how it comes to that.

use jiff::{SignedDuration, Timestamp};

use super::{Cause, Certainty, Explanation, Outlook};

impl Explanation {
    /// Several lines; `now` is for ages.
    pub fn text(&self, now: Timestamp) -> String {
        let mut text = format!("{}: {}\n", self.object, self.summary);
        for cause in &self.causes {
            text.push('\n');
            text.push_str(&cause.text(now));
        }
        if !self.unseen.is_empty() {
            text.push_str("\n  could not be looked at:\n");
            self.unseen.iter().for_each(|what| text.push_str(&format!("    {what}\n")));
        }
        text
    }
}

impl Cause {
    fn text(&self, now: Timestamp) -> String {
        let mark = if self.alarm { "!" } else { " " };
        let mut text = format!("{mark} {}\n", self.statement);
        let mut line = |line: String| text.push_str(&format!("    {line}\n"));
        if self.chain.len() > 1 {
            let mut above: Vec<String> = self.chain.iter().rev().map(|step| step.object.to_string()).collect();
            above.dedup();
            if let [_, above @ ..] = above.as_slice()
                && !above.is_empty()
            {
                line(format!("holds up: {}", above.join(" < ")));
            }
        }
        if let Some(since) = self.since {
            line(format!("since {since} ({})", rough(now.duration_since(since))));
        }
        if let Some(deadline) = self.deadline {
            line(format!("until {deadline} at the latest"));
        }
        if !self.costs.is_empty() {
            line(format!("costs: {}", costs(self)));
        }
        if let Some(owner) = &self.owner {
            line(format!("belongs to: {owner}"));
        }
        let certainty = match self.certainty {
            Certainty::Proven => "the objects say so",
            Certainty::Likely => "likely, not proven",
        };
        let outlook = match self.resolves_itself {
            Outlook::Yes => "it resolves itself",
            Outlook::Maybe => "it may resolve itself",
            Outlook::No => "it does not resolve itself",
        };
        line(format!("{certainty}; {outlook}"));
        if let Some(remedy) = &self.remedy {
            line(format!("what would help: {remedy}"));
        }
        text
    }
}

fn costs(cause: &Cause) -> String {
    let costs = &cause.costs;
    let mut parts = Vec::new();
    match costs.out.as_slice() {
        [] => {}
        [node] => parts.push(format!("Node {node} is out of service")),
        nodes => parts.push(format!("{} nodes are out of service ({})", nodes.len(), nodes.join(", "))),
    }
    match costs.waiting {
        0 => {}
        1 => parts.push("1 node waits".to_owned()),
        waiting => parts.push(format!("{waiting} nodes wait")),
    }
    if !costs.phase.is_empty() {
        parts.push(format!("phase {}", costs.phase));
    }
    parts.join(", ")
}

/// A length of time in its largest unit.
pub fn rough(length: SignedDuration) -> String {
    match length.as_secs() {
        ..0 => "not yet, by this clock".to_owned(),
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
