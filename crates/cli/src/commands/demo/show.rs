//! How a demonstration is shown: live on a terminal, as lines elsewhere, or not at all.

use std::io::IsTerminal;

use drover_clock::between;
use drover_core::decision::Wait;
use jiff::Timestamp;

use super::Pace;
use super::picture::{Picture, Transition};
use super::screen::{Layout, Screen};
use crate::args::Format;
use crate::output::print;

#[derive(Debug)]
pub enum Show {
    Screen(Screen),
    /// One line a transition, with the time since the start.
    Lines {
        started: Timestamp,
        width: usize,
    },
    Nothing,
}

impl Show {
    /// In virtual time all is over before anybody could look: lines tell more than a screen that flashes.
    pub fn choose(format: Option<Format>, pace: Pace, layout: Layout) -> Self {
        let is_text = matches!(format, None | Some(Format::Table));
        if pace != Pace::Virtual && std::io::stderr().is_terminal() {
            Show::Screen(Screen::open(layout))
        } else if is_text {
            Show::Lines { started: layout.started, width: layout.width }
        } else {
            Show::Nothing
        }
    }

    /// Whether it has to be drawn again and again.
    pub fn is_live(&self) -> bool {
        matches!(self, Show::Screen(_))
    }

    pub fn transition(&self, transition: &Transition) -> anyhow::Result<()> {
        let Show::Lines { started, width } = self else { return Ok(()) };
        let Transition { at, node, state, version } = transition;
        let seconds = between(*started, *at).as_secs_f64();
        print(&format!("{seconds:>8.1} s  {node:<width$}  {:<12}  {version}\n", state.words()))
    }

    pub fn wait(&self, at: Timestamp, wait: &Wait) -> anyhow::Result<()> {
        let Show::Lines { started, width } = self else { return Ok(()) };
        let seconds = between(*started, at).as_secs_f64();
        print(&format!("{seconds:>8.1} s  {:<width$}  waits: {} ({})\n", "", wait.sentence, wait.reason))
    }

    pub fn draw(&self, picture: &Picture, now: Timestamp) {
        if let Show::Screen(screen) = self {
            screen.draw(picture, now);
        }
    }

    /// Leaves the last picture on the screen; what comes after is told in lines.
    pub fn close(&mut self, picture: &Picture, now: Timestamp) {
        if let Show::Screen(screen) = self {
            screen.close(picture, now);
            *self = Show::Lines { started: screen.layout.started, width: screen.layout.width };
        }
    }

    /// Stops where it is.
    pub fn leave(&self) {
        if let Show::Screen(screen) = self {
            screen.leave();
        }
    }
}
