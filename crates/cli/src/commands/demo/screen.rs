//! The progress display on a terminal: a row a node, a bar for the whole, and what is waited for.
//!
//! All of it is one text that is drawn at once, and it always has the same number of rows: nothing jumps.

use std::time::Duration;

use console::{Style, Term, truncate_str};
use drover_clock::between;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::picture::{NodePicture, Picture, State};

/// More nodes than this do not get a row each.
const NODE_ROWS: usize = 12;
const WAIT_ROWS: usize = 3;
const BAR_WIDTH: usize = 36;

#[derive(Debug)]
pub struct Screen {
    region: ProgressBar,
    pub layout: Layout,
}

impl Screen {
    pub fn open(layout: Layout) -> Self {
        let region = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            region.set_style(style);
        }
        Screen { region, layout }
    }

    pub fn draw(&self, picture: &Picture, now: Timestamp) {
        let text = self.text(picture, now);
        if self.region.message() != text {
            self.region.set_message(text);
        }
    }

    /// Leaves the last state on the screen, and the cursor below it.
    pub fn close(&self, picture: &Picture, now: Timestamp) {
        let text = self.text(picture, now);
        self.region.abandon_with_message(text.trim_end().to_owned());
        // A terminal that has gone shows nothing anyway.
        let _ = Term::stderr().write_line("");
    }

    /// Leaves the screen as it is. After Ctrl-C the terminal's own `^C` has moved the cursor, and drawing again would
    /// miss the first row.
    pub fn leave(&self) {
        self.region.set_draw_target(ProgressDrawTarget::hidden());
        let _ = Term::stderr().write_line("");
    }

    fn text(&self, picture: &Picture, now: Timestamp) -> String {
        let width = usize::from(Term::stderr().size().1).saturating_sub(1);
        let rows = self.layout.rows(picture, now);
        rows.iter().map(|row| truncate_str(row, width, "…").into_owned()).collect::<Vec<String>>().join("\n")
    }
}

/// What the rows say, apart from any terminal.
#[derive(Debug)]
pub struct Layout {
    pub started: Timestamp,
    pub nodes: usize,
    pub target: String,
    /// Of the longest name of a node.
    pub width: usize,
}

impl Layout {
    pub fn rows(&self, picture: &Picture, now: Timestamp) -> Vec<String> {
        let mut rows = self.node_rows(picture, now);
        rows.push(String::new());
        rows.push(self.bar(picture, now));
        rows.push(String::new());
        rows.extend(self.wait_rows(picture));
        rows
    }

    fn node_rows(&self, picture: &Picture, now: Timestamp) -> Vec<String> {
        let mut nodes: Vec<(&String, &NodePicture)> = picture.nodes.iter().collect();
        let hidden = nodes.len().saturating_sub(NODE_ROWS);
        // node-2 before node-10.
        nodes.sort_by_key(|(name, _)| (name.len(), *name));
        if hidden > 0 {
            // Those that are out come first, then the next ones.
            nodes.sort_by_key(|(_, node)| match node.state {
                State::Waiting => 1,
                State::Upgraded => 2,
                _ => 0,
            });
            nodes.truncate(NODE_ROWS - 1);
        }
        let mut rows: Vec<String> = nodes.iter().map(|(name, node)| self.node_row(name, node, now)).collect();
        if hidden > 0 {
            rows.push(format!("  … and {} others", hidden + 1));
        }
        rows
    }

    fn node_row(&self, name: &str, node: &NodePicture, now: Timestamp) -> String {
        let width = self.width;
        let (sign, style) = look(node.state);
        let style = style.for_stderr();
        let state = style.apply_to(format!("{sign} {:<12}", node.state.words()));
        let versions = match node.state {
            State::Waiting | State::Upgraded => node.version.clone(),
            _ if node.version == self.target => node.version.clone(),
            _ => format!("{} → {}", node.version, self.target),
        };
        let column = 2 * self.target.chars().count() + 3;
        let time = match node.state {
            State::Waiting => String::new(),
            State::Upgraded => node.took().map(clock_time).unwrap_or_default(),
            _ => node.taken.map(|taken| clock_time(between(taken, now))).unwrap_or_default(),
        };
        format!("  {name:<width$}  {state}  {versions:<column$}  {time:>7}")
    }

    fn bar(&self, picture: &Picture, now: Timestamp) -> String {
        let whole = (self.nodes * FULL).max(1);
        let done: usize = picture.nodes.values().map(|node| share(node.state)).sum();
        let filled = (done * BAR_WIDTH / whole).min(BAR_WIDTH);
        let full = Style::new().green().for_stderr().apply_to("━".repeat(filled));
        let rest = Style::new().dim().for_stderr().apply_to("─".repeat(BAR_WIDTH - filled));
        let time = clock_time(between(self.started, now));
        format!("  {full}{rest}  {} of {} nodes  {time:>7}", picture.upgraded(), self.nodes)
    }

