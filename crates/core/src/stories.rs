//! Stories of decisions that are held word for word: what was written, and what was waited for, step by step.

use std::path::Path;

/// Compares a story with the one that is written down in `tests/stories`; with `UPDATE=1` it is written down anew.
pub fn hold(name: &str, story: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, story).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (now, before)) in story.lines().zip(written.lines()).enumerate() {
        assert_eq!(now, before, "{}, line {}; if it is meant: UPDATE=1 cargo test story", path.display(), number + 1);
    }
    assert_eq!(story.lines().count(), written.lines().count(), "{}: it is longer or shorter", path.display());
}
