//! Who may create, change or delete an Upgrade and what it rests on, and why not.
//!
//! The checks are those of Harvester's own webhook, in its words; what they look at is looked at by [`crate::preflight`].
//! Everything here is a function of the object and of what was seen of the cluster, so that a webhook and a controller that
//! has none say the same. All checks that fail are told, not only the first.

mod changes;
mod config;
mod nodes;
pub mod registration;
mod review;
#[cfg(test)]
mod tests;
mod upgrade;

pub use changes::{repository, same_upgrade, upgrade_log, version};
pub use config::setting;
pub use nodes::{join, promotion};
pub use review::{Question, Request, Response, User, answer, reads};
pub use upgrade::{begin, create, delete, pause_map, reads_of_create, update};

/// Why something is not taken, with the HTTP code that says what kind of reason it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

impl Refusal {
    fn new(code: u16, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into() }
    }
}

/// HTTP codes, as Harvester's webhook gives them.
mod codes {
    pub const BAD_REQUEST: u16 = 400;
    pub const CONFLICT: u16 = 409;
    pub const INVALID: u16 = 422;
    pub const INTERNAL: u16 = 500;
}

/// What all checks together say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// It is taken if there is none.
    pub refusals: Vec<Refusal>,
    /// What its author should know although it is taken.
    pub notes: Vec<String>,
}

impl Verdict {
    pub fn is_yes(&self) -> bool {
        self.refusals.is_empty()
    }

    fn no(code: u16, message: impl Into<String>) -> Self {
        Verdict { refusals: vec![Refusal::new(code, message)], notes: Vec::new() }
    }

    fn refuse(&mut self, code: u16, message: impl Into<String>) {
        self.refusals.push(Refusal::new(code, message));
    }

    /// The code of the first check that fails, in the order in which the original looks.
    pub fn code(&self) -> Option<u16> {
        self.refusals.first().map(|refusal| refusal.code)
    }

    /// All refusals in one text: one as it is, several with numbers.
    pub fn message(&self) -> String {
        match &self.refusals[..] {
            [only] => only.message.clone(),
            all => {
                let numbered = all.iter().enumerate();
                let numbered = numbered.map(|(at, refusal)| format!("({}) {}", at + 1, refusal.message));
                numbered.collect::<Vec<_>>().join(" ")
            }
        }
    }
}