    fn wait_rows(&self, picture: &Picture) -> Vec<String> {
        let waits: Vec<_> = picture.open_waits().collect();
        let shown = if waits.len() > WAIT_ROWS { WAIT_ROWS - 1 } else { waits.len() };
        let dim = Style::new().dim().for_stderr();
        let mut rows: Vec<String> = waits
            .iter()
            .take(shown)
            .map(|wait| {
                let since = clock_time(between(self.started, wait.since));
                let why = dim.apply_to(format!("{} since {since}:", wait.reason));
                format!("  {why} {}", wait.sentence)
            })
            .collect();
        if waits.len() > shown {
            rows.push(format!("  … and {} other waits", waits.len() - shown));
        }
        rows.resize(WAIT_ROWS, String::new());
        rows
    }
}

/// How much of a node's upgrade is done, out of [`FULL`].
fn share(state: State) -> usize {
    match state {
        State::Waiting => 0,
        State::Claimed | State::Cordoned => 1,
        State::JobRunning | State::JobFailed => 3,
        State::NotReady => 5,
        State::JobComplete => 7,
        State::Upgraded => FULL,
    }
}
const FULL: usize = 8;

fn look(state: State) -> (char, Style) {
    match state {
        State::Waiting => ('○', Style::new().dim()),
        State::Claimed | State::Cordoned => ('◔', Style::new().yellow()),
        State::JobRunning => ('◑', Style::new().cyan()),
        State::JobFailed => ('✖', Style::new().red()),
        State::NotReady => ('◌', Style::new().magenta()),
        State::JobComplete => ('◕', Style::new().cyan()),
        State::Upgraded => ('✔', Style::new().green()),
    }
}

/// `0:07`, `12:34`, `1:02:03`
pub fn clock_time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use drover_core::decision::{Kind, Reason, Subject, Wait};
    use serde_json::json;

    use super::super::picture::Sight;
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn sight(seconds: i64, kind: Kind, object: serde_json::Value) -> Sight {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        Sight { at: at(seconds), kind, name, json: Some(object.to_string().into_bytes()) }
    }

    fn node(name: &str, labels: serde_json::Value, cordoned: bool, version: &str) -> serde_json::Value {
        json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "unschedulable": cordoned },
            "status": { "nodeInfo": { "kubeletVersion": version } },
        })
    }

    fn layout(nodes: usize) -> Layout {
        // Also where the tests run on a terminal.
        console::set_colors_enabled_stderr(false);
        Layout { started: at(0), nodes, target: "v1.34.0".to_owned(), width: 6 }
    }

    fn with_nodes(count: usize) -> Picture {
        let mut picture = Picture::of_plan("up");
        let plan = json!({ "metadata": { "name": "up" }, "spec": {}, "status": { "latestHash": "h" } });
        picture.see(&sight(0, Kind::Plan, plan));
        for number in 1..=count {
            picture.see(&sight(0, Kind::Node, node(&format!("node-{number}"), json!({}), false, "v1.33.0")));
        }
        picture
    }

    #[test]
    fn rows_are_aligned_and_say_how_far_each_node_is() {
        let mut picture = with_nodes(3);
        let claimed = json!({ "drover.dev/claim": "c" });
        picture.see(&sight(5, Kind::Node, node("node-1", claimed.clone(), true, "v1.33.0")));
        let done = json!({ "plan.upgrade.cattle.io/up": "h" });
        picture.see(&sight(95, Kind::Node, node("node-1", done, false, "v1.34.0")));
        picture.see(&sight(96, Kind::Node, node("node-2", claimed, true, "v1.33.0")));
        let wait =
            Wait::new(Subject::plan("ns", "up"), Reason::ConcurrencyReached, "the other nodes wait for node-2", at(96));
        picture.hear(at(96), &[wait]);

        assert_eq!(
            layout(3).rows(&picture, at(100)),
            [
                "  node-1  ✔ upgraded      v1.34.0               1:30",
                "  node-2  ◔ cordoned      v1.33.0 → v1.34.0     0:04",
                "  node-3  ○ waiting       v1.33.0                   ",
                "",
                "  ━━━━━━━━━━━━━───────────────────────  1 of 3 nodes     1:40",
                "",
                "  ConcurrencyReached since 1:36: the other nodes wait for node-2",
                "",
                "",
            ]
        );
    }

    #[test]
    fn many_nodes_and_waits_take_no_more_rows_than_fit() {
        let mut picture = with_nodes(40);
        picture.see(&sight(5, Kind::Node, node("node-7", json!({ "drover.dev/claim": "c" }), true, "v1.33.0")));
        let wait = |number: usize| {
            Wait::new(Subject::node(&number.to_string()), Reason::NodeNotReady, format!("wait {number}"), at(1))
        };
        picture.hear(at(1), &[wait(1), wait(2), wait(3), wait(4)]);

        let rows = layout(40).rows(&picture, at(9));

        assert_eq!(rows.len(), NODE_ROWS + 3 + WAIT_ROWS);
        assert!(rows[0].contains("node-7"), "the node that is out comes first: {}", rows[0]);
        assert_eq!(rows[NODE_ROWS - 1], "  … and 29 others");
        assert_eq!(rows.last().unwrap(), "  … and 2 other waits");
    }

    #[test]
    fn times_read_as_on_a_clock() {
        assert_eq!(clock_time(Duration::from_secs(7)), "0:07");
        assert_eq!(clock_time(Duration::from_secs(754)), "12:34");
        assert_eq!(clock_time(Duration::from_secs(3723)), "1:02:03");
    }
}
