//! Captured clusters, played: what `drover` prints of them, word for word.
//!
//! See `tests/clusters/README.md` for how a case is added.

#[path = "../../../../../tests/clusters/cases.rs"]
mod cases;
mod guests;
mod inside;
mod preflight;
mod why;

use self::cases::{assert_none, differs, folders_with, read};
